//! The words of these pages, and of metrics and dumps.
//!
//! The scheduler is Go's design: *G*s run on *M*s that hold *P*s.
//!
//! # Things
//!
//! ## G
//!
//! A green thread: a closure or a future that the runtime schedules. A closure has a stack of its own from
//! its start to its end. A future has one only while it is polled.
//!
//! ## M
//!
//! An OS thread of the runtime, which runs Gs. (*Machine*, in Go.) A *plain OS thread* is any other OS thread
//! of the process.
//!
//! ## P
//!
//! The right to run Gs. (*Processor*, in Go.) A runtime has a fixed number of Ps:
//! [`Builder::procs`](crate::Builder::procs) and [`Handle::set_procs`](crate::Handle::set_procs). An M needs
//! a P to run a G, so at most that many Gs are scheduled at the same moment. Each P has a run queue and the
//! timers of the Gs that ran on it.
//!
//! ## netpoller
//!
//! The part of a runtime that waits for sockets and other descriptors, by epoll or its like. One idle M at a
//! time waits in it; it also waits there for the next timer.
//!
//! ## sysmon
//!
//! The monitor thread of a runtime. It takes Ps from Gs that keep them for too long, starts spare OS threads,
//! and gives the memory of idle stacks back. [`Builder::sysmon`](crate::Builder::sysmon) switches it off.
//!
//! ## run queue
//!
//! Gs that are ready to run and wait for an M with a P. Each P has one; one more is global.
//!
//! # What happens to a G
//!
//! ## park
//!
//! To stop a G until it is woken. The G keeps its stack, and its M runs other Gs. On a plain OS thread the
//! same calls block that OS thread. The functions that do so are the [calls that
//! park](super::moving#calls-that-park).
//!
//! ## wake
//!
//! To make a parked G ready: it goes into a run queue. The *waker* is the thread, timer or event that does
//! so; the *waiter* is the G or plain OS thread that waits.
//!
//! ## yield
//!
//! To go to the end of the run queue, ready to run again: [`yield_now`](crate::yield_now).
//!
//! ## preempt
//!
//! To take the P from a G that did not give it up. The G is not stopped: it goes on computing on its M
//! without a P. It waits for a P when it leaves its next call of this crate.
//!
//! ## rescue
//!
//! A preemption by sysmon of a G that computed for long, or that blocked its M without telling: see
//! [blocking](super::blocking). Metrics count rescues, and name the last ones.
//!
//! ## hand-off
//!
//! To give the P of a G inside [`blocking`](crate::blocking) to another M, because other Gs wait for it.
//!
//! ## steal
//!
//! An M that finds nothing to run in the queue of its P takes Gs, or due timers, from another P.
//!
//! ## home
//!
//! The one M on which a G may resume. A future that has parked inside its poll has a home until that poll is
//! over. With [strict mode](#strict) each G has a home from its start on.
//!
//! ## pinned
//!
//! A G that keeps its M while it is parked: [`thread::pin`](crate::thread::pin). Until then only Gs that have
//! that M as their home run there, such as parked polls.
//!
//! ## strict
//!
//! The mode of a runtime in which a G stays on the OS thread where it has started:
//! [`Migration::BeforeStart`](crate::Migration::BeforeStart).
//!
//! ## cancel
//!
//! To make a G unwind from the call in which it waits: see [cancellation](super::cancellation).
//!
//! # Time
//!
//! ## time-out
//!
//! The end of a wait because its time is over. `recv_timeout(Duration)` takes the span of time, which is
//! counted from the call. A span beyond the clock's range means for ever.
//!
//! ## deadline
//!
//! A moment at which a wait ends: `recv_deadline(Instant)`. A deadline in the past ends the wait at once.
//!
//! ## tick
//!
//! One message of a [`Ticker`](crate::time::Ticker).
