//! What a heap entry points at, in one word: a G's own timer, one that stands by itself, or one that runs a function.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use timers::{Handle, Timer};

use crate::after_func::{self, Head, User};
use crate::g::wait::{Decision, Outcome};
use crate::g::{G, GRef, Ticket};
use crate::wake;

/// A timer that is no G's own.
pub(crate) struct Alarm {
    pub(crate) timer: Timer,
    /// Whom it wakes, while it is armed. No waker is cloned, called or dropped under this lock: that is user code.
    whom: Mutex<Option<Whom>>,
}

/// Whom an alarm wakes.
pub(crate) enum Whom {
    /// One that parks: this wait of its ends as timed out.
    Wait(Ticket),
    /// A future's.
    Waker(Waker),
    /// The run of a function that found no memory for a green thread.
    Function(User),
}

impl Alarm {
    pub(crate) fn new(whom: Whom) -> Arc<Alarm> {
        Arc::new(Alarm { timer: Timer::new(), whom: Mutex::new(Some(whom)) })
    }

    /// Has it wake by that waker; `false` if it has fired.
    pub(crate) fn follow(&self, waker: &Waker) -> bool {
        match &*self.whom.lock() {
            None => return false,
            Some(Whom::Waker(mine)) if mine.will_wake(waker) => return true,
            Some(_) => {}
        }
        let waker = Whom::Waker(waker.clone());
        let mut whom = self.whom.lock();
        let armed = whom.is_some();
        let dropped = if armed { whom.replace(waker) } else { Some(waker) };
        drop(whom);
        drop(dropped);
        armed
    }

    /// Takes whom it wakes: it wakes nobody any more.
    pub(crate) fn take(&self) -> Option<Whom> {
        self.whom.lock().take()
    }
}

/// What came of a timer that fired.
pub(crate) enum Fired {
    /// Nobody is to be made runnable, or has been already.
    Nobody,
    /// A G to be put into a run queue.
    G(GRef),
    /// A waker to be called where user code may run.
    Waker(Waker),
    /// A function to be run where user code may run.
    Func(User),
}

/// A counted reference to a G or (the low bits say which) to an [`Alarm`] or an [`after_func`]. So a G whose timer still lies in a heap,
/// stopped long ago, is not used again: its next runtime would not be the one that this heap belongs to.
pub(crate) struct TimerRef(usize);

const KIND: usize = 3;
const ALARM: usize = 1;
const FUNC: usize = 2;

/// In the number that comes back when a G's own timer fires: it is lent to a future, whose waker is meant.
pub(crate) const FOR_FUTURE: u64 = 1 << 63;

enum What<'t> {
    G(GRef),
    Alarm(&'t Alarm),
    Func(NonNull<Head>),
}

impl TimerRef {
    #[inline]
    pub(crate) fn of_g(g: GRef) -> Self {
        g.life.retain();
        TimerRef(std::ptr::from_ref(g).expose_provenance())
    }

    pub(crate) fn of_alarm(alarm: Arc<Alarm>) -> Self {
        TimerRef(Arc::into_raw(alarm).expose_provenance() | ALARM)
    }

    /// The entry of an [`after_func`]: one of its owners.
    pub(crate) fn of_func(head: NonNull<Head>) -> Self {
        TimerRef(head.expose_provenance().get() | FUNC)
    }

    /// Likewise, for a caller that keeps it meanwhile.
    pub(crate) fn borrow_func(head: NonNull<Head>) -> ManuallyDrop<Self> {
        ManuallyDrop::new(TimerRef::of_func(head))
    }

    #[inline]
    fn what(&self) -> What<'_> {
        let address = self.0 & !KIND;
        match self.0 & KIND {
            // SAFETY: `of_g` made it, and Gs are never freed.
            0 => What::G(unsafe { &*std::ptr::with_exposed_provenance::<G>(address) }),
            // SAFETY: `of_alarm` made it, and this reference counts.
            ALARM => What::Alarm(unsafe { &*std::ptr::with_exposed_provenance::<Alarm>(address) }),
            _ => {
                let head = std::ptr::with_exposed_provenance_mut(address);
                What::Func(NonNull::new(head).expect("`of_func` made it"))
            }
        }
    }

    /// It has fired. *Runs on: any thread, no lock held.*
    #[inline]
    pub(crate) fn fire(self, seq: u64) -> Fired {
        match self.what() {
            What::G(g) if seq & FOR_FUTURE == 0 => end_wait(g, seq as u32, Outcome::TimedOut),
            What::G(g) => match g.wakes.unpark() {
                Some(number) => end_wait(g, number, Outcome::Woken),
                None => Fired::Nobody,
            },
            What::Alarm(alarm) => match alarm.take() {
                None => Fired::Nobody,
                Some(Whom::Wait(ticket)) => {
                    wake::end_wait(ticket, Outcome::TimedOut);
                    Fired::Nobody
                }
                Some(Whom::Waker(waker)) if wake::is_harmless(&waker) => {
                    waker.wake();
                    Fired::Nobody
                }
                Some(Whom::Waker(waker)) => Fired::Waker(waker),
                Some(Whom::Function(user)) => Fired::Func(user),
            },
            // SAFETY: this reference is an owner; it was taken to be fired, and it is fired once.
            What::Func(head) => Fired::Func(unsafe { User::of_run(head) }),
        }
    }
}

fn end_wait(g: GRef, number: u32, outcome: Outcome) -> Fired {
    let parked = g.wait.decide(number, outcome) == Decision::Parked;
    if parked && !wake::is_elsewhere(g) { Fired::G(g) } else { Fired::Nobody }
}

impl Handle for TimerRef {
    #[inline]
    fn timer(&self) -> &Timer {
        match self.what() {
            What::G(g) => &g.timer,
            What::Alarm(alarm) => &alarm.timer,
            // SAFETY: this reference is one of its owners, or somebody keeps what it was borrowed from.
            What::Func(head) => unsafe { &head.as_ref().timer },
        }
    }

    #[inline]
    fn taken(&self) {
        if let What::Func(head) = self.what() {
            // SAFETY: this reference is an owner.
            after_func::count_run(unsafe { head.as_ref() });
        }
    }
}

impl Clone for TimerRef {
    fn clone(&self) -> Self {
        match self.what() {
            What::G(g) => g.life.retain(),
            // SAFETY: `of_alarm` made it from an `Arc`, of which this reference counts as one.
            What::Alarm(alarm) => unsafe { Arc::increment_strong_count(alarm) },
            // SAFETY: as in `timer`.
            What::Func(head) => after_func::retain(unsafe { head.as_ref() }),
        }
        TimerRef(self.0)
    }
}

impl Drop for TimerRef {
    #[inline]
    fn drop(&mut self) {
        match self.what() {
            What::G(g) => wake::release(g),
            // SAFETY: likewise.
            What::Alarm(alarm) => unsafe { Arc::decrement_strong_count(alarm) },
            // SAFETY: likewise, by `of_func`.
            What::Func(head) => unsafe { after_func::release(head) },
        }
    }
}
