//! Writes on which M a G may run. That is any M, the M on which the G waits in place, or the home to which
//! the G is bound.

#![allow(unsafe_code)]

use std::ptr;

use super::{M, OwnM};
use crate::g::G;
use crate::g::binding::Binding;
use crate::g::own::OwnG;

/// On which Ms a G may run, with the M: see [`Binding`].
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    Free,
    InPlace(&'static M),
    Home(&'static M),
}

impl OwnG {
    /// Binds this G to `m` until it ends, and lets only bound Gs run on `m` from now on (`run/reserved.rs`).
    ///
    /// # Safety
    /// The G runs on this thread, which is `m`.
    #[cfg(all(feature = "interpose", target_os = "linux"))]
    pub(crate) unsafe fn claim(self, m: OwnM<'_>) {
        if !self.binding.is_home() {
            // SAFETY: the G runs here, on `m`, and so has its coroutine.
            unsafe { self.settle(m) };
        }
        if !self.set_claims(true) {
            m.own().claims.set(m.own().claims.get() + 1);
        }
    }

    /// Ends what `settle` and `claim` began: any M may run this G again. Has no effect on a G that is not
    /// bound.
    #[inline]
    pub(crate) fn unsettle(self) {
        if self.binding.is_home() {
            self.unsettle_bound();
        }
    }

    #[cold]
    fn unsettle_bound(self) {
        // SAFETY: this G runs here, so only this thread uses its coroutine. `bind` wrote the pointer to the M
        // of this thread, and an M to which a G is bound does not end.
        let m = unsafe { OwnM::new(&*(*self.coro()).bound_to.get().cast::<M>()) };
        m.homes.remove();
        if self.set_claims(false) {
            m.own().claims.set(m.own().claims.get() - 1);
        }
        self.binding.set(Binding::Free);
    }
}

impl G {
    /// Lets this G keep `m`, which sleeps while the G does not run; `None` ends that.
    ///
    /// # Safety
    /// The G runs on this thread, which is `m`, and has no home.
    pub(crate) unsafe fn set_in_place(&self, m: Option<OwnM<'_>>) {
        debug_assert!(!self.binding.is_home(), "strict mode binds a G for good");
        // SAFETY: a running G has its coroutine.
        unsafe { self.bind(if m.is_some() { Binding::InPlace } else { Binding::Free }, m.map(OwnM::shared)) };
    }

    /// Binds this G to `m`: from its next stop on, no other M resumes it.
    ///
    /// # Safety
    /// The G has its coroutine and is this thread's to run; this thread is `m`.
    pub(crate) unsafe fn settle(&self, m: OwnM<'_>) {
        debug_assert!(self.binding.get() == Binding::Free, "a G is bound to one M at a time");
        m.homes.add();
        // SAFETY: the caller keeps the contract above.
        unsafe { self.bind(Binding::Home, Some(m.shared())) };
    }

    /// # Safety
    /// The G has its coroutine and is this thread's to run.
    unsafe fn bind(&self, binding: Binding, m: Option<&M>) {
        let m = m.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: by the contract above.
        unsafe { (*self.coro()).bound_to.set(m.cast()) };
        self.binding.set(binding);
    }

    /// Returns the M on which this G waits in place for a P; `None` if `m` may run this G. A bound G lies in
    /// the queue of a P, or in the global queue, only while it waits in place. *Runs on: `m`, which has taken
    /// this G from a queue.*
    pub(crate) fn waits_in_place(&self, m: OwnM<'_>) -> Option<&'static M> {
        match self.bound() {
            Bound::Free => None,
            Bound::InPlace(other) | Bound::Home(other) => (!ptr::eq(other, m.shared())).then_some(other),
        }
    }

    /// Returns on which M this G may run. *Runs on: a thread that may make this G runnable.*
    #[inline]
    pub(crate) fn bound(&self) -> Bound {
        let binding = self.binding.get();
        if binding == Binding::Free {
            return Bound::Free;
        }
        // SAFETY: the caller has the right to make this G runnable, so the G stays parked and keeps its
        // coroutine. `bind` wrote the pointer; an M to which a G is bound stays while that G lives.
        let m = unsafe { &*(*self.coro()).bound_to.get().cast::<M>() };
        if binding == Binding::Home { Bound::Home(m) } else { Bound::InPlace(m) }
    }
}
