//! Pages about what matters for the whole crate: the hazards, and a glossary. There is no code in these
//! modules.
//!
//! The pages have the exact rules, tables and figures. The guide of the repository (`guide/src/SUMMARY.md`)
//! teaches, in the order of a first reading.
//!
//! | page | what it answers |
//! | --- | --- |
//! | [`moving`] | Which calls may move a closure to another OS thread? What is unsound then, and what are the ways out? |
//! | [`os_thread`] | What belongs to the OS thread, and what to the green thread? |
//! | [`blocking`] | What happens to the others while a green thread computes, or blocks its OS thread? |
//! | [`crates`] | How is a well-known crate used here, and what does it cost? |
//! | [`cancellation`] | Which calls does a cancellation or a time-out end? What runs during the unwinding? |
//! | [`deadlock`] | When is it reported that all green threads wait for each other? |
//! | [`dumps`] | What does a dump show of each green thread, and what does a stack need? |
//! | [`inside`] | How are a leak, a deadlock, a hog and a slow handler found in a running program? |
//! | [`debuggers`] | How are green threads seen in gdb and in `perf`? |
//! | [`metrics`] | Which figures are there, and what do Go and tokio call them? |
//! | [`trace`] | What does the flight recorder record? How is a trace read, and what does it cost? |
//! | [`stacks`] | How large is a stack, what does it cost, and what happens when it overflows? |
//! | [`calling`] | Do calls work in wakers, in destructors, after the end of a runtime? |
//! | [`signals`] | What may a signal handler do? |
//! | [`interpose`] | Which calls of libc park with the feature `interpose`? What does it cost, and what must not be done? |
//! | [`threads`] | How do programs of `std::thread` run on green threads as they are? What differs? |
//! | [`fork`] | What may a forked child do? |
//! | [`platforms`] | Where is this crate run, and where only compiled? What differs there? |
//! | [`settings`] | Which environment variables set what, and which setting wins? |
//! | [`glossary`] | What do G, M, P, park, rescue and the other words mean? |

pub mod blocking;
pub mod calling;
pub mod cancellation;
pub mod crates;
pub mod deadlock;
pub mod debuggers;
pub mod dumps;
pub mod fork;
pub mod glossary;
pub mod inside;
pub mod interpose;
pub mod metrics;
pub mod moving;
pub mod os_thread;
pub mod platforms;
pub mod settings;
pub mod signals;
pub mod stacks;
pub mod threads;
pub mod trace;
