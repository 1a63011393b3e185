//! The end of a reference to a G: the last release puts the G into the pool that spawns take from.

#![allow(unsafe_code)]

use super::OwnM;
use super::current::current;
use crate::g::{GRef, table};
use crate::m::os_thread;

/// Releases a reference to a G. *Runs on: any thread.*
#[inline]
pub(crate) fn release(g: GRef) {
    if g.life.release() {
        recycle(g);
    }
}

/// Recycles a G without references. *Runs on: the thread that released the last reference.*
fn recycle(g: GRef) {
    if !g.is_green() {
        return os_thread::recycle(g);
    }
    g.forget();
    // SAFETY: `current` names the M of this OS thread, which outlives that thread. The kept Gs belong to the
    // thread, with or without a P.
    match unsafe { current().as_ref().map(|m| OwnM::new(m)) } {
        Some(m) => m.own().unused.give(g),
        None => table::give([g]),
    }
}
