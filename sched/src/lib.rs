//! The scheduler: runs green threads (G) on OS threads (M), each of which needs the right to run Gs (P).
//!
//! - A **G** is a green thread: a closure or a future, a word that decides its current wait, and a timer. A G
//!   has a stack only while something lies on that stack. (`g.rs`; the stack in `stack/coro.rs` and
//!   `stack.rs`)
//! - An **M** is an OS thread. The scheduler runs on the M's own stack. The loop in `run/run_loop.rs` resumes
//!   a G, and gets control back together with the reason why the G stopped. (`m.rs`)
//! - A **P** is the right to run Gs. A P has a run queue, a heap of timers and a pool of warm stacks.
//!   (`p.rs`)
//!
//! `ARCHITECTURE.md` has a glossary of every term that these comments use.
//!
//! # The rooms
//!
//! | room | what stands in it |
//! | --- | --- |
//! | `api/` | what `runtime` calls for user code: spawn, join, park, sleep, block_on, values of a thread |
//! | `run/` | choosing a G, running it, waking it; `Sched`; the boundary to user code |
//! | `supply/` | the start of a runtime; the Ms, Ps and stacks that come and go |
//! | `sources/` | what makes Gs ready without a G: timers that fire, the network; wakers of users |
//! | `choices/` | what makes the choices of a simulated scheduler |
//! | `g/` | the data of a G: its wait, token, life, payload, binding; the table of all Gs |
//! | `m/` | the Ms and their threads; plain OS threads; what an M shows of itself; the crowd of computing Gs |
//! | `asleep/` | how an M sleeps and is woken; the idle Ps, the parked Ms, the line for Ps; sysmon's sleep |
//! | `p/` | the Ps: lease, run queue, clock gate, counters, and the seal that they decide |
//! | `stack/` | stacks, coroutines, their pools, and the shortage of them |
//! | `timer/` | heap entries, functions of timers |
//! | `end/` | shutting down; finding a deadlock |
//! | `notes/` | the events of the core for its watchers, and what they leave: counts, notes of hogs |
//! | `watch/` | what `runtime/inspect` sees |
//! | `sys/` | calls of the OS, `fork`, catching panics |
//! | `sync` | atomics and locks, or loom's |
//!
//! A room knows those below it: `sys`, `g`, `stack`, `p`, `asleep`, `m`, `timer`, `notes`, `choices`, then
//! `run`, then `watch`, `supply` and `sources`, then `api` and `end`. No two rooms know each other.
//! The rooms above `run` add methods to `Sched`, and `run` calls these.
//! `ci/layout.sh` checks this.
//!
//! # The life of a G
//!
//! ```text
//!  api/spawn.rs      run/run_loop.rs                   api/park.rs, api/sleep.rs, api/join.rs
//!  G from the pool,  the M takes a stack, lends its P, the G arms a wait, gives its number to a waker, and stops
//!  task in place ──> resumes the G ─────────────────>  │
//!       ^            ^        │ its code runs, P lent  v
//!       │            │        │                 the M commits the wait on its own stack; now a waker may wake the G
//!       │ run/wake.rs│        v                        │
//!       │      ready └── run queue <── decide ─────────┘  (a waker, a timer, the netpoller, cancel)
//!       │                     │ the task ends (run/task.rs)
//!       └── last reference <──┴── result stored, joiner woken, stack to the pool
//! ```
//!
//! # The protocols, each in one file, most with a loom model beside it
//!
//! - `g/wait.rs`: each wait is decided once, by the first waker, and that waker alone makes the G runnable.
//! - `m/thread_parker.rs`: a plain OS thread stays asleep until its waker has finished with it, and stands in
//!   one list at a time.
//! - `g/revocable.rs`: revoking a stretch of code ends each wait in that stretch and no wait after it.
//! - `g/token.rs`: a wake-up that comes before the wait is kept (`unpark`, a future's waker).
//! - `g/life.rs`: counts the references to a G, and lets the end of a G meet its join handle.
//! - `p/lease.rs`: the lent P. An M lends its P when it resumes a G, and every call into the runtime takes
//!   the P back. Sysmon may retake a P that stays lent for too long. (Go treats only system calls so.) A G
//!   that computes or blocks in the kernel therefore delays no other G. If a G calls too often for a retake,
//!   sysmon asks for the P. The way out of the next call then gives the P up. `run/boundary.rs` says what a G
//!   does that has lost its P.
//! - `asleep/in_place.rs`: a late wake-up of an M ends no wait of the G that is parked on it; its waker does,
//!   or the limit.
//! - `notes/capture.rs`: what a signal handler takes for a reader is read whole or not at all.
//! - `m/pause.rs`: an M is paused only in user code without a P and without a lock of the runtime. It goes on
//!   when sysmon lets it go.
//! - `sync/hold.rs`: a thread that has a lock of the runtime, or is about to take it, counts as its holder.
//! - `m/refusal.rs`: sysmon asks again for a thread that was refused, and then finds the P for it.
//! - `asleep/rest.rs`: a G that is bound to an M finds that M awake or wakes it, and that M does not end.
//! - `asleep/wish.rs`: a P that is handed to an M which is being woken has one holder, also if another M
//!   takes it over.
//! - `stack/shortage.rs`: no G waits for a stack while a stack lies idle.
//! - `timer/refcount.rs`: a timer's function runs unless it was stopped, and is dropped once, where user code
//!   may run.
//! - `end/deadlock.rs`: a thread that may still run is never counted as asleep.
//! - `asleep/idle.rs`: no work is stranded. A maker of work publishes the work and then looks for sleeping
//!   Ms. An M announces its sleep and then looks for work. The same holds of an M that ends its watch over
//!   lone Gs.
//! - `watch/samples.rs`: what a signal handler writes for a reader is read whole or lost.
//! - `asleep/alarm.rs`: a timer that relies on the alarm of a parked M is seen by that M.
//! - `asleep/plan.rs`: sysmon looks no later than the requested time, whenever the request comes.
//! - `sources/net_wakers.rs`: a future that waits for the network is woken once, or gives up.
//! - `tls/under.rs`: a block of thread-locals is left before others see that its G has stopped.
//! - `p/closing.rs`: the end of a runtime. Once no G lives, spawns from outside are refused. No M sleeps
//!   through the end.
//!
//! ```text
//!   leaving user code for the runtime             leaving the runtime for user code
//!   enter:  CAS lent -> held                      lend:  store lent, tick + 1
//!     lost: go on without a P                       asked for it: queue up, hand it off, and wait in place
//!                                                   lost: an idle P, else queue up globally and wait in place
//!
//!   adding a timer                                going to sleep in the netpoller
//!   1 insert, publish the heap's first time       1 publish until when
//!   2 fence                                       2 fence
//!   3 a poller sleeps for longer? break that     3 look at all heaps: earlier? publish that
//! ```
//!
//! # Where an M looks for work (`run/find.rs`)
//!
//! 1. The due timers of its own P. Then the joiner of a G that has just ended, which is handed to this M
//!    alone. Then the run-next slot, the woken Gs and the new Gs of its own P, by turns with the Gs bound to
//!    the M.
//! 2. The global queue, then the network.
//! 3. The other Ps. The M spins over them for about 5 us; the last round also takes from run-next slots and
//!    due timers.
//! 4. The M gives its P up and looks at everything once more.
//! 5. The M becomes the one M that blocks in the netpoller until the next timer of all Ps, or parks. If the
//!    M in the netpoller blocks beyond the next timer, the M that parks sets an alarm (`asleep/alarm.rs`).
//!
//! # What blocks what
//!
//! | a G that | blocks its G | its M | its P |
//! | --- | --- | --- | --- |
//! | parks, sleeps, joins, waits for a socket | yes | no | no |
//! | is in `blocking` | yes | yes | no: handed off if work waits, taken within tens of microseconds if it comes later |
//! | computes, or blocks in the kernel outside `blocking` | yes | yes | for 10 ms at most; for 200 us if timers wait |
//! | parks inside a future's poll | yes | no, but only this M resumes it | no |
//! | parks while it is pinned | yes | yes (a timed wait ends without another M), except for Gs that are bound to this M | no |
//! | parks while it unwinds, a closure | yes | as if it were pinned (panics are counted per thread), unless Gs are bound to this M | no |
//!
//! # How many Ms there are
//!
//! | an M is added | and ends |
//! | --- | --- |
//! | when a P is to run and no M is parked (`start_m`): sysmon has taken the P of a G that computes or blocks, or the last M parked with its G | when it was not needed for 5 to 10 s (`end_idle_ms`), except for one M per P and `SPARE_MS` |
//! | by sysmon as a spare, while no P is idle and no M is parked or about to park (`keep_spare_m`) | the same |
//!
//! The Ms at work are at most:
//!
//! - one for each P;
//! - one for each G that keeps its M without a P;
//! - the Ms to which Gs are bound;
//! - the M in the netpoller;
//! - the spare M;
//! - the Ms about to park.
//!
//! `Config::max_threads` limits them all. A crowd of computing Gs takes one M for each G that has begun. Each
//! P adds one M per 10 ms, and one for each timer that was overdue behind a computing G. Most of these Ms are
//! paused (`m/crowd.rs`).
//!
//! # Gs that are bound to their M
//!
//! A poll never changes its OS thread. A G that stops inside a poll is bound to its M until it resumes there
//! (`boundary::stop_at_home`). A G that stops while it unwinds, on an M to which other Gs are bound, is bound
//! too. Strict mode (`Config::strict`) binds each G from its first line on.
//!
//! The queues of the Ps hold only Gs that may run on any M; a future between two polls is such a G. A bound G
//! waits in the queue of its M (`M::home`). The waker that puts the G there wakes that M if the M sleeps
//! (`asleep/rest.rs`). An M that has a G in `home` and finds no idle P joins the line for Ps
//! (`Idle::take_or_want`). Ps are given to that line first, and an M passes its P on after a millisecond. An
//! M to which Gs are bound does not end (`Homes`). While a G is parked in the middle of an unwind, its panics
//! are set aside (`g/panics.rs`).
//!
//! A pinned G keeps other Gs off its OS thread, but not Gs that are bound to its M. The pinned G may wait for
//! one of these. Then the pinned G is bound too and *reserves* the M. A reserved M runs only bound Gs
//! (`run/reserved.rs`).
//!
//! Rejected: parking the M with each bound G, as with a pinned one. Ten thousand polls that park would take
//! ten thousand OS threads.
//!
//! # Where user code runs
//!
//! User code runs on green threads and plain OS threads. User code never runs on an M's own stack, under a
//! lock, or inside the runtime, with one exception. Closures, futures, wakers and destructors may therefore
//! park, panic (`sys/catch_panic.rs`), or return as a forked child (`sys/fork.rs`). `sources/user_code.rs`
//! has the foreign wakers that a timer or the network calls.
//!
//! The exception: no memory may be left for the G that would call a foreign waker. Then the M or sysmon calls
//! that waker at once, on its own stack, inside the runtime and without a lock.
//!
//! # Rejected
//!
//! - *Switching stacks in a signal handler* to preempt: the interrupted code may hold malloc's lock.
//! - *A commit function per primitive*, run on the M's stack (Go's `gopark`): a lock is then held across
//!   every switch. One word per wait serves all primitives.
//! - *Freeing Gs*: a stale waker would touch freed memory. Gs are reused instead, and each wait has a number.
//! - *A join packet in an `Arc`*: costs a malloc and two counts per spawn. Closure and result lie in the G.
//! - *Waking an M for each piece of work, and for each added timer*: a futex wake costs microseconds. Instead
//!   one M spins and promises to look, and an M that adds a timer and then parks finds that timer itself
//!   (`sources/poll.rs`, `ensure_watcher`).
//!
//! # Locks, outer first
//!
//! 1. The lock of a primitive with a wait queue, in the crate above (`runtime/waits`). Under it a wait may
//!    begin, which may allocate the proxy G of a plain OS thread. No G is made runnable under it.
//! 2. The poller of the netpoller.
//! 3. The list of Ms, or the set of retired Ps (`supply/resize.rs`). While stacks are short, the pool of
//!    stacks is locked under these.
//! 4. One of these at a time: the idle lists, the line of Gs that wait for a stack, the global queue, a heap
//!    of timers, the pools, the wakers of futures. Moving one heap of timers into
//!    another locks two heaps.
//!
//! No lock is held while a G is switched or user code runs.

