//! Whether the program has more rights than the user that started it, as a setuid program has.

/// Returns `true` if the process has more rights than the one that started it: the program is setuid or
/// setgid, or has capabilities. The environment is then that of a stranger.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(unsafe_code)]
pub fn are_raised() -> bool {
    // SAFETY: `getauxval` reads what the kernel has left at the start of the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns `true` if the process has more rights than the one that started it: the program is setuid or
/// setgid.
#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "dragonfly"
))]
#[allow(unsafe_code)]
pub fn are_raised() -> bool {
    // SAFETY: `issetugid` takes nothing and accesses no memory of this process.
    unsafe { libc::issetugid() != 0 }
}

/// Returns `false`: this system has no setuid programs, or no call that reports them.
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "dragonfly"
)))]
pub fn are_raised() -> bool {
    false
}
