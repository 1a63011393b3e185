//! Waits inside of calls that foreign code makes, such as C that calls `recv`. Such a wait never unwinds its
//! caller, and the caller resumes on the same OS thread. (Feature `interpose`.)
//!
//! Foreign code keeps the addresses of thread-locals: gcc takes the address of `errno` once in a function,
//! and uses it after each call. So the wait is that of a poll. The G is bound to its M until it resumes
//! there, and other Gs run on the M in between. A G with thread-locals of its own needs none of that: it
//! resumes on any M, with its thread-locals.
//!
//! Rejected: *to return to the first M only with an error*. A call that succeeded on another M lets the next
//! error of the same C function go to the wrong `errno`.

#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::ptr;

pub use netpoll::Seen;
use netpoll::{Foreign, Waiter};
use timers::clock;

use crate::api::park::{Waiting, is_interrupted};
use crate::g::wait::{Cancel, Decision, Outcome};
use crate::g::why::Why;
use crate::g::{GRef, Ticket};
use crate::m::OwnM;
pub use crate::m::bounds::{own_stack, set_of_other};
use crate::m::current::{current_g, on_m};
use crate::run::sched::Sched;
use crate::run::wake;
use crate::stack::coro::Coro;
use crate::sync::{hold, unpaused};
use crate::sys::{self, fork};

/// The case of a wait that ended because its descriptor was closed.
const CLOSED: u32 = 1;

/// How a wait of foreign code ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Something may have happened: the caller tries again.
    Again,
    /// The time of the call itself is up.
    TimedOut,
    /// The green thread was cancelled. The next wait that may unwind does so.
    Cancelled,
    /// The time of a `timeout` around the caller is up. The next wait that may unwind does so.
    DeadlinePassed,
    /// A descriptor was closed, or its number has a new file.
    Closed,
    /// The system cannot wait for a descriptor, for this `errno`.
    Refused(i32),
}

/// Returns `true` if the code of a green thread runs here, outside of the runtime: a call that blocks may
/// park here.
#[inline]
pub fn is_user_code() -> bool {
    on_m(|m| m.runs_user_code()).unwrap_or(false)
}

/// Returns `true` if the code of a closure runs here that has thread-locals of its own, outside of the
/// runtime and of its locks. So whatever names the caller by its thread belongs to the closure, and a call
/// that blocks may park.
pub fn is_thread_of_its_own() -> bool {
    is_user_code()
        && current_g().is_some_and(|g| may_move(g.shared()))
        && !hold::of_this_thread(hold::Holds::is_any)
}

/// Returns the signal by which the runtime interrupts its OS threads; `None` if the program has an action of
/// its own for that signal. Foreign code that lets signals end a wait must not see it.
pub fn signal_of_runtime() -> Option<i32> {
    // The code of other systems, which `portable` tests, sends no signal.
    #[cfg(portable)]
    return None;
    #[cfg(not(portable))]
    sys::preempt::free_signal()
}

/// Parks the caller until one of `fds` has one of its events (`EPOLLIN` and the like), or until `until` on
/// the runtime's clock. *Runs on: a green thread, in user code.*
pub fn wait(fds: &[(RawFd, u32)], until: u64) -> End {
    keep_errno(|| wait_for(fds, until))
}

/// Returns what `wait_since` needs to wait for `fd` without a system call, after an attempt that follows;
/// `None` if this caller cannot. *Runs on: a green thread, in user code.*
#[inline]
pub fn seen(fd: RawFd) -> Option<Seen> {
    // SAFETY: as in `wait_for`.
    let m = unsafe { own_m() };
    let seen = m.sched().netpoll.foreign_if_any()?.seen(fd);
    seen.filter(|_| may_move(current_g().expect("a green thread runs here").shared()))
}

/// As `wait`, for `EPOLLIN` or `EPOLLOUT` of one descriptor. `seen` is from before the caller's attempt. If
/// the number was closed and used again unseen, no event comes: so `until` must be near. *Runs on: as `wait`,
/// after `seen`.*
pub fn wait_since(seen: Seen, fd: RawFd, events: u32, until: u64) -> End {
    keep_errno(|| {
        // SAFETY: as in `wait_for`.
        let foreign = unsafe { own_m() }.sched().netpoll.foreign();
        let waiting = Waiting::begin_for(Why::Socket, Cancel::Ends);
        let ticket = waiting.ticket();
        let waiter = Waiter::new(ticket.word());
        if !unpaused(|| foreign.wait_since(fd, events, waiter, seen)) {
            return End::Again;
        }
        let outcome = park_here(waiting, until);
        if outcome != Outcome::Woken {
            unpaused(|| foreign.withdraw(fd, waiter));
        }
        end_of(ticket.g, outcome)
    })
}

/// Returns the M of this OS thread.
///
/// # Safety
/// A green thread runs here, and uses the M no longer than its runtime lives, which the green thread keeps
/// until it ends.
unsafe fn own_m<'m>() -> OwnM<'m> {
    // SAFETY: this contract.
    unsafe { OwnM::new(&*on_m(|m| ptr::from_ref(m.shared())).expect("a green thread runs on an M")) }
}

