//! Handles of a thread: `GHandle` to name, wake and cancel it, and `Join` to wait for its end and take its
//! result.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use crate::api::budget;
use crate::api::mask::uncancellable;
use crate::api::park::{self, Waiting};
use crate::g::joiner::Joiner;
use crate::g::payload;
use crate::g::wait::{Cancel, Decision, Outcome};
use crate::g::why::{Awaited, On, Why};
use crate::g::{GRef, Identity};
use crate::m::current::current_g;
use crate::m::release::release;
use crate::run::task::drop_unseen;
use crate::run::wake;

/// A counted reference to a green thread, or to a plain OS thread by its proxy G.
pub struct GHandle(GRef);

impl GHandle {
    /// Returns what names this thread also after its end.
    pub fn identity(&self) -> Identity {
        Identity { g: self.g(), id: self.id() }
    }

    /// Returns a handle of the calling thread.
    pub fn current() -> GHandle {
        let g = park::me();
        g.life.retain();
        GHandle(g.shared())
    }

    /// Returns a handle of `g` if it has not ended, or if other handles exist.
    pub(crate) fn of_living(g: GRef) -> Option<GHandle> {
        (g.is_green() && g.life.try_retain()).then(|| GHandle(g))
    }

    pub(crate) fn g(&self) -> GRef {
        self.0
    }

    /// Returns `true` for a green thread, false for a plain OS thread.
    pub fn is_green(&self) -> bool {
        self.0.is_green()
    }

    /// Returns the id. No other green or OS thread ever has the same id.
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// Returns the name, if the thread has one.
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Gives the thread another name. *Runs on: one thread at a time for each green thread, which has been
    /// spawned.*
    pub fn rename(&self, name: &str) {
        self.0.origin.rename(name);
    }

    /// Returns where the thread was spawned.
    pub fn place(&self) -> Option<&'static Location<'static>> {
        self.0.place()
    }

    /// Returns `true` if the thread has ended.
    pub fn is_done(&self) -> bool {
        self.0.life.is_done()
    }

    /// Cancels a green thread: its current and every later parking call unwinds. Does nothing to a plain
    /// thread.
    pub fn cancel(&self) {
        let g = self.0;
        if g.is_green() && !g.life.is_done() && g.wait.cancel() == Decision::Parked {
            wake::ready(g);
        }
    }

    /// Lets the current or the next `park` of the thread return.
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
        release(self.0);
    }
}

impl std::fmt::Debug for GHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GHandle").field("id", &self.id()).field("name", &self.name()).finish()
    }
}

/// The single handle that gets the result. Dropping it detaches the green thread.
pub struct Join<T> {
    g: GHandle,
    /// True after the result was taken.
    over: bool,
    _result: PhantomData<fn() -> T>,
}

// SAFETY: the handle at most moves a `T` out, on the thread that joins, and the spawn requires `T: Send`, as
// in std. `Life` orders all other accesses.
unsafe impl<T> Send for Join<T> {}
// SAFETY: `&Join` gives no access to the result.
unsafe impl<T> Sync for Join<T> {}
impl<T> Unpin for Join<T> {}

impl<T> Join<T> {
    /// Makes the join handle of `g`.
    ///
    /// # Safety
    /// `g` was just begun with a task that returns a `T`, and no other `Join` of it exists.
    pub(crate) unsafe fn new(g: GRef) -> Self {
        Join { g: GHandle(g), over: false, _result: PhantomData }
    }

    /// Returns the handle of the green thread.
    pub fn thread(&self) -> &GHandle {
        &self.g
    }

    /// Returns `true` if the green thread has ended.
    pub fn is_finished(&self) -> bool {
        self.g.0.life.is_done()
    }

    /// Cancels the green thread: its current and every later parking call unwinds.
    pub fn cancel(&self) {
        self.g.cancel();
    }

    /// Waits for the end of the green thread and returns its result. Panics on self-join.
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

    /// Waits for the end and returns the result, like `join`, but a cancellation does not end the wait. For
    /// green threads that borrow from the caller's frame.
    pub fn join_surely(mut self) -> thread::Result<T> {
        while !self.is_finished() {
            self.wait(Cancel::Waits);
        }
        self.take()
    }

    /// Panics on self-join.
    fn is_another(&self) {
        let own = current_g().is_some_and(|g| g.is(self.g.0));
        assert!(!own, "a green thread cannot join itself: the wait would never end");
    }

    #[inline(always)]
    fn wait(&self, cancel: Cancel) {
        let life = &self.g.0.life;
        // `unwait` withdraws the waker of an earlier poll. If it fails, the G has ended and uses that waker.
        if !life.unwait() {
            return;
        }
        // SAFETY: `unwait` returned `true`, so the G does not use the joiner. (Drop the old waker before this
        // wait begins: its destructor is user code and may itself wait.)
        drop(unsafe { self.g.0.take_joiner() });
        let on = On::new(&self.g, |g| Some(Awaited::Thread { id: g.id() }));
        // SAFETY: `on` and the handle stay in place until this function returns, after the wait.
        let waiting = unsafe { Waiting::begin_on(Why::End, &on, cancel) };
        // SAFETY: the caller is the join handle, and `unwait` returned `true`.
        unsafe { self.g.0.set_parked_joiner(waiting.ticket()) };
        if life.wait() && waiting.park() == Outcome::Cancelled && life.unwait() {
            // SAFETY: the caller is the join handle, and `unwait` returned `true`.
            drop(unsafe { self.g.0.take_joiner() });
        }
    }

    fn take(&mut self) -> thread::Result<T> {
        let over = std::mem::replace(&mut self.over, true);
        assert!(!over, "a JoinHandle was polled or joined after a poll had returned its result");
        // SAFETY: the G is done and `INTEREST` was set, so the result is there and belongs to the handle.
        // `over` lets it be taken once.
        unsafe { payload::take(self.g.0) }
    }
}

impl<T> Future for Join<T> {
    type Output = thread::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        budget::poll(cx, |cx| self.poll_end(cx))
    }
}

impl<T> Join<T> {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<thread::Result<T>> {
        let g = self.g.0;
        if !self.is_finished() {
            crate::sys::fork::check_or_panic();
            self.is_another();
            // Clone first: `clone` is user code, and if it panics, an earlier waker stays in place.
            let waker = cx.waker().clone();
            // `unwait` withdraws the waker of an earlier poll. If it fails, the G has ended and uses that
            // waker.
            if g.life.unwait() {
                // SAFETY: the caller is the join handle, and `unwait` returned `true`.
                let before = unsafe { g.replace_joiner(Joiner::Polls(waker)) };
                if g.life.wait() {
                    drop(before);
                    return Poll::Pending;
                }
                // SAFETY: `wait` returned `false`, so the G has ended without using this joiner, and never
                // will.
                drop(unsafe { g.take_joiner() });
            }
        }
        Poll::Ready(self.take())
    }
}

impl<T> Drop for Join<T> {
    #[inline]
    fn drop(&mut self) {
        let g = self.g.0;
        if self.over {
            return;
        }
        if !g.life.abandon() {
            // SAFETY: `abandon` returned `false`: the G is done, and the result belongs to the handle.
            let result = unsafe { payload::take::<thread::Result<T>>(g) };
            uncancellable(|| drop_unseen(g, result));
        }
    }
}

impl<T> std::fmt::Debug for Join<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Join").field("thread", &self.g).field("finished", &self.is_finished()).finish()
    }
}
