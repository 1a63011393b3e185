//! The processor's own counter, where its rate does not depend on what the processor does.

#![allow(unsafe_code)]

/// Returns the counter's value if the counter can measure time; `None` if its rate may change.
#[cfg(all(target_arch = "x86_64", not(portable)))]
pub(crate) fn steady_ticks() -> Option<u64> {
    use std::arch::x86_64::__cpuid;
    const ADVANCED: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let has = __cpuid(0x8000_0000).eax >= ADVANCED;
    (has && __cpuid(ADVANCED).edx & INVARIANT != 0).then(ticks)
}

/// Returns the counter's value.
#[cfg(all(target_arch = "x86_64", not(portable)))]
#[inline]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has this instruction. A kernel that forbids it would break the C library
    // too.
    let ticks = unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(test)]
    let ticks = ticks.wrapping_add(SKEW.load(std::sync::atomic::Ordering::Relaxed));
    ticks
}

/// The offset by which tests make the counter jump.
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(portable)))]
pub(crate) static SKEW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Returns the counter's value: the virtual counter is steady by definition.
#[cfg(all(target_arch = "aarch64", not(portable)))]
pub(crate) fn steady_ticks() -> Option<u64> {
    Some(ticks())
}

/// Returns the counter's value.
#[cfg(all(target_arch = "aarch64", not(portable)))]
#[inline]
pub(crate) fn ticks() -> u64 {
    let ticks = counter();
    #[cfg(test)]
    let ticks = ticks.wrapping_add(SKEW.load(std::sync::atomic::Ordering::Relaxed));
    ticks
}

/// Returns the value of the virtual counter. Its frequency is not read from `cntfrq_el0`, which firmware may
/// set wrongly: the gate and the flight recorder measure it by the clock.
#[cfg(all(target_arch = "aarch64", not(portable)))]
#[inline]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: the instruction reads a counter that every 64-bit Arm system lets programs read.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
    };
    ticks
}

/// Returns `None`: on this processor no counter is known to be steady, and the runtime reads the clock
/// instead.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(portable))))]
pub(crate) fn steady_ticks() -> Option<u64> {
    None
}

/// Returns a value outside of every span for which a gate is shut, so that all gates are open.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(portable))))]
#[inline]
pub(crate) fn ticks() -> u64 {
    u64::MAX
}

/// Returns a time stamp of the flight recorder: the processor's counter where that is steady on all
/// processors, else the runtime's clock in ns. Stamps of one process have one unit; the reader compares two
/// stamps with the clock to learn it.
#[inline]
pub fn stamp() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(portable)))]
    if is_steady() {
        // SAFETY: every x86-64 processor has this instruction.
        return unsafe { std::arch::x86_64::_rdtsc() };
    }
    #[cfg(all(target_arch = "aarch64", not(portable)))]
    return counter();
    #[allow(unreachable_code, reason = "some processors return above")]
    timers::clock::now()
}

/// Returns `true` if the processor's counter is steady. Asks the processor once.
#[cfg(all(target_arch = "x86_64", not(portable)))]
#[inline]
fn is_steady() -> bool {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    static STEADY: AtomicU8 = AtomicU8::new(0);
    #[cold]
    fn ask() -> bool {
        let steady = steady_ticks().is_some();
        STEADY.store(1 + u8::from(steady), Relaxed);
        steady
    }
    match STEADY.load(Relaxed) {
        0 => ask(),
        known => known == 2,
    }
}