fn wait_for(fds: &[(RawFd, u32)], until: u64) -> End {
    // SAFETY: the caller is a green thread, and its runtime lives as long as it.
    let m = unsafe { own_m() };
    let moves = may_move(current_g().expect("a green thread runs here").shared());
    let netpoll = &m.sched().netpoll;
    let station = match if moves { netpoll.shared_station() } else { m.station() } {
        Ok(station) => station,
        Err(error) => return End::Refused(error.raw_os_error().unwrap_or(libc::EMFILE)),
    };
    let foreign = netpoll.foreign();
    let waiting = Waiting::begin_for(Why::Socket, Cancel::Ends);
    let ticket = waiting.ticket();
    let waiter = Waiter::new(ticket.word());
    let mut stale = Vec::new();
    for (at, &(fd, events)) in fds.iter().enumerate() {
        let added = unpaused(|| foreign.wait(station, fd, events, waiter, &mut stale));
        end_as_closed(&mut stale, Some(ticket));
        if let Err(error) = added {
            fds[..at].iter().for_each(|&(fd, _)| unpaused(|| foreign.withdraw(fd, waiter)));
            return End::Refused(error.raw_os_error().unwrap_or(libc::EINVAL));
        }
    }
    let park = || park_here(waiting, until);
    let outcome = if moves { park() } else { m.counts_at_station(park) };
    if outcome != Outcome::Woken || fds.len() > 1 {
        fds.iter().for_each(|&(fd, _)| unpaused(|| foreign.withdraw(fd, waiter)));
    }
    end_of(ticket.g, outcome)
}

/// Parks the caller until `until` on the runtime's clock. *Runs on: a green thread, in user code.*
pub fn sleep_until(until: u64) -> End {
    let waiting = Waiting::begin_for(Why::Sleep, Cancel::Ends);
    let g = waiting.ticket().g;
    end_of(g, keep_errno(|| park_here(waiting, until)))
}

/// Parks until `until` on the runtime's clock, and returns with the same thread-locals. *Runs on: a green
/// thread, in user code.*
pub fn park_here(waiting: Waiting, until: u64) -> Outcome {
    keep_bound(|| if until == clock::NEVER { waiting.park() } else { waiting.park_until_ns(until) })
}

/// Runs `wait`, which may park but not unwind, and returns with the same thread-locals. Leaves `errno` alone.
/// *Runs on: a green thread, in user code.*
pub fn keep_thread<T>(wait: impl FnOnce() -> T) -> T {
    keep_errno(|| keep_bound(wait))
}

fn keep_bound<T>(wait: impl FnOnce() -> T) -> T {
    let g = current_g().expect("a green thread runs here");
    if may_move(g.shared()) {
        return wait();
    }
    let polled = g.set_polls(true);
    let result = wait();
    g.set_polls(polled);
    result
}

/// Runs a part of the runtime for foreign code, and leaves `errno` alone: the caller's call may succeed, and
/// then its `errno` is what it was. The runtime's own calls write it, such as a lock's that waits, and so do
/// other green threads on this OS thread. May move to another OS thread as `call` does.
pub fn keep_errno<T>(call: impl FnOnce() -> T) -> T {
    let errno = sys::errno();
    let result = call();
    sys::set_errno(errno);
    result
}

/// Returns `true` if `g`, which runs here, has thread-locals of its own.
fn may_move(g: GRef) -> bool {
    // SAFETY: a running G has its coroutine, which this thread alone uses.
    unsafe { Coro::block_of(g) }.is_some()
}

/// Returns why a wait of the caller was interrupted: by its cancellation, or else by a `timeout` around it.
/// *Runs on: a green thread, in user code, right after the wait.*
pub fn interruption() -> End {
    interruption_of(current_g().expect("a green thread runs here").shared())
}

fn interruption_of(g: GRef) -> End {
    if is_interrupted() || g.wait.is_revoked() { End::Cancelled } else { End::DeadlinePassed }
}

/// Returns `true` if the caller is a green thread in `blocking`.
pub fn is_blocking() -> bool {
    current_g().is_some_and(|g| g.binding.is_blocking())
}

fn end_of(g: GRef, outcome: Outcome) -> End {
    match outcome {
        Outcome::Woken if g.wait.case() == CLOSED => End::Closed,
        Outcome::Woken => End::Again,
        Outcome::TimedOut => End::TimedOut,
        Outcome::Cancelled => interruption_of(g),
    }
}

/// Ends the waits of foreign code for `fd` in all runtimes, because the descriptor has been closed. *Runs on:
/// any thread.*
pub fn closed(fd: RawFd) {
    let mut waiters = Vec::new();
    in_each_runtime(|foreign| foreign.closed(fd, &mut waiters));
    keep_errno(|| end_as_closed(&mut waiters, None));
}

/// Lets no runtime rely on what it knows of `fd`, which is about to be closed. *Runs on: any thread.*
pub fn leave(fd: RawFd) {
    in_each_runtime(|foreign| foreign.leave(fd));
}

fn in_each_runtime(mut call: impl FnMut(&Foreign)) {
    if fork::is_forked() {
        // The waits are the parent's, and so is the epoll instance, which the child has inherited.
        return;
    }
    keep_errno(|| {
        for sched in Sched::all() {
            if let Some(foreign) = sched.netpoll.foreign_if_any() {
                unpaused(|| call(foreign));
            }
        }
    });
}

/// Ends the waits of `waiters` as closed, but not that of `own`, which its waiter has begun anew.
fn end_as_closed(waiters: &mut Vec<Waiter>, own: Option<Ticket>) {
    for waiter in waiters.drain(..) {
        let own = own.is_some_and(|own| own.word() == waiter.word());
        if let Some(Ticket { g, number }) = Ticket::from_word(waiter.word()).filter(|_| !own)
            && g.wait.decide_case(number, Outcome::Woken, CLOSED) == Decision::Parked
        {
            wake::ready(g);
        }
    }
}

impl OwnM<'_> {
    /// Returns `true` if this M runs the code of a green thread, and not the runtime.
    #[inline]
    fn runs_user_code(self) -> bool {
        !matches!(self.own().loan.get(), crate::m::Loan::InRuntime) && self.running().is_some()
    }
}