// The models access raw cells by unsafe code; loom checks these accesses.
#![cfg_attr(not(loom), deny(unsafe_code))]
#![cfg_attr(loom, allow(unreachable_pub))]

// The rooms, by role.
#[cfg(not(loom))]
mod api;
#[cfg(not(loom))]
mod asleep;
#[cfg(not(loom))]
mod choices;
#[cfg(not(loom))]
mod end;
#[cfg(not(loom))]
mod g;
#[cfg(not(loom))]
mod m;
#[cfg(loom)]
pub mod modelled;
#[cfg(not(loom))]
mod notes;
#[cfg(not(loom))]
mod p;
#[cfg(not(loom))]
mod run;
#[cfg(not(loom))]
mod sources;
#[cfg(not(loom))]
mod stack;
#[cfg(not(loom))]
mod supply;
#[cfg_attr(loom, allow(dead_code))]
#[doc(hidden)]
pub mod sync;
#[cfg(not(loom))]
mod sys;
#[cfg(not(loom))]
mod timer;
#[cfg(not(loom))]
mod tls;
#[cfg(not(loom))]
mod watch;

#[cfg(all(feature = "interpose", target_os = "linux", not(loom)))]
pub use api::{foreign, std_wait};
#[cfg(all(feature = "other-budget", not(loom)))]
pub use run::other_budget::{OtherBudget, set_other_budget};
#[cfg(windows)]
pub use sys::console;
#[cfg(all(target_os = "linux", target_env = "gnu", not(loom)))]
pub use sys::of_libc::Real;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable)),
    not(loom)
))]
pub use watch::interrupted;
#[cfg(not(loom))]
pub use {
    api::after_func::AfterFunc,
    api::backoff::Backoff,
    api::join::{GHandle, Join},
    api::mask::{contain, drop_contained, set_uncancellable, uncancellable},
    api::monitor::{Look, Monitor},
    api::os_locals::with_os_thread_locals,
    api::wakes::{Wake, Wakes},
    api::{block_on, budget, contexts, labels, locals, park, revocable, shares, sleep, spawn},
    asleep::sysmon::{ASK_AGAIN_NS, OVERDUE_NS},
    end::deadlock::{TEXT as DEADLOCK, set_in_test_harness},
    end::report::set_report,
    g::labels::Labels,
    g::wait::{Cancel, Outcome},
    g::why::{Awaited, On, Why},
    g::{Status, Ticket},
    m::block_on_calls::InBlockOn,
    m::current::current_p,
    m::os_thread::{Around, set_around_park},
    m::service::ServiceThread,
    m::thread_calls::{ThreadCall, ThreadCalls},
    notes::hogs::{HogNotes, Hogging, Noted},
    notes::places::Sums,
    notes::rescue::{Rescue, RescuesAt},
    notes::spawn_stacks::SpawnStacks,
    p::event::{By, Kind, POLLS, Stopped},
    p::histogram::Histogram,
    p::lease::{Seen, State},
    run::case_waker::CaseWaker,
    run::sched::{Attached, Config, MAX_PROCS, Sched, WantedProcs},
    run::task::{After, Cancelled},
    run::wake::wake,
    sources::near::before_wait,
    sources::net_wakers,
    stack::ALLOWED_STACK_BYTES,
    stack::saved::StackCopy,
    supply::start::Remains,
    sys::message::write_message,
    sys::{Doing, fork, privileges, processors_in_set, starting},
    watch::living::{Living, look_at_living},
    watch::look::{Does, Parked, Seen as SeenThread, at_rest, look_at_all},
    watch::memory,
    watch::metrics::{Proc, Snapshot},
    watch::{recorder, user_events},
};
#[cfg(all(unix, not(loom)))]
pub use {stack::last_dump, sys::default_effect};

