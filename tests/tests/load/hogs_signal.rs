//! A program with an action of its own for SIGURG: a crowd of hogs and the reports of hogs leave that action
//! alone.
#![cfg(target_os = "linux")]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use runtime::Builder;
use tests::{child, wait_until, with};

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

static CALLS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn counts(_signal: libc::c_int) {
    CALLS.fetch_add(1, SeqCst);
}

#[test]
fn a_handler_of_the_program_stays_and_reports_of_hogs_have_no_stack() {
    child::passes("a_handler_of_the_program_stays_and_reports_of_hogs_have_no_stack", "own", || {
        let own = counts as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler changes an atomic alone.
        unsafe { libc::signal(libc::SIGURG, own) };
        let (tell, told) = mpsc::sync_channel(1000);
        let builder = Builder::new().procs(1).on_hog(move |hog| drop(tell.try_send(hog.clone())));
        let runtime = builder.build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let other = runtime.spawn(|| {
            loop {
                runtime::sleep(Duration::from_millis(1));
            }
        });
        let hog = runtime.spawn(move || while !stops.load(SeqCst) {});
        let report = told.recv().unwrap();
        stop.store(true, SeqCst);
        hog.join().unwrap();
        assert!(report.stack.is_empty(), "{report}");
        assert_eq!((action(), CALLS.load(SeqCst)), (own, 0), "the runtime sends no such signal");
        // SAFETY: `raise` accesses no memory of this process.
        unsafe { libc::raise(libc::SIGURG) };
        assert_eq!(CALLS.load(SeqCst), 1);
        other.cancel();
    });
}
