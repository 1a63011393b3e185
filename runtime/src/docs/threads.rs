//! Your program as it is: the line `runtime::interpose!(threads);` (feature `interpose`). The threads of
//! `std::thread::spawn` are green threads, in your code and in crates that know nothing of this runtime.
//!
//! ```standalone_crate
//! use std::io::{Read, Write};
//! use std::net::{TcpListener, TcpStream};
//! use std::thread;
//!
#![cfg_attr(
    all(feature = "interpose", target_os = "linux", target_env = "gnu"),
    doc = "runtime::interpose!(threads); // The only line of this crate's.\n"
)]
//! fn main() -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     thread::spawn(move || {
//!         for stream in listener.incoming() {
//!             thread::spawn(move || serve(stream?));
//!         }
//!         std::io::Result::Ok(())
//!     });
//!     // A thousand clients: a few OS threads run these, and as many threads of the server.
//!     let client = move || ask(TcpStream::connect(address)?);
//!     let clients: Vec<_> = (0..1000).map(|_| thread::spawn(client)).collect();
//!     clients.into_iter().try_for_each(|client| client.join().unwrap())
//! }
//!
//! fn serve(mut stream: TcpStream) -> std::io::Result<()> {
//!     let mut byte = [0];
//!     stream.read_exact(&mut byte)?;
//!     stream.write_all(&byte)
//! }
//!
//! fn ask(mut stream: TcpStream) -> std::io::Result<()> {
//!     stream.write_all(b"?")?;
//!     stream.read_exact(&mut [0])
//! }
//! ```
//!
//! The line stands once, in the final program, outside of functions, in the place of
//! `runtime::interpose!();`. It catches what [`interpose`](super::interpose) catches, and the functions
//! below. `main` itself runs as a green thread of the default runtime, whose closures have [thread-locals of
//! their own](super::moving#thread-locals-of-its-own), also with `RUNTIME_THREAD_LOCALS=os`. The program
//! needs no [`block_on`](crate::block_on) and no attribute, but may use all of this crate: a thread of std's
//! and one of [`spawn`](crate::spawn()) are the same kind of thread. The other [settings](super::settings)
//! are those of the environment.
//!
//! **`RUNTIME_THREADS=os`** starts the same program with OS threads, to compare. `RUNTIME_THREADS=green` is
//! the default. With `os` the line is no more than `runtime::interpose!();`.
//!
//! **Where it works:** Linux on x86-64 with glibc, linked dynamically: [where thread-locals of its own
//! exist](super::moving#where-thread-locals-of-its-own-exist). Elsewhere on Linux with glibc, and where a
//! trial of such thread-locals fails, the program says so on stderr and runs with OS threads. On other
//! systems the line does not compile.
//!
//! # A program that is there already
//!
//! A program that is linked dynamically with glibc need not be built anew, whatever its language. The
//! repository's `runtime/preload` has a library for `LD_PRELOAD`, and a launcher:
//!
//! ```console
//! $ cargo build --release --manifest-path runtime/preload/Cargo.toml
//! $ RUNTIME_PROCS=4 tests/crates/target/release/monochrome run python3 server.py
//! ```
//!
//! - The programs that the program starts have OS threads, unless `RUNTIME_CHILDREN=green` is set.
//! - A program that brings another `malloc`, such as redis-server with jemalloc, says so and runs with OS
//!   threads. The launcher refuses what is linked statically.
//! - `ci/crates.sh` runs CPython, memcached, pigz, ripgrep, xz, zstd, sort and stress-ng so, and
//!   compares.
//!
//! # A child of `fork`
//!
//! It goes on with the thread that has forked, which is a plain OS thread there, and starts OS threads. Its
//! end is that of the process, with the code that `main` returns, or 0. For closures of other runtimes see
//! the page [`fork`](super::fork).
//!
//! # What becomes a green thread
//!
//! What the code of a green thread starts, by `pthread_create` or `thrd_create`: so do std, C++'s
//! `std::thread`, and most libraries. It lives in the default runtime, which ends with the process only.
//! These stay OS threads:
//!
//! - the threads of this crate;
//! - what a plain OS thread starts;
//! - threads of libc's own (`SIGEV_THREAD`, `getaddrinfo_a`).
//!
//! ## Threads that keep an OS thread
//!
//! These green threads have an OS thread each, until they end, and no other thread runs there:
//!
//! - A thread with attributes that ask for processors (`pthread_attr_setaffinity_np`), or for a policy or a
//!   priority (`pthread_attr_setinheritsched` with `PTHREAD_EXPLICIT_SCHED`). If the system refuses these,
//!   `pthread_create` returns its error, as with OS threads.
//! - A thread that asks for these itself: by `pthread_setaffinity_np`, `pthread_setschedparam`,
//!   `sched_setaffinity` or `sched_setscheduler`. The affinity of all processors is no such request.
//! - A thread that gives itself a name of **`RUNTIME_OS_THREADS`**, as std does with the name of a
//!   [`Builder`](std::thread::Builder). The variable is a list such as `gpu,audio-*`, in which `*` stands for
//!   any letters. A name may also be that of a library's file, such as `libgpu.so*`: each thread with its
//!   first function in that library keeps its OS thread. std's function is in the program itself.
//! - A thread that calls [`thread::pin`](crate::thread::pin), as long as its guard lives. Where other pages
//!   name `std::thread::spawn` as the way to an OS thread, this is it.
//!
//! For such a thread `gettid` stays the same. The OS thread has its name, its processors, its policy and a
//! clock of its processor time, also for calls of other threads. After the thread's end the OS thread is as
//! before. Threads that it starts inherit nothing of this. In strict mode (`RUNTIME_MIGRATION=before-start`)
//! no thread has an OS thread of its own, and these requests are `ENOTSUP`.
//!
//! # What each call does
//!
//! A `pthread_t` of an OS thread always goes to libc. For a green thread:
//!
//! | call | what it does |
//! | --- | --- |
//! | `pthread_create` | starts it, with [the attributes' stack and detach state](#attributes) |
//! | `pthread_join` | parks the caller, or waits in the kernel on an OS thread |
//! | `pthread_tryjoin_np` | as libc's |
//! | `pthread_timedjoin_np` `pthread_clockjoin_np` | as `pthread_join` |
//! | `pthread_detach` | as libc's |
//! | `pthread_exit` | runs [C's handlers](#cancellation), then unwinds by a panic that no hook sees |
//! | `pthread_self` `pthread_equal` | its own name, the same on each OS thread |
//! | `pthread_setname_np` `pthread_getname_np` | its own name, which [dumps](super::dumps) show |
//! | `pthread_getattr_np` | its stack, also of another thread; `EAGAIN` if it has not begun |
//! | `pthread_kill` | the signal 0, any to itself, to another what [it blocks or has waited for](#signals) |
//! | `pthread_sigmask` `sigprocmask` | [its own mask](#signals), which it keeps on each OS thread |
//! | `sigpending` `sigsuspend` `pause` `raise` | those of its own mask |
//! | `pthread_sigqueue` | the signal 0; all else is `ENOTSUP` |
//! | `pthread_cancel` `pthread_testcancel` | [at cancellation points](#cancellation) |
//! | `pthread_setcancelstate` `pthread_setcanceltype` | as libc's, but [not asynchronous](#cancellation) |
//! | `pthread_cleanup_push` `pthread_cleanup_pop` | as libc's, in C and C++ |
//! | `pthread_getschedparam` | `SCHED_OTHER`, 0; or as [its OS thread](#threads-that-keep-an-os-thread) |
//! | `pthread_setschedparam` | of the caller: it keeps its OS thread; of a thread that does not: `ENOTSUP` |
//! | `pthread_setschedprio` | of a thread that keeps its OS thread; else 0, all else is `ENOTSUP` |
//! | `pthread_getaffinity_np` | all processors of the process, unless it keeps its OS thread |
//! | `pthread_setaffinity_np` | as `pthread_setschedparam` |
//! | `sched_setaffinity` `sched_setscheduler` `sched_getscheduler` | of 0: as those of pthread |
//! | `pthread_getcpuclockid` | of a thread that keeps its OS thread; else `ENOENT` |
//! | `pthread_mutex_lock` `pthread_mutex_timedlock` `pthread_mutex_clocklock` | [parks](#locks-of-c) |
//! | `pthread_cond_wait` `pthread_cond_timedwait` `pthread_cond_clockwait` | [parks](#locks-of-c) |
//! | `pthread_rwlock_rdlock` `pthread_rwlock_wrlock`, also with a time | [parks](#locks-of-c) |
//! | `thrd_create` and the other functions of C11 | [as those of pthread](#locks-of-c) |
//! | `sigwait` `sigwaitinfo` `sigtimedwait` | hold, and take [signals](#signals) of `pthread_kill` |
//! | `sched_yield` | lets other green threads run, then other OS threads |
//! | `execv` and its kin, `posix_spawn`, `system`, `popen` | the program begins with the thread's own mask |
//! | `__libc_start_main` | runs `main` as a green thread |
//!
//! - When a join returns, the destructors of thread-locals and keys have run. It returns `EDEADLK` to the
//!   thread itself, and `EINVAL` if the thread is detached or another one joins it. A detach returns `EINVAL`
//!   in the same cases.
//! - After `pthread_exit` of `main`, the process ends with the last green thread of this kind, with the
//!   code 0.
//! - A new thread has the name of the thread that starts it, as with OS threads, but dumps do not show that.
//!   Dumps show 255 names of one thread one after the other, and then the last of these.
//!
//! ## Locks of C
//!
//! These park a green thread that waits, and wake green threads and OS threads alike. So do the locks of C++
//! that are built on them. The types and their initialisers are glibc's.
//!
//! - **Mutexes, condition variables, read-write locks** of pthread. Mutexes may be of the kinds normal,
//!   recursive, error-checking and adaptive.
//! - **Semaphores** of `sem_init`. A signal handler may post one. A signal does not end a wait with `EINTR`.
//!   After the first wait of a green thread, the runtime has one more OS thread, `semaphores`. It wakes green
//!   threads where a handler has posted. A handler is recognised by its signal, which is blocked in it. So an
//!   OS thread that blocks signals posts by way of that thread, too, which takes longer. A handler with
//!   `SA_NODEFER` and an empty mask **must not post**: it may wait for ever.
//! - **Barriers**, and **`pthread_once`**. If the function of a `pthread_once` ends its thread, the next
//!   thread calls it.
//! - **Spin locks**: a green thread that spins for about a microsecond lets others run, and spins again.
//! - **C11**: `thrd_*`, `mtx_*`, `cnd_*`, `call_once` do what pthread's functions do. `tss_*` are glibc's: a
//!   green thread has values of its own, and its destructors run before a join returns.
//!
//! These are libc's, and hold the OS thread: robust mutexes, mutexes with priority inheritance or a ceiling,
//! read-write locks that prefer writers, semaphores of `sem_open`, and what processes share. A robust mutex
//! notices that a green thread has ended with it. It does not notice the end of a process, nor that of a
//! child of `fork` which a green thread has started. A mutex that is not robust may be shared with such a
//! child.
//!
//! ## Waits of libc
//!
//! What waits of libc do on a green thread. *Parks*: the OS thread runs other green threads. *Holds*: the
//! wait takes an OS thread, and its P is [given to another one](super::blocking). The first call of each row
//! has a test, with more waiters than Ps.
//!
//! | wait | on a green thread |
//! | --- | --- |
//! | `pthread_join` `thrd_join` | parks for a green thread; holds for an OS thread |
//! | locks, conditions, semaphores, barriers, `pthread_once` | parks, as [above](#locks-of-c) |
//! | `pthread_spin_lock` | spins, and yields |
//! | `nanosleep` `clock_nanosleep` `usleep` `sleep` `thrd_sleep` | parks |
//! | `read` `write` `recv` `send` `accept` `connect` and their kin | [parks](super::interpose#what-is-caught) |
//! | `poll` `ppoll` `select` `pselect` | parks; with a signal mask it holds |
//! | `epoll_wait` | holds: reactors have a context in thread-locals |
//! | `epoll_pwait` `epoll_pwait2` | holds |
//! | `getaddrinfo` | at once for an address as text; otherwise it holds, with a bound |
//! | `waitpid` and its kin | holds |
//! | `sigwait` `sigwaitinfo` `sigtimedwait` | holds, and takes [signals](#signals) of `pthread_kill`, too |
//! | `sigsuspend` `pause` | holds, until a signal to the process that its mask lets in |
//! | `flock` `lockf`, and `fcntl` with `F_OFD_SETLKW` | holds |
//! | `open` of a FIFO without its other end | holds |
//! | semaphores, mutexes and others that processes share | holds |
//!
//! A wait that holds is not bounded: a thousand such waits are a thousand OS threads. No wait of libc is
//! refused.
//!
//! ## Signals
//!
//! The mask of a green thread is its own. A thread inherits the mask of the thread that starts it, or has
//! that of its attributes, and keeps it on each OS thread.
//!
//! - **A signal to the process** (`kill`, a terminal, a timer) runs its handler on the process's first OS
//!   thread, as long as any green thread lets the signal in. It does not end the waits of green threads, but
//!   for `sigsuspend` and `pause`. If all green threads block it, it stays pending: for `sigwait` and its
//!   kin, for a `signalfd`, or for the thread that unblocks it. That one runs the handler before
//!   `pthread_sigmask` returns.
//! - **A signal of a thread to itself** (`raise`, `pthread_kill`) runs its handler there, in the call.
//! - **`pthread_kill` to another green thread**: a thread that blocks the signal, or has waited for it by
//!   `sigwait` or its kin, gets it. It gets it in such a wait, or when it unblocks it. For all other threads
//!   the call returns `ENOTSUP`: no handler would run there.
//! - **What the runtime needs is never blocked**: `SIGPROF`, the signals of faults, and `SIGURG` unless the
//!   program has a handler of its own for it. The thread's mask still shows what it has asked for.
//! - **Costs**: none at a switch, unless a thread blocks `SIGPIPE`, `SIGXFSZ`, `SIGABRT`, `SIGVTALRM`,
//!   `SIGTTIN`, `SIGTTOU` or `SIGURG`. The kernel sends these to the OS thread that has caused them. So a
//!   thread that blocks one of them pays for two or three system calls whenever it parks. A `pthread_sigmask`
//!   that changes what all threads block waits for the first OS thread, for a second at most.
//! - **Programs that a thread starts** begin with its mask: by `fork`, `posix_spawn`, `system`, `popen`, and
//!   `execve` and its kin. A child of `vfork` that calls `execl`, `execlp` or `execle` does not: it must set
//!   its mask.
//! - **Not caught**: the system call itself, and glibc's `sigblock`, `sighold`, `sigset`, `siglongjmp`. They
//!   change the mask of the OS thread. So does `pthread_sigmask` in a closure of [`spawn`](crate::spawn()).
//! - **The runtime's OS threads block all other signals.** A signal that is sent to one of them by its number
//!   (`tgkill`, `SIGEV_THREAD_ID`) stays pending there.
//!
//! ## Cancellation
//!
//! `pthread_cancel` ends a green thread at its next cancellation point, and ends the wait in which it is. The
//! thread then runs its handlers of `pthread_cleanup_push`, the innermost first, and the destructors of C++.
//! A join returns `PTHREAD_CANCELED`.
//!
//! - **Cancellation points** are the functions that park, but for mutexes, read-write locks, barriers, spin
//!   locks and `pthread_once`; `pthread_testcancel`; and `sigwait` and its kin as they begin. A
//!   `pthread_cond_wait` has its mutex again when the handlers run. Calls on the descriptors 0 to 2 are
//!   points as they begin.
//! - **Not ended** is a wait that holds its OS thread: see the [table](#waits-of-libc). The cancellation
//!   takes effect at the next point.
//! - **Asynchronous cancellation is refused**: `pthread_setcanceltype` returns `ENOTSUP`, and the thread
//!   stays deferred.
//! - **Handlers are not cancelled**, so they may wait.
//! - **Frames of Rust.** It unwinds them as a panic without its hook, and std's `join` returns an
//!   error. But a frame that calls libc, and that has values to drop at that call, cannot be unwound from
//!   there: the process aborts. Use [`cancel`](crate::JoinHandle::cancel) or a message for such threads.
//! - **An OS thread** is not cancelled in a call that this crate catches, but at libc's own points.
//!
//! ## Attributes
//!
//! A stack has the size of the attributes, and at least the runtime's: 2 MiB, or `RUNTIME_STACK_SIZE`. It is
//! address space, of which only the used pages take memory. `main` has a stack of the size of
//! `RLIMIT_STACK`, or of 8 MiB if that is no limit. Processors and policies [give an OS
//! thread](#threads-that-keep-an-os-thread). These attributes are ignored: a stack of the caller's, and the
//! size of the guard.
//!
//! std's locks, conditions, channels, `park` and scopes wait as the page [`interpose`](super::interpose)
//! says: no wait takes an OS thread. Those of `parking_lot`, `crossbeam-channel` and rayon neither.
//!
//! `main`'s return, `exit`, `abort` and a panic of `main` end the process as ever, while other threads run.
//!
//! # What differs
//!
//! - **The kernel's view.** `gettid`, `/proc/self/task`, `prctl(PR_SET_NAME)` and `setpriority` of "this
//!   thread", `ptrace`: these are the OS thread's, and it changes unless the thread [keeps
//!   it](#threads-that-keep-an-os-thread). The page [`os_thread`](super::os_thread) has the list. A panic's
//!   message has the number of the OS thread.
//! - **A child of `fork`** that does not call `exec` has no green threads, and can start none: see
//!   [`fork`](super::fork). `std::process::Command` is not concerned.
//! - **Thread-locals that constructors have set**, before `main`, belong to the process's first OS thread.
//!   `main` does not see these values.
//! - **Other waits of C** hold the OS thread: see the [table](#waits-of-libc), and the calls that [are not
//!   caught](super::interpose#what-is-not-caught). A program with many threads in these has as many OS
//!   threads as without the line.
//! - **`panic = "abort"`**: with it in the profile, and the feature `panic-abort`, `pthread_exit` and a
//!   cancellation abort.
//! - **An overflow of a stack** ends the process with this crate's report, which has the thread's name.
//! - **Threads that compute** are [preempted](super::glossary#rescue) after 10 ms if others wait. Threads
//!   that wait for each other by spinning go on, but slowly: call `yield_now` there.
//! - **[`#[runtime::main]`](macro@crate::main) and [`build_global`](crate::Builder::build_global)** find the
//!   default runtime started, which is an error. A program with the line has a plain `main`.
//! - **Deadlocks are not reported** by a panic, because a program of OS threads may wait for a signal for
//!   ever. `RUNTIME_DEADLOCK` finds them.
//! - **Sanitizers and Valgrind** have OS threads: see the table of [where it
//!   works](super::moving#where-thread-locals-of-its-own-exist).
//!
//! # Figures
//!
//! The same program in both modes, in turns, on two processors of an AMD EPYC (a virtual machine, Linux 6.18,
//! 30 November 2026). Medians of seven rounds: `cargo run --release -p std-threads` in `tests/crates`.
//!
//! | | OS threads | green threads |
//! | --- | ---: | ---: |
//! | `spawn` and `join`, us | 62.9 | 1.47 |
//! | `thread::scope`, us a thread | 56.3 | 1.02 |
//! | `mpsc`, there and back, us | 14.3 | 0.70 |
//! | `Mutex` and `Condvar`, there and back, us | 14.0 | 0.52 |
//! | `park` and `unpark`, there and back, us | 14.7 | 0.52 |
//! | a call on a socket that need not wait, ns | 1,460 | 1,499 |
//! | memory of each of 10,000 waiting threads, with the kernel's, KB | 38.8 | 13.4 |
//! | the same with 100,000 | cannot be started | 13.4 |
//! | 100,000 with stacks of 1 MiB; 512 KiB; 256 KiB; 128 KiB | cannot be started | 11.4; 10.4; 9.8; 9.6 |
//! | the same with stacks of 64 KiB: 10,000; 100,000 | not measured | 9.4; 9.5 |
//! | 10,000 threads that sleep for a second: until all are joined, s | 1.78 | 1.09 |
//! | the same with 100,000 | cannot be started | 1.83 |
//! | echo, 100 connections: thousand requests a second | 68 | 93 |
//! | requests of a connection in 3 s, fewest and most | 1,648 and 2,578 | 2,748 and 2,931 |
//! | echo, 1,000 connections: thousand requests a second | 43 | 63 |
//! | requests of a connection in 3 s, fewest and most | 1 and 431 | 167 and 215 |
//! | context switches of all that | 242,000 | 2,600 |
//!
//! The same echo by this crate's own sockets and closures serves 96 and 65 thousand requests a second. The
//! rows of sleepers and of context switches are medians of three rounds. The rows of memory are of 28
//! November, three rounds each; one round of the sizes between. Of the 13.4 KB, 8.2 are two pages of the
//! stack, with the thread-locals on it, and 1.1 are records of std and of the runtime. The other 4.1 are a
//! page table of the kernel's, which maps 2 MiB. A thread of std has a stack of 2 MiB, so it has a page
//! table of its own; smaller stacks share one. A program that needs no more may have stacks of 256 KiB:
//! `RUST_MIN_STACK=262144` is for std, and `RUNTIME_STACK_SIZE=262144` is the least of the runtime. An
//! overflow is reported as with any size.
//!
//! # Tests
//!
//! The repository's `tests/crates/threads` runs programs of std, of rayon, crossbeam-channel and parking_lot
//! with green threads and with OS threads, and compares what they print.
//!
//! `ci/suites.sh` runs the own tests of std, of crates and of CPython in both modes, as unmodified programs.
//! Each test that passes with OS threads must pass with green threads:
//!
//! | tests | passed in both modes | left out |
//! | --- | ---: | ---: |
//! | std 1.97: locks, channels, threads, thread-locals, time, sockets, pipes, processes | 523 | 1 |
//! | crossbeam: channel, utils, epoch, deque, queue | 559 | 0 |
//! | parking_lot, parking_lot_core | 103 | 0 |
//! | rayon, rayon-core | 442 | 0 |
//! | threadpool, scheduled-thread-pool, r2d2 | 51 | 1 |
//! | tiny_http, rouille | 140 | 0 |
//! | ureq without TLS; rusqlite | 357 | 0 |
//! | redis, postgres, tokio-postgres, mysql, with real servers; without TLS | 576 | 2 |
//! | tokio: its threads, blocking calls, sockets, processes, signals | 597 | 0 |
//! | CPython 3.11: `threading`, `queue`, `sched`, `concurrent.futures` | 537 | 4 |
//!
//! `tests/crates/suites/left-out.txt` has the reason of each that is left out. Four of these want a number of
//! the kernel's for each thread. One wants its next line to run before a thread that it has woken. One
//! connects to another machine. One wants passwords that MariaDB refuses. One ends with OS threads neither.
