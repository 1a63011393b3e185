//! `Context::after_func`: a function that runs when a context is over.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sched::sync::Mutex;
use sched::{contain, drop_contained};

use super::Context;
use super::node::Node;
use crate::Handle;

/// The association of a function with a context, which [`Context::after_func`] returns. Dropping it changes
/// nothing: the function still runs.
pub struct AfterFunc {
    /// The node and the key of the function. `None` if the function has run or can never run.
    registered: Option<(Arc<Node>, usize)>,
    stopped: AtomicBool,
}

impl AfterFunc {
    /// Ends the association. Returns `true` if this call has kept the function from running.
    ///
    /// If it returns `false`, the context is over and the green thread of the function was started, or the
    /// function was stopped before. It does not wait for the end of the function.
    ///
    /// ```
    /// use runtime::context::Context;
    /// let (context, cancel) = Context::background().with_cancel();
    /// let stop = context.after_func(|| unreachable!());
    /// assert!(stop.stop());
    /// assert!(!stop.stop());
    /// cancel.cancel();
    /// ```
    pub fn stop(&self) -> bool {
        let Some((node, key)) = &self.registered else { return false };
        // Relaxed: the exchange only chooses one caller, and the lock of the node orders the rest.
        !self.stopped.swap(true, Ordering::Relaxed) && node.forget(*key).map(drop_contained).is_some()
    }
}

// The function is not called through this value.
impl UnwindSafe for AfterFunc {}
impl RefUnwindSafe for AfterFunc {}

impl fmt::Debug for AfterFunc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AfterFunc").finish_non_exhaustive()
    }
}

impl Context {
    /// Arranges that `f` runs on a green thread of its own after this context is over. Returns what
    /// [stops](AfterFunc::stop) that.
    ///
    /// If the context is over already, the green thread is started at once. Several functions of a context
    /// are independent of each other. A panic in `f` ends its green thread, with the usual message.
    ///
    /// The green thread belongs to the runtime of the caller; on a plain OS thread it belongs to the default
    /// runtime. If no green thread can be started, the thread that ends the context calls `f` itself. That is
    /// so if there is no memory, or if that runtime has ended. A runtime that is being ended drops `f`.
    ///
    /// `f` is also dropped when it is stopped. If its destructor panics, the panic hook reports that, and
    /// the panic goes no further.
    ///
    /// # Panics
    ///
    /// Panics if the default runtime is needed and cannot be started.
    ///
    /// ```
    /// use runtime::context::Context;
    /// use runtime::channel;
    /// let (context, cancel) = Context::background().with_cancel();
    /// let (s, r) = channel::unbounded();
    /// context.after_func(move || s.send("cleaned up").unwrap());
    /// cancel.cancel();
    /// assert_eq!(r.recv(), Ok("cleaned up"));
    /// ```
    pub fn after_func(&self, f: impl FnOnce() + Send + 'static) -> AfterFunc {
        let registered = self.node().and_then(|node| {
            let runtime = Handle::current();
            match node.at_end(move || start(&runtime, f)) {
                Ok(key) => Some((Arc::clone(node), key)),
                Err(start) => {
                    start();
                    None
                }
            }
        });
        AfterFunc { registered, stopped: AtomicBool::new(false) }
    }
}

/// Runs `f` on a green thread, or on the caller if no green thread can be started.
fn start(runtime: &Handle, f: impl FnOnce() + Send + 'static) {
    let kept = Arc::new(Mutex::new(Some(f)));
    let task = {
        let kept = Arc::clone(&kept);
        move || {
            // In its own statement, so that the lock is released before the call.
            let f = kept.lock().take();
            f.into_iter().for_each(|f| f());
        }
    };
    if runtime.try_spawn(task).is_err()
        && let Some(f) = { kept.lock().take() }
    {
        // The panic has printed its message. It must not hit the thread that ends the context.
        contain(f);
    }
}
