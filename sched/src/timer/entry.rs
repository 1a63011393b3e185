//! `TimerRef`: what a heap of timers stores for each timer, in one word: a G, an alarm or a timer's function.
//! An `Alarm` is a timer of its own. An alarm wakes a parked wait or a future, or retries a function's run.
//! `fire` returns what has ended (`Fired`); the caller wakes or runs that.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

use timers::{Handle, Timer};

use crate::g::wait::{Decision, Outcome};
use crate::g::{G, GRef, Ticket};
use crate::m::release::release;
use crate::sync::Mutex;
use crate::timer::function::{self, Head, User};

/// A timer that does not belong to a G.
pub(crate) struct Alarm {
    pub(crate) timer: Timer,
    /// What the alarm wakes while it is armed. No waker is cloned, called or dropped under this lock: that is
    /// user code.
    target: Mutex<Option<Target>>,
}

/// What an alarm wakes.
pub(crate) enum Target {
    /// A parked waiter: this wait ends as timed out.
    Wait(Ticket),
    /// A future, by its waker.
    Waker(Waker),
    /// The run of a timer's function that found no memory for a green thread.
    Function(User),
}

impl Alarm {
    pub(crate) fn new(target: Target) -> Arc<Alarm> {
        Arc::new(Alarm { timer: Timer::new(), target: Mutex::new(Some(target)) })
    }

    /// Replaces the waker of an armed alarm. Returns `false` if the alarm has fired.
    pub(crate) fn follow(&self, waker: &Waker) -> bool {
        match &*self.target.lock() {
            None => return false,
            Some(Target::Waker(mine)) if mine.will_wake(waker) => return true,
            Some(_) => {}
        }
        let waker = Target::Waker(waker.clone());
        let mut target = self.target.lock();
        let armed = target.is_some();
        let dropped = if armed { target.replace(waker) } else { Some(waker) };
        drop(target);
        drop(dropped);
        armed
    }

    /// Takes what the alarm wakes. After that the alarm wakes nothing.
    pub(crate) fn take(&self) -> Option<Target> {
        self.target.lock().take()
    }
}

/// What the firing of a timer has ended, for the caller to wake or run.
pub(crate) enum Fired {
    /// Nothing: there was no open wait, or its waiter had not parked yet and goes on by itself.
    Nothing,
    /// A parked wait of this G. The caller makes the G runnable.
    G(GRef),
    /// A future. The caller has this waker called where user code may run.
    Waker(Waker),
    /// A user of a function. The caller has the function run where user code may run.
    Func(User),
}

/// A counted reference to a G, an [`Alarm`] or a function (`timer/function.rs`); the low bits say which. The
/// count keeps a G from being reused while its stopped timer still lies in a heap. The G's next runtime might
/// not be the runtime of that heap.
pub(crate) struct TimerRef(NonZeroUsize);

const KIND: usize = 3;
const ALARM: usize = 1;
const FUNC: usize = 2;

/// A bit in the number of a G's own timer: the timer is lent to a future, and wakes that future.
pub(crate) const FOR_FUTURE: u64 = 1 << 63;

enum What<'t> {
    G(GRef),
    Alarm(&'t Alarm),
    Func(NonNull<Head>),
}

impl TimerRef {
    /// Makes the entry of a G without a reference of its own. The caller must keep `g` alive as long as the
    /// entry.
    #[inline]
    pub(crate) fn borrow_g(g: GRef) -> ManuallyDrop<Self> {
        ManuallyDrop::new(TimerRef(NonNull::from(g).expose_provenance()))
    }

    pub(crate) fn of_alarm(alarm: Arc<Alarm>) -> Self {
        let alarm = NonNull::new(Arc::into_raw(alarm).cast_mut()).expect("an `Arc` leads to an alarm");
        TimerRef(alarm.expose_provenance() | ALARM)
    }

