//! Where calls work: in wakers, in destructors, after the end of a runtime, in a forked child, in a signal
//! handler.
//!
//! What the page of a function says holds on green threads, on plain OS threads, inside
//! [`block_on`](crate::block_on) and inside a future's `poll`. In other places:
//!
//! - **A [`Waker`](std::task::Waker) of your own**: the same. The runtime clones, calls and drops wakers only
//!   where they may call anything. A timer or a socket calls a waker on a green thread of its own. If no
//!   memory is left for that green thread, an OS thread of the runtime calls the waker itself. A waker that
//!   waits for a green thread's end is called by that green thread. A panic in a waker is reported on stderr
//!   and goes no further.
//! - **A destructor while its thread unwinds** (from a panic, a cancellation, a
//!   [`timeout`](crate::time::timeout)): the same, but neither a cancellation nor a time-out ends a wait
//!   there. Nothing may unwind a second time. A wait there keeps its OS thread.
//! - **Other destructors that the runtime runs**: the same, and a cancellation does not end a wait there. The
//!   runtime drops the captures of a closure that never began, and a cancelled future. It drops a result
//!   without a handle, or with a handle that is dropped. It drops a function of a timer or a context that
//!   does not run any more, and [`thread_local!`](macro@crate::thread_local) values.
//! - **A destructor of std's thread-locals, an `atexit` handler, after `main` has returned**: the same.
//!   Values of [`thread_local!`](macro@crate::thread_local) may be gone
//!   ([`AccessError`](crate::thread::AccessError)). A panic there ends the process, as always in Rust.
//! - **Anywhere, after the end of the runtime that the call needs**: see [`Runtime`](crate::Runtime) and
//!   [`Handle`](crate::Handle).
//! - **A child made by `fork`**: what needs no other thread works, the rest is refused. See
//!   [fork](super::fork).
//! - **A signal handler**: not allowed. No function of this crate is async-signal-safe. See
//!   [signals](super::signals).
//!
//! # In futures
//!
//! Every call works inside a future. But a call that parks parks the whole task: the other branches of a
//! `join!` or a `select!` stand still with it. (Other tasks go on;
//! [moving](super::moving#what-a-poll-that-parks-costs) says what that costs.) The awaited variant parks no
//! branch. Its name ends in `_async`, and it works in any executor. A call that is always ready gives the
//! other branches their [turn](#turns).
//!
//! | calls that park | awaited |
//! | --- | --- |
//! | [`sleep`](crate::sleep), [`time::timeout`](crate::time::timeout), timers and tickers | [`sleep_async`](crate::time::sleep_async), [`timeout_async`](crate::time::timeout_async), [`Timer::fired_async`](crate::time::Timer::fired_async), [`Ticker::tick_async`](crate::time::Ticker::tick_async) |
//! | [`JoinHandle::join`](crate::JoinHandle::join), [`JoinSet::join_next`](crate::thread::JoinSet::join_next) | the handle itself is a future; [`join_next_async`](crate::thread::JoinSet::join_next_async) |
//! | [`channel`](crate::channel), [`signal`](crate::signal) | [`send_async`](crate::channel::Sender::send_async), [`reserve_async`](crate::channel::Sender::reserve_async), [`reserve_owned_async`](crate::channel::Sender::reserve_owned_async), [`closed_async`](crate::channel::Sender::closed_async), [`recv_async`](crate::channel::Receiver::recv_async), [`recv_many_async`](crate::channel::Receiver::recv_many_async) |
//! | [`oneshot`](crate::sync::oneshot), [`watch`](crate::sync::watch), [`broadcast`](crate::sync::broadcast), [`OnceCell`](crate::sync::OnceCell) | the methods of the same name with `_async` |
//! | [`Semaphore`](crate::sync::Semaphore), [`Notify`](crate::sync::Notify), [`WaitGroup`](crate::sync::WaitGroup) | [`acquire_async`](crate::sync::Semaphore::acquire_async), [`notified_async`](crate::sync::Notify::notified_async), [`wait_async`](crate::sync::WaitGroup::wait_async) |
//! | [`Mutex`](crate::sync::Mutex), [`FairMutex`](crate::sync::FairMutex), [`RwLock`](crate::sync::RwLock) | `lock_async`, `read_async`, `write_async` of the traits [`LockAsync`](crate::sync::LockAsync) and [`RwLockAsync`](crate::sync::RwLockAsync); in an `Arc` of [`LockArcAsync`](crate::sync::LockArcAsync) and [`RwLockArcAsync`](crate::sync::RwLockArcAsync). The guard may be kept across an `.await` |
//! | sockets, [`lookup_host`](crate::net::lookup_host) | the methods of the same name with `_async`: see [`net`](crate::net#awaited) |
//! | `process::Child::wait`, a child's pipes | `wait_async`, `read_async`, `write_async` |
//! | [`fs`](crate::fs) | the same names with `_async`: see [`fs`](crate::fs#awaited) |
//! | `File::lock`, `io::stdin`, `Command::output`, all others | [`blocking_async`](crate::blocking_async) with the call in a closure |
//!
//! # Turns
//!
//! A future that never has to wait would never return from its poll. Then its task's time-out, and the other
//! branches of its task, would never get a turn. So each poll of a task has a budget, as in tokio. After 128
//! awaited calls of this crate that were ready, the next one takes nothing, wakes the task, and is pending.
//! The next poll has a new budget.
//!
//! ```
//! use runtime::time::{Duration, timeout_async};
//! let (sender, mut receiver) = runtime::sync::watch::channel(0);
//! let always_ready = async {
//!     loop {
//!         sender.send_replace(1);
//!         receiver.changed_async().await.unwrap();
//!     }
//! };
//! let late = runtime::block_on(async { timeout_async(Duration::from_millis(5), always_ready).await });
//! assert!(late.is_err());
//! ```
//!
//! - A branch that is polled behind the one that used the budget up may complete one more call. So
//!   combinators that poll in a fixed order, as `futures::join!`, get each branch on.
//! - [`timeout_async`](crate::time::timeout_async) and
//!   [`Context::run_async`](crate::context::Context::run_async) look at their time also if what they limit
//!   has used the budget up.
//! - Spawned futures have a budget, and futures in [`block_on`](crate::block_on),
//!   [`block_on_local`](crate::block_on_local) and [`select!`](crate::select), each of its own. In another
//!   crate's executor nothing is refused, because that executor gives no new budget. Such an executor within
//!   a poll goes on, too, but slowly once the budget is used up.
//! - A call that parks has no budget. A loop of such calls that never have to park keeps its task's branches
//!   waiting, but not other green threads. [`yield_now_async`](crate::yield_now_async) gives a turn, also in
//!   a loop that only computes.
//! - A future that is polled once, as `now_or_never` of the crate `futures` does, may be pending although it
//!   is ready, after 128 others.
