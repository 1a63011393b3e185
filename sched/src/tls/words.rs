//! Words of a block, by their offset from the base.

use std::ptr;

/// # Safety
/// The word lies in the block of `base`, and no other thread uses it.
#[inline(always)]
pub(super) unsafe fn write(base: usize, offset: isize, value: usize) {
    // SAFETY: this contract.
    unsafe { ptr::with_exposed_provenance_mut::<usize>(base.wrapping_add_signed(offset)).write(value) };
}

/// # Safety
/// As for `write`.
#[inline(always)]
pub(super) unsafe fn read(base: usize, offset: isize) -> usize {
    // SAFETY: this contract.
    unsafe { ptr::with_exposed_provenance::<usize>(base.wrapping_add_signed(offset)).read() }
}
