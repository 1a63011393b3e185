//! Counted references to a runtime, for values of users that outlive the call that made them, such as a
//! timer's handle.
//!
//! All Ps share the count of an `Arc` of the runtime. So each M has an `Arc` of its own around one of these,
//! and what its Gs make counts there. Other processors write that count only when they drop such a value. An
//! M that drops a value of its own keeps the reference for the next one, and so writes no count at all.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use crate::m::OwnM;
use crate::m::current::on_m;

/// How many references an M keeps for its next values.
const KEPT_AT_MOST: usize = 64;

/// What an M counts. `R` is the type of the runtime.
pub(crate) struct Counted<R>(Arc<R>);

/// A reference that keeps a runtime alive.
pub(crate) enum Kept<R> {
    /// Made on an M of the runtime.
    ByM(ByM<R>),
    /// Made elsewhere.
    Alone(Arc<R>),
}

impl<R> Deref for Kept<R> {
    type Target = R;

    fn deref(&self) -> &R {
        match self {
            Kept::ByM(by_m) => &by_m.0.0,
            Kept::Alone(runtime) => runtime,
        }
    }
}

/// A reference that counts at the M on which it was made.
pub(crate) struct ByM<R>(ManuallyDrop<Arc<Counted<R>>>);

impl<R> Drop for ByM<R> {
    fn drop(&mut self) {
        let returned = on_m(|m| {
            let (keeper, returned) = (m.own().keeper.get(), m.own().returned.get());
            let returns = ptr::eq(keeper, Arc::as_ptr(&self.0).cast()) && returned < KEPT_AT_MOST;
            if returns {
                m.own().returned.set(returned + 1);
            }
            returns
        });
        if returned != Some(true) {
            // SAFETY: the reference is dropped once, here, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.0) };
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
        let count = self.m.own().keeper.replace(ptr::null());
        for _ in 0..self.m.own().returned.take() {
            // SAFETY: `of` made the pointer for this type. Each returned reference was not dropped, and
            // belongs to this M.
            unsafe { Arc::decrement_strong_count(count.cast::<Counted<R>>()) };
        }
    }
}

/// Returns a reference that keeps the runtime of `m` alive.
///
/// # Safety
/// `R` is the type that was passed to [`Keeper::of`].
pub(crate) unsafe fn keep<R>(m: OwnM<'_>) -> Kept<R> {
    let count = m.own().keeper.get().cast::<Counted<R>>();
    assert!(!count.is_null(), "the M's thread runs Gs only while it has a `Keeper`");
    let returned = m.own().returned.get();
    // SAFETY: `Keeper::of` wrote what `Arc::as_ptr` gave, for the same type, by the caller's promise. The
    // `Keeper` has a count as long as the cell is not null. The cells belong to this thread. The count of the
    // returned value is a new one, or one that a dropped value has left to this M.
    let counted = unsafe {
        match returned.checked_sub(1) {
            Some(others) => m.own().returned.set(others),
            None => Arc::increment_strong_count(count),
        }
        Arc::from_raw(count)
    };
    Kept::ByM(ByM(ManuallyDrop::new(counted)))
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

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not switch stacks")]
    fn an_m_keeps_some_references_for_its_next_values_and_none_after_its_end() {
        let sched = scheduler(1);
        let weak = sched.weak();
        spawn_in(&sched, || {
            let keep = || enter().expect("on an M").m().keep();
            let kept = || enter().expect("on an M").m().own().returned.get();
            (0..3).for_each(|_| drop(keep()));
            assert_eq!(kept(), 1, "each value takes the reference of the one before");
            let many: Vec<_> = (0..2 * KEPT_AT_MOST).map(|_| keep()).collect();
            assert_eq!(kept(), 0);
            drop(many);
            assert_eq!(kept(), KEPT_AT_MOST);
        })
        .join()
        .expect("no panic");
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
        drop(sched);
        assert_eq!(weak.strong_count(), 0, "a reference outlives all values and threads");
    }
}
