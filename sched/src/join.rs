//! The handle of a G: who it is, waking it, waiting for its end and its result.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use crate::g::task;
use crate::g::wait::{Cancel, Decision, Outcome};
use crate::g::why::Why;
use crate::g::{GRef, Joiner};
use crate::lend;
use crate::park::{self, Waiting};
use crate::wake;

/// A green thread, or a plain OS thread by its face: a counted reference.
pub struct GHandle(GRef);

impl GHandle {
    /// Who calls.
    pub fn current() -> GHandle {
        let g = park::me();
        g.life.retain();
        GHandle(g)
    }

    pub(crate) fn g(&self) -> GRef {
        self.0
    }

    /// Unique for ever among green and OS threads.
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// Its name.
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Where it was spawned.
    pub fn place(&self) -> Option<&'static Location<'static>> {
        self.0.place()
    }

    /// Whether it has ended.
    pub fn is_done(&self) -> bool {
        self.0.life.is_done()
    }

    /// Makes its current and every later parking call unwind.
    pub fn cancel(&self) {
        let g = self.0;
        if g.is_green() && !g.life.is_done() && g.wait.cancel() == Decision::Parked {
            wake::ready(g);
        }
    }

    /// Lets its current or next `park` return.
    pub fn unpark(&self) {
        park::unpark(self.0);
    }
}

impl Clone for GHandle {
    fn clone(&self) -> Self {
        self.0.life.retain();
        GHandle(self.0)
    }
}

impl Drop for GHandle {
    #[inline]
    fn drop(&mut self) {
        wake::release(self.0);
    }
}

impl std::fmt::Debug for GHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GHandle").field("id", &self.id()).field("name", &self.name()).finish()
    }
}

/// The one handle that gets the result. Dropping it lets the green thread go on by itself.
pub struct Join<T> {
    g: GHandle,
    /// The result was taken.
    over: bool,
    _result: PhantomData<fn() -> T>,
}

// SAFETY: the handle moves a `T` out at most, on the thread that joins; all else is shared by protocol (`Life`). As in
// std, the spawn requires `T: Send`.
unsafe impl<T> Send for Join<T> {}
// SAFETY: `&Join` gives nothing of the result.
unsafe impl<T> Sync for Join<T> {}
impl<T> Unpin for Join<T> {}

impl<T> Join<T> {
    /// # Safety
    /// `g` was just begun with a task whose result is a `T`, and no other `Join` of it exists.
    pub(crate) unsafe fn new(g: GRef) -> Self {
        Join { g: GHandle(g), over: false, _result: PhantomData }
    }

    /// The thread.
    pub fn thread(&self) -> &GHandle {
        &self.g
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.g.0.life.is_done()
    }

    /// Makes its current and every later parking call unwind.
    pub fn cancel(&self) {
        self.g.cancel();
    }

    /// Waits for its end and takes its result.
    #[inline(always)]
    pub fn join(mut self) -> thread::Result<T> {
        park::unwind_if_cancelled();
        if !self.is_finished() {
            self.is_another();
            self.wait(Cancel::Ends);
            if !self.is_finished() {
                park::unwind_if_cancelled();
                unreachable!("only a cancelled wait ends early");
            }
        }
        self.take()
    }

    /// Like `join`, but not to be cancelled: what the green thread borrows must outlive it.
    pub fn join_surely(mut self) -> thread::Result<T> {
        while !self.is_finished() {
            self.wait(Cancel::Waits);
        }
        self.take()
    }

    /// Nobody sees its own end.
    fn is_another(&self) {
        let own = lend::current_g().is_some_and(|g| std::ptr::eq(g, self.g.0));
        assert!(!own, "a green thread waits for its own end, which would never come");
    }

    #[inline(always)]
    fn wait(&self, cancel: Cancel) {
        let life = &self.g.0.life;
        // The waker of an earlier poll goes first, unless the G has ended and uses it.
        if !life.unwait() {
            return;
        }
        // SAFETY: `unwait` succeeded. Before our own wait begins, for dropping a waker is user code, which may wait too.
        drop(unsafe { self.g.0.take_joiner() });
        let waiting = Waiting::begin_for(Why::End, cancel);
        // SAFETY: we are the join handle, and `unwait` succeeded.
        let _nobody = unsafe { self.g.0.replace_joiner(Joiner::Parked(waiting.ticket())) };
        if life.wait() && waiting.park() == Outcome::Cancelled && life.unwait() {
            // SAFETY: `unwait` succeeded.
            drop(unsafe { self.g.0.take_joiner() });
        }
    }

    fn take(&mut self) -> thread::Result<T> {
        let over = std::mem::replace(&mut self.over, true);
        assert!(!over, "a JoinHandle is asked for its result again, which an earlier poll has given");
        // SAFETY: the G is done and the interest was ours, so the result is there and ours; `over` says once.
        unsafe { task::take(self.g.0) }
    }
}

impl<T> Future for Join<T> {
    type Output = thread::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let g = self.g.0;
        if !self.is_finished() {
            crate::fork::check_or_panic();
            self.is_another();
            // First of all: it is user code, and if it panics an earlier waker stays where it is.
            let waker = cx.waker().clone();
            // The waker of an earlier poll goes first, unless the G has ended and uses it.
            if g.life.unwait() {
                // SAFETY: `unwait` succeeded, so nobody but us, the join handle, looks at the joiner.
                let before = unsafe { g.replace_joiner(Joiner::Polls(waker)) };
                if g.life.wait() {
                    drop(before);
                    return Poll::Pending;
                }
                // SAFETY: `wait` failed, so the G has not looked at it and never will.
                drop(unsafe { g.take_joiner() });
            }
        }
        Poll::Ready(self.take())
    }
}

impl<T> Drop for Join<T> {
    fn drop(&mut self) {
        let g = self.g.0;
        if self.over {
            return;
        }
        if !g.life.abandon() {
            // SAFETY: the G is done and left the result to us.
            drop(unsafe { task::take::<thread::Result<T>>(g) });
        }
    }
}

impl<T> std::fmt::Debug for Join<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Join").field("thread", &self.g).field("finished", &self.is_finished()).finish()
    }
}
