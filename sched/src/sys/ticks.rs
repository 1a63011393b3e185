//! The processor's own counter, where it runs at one rate whatever the processor does.

#![allow(unsafe_code)]

/// The counter now, if it is fit to tell time by.
#[cfg(target_arch = "x86_64")]
pub(crate) fn steady_ticks() -> Option<u64> {
    use std::arch::x86_64::__cpuid;
    const ADVANCED: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let has = __cpuid(0x8000_0000).eax >= ADVANCED;
    (has && __cpuid(ADVANCED).edx & INVARIANT != 0).then(ticks)
}

/// The counter now.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; a kernel that forbids it would break the C library too.
    let ticks = unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(test)]
    let ticks = ticks.wrapping_add(SKEW.load(std::sync::atomic::Ordering::Relaxed));
    ticks
}

/// How far a test has made the counter jump.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) static SKEW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// No counter is known to be fit here: the clock itself is read.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn steady_ticks() -> Option<u64> {
    None
}

/// Never before any time a gate is set to.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn ticks() -> u64 {
    u64::MAX
}
