//! Test helpers: the C program, and counts of OS threads. The servers are those of `tests/crates`.

use std::ffi::c_int;

#[path = "../../src/lib.rs"]
pub mod servers;

unsafe extern "C" {
    safe fn check_calls() -> c_int;
    safe fn errno_after_timeout(fd: c_int, ms: c_int) -> c_int;
    safe fn receive(fd: c_int) -> c_int;
}

/// Runs the checks of the C program. Returns the number of failures on all threads so far, which the program prints.
pub fn failures_of_calls() -> i32 {
    check_calls()
}

/// Lets C receive from `fd` until a time-out. Returns the `errno` at the address that C has kept from before the call.
pub fn errno_kept_across_timeout(fd: i32, ms: i32) -> i32 {
    errno_after_timeout(fd, ms)
}

/// Lets C receive from `fd`. Returns the number of bytes, or the negative `errno`.
pub fn c_receive(fd: i32) -> i32 {
    receive(fd)
}

/// Returns the number of OS threads of this process.
pub fn os_threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("/proc").count()
}

/// The highest number of OS threads of this process, looked for every few milliseconds.
#[derive(Debug)]
pub struct Peak {
    stop: std::sync::mpsc::Sender<()>,
    looks: std::thread::JoinHandle<usize>,
}

impl Peak {
    /// Starts to look. The OS thread that looks is not counted.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let (stop, stopped) = std::sync::mpsc::channel();
        let looks = std::thread::spawn(move || {
            let mut most = 0;
            loop {
                most = most.max(os_threads() - 1);
                let wait = stopped.recv_timeout(std::time::Duration::from_millis(3));
                if wait != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    return most;
                }
            }
        });
        Peak { stop, looks }
    }

    /// Returns the highest number since `new`.
    #[must_use]
    pub fn end(self) -> usize {
        drop(self.stop);
        self.looks.join().expect("the thread that looks")
    }
}
