//! A memory barrier that one thread imposes on all others of the process.

#![allow(unsafe_code)]

/// Whether the system has it. *Runs on: whoever makes a runtime, before anything else of it.*
pub(crate) fn is_there() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use std::sync::OnceLock;
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        *REGISTERED.get_or_init(|| membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    false
}

/// Imposes it; `false`: the system would not.
pub(crate) fn impose() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    false
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn membarrier(command: libc::membarrier_cmd) -> bool {
    // SAFETY: these commands take no memory; an unknown one is refused.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
