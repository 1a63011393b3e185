//! The process: its memory, its processor time, its limits, and its end after a panic.

#![allow(unsafe_code)]

use std::fs;
use std::mem::MaybeUninit;
use std::ops::Sub;
use std::time::Duration;

use crate::report::Report;

/// Makes a panic on any thread end the process. So no wrong result is reported, and no task waits for a task
/// that has ended.
pub(crate) fn end_at_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}

/// Raises the soft limit of open files to the hard limit.
pub(crate) fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a local variable, alive and not shared while the calls read and write it.
    let done = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0
        }
    };
    assert!(done, "the soft limit of open files cannot be raised to the hard limit");
}

/// Returns the memory in use: VmRSS of /proc/self/status.
pub fn rss_bytes() -> u64 {
    status("VmRSS:") * 1024
}

/// Returns the number of OS threads: Threads of /proc/self/status.
pub fn os_threads() -> u64 {
    status("Threads:")
}

fn status(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc/self/status can be read");
    let line =
        status.lines().find_map(|line| line.strip_prefix(key)).expect("/proc/self/status has the line");
    line.trim().trim_end_matches(" kB").parse().expect("the value is a number")
}

/// Returns the memory that each of `n` things takes, from the memory before and after.
pub fn bytes_each(before: u64, after: u64, n: usize) -> f64 {
    after.saturating_sub(before) as f64 / n as f64
}

/// The resources that the process has used, since its start or between two moments.
pub struct Usage {
    /// The processor time.
    pub cpu: Duration,
    /// The context switches in which a thread waited.
    pub voluntary: u64,
    /// The context switches in which the kernel preempted a thread.
    pub involuntary: u64,
}

impl Usage {
    /// Returns the usage since the start of the process, from getrusage.
    pub fn now() -> Usage {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: `usage` is a local variable that no other thread accesses. The call fills it if it returns
        // 0, which is asserted.
        let usage = unsafe {
            assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0, "getrusage");
            usage.assume_init()
        };
        let time = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
        };
        Usage {
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
        }
    }
}

impl Usage {
    /// Adds the figures of this usage.
    pub fn report(&self, report: &mut Report) {
        report.number("cpu_ms", self.cpu.as_secs_f64() * 1e3);
        report.count("vcsw", self.voluntary);
        report.count("ivcsw", self.involuntary);
    }
}

impl Sub for Usage {
    type Output = Usage;

    fn sub(self, before: Usage) -> Usage {
        Usage {
            cpu: self.cpu - before.cpu,
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
        }
    }
}
