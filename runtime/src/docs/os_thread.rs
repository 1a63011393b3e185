//! What belongs to the OS thread, in each mode, and what to do about it.
//!
//! A green thread runs on one OS thread after another. What the system or a library keeps for "the thread" is
//! then that of the present OS thread, unless the green thread takes it along. Which that is depends on
//! [`Builder::thread_locals`](crate::Builder::thread_locals):
//!
//! | | `ThreadLocals::OfOsThread` (the default) | `ThreadLocals::OfGreenThread`, in a closure |
//! | --- | --- | --- |
//! | values of `std::thread_local!`, `thread_local` of C, keys of pthread | the OS thread's; code that is inlined may use those of the previous one after a park | the green thread's |
//! | `errno` | the OS thread's; a loop around a call may read that of the previous one | the green thread's; a park may change its value, as any call may |
//! | `std::thread::current()`, std's `park` and its scope, locks of std, `pthread_self` | the OS thread's | the green thread's |
//! | entered contexts: spans, runtimes, scopes that keep references | the OS thread's, or follow by a [context slot](crate::context_slot) | the green thread's |
//! | guards of `crossbeam_epoch` and of maps that use it | the OS thread's | the green thread's |
//! | bounds of the stack that libc returns (`pthread_getattr_np`, `stacker`) | those of the OS thread's own stack, which are wrong on a green thread: code that grows its stack may overflow, or grow each time | the green thread's |
//! | freed memory that `malloc` keeps for a thread | the OS thread's: harmless | the OS thread's: harmless |
//! | freed memory that another allocator keeps | the OS thread's: harmless | the green thread's, 97 to 870 KB each: see [`OfOsThread`](crate::alloc::OfOsThread) |
//! | recursive and error-checking mutexes of pthread | the OS thread's | the green thread's |
//! | robust mutexes | the OS thread's | the green thread's; the end of its process is not noticed |
//! | mutexes with priority inheritance | the OS thread's | none: the kernel does not know the thread |
//! | a limit of a library on its threads | counts OS threads | counts green threads (`tracing-subscriber`: 4,096, see the feature `tracing`) |
//!
//! A future has the thread-locals of the OS thread that polls it. A poll never changes its OS thread. While a
//! poll is parked, other polls run on its OS thread. With `OfOsThread` they share its thread-locals. With
//! `OfGreenThread` each of them has its own until it ends.
//!
//! # In both modes
//!
//! These belong to the OS thread always. A green thread that changes or relies on them
//! [pins](crate::thread::pin) itself first, or runs the code on an OS thread of the program's own
//! (`std::thread::spawn`):
//!
//! | what | what happens otherwise |
//! | --- | --- |
//! | signal mask (`pthread_sigmask`), alternate signal stack, signals that are sent to a thread | the mask of another OS thread counts after a park; the OS thread keeps what was set. [Threads of pthread](super::threads#signals) have masks of their own |
//! | namespaces and the working directory after `unshare`, `setns` | other green threads run in them |
//! | scheduling: affinity, priority, policy, slack of timers, name of the thread (`prctl`) | the OS thread keeps them, and other green threads run with them. [Threads of pthread](super::threads#threads-that-keep-an-os-thread) then keep their OS thread |
//! | user, groups and capabilities that are set by a system call, not by libc; `setfsuid`; seccomp, Landlock, `NO_NEW_PRIVS` of one thread | other green threads get the rights, or lose them |
//! | the id of the kernel (`gettid`), and what is bound to it: `ptrace`, `perf_event_open`, `SIGEV_THREAD_ID`, rings of `io_uring` for one thread, leases of `PR_SET_PDEATHSIG` | the call comes from another thread, and fails |
//! | contexts of libraries that are bound to their thread: OpenGL, COM, windows, Python's GIL | the library looks up another thread |
//! | callbacks of C that expect the thread that has registered them | the callback runs on the OS thread that calls; with `OfGreenThread` C's own thread-locals come along |
//! | robust lists, `rseq` | the kernel knows those of the OS thread |
//!
//! # Children and `PR_SET_PDEATHSIG`
//!
//! A child with `PR_SET_PDEATHSIG` gets its signal when the *OS thread* ends that has started it. An OS
//! thread that only runs [`blocking`](crate::blocking()) ends some seconds after its last work. Of 12
//! children that were started so, 8 were dead after 14 s. Start such a child from an OS thread that lives as
//! long as the child should:
//!
//! ```no_run
//! # use std::process::{Child, Command};
//! fn start(mut command: Command) -> std::io::Result<Child> {
//!     let (started, child) = runtime::channel::bounded(1);
//!     std::thread::spawn(move || {
//!         let _ = started.send(command.spawn());
//!         std::thread::park(); // Lives as long as the process.
//!     });
//!     child.recv().expect("the thread sends what it has started")
//! }
//! ```
