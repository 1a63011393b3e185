//! Look-ups of names by libc: an address as text takes no OS thread, and few look-ups run at once.

use std::ffi::{CStr, CString, c_int};
use std::fs;
use std::io;
use std::time::Duration;

use interpose::crowd::{Peak, Turn, procs};

/// Looks `host` up. Returns the result of `getaddrinfo`, and `errno` if it matters.
fn look_up(host: &CStr, service: &CStr) -> (c_int, Option<c_int>) {
    let mut found = std::ptr::null_mut();
    // SAFETY: valid text, and a pointer that the call sets.
    let result =
        unsafe { libc::getaddrinfo(host.as_ptr(), service.as_ptr(), std::ptr::null(), &raw mut found) };
    let errno = io::Error::last_os_error().raw_os_error();
    if result == 0 {
        // SAFETY: the list is that of the successful call.
        unsafe { libc::freeaddrinfo(found) };
    }
    (result, errno.filter(|_| result == libc::EAI_SYSTEM))
}

#[test]
fn addresses_take_no_os_threads() {
    let _turn = Turn::take();
    let hand_offs = || runtime::metrics::snapshot().hand_offs;
    let before = hand_offs();
    // glibc has locks of its own, so a busy machine may rescue some of these. That is not counted here.
    let spawn = |i: usize| runtime::spawn(move || look_up([c"127.0.0.1", c"::1"][i % 2], c"80"));
    let look_ups: Vec<_> = (0..1000).map(spawn).collect();
    assert!(look_ups.into_iter().all(|look_up| look_up.join().unwrap() == (0, None)));
    assert_eq!(hand_offs(), before, "`blocking` was used");
}

#[test]
fn look_ups_use_no_more_os_threads_than_allowed() {
    let _turn = Turn::take();
    let runtime = runtime::Builder::new().blocking_threads(2).build().unwrap();
    let peak = Peak::new();
    let look_ups: Vec<_> = (0..500).map(|_| runtime.spawn(|| look_up(c"localhost", c"80"))).collect();
    assert!(look_ups.into_iter().all(|look_up| look_up.join().unwrap() == (0, None)));
    let (peak, procs) = (peak.end(), procs());
    eprintln!("500 look-ups of localhost, two at once: {peak:?}");
    // Without the bound these are 40 to 80.
    assert!(peak.values().sum::<usize>() <= procs + 6 + 8, "{peak:?}");
}

#[test]
fn a_wait_in_line_can_be_cancelled_and_timed_out() {
    let _turn = Turn::take();
    let runtime = runtime::Builder::new().procs(1).blocking_threads(1).build().unwrap();
    // The runtime's own look-up has a place, and libc's inside of it needs none.
    runtime.spawn(|| runtime::net::lookup_host("localhost:80").unwrap()).join().unwrap();

    let fifo = std::env::temp_dir().join(format!("names-{}", std::process::id()));
    let path = CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: a valid path.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    // This takes the only place until the FIFO is opened for writing. The only P runs these green threads in order.
    let opens = fifo.clone();
    let holder = runtime.spawn(move || runtime::fs::File::open(opens).map(drop).unwrap());
    let (starts, started) = std::sync::mpsc::channel();
    let waits = runtime.spawn(move || {
        starts.send(()).unwrap();
        look_up(c"localhost", c"80")
    });
    started.recv().unwrap();
    waits.cancel();
    assert_eq!(waits.join().unwrap(), (libc::EAI_SYSTEM, Some(libc::ECANCELED)));
    let waits = runtime.spawn(|| {
        let mut result = None;
        let late = runtime::time::timeout(Duration::from_millis(20), || {
            result = Some(look_up(c"localhost", c"80"));
            runtime::sleep(Duration::from_secs(3600));
        });
        (late.is_err(), result)
    });
    assert_eq!(waits.join().unwrap(), (true, Some((libc::EAI_SYSTEM, Some(libc::ETIMEDOUT)))));
    drop(fs::OpenOptions::new().write(true).open(&fifo).unwrap());
    holder.join().unwrap();
    assert_eq!(runtime.spawn(|| look_up(c"localhost", c"80")).join().unwrap(), (0, None));
    fs::remove_file(fifo).unwrap();
}
