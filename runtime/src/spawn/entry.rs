//! `Entry`: the trait of closures and futures, which `spawn` and `block_on` accept.

#![allow(unsafe_code)]

use std::io;

use sched::spawn::{Spec, Where};
use sched::{After, Join, block_on};

/// A closure or a future: what a green thread can run.
///
/// `M` is [`Closure`] or [`Async`] and is always inferred. The trait is implemented for every `FnOnce() -> T`
/// and for every `Future`. No other type can implement it.
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
pub trait Entry<M>: private::Run<M, Value = <Self as Entry<M>>::Output> {
    /// The value that the closure returns, or the output of the future.
    type Output;
}

/// Marks an [`Entry`] that is a closure.
#[derive(Debug)]
pub enum Closure {}

/// Marks an [`Entry`] that is a future.
#[derive(Debug)]
pub enum Async {}

impl<T, F: FnOnce() -> T> Entry<Closure> for F {
    type Output = T;
}

impl<F: Future> Entry<Async> for F {
    type Output = F::Output;
}

pub(crate) mod private {
    use super::*;

    /// Starts and runs a closure or a future.
    pub trait Run<M>: Sized {
        /// The `Output` of the `Entry`.
        type Value;

        /// Starts a green thread that runs `self`. Calls `after` when that green thread has ended.
        ///
        /// # Safety
        /// What `self` and its output borrow must outlive the green thread.
        unsafe fn start(self, at: Where<'_>, spec: Spec, after: impl After) -> io::Result<Join<Self::Value>>;

        /// Starts a green thread as `start` does. Its result is what `map` makes of the result of `self`, on
        /// that green thread.
        ///
        /// # Safety
        /// What `self`, `map` and the outputs of both borrow must outlive the green thread.
        unsafe fn start_mapped<U>(
            self,
            at: Where<'_>,
            spec: Spec,
            after: impl After,
            map: impl FnOnce(Self::Value) -> U,
        ) -> io::Result<Join<U>>;

        /// Runs `self` on the calling green thread and returns its value.
        fn run_here(self) -> Self::Value;
    }

    impl<T, F: FnOnce() -> T> Run<Closure> for F {
        type Value = T;

        unsafe fn start(self, at: Where<'_>, spec: Spec, after: impl After) -> io::Result<Join<T>> {
            // SAFETY: the caller of `start` promises what `closure` requires: the borrows of `self` outlive
            // the green thread.
            unsafe { sched::spawn::closure(at, spec, self, after) }
        }

        unsafe fn start_mapped<U>(
            self,
            at: Where<'_>,
            spec: Spec,
            after: impl After,
            map: impl FnOnce(T) -> U,
        ) -> io::Result<Join<U>> {
            // SAFETY: the caller of `start_mapped` promises what `closure` requires: the borrows of `self`
            // and `map` outlive the green thread.
            unsafe { sched::spawn::closure(at, spec, move || map(self()), after) }
        }

        fn run_here(self) -> T {
            self()
        }
    }

    impl<F: Future> Run<Async> for F {
        type Value = F::Output;

        unsafe fn start(self, at: Where<'_>, spec: Spec, after: impl After) -> io::Result<Join<F::Output>> {
            // SAFETY: the caller of `start` promises what `future` requires: the borrows of `self` outlive
            // the green thread.
            unsafe { sched::spawn::future(at, spec, self, after) }
        }

        unsafe fn start_mapped<U>(
            self,
            at: Where<'_>,
            spec: Spec,
            after: impl After,
            map: impl FnOnce(F::Output) -> U,
        ) -> io::Result<Join<U>> {
            // SAFETY: the caller of `start_mapped` promises what `future` requires: the borrows of `self` and
            // `map` outlive the green thread.
            unsafe { sched::spawn::future(at, spec, async move { map(self.await) }, after) }
        }

        fn run_here(self) -> F::Output {
            block_on::block_on(self)
        }
    }
}
