//! Refused system calls: a filter of the kernel (seccomp) answers some calls of this process with an error,
//! as a sandbox or an older kernel does.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// System calls that a filter refuses.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// The number of the call, a constant `libc::SYS_..`.
    pub call: libc::c_long,
    /// The position and the value of an argument, if only calls with this argument are refused. The filter
    /// compares 32 bits.
    pub with: Option<(u32, u32)>,
}

impl Refused {
    /// Returns a filter's entry for each call with that number.
    pub fn call(call: libc::c_long) -> Refused {
        Refused { call, with: None }
    }

    /// Returns the error with which the kernel answers this call with senseless arguments, 0 if it succeeds.
    pub fn answer(self) -> i32 {
        let mut arguments = [-1 as libc::c_long; 6];
        if let Some((position, value)) = self.with {
            arguments[position as usize] = value as libc::c_long;
        }
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: no address, descriptor or flag of these arguments is valid, so a call that reaches the
        // kernel does nothing.
        let result = unsafe { libc::syscall(self.call, a, b, c, d, e, f) };
        if result == -1 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
    }
}

/// What the filter knows of a call: `struct seccomp_data` of seccomp(2). The number is at its start.
const ARGUMENTS_AT: u32 = 16;

/// Refuses these calls with the error `errno` to the calling thread, and to the threads and processes that it
/// starts from now on. The filter stays as long as these live.
///
/// # Errors
/// The system has no filters, or refuses this one.
pub fn refuse(calls: &[Refused], errno: i32) -> io::Result<()> {
    let load = |at| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at);
    let refused = statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32);
    let mut filter = Vec::new();
    for refusal in calls {
        filter.push(load(0));
        // Each jump leads behind the refusal.
        if let Some((position, value)) = refusal.with {
            filter.push(unless_equal(refusal.call as u32, 3));
            // The lower half of the argument, at the end of its eight bytes if the processor stores that
            // last.
            let half = if cfg!(target_endian = "big") { 4 } else { 0 };
            filter.push(load(ARGUMENTS_AT + 8 * position + half));
            filter.push(unless_equal(value, 1));
        } else {
            filter.push(unless_equal(refusal.call as u32, 1));
        }
        filter.push(refused);
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    install(&mut filter)
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Goes on with the next statement if the loaded value is `value`, and leaves out `number` statements
/// otherwise.
fn unless_equal(value: u32, number: u8) -> libc::sock_filter {
    libc::sock_filter { jf: number, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value) }
}

fn install(filter: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the calls read `program` and `filter`, which outlive them. The filter only answers with an
    // error.
    let failed = unsafe {
        // Without this, only root may install a filter.
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Hides `/proc` from the calling thread, and from the threads and processes that it starts from now on.
///
/// # Errors
/// The caller may not change what is mounted: it is not root, or in a container.
pub fn hide_proc() -> io::Result<()> {
    own_mounts()?;
    mount(c"none", c"/proc", c"tmpfs", 0)
}

/// Mounts an empty folder over that of the cgroups, and the file `groups` over `/proc/self/cgroup`, for the
/// calling thread and for the threads and processes that it starts from now on.
///
/// # Errors
/// As [`hide_proc`].
pub fn replace_cgroups(groups: &Path) -> io::Result<()> {
    own_mounts()?;
    let groups = CString::new(groups.as_os_str().as_bytes())?;
    mount(&groups, c"/proc/self/cgroup", c"none", libc::MS_BIND)?;
    mount(c"none", c"/sys/fs/cgroup", c"tmpfs", 0)
}

/// Lets the calling thread mount without an effect on other processes.
fn own_mounts() -> io::Result<()> {
    // SAFETY: the call changes only which mounts the caller sees.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    mount(c"none", c"/", c"none", libc::MS_REC | libc::MS_PRIVATE)
}

fn mount(what: &CStr, to: &CStr, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let nothing = std::ptr::null();
    // SAFETY: the call reads strings that end with zero, and changes what the caller sees in the folders of the
    // system.
    let failed = unsafe { libc::mount(what.as_ptr(), to.as_ptr(), kind.as_ptr(), flags, nothing) != 0 };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}
