//! Counted references to a runtime, for values of users that outlive the call that made them, such as a
//! timer's handle.
//!
//! All Ps share the count of an `Arc` of the runtime. So each M has an `Arc` of its own around one of these,
//! and what its Gs make counts there. Other processors write that count only when they drop such a value.

#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use crate::m::OwnM;

/// What an M counts. `R` is the type of the runtime.
pub(crate) struct Counted<R>(Arc<R>);

/// A reference that keeps a runtime alive.
pub(crate) enum Kept<R> {
    /// Made on an M of the runtime.
    ByM(Arc<Counted<R>>),
    /// Made elsewhere.
    Alone(Arc<R>),
}

impl<R> Deref for Kept<R> {
    type Target = R;

    fn deref(&self) -> &R {
        match self {
            Kept::ByM(counted) => &counted.0,
            Kept::Alone(runtime) => runtime,
        }
    }
}

/// The count of an M, while its thread runs.
pub(crate) struct Keeper<'m, R> {
    m: OwnM<'m>,
    _count: Arc<Counted<R>>,
}

impl<'m, R> Keeper<'m, R> {
    /// Gives the M its count. `runtime` is the runtime of the M. *Runs on: the M, before it runs any G.*
    pub(crate) fn of(m: OwnM<'m>, runtime: &Arc<R>) -> Self {
        let count = Arc::new(Counted(runtime.clone()));
        m.own().keeper.set(Arc::as_ptr(&count).cast());
        Keeper { m, _count: count }
    }
}

impl<R> Drop for Keeper<'_, R> {
    fn drop(&mut self) {
        self.m.own().keeper.set(ptr::null());
    }
}

/// Returns a reference that keeps the runtime of `m` alive.
///
/// # Safety
/// `R` is the type that was passed to [`Keeper::of`].
pub(crate) unsafe fn keep<R>(m: OwnM<'_>) -> Kept<R> {
    let count = m.own().keeper.get().cast::<Counted<R>>();
    assert!(!count.is_null(), "the M's thread runs Gs only while it has a `Keeper`");
    // SAFETY: `Keeper::of` wrote what `Arc::as_ptr` gave, for the same type, by the caller's promise. The
    // `Keeper` has a count as long as the cell is not null. The cell belongs to this thread. The new count
    // belongs to the returned value.
    Kept::ByM(unsafe {
        Arc::increment_strong_count(count);
        Arc::from_raw(count)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::run::boundary::enter;
    use crate::supply::threads::tests::{scheduler, spawn_in};

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not switch stacks")]
    fn references_of_an_m_count_there_and_outlive_it() {
        let sched = scheduler(1);
        let (sender, receiver) = mpsc::channel();
        let count = sched.weak();
        spawn_in(&sched, move || {
            let keep = || enter().expect("on an M").m().keep();
            let before = count.strong_count();
            let kept = [keep(), keep()];
            sender.send((before, count.strong_count(), kept)).expect("the test waits");
        })
        .join()
        .expect("no panic");
        let (before, after, [first, second]) = receiver.recv().expect("two references");
        assert_eq!(before, after, "references of an M count at the runtime");
        assert!(ptr::eq(&raw const *first, Arc::as_ptr(&sched)));
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
        drop(sched);
        assert_eq!(second.procs(), 1);
    }
}
