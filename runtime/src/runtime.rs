//! `Runtime`: green threads with their own OS threads, netpoller and monitor. Also the process-wide default
//! runtime.
//!
//! - `runtime/builder.rs`: settings, and starting a runtime.
//! - `runtime/environment.rs`: the settings that the program leaves to the environment.
//! - `runtime/handle.rs`: references to a runtime that do not keep it going.
//! - `runtime/processors.rs`: the default number of Ps, and its changes.
//! - `runtime/shutdown.rs`: the end of a runtime.
//! - `runtime/trace.rs`: a line about the runtime in intervals.

mod builder;
mod environment;
mod handle;
mod processors;
mod shutdown;
mod trace;

use std::io;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::thread as os;
use std::time::Duration;

use sched::Sched;
use sched::spawn::{Spec, Where};
use sched::sync::Mutex;

use crate::spawn::{Entry, start};
use crate::thread::JoinHandle;
use inspect::metrics::Reader;
use trace::Trace;

pub use crate::handles::Handle;
pub use builder::{Builder, Migration, ThreadLocals};

/// A runtime of its own, with its own OS threads, netpoller and monitor thread.
///
/// Dropping a `Runtime` ends it: all its green threads are cancelled, the drop waits until they have unwound,
/// and joins the OS threads. A green thread that computes, or that waits in a destructor, is waited for.
/// [`shutdown_timeout`](Runtime::shutdown_timeout) waits for a limited time.
///
/// A `Runtime` may be dropped on any thread:
///
/// - On one of its **own green threads** the drop cannot wait, because it would wait for its caller. It
///   cancels all green threads, the caller included, and returns at once. A background thread does the rest.
///   The caller unwinds from its next wait.
/// - On a green thread of **another runtime** the drop blocks the OS thread as [`blocking`](crate::blocking)
///   does, and disturbs no other green thread. If the caller is cancelled during the drop, a background
///   thread does the rest. So two runtimes may end each other.
/// - In a [forked child](crate::docs::fork) the drop does nothing.
///
/// The drop waits for ever if one of the runtime's green threads waits for the dropping thread and a
/// cancellation cannot end that wait. A cancellation cannot end a wait that does not park, or a wait of a
/// green thread that unwinds.
///
/// ```
/// let runtime = runtime::Runtime::new()?;
/// let sum = runtime.block_on(|| runtime::spawn(|| 20).join().unwrap() + 22);
/// assert_eq!(sum, 42);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
#[must_use = "dropping a runtime cancels its green threads"]
pub struct Runtime {
    sched: Arc<Sched>,
    monitor: Mutex<Option<os::JoinHandle<()>>>,
    trace: Mutex<Option<Trace>>,
    /// Only dropped: the drop ends its thread.
    #[allow(dead_code)]
    hogs: Mutex<Option<Reader>>,
}

impl Runtime {
    /// Starts a runtime with the default settings of [`Builder`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Builder::build`].
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new() -> io::Result<Self> {
        Builder::new().build()
    }

    /// Runs `main` as a green thread of this runtime, blocks the caller until it has ended, and returns its
    /// value.
    ///
    /// It may be called on plain OS threads and on green threads of any runtime.
    ///
    /// # Panics
    ///
    /// Panics if `main` panics, with that panic, and if the green thread cannot be started: see
    /// [`spawn`](crate::spawn()).
    ///
    /// # Cancellation
    ///
    /// If `main` is cancelled, the caller unwinds with [`thread::Cancelled`](crate::thread::Cancelled). A
    /// cancellation of the caller does not end the wait.
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// assert_eq!(runtime.block_on(async { 7 }), 7);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn block_on<M, E>(&self, main: E) -> E::Output
    where
        E: Entry<M> + Send,
        E::Output: Send,
    {
        start::block_on(&self.sched, Location::caller(), main)
    }

    /// Runs a future that need not be `Send` on the calling thread, and returns its output: see
    /// [`block_on_local`](crate::block_on_local()). What the future spawns belongs to this runtime, and so do
    /// its timers and sockets.
    ///
    /// # Panics
    ///
    /// Panics if the future panics, with that panic, and on a green thread of another runtime.
    ///
    /// # Cancellation
    ///
    /// On a green thread, a cancellation ends the wait for a future that is not ready. The future is dropped.
    ///
    /// ```
    /// use std::rc::Rc;
    /// let runtime = runtime::Builder::new().procs(3).build()?;
    /// let mine = Rc::new(39);
    /// let sum = runtime.block_on_local(async {
    ///     let procs = runtime::spawn(async { runtime::Handle::current().procs() });
    ///     *mine + procs.await.unwrap()
    /// });
    /// assert_eq!(sum, 42);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn block_on_local<F: Future>(&self, future: F) -> F::Output {
        start::block_on_local_in(&self.sched, future)
    }

    /// Starts a green thread of this runtime that runs a closure or a future, and returns its handle.
    ///
    /// # Panics
    ///
    /// Panics if the green thread cannot be started: see [`spawn`](crate::spawn()).
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// assert_eq!(runtime.spawn(|| 7).join().unwrap(), 7);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn<M, E>(&self, task: E) -> JoinHandle<E::Output>
    where
        E: Entry<M> + Send + 'static,
        E::Output: Send + 'static,
    {
        start::or_panic(start::spawn(Where::In(&self.sched), Spec::at(Location::caller()), task))
    }

    /// Returns a handle to this runtime, for use on other threads. The handle does not keep the runtime
    /// going.
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let handle = runtime.handle();
    /// std::thread::spawn(move || handle.spawn(|| ()).join().unwrap()).join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    pub fn handle(&self) -> Handle {
        Handle::of(Arc::clone(&self.sched))
    }

    /// Ends the runtime as its drop does, but waits at most `time` for its green threads. Returns `true` if
    /// all of them have ended.
    ///
    /// Returns `false` if some have not ended in time, or if the caller is one of them. These are cancelled,
    /// and all that they call goes on working. The runtime's OS threads end in the background when the last
    /// green thread has ended.
    ///
    /// ```
    /// use std::time::Duration;
    /// let runtime = runtime::Runtime::new()?;
    /// runtime.spawn(|| runtime::sleep(Duration::from_secs(3600)));
    /// assert!(runtime.shutdown_timeout(Duration::from_secs(10)), "a sleep ends by cancellation");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown_timeout(self, time: Duration) -> bool {
        self.end(Some(time))
    }

    pub(crate) fn end(&self, time: Option<Duration>) -> bool {
        // The lock is free again when the thread is joined.
        let trace = self.trace.lock().take();
        drop(trace);
        // `shutdown_timeout` may have ended the runtime before. Then the destructor has nothing to do.
        if !self.sched.begin_closing() {
            return true;
        }
        // The same here: `end` parks.
        let monitor = self.monitor.lock().take();
        shutdown::end(&self.sched, monitor, time)
    }
}

#[allow(dead_code, reason = "not used where simulations do not work")]
impl Runtime {
    /// Takes apart a runtime of which all OS threads have ended. Returns `None` if another reference to its
    /// scheduler is left, such as a handle.
    pub(crate) fn into_remains(self) -> Option<sched::Remains> {
        let sched = self.sched.clone();
        drop(self);
        sched.into_remains()
    }
}

impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end(None);
    }
}
