//! A program that has the feature, because one of its dependencies asked for it, and not the line
//! `runtime::interpose!();`: libc's functions are libc's.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Returns where the process finds a function, and where libc has it.
fn found(name: &CStr) -> [*mut c_void; 2] {
    // SAFETY: the name is a C string.
    [libc::RTLD_DEFAULT, libc::RTLD_NEXT].map(|from| unsafe { libc::dlsym(from, name.as_ptr()) })
}

#[test]
fn the_process_has_the_functions_of_libc() {
    let blocking =
        [c"read", c"write", c"poll", c"connect", c"close", c"nanosleep", c"syscall", c"getaddrinfo"];
    let of_threads = [
        c"__libc_start_main",
        c"pthread_create",
        c"pthread_join",
        c"pthread_self",
        c"pthread_mutex_lock",
        c"pthread_cond_wait",
    ];
    for name in blocking.into_iter().chain(of_threads) {
        let [default, of_libc] = found(name);
        assert!(!default.is_null() && default == of_libc, "{name:?}");
    }
}

#[test]
fn a_sleep_of_std_keeps_its_os_thread() {
    static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
    let runtime = runtime::Builder::new().procs(1).sysmon(false).build().unwrap();
    runtime.block_on(|| {
        let sleep = || {
            assert_eq!(AT_ONCE.fetch_add(1, SeqCst), 0, "another green thread runs meanwhile");
            std::thread::sleep(Duration::from_millis(5));
            AT_ONCE.fetch_sub(1, SeqCst);
        };
        let sleepers: Vec<_> = (0..10).map(|_| runtime::spawn(sleep)).collect();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}
