//! `AbortHandle`: the right to cancel a green thread, without the right to its result.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use sched::GHandle;

use super::{Thread, ThreadId};

/// The right to cancel a green thread. It can be cloned and sent, and does not give access to the result.
///
/// The type has tokio's name. Its action has the name that this crate uses for it everywhere:
/// [`cancel`](AbortHandle::cancel). A handle may be kept after the end of its green thread; it keeps some
/// hundred bytes of that thread.
///
/// [`JoinHandle::abort_handle`](crate::thread::JoinHandle::abort_handle) returns one.
///
/// ```
/// use std::time::Duration;
/// let threads: Vec<_> = (0..3).map(|_| runtime::spawn(|| runtime::sleep(Duration::from_secs(3600)))).collect();
/// let handles: Vec<_> = threads.iter().map(|thread| thread.abort_handle()).collect();
/// runtime::spawn(move || handles.iter().for_each(|handle| handle.cancel()));
/// assert!(threads.into_iter().all(|thread| thread.join().is_err()));
/// ```
#[derive(Clone)]
pub struct AbortHandle(GHandle);

impl AbortHandle {
    pub(crate) fn new(thread: &GHandle) -> AbortHandle {
        AbortHandle(thread.clone())
    }

    /// Cancels the green thread, as [`JoinHandle::cancel`](crate::thread::JoinHandle::cancel) does. It
    /// returns at once, may be called on any thread, and does nothing if the green thread has ended.
    ///
    /// ```
    /// let thread = runtime::spawn(runtime::thread::park);
    /// thread.abort_handle().cancel();
    /// assert!(thread.join().unwrap_err().is::<runtime::thread::Cancelled>());
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Returns `true` if the green thread has ended. Its stack may still be in use for a moment.
    ///
    /// ```
    /// let thread = runtime::spawn(|| ());
    /// let handle = thread.abort_handle();
    /// thread.join().unwrap();
    /// assert!(handle.is_finished());
    /// ```
    pub fn is_finished(&self) -> bool {
        self.0.is_done()
    }

    /// Returns the id of the green thread.
    ///
    /// ```
    /// let thread = runtime::spawn(|| ());
    /// assert_eq!(thread.abort_handle().id(), thread.thread().id());
    /// ```
    pub fn id(&self) -> ThreadId {
        Thread::from_handle(&self.0).id()
    }
}

impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle")
            .field("thread", Thread::from_handle(&self.0))
            .field("finished", &self.is_finished())
            .finish()
    }
}
