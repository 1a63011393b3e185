//! The processor's own counter, where its rate does not depend on what the processor does.

#![allow(unsafe_code)]

/// Returns the counter's value if the counter can measure time; `None` if its rate may change.
#[cfg(target_arch = "x86_64")]
pub(crate) fn steady_ticks() -> Option<u64> {
    use std::arch::x86_64::__cpuid;
    const ADVANCED: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let has = __cpuid(0x8000_0000).eax >= ADVANCED;
    (has && __cpuid(ADVANCED).edx & INVARIANT != 0).then(ticks)
}

/// Returns the counter's value.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has this instruction. A kernel that forbids it would break the C library too.
    let ticks = unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(test)]
    let ticks = ticks.wrapping_add(SKEW.load(std::sync::atomic::Ordering::Relaxed));
    ticks
}

/// The offset by which tests make the counter jump.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) static SKEW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Returns `None`: on this processor no counter is known to be steady, and the runtime reads the clock instead.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn steady_ticks() -> Option<u64> {
    None
}

/// Returns a value outside of every span for which a gate is shut, so that all gates are open.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn ticks() -> u64 {
    u64::MAX
}
