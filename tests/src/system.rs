//! What the system says of this process: threads, descriptors, mappings, memory, CPU time.

use std::time::Duration;

/// OS threads of this process.
pub fn threads() -> usize {
    entries("/proc/self/task")
}

/// Open descriptors of this process.
pub fn descriptors() -> usize {
    entries("/proc/self/fd")
}

/// Mappings of this process.
pub fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("Linux").lines().count()
}

fn entries(path: &str) -> usize {
    std::fs::read_dir(path).expect("Linux").count()
}

/// Memory in use, in bytes: `VmRSS`.
pub fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux says it");
    let kib: usize = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
    kib * 1024
}

/// CPU time that this process has used.
#[cfg(unix)]
pub fn cpu_time() -> Duration {
    // SAFETY: all zero is a value of this plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: it writes to the struct that it is given.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) }, 0);
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// This process leaves no core file when it is killed on purpose.
pub fn no_core_dump() {
    #[cfg(unix)]
    {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: it reads the struct that it is given.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    }
}
