//! What the system reports about this process: threads, descriptors, mappings, memory, CPU time.

#[cfg(unix)]
use std::time::Duration;

/// Returns the number of OS threads of this process.
#[cfg(windows)]
pub fn threads() -> usize {
    use windows_sys::Win32::Foundation::{CloseHandle, INVALID_HANDLE_VALUE};
    use windows_sys::Win32::System::Diagnostics::ToolHelp::{
        CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
    };
    let mut entry = THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..Default::default() };
    // SAFETY: the calls write to `entry`, which has its size. The handle is the snapshot's until it is closed.
    unsafe {
        let all = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
        assert_ne!(all, INVALID_HANDLE_VALUE, "a list of the threads");
        let (mut count, mut more) = (0, Thread32First(all, &raw mut entry));
        while more != 0 {
            count += usize::from(entry.th32OwnerProcessID == std::process::id());
            more = Thread32Next(all, &raw mut entry);
        }
        CloseHandle(all);
        count
    }
}

/// Returns the number of OS threads of this process.
#[cfg(not(windows))]
pub fn threads() -> usize {
    let threads = threads_named("").len();
    assert!(threads > 0, "the format of /proc/self/task/../stat");
    threads
}

/// Returns the names of OS threads that begin with `prefix`. It leaves out exiting threads, which the system
/// lists for a moment after their joiner has returned.
pub fn threads_named(prefix: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    stats.filter_map(|stat| name_unless_exiting(&stat)).filter(|name| name.starts_with(prefix)).collect()
}

/// Parses a line of `/proc/../stat`: `number (name) state ..`. The seventh word after the name has the
/// exiting flag.
fn name_unless_exiting(stat: &str) -> Option<String> {
    const PF_EXITING: u32 = 4;
    let (begin, rest) = stat.rsplit_once(") ")?;
    let flags: u32 = rest.split(' ').nth(6)?.parse().ok()?;
    (flags & PF_EXITING == 0).then(|| begin.split_once('(').map(|(_, name)| name.to_string()))?
}

/// Returns the number of open descriptors of this process.
pub fn descriptors() -> usize {
    entries("/proc/self/fd")
}

/// Returns the number of open descriptors of this process that have a name or a number: files, pipes and
/// sockets, but no epoll instances.
pub fn descriptors_but_anonymous() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("a list of the descriptors");
    let name = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
    // As text: a path begins with whole names of its own.
    all.filter_map(name).filter(|name| !name.to_string_lossy().starts_with("anon_inode:")).count()
}

/// Returns the number of mappings of this process.
pub fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("Linux").lines().count()
}

/// Returns `true` if a guard of a stack is a mark in the page table, as on Linux from 6.13 on. Elsewhere each
/// stack takes two mappings.
#[cfg(target_os = "linux")]
pub fn has_guard_marks() -> bool {
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    // One page, as `madvise` takes no less.
    // SAFETY: the call returns new pages, to which no reference exists.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED);
    // SAFETY: the page was made above, and is used here only.
    let marked = unsafe { libc::madvise(page, 4096, MADV_GUARD_INSTALL) } == 0;
    // SAFETY: as above.
    unsafe { libc::munmap(page, 4096) };
    marked && !cfg!(portable)
}

fn entries(path: &str) -> usize {
    std::fs::read_dir(path).expect("Linux").count()
}

/// Returns the memory in use in bytes: `VmRSS`.
pub fn resident_bytes() -> usize {
    status_bytes("VmRSS:")
}

/// Returns the memory of this process's page tables in bytes: `VmPTE`.
pub fn page_table_bytes() -> usize {
    status_bytes("VmPTE:")
}

/// Returns `true` if the kernel gives back page tables that map nothing any more. Tried out, with 32 tables,
/// in a process that does nothing else.
#[cfg(target_os = "linux")]
pub fn frees_page_tables() -> bool {
    const TABLE_BYTES: usize = 2 << 20;
    let bytes = 32 * TABLE_BYTES;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the call returns new pages, to which no reference exists. They are used here only.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), bytes, access, kind | libc::MAP_NORESERVE, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
        for at in (0..bytes).step_by(TABLE_BYTES) {
            start.cast::<u8>().add(at).write_volatile(1);
        }
        let before = page_table_bytes();
        assert_eq!(libc::madvise(start, bytes, libc::MADV_DONTNEED), 0);
        let after = page_table_bytes();
        libc::munmap(start, bytes);
        after + 16 * 4096 <= before
    }
}

/// Returns the address space in use in bytes: what `RLIMIT_AS` limits.
pub fn address_space() -> usize {
    status_bytes("VmSize:")
}

/// Returns the private writable address space in use in bytes: what `RLIMIT_DATA` limits.
pub fn data_space() -> usize {
    status_bytes("VmData:")
}

fn status_bytes(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with(key)).expect("the key is in /proc/self/status");
    let kib: usize = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
    kib * 1024
}

/// The type of `libc::RLIMIT_..`.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub type Resource = libc::__rlimit_resource_t;
/// The type of `libc::RLIMIT_..`.
#[cfg(all(target_os = "linux", not(target_env = "gnu")))]
pub type Resource = libc::c_int;

/// A limit of this process that is restored when the value is dropped. `what`: a constant `libc::RLIMIT_..`.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Limit {
    what: Resource,
    before: libc::rlim_t,
}

#[cfg(target_os = "linux")]
impl Limit {
    /// Sets the soft limit.
    pub fn new(what: Resource, to: u64) -> Limit {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `getrlimit` writes to `limit`, which is exclusively borrowed.
        assert_eq!(unsafe { libc::getrlimit(what, &mut limit) }, 0);
        let before = limit.rlim_cur;
        // On 32 bits the type is narrower than 64 bits.
        set_soft_limit(what, to as libc::rlim_t);
        Limit { what, before }
    }

    /// Allows `more` bytes of address space beyond what is in use.
    pub fn address_space(more: usize) -> Limit {
        Limit::new(libc::RLIMIT_AS, (address_space() + more) as u64)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Limit {
    fn drop(&mut self) {
        set_soft_limit(self.what, self.before);
    }
}

#[cfg(target_os = "linux")]
fn set_soft_limit(what: Resource, to: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `getrlimit` writes to `limit`, which is exclusively borrowed.
    assert_eq!(unsafe { libc::getrlimit(what, &mut limit) }, 0);
    limit.rlim_cur = to;
    // SAFETY: `setrlimit` only reads `limit`.
    assert_eq!(unsafe { libc::setrlimit(what, &limit) }, 0);
}

/// Returns the CPU time that this process has used.
#[cfg(unix)]
pub fn cpu_time() -> Duration {
    // SAFETY: all zero is a valid value of this plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `getrusage` writes to `usage`, which is exclusively borrowed.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) }, 0);
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Keeps this process from leaving a core file when it is killed on purpose.
pub fn no_core_dump() {
    #[cfg(unix)]
    {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `setrlimit` only reads `none`.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    }
}

/// Returns how often OS threads of this process with names that begin with `name` have gone to sleep so far.
#[cfg(target_os = "linux")]
pub fn sleeps(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a list of the threads");
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        field("Name:")?.starts_with(name).then(|| field("voluntary_ctxt_switches:")?.parse::<u64>().ok())?
    };
    tasks.filter_map(of).sum()
}
