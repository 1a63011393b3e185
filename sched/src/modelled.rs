//! Replaces the scheduler in loom models of other crates: of the wait queue and of what stands on it. A
//! `Sleeper` stands for a G: a loom thread that parks. `Ticket`, `Waiting`, `Wake` and `Wakes` have the
//! interface of the real types.

use std::cell::RefCell;
use std::task::Waker;
use std::time::Instant;

use loom::sync::{Arc, Notify};

use crate::g::wait::{Cancel, Decision, Outcome, Wait};
use crate::g::why::{On, Why};

/// What a G is in the runtime: the word of a wait, and a condition on which a loom thread sleeps. A model
/// keeps it to its end, as Gs are kept.
#[derive(Debug)]
pub struct Sleeper {
    wait: Wait,
    bed: Notify,
}

loom::thread_local! {
    /// The sleeper of this thread.
    static ME: RefCell<Option<Arc<Sleeper>>> = RefCell::new(None);
}

fn me() -> Option<Arc<Sleeper>> {
    ME.with(|me| me.borrow().clone())
}

impl Sleeper {
    /// Makes a sleeper. The first wait of a sleeper has number 1.
    #[expect(clippy::new_ret_no_self, reason = "many threads have it")]
    pub fn new() -> Arc<Self> {
        Arc::new(Sleeper { wait: Wait::new(), bed: Notify::new() })
    }

    /// Makes this the sleeper of the calling thread. The model keeps it until all threads have ended.
    pub fn is_me(this: &Arc<Self>) {
        ME.with(|me| *me.borrow_mut() = Some(this.clone()));
    }

    /// Decides wait `number` as timed out, as its timer would.
    pub fn time_out(&self, number: u32) {
        if self.wait.decide(number, Outcome::TimedOut) == Decision::Parked {
            self.bed.notify();
        }
    }

    /// Returns `true` if the last wait timed out.
    pub fn has_timed_out(&self) -> bool {
        self.wait.outcome() == Outcome::TimedOut
    }

    /// Cancels the sleeper. Returns `true` if that ended a wait.
    pub fn cancel(&self) -> bool {
        let decision = self.wait.cancel();
        if decision == Decision::Parked {
            self.bed.notify();
        }
        decision != Decision::Lost
    }
}

/// Unwinds if the calling thread's sleeper was cancelled. The model catches the unwind.
pub fn unwind_if_cancelled() {
    if me().is_some_and(|me| me.wait.is_cancelled()) {
        std::panic::resume_unwind(Box::new("cancelled"));
    }
}

/// Names one wait of a sleeper, as the runtime's `Ticket` names one wait of a G. The sleeper outlives the
/// ticket.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    sleeper: *const Sleeper,
    number: u32,
}

impl Ticket {
    fn wait(&self) -> &Wait {
        // SAFETY: the model keeps the sleeper until all threads have ended.
        &unsafe { &*self.sleeper }.wait
    }

    /// Returns `true` if the wait is not decided.
    pub fn is_open(self) -> bool {
        self.wait().is_open(self.number)
    }

    /// Decides the wait as woken by `case`. Returns the wake of the waiter; `None` if the wait had ended
    /// otherwise.
    pub fn decide(self, case: u32) -> Option<Wake> {
        match self.wait().decide_case(self.number, Outcome::Woken, case) {
            Decision::Lost => None,
            Decision::Early => Some(Wake::none()),
            Decision::Parked => Some(Wake(Recipient::Parked(self))),
        }
    }

    /// Decides the own wait as woken by `case`, before parking. Returns `false` if another thread has decided
    /// the wait.
    pub fn decide_own(self, case: u32) -> bool {
        self.wait().decide_case(self.number, Outcome::Woken, case) != Decision::Lost
    }

    /// Decides the own wait as timed out, before parking. Returns `false` if another thread has decided the
    /// wait.
    pub fn give_up(self) -> bool {
        self.wait().decide(self.number, Outcome::TimedOut) != Decision::Lost
    }

    /// Returns the case that ended the wait.
    pub fn case(self) -> u32 {
        self.wait().case()
    }
}

