//! The calls that C makes with `_FORTIFY_SOURCE`, and some that libraries use seldom: they park.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;
use interpose::{CHECKED_CALLS, call_checked, sleep_as_c11, write_by_pwritev2};

fn await_parked(count: u64) {
    while runtime::metrics::snapshot().waiting < count {
        std::thread::yield_now();
    }
}

#[test]
fn a_checked_call_parks() {
    let _dog = Watchdog::new();
    for how in 0..CHECKED_CALLS {
        let polls = [3, 4].contains(&how);
        let (readers, writers): (Vec<_>, Vec<_>) = (0..20)
            .map(|_| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                let size = if polls { 4 } else { 64 };
                (runtime::spawn(move || call_checked(how, ours.as_raw_fd(), size)), theirs)
            })
            .unzip();
        await_parked(20);
        writers.iter().for_each(|mut writer| writer.write_all(b"abc").unwrap());
        for reader in readers {
            assert_eq!(reader.join().unwrap(), if polls { 1 } else { 3 }, "call {how}");
        }
    }
}

/// As on an OS thread, a call that would exceed the caller's buffer ends the process.
#[test]
fn a_checked_call_that_is_too_large_ends_the_process() {
    const CASE: &str = "INTERPOSE_CHECKED";
    if let Ok(how) = std::env::var(CASE) {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let how = how.parse().unwrap();
        let size = if how < 3 { 65 } else { 5 };
        runtime::spawn(move || call_checked(how, ours.as_raw_fd(), size)).join().unwrap();
        unreachable!("the process has ended");
    }
    for how in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let test = "checked::a_checked_call_that_is_too_large_ends_the_process";
        let output =
            child.args(["--exact", test, "--nocapture"]).env(CASE, how.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "call {how}: {}: {said}", output.status);
        assert!(said.contains("buffer overflow detected"), "{said}");
    }
}

#[test]
fn a_write_by_pwritev2_parks_until_all_is_written() {
    let _dog = Watchdog::new();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let bytes = vec![7; 1 << 20];
    let writer = runtime::spawn(move || write_by_pwritev2(ours.as_raw_fd(), &bytes));
    await_parked(1);
    theirs.read_exact(&mut vec![0; 1 << 20]).unwrap();
    assert_eq!(writer.join().unwrap(), 1 << 20);
}

#[test]
fn a_sleep_of_c11_parks() {
    let _dog = Watchdog::new();
    let start = Instant::now();
    let sleepers: Vec<_> = (0..100).map(|_| runtime::spawn(|| sleep_as_c11(300))).collect();
    await_parked(50);
    assert!(sleepers.into_iter().all(|sleeper| sleeper.join().unwrap() == 0));
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(sleep_as_c11(2), 0);
}
