//! A memory barrier that one thread imposes on all other threads of the process (`membarrier`), where the
//! system has it.

#![allow(unsafe_code)]

/// Returns `true` if the system has the barrier; registers the process for it. A sandbox may allow the
/// registration and refuse the barrier, so the function also imposes one. *Runs on: the thread that makes a
/// runtime, first.*
pub(crate) fn is_there() -> bool {
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
    {
        use std::sync::OnceLock;
        static WORKS: OnceLock<bool> = OnceLock::new();
        *WORKS.get_or_init(|| {
            membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED as libc::c_int) && impose()
        })
    }
    #[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
    false
}

/// Imposes the barrier. Returns `false` if the system refused.
pub(crate) fn impose() -> bool {
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
    return membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED as libc::c_int);
    #[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
    false
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: these commands access no memory of the process; the kernel refuses a command that it does not
    // know.
    unsafe { netpoll::raw::call!(libc::SYS_membarrier, command, 0, 0) == 0 }
}