/// A decided wait that is still to be woken. Dropping this wakes the sleeper, or calls the waker.
#[derive(Debug)]
#[must_use]
pub struct Wake(Recipient);

#[derive(Debug)]
enum Recipient {
    NoWaiter,
    Parked(Ticket),
    Future(Waker),
}

impl Wake {
    /// Makes a wake without effect.
    pub fn none() -> Self {
        Wake(Recipient::NoWaiter)
    }

    /// Makes a wake that calls `waker`.
    pub fn future(waker: Waker) -> Self {
        Wake(Recipient::Future(waker))
    }

    /// Does what the drop does.
    pub fn deliver_apart(self) {}
}

impl Drop for Wake {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.0, Recipient::NoWaiter) {
            Recipient::NoWaiter => {}
            // SAFETY: the model keeps the sleeper until all threads have ended.
            Recipient::Parked(ticket) => unsafe { &*ticket.sleeper }.bed.notify(),
            Recipient::Future(waker) => waker.wake(),
        }
    }
}

/// Polls a future on the calling loom thread until it is ready. The thread sleeps between polls.
pub fn drive<F: Future>(mut future: std::pin::Pin<&mut F>) -> F::Output {
    let bell = std::sync::Arc::new(Bell(Notify::new()));
    let waker = Waker::from(bell.clone());
    let mut cx = std::task::Context::from_waker(&waker);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        // loom's `Notify` may return without a notification; the future is then polled in vain.
        bell.0.wait();
    }
}

/// The waker of `drive`.
struct Bell(Notify);

impl std::task::Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.notify();
    }
}

/// A batch of wakes. Dropping the batch wakes all its sleepers.
#[derive(Debug, Default)]
#[must_use]
pub struct Wakes(Vec<Wake>);

impl Wakes {
    /// Makes an empty batch.
    pub const fn new() -> Self {
        Wakes(Vec::new())
    }

    /// Adds a wake to the batch.
    pub fn add(&mut self, wake: Wake) {
        self.0.push(wake);
    }
}

impl Extend<Wake> for Wakes {
    fn extend<I: IntoIterator<Item = Wake>>(&mut self, wakes: I) {
        self.0.extend(wakes);
    }
}

/// A wait that has begun.
#[derive(Debug)]
#[must_use]
pub struct Waiting(Ticket);

impl Waiting {
    /// Begins a wait of the calling thread's sleeper.
    pub fn begin(cancel: Cancel) -> Self {
        Waiting::of(&me().expect("a model calls `is_me` before the first wait"), cancel)
    }

    /// Begins a wait of the calling thread's sleeper. The reason is for dumps alone, which a model has not.
    pub fn begin_for(_why: Why, cancel: Cancel) -> Self {
        Waiting::begin(cancel)
    }

    /// Begins a wait of the calling thread's sleeper, like `begin_for`.
    ///
    /// # Safety
    /// Any caller may call this. The function of this name that ships asks for more.
    pub unsafe fn begin_on(_why: Why, _on: &On, cancel: Cancel) -> Self {
        Waiting::begin(cancel)
    }

    /// Begins a wait of `sleeper`.
    pub fn of(sleeper: &Sleeper, cancel: Cancel) -> Self {
        Waiting(Ticket { sleeper, number: sleeper.wait.arm(cancel) })
    }

    /// Returns the ticket of this wait.
    pub fn ticket(&self) -> Ticket {
        self.0
    }

    /// Returns a word that stands for this wait and is never 0.
    pub fn word(&self) -> u64 {
        self.0.sleeper.addr() as u64 + u64::from(self.0.number)
    }

    /// Parks until the wait is decided. Returns how it ended.
    pub fn park(self) -> Outcome {
        // SAFETY: the model keeps the sleeper until all threads have ended.
        let sleeper = unsafe { &*self.0.sleeper };
        if sleeper.wait.commit() {
            // loom's `Notify` may return without a notification.
            while !sleeper.wait.is_decided() {
                sleeper.bed.wait();
            }
        }
        sleeper.wait.outcome()
    }

    /// Parks until the wait is decided; the deadline is ignored. Only [`Sleeper::time_out`] lets the wait
    /// time out.
    pub fn park_until(self, _deadline: Instant) -> Outcome {
        self.park()
    }
}
