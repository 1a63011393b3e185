//! Debuggers and `perf`: green threads in gdb and lldb, in living processes and in core files; profiles of a
//! program with green threads.
//!
//! # gdb
//!
//! A plain gdb shows the OS threads, and on each at most one green thread. The script `green_gdb.py` adds the
//! others. It reads the memory of the process and writes nothing. So it works while the process hangs, and on
//! a core file.
//!
//! The scripts are in the folder `debug` of the package, which `ls
//! ~/.cargo/registry/src/*/monochrome-*/debug` finds. In this repository the folder is `runtime/debug`.
//!
//! ```text
//! (gdb) source runtime/debug/green_gdb.py
//! (gdb) info green
//!      1: waiting for the end of a sleep, for 13 s, spawned at tests/tests/inspect/debuggers.rs:36
//!      3 'receiver': waiting for a channel to receive, for 13 s, spawned at tests/tests/inspect/debuggers.rs:39
//!      4 (future): waiting for a wake-up of its future, for 13 s, spawned at tests/tests/inspect/debuggers.rs:40
//!      5 'hog': running on OS thread 6 (gdbtest-2), spawned at tests/tests/inspect/debuggers.rs:41
//! 4 green threads
//! (gdb) green 3 bt
//!      3 'receiver': waiting for a channel to receive, for 14 s, spawned at tests/tests/inspect/debuggers.rs:39
//! #1  0x000055c2976c6734 in corosensei::arch::x86_64::switch_yield () at ..
//! ..
//! #10 runtime::channel::receiver::Receiver::recv<u32> () at runtime/src/channel/receiver.rs:96
//! #11 inspect::debuggers::waits_for_a_message () at tests/tests/inspect/debuggers.rs:19
//! #12 0x000055c2976c64e6 in inspect::debuggers::waits_for_a_message () at tests/tests/inspect/debuggers.rs:21
//! ..
//! #15 0x000055c2976ce47b in inspect::debuggers::program::{closure#0}::{closure#0} () at tests/tests/inspect/debuggers.rs:39
//! ..
//! #23 sched::run::task::__rust_begin_short_backtrace_closure<..> () at sched/src/run/task.rs:76
//! ```
//!
//! That is a release build with `debug = 1`.
//!
//! | command | what it does |
//! | --- | --- |
//! | `info green` | lists the green threads, the first 1,000 with a line each; `info green TEXT` lists the green threads with the text in their line |
//! | `green 3 bt` | prints the stack of green thread 3; `bt` takes gdb's options |
//! | `green 'the name' bt` | as for a number; put a name with blanks in quotes |
//! | `green 3` | enters green thread 3: `bt`, `up`, `frame 11`, `info locals` work there, until `green off` or `continue` |
//! | `green all bt` | prints all stacks, the most frequent first; equal stacks are printed once, and at most 200 are walked |
//!
//! - The script needs the symbol table, so the program must not be stripped. Files and lines come from debug
//!   information.
//! - Frame 0 of an entered green thread is still that of the OS thread.
//! - A future has no stack while it is not polled. A green thread that has not begun has none either.
//! - Core files that the kernel writes have those pages of stacks that were touched. On Linux from 6.13 on,
//!   the command `generate-core-file` of gdb stops at the guard of the first stack. So it leaves the stacks
//!   out. The scripts then show no frames and say "its stack is not in the core file".
//! - The time of a wait in a core file is that until the file was written. A copy needs the time of the
//!   original (`cp -p`), or the waits seem longer.
//! - It works on Linux on x86-64 and 64-bit Arm. It was run on x86-64 only.
//!
//! # lldb
//!
//! The script `green_lldb.py` in the same folder does the same for lldb. An entered green thread is a thread
//! of lldb's, which `thread list` shows, too.
//!
//! ```text
//! (lldb) command script import runtime/debug/green_lldb.py
//! (lldb) green list
//! (lldb) green receiver bt
//! ```
//!
//! `green list` is gdb's `info green`. `green 3 bt 10` prints ten frames. The other commands are those of gdb,
//! and within an entered green thread those of lldb: `frame select 11`, `frame variable`.
//!
//! What is said of gdb above holds for lldb, too. It was run with lldb 14. Debian's package of that version
//! does not find its own Python files: start it with
//! `PYTHONPATH=/usr/lib/llvm-14/lib/python3.11/dist-packages`.
//!
//! # perf
//!
//! Stacks of green threads look like those of OS threads, so `perf` follows them to the OS thread that runs
//! them. One of these works:
//!
//! ```sh
//! perf record --call-graph dwarf -p PID -- sleep 5        # any build with debug information
//! RUSTFLAGS="-C force-frame-pointers=yes" cargo build --release && perf record -g target/release/app
//! ```
//!
//! Without frame pointers, `perf record -g` shows the innermost function, and misses callers. This is of the
//! same program, by the first command:
//!
//! ```text
//!     92.86%  gdbtest-2  debuggers-dc401ddc565c44ba  [.] inspect::debuggers::computes_for_ever
//!             ---core::core_arch::x86::sse2::_mm_pause (inlined)
//!                core::hint::spin_loop (inlined)
//!                inspect::debuggers::computes_for_ever
//!                ..
//!                sched::run::task::__rust_begin_short_backtrace_closure
//!                sched::stack::coro::root
//!                ..
//!                stack_init_trampoline
//! ```
//!
//! The OS threads have names, which `perf report --sort comm`, `top -H` and `/proc/PID/task/*/comm` show. The
//! prefix is that of [`Builder::thread_name`](crate::Builder::thread_name):
//!
//! | name | what the OS thread does |
//! | --- | --- |
//! | `NAME-0`, `NAME-1`, .. | runs green threads, or waits for work |
//! | `NAME-sysmon` | watches the others |
//! | `NAME-start` | starts the others, from the first [`pin`](crate::thread::pin) on |
//! | `NAME-end` | ends a runtime that was dropped |
//! | `NAME-trace` | prints `RUNTIME_SCHEDTRACE` |
//! | `NAME-hogs` | reports [hogs](crate::docs::blocking) to the program |
//! | `dumps` | waits for the signal of a [dump](crate::docs::dumps) |
//! | `deadlocks` | searches for [deadlocks of some](crate::docs::deadlock#of-some) |
//! | `traces` | writes the [traces](crate::docs::trace) of panics, hogs and late timers |
//! | `profile` | takes a CPU profile |
//! | `debug` | accepts the connections of the debug page |
//! | `debug-answers` | answers one request of the debug page |
//! | `tokio-reactor` | runs the reactor of the feature `tokio`, and what tokio's crates block |
//!
//! An OS thread that runs a `#[runtime::test]` has the name of the test. Linux keeps the first 15 bytes of a
//! name, so NAME should have at most 8.
