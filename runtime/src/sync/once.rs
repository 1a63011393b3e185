//! `Once`: runs one closure only, and lets others wait for its end. The API is that of `parking_lot`.

use std::fmt;

use waits::locks::{self, Stage};

use super::wait::wait_or_unwind;
use crate::thread::uncancellable;

/// The state of a [`Once`].
///
/// ```
/// use runtime::sync::{Once, OnceState};
///
/// let once = Once::new();
/// assert_eq!(once.state(), OnceState::New);
/// once.call_once(|| ());
/// assert!(once.state().is_completed());
/// ```
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum OnceState {
    /// No closure has run.
    New,
    /// The last closure unwound.
    Poisoned,
    /// A closure runs.
    InProgress,
    /// A closure has returned.
    Done,
}

impl OnceState {
    /// Returns `true` if the last closure unwound. In the closure of `call_once_force` that is the closure
    /// before it.
    ///
    /// ```
    /// assert!(!runtime::sync::OnceState::New.is_poisoned());
    /// ```
    #[inline]
    pub const fn is_poisoned(self) -> bool {
        matches!(self, OnceState::Poisoned)
    }

    /// Returns the same as [`is_poisoned`](Self::is_poisoned).
    ///
    /// ```
    /// assert!(runtime::sync::OnceState::Poisoned.poisoned());
    /// ```
    #[inline]
    pub const fn poisoned(self) -> bool {
        self.is_poisoned()
    }

    /// Returns `true` if a closure has returned.
    ///
    /// ```
    /// assert!(runtime::sync::OnceState::Done.is_completed());
    /// ```
    #[inline]
    pub const fn is_completed(self) -> bool {
        matches!(self, OnceState::Done)
    }

    /// Returns the same as [`is_completed`](Self::is_completed).
    ///
    /// ```
    /// assert!(!runtime::sync::OnceState::InProgress.done());
    /// ```
    #[inline]
    pub const fn done(self) -> bool {
        self.is_completed()
    }
}

/// Runs one closure only: that of the first caller. Other callers wait until it has returned.
///
/// It has the API of `parking_lot::Once`. If the closure panics, the `Once` is poisoned: later calls panic,
/// except those that end in `_force`. A closure that calls its own `Once` waits for ever.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits for another thread's closure unwinds. That closure goes
/// on.
///
/// The closure itself is [`uncancellable`]: neither a cancellation nor a time-out around the call ends a wait
/// in the closure. Such an end would poison the `Once`. A [`timeout`](crate::time::timeout) in the closure
/// bounds its waits.
///
/// ```
/// use runtime::sync::Once;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// static START: Once = Once::new();
/// static STARTED: AtomicU32 = AtomicU32::new(0);
///
/// runtime::scope(|s| {
///     for _ in 0..4 {
///         s.spawn(|| START.call_once(|| drop(STARTED.fetch_add(1, Ordering::Relaxed))));
///     }
/// });
/// assert_eq!(STARTED.load(Ordering::Relaxed), 1);
/// ```
pub struct Once(locks::Once);

impl Once {
    /// Returns a `Once` for which no closure has run.
    ///
    /// ```
    /// static START: runtime::sync::Once = runtime::sync::Once::new();
    /// assert!(!START.is_completed());
    /// ```
    #[inline]
    pub const fn new() -> Once {
        Once(locks::Once::new(Stage::New))
    }

    /// Returns a `Once` that is completed.
    ///
    /// ```
    /// runtime::sync::Once::new_completed().call_once(|| unreachable!());
    /// ```
    #[inline]
    pub const fn new_completed() -> Once {
        Once(locks::Once::new(Stage::Done))
    }

    /// Returns the state. Another thread may change it at any moment.
    ///
    /// ```
    /// use runtime::sync::{Once, OnceState};
    /// assert_eq!(Once::new_completed().state(), OnceState::Done);
    /// ```
    #[inline]
    pub fn state(&self) -> OnceState {
        crate::point();
        match self.0.stage() {
            Stage::New => OnceState::New,
            Stage::Failed => OnceState::Poisoned,
            Stage::Running => OnceState::InProgress,
            Stage::Done => OnceState::Done,
        }
    }

    /// Returns `true` if a closure has returned. The caller then sees what that closure wrote.
    ///
    /// ```
    /// assert!(runtime::sync::Once::new_completed().is_completed());
    /// ```
    #[inline]
    pub fn is_completed(&self) -> bool {
        crate::point();
        self.0.stage() == Stage::Done
    }

    /// Runs `f` if no closure has run. If another thread's closure runs, waits for its end.
    ///
    /// # Panics
    ///
    /// Panics if the last closure unwound, and if `f` panics.
    ///
    /// ```
    /// let once = runtime::sync::Once::new();
    /// let mut calls = 0;
    /// once.call_once(|| calls += 1);
    /// once.call_once(|| calls += 1);
    /// assert_eq!(calls, 1);
    /// ```
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.is_completed() {
            self.call(false, |_| f());
        }
    }

    /// Runs `f` if no closure has returned yet, also if the last one unwound. If another thread's closure
    /// runs, waits for its end. `f` gets the state.
    ///
    /// # Panics
    ///
    /// Panics if `f` panics.
    ///
    /// ```
    /// let once = runtime::sync::Once::new();
    /// once.call_once_force(|state| assert!(!state.is_poisoned()));
    /// ```
    #[inline]
    pub fn call_once_force<F: FnOnce(OnceState)>(&self, f: F) {
        if !self.is_completed() {
            self.call(true, f);
        }
    }

    #[cold]
    #[track_caller]
    fn call(&self, force: bool, f: impl FnOnce(OnceState)) {
        let found = match wait_or_unwind(|patience| self.0.begin(force, patience)) {
            Stage::New => OnceState::New,
            Stage::Failed if force => OnceState::Poisoned,
            Stage::Failed => poisoned(),
            Stage::Running | Stage::Done => return,
        };
        run(&self.0, || uncancellable(|| f(found)));
    }

    /// Waits until a closure has returned.
    ///
    /// # Panics
    ///
    /// Panics if the last closure unwound.
    ///
    /// ```
    /// static READY: runtime::sync::Once = runtime::sync::Once::new();
    /// let waits = runtime::spawn(|| READY.wait());
    /// READY.call_once(|| ());
    /// waits.join().unwrap();
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait(&self) {
        if !self.is_completed() && wait_or_unwind(|patience| self.0.wait(true, patience)) == Stage::Failed {
            poisoned();
        }
    }

    /// Waits until a closure has returned. If the last one unwound, waits for a further one.
    ///
    /// ```
    /// runtime::sync::Once::new_completed().wait_force();
    /// ```
    #[inline]
    pub fn wait_force(&self) {
        if !self.is_completed() {
            wait_or_unwind(|patience| self.0.wait(false, patience));
        }
    }
}

/// Runs `f`, which `once` has let begin, and records whether it returned.
pub(super) fn run<T>(once: &locks::Once, f: impl FnOnce() -> T) -> T {
    /// Records that the closure unwound.
    struct FailOnUnwind<'o>(&'o locks::Once);
    impl Drop for FailOnUnwind<'_> {
        fn drop(&mut self) {
            self.0.end(Stage::Failed);
        }
    }
    let fails = FailOnUnwind(once);
    let value = f();
    std::mem::forget(fails);
    once.end(Stage::Done);
    value
}

#[cold]
#[track_caller]
fn poisoned() -> ! {
    panic!("Once instance has previously been poisoned");
}

impl Default for Once {
    fn default() -> Once {
        Once::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("state", &self.state()).finish()
    }
}
