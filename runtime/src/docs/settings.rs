//! Where the settings of a runtime come from: the program, the environment, or the defaults.
//!
//! Each setting is taken from the first of these that has it:
//!
//! 1. the program: a method of [`Builder`](crate::Builder), or an argument of
//!    [`#[runtime::main]`](macro@crate::main) or [`#[runtime::test]`](macro@crate::test);
//! 2. the environment variable of the setting;
//! 3. the default.
//!
//! So a program that needs a setting, such as strict mode, has it under every environment. This holds for
//! every runtime: the default one, and those of [`Builder::build`](crate::Builder::build). A variable is read
//! when a runtime starts.
//!
//! | variable | values | default | set in the program by |
//! | --- | --- | --- | --- |
//! | `RUNTIME_PROCS` | a number from 1 to 4096 | the processors available to the process | [`procs`](crate::Builder::procs) |
//! | `RUNTIME_FOLLOW_PROCESSORS` | `on`, `off` | `on` | [`follow_processors`](crate::Builder::follow_processors) |
//! | `RUNTIME_MIGRATION` | `anytime`, `before-start` | `anytime` | [`migration`](crate::Builder::migration) |
//! | `RUNTIME_THREAD_LOCALS` | `os`, `green` | `os` | [`thread_locals`](crate::Builder::thread_locals) |
//! | `RUNTIME_LATE_LIBRARIES` | `on`, `off` | `off` | [`late_libraries`](crate::Builder::late_libraries) |
//! | `RUNTIME_STACK_SIZE` | bytes: `262144`, `256KiB`, `1MiB` | `256KiB`; `1MiB` [in debug builds](crate::docs::stacks) | [`stack_size`](crate::Builder::stack_size) |
//! | `RUNTIME_MAX_THREADS` | a number from 1 | 10000 | [`max_threads`](crate::Builder::max_threads) |
//! | `RUNTIME_BLOCKING_THREADS` | a number from 1 | 512 | [`blocking_threads`](crate::Builder::blocking_threads) |
//! | `RUNTIME_SYSMON` | `on`, `off` | `on` | [`sysmon`](crate::Builder::sysmon) |
//! | `RUNTIME_MEASURE_ALL` | `on`, `off` | `off` | [`measure_all`](crate::Builder::measure_all) |
//! | `RUNTIME_AWAIT_STACKS` | `on`, `off` | `off` | [`await_stacks`](crate::Builder::await_stacks) |
//! | `RUNTIME_SPAWN_STACKS` | a number from 0 | 0 | [`spawn_stacks`](crate::Builder::spawn_stacks) |
//! | `RUNTIME_TOKIO` | `on`, `off` | `off` | `Builder::tokio` (feature `tokio`) |
//! | `RUNTIME_THREAD_NAME` | a name | `green` | [`thread_name`](crate::Builder::thread_name) |
//! | `RUNTIME_DUMP` | `QUIT`, `HUP`, `USR1`, `USR2` | no dump | [`dump_on`](crate::Builder::dump_on) |
//! | `RUNTIME_DEADLOCK` | a number of milliseconds from 1 | no search | [`find_deadlocks`](crate::Builder::find_deadlocks) |
//! | `RUNTIME_TRACE` | the name of a file | no trace | [`trace_to`](crate::Builder::trace_to) |
//! | `RUNTIME_TRACE_ON` | a list of `panic`, `hog`, `late=10ms` | `panic,hog,late=100ms` | |
//!
//! `RUNTIME_THREADS` (`green`, `os`; by default `green`) and `RUNTIME_OS_THREADS` (names of threads) are for
//! a program with the line `runtime::interpose!(threads);` only: see [`threads`](super::threads).
//!
//! A variable that is missing or blank is not a setting. Blanks around a value do not count. A value that is
//! not allowed is an error of [`Builder::build`](crate::Builder::build). On the default runtime it is a panic
//! of the first use, and the end of a program with [`#[runtime::main]`](macro@crate::main). The text names
//! the variable, its value, and what is allowed:
//!
//! ```text
//! RUNTIME_PROCS is "many": a number from 1 to 4096 is expected, or no such variable
//! ```
//!
//! A process with more rights than the process that started it does not read these variables, nor those
//! below. Such a program is setuid or setgid, or has file capabilities. There the environment is that of
//! another user, which could name a file to write.
//!
//! # A trace of the scheduler
//!
//! Two variables have no method of [`Builder`](crate::Builder). They are for looking at a running program:
//!
//! | variable | values | what it does |
//! | --- | --- | --- |
//! | `RUNTIME_SCHEDTRACE` | a number of milliseconds | each runtime prints a line about itself to stderr in this interval, as Go's `schedtrace` |
//! | `RUNTIME_SCHEDDETAIL` | `0`, `1` | with `1`, a line for each P and what [`dump()`](crate::dump()) writes come after each such line |
//!
//! ```text
//! SCHED 1000ms: green procs=2 idleprocs=1 threads=4 spinningthreads=0 idlethreads=2 running=1 runnable=3 waiting=1000 timers=1000 runqueue=0 [3, 0]
//! ```
//!
//! That is the time since the runtime's start, the name of its OS threads, and gauges of
//! [`metrics::Snapshot`](crate::metrics::Snapshot). `runqueue` is the length of the global run queue, then
//! come those of the Ps. The OS thread that prints is one more OS thread, so a
//! [deadlock](crate::docs::deadlock) is not reported then.