// What loom builds: the files with protocols, and `sync`. The rooms around them are not built.
#[cfg(loom)]
#[allow(dead_code)]
mod g {
    pub(crate) mod binding;
    pub(crate) mod life;
    pub(crate) mod revocable;
    pub(crate) mod token;
    pub(crate) mod wait;
    pub(crate) mod why;
}
#[cfg(loom)]
#[allow(dead_code)]
mod m {
    pub(crate) mod activity;
    pub(crate) mod pause;
    pub(crate) mod refusal;
    pub(crate) mod std_parker {
        pub(crate) mod word;
    }
    pub(crate) mod thread_parker;
}
#[cfg(loom)]
#[allow(dead_code)]
mod p {
    pub(crate) mod closing;
    pub(crate) mod counters;
    pub(crate) mod event;
    pub(crate) mod lease;
    mod next_slot;
    pub(crate) mod ring;
    mod steal_queue;
}
#[cfg(loom)]
#[allow(dead_code)]
mod asleep {
    pub(crate) mod alarm;
    pub(crate) mod idle;
    pub(crate) mod in_place;
    pub(crate) mod nap;
    pub(crate) mod note {
        pub(crate) mod word;
    }
    pub(crate) mod plan;
    pub(crate) mod rest;
    pub(crate) mod wish;
}
#[cfg(loom)]
#[allow(dead_code)]
mod notes {
    pub(crate) mod capture;
}
#[cfg(loom)]
#[allow(dead_code)]
mod stack {
    pub(crate) mod shortage;
}
#[cfg(loom)]
#[allow(dead_code)]
mod timer {
    pub(crate) mod refcount;
}
#[cfg(loom)]
#[allow(dead_code)]
mod tls {
    pub(crate) mod under;
}
#[cfg(loom)]
#[allow(dead_code)]
mod watch {
    pub(crate) mod samples;
}

/// Schedulers for which a simulation makes the choices.
#[cfg(not(loom))]
pub mod simulation {
    pub use crate::api::node::{gs_of, is_left, leave, leave_myself};
    pub use crate::api::point::{point, point_in_drop, unwind_at_end};
    pub use crate::api::simulation::{
        MAX_CLOCKS, OutsideWait, block, deliver, is_here, is_user_code, now, panics_outside, record_time,
        refuses,
    };
    pub use crate::choices::simulation::{
        Phase, Simulation, node, note_threads_are_caught, set_node, threads_are_caught,
    };
    pub use crate::end::simulated::Ended;
    pub use crate::g::ids::shown;
    pub use crate::run::simulated::{await_main, with};
}

/// Items for the models of other crates, built on loom's threads.
#[cfg(loom)]
pub use {
    g::wait::{Cancel, Outcome},
    g::why::{Awaited, On, Why},
    modelled::{Ticket, Wake, Wakes},
};
/// Items of `park` for the models of other crates.
#[cfg(loom)]
pub mod park {
    pub use crate::modelled::{Waiting, unwind_if_cancelled};
}
