//! Look-ups of names by libc: an address as text takes no OS thread, and few look-ups run at once.

use std::ffi::{CStr, CString, c_int};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use interpose::crowd;
use tempfile::TempDir;

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

/// Makes a FIFO, which can be opened for reading only when a writer comes.
fn make_fifo(folder: &TempDir) -> PathBuf {
    let fifo = folder.path().join("fifo");
    let path = CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: a valid path.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    fifo
}

#[test]
fn addresses_take_no_os_threads() {
    let _dog = crowd::watch();
    let hand_offs = || runtime::metrics::snapshot().hand_offs;
    let before = hand_offs();
    // glibc has locks of its own, so a busy machine may rescue some of these. That is not counted here.
    let spawn = |i: usize| runtime::spawn(move || look_up([c"127.0.0.1", c"::1"][i % 2], c"80"));
    let look_ups: Vec<_> = (0..1000).map(spawn).collect();
    assert!(look_ups.into_iter().all(|look_up| look_up.join().unwrap() == (0, None)));
    assert_eq!(hand_offs(), before, "`blocking` was used");
}

/// Two files that block in their opening have both places, so all look-ups come to stand in line.
#[test]
fn look_ups_use_no_more_os_threads_than_allowed() {
    const LOOK_UPS: usize = 500;
    let _dog = crowd::watch();
    let runtime = runtime::Builder::new().blocking_threads(2).build().unwrap();
    let metrics = || runtime.handle().metrics();
    let folder = tempfile::tempdir().unwrap();
    let fifo = make_fifo(&folder);
    let holders = [(); 2].map(|()| {
        let fifo = fifo.clone();
        runtime.spawn(move || runtime::fs::File::open(fifo).map(drop).unwrap())
    });
    while metrics().blocking_threads < 2 {
        std::thread::yield_now();
    }
    let look_ups: Vec<_> = (0..LOOK_UPS).map(|_| runtime.spawn(|| look_up(c"localhost", c"80"))).collect();
    // A look-up without a place would end, and not stand in line.
    while metrics().blocking_queue < LOOK_UPS {
        std::thread::yield_now();
    }
    assert_eq!(metrics().blocking_threads, 2);
    let writer = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    holders.into_iter().for_each(|holder| holder.join().unwrap());
    drop(writer);
    assert!(look_ups.into_iter().all(|look_up| look_up.join().unwrap() == (0, None)));
}

#[test]
fn a_wait_in_line_can_be_cancelled_and_timed_out() {
    let _dog = crowd::watch();
    let runtime = runtime::Builder::new().procs(1).blocking_threads(1).build().unwrap();
    // The runtime's own look-up has a place, and libc's inside of it needs none.
    runtime.spawn(|| runtime::net::lookup_host("localhost:80").unwrap()).join().unwrap();

    let folder = tempfile::tempdir().unwrap();
    let fifo = make_fifo(&folder);
    // This takes the only place until the FIFO is opened for writing. The only P runs these green threads in
    // order.
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
}
