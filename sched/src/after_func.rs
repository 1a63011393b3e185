//! A timer that has a function run, each time that it fires, by a green thread made for that (Go: `AfterFunc`).
//!
//! One allocation has the timer, the function, and the counts of their keepers (`keepers.rs`), so the word in a heap entry
//! is all that leads to it. The users are the handle and each run of the function: the last user drops the function,
//! outside the runtime. A heap entry is an owner of the memory alone: it may stay in its heap for long after the timer was
//! stopped, and is dropped by an M, where no user code may run.
//!
//! A run becomes a user when the timer is taken out of its heap, in the same step after which `stop` gives `false`. So
//! `stop` and `reset` are exact: what they have not stopped runs, even if the handle is dropped before a green thread
//! can be made for it.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use timers::{Modified, Timer, clock};

use crate::fork;
use crate::g::task::{Closure, Work, put};
use crate::g::{GRef, Status, table};
use crate::ids;
use crate::keepers::Keepers;
use crate::lend::{self, enter};
use crate::p::Held;
use crate::sched::Sched;
use crate::timer::{Alarm, TimerRef, Whom};

/// What all of them have; the function follows it.
#[repr(C)]
pub(crate) struct Head {
    pub(crate) timer: Timer,
    keepers: Keepers,
    /// Where it was made: where its green threads are spawned.
    place: &'static Location<'static>,
    kind: &'static Kind,
}

/// One whose function is an `F`.
#[repr(C)]
struct Whole<F> {
    head: Head,
    /// There until the last user is gone.
    function: ManuallyDrop<F>,
}

/// What depends on the function's type.
struct Kind {
    /// Calls it. The caller is a user.
    call: unsafe fn(NonNull<Head>),
    /// Drops it. The caller was the last user.
    drop: unsafe fn(NonNull<Head>),
    /// Frees the memory. The caller was the last owner.
    free: unsafe fn(NonNull<Head>),
}

struct KindOf<F>(PhantomData<F>);

impl<F: Fn() + Send + Sync + 'static> KindOf<F> {
    const KIND: Kind = Kind { call: Self::call, drop: Self::drop, free: Self::free };

    unsafe fn call(head: NonNull<Head>) {
        // SAFETY: `Head` is the first field of what `AfterFunc::new` made, and a user keeps the function.
        let whole = unsafe { head.cast::<Whole<F>>().as_ref() };
        (whole.function)();
    }

    unsafe fn drop(head: NonNull<Head>) {
        // SAFETY: likewise; no user is left, so nobody else has the function, nor will.
        unsafe { ManuallyDrop::drop(&mut (*head.cast::<Whole<F>>().as_ptr()).function) };
    }

    unsafe fn free(head: NonNull<Head>) {
        // SAFETY: likewise; no owner is left. The function is dropped already, and is not dropped again.
        drop(unsafe { Box::from_raw(head.cast::<Whole<F>>().as_ptr()) });
    }
}

/// One who keeps the memory; a heap entry is one.
pub(crate) fn retain(head: &Head) {
    head.keepers.retain();
}

/// Likewise no more.
///
/// # Safety
/// The caller was one, and does not use it any more.
pub(crate) unsafe fn release(head: NonNull<Head>) {
    // SAFETY: the caller keeps it until here.
    let this = unsafe { head.as_ref() };
    let free = this.kind.free;
    if this.keepers.release() {
        // SAFETY: the last owner.
        unsafe { free(head) };
    }
}

/// A user: it may call the function.
pub(crate) struct User(NonNull<Head>);

// SAFETY: the counts are atomic, and the function is `Send + Sync`.
unsafe impl Send for User {}
// SAFETY: likewise.
unsafe impl Sync for User {}

impl User {
    fn head(&self) -> &Head {
        // SAFETY: the users are an owner.
        unsafe { self.0.as_ref() }
    }

    /// The user that `count_run` has counted.
    ///
    /// # Safety
    /// The caller is an owner, and takes that user over: each is taken over once.
    pub(crate) unsafe fn of_run(head: NonNull<Head>) -> User {
        User(head)
    }

    fn call(self) {
        // SAFETY: it is a user.
        unsafe { (self.head().kind.call)(self.0) };
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if !self.head().keepers.leave() {
            return;
        }
        // After the function, whose destructor may panic.
        let _owner = Owner(self.0);
        // SAFETY: the last user.
        unsafe { (self.head().kind.drop)(self.0) };
    }
}

/// Counts the run of a timer that is being taken out of its heap to be fired: a user more. *Runs on: the holder of the
/// heap's lock, while the timer is Running: the handle, which stops its timer before it leaves, is still a user.*
pub(crate) fn count_run(head: &Head) {
    head.keepers.join();
}

/// The users' share of the memory.
struct Owner(NonNull<Head>);

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: the users are gone, and were one owner.
        unsafe { release(self.0) };
    }
}

