//! `Context::run`: code whose waits end when a context is over.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sched::revocable::{self, Reason};

use super::node::{End, Node};
use super::{Context, ContextError};

/// The error of [`Context::run`]: the context was over before the code had a value.
///
/// It is also the payload with which a wait inside of `run` unwinds. Code that catches unwinding sees it: see
/// [cancellation](crate::docs::cancellation#code-that-catches-unwinding).
///
/// It becomes an [`std::io::Error`], of kind `TimedOut` if the deadline has passed. `Error::source` is the
/// cause.
///
/// ```
/// use runtime::context::{Context, ContextError};
/// let (context, cancel) = Context::background().with_cancel_cause();
/// cancel.cancel("the client has gone");
/// let ended = context.run(runtime::thread::park).unwrap_err();
/// assert_eq!(ended.error(), ContextError::Canceled);
/// assert_eq!(ended.cause().to_string(), "the client has gone");
/// assert_eq!(ended.to_string(), "context canceled: the client has gone");
/// ```
#[derive(Clone)]
pub struct Ended {
    end: End,
    /// The `run` that the unwind is for.
    run: u64,
}

impl Ended {
    /// Returns why the context is over: what [`Context::err`] returns.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// let (context, _cancel) = Context::background().with_timeout(std::time::Duration::from_millis(1));
    /// match context.run(runtime::thread::park).map_err(|ended| ended.error()) {
    ///     Err(ContextError::DeadlineExceeded) => {}
    ///     other => panic!("{other:?}"),
    /// }
    /// ```
    pub fn error(&self) -> ContextError {
        self.end.error
    }

    /// Returns the cause for which the context is over: what [`Context::cause`] returns.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// let (context, _) = Context::background().with_cancel();
    /// let ended = context.run(runtime::thread::park).unwrap_err();
    /// assert_eq!(ended.cause().downcast_ref(), Some(&ContextError::Canceled));
    /// ```
    pub fn cause(&self) -> Arc<dyn Error + Send + Sync> {
        self.end.clone().into_cause()
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end.cause {
            Some(cause) => write!(f, "{}: {cause}", self.end.error),
            None => self.end.error.fmt(f),
        }
    }
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").field("error", &self.end.error).field("cause", &self.end.cause).finish()
    }
}

impl Error for Ended {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.end.cause.as_ref().map(|cause| &**cause as &(dyn Error + 'static))
    }
}

// The cause is never changed.
impl UnwindSafe for Ended {}
impl RefUnwindSafe for Ended {}

impl From<Ended> for ContextError {
    fn from(ended: Ended) -> Self {
        ended.error()
    }
}

impl From<Ended> for io::Error {
    fn from(ended: Ended) -> Self {
        match ended.error() {
            ContextError::DeadlineExceeded => io::Error::new(io::ErrorKind::TimedOut, ended),
            ContextError::Canceled => io::Error::other(ended),
        }
    }
}

/// The reason for the unwinds of one `run`.
struct Over {
    node: Arc<Node>,
    run: u64,
}

impl Reason for Over {
    fn payload(&self) -> Box<dyn Any + Send> {
        Box::new(Ended { end: self.node.end_of_ended(), run: self.run })
    }
}

/// Takes the function of a `run` out of its node at the end of that `run`.
struct Registered<'n>(&'n Node, usize);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        drop(self.0.forget(self.1));
    }
}

impl Context {
    /// Runs `f` on the calling thread until this context is over. Returns the value of `f`, or an error if a
    /// call in `f` waited when the context was over.
    ///
    /// When the context is over, the call in which `f` waits unwinds to here, and so does every later call in
    /// `f` that waits. Destructors run, and no panic message is printed. The page on
    /// [cancellation](crate::docs::cancellation#which-calls-it-ends) lists which calls unwind.
    ///
    /// - Code in `f` that does not park is not interrupted: if `f` returns late, its value is returned. So
    ///   `f` also begins if the context is over already.
    /// - A [`scope()`](crate::scope()) in `f` cancels its green threads and waits for them. Other green
    ///   threads that `f` has spawned go on.
    /// - Calls nest, also with [`timeout`](crate::time::timeout). If several contexts are over, the unwind
    ///   goes to the outermost call of `run` for them.
    /// - Code in `f` that catches the unwind is unwound again by its next wait, until `f` returns. After
    ///   that, the end of the context ends no wait.
    /// - In a destructor that runs while its thread unwinds, it ends nothing and waits for `f`.
    ///
    /// It works on green threads and plain OS threads. On a plain OS thread only calls of this crate are
    /// ended. For a future: [`run_async`](Context::run_async).
    ///
    /// # Errors
    ///
    /// Returns [`Ended`], with the error and the cause of the context.
    ///
    /// # Panics
    ///
    /// Panics if `f` panics, with that panic.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread unwinds through here.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError, Ended};
    /// use runtime::net::TcpListener;
    ///
    /// fn first_client(context: &Context, listener: &TcpListener) -> Result<std::net::SocketAddr, Ended> {
    ///     context.run(|| listener.accept().expect("a working listener").1)
    /// }
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let (context, _cancel) = Context::background().with_timeout(std::time::Duration::from_millis(5));
    /// assert_eq!(first_client(&context, &listener).unwrap_err().error(), ContextError::DeadlineExceeded);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> Result<T, Ended> {
        let Some(node) = self.node() else { return Ok(f()) };
        let run = next_run();
        let reason = Over { node: Arc::clone(node), run };
        let register = |revoker: revocable::Revoker<Over>| {
            let key = node.at_end(move || revoker.revoke()).map_err(|revoke| revoke()).ok();
            key.map(|key| Registered(node, key))
        };
        revocable::run(reason, register, f).map_err(|payload| match payload.downcast::<Ended>() {
            Ok(ended) if ended.run == run => *ended,
            Ok(of_another) => resume_unwind(of_another),
            Err(payload) => resume_unwind(payload),
        })
    }

    /// Returns a future with the output of `future`, or with an error if this context is over before `future`
    /// is ready.
    ///
    /// `future` is polled first. It is dropped with the returned future. It works in any executor, with any
    /// waker. Calls that park inside of a poll are not ended; [`run`](Context::run) ends them.
    ///
    /// # Errors
    ///
    /// Returns [`Ended`], with the error and the cause of the context.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// let (context, cancel) = Context::background().with_cancel();
    /// let waits = runtime::spawn(async move { context.run_async(std::future::pending::<()>()).await });
    /// cancel.cancel();
    /// assert_eq!(waits.join().unwrap().unwrap_err().error(), ContextError::Canceled);
    /// ```
    pub fn run_async<F: IntoFuture>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Ended>> + use<F> {
        let (node, future) = (self.node().cloned(), future.into_future());
        async move {
            let Some(node) = node else { return Ok(future.await) };
            let (mut future, mut done) = (pin!(future), pin!(node.done().recv_async()));
            let run =
                std::future::poll_fn(|cx| sched::budget::poll_until(cx, future.as_mut(), done.as_mut()));
            run.await.map_err(|_| Ended { end: node.end_of_ended(), run: 0 })
        }
    }
}

/// Returns a number that no other `run` of the process has. It is never 0.
fn next_run() -> u64 {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    // Relaxed: the number orders nothing.
    RUNS.fetch_add(1, Ordering::Relaxed)
}
