//! The line `runtime::interpose!();` (feature `interpose`): blocking calls of libc park green threads, in
//! crates and C libraries that know nothing of this runtime.
//!
//! A program with the line defines `read`, `recv`, `poll` and the other functions below itself, in the place
//! of libc's. The feature alone changes nothing: a dependency that turns it on leaves the program as it is.
//! (The line belongs in the program, as a `#[global_allocator]` does. In a library it has an effect only if
//! the linker takes that file of the library.) A call on a green thread that would block parks the green
//! thread, and its OS thread runs others. So 1,000 green threads may each wait in an unmodified `ureq`,
//! `redis`, libpq or libcurl, on a handful of OS threads:
//!
//! ```standalone_crate
//! use std::io::{Read, Write};
//! use std::os::unix::net::UnixStream; // std's, not this crate's
//!
#![cfg_attr(
    all(feature = "interpose", target_os = "linux", target_env = "gnu"),
    doc = "runtime::interpose!();\n"
)]
//! runtime::block_on(|| {
//!     let (mut ours, mut theirs) = UnixStream::pair().unwrap();
//!     let reader = runtime::spawn(move || {
//!         let mut bytes = [0; 5];
//!         theirs.read_exact(&mut bytes).unwrap(); // Parks. Without the line it blocks its OS thread.
//!         bytes
//!     });
//!     std::thread::sleep(std::time::Duration::from_millis(1)); // So does this.
//!     ours.write_all(b"hello").unwrap();
//!     assert_eq!(&reader.join().unwrap(), b"hello");
//! });
//! ```
//!
//! **Set [`ThreadLocals::OfGreenThread`](crate::ThreadLocals::OfGreenThread) with it**
//! (`#[runtime::main(thread_locals = ..)]`). Then a caught call is not bound to its OS thread, and channels
//! of std work between all green threads: see [below](#with-thread-locals-of-its-own). Without it the usual
//! pool of workers, which has an `mpsc::Receiver` behind a `Mutex` of std's, [may wait for
//! ever](#channels-of-std).
//!
//! With the line **`runtime::interpose!(threads);`** the threads of `std::thread::spawn`, and `main`, are
//! green threads, too: the page [`threads`](super::threads).
//!
//! Interposition is young: read the [hazards](#hazards) first. It has an effect on Linux with glibc, on x86-64
//! and AArch64. (It has been run on x86-64.) Elsewhere it does not compile. Without it such calls block their
//! OS thread, which is [rescued](super::blocking).
//!
//! # What is caught
//!
//! | calls | what they wait for |
//! | --- | --- |
//! | `read` `readv` `recv` `recvfrom` `recvmsg` | bytes, a message, the end |
//! | `write` `writev` `send` `sendto` `sendmsg` | room, until all is written |
//! | `preadv2` `pwritev2` with the offset -1 and without flags | as `readv` and `writev` |
//! | `accept` `accept4` | a connection |
//! | `connect` | TCP's connection. A Unix socket's `connect` blocks if the listener's queue is full |
//! | `poll` `ppoll` `select` `pselect` | any of the descriptors. `ppoll` and `pselect` with a signal mask keep their OS thread, as in [`blocking`](crate::blocking): see [below](#signals) |
//! | `epoll_wait` | the events; it keeps its OS thread, as in [`blocking`](crate::blocking), because reactors such as tokio's have a context in thread-locals |
//! | `nanosleep` `clock_nanosleep` `usleep` `sleep` `thrd_sleep` | the time |
//! | `getaddrinfo` | runs in [`blocking`](crate::blocking), because its inner calls are glibc's own: each look-up takes an OS thread, at most [`blocking_threads`](crate::Builder::blocking_threads) at once. An address as text takes none |
//! | `syscall`, of it only `futex` as std and `parking_lot` use it | [locks of std](#locks-of-std) |
//! | `close` `close_range` `closefrom` `dup2` `dup3` | nothing; they end the waits for each descriptor that is closed or replaced |
//! | `fcntl` `ioctl` `setsockopt` `socket` `socketpair` `dup` | nothing; they change what is remembered |
//! | `vfork` `clone` `_Fork` | nothing; later waits ask whether this is a [child](#children-of-vfork) |
//!
//! C code that is compiled with `_FORTIFY_SOURCE` calls `__read_chk`, `__recv_chk`, `__recvfrom_chk`,
//! `__poll_chk` and `__ppoll_chk` instead. These are caught, too.
//!
//! On plain OS threads, on the runtime's own stacks, for non-blocking descriptors and for descriptors 0 to 2,
//! they are the system calls. (Standard input, output and error stay with the OS thread because std holds
//! locks around them.)
//!
//! Values and `errno` are those of blocking calls: `SO_RCVTIMEO`, `SO_SNDTIMEO`, `MSG_DONTWAIT`, `MSG_PEEK`,
//! `MSG_WAITALL`, partial writes, the end, errors. No descriptor's flags change, but for the moment of a
//! `connect`, in which the socket is non-blocking. These differ:
//!
//! - **Close.** A `close` or `dup2` by another thread ends the wait with `EBADF`. (Linux would let it wait
//!   on.) If the descriptor is closed by a call that is not caught, the wait ends when its number is waited
//!   for again.
//! - **Signals** do not end a wait with `EINTR`.
//! - `SO_RCVLOWAT` above 1: a `recv` may return less.
//! - `MSG_WAITALL` with `MSG_PEEK` blocks the OS thread.
//! - `pthread_cancel` does not end these calls.
//!
//! # Signals
//!
//! A signal does not end a call that is parked: the kernel gives the signal to some OS thread, and its
//! handler runs there. `ppoll` and `pselect` with a signal mask are for programs that wait for signals, so
//! these calls alone are libc's. The mask is that of the OS thread, which waits in the kernel with it. The
//! mask holds from the first look to the return. Then the mask of before holds again. A signal outside of the
//! mask ends the call with `EINTR`. The P runs other green threads during the wait. Neither a cancellation
//! nor a time-out ends the wait. SIGURG, by which the runtime [pauses](super::blocking) green threads that
//! compute, does not end it either, unless the program handles SIGURG itself.
//!
//! # Cancellation and time-outs
//!
//! Foreign code is never unwound. In a cancelled green thread a call that would wait returns `ECANCELED`.
//! When the time of a [`timeout`](crate::time::timeout) is up, it returns `ETIMEDOUT`. (`getaddrinfo` returns
//! `EAI_SYSTEM` with these while it waits in line; a look-up that runs is not ended.) The next parking call
//! of this crate unwinds. A sleep ends early, as if its time were over: callers expect no other error than
//! `EINTR`, and would sleep again.
//!
//! # OS threads
//!
//! A caught call resumes on the OS thread where it began, as a [poll](super::moving) does. C keeps the
//! addresses of thread-locals: gcc takes the address of `errno` once in a function. So a call that is caught
//! does not [move](super::moving#calls-that-park) a green thread. The price: a green thread that waits in
//! such a call does not resume while another one computes or blocks on its OS thread. The sockets of
//! [`net`](crate::net) have no such price.
//!
//! # Costs
//!
//! Measured on 25 November 2026 on two processors of an Intel Xeon (a virtual machine, Linux 6.18), by `cargo
//! run --release -p interpose --bin costs` in `tests/crates`. Each row is the median of 400 turns of 1,000
//! pairs of calls, in ns: libc's functions, which are hooked, and the bare system calls. Both take turns, and
//! "more" is the median of their differences.
//!
//! | pairs of calls that need not wait | on an OS thread | more | on a green thread | more |
//! | --- | --- | --- | --- | --- |
//! | `send` + `recv`, socket pair | 524 / 520 | 4 | 539 / 526 | 14 |
//! | `write` + `read`, socket pair | 563 / 559 | 4 | 594 / 630 | -24 |
//! | `write` + `read`, pipe | 298 / 294 | 4 | 369 / 297 | 71 |
//! | `lseek` + `read`, file | 279 / 277 | 2 | 293 / 286 | 7 |
//! | `read`, `/dev/zero` | 114 / 112 | 2 | 122 / 115 | 7 |
//!
//! - **A pipe** costs 35 ns more for each call, and 110 ns more on an AMD EPYC. The kernel reads and writes
//!   it without waiting by `preadv2` and `pwritev2` alone. All but about 5 ns of this is the kernel's. To ask
//!   first is dearer: `FIONREAD` and `read`, or `poll` and `read`, took twice as much on that EPYC.
//! - **A call that waits** makes three more system calls than a socket of [`net`](crate::net). It asks for
//!   the descriptor's mode and for its time limit, and arms the registration. A round trip over TCP between
//!   two green threads took 4.7 to 5.0 us with a fourth one, and with the runtime's sockets 3.9 to 4.3. That
//!   is 1.14 to 1.26 times as long, in twelve pairs of runs, with 1 P and with 2, while other programs ran.
//!   With [thread-locals of its own](#with-thread-locals-of-its-own) a closure makes none of these calls.
//!
//! # Locks of std
//!
//! `Mutex`, `RwLock`, `Condvar`, `Once`, `OnceLock`, `LazyLock` and `Barrier` of std park a green thread that
//! waits for them. They wake green threads and plain OS threads alike. So many green threads may share one
//! connection under a `std::sync::Mutex`. The wait resumes on the OS thread where it began, as every caught
//! call does.
//!
//! - **No cancellation or [`timeout`](crate::time::timeout) ends such a wait**: std would wait again at once.
//!   The next parking call of this crate unwinds. The drop of a [`Runtime`](crate::Runtime) waits for it,
//!   too. The locks of [`sync`](crate::sync) have no such limit. [`dump`](crate::dump()) shows such a wait as
//!   "a lock or condition of std", and the search for deadlocks counts it as a parked green thread.
//! - **`std::thread::park`, `std::sync::mpsc`, `crossbeam-channel`**: see [below](#channels-of-std).
//! - **Locks that know their OS thread**: `ReentrantLock`, and so `StdoutLock` and `StderrLock`. Two green
//!   threads on one OS thread are the same owner to them. Do not hold one across a call that parks. A
//!   `MutexGuard` of std's must not be held across a call that [moves](super::moving) its green thread; a
//!   caught call does not move it.
//! - Locks of pthread block the OS thread, and so do those of `parking_lot`, unless the closure has
//!   [thread-locals of its own](#with-thread-locals-of-its-own). Do not hold such a lock across a caught
//!   call.
//!
//! # Channels of std
//!
//! `std::thread::park` gives its token to an OS thread. `std::sync::mpsc` and `crossbeam-channel` wait by it,
//! and know a waiter by its OS thread. A sender passes over a receiver that has the sender's own thread id.
//! So a green thread that waits in `std::thread::park`, or in something built on it, *claims* its OS thread.
//! Until that green thread ends, no other one comes to that OS thread.
//!
//! - **Each such green thread has an OS thread.** A thousand that wait in std's `recv` are a thousand OS
//!   threads. There is no other bound than [`max_threads`](crate::Builder::max_threads). A wake-up costs what
//!   it costs between OS threads. [`channel`](crate::channel) and [`sync::mpsc`](crate::sync::mpsc) have
//!   neither price.
//! - **Green threads that were bound to that OS thread before return to it.** These are the green threads
//!   that wait in a caught call there, or for a lock of std's. In strict mode they are all that have begun
//!   there. A message that such a green thread sends passes over the claimer, as if the claimer sent to
//!   itself. The claimer then **may wait for ever**. So a green thread that first waits for a channel of
//!   std's must not depend on a green thread in a caught call at that time. Use a channel of this crate
//!   there, or start the waiter by `std::thread::spawn`, which costs the same.
//! - A plain OS thread on the other side is never passed over, nor is a green thread that has claimed another
//!   OS thread.
//! - Between green threads that share an OS thread in this way, an `unpark` wakes all that are parked there.
//!   `park` may always return without a cause. A token that one of them takes from another costs 50 ms at
//!   most.
//! - [The search for deadlocks](super::deadlock) counts such a wait as a parked green thread. It does not do
//!   so beside green threads that share the OS thread, because each of these waits ends every 50 ms.
//!
//! Why the second point remains: the channel writes down the waiter's OS thread before its first call that
//! can be caught. A caught call has promised the same OS thread to C. From then on both green threads have
//! one thread id, which is all that the sender compares, by code in the program itself. The waiter cannot
//! move, because the token for it goes to that OS thread. The sender cannot move, because C may keep the
//! address of `errno`. It cannot be held back, because the waiter may wait for it. And the waiter cannot be
//! made to look again: the `recv` of these channels goes back to `park` until a sender has chosen it.
//!
//! # With thread-locals of its own
//!
//! A closure with [thread-locals of its own](super::moving#thread-locals-of-its-own) takes `errno`, and all
//! else that C keeps of its thread, along. So none of the bonds above exist:
//!
//! - a caught call resumes on any OS thread, and a green thread that computes on the first one does not delay
//!   it;
//! - a wait in std's `park`, in its `recv`, in `crossbeam-channel`, takes no OS thread, and no message is
//!   passed over;
//! - a wait for a lock or a condition of `parking_lot` parks;
//! - a descriptor stays registered after its first wait, and its mode and its time limits are remembered. So
//!   later waits need no system calls. What other code does by system calls without libc is noticed after
//!   100 ms: that the descriptor was closed and its number used again, or that its mode or its limit has
//!   changed.
//!
//! # What is not caught
//!
//! These block the OS thread of a green thread, which is [rescued](super::blocking). Its P runs other green
//! threads, and another OS thread is started if none is free. So a call that waits for another green thread
//! gets what it waits for. No cancellation or time-out ends the call.
//!
//! - System calls without libc: the crate `rustix`, Go code. Static linking of the calls inside libc.
//! - glibc's own inner calls: `FILE*`, name look-ups, `system`, `popen`.
//! - Locks, conditions and barriers of pthread and of C11 (`mtx_lock`, `cnd_wait`), `sem_wait`,
//!   `sem_timedwait`, `sem_clockwait`: with the line `runtime::interpose!(threads);` [they
//!   park](super::threads#locks-of-c). Locks of `parking_lot` (but see above), joins of OS threads.
//! - Locks of files: `flock`, `lockf`, `fcntl` with `F_SETLKW` or `F_OFD_SETLKW`. Those of `lockf` and
//!   `F_SETLKW` belong to the process, so they do not keep green threads apart.
//! - Queues of messages and semaphores of the system: `msgrcv`, `msgsnd`, `mq_receive`, `mq_send`, `semop`.
//! - Signals: `sigwait`, `sigwaitinfo`, `sigtimedwait`, `sigsuspend`, `pause`. The mask that such a caller
//!   has set is that of its OS thread: the green thread [pins](crate::thread::pin) itself before it sets the
//!   mask. Or use [`signal`](crate::signal), or a `signalfd`: its `read` is caught.
//! - `waitpid`; `tcdrain`; opening a FIFO; regular files.
//! - `sendfile`, `splice` (`std::io::copy` uses them), `sendmmsg`, `recvmmsg`; `preadv2` and `pwritev2` with
//!   flags.
//! - `epoll_pwait`, `epoll_pwait2`.
//!
//! # Children of `vfork`
//!
//! Such a child has the memory of its parent, but descriptors of its own: its `close` and `dup2` end no wait
//! of the parent. A caught call that would wait there blocks the child. A lock of std must not be waited for
//! there, and nothing of this crate may be called. Like every child of `vfork`, it may make system calls, and
//! call `exec` or `_exit`. The same holds for children of `clone` and `_Fork`, and of `syscall` with the
//! numbers of these calls. One that is made by a system call without libc must not wait in a caught call.
//!
//! # Hazards
//!
//! - **Other locks across such a call.** One connection under a lock of `parking_lot` or pthread that many
//!   green threads want: the others block their OS threads, and each takes one. In strict mode, and where the
//!   holder must resume on the OS thread that another blocks, this is a deadlock. Use
//!   [`sync::Mutex`](crate::sync::Mutex) or std's, or a pool of connections.
//! - **Values of an OS thread across such a call.** Other green threads run on the OS thread during the call,
//!   also while this green thread waits for a lock of std's. So a thread-local keeps its address, but not its
//!   value; OpenSSL's error queue, for example, may have entries of another green thread.
//! - **Signal handlers** that interrupt a green thread must not make such a call on a descriptor that would
//!   block.
//! - **Stacks.** C libraries may need more stack than green threads have by default: see
//!   [`stacks`](super::stacks).