/// The handle of one. Dropping it stops it.
pub struct AfterFunc {
    user: User,
    /// The runtime in whose heaps it is.
    sched: ManuallyDrop<Arc<Sched>>,
}

impl AfterFunc {
    /// Has `function` run `time` from now, by the caller's runtime, else by the one that `sched` gives.
    ///
    /// # Panics
    /// In a child of `fork`: nobody would run it.
    #[track_caller]
    pub fn new<F>(time: Duration, function: F, sched: fn() -> Arc<Sched>) -> AfterFunc
    where
        F: Fn() + Send + Sync + 'static,
    {
        let when = clock::after(time);
        let whole = Box::new(Whole {
            head: Head {
                timer: Timer::new(),
                // The entry that it is about to get.
                keepers: Keepers::new(1),
                place: Location::caller(),
                kind: &KindOf::<F>::KIND,
            },
            function: ManuallyDrop::new(function),
        });
        let head = NonNull::from(Box::leak(whole)).cast::<Head>();
        let user = User(head);
        let entry = TimerRef::of_func(head);
        if let Some(entered) = enter() {
            let sched = entered.m().sched();
            let heap = entered.held().map_or(0, |held| held.index);
            if let Some(when) = sched.heaps.add(heap, entry, when, 0, 0) {
                sched.timer_was_added(when);
            }
            return AfterFunc { user, sched: ManuallyDrop::new(sched.arc()) };
        }
        fork::check_or_panic();
        let sched = sched();
        if let Some(when) = sched.heaps.add(0, entry, when, 0, 0) {
            sched.timer_was_added(when);
        }
        AfterFunc { user, sched: ManuallyDrop::new(sched) }
    }

    /// Stops it; `true` if it was armed, and now does not run the function.
    pub fn stop(&self) -> bool {
        !fork::is_forked() && self.sched.heaps.delete(&self.user.head().timer)
    }

    /// Has the function run `time` from now, and not when it was to run before; `true` if that had not come.
    ///
    /// # Panics
    /// In a child of `fork`.
    pub fn reset(&self, time: Duration) -> bool {
        let when = clock::after(time);
        let entry = TimerRef::borrow_func(self.user.0);
        let modified: Modified = match enter() {
            Some(entered) if ptr::eq(entered.m().sched, &**self.sched) => {
                let heap = entered.held().map_or(0, |held| held.index);
                self.sched.heaps.modify(heap, &entry, when, 0, 0)
            }
            entered => {
                // Not of its runtime: a heap without a P's owner at hand.
                drop(entered);
                fork::check_or_panic();
                self.sched.heaps.modify(0, &entry, when, 0, 0)
            }
        };
        if let Some(when) = modified.wake_for {
            self.sched.timer_was_added(when);
        }
        modified.was_pending
    }
}

impl Drop for AfterFunc {
    fn drop(&mut self) {
        if fork::is_forked() {
            // Threads that are not here may be in the middle of anything. The parent's is its own.
            return;
        }
        self.sched.heaps.delete(&self.user.head().timer);
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.sched) };
    }
}

impl std::fmt::Debug for AfterFunc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AfterFunc").field("place", &self.user.head().place).finish_non_exhaustive()
    }
}

impl Sched {
    /// Makes a green thread that runs the function of a timer that has fired, to be put into a run queue. `None` if the
    /// runtime closes or there is no memory for a green thread now. *Runs on: an M with that P.*
    pub(crate) fn g_that_runs(&self, held: Held<'_>, user: User) -> Option<GRef> {
        let admitted = if self.is_closing() { None } else { self.closing.enter_from_outside() };
        let Some(admitted) = admitted else {
            // When the runtime closes, no function is run any more. This user may be the last, and what it drops is user code.
            self.drop_late(user);
            return None;
        };
        let taken = lend::on_m(|m| (m.take_g(), m.next_id()));
        let (g, id) = taken.unwrap_or_else(|| (table::take(0, |_| ()), ids::single()));
        let Ok(g) = g else {
            // Late, by an alarm: the timer itself is its handle's, which may have set it again.
            let alarm = TimerRef::of_alarm(Alarm::new(Whom::Function(user)));
            self.heaps.modify(held.index, &alarm, clock::now() + AGAIN_NS, 0, 0);
            return None;
        };
        // SAFETY: it comes from the pool, so nobody else has a reference.
        unsafe { g.begin(self, id, user.head().place, None) };
        g.life.begin_unjoined();
        g.set_status(Status::Runnable);
        set_task(g, move || user.call());
        admitted.come();
        Some(g)
    }
}

/// How soon a function is tried again that found no memory for a green thread.
const AGAIN_NS: u64 = 1_000_000;

fn set_task<F: FnOnce()>(g: GRef, function: F) {
    // SAFETY: a fresh G's payload is empty and ours.
    unsafe { put(g, Work { work: function, after: () }) };
    g.set_task(&Closure::<F, (), ()>::TASK);
}
