//! A revocable stretch: code of one thread. Another thread may end the waits in it. The time-outs of contexts
//! and their cancellations use it.
//!
//! ```text
//!   the thread                                         the revoker
//!   open     a new stretch, around what follows        lock
//!   each wait looks at the flag of the thread          the stretch is closed? do nothing
//!   close    lock: the stretch is closed; unlock       the stretch is revoked; Wait::revoke: set the flag, end a wait
//!            clear the flag                            unlock; that wait was parked? make the thread runnable
//!            an outer stretch is revoked? set it again
//! ```
//!
//! So a revoker that comes too late finds the stretch closed, and no later wait of the thread is ended. The
//! flag is cleared before the look at the outer stretches: a revoker of an outer stretch that comes in
//! between sets the flag again.
//!
//! A mask (`g/mask.rs`) hides the stretches around it. A hidden stretch may be revoked, but that sets no
//! flag:
//!
//! ```text
//!   the thread                                         the revoker
//!   hide     lock: the stretch is hidden; unlock       lock
//!            each stretch is hidden? clear the flag    the stretch is revoked; not hidden? Wait::revoke
//!   show     lock: the stretch is not hidden           unlock
//!            revoked? set the flag; unlock
//! ```

use crate::g::wait::{Decision, Wait};
use crate::sync::{Mutex, broken};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    Revoked,
    Closed,
}

#[derive(Debug)]
struct RevocableState {
    stage: Stage,
    is_hidden: bool,
}

/// The state of one stretch. The file's head explains the protocol.
#[derive(Debug)]
pub(crate) struct Revocable(Mutex<RevocableState>);

impl Revocable {
    pub(crate) fn new() -> Self {
        Revocable(Mutex::new(RevocableState { stage: Stage::Open, is_hidden: false }))
    }

    /// Ends the current wait of the thread, which has the wait `wait`, and every later wait in the stretch.
    /// If this returns `Parked`, the caller must make the thread runnable. *Runs on: any thread.*
    pub(crate) fn revoke(&self, wait: &Wait) -> Decision {
        let mut state = self.0.lock();
        if state.stage != Stage::Open {
            return Decision::Lost;
        }
        state.stage = Stage::Revoked;
        if state.is_hidden && !broken!("revocable_revoke_hidden") {
            return Decision::Lost;
        }
        if broken!("revocable_revoke_after_unlock") {
            drop(state);
            return wait.revoke();
        }
        // Under the lock, so that the stretch is still open.
        wait.revoke()
    }

    /// Returns `true` if the stretch was revoked.
    pub(crate) fn is_revoked(&self) -> bool {
        self.0.lock().stage == Stage::Revoked
    }

    /// Keeps a revocation from ending waits, until `show`. After the last `hide` the caller calls
    /// `Wait::clear_revoked`. *Runs on: the thread, which does not wait.*
    pub(crate) fn hide(&self) {
        self.0.lock().is_hidden = true;
    }

    /// Lets a revocation end the next wait, also one that came since `hide`. *Runs on: the thread, which does
    /// not wait.*
    pub(crate) fn show(&self, wait: &Wait) {
        let mut state = self.0.lock();
        state.is_hidden = false;
        if state.stage == Stage::Revoked && !broken!("revocable_show_forgets") {
            // No wait of the thread is open, so this only sets the flag.
            wait.revoke();
        }
    }

    /// Ends the stretch. `outer_is_revoked` returns whether a stretch around it was revoked. *Runs on: the
    /// thread, which does not wait.*
    pub(crate) fn close(&self, wait: &Wait, outer_is_revoked: impl Fn() -> bool) {
        self.0.lock().stage = Stage::Closed;
        if broken!("revocable_look_before_clear") {
            let outer = outer_is_revoked();
            wait.clear_revoked();
            if outer {
                wait.revoke();
            }
            return;
        }
        wait.clear_revoked();
        if outer_is_revoked() {
            // No wait of the thread is open, so this only sets the flag.
            wait.revoke();
        }
    }
}

#[cfg(not(loom))]
pub use list::Reason;
#[cfg(not(loom))]
pub(crate) use list::{Revocables, Stretch};

/// The stretches of one thread.
#[cfg(not(loom))]
mod list {
    use std::any::Any;
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;

    use super::Revocable;
    use crate::g::wait::Wait;

    /// Why a stretch is revoked, for the unwind out of it.
    pub trait Reason: Send + Sync {
        /// Returns the payload of an unwind. Called after the stretch was revoked, for each wait that it
        /// ends.
        fn payload(&self) -> Box<dyn Any + Send>;
    }

    /// A stretch with its reason.
    pub(crate) struct Stretch<R: ?Sized = dyn Reason> {
        pub(crate) state: Revocable,
        pub(crate) reason: R,
    }

    /// The stretches that a thread is in, outermost first. Only the thread itself uses the list.
    #[derive(Default)]
    pub(crate) struct Revocables {
        stretches: RefCell<Vec<Arc<Stretch>>>,
        /// How many of them are hidden: the outermost ones.
        hidden: Cell<usize>,
    }

    impl Revocables {
        pub(crate) fn open(&self, stretch: Arc<Stretch>) {
            self.stretches.borrow_mut().push(stretch);
        }

        /// Hides all stretches. Returns how many were hidden before, for `show`.
        pub(crate) fn hide(&self, wait: &Wait) -> usize {
            let stretches = self.stretches.borrow();
            let before = self.hidden.replace(stretches.len());
            stretches[before..].iter().for_each(|stretch| stretch.state.hide());
            wait.clear_revoked();
            before
        }

        /// Shows the stretches that `hide` has hidden, which has returned `before`. The thread has left all
        /// later ones.
        pub(crate) fn show(&self, wait: &Wait, before: usize) {
            let stretches = self.stretches.borrow();
            debug_assert_eq!(stretches.len(), self.hidden.get(), "a stretch in a mask ends before the mask");
            self.hidden.set(before);
            stretches[before..].iter().for_each(|stretch| stretch.state.show(wait));
        }

        fn any_revoked(&self) -> bool {
            self.stretches.borrow()[self.hidden.get()..].iter().any(|stretch| stretch.state.is_revoked())
        }

        /// Ends the innermost stretch.
        pub(crate) fn close(&self, wait: &Wait) {
            let stretch = self.stretches.borrow_mut().pop();
            let stretch = stretch.expect("a stretch is closed once, after it was opened");
            stretch.state.close(wait, || self.any_revoked());
        }

        /// Returns `true` if the thread is in a stretch that is not hidden. *Runs on: the thread itself, or
        /// the holder of its parked wait.*
        pub(crate) fn is_any(&self) -> bool {
            self.stretches.borrow().len() > self.hidden.get()
        }

        /// Returns the outermost stretch that was revoked and is not hidden: its end ends all of those inside
        /// of it.
        pub(crate) fn outermost_revoked(&self) -> Option<Arc<Stretch>> {
            let stretches = self.stretches.borrow();
            stretches[self.hidden.get()..].iter().find(|stretch| stretch.state.is_revoked()).cloned()
        }
    }

    impl Stretch {
        pub(crate) fn payload(&self) -> Box<dyn Any + Send> {
            self.reason.payload()
        }
    }
}

#[cfg(all(test, loom))]
mod models;
