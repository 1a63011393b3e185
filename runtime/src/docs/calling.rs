//! Where calls work: in wakers, in destructors, after the end of a runtime, in a forked child, in a signal handler.
//!
//! What the page of a function says holds on green threads, on plain OS threads, inside [`block_on`](crate::block_on) and inside a
//! future's `poll`. In other places:
//!
//! | place of the call | effect |
//! | --- | --- |
//! | a [`Waker`](std::task::Waker) of your own | the same. The runtime clones, calls and drops wakers only where they may call anything. A timer or a socket calls a waker on a green thread of its own; if no memory is left for that green thread, an OS thread of the runtime calls the waker itself. A waker that waits for a green thread's end is called by that green thread. A panic in a waker is reported on stderr and goes no further |
//! | a destructor while its thread unwinds (from a panic, a cancellation, a [`timeout`](crate::time::timeout)) | the same, but neither a cancellation nor a time-out ends a wait there, because nothing may unwind a second time. A wait there keeps its OS thread |
//! | other destructors that the runtime runs, of: the captures of a closure that never began; a cancelled future; a result without a handle, or whose handle is dropped; a function of a timer or a context that does not run any more; [`thread_local!`](macro@crate::thread_local) values | the same, and a cancellation does not end a wait there |
//! | a destructor of std's thread-locals, an `atexit` handler, after `main` has returned | the same. Values of [`thread_local!`](macro@crate::thread_local) may be gone ([`AccessError`](crate::thread::AccessError)). A panic there ends the process, as always in Rust |
//! | anywhere, after the end of the runtime that the call needs | see [`Runtime`](crate::Runtime) and [`Handle`](crate::Handle) |
//! | a child made by `fork` | what needs no other thread works, the rest is refused: see [fork](super::fork) |
//! | a signal handler | not allowed: no function of this crate is async-signal-safe. See [signals](super::signals) |
//!
//! # In futures
//!
//! Every call works inside a future. But a call that parks parks the whole task: the other branches of a `join!` or a `select!`
//! stand still with it. (Other tasks go on; [moving](super::moving#what-a-poll-that-parks-costs) says what that costs.) The
//! awaited variant parks no branch. Its name ends in `_async`, and it works in any executor.
//!
//! | calls that park | awaited |
//! | --- | --- |
//! | [`sleep`](crate::sleep), [`time::timeout`](crate::time::timeout), timers and tickers | [`sleep_async`](crate::time::sleep_async), [`timeout_async`](crate::time::timeout_async), [`Timer::fired_async`](crate::time::Timer::fired_async), [`Ticker::tick_async`](crate::time::Ticker::tick_async) |
//! | [`JoinHandle::join`](crate::JoinHandle::join), [`JoinSet::join_next`](crate::thread::JoinSet::join_next) | the handle itself is a future; [`join_next_async`](crate::thread::JoinSet::join_next_async) |
//! | [`channel`](crate::channel), [`signal`](crate::signal) | [`send_async`](crate::channel::Sender::send_async), [`recv_async`](crate::channel::Receiver::recv_async) |
//! | [`oneshot`](crate::sync::oneshot), [`watch`](crate::sync::watch), [`broadcast`](crate::sync::broadcast), [`OnceCell`](crate::sync::OnceCell) | the methods of the same name with `_async` |
//! | [`Semaphore`](crate::sync::Semaphore), [`Notify`](crate::sync::Notify), [`WaitGroup`](crate::sync::WaitGroup) | [`acquire_async`](crate::sync::Semaphore::acquire_async), [`notified_async`](crate::sync::Notify::notified_async), [`wait_async`](crate::sync::WaitGroup::wait_async) |
//! | [`Mutex`](crate::sync::Mutex), [`RwLock`](crate::sync::RwLock) | none: hold the lock for short, and not across an `.await`. A lock that is held across one is a [`Semaphore`](crate::sync::Semaphore) of one permit beside the value |
//! | sockets, [`lookup_host`](crate::net::lookup_host) | the methods of the same name with `_async`: see [`net`](crate::net#awaited) |
//! | `process::Child::wait`, a child's pipes | `wait_async`, `read_async`, `write_async` |
//! | [`fs`](crate::fs), `io::stdin`, `Command::output`, all others | [`blocking_async`](crate::blocking_async) with the call in a closure |
