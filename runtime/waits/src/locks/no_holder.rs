//! In the models locks record no thread.

pub(super) fn took_share(_address: usize, _upgradable: bool) {}

pub(super) fn gives_share_back(_address: usize, _upgradable: bool) {}

/// The record of one lock, which is empty.
pub(super) struct Holder;

impl Holder {
    pub(super) const fn new() -> Holder {
        Holder
    }

    pub(super) fn took(&self) {}

    pub(super) fn unlocks(&self) {}

    pub(super) fn id(&self) -> Option<u64> {
        None
    }
}
