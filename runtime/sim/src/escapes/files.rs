//! `files`: functions of libc that reach a file of the system by its path. `runtime::fs` reaches those of the
//! simulated disks without them.

#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use netpoll::raw::call;
use sched::simulation;

use super::forms::{no_permission, no_pointer, refused};

/// Returns `true` if the file at `path` describes the process, the machine or the code of the program. The
/// report of a panic and `available_parallelism` read such files.
fn is_of_process(path: &Path) -> bool {
    let of_debugger = || {
        let extension = path.extension().and_then(OsStr::to_str);
        extension.is_some_and(|extension| ["dwp", "dwo", "debug"].contains(&extension))
            || path.file_name().is_some_and(|name| name.as_bytes().windows(3).any(|part| part == b".so"))
    };
    path == Path::new("/dev/null")
        || ["/proc", "/sys", "/usr/lib/debug"].iter().any(|folder| path.starts_with(folder))
        || of_debugger()
        // It reads a link in `/proc`, so this function calls itself once.
        || std::env::current_exe().is_ok_and(|program| path == program)
}

/// Returns the name by which the run fails if the code of a simulation reaches the file at `path`; `None` if
/// it may do that: the path names no file, or one that describes the process.
///
/// # Safety
/// `path` is the address of a C string, or 0.
pub(super) unsafe fn file(function: &str, path: usize) -> Option<String> {
    if path == 0 {
        return None;
    }
    // SAFETY: by the contract of this function.
    let path = unsafe { CStr::from_ptr(path as *const c_char) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let is_free = path.as_os_str().is_empty() || is_of_process(path);
    (!is_free).then(|| format!("a file of the system ({function} of {})", path.display()))
}

/// Defines functions with the path at one of their words.
macro_rules! with_path {
    ($failed:expr; $($name:ident($at:literal);)*) => {
        refused! { $($name(words) = file(stringify!($name), words[$at]) => $failed;)* }
    };
}

// What reads or changes what a path names. A call with two paths is refused for the one that it makes.
with_path! {
    no_permission();
    access(0); chdir(0); chmod(0); chown(0); creat(0); creat64(0); lchown(0); link(1); mkdir(0); mkfifo(0);
    readlink(0); remove(0); rename(1); rmdir(0); statfs(0); statfs64(0); statvfs(0); statvfs64(0); symlink(1);
    truncate(0); truncate64(0); unlink(0); utimes(0);
    faccessat(1); fchmodat(1); fchownat(1); linkat(3); mkdirat(1); openat(1); openat64(1); readlinkat(1);
    renameat(3); renameat2(3); symlinkat(2); unlinkat(1); utimensat(1);
    mkstemp(0); mkstemp64(0); mkostemp(0); mkostemp64(0);
}

with_path! {
    no_pointer();
    fopen(0); fopen64(0); mkdtemp(0); opendir(0); realpath(0);
}

/// Asks for the metadata of a path by the system call: libc has the functions since release 2.33 only.
///
/// # Safety
/// As of `fstatat(2)`.
unsafe fn metadata(
    name: &str,
    folder: c_int,
    path: *const c_char,
    to: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's path.
    let why = || unsafe { file(name, path as usize) };
    if simulation::is_user_code() && why().is_some_and(|what| simulation::refuses(|| what)) {
        return no_permission() as c_int;
    }
    // SAFETY: the caller's arguments. The kernel's type is libc's on both processors.
    match unsafe { call!(libc::SYS_newfstatat, folder, path, to, flags) } {
        0 => 0,
        error => netpoll::raw::fail(error) as c_int,
    }
}

/// Defines functions that ask for the metadata of a path.
macro_rules! metadata {
    ($($name:ident = $flags:expr;)*) => { $(
        #[doc = concat!("libc's `", stringify!($name), "`, which the code of a simulation must not call.")]
        ///
        /// # Safety
        /// As of libc's function.
        pub unsafe extern "C" fn $name(path: *const c_char, to: *mut libc::stat) -> c_int {
            // SAFETY: the caller's arguments.
            unsafe { metadata(stringify!($name), libc::AT_FDCWD, path, to, $flags) }
        }
    )* };
}

metadata! {
    stat = 0;
    stat64 = 0;
    lstat = libc::AT_SYMLINK_NOFOLLOW;
    lstat64 = libc::AT_SYMLINK_NOFOLLOW;
}

/// libc's `fstatat`, which the code of a simulation must not call.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn fstatat(
    folder: c_int,
    path: *const c_char,
    to: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { metadata("fstatat", folder, path, to, flags) }
}

/// libc's `fstatat64`, which is its `fstatat` on both processors.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn fstatat64(
    folder: c_int,
    path: *const c_char,
    to: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { fstatat(folder, path, to, flags) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_process_are_known() {
        let program = std::env::current_exe().unwrap();
        let of_process = ["/dev/null", "/proc/self/maps", "/sys/fs/cgroup/cpu.max", "/lib/libc.so.6"];
        assert!(of_process.iter().map(Path::new).all(is_of_process) && is_of_process(&program));
        let others = ["/procs", "/etc/hosts", "Cargo.toml", "/", "/dev/random", "/tmp/a.txt", "."];
        assert!(!others.iter().map(Path::new).any(is_of_process));
    }
}
