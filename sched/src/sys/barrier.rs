//! A memory barrier that one thread imposes on all other threads of the process (`membarrier`), where the
//! system has it.

#![allow(unsafe_code)]

/// Returns `true` if the system has the barrier; registers the process for it. *Runs on: the thread that
/// makes a runtime, first.*
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

/// Imposes the barrier. Returns `false` if the system refused.
pub(crate) fn impose() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    false
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn membarrier(command: libc::membarrier_cmd) -> bool {
    // SAFETY: these commands access no memory of the process; the kernel refuses a command that it does not
    // know.
    unsafe { netpoll::raw::call!(libc::SYS_membarrier, command, 0, 0) == 0 }
}
