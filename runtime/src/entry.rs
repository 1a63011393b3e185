//! What `spawn` and `block_on` accept: closures and futures alike.

#![allow(unsafe_code)]

use std::io;

use sched::spawn::{Spec, Where};
use sched::{After, Join, drive};

/// A closure or a future: what a green thread can run.
///
/// `M` only tells the two apart ([`Closure`] or [`Async`]); it is always inferred. The trait is implemented for
/// every `FnOnce() -> T` and for every `Future`, and cannot be implemented otherwise.
///
/// ```
/// let a = runtime::spawn(|| 1);
/// let b = runtime::spawn(async { 2 });
/// assert_eq!(a.join().unwrap() + b.join().unwrap(), 3);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a closure without arguments nor a future",
    label = "pass `|| ..`, `move || ..` or `async {{ .. }}`"
)]
pub trait Entry<M>: private::Run<M> {}

/// Marks an [`Entry`] that is a closure.
#[derive(Debug)]
pub enum Closure {}

/// Marks an [`Entry`] that is a future.
#[derive(Debug)]
pub enum Async {}

impl<T, F: FnOnce() -> T> Entry<Closure> for F {}
impl<F: Future> Entry<Async> for F {}

pub(crate) mod private {
    use super::*;

    /// How the two are run.
    pub trait Run<M>: Sized {
        /// What it gives.
        type Output;

        /// Spawns it; `after` hears of its end.
        ///
        /// # Safety
        /// What it borrows outlives the green thread.
        unsafe fn start(self, at: Where<'_>, spec: Spec, after: impl After)
        -> io::Result<Join<Self::Output>>;

        /// Runs it on the calling green thread.
        fn run_here(self) -> Self::Output;
    }

    impl<T, F: FnOnce() -> T> Run<Closure> for F {
        type Output = T;

        unsafe fn start(self, at: Where<'_>, spec: Spec, after: impl After) -> io::Result<Join<T>> {
            // SAFETY: the caller's promise is the same.
            unsafe { sched::spawn::closure(at, spec, self, after) }
        }

        fn run_here(self) -> T {
            self()
        }
    }

    impl<F: Future> Run<Async> for F {
        type Output = F::Output;

        unsafe fn start(self, at: Where<'_>, spec: Spec, after: impl After) -> io::Result<Join<F::Output>> {
            // SAFETY: the caller's promise is the same.
            unsafe { sched::spawn::future(at, spec, self, after) }
        }

        fn run_here(self) -> F::Output {
            drive::block_on(self)
        }
    }
}
