//! The user's functions that each M calls at the start and at the end of its OS thread.
//!
//! They run outside of the life of the M: before it names itself as the thread's M, and after that. So the
//! runtime sees the caller as a plain OS thread, which sleeps where a G would park.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use crate::sys::catch_panic::contain;

/// A function of the user's.
pub type ThreadCall = Arc<dyn Fn() + Send + Sync>;

/// What each M calls at the start and at the end of its OS thread.
#[derive(Clone, Default)]
pub struct ThreadCalls {
    /// Is called before the M runs the first G.
    pub start: Option<ThreadCall>,
    /// Is called after the M has run its last G, if the thread ends before the process.
    pub stop: Option<ThreadCall>,
}

impl ThreadCalls {
    /// *Runs on: the new thread of an M, which is no M yet.*
    pub(crate) fn at_start(&self) {
        call(self.start.as_ref());
    }

    /// *Runs on: the ending thread of an M, which is no M any more.*
    pub(crate) fn at_stop(&self) {
        call(self.stop.as_ref());
    }
}

// Only Ms call the functions, and they catch the panics.
impl UnwindSafe for ThreadCalls {}
impl RefUnwindSafe for ThreadCalls {}

impl fmt::Debug for ThreadCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadCalls").finish_non_exhaustive()
    }
}

/// Calls the function. Never unwinds: the M may have a P by now, for which Gs wait.
fn call(function: Option<&ThreadCall>) {
    if let Some(function) = function {
        contain(|| function());
    }
}
