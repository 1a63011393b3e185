//! What a `Handle` starts and shows.

use std::io;
use std::panic::Location;

use sched::spawn::{Spec, Where};

use crate::handles::Handle;
use crate::spawn::{Entry, start};
use crate::thread::JoinHandle;
use inspect::metrics::{AtPlace, HogPlace, Snapshot};

impl Handle {
    /// Starts a green thread of this runtime that runs a closure or a future, and returns its join handle.
    /// [`thread::Builder::spawn_on`](crate::thread::Builder::spawn_on) also sets its name and its stack size.
    ///
    /// If the runtime is being ended, the new green thread is cancelled before it begins.
    ///
    /// # Panics
    ///
    /// Panics if the runtime has ended, or if the green thread cannot be started: see
    /// [`spawn`](crate::spawn()).
    ///
    /// ```
    /// let handle = runtime::Handle::current();
    /// assert_eq!(handle.spawn(|| 3).join().unwrap(), 3);
    /// ```
    #[track_caller]
    pub fn spawn<M, E>(&self, task: E) -> JoinHandle<E::Output>
    where
        E: Entry<M> + Send + 'static,
        E::Output: Send + 'static,
    {
        start::or_panic(start::spawn(Where::In(self.sched()), Spec::at(Location::caller()), task))
    }

    /// Starts a green thread as [`spawn`](Handle::spawn) does, but returns an error if it cannot be started.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`thread::Builder::spawn`](crate::thread::Builder::spawn), and an error if the
    /// runtime has ended. `task` is then dropped.
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let handle = runtime.handle();
    /// assert_eq!(handle.try_spawn(|| 3)?.join().unwrap(), 3);
    /// drop(runtime);
    /// assert!(handle.try_spawn(|| 3).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn try_spawn<M, E>(&self, task: E) -> io::Result<JoinHandle<E::Output>>
    where
        E: Entry<M> + Send + 'static,
        E::Output: Send + 'static,
    {
        start::spawn(Where::In(self.sched()), Spec::at(Location::caller()), task)
    }

    /// Runs `main` as a green thread of this runtime, blocks the caller until it has ended, and returns its
    /// value.
    ///
    /// # Panics
    ///
    /// Panics if `main` panics, with that panic; if the runtime has ended; and if the green thread cannot be
    /// started: see [`spawn`](crate::spawn()).
    ///
    /// # Cancellation
    ///
    /// If `main` is cancelled, the caller unwinds with [`thread::Cancelled`](crate::thread::Cancelled). A
    /// cancellation of the caller does not end the wait.
    ///
    /// ```
    /// assert_eq!(runtime::Handle::current().block_on(|| 3), 3);
    /// ```
    #[track_caller]
    pub fn block_on<M, E>(&self, main: E) -> E::Output
    where
        E: Entry<M> + Send,
        E::Output: Send,
    {
        start::block_on(self.sched(), Location::caller(), main)
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
    /// let sum = runtime.handle().block_on_local(async {
    ///     let procs = runtime::spawn(async { runtime::Handle::current().procs() });
    ///     *mine + procs.await.unwrap()
    /// });
    /// assert_eq!(sum, 42);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn block_on_local<F: Future>(&self, future: F) -> F::Output {
        start::block_on_local_in(self.sched(), future)
    }

    /// Returns counters and gauges of this runtime: what it has done, and what it has now.
    ///
    /// # Panics
    ///
    /// Panics in a [forked child](crate::docs::fork).
    ///
    /// ```
    /// let handle = runtime::Handle::current();
    /// handle.spawn(|| ()).join().unwrap();
    /// assert!(handle.metrics().spawned >= 1);
    /// ```
    pub fn metrics(&self) -> Snapshot {
        inspect::metrics::of(self.sched())
    }

    /// Returns the hogs of this runtime: see [`metrics::hogs`](crate::metrics::hogs()).
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// assert!(runtime.handle().hogs().is_empty());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn hogs(&self) -> Vec<HogPlace> {
        inspect::metrics::hogs_of(self.sched())
    }

    /// Returns what the green threads of this runtime do, by the place at which they were spawned: see
    /// [`metrics::by_place`](crate::metrics::by_place).
    ///
    /// # Panics
    ///
    /// Panics in a [forked child](crate::docs::fork).
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// runtime.spawn(runtime::thread::park);
    /// assert_eq!(runtime.handle().by_place()[0].alive, 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn by_place(&self) -> Vec<AtPlace> {
        inspect::metrics::by_place(self.sched())
    }
}
