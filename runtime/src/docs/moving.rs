//! A closure that parks may resume on another OS thread: why that can be unsound, and how to avoid it.
//!
//! # The hazard
//!
#![doc = include_str!("hazard.md")]
//!
//! So safe code can be unsound. [Below](#calls-that-park) are the calls that park.
//!
//! With [`Migration::Anytime`](crate::Migration::Anytime), the default, each of these is unsound although no
//! `unsafe` is written:
//!
//! - A value that must stay on its OS thread is kept across a park: see the
//!   [list](#types-that-must-not-be-kept-across-a-park).
//! - A fresh `KEY.with(..)` after a park may read the value of the *previous* OS thread in optimised code. In
//!   one function, the compiler may reuse the address that it computed before the park:
//!
#![doc = include_str!("address_of_a_thread_local.md")]
//!
//! - A *library* function that uses a thread-local is called before and after a park in one function, and is
//!   inlined there. That can be a function that is generic or `#[inline]`. With fat LTO it can be any. With
//!   `lto = "fat"`, `rand::rng()` before and after a park returned the `Rc` of the wrong OS thread in 40 to
//!   90 of 100 uses. Without inlining, a library that uses thread-locals within one call is safe to call.
//! - A loop around a call of a C library reads `errno`, by [`last_os_error`](std::io::Error::last_os_error),
//!   and parks. The compiler may take the address of `errno` once for all rounds.
//!   [`net::Async::read_with`](crate::net::Async::read_with) is that loop, written right.
//!
//! # Types that must not be kept across a park
//!
//! A type that is not `Send` may rely on its OS thread, and its code may be unsafe code that does. After a
//! park, a closure uses such a value on another OS thread. **That is undefined behaviour with
//! [`Migration::Anytime`](crate::Migration::Anytime)**, as if the value had been sent there by unsafe code,
//! for these values, unless the table says otherwise:
//!
#![doc = include_str!("kept_across_a_park.md")]
//!
//! A lock whose holder has parked **deadlocks** if a green thread that wants the lock blocks the OS thread on
//! which the holder must resume. That is so in strict mode, inside a poll, and in a call that `interpose` has
//! caught. (Not std's locks with `interpose`: see [there](super::interpose#locks-of-std).)
//!
//! With [`Migration::BeforeStart`](crate::Migration::BeforeStart) such a value stays on its OS thread, but
//! other green threads run there while the first is parked. And scopes of different green threads end in
//! another order than they have begun. Most contexts are merely mixed up by that (spans, enter guards). A
//! context that keeps *references* relies on the order in unsafe code. With `scoped-tls` (also `slog-scope`,
//! and the globals of compilers that are libraries) a green thread reads what another one has freed. **Such a
//! scope that is kept across a park is unsound in both modes**, and in a future whose poll parks inside of
//! the scope. In the default mode [`thread::pin`](crate::thread::pin) keeps other green threads off; in
//! strict mode it does nothing.
//!
//! # Thread-locals of its own
//!
//! With [`Builder::thread_locals`](crate::Builder::thread_locals)`(ThreadLocals::OfGreenThread)`, or
//! `RUNTIME_THREAD_LOCALS=green`, each closure has a block of thread-locals of its own, as an OS thread has.
//! The block is switched together with the stack, so the closure takes it along to whatever OS thread it goes
//! on. What the lists above call unsound because of thread-locals is sound then for closures, inlined or not:
//! no other code uses the block. What `std::thread::current()` returns belongs to the green thread as well.
//!
//! - *Needs*: Linux with glibc on x86-64 or AArch64, linked dynamically. [`build`](crate::Builder::build)
//!   tries out each use of such blocks, and returns `Unsupported` with the reason if one fails: see the
//!   [table](#where-thread-locals-of-its-own-exist).
//! - *Costs* on an AMD EPYC. A parked closure has 4.7 KB of memory (4.4 KB without), and 8.8 KB with
//!   [late libraries](crate::Builder::late_libraries). It is returned with the stack. A switch takes 25 ns
//!   more: one write of the base. It takes 40 ns more, for two writes, where no green thread follows at once.
//!   The end of a closure takes 75 ns more: it looks for destructors, and copies the start values of all
//!   thread-locals. A stack has 16 KiB of address space more, for destructors.
//! - *Destructors* of thread-locals and of pthread's keys run at the end of the closure, on its stack, before
//!   [`join`](crate::JoinHandle::join) returns. They may park. The next green thread on that stack finds new
//!   values.
//! - *Futures* use the thread-locals of the OS thread that polls them, as without the setting. While a poll
//!   is parked, the other polls on its OS thread have thread-locals of their own until they end. So scopes
//!   that keep references are sound within polls, too.
//! - *std's names*: `std::thread::current().name()` is `None`, and a panic says `<unnamed>`. What `libtest`
//!   captures of a test's output is not inherited.
//! - *It stays with the OS thread*: signal masks, namespaces, scheduling and more; the page
//!   [`os_thread`](super::os_thread) has the list. [`thread::pin`](crate::thread::pin) keeps a green thread
//!   there.
//! - *Allocators* other than malloc keep a store for each block: wrap them in
//!   [`OfOsThread`](crate::alloc::OfOsThread). Libraries that have a limit of threads count green threads:
//!   for `tracing-subscriber`, which has a limit of 4,096, the feature `tracing` has a wrapper.
//! - *Feature `interpose`*: a caught call parks without a bond to its OS thread, because `errno` comes along.
//!   *Feature `tokio`*: each closure enters the reactor's context at its start, which takes 0.6 us. *Feature
//!   `sim`*: as without.
//! - *Libraries opened by `dlopen`*: closures have the thread-locals of such a library from their start, or
//!   when they go on after a park. Libraries with thread-locals of the initial-exec model are refused, after
//!   the first such runtime was built. [`late_libraries`](crate::Builder::late_libraries)
//!   (`RUNTIME_LATE_LIBRARIES=on`) allows them. There is one exception then, such a library with start values
//!   other than zero. Closures that are running while it is opened find zeroes there until they park. So a
//!   closure that opens such a library calls [`yield_now`](crate::yield_now) before it uses the library.
//! - *Not covered*: priority-inheritance mutexes of pthread, and robust mutexes that processes share. The
//!   kernel does not know the number by which such a block names its thread.
//!
//! ## Where thread-locals of its own exist
//!
//! | system | |
//! | --- | --- |
//! | Linux, x86-64, glibc 2.36, 2.41, 2.43 | the tests were run |
//! | Linux, AArch64, glibc 2.36, 2.41, 2.43 | the tests were run under qemu, not on such a processor |
//! | glibc 2.31 | refused: it does not say where in a block its fields are |
//! | other versions of glibc | not run; `build` tries each use, and refuses what differs |
//! | x86-64, a kernel without `FSGSBASE` (before Linux 5.9, some sandboxes) | the base is set by a system call, 200 to 300 ns each; the uses were tried so |
//! | statically linked glibc, musl | refused: the functions that make a block cannot be looked up |
//! | other processors, other systems | refused |
//! | AddressSanitizer, ThreadSanitizer, Miri | refused: they keep thread-locals of their own |
//! | another `malloc` in the place of libc's (`LD_PRELOAD`, Valgrind) | refused: what it keeps for a thread is not known |
//! | a seccomp filter | needs `rt_sigaction` when the first runtime is built, and without `FSGSBASE` on x86-64 `arch_prctl` |
//!
//! # Contexts that follow
//!
//! Some code keeps a *context* of the running thread in its OS thread: entered spans, the current request, a
//! locale. A [context slot](crate::context_slot) takes that context off the OS thread where a green thread
//! leaves, in both migration modes. The slot puts it back where the green thread goes on. It moves what the
//! context says, not a value on the stack of the closure. So it is for contexts that can be set and reset by
//! calls.
//!
//! The feature `tracing` of this crate (module `runtime::tracing`) does so for the entered spans and the
//! default dispatcher of the crate `tracing`. With it, `span.enter()` and `entered()` may be kept across a
//! park.
//!
//! # The ways out
//!
#![doc = include_str!("ways_out.md")]
//!
//! - *[Thread-locals of its own](#thread-locals-of-its-own)* are tested in `tests/crates/locals` with std's
//!   locks, `rand`, `scoped-tls`, `stacker`, `serde_stacker`, `crossbeam-epoch`, `papaya`, `mimalloc` and
//!   `tracing-subscriber`.
//! - *Futures* keep their OS thread wherever a green thread polls them: spawned, in
//!   [`block_on`](crate::block_on), in [`time::timeout_async`](crate::time::timeout_async).
//! - *Futures that are not `Send`* run in [`block_on_local`](crate::block_on_local()), and as tasks of a
//!   [`LocalSet`](crate::thread::LocalSet). Between two polls of a set, its green thread stays on its OS
//!   thread, too.
//! - *Strict mode*: see [above](#types-that-must-not-be-kept-across-a-park) and
//!   [`Builder::migration`](crate::Builder::migration).
//! - *Context slots*: see [above](#contexts-that-follow) and [`context_slot`](crate::context_slot).
//! - The others: [`thread_local!`](macro@crate::thread_local), [`thread::pin`](crate::thread::pin),
//!   [`blocking`](crate::blocking).
//!
//! # Calls that park
//!
//! Only these calls may move a closure to another OS thread:
//!
//! - [`sleep`](crate::sleep), [`sleep_until`](crate::sleep_until), [`yield_now`](crate::yield_now),
//!   [`thread::park`](crate::thread::park), [`thread::park_timeout`](crate::thread::park_timeout),
//!   [`Interval::tick`](crate::time::Interval::tick);
//! - [`JoinHandle::join`](crate::JoinHandle::join), waiting for a member of a
//!   [`JoinSet`](crate::thread::JoinSet), the end of [`scope()`](crate::scope()),
//!   [`block_on`](crate::block_on) with a future that is not ready at once, dropping a
//!   [`Runtime`](crate::Runtime) or shutting it down;
//! - [`channel`](crate::channel): sending to a full channel, reserving room in it, receiving from an empty
//!   one, waiting for the end of the receivers, [`select!`](crate::select) without `default`, iterators, and
//!   the operations with a time-out;
//! - [`sync`](crate::sync): taking a lock that is not free. Waiting for a [`Condvar`](crate::sync::Condvar),
//!   a [`Barrier`](crate::sync::Barrier), a [`Notify`](crate::sync::Notify), a permit of a
//!   [`Semaphore`](crate::sync::Semaphore), a value that another thread initializes, a
//!   [`WaitGroup`](crate::sync::WaitGroup). Waiting in [`oneshot`](crate::sync::oneshot),
//!   [`watch`](crate::sync::watch) and [`broadcast`](crate::sync::broadcast), and a borrow of a value that is
//!   being changed;
//! - [`net`](crate::net), [`process`](crate::process), [`signal`](crate::signal) and [`io`](mod@crate::io):
//!   reads, writes, accepts and connects that have to wait. A function that looks up a host name, or waits
//!   for a child process;
//! - [`fs`](crate::fs): a call that waits in line for an OS thread, and
//!   [`File::lock`](crate::fs::File::lock);
//! - a call that runs one of these: a closure in [`time::timeout`](crate::time::timeout),
//!   [`time::timeout_at`](crate::time::timeout_at) or [`blocking`](crate::blocking), a destructor.
//!
//! No other call moves its caller, even if the caller has lost its P during the call (see
//! [rescue](super::glossary#rescue)). [`spawn()`](crate::spawn()),
//! [`Thread::unpark`](crate::thread::Thread::unpark), wakers and `try_*` do not. Nor do sending without
//! waiting, unlocking, notifying, cancelling, and dropping guards and handles. Nor do setting, resetting and
//! stopping timers, [`blocking`](crate::blocking) itself, [`metrics`](crate::metrics) and
//! [`dump()`](crate::dump()). The runtime's tests check each of these calls.
//!
//! # What a poll that parks costs
//!
//! A future may call a parking function inside its poll. The poll then resumes on the same OS thread. Other
//! green threads run there during the wait, so the parked poll takes no OS thread of its own.
//!
//! The price: that OS thread may be busy with a green thread that computes or blocks when the future is
//! woken. The future then waits until that green thread parks, yields or ends. Futures that are parked on
//! other OS threads, futures between two polls, and closures go on. Awaiting instead of parking avoids this.
//! [`metrics::Snapshot::parks_in_polls`](crate::metrics::Snapshot::parks_in_polls) counts such calls.
