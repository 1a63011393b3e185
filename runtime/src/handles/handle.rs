//! `Handle`: a reference to a runtime. What it starts and shows stands in `runtime/handle.rs`.

use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use sched::Sched;

use crate::default::current_sched;

/// A reference to a runtime, for any thread. It does not keep the runtime going.
///
/// While the runtime is being ended, a new green thread is cancelled before it begins, and its handle returns
/// [`Cancelled`](crate::thread::Cancelled).
///
/// After the end of the runtime:
///
/// - [`spawn`](Handle::spawn) and [`block_on`](Handle::block_on) panic, saying so.
/// - [`procs`](Handle::procs), [`set_procs`](Handle::set_procs) and [`metrics`](Handle::metrics) still
///   answer.
/// - Join handles of its green threads still return results. Their `cancel` and `unpark` do nothing.
/// - Its sockets work as long as they need not wait. A call that has to wait returns an error of kind
///   `NotConnected`.
///
/// ```
/// let handle = runtime::Handle::current();
/// assert_eq!(handle.block_on(|| 3), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Handle {
    sched: Arc<Sched>,
}

impl Handle {
    pub(crate) fn of(sched: Arc<Sched>) -> Handle {
        Handle { sched }
    }

    pub(crate) fn sched(&self) -> &Arc<Sched> {
        &self.sched
    }

    /// Returns a handle to the runtime of the calling green thread. On a plain OS thread it is the default
    /// runtime, which is started if this is the first use.
    ///
    /// # Panics
    ///
    /// Panics with the reason if the default runtime cannot be started: see [`block_on`](crate::block_on).
    ///
    /// ```
    /// assert!(runtime::Handle::current().procs() >= 1);
    /// ```
    pub fn current() -> Handle {
        Handle { sched: current_sched().unwrap_or_else(|error| panic!("{error}")) }
    }

    /// Returns a handle to the runtime of the calling green thread, or `None` on a plain OS thread.
    ///
    /// ```
    /// assert!(runtime::Handle::try_current().is_none());
    /// assert!(runtime::block_on(|| runtime::Handle::try_current().is_some()));
    /// ```
    pub fn try_current() -> Option<Handle> {
        Sched::current().map(|sched| Handle { sched })
    }

    /// Returns the number of Ps: how many green threads run at the same moment.
    ///
    /// ```
    /// assert!(runtime::Handle::current().procs() >= 1);
    /// ```
    pub fn procs(&self) -> usize {
        self.sched.procs()
    }

    /// Sets the number of Ps: how many green threads run at the same moment. It may be called at any time and
    /// returns at once.
    ///
    /// If there are fewer Ps than before, green threads that run now go on until they park, yield or are
    /// preempted. Then other Ps take the green threads in their run queues.
    ///
    /// From then on the number no longer [follows](crate::Builder::follow_processors) that of the processors.
    ///
    /// # Errors
    ///
    /// - `InvalidInput`: `n` is 0 or too large. The text says how many are allowed.
    /// - `Unsupported`: this is a [forked child](crate::docs::fork).
    ///
    /// ```
    /// let runtime = runtime::Builder::new().procs(1).build()?;
    /// runtime.handle().set_procs(4)?;
    /// assert_eq!(runtime.handle().procs(), 4);
    /// assert!(runtime.handle().set_procs(0).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn set_procs(&self, n: usize) -> io::Result<()> {
        self.sched.set_procs(n)
    }

    /// Returns the number of this runtime's green threads that have not ended: see
    /// [`num_green_threads`](crate::num_green_threads).
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// runtime.spawn(runtime::thread::park);
    /// assert_eq!(runtime.handle().num_green_threads(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn num_green_threads(&self) -> usize {
        self.sched.living()
    }
}

impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}
