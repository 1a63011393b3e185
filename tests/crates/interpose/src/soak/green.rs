//! Operations that end waits of green threads: cancellations, time-outs, descriptors that are replaced.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use super::{Random, Side};
use crate::c_receive;

pub(super) fn cancellation(_: Side, seed: u64) -> String {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let seen = Arc::new(AtomicI32::new(0));
    let sees = seen.clone();
    let thread = runtime::spawn(move || {
        loop {
            let got = c_receive(ours.as_raw_fd());
            if got < 0 {
                sees.store(got, Ordering::Relaxed);
                runtime::sleep(Duration::from_secs(3600));
            }
            assert!(got > 0, "the peer is open");
        }
    });
    for _ in 0..seed % 5 {
        (&theirs).write_all(b"123").unwrap();
        runtime::yield_now();
    }
    thread.cancel();
    assert!(thread.join().is_err(), "it unwinds");
    // It may have been cancelled before it began.
    assert!([0, -libc::ECANCELED].contains(&seen.load(Ordering::Relaxed)));
    String::new()
}

pub(super) fn time_out_around(_: Side, seed: u64) -> String {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let mut seen = 0;
    let late = runtime::time::timeout(Duration::from_micros(seed * 100), || {
        seen = c_receive(ours.as_raw_fd());
        runtime::sleep(Duration::from_secs(3600));
    });
    assert!(late.is_err());
    assert_eq!(seen, -libc::ETIMEDOUT);
    String::new()
}

/// The number stays open: another file takes it. A reader that comes late sees the end of that file.
pub(super) fn replaced(_: Side, seed: u64) -> String {
    let mut random = Random::new(seed);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (other, _) = UnixStream::pair().unwrap();
    let fd = ours.as_raw_fd();
    let readers = [(); 3].map(|()| runtime::spawn(move || c_receive(fd)));
    std::thread::sleep(Duration::from_micros(random.below(300)));
    // SAFETY: both descriptors are open; the copy takes the place of `ours`, which owns it from here on.
    let copied = unsafe { libc::dup2(other.as_raw_fd(), fd) };
    assert_eq!(copied, fd);
    for reader in readers {
        let got = reader.join().unwrap();
        assert!([0, -libc::EBADF].contains(&got), "{got}");
    }
    drop((ours, theirs));
    String::new()
}
