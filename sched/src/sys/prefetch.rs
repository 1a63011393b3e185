//! Asks the processor to load memory into its cache ahead of its use.

#![allow(unsafe_code)]

/// Begins to load the cache line at `address`, without waiting for it. Has no other effect, whatever the
/// address is.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has this instruction, which reads nothing that a program can see, and
    // faults at no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    };
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above, on every 64-bit Arm processor.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    };
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
