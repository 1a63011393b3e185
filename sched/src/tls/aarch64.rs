//! What is 64-bit Arm's of a block: the base, the words at it, and where glibc's record and the images lie.
//!
//! ```text
//!   record of the thread │ two words │ images of libraries
//!                        ^ base
//! ```
//!
//! The guards of stacks and pointers are variables of the process here, not words of the block.

use std::arch::asm;
use std::ops::Range;

use super::words::{read, write};

/// Where a block has the pointer to the vector of its images: the first word.
pub(super) const VECTOR: isize = 0;

/// The words at the base, which the ABI gives to libc.
const HEADER: isize = 16;

/// Returns the base of this thread. A function that is never inlined, as is everything that runs under
/// another base: the compiler may keep what it knows of one block otherwise.
#[inline(always)]
pub(super) fn base() -> usize {
    let base;
    // SAFETY: the register is the base, by the ABI. It is read anew each time: the compiler keeps the order
    // of this and the instruction that writes the register.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) base, options(nostack, preserves_flags, readonly)) };
    base
}

/// Sets the base of this thread.
///
/// # Safety
/// `base` is that of a block, which no other thread uses until this thread leaves it.
#[inline(always)]
pub(super) unsafe fn set_base(base: usize) {
    // SAFETY: this contract. Programs may write the register, and the kernel keeps it for each thread. The
    // compiler moves no access of memory over it.
    unsafe { asm!("msr tpidr_el0, {}", in(reg) base, options(nostack, preserves_flags)) };
}

/// Every processor has the instruction.
pub(super) fn find_way_to_set_base() -> Result<(), String> {
    Ok(())
}

/// Returns where the record of `record` bytes begins, from the base.
pub(super) fn start_of_record(record: usize) -> isize {
    -record.cast_signed()
}

/// Returns how many bytes a block has below its base, and at its base and above. `block` is what glibc says
/// that a block takes, which is without the record here.
pub(super) fn extent(block: usize, record: usize) -> (usize, usize) {
    (record, block)
}

/// Returns `extent` for blocks in which libraries have `used` bytes, and others none.
pub(super) fn extent_of_used((below, _): (usize, usize), used: usize) -> (usize, usize) {
    (below, used)
}

/// Returns how many bytes for libraries a block has, of that extent. The words at the base count.
pub(super) fn room((_, above): (usize, usize)) -> usize {
    above
}

/// The number of this processor in the files of programs.
pub(super) const MACHINE: u16 = libc::EM_AARCH64;
/// The relocation of a word to where thread-locals are, from the base (`R_AARCH64_TLS_TPREL`).
pub(super) const PLACE_OF_THREAD_LOCALS: u64 = 1030;

/// Returns how many bytes other libraries have, if one that came after them has `bytes` at `place`, from the
/// base.
pub(super) fn bytes_before(place: isize, _bytes: usize) -> usize {
    place.unsigned_abs()
}

/// Returns where the images are, from the base.
pub(super) fn images((_, above): (usize, usize)) -> Range<isize> {
    HEADER..above.cast_signed()
}

/// Returns where the image of a library is, from the base. `distance` is what glibc notes of the library.
pub(super) fn offset_of_image(distance: isize) -> isize {
    distance
}

/// Writes the words that are not zero in the record of every thread. `own` is the base of this thread.
///
/// # Safety
/// `block` is the base of a block that only this thread knows, and so is `own`.
pub(super) unsafe fn write_header(block: usize, own: usize, record: isize) {
    // Whether there are threads, in the releases of glibc that note it there. It is the same for all threads.
    // SAFETY: this contract; the word is the first of the record.
    unsafe { write(block, record, read(own, record)) };
}
