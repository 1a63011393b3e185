//! What is x86-64's of a block: the base, the words at it, and where glibc's record and the images lie.
//!
//! ```text
//!   images of libraries │ record of the thread, which begins with the words that compilers know
//!                       ^ base
//! ```

use std::arch::asm;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use netpoll::raw::call;

use super::words::{read, write};

/// Where a block has the pointer to the vector of its images: the second word.
pub(super) const VECTOR: isize = 8;

/// Returns the base of this thread. A function that is never inlined, as is everything that runs under
/// another base: the compiler may keep what it knows of one block otherwise.
#[inline(always)]
pub(super) fn base() -> usize {
    let base;
    // SAFETY: the first word of each block is its base, by the ABI of x86-64.
    unsafe { asm!("mov {}, fs:[0]", out(reg) base, options(nostack, preserves_flags, readonly)) };
    base
}

/// True if the kernel lets programs set the base by an instruction. It is a system call otherwise, which
/// takes ten times as long.
static BY_INSTRUCTION: AtomicBool = AtomicBool::new(false);

/// Sets the base of this thread.
///
/// # Safety
/// `base` is that of a block, which no other thread uses until this thread leaves it.
#[inline(always)]
pub(super) unsafe fn set_base(base: usize) {
    // Relaxed: both ways do the same.
    if BY_INSTRUCTION.load(Ordering::Relaxed) {
        // SAFETY: this contract; and the kernel allows the instruction. The compiler moves no access of
        // memory over it.
        unsafe { asm!("wrfsbase {}", in(reg) base, options(nostack, preserves_flags)) };
    } else {
        // SAFETY: this contract. The call fails for no address of a block, and `check` has tried it.
        unsafe { call!(libc::SYS_arch_prctl, ARCH_SET_FS, base) };
    }
}

/// The kernel's number for "set the base", which `libc` does not have.
const ARCH_SET_FS: usize = 0x1002;

/// Finds out how the base is set.
pub(super) fn find_way_to_set_base() -> Result<(), String> {
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: `getauxval` reads what the kernel has left at the start of the process.
    let by_instruction = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0;
    BY_INSTRUCTION.store(by_instruction, Ordering::Relaxed);
    // A sandbox may refuse the call.
    // SAFETY: the base stays what it is.
    if !by_instruction && unsafe { call!(libc::SYS_arch_prctl, ARCH_SET_FS, base()) } != 0 {
        return Err(
            "neither the processor nor the kernel lets the program set the base of thread-locals".into()
        );
    }
    Ok(())
}

/// Returns where the record of `record` bytes begins, from the base.
pub(super) fn start_of_record(_record: usize) -> isize {
    0
}

/// Returns how many bytes a block has below its base, and at its base and above. `block` is what glibc says
/// that a block takes.
pub(super) fn extent(block: usize, record: usize) -> (usize, usize) {
    (block.saturating_sub(record), record)
}

/// Returns `extent` for blocks in which libraries have `used` bytes, and others none.
pub(super) fn extent_of_used((_, above): (usize, usize), used: usize) -> (usize, usize) {
    (used, above)
}

/// Returns how many bytes for libraries a block has, of that extent.
pub(super) fn room((below, _): (usize, usize)) -> usize {
    below
}

/// The number of this processor in the files of programs.
pub(super) const MACHINE: u16 = libc::EM_X86_64;
/// The relocation of a word to where thread-locals are, from the base (`R_X86_64_TPOFF64`).
pub(super) const PLACE_OF_THREAD_LOCALS: u64 = 18;

/// Returns how many bytes other libraries have, if one that came after them has `bytes` at `place`, from the
/// base.
pub(super) fn bytes_before(place: isize, bytes: usize) -> usize {
    place.unsigned_abs().wrapping_sub(bytes)
}

/// Returns where the images are, from the base.
pub(super) fn images((below, _): (usize, usize)) -> Range<isize> {
    -below.cast_signed()..0
}

/// Returns where the image of a library is, from the base. `distance` is what glibc notes of the library.
pub(super) fn offset_of_image(distance: isize) -> isize {
    -distance
}

/// Writes the words that compilers know, or that are part of the ABI. `own` is the base of this thread.
///
/// # Safety
/// `block` is the base of a block that only this thread knows, and so is `own`.
pub(super) unsafe fn write_header(block: usize, own: usize, _record: isize) {
    // The base itself, the record, whether there are threads (a 32-bit word, beside one that is zero), and
    // the guards of stacks and pointers.
    // SAFETY: this contract; the words are part of the record.
    unsafe {
        write(block, 0, block);
        write(block, 0x10, block);
        write(block, 0x18, 1);
        for copied in [0x28, 0x30, 0x48] {
            write(block, copied, read(own, copied));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_with_any_thread_local;
    use super::super::{on_a_thread, try_out};
    use super::*;

    /// Both ways to set the base serve, whichever this kernel has.
    #[test]
    fn blocks_work_with_either_way_to_set_the_base() {
        check_with_any_thread_local();
        let found = BY_INSTRUCTION.load(Ordering::Relaxed);
        for by_instruction in [false, found] {
            BY_INSTRUCTION.store(by_instruction, Ordering::Relaxed);
            on_a_thread(try_out::all).unwrap();
        }
    }
}
