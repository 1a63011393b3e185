//! `Once`, with `parking_lot`'s API.

use std::fmt;

use sched::locks::{self, Stage};

use super::patience::wait_or_unwind;

/// How far a [`Once`] is.
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
    /// Nobody has run a closure.
    New,
    /// A closure was run, and unwound.
    Poisoned,
    /// A closure runs.
    InProgress,
    /// A closure has run to its end.
    Done,
}

impl OnceState {
    /// Whether the last closure unwound; for the closure of `call_once_force`, the one before it.
    ///
    /// ```
    /// assert!(!runtime::sync::OnceState::New.is_poisoned());
    /// ```
    #[inline]
    pub const fn is_poisoned(self) -> bool {
        matches!(self, OnceState::Poisoned)
    }

    /// [`is_poisoned`](Self::is_poisoned).
    ///
    /// ```
    /// assert!(runtime::sync::OnceState::Poisoned.poisoned());
    /// ```
    #[inline]
    pub const fn poisoned(self) -> bool {
        self.is_poisoned()
    }

    /// Whether a closure has run to its end.
    ///
    /// ```
    /// assert!(runtime::sync::OnceState::Done.is_completed());
    /// ```
    #[inline]
    pub const fn is_completed(self) -> bool {
        matches!(self, OnceState::Done)
    }

    /// [`is_completed`](Self::is_completed).
    ///
    /// ```
    /// assert!(!runtime::sync::OnceState::InProgress.done());
    /// ```
    #[inline]
    pub const fn done(self) -> bool {
        self.is_completed()
    }
}

/// Runs one closure, whoever comes first; all others wait until it has run.
///
/// It is `parking_lot`'s `Once`. When the closure unwinds, by a panic or a cancellation of its green thread, the `Once` is
/// poisoned: later calls panic, except for those of the `_force` kind. A closure that calls its own `Once` again waits for
/// ever.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits for another's closure unwinds; the closure goes on.
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
    /// A new one.
    ///
    /// ```
    /// static START: runtime::sync::Once = runtime::sync::Once::new();
    /// assert!(!START.is_completed());
    /// ```
    #[inline]
    pub const fn new() -> Once {
        Once(locks::Once::new(Stage::New))
    }

    /// One that is done already.
    ///
    /// ```
    /// runtime::sync::Once::new_completed().call_once(|| unreachable!());
    /// ```
    #[inline]
    pub const fn new_completed() -> Once {
        Once(locks::Once::new(Stage::Done))
    }

    /// How far it was a moment ago.
    ///
    /// ```
    /// use runtime::sync::{Once, OnceState};
    /// assert_eq!(Once::new_completed().state(), OnceState::Done);
    /// ```
    #[inline]
    pub fn state(&self) -> OnceState {
        match self.0.stage() {
            Stage::New => OnceState::New,
            Stage::Failed => OnceState::Poisoned,
            Stage::Running => OnceState::InProgress,
            Stage::Done => OnceState::Done,
        }
    }

    /// Whether a closure has run to its end; what it wrote is seen then.
    ///
    /// ```
    /// assert!(runtime::sync::Once::new_completed().is_completed());
    /// ```
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.0.stage() == Stage::Done
    }

    /// Runs `f`, unless a closure has run already, or runs: then it waits for that one's end.
    ///
    /// # Panics
    ///
    /// If the last closure unwound; and as `f` does.
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

    /// Likewise, but one that is poisoned is tried again; `f` is told.
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
        run(&self.0, || f(found));
    }

    /// Waits until a closure has run to its end.
    ///
    /// # Panics
    ///
    /// If it is poisoned.
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

    /// Likewise, but one that is poisoned is waited for until it is tried again.
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

/// Does what was begun, and says how that ended.
pub(super) fn run<T>(once: &locks::Once, f: impl FnOnce() -> T) -> T {
    /// It has unwound.
    struct Fails<'o>(&'o locks::Once);
    impl Drop for Fails<'_> {
        fn drop(&mut self) {
            self.0.end(Stage::Failed);
        }
    }
    let fails = Fails(once);
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
