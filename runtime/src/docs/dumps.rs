//! Dumps: what each green thread does, and where it is parked.
//!
//! [`dump()`](crate::dump()) writes a line for each green thread. With the feature `dump-stacks` it also
//! writes the stack of each closure: parked, ready to run, running, or blocked in a system call. No code of a
//! green thread runs for that: its registers and the used part of its stack are enough.
//!
//! # An example
//!
//! Two green threads take two locks in opposite order. A third one goes on, so the program is not
//! [deadlocked](crate::docs::deadlock) as a whole:
//!
#![doc = include_str!("crossed_locks.md")]
//!
//! That each lock names its holder, and that the circle is found, needs
//! [`Builder::track_locks`](crate::Builder::track_locks) or one of the settings that switch it on. See
//! [deadlocks of some](crate::docs::deadlock#of-some).
//!
//! # What each wait is for
//!
//! | a green thread waits for | the dump says |
//! | --- | --- |
//! | a mutex, a read-write lock | its address, the thread that took it, the number of readers, and the waiters |
//! | a channel, a case of a select | its address, its senders and receivers, its messages and its room |
//! | a join, a scope | the green thread; how many green threads of the scope are left |
//! | a socket | its descriptor, whether to read (or accept) or to write (or connect), and its addresses on both sides |
//! | a sleep, a time-out | when its timer is due |
//!
//! # Other forms
//!
//! A [`Snapshot`](crate::dump::Snapshot) has all that as values, and these forms:
//!
//! - [`grouped`](crate::dump::Snapshot::grouped): equal green threads stand together, with their number, as
//!   in Go. This is the form for many green threads.
//! - [`tree`](crate::dump::Snapshot::tree): each green thread stands below the one that spawned it.
//! - [`since`](crate::dump::Snapshot::since): only the green threads that were not there in an earlier
//!   snapshot. It finds green threads that the program starts and never ends.
//! - `to_json`, with the feature `dump-json`.
//! - `to_pprof`, with the feature `dump-pprof`: a profile for `go tool pprof`, grouped by stack.
//!
//! # Which caller has spawned it
//!
//! The line of a green thread has the place of its spawn. Where many callers share that place, such as a
//! function `worker`, set [`Builder::spawn_stacks`](crate::Builder::spawn_stacks) or `RUNTIME_SPAWN_STACKS`.
//! `1` keeps the stack of each spawn, `100` that of one in a hundred. The dump shows it below the green
//! thread's own stack:
//!
//! ```text
//! green thread 3: waits for a channel to receive, for 21 ms (0x7f4890000d80, 1 sender, 1 receiver, 0 of 4 messages), spawned at src/main.rs:8:5 by 1
//!     app::worker::{{closure}}
//!         at src/main.rs:9
//!   spawned by
//!     app::worker
//!         at src/main.rs:8
//!     app::serve_orders
//!         at src/main.rs:17
//!     app::main::{{closure}}
//!         at src/main.rs:4
//! ```
//!
//! # Futures
//!
//! A future has no stack while it waits, so its line has the name of its type. With
//! [`Builder::await_stacks`](crate::Builder::await_stacks) or `RUNTIME_AWAIT_STACKS=on` the dump also shows
//! where it waits: the chain of `await`s, the innermost first. The stack is kept when the future's waker is
//! cloned, so it is there with futures of other crates, too:
//!
//! - Of several branches that wait together, as in `join!` and `select!`, it is that of the branch that has
//!   cloned the waker last.
//! - A branch with a waker of its own, as in `FuturesUnordered`, ends at the place where that waker's owner
//!   has cloned the future's waker.
//! - A future that has cloned an equal waker at an earlier `await` need not clone it again. Then that place
//!   is shown.
//!
//! Each wait of a future then takes about 7 µs more (0.15 and 6.8 µs for a message between two futures on an
//! Intel Xeon). Waits of other green threads cost what they cost without.
//!
//! # When the program hangs
//!
//! Start it with `RUNTIME_DUMP=QUIT`, or set [`Builder::dump_on`](crate::Builder::dump_on). `kill -QUIT`, or
//! Ctrl-\\ in a terminal, then writes a dump to stderr, and the program goes on. This works while green
//! threads keep every P, too. A green thread that overflows its stack then gets a dump, too, before the
//! process ends. The report of a [deadlock](crate::docs::deadlock) of all green threads has a dump in any
//! case.
//!
//! # What a dump costs
//!
//! A dump of 100,000 parked green threads with stacks took 0.17 to 0.47 s, and a `Snapshot` alone 0.09 to
//! 0.17 s. That was a release build on two cores of a loaded machine. The green threads slept, or waited for
//! one mutex, one channel, or a channel each. A dump takes a second look if some of them may wait for each
//! other. A dump of 100,000 green threads that are ready took 0.8 to 1.1 s there.
//!
//! A parked green thread that is woken during a dump waits while its stack is copied. In 100 snapshots of
//! 100,000 green threads, on two quiet cores, half of the 10,000,000 copies took 0.7 µs at most. 99 % of them
//! took 1.4 µs, and the longest 0.98 ms. A copy of 100 KiB took 17 µs, and at most 0.35 ms. Beside other
//! programs, which may take the processor away from the dump, one of 4,000,000 copies took 2 ms. A green
//! thread that slept for 1 ms again and again during dumps woke no later than without dumps. It was less than
//! 0.06 ms late in 99 of 100 times, against 0.06 to 0.4 ms.
//!
//! # What the frames need
//!
//! - The stacks exist on Linux, on x86-64 and 64-bit Arm. Elsewhere the feature compiles and has no effect.
//! - Unwind tables are part of each Rust program. Frame pointers are not needed. The dump makes an index of
//!   the tables, some MB. In a process at the limit of its memory there are no stacks.
//! - Names come from the symbol table. `strip = true` in the profile removes it; the frames then are
//!   addresses.
//! - Files, lines and inlined functions come from debug information. `debug = 1` in a release profile is
//!   enough.
//!
//! # What is not shown
//!
//! - A future has no stack while it waits; see [futures](#futures).
//! - A green thread that is ready to run shows the stack on which it goes on. No OS thread waits for the
//!   copy, so the copy is dropped if the green thread is resumed before its end. The dump then looks once
//!   more, and shows no stack if the green thread is ready again.
//! - SIGURG interrupts a green thread that computes or waits [pinned](crate::thread::pin), for its stack. If
//!   the program has an action of its own for that signal, there is no stack.
//! - A green thread that is blocked in a system call is not interrupted. On x86-64 the kernel reports where
//!   it is blocked, and copies its stack. The kernel does not report the frame pointer. It follows from the
//!   first instructions of a function that uses frame pointers, such as those of std. If these do not give
//!   it, as in a function with a variable frame, the stack ends there.
//!
//! Of a deep recursion the innermost 256 calls are shown, as far as they lie in the
//! innermost 128 KiB of the stack.