    /// Makes the entry of a function, and takes over one of its owners.
    pub(crate) fn of_func(head: NonNull<Head>) -> Self {
        TimerRef(head.expose_provenance() | FUNC)
    }

    /// Makes the entry of a function without an owner of its own. The caller must keep `head` alive as long
    /// as the entry.
    pub(crate) fn borrow_func(head: NonNull<Head>) -> ManuallyDrop<Self> {
        ManuallyDrop::new(TimerRef::of_func(head))
    }

    #[inline]
    fn what(&self) -> What<'_> {
        let address = self.0.get() & !KIND;
        match self.0.get() & KIND {
            // SAFETY: `borrow_g` made the address from a G, and Gs are never freed.
            0 => What::G(unsafe { &*std::ptr::with_exposed_provenance::<G>(address) }),
            // SAFETY: `of_alarm` made the address from an `Arc`, and this reference counts as one.
            ALARM => What::Alarm(unsafe { &*std::ptr::with_exposed_provenance::<Alarm>(address) }),
            _ => {
                let head = std::ptr::with_exposed_provenance_mut(address);
                What::Func(NonNull::new(head).expect("`of_func` made the address"))
            }
        }
    }

    /// Decides the wait that the timer was armed for. Returns what that has ended. *Runs on: any thread, with
    /// no lock held.*
    #[inline]
    pub(crate) fn fire(self, seq: u64) -> Fired {
        match self.what() {
            What::G(g) if seq & FOR_FUTURE == 0 => end_wait(g, seq as u32, Outcome::TimedOut),
            What::G(g) => match g.wakes.unpark() {
                Some(number) => end_wait(g, number, Outcome::Woken),
                None => Fired::Nothing,
            },
            What::Alarm(alarm) => match alarm.take() {
                None => Fired::Nothing,
                Some(Target::Wait(ticket)) => end_wait(ticket.g, ticket.number, Outcome::TimedOut),
                Some(Target::Waker(waker)) => Fired::Waker(waker),
                Some(Target::Function(user)) => Fired::Func(user),
            },
            // SAFETY: `taken` has counted a user for this run, and `fire` consumes the reference, so the user
            // is taken over once.
            What::Func(head) => Fired::Func(unsafe { User::of_run(head) }),
        }
    }
}

fn end_wait(g: GRef, number: u32, outcome: Outcome) -> Fired {
    let parked = g.wait.decide(number, outcome) == Decision::Parked;
    if parked { Fired::G(g) } else { Fired::Nothing }
}

impl Handle for TimerRef {
    #[inline]
    fn timer(&self) -> &Timer {
        match self.what() {
            What::G(g) => &g.timer,
            What::Alarm(alarm) => &alarm.timer,
            // SAFETY: this reference is an owner, or the caller of `borrow_func` keeps `head` alive.
            What::Func(head) => unsafe { &head.as_ref().timer },
        }
    }

    #[inline]
    fn taken(&self) {
        if let What::Func(head) = self.what() {
            // SAFETY: this reference is an owner, so the memory is alive.
            function::count_run(unsafe { head.as_ref() });
        }
    }
}

impl Clone for TimerRef {
    fn clone(&self) -> Self {
        match self.what() {
            What::G(g) => g.life.retain(),
            // SAFETY: `of_alarm` made the address from an `Arc`, and this reference counts as one.
            What::Alarm(alarm) => unsafe { Arc::increment_strong_count(alarm) },
            // SAFETY: this reference is an owner, so the memory is alive.
            What::Func(head) => function::retain(unsafe { head.as_ref() }),
        }
        TimerRef(self.0)
    }
}

impl Drop for TimerRef {
    #[inline]
    fn drop(&mut self) {
        match self.what() {
            What::G(g) => release(g),
            // SAFETY: this reference counts as one `Arc`, and is not used again.
            What::Alarm(alarm) => unsafe { Arc::decrement_strong_count(alarm) },
            // SAFETY: this reference is one owner, and is not used again.
            What::Func(head) => unsafe { function::release(head) },
        }
    }
}
