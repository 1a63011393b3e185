//! What stands for the scheduler in models, of other crates too: threads of loom that wait.

use std::cell::RefCell;
use std::task::Waker;
use std::time::Instant;

use loom::sync::{Arc, Notify};

use crate::g::wait::{Cancel, Decision, Outcome, Wait};
use crate::g::why::Why;

/// Who waits: the word of its wait, and where its thread sleeps. A model keeps it to its end, as Gs are kept.
#[derive(Debug)]
pub struct Sleeper {
    wait: Wait,
    bed: Notify,
}

loom::thread_local! {
    /// Who waits on this thread.
    static ME: RefCell<Option<Arc<Sleeper>>> = RefCell::new(None);
}

fn me() -> Option<Arc<Sleeper>> {
    ME.with(|me| me.borrow().clone())
}

impl Sleeper {
    /// A new one; its first wait has number 1.
    #[expect(clippy::new_ret_no_self, reason = "many threads have it")]
    pub fn new() -> Arc<Self> {
        Arc::new(Sleeper { wait: Wait::new(), bed: Notify::new() })
    }

    /// From now on it is the one that waits on the calling thread. The model keeps it until all threads have ended.
    pub fn is_me(this: &Arc<Self>) {
        ME.with(|me| *me.borrow_mut() = Some(this.clone()));
    }

    /// What a timer does that was set for the wait of that number, when it fires.
    pub fn time_out(&self, number: u32) {
        if self.wait.decide(number, Outcome::TimedOut) == Decision::Parked {
            self.bed.notify();
        }
    }

    /// Whether its last wait ended so.
    pub fn has_timed_out(&self) -> bool {
        self.wait.outcome() == Outcome::TimedOut
    }

    /// Cancels it; whether that ended a wait.
    pub fn cancel(&self) -> bool {
        let decision = self.wait.cancel();
        if decision == Decision::Parked {
            self.bed.notify();
        }
        decision != Decision::Lost
    }
}

/// Unwinds if the calling thread's sleeper was cancelled; a model catches that.
pub fn unwind_if_cancelled() {
    if me().is_some_and(|me| me.wait.is_cancelled()) {
        std::panic::resume_unwind(Box::new("cancelled"));
    }
}

/// As the real one, with a sleeper for a G. The sleeper outlives it.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    sleeper: *const Sleeper,
    number: u32,
}

impl Ticket {
    fn wait(&self) -> &Wait {
        // SAFETY: the model keeps the sleeper.
        &unsafe { &*self.sleeper }.wait
    }

    pub(crate) fn is_open(self) -> bool {
        self.wait().is_open(self.number)
    }

    pub(super) fn decide(self, case: u32) -> Decision {
        self.wait().decide_case(self.number, Outcome::Woken, case)
    }

    /// As the real one.
    pub fn decide_own(self, case: u32) -> bool {
        self.decide(case) != Decision::Lost
    }

    /// As the real one.
    pub fn give_up(self) -> bool {
        self.wait().decide(self.number, Outcome::TimedOut) != Decision::Lost
    }

    /// As the real one.
    pub fn case(self) -> u32 {
        self.wait().case()
    }
}

/// As the real one.
#[derive(Debug)]
#[must_use]
pub struct Wake(Option<Ticket>);

impl Wake {
    pub(super) fn nobody() -> Self {
        Wake(None)
    }

    pub(super) fn parked(ticket: Ticket) -> Self {
        Wake(Some(ticket))
    }

    pub(super) fn future(_waker: Waker) -> Self {
        unreachable!("the models have no futures")
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if let Some(ticket) = self.0 {
            // SAFETY: the model keeps the sleeper.
            unsafe { &*ticket.sleeper }.bed.notify();
        }
    }
}

/// As the real one.
#[derive(Debug, Default)]
#[must_use]
pub struct Wakes(Vec<Wake>);

impl Wakes {
    /// None yet.
    pub const fn new() -> Self {
        Wakes(Vec::new())
    }

    /// One more.
    pub fn add(&mut self, wake: Wake) {
        self.0.push(wake);
    }
}

impl Extend<Wake> for Wakes {
    fn extend<I: IntoIterator<Item = Wake>>(&mut self, wakes: I) {
        self.0.extend(wakes);
    }
}

/// As the real one.
#[derive(Debug)]
#[must_use]
pub struct Waiting(Ticket);

impl Waiting {
    /// Begins a wait of the thread's own sleeper, as the real one does.
    pub fn begin(cancel: Cancel) -> Self {
        Waiting::of(&me().expect("the model says who waits"), cancel)
    }

    /// Likewise; a model asks nobody why.
    pub fn begin_for(_why: Why, cancel: Cancel) -> Self {
        Waiting::begin(cancel)
    }

    pub(super) fn of(sleeper: &Sleeper, cancel: Cancel) -> Self {
        Waiting(Ticket { sleeper, number: sleeper.wait.arm(cancel) })
    }

    /// As the real one.
    pub fn ticket(&self) -> Ticket {
        self.0
    }

    /// The wait in one word, which is 0 for nobody's.
    pub fn word(&self) -> u64 {
        self.0.sleeper.addr() as u64 + u64::from(self.0.number)
    }

    /// As the real one.
    pub fn park(self) -> Outcome {
        // SAFETY: the model keeps the sleeper.
        let sleeper = unsafe { &*self.0.sleeper };
        if sleeper.wait.commit() {
            // loom's wakes without cause too.
            while !sleeper.wait.is_decided() {
                sleeper.bed.wait();
            }
        }
        sleeper.wait.outcome()
    }

    /// As the real one, but only [`Sleeper::time_out`] ends it.
    pub fn park_until(self, _deadline: Instant) -> Outcome {
        self.park()
    }
}
