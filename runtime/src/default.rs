//! The default runtime: started at its first use, or by `Builder::build_global`. It lives as long as the
//! process. Plain OS threads use it, except during a `block_on_local` of another runtime.

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use sched::Sched;
use sched::sync::Mutex;

static DEFAULT: OnceLock<Arc<Sched>> = OnceLock::new();

/// How the default runtime starts at its first use. What a runtime is started with lies above the modules
/// that use one (dumps, traces, metrics), so `runtime/builder.rs` implements it.
pub(crate) trait StartAtFirstUse {
    /// Calls [`start`].
    fn start_at_first_use() -> io::Result<bool>;

    /// Starts the runtime of a program of which all threads are green. Its closures have thread-locals of
    /// their own. Their stacks have `stack_bytes`, unless the environment says another size. Returns `false`
    /// if the environment asks for OS threads.
    ///
    /// # Errors
    /// Returns the errors of [`start`], and one for a variable with a value that is not allowed.
    #[allow(dead_code, reason = "only such programs call it")]
    fn start_for_threads(stack_bytes: usize) -> io::Result<bool>;
}

/// The default runtime.
pub(crate) struct DefaultRuntime;

/// Makes the scheduler that `build` returns that of the default runtime, unless there is one. It must live as
/// long as the process. Returns `true` if this call started the runtime.
///
/// # Errors
/// Returns the errors of `build`. The next call tries again.
pub(crate) fn start(build: impl FnOnce() -> io::Result<Arc<Sched>>) -> io::Result<bool> {
    static STARTS: Mutex<()> = Mutex::new(());
    sched::fork::check()?;
    let _one_at_a_time = STARTS.lock();
    if DEFAULT.get().is_some() {
        return Ok(false);
    }
    let sched = build().map_err(|error| {
        io::Error::new(error.kind(), format!("cannot start the default runtime: {error}"))
    })?;
    let _first = DEFAULT.set(sched);
    Ok(true)
}

/// Returns the scheduler of the default runtime. The first call starts that runtime.
///
/// # Errors
/// Returns the errors of [`start`]. The next call tries again.
pub(crate) fn default_sched() -> io::Result<&'static Arc<Sched>> {
    if DEFAULT.get().is_none() {
        DefaultRuntime::start_at_first_use()?;
    }
    Ok(DEFAULT.get().expect("the default runtime was started above"))
}

thread_local! {
    /// The scheduler of the runtime whose `block_on_local` runs on this plain OS thread.
    static ENTERED: RefCell<Option<Arc<Sched>>> = const { RefCell::new(None) };
}

/// Makes a runtime that of a plain OS thread, until it is dropped there.
pub(crate) struct Entered {
    before: Option<Arc<Sched>>,
    /// Must be dropped on the same thread.
    _not_send: PhantomData<*const ()>,
}

impl Entered {
    /// *Runs on: a plain OS thread.*
    pub(crate) fn enter(sched: &Arc<Sched>) -> Entered {
        let before = ENTERED.replace(Some(Arc::clone(sched)));
        Entered { before, _not_send: PhantomData }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let left = ENTERED.replace(self.before.take());
        drop(left);
    }
}

/// Returns the scheduler whose `block_on_local` runs on this plain OS thread. Never inlined: a green thread
/// may come here on one OS thread after the other.
#[inline(never)]
fn entered() -> Option<Arc<Sched>> {
    // At the end of a thread there is no variable any more, and no `block_on_local`.
    ENTERED.try_with(|entered| entered.borrow().clone()).ok().flatten()
}

/// Returns the scheduler for a caller that is no green thread. That is the one of a `block_on_local` on this
/// OS thread, or else that of the default runtime. Starts the default runtime at its first use.
///
/// # Errors
/// Returns the errors of [`default_sched`].
pub(crate) fn sched_of_plain_thread() -> io::Result<Arc<Sched>> {
    entered().map_or_else(|| default_sched().cloned(), Ok)
}

/// Returns what [`sched_of_plain_thread`] does. Panics with the reason if the default runtime cannot be
/// started.
pub(crate) fn sched_of_plain_thread_or_panic() -> Arc<Sched> {
    sched_of_plain_thread().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the scheduler of the caller, or `None` if that would be the default runtime's and it has not been
/// started.
pub(crate) fn started_sched() -> Option<Arc<Sched>> {
    Sched::current().or_else(entered).or_else(|| DEFAULT.get().cloned())
}

/// Returns the scheduler of the caller's green thread. Elsewhere it is that of [`sched_of_plain_thread`].
///
/// # Errors
/// Returns the errors of [`default_sched`].
pub(crate) fn current_sched() -> io::Result<Arc<Sched>> {
    Sched::current().map_or_else(sched_of_plain_thread, Ok)
}
