//! Where calls work: in wakers, in destructors, after the end of a runtime, in a forked child, in a signal handler.
//!
//! What the page of a function says holds on green threads, on plain OS threads, inside [`block_on`](crate::block_on) and inside a
//! future's `poll`. In other places:
//!
//! | place of the call | effect |
//! | --- | --- |
//! | a [`Waker`](std::task::Waker) of your own | the same. The runtime clones, calls and drops wakers only where they may call anything. A timer or a socket calls a waker on a green thread of its own; if no memory is left for that green thread, an OS thread of the runtime calls the waker itself. A waker that waits for a green thread's end is called by that green thread. A panic in a waker is reported on stderr and goes no further |
//! | a destructor while its thread unwinds (from a panic, a cancellation, a [`timeout`](crate::time::timeout)) | the same, but neither a cancellation nor a time-out ends a wait there, because nothing may unwind a second time. A wait there keeps its OS thread |
//! | other destructors that the runtime runs, of: the captures of a closure that never began; a cancelled future; a result without a handle; [`thread_local!`](macro@crate::thread_local) values | the same, and a cancellation does not end a wait there |
//! | a destructor of std's thread-locals, an `atexit` handler, after `main` has returned | the same. Values of [`thread_local!`](macro@crate::thread_local) may be gone ([`AccessError`](crate::thread::AccessError)). A panic there ends the process, as always in Rust |
//! | anywhere, after the end of the runtime that the call needs | see [`Runtime`](crate::Runtime) and [`Handle`](crate::Handle) |
//! | a child made by `fork` | what needs no other thread works, the rest is refused: see [fork](super::fork) |
//! | a signal handler | not allowed: no function of this crate is async-signal-safe. See [signals](super::signals) |
