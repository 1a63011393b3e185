//! A program with an action of its own for SIGURG: a crowd of hogs leaves that action alone.
#![cfg(target_os = "linux")]

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tests::{wait_until, with};

fn action() -> libc::sighandler_t {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call writes an action into a place of the right size; all zeroes is valid, too.
    unsafe {
        assert_eq!(libc::sigaction(libc::SIGURG, std::ptr::null(), action.as_mut_ptr()), 0);
        action.assume_init().sa_sigaction
    }
}

#[test]
fn an_ignored_sigurg_stays_ignored_and_all_hogs_end() {
    const HOGS: usize = 40;
    // SAFETY: to ignore a signal runs no code.
    unsafe { libc::signal(libc::SIGURG, libc::SIG_IGN) };
    with(2, |runtime| {
        let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let hogs: Vec<_> = (0..HOGS)
            .map(|_| {
                let (stop, begun) = (stop.clone(), begun.clone());
                runtime.spawn(move || {
                    begun.fetch_add(1, SeqCst);
                    while !stop.load(SeqCst) {}
                })
            })
            .collect();
        wait_until("all hogs have begun", || begun.load(SeqCst) == HOGS);
        runtime.spawn(|| runtime::sleep(Duration::from_millis(50))).join().unwrap();
        assert_eq!(action(), libc::SIG_IGN);
        stop.store(true, SeqCst);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}
