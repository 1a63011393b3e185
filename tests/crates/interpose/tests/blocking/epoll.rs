//! `epoll_wait` on green threads: it keeps its OS thread, as tokio's reactors need, and gives up its P at
//! once.

use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;

/// Returns an epoll instance that waits for bytes of `stream`.
fn instance(stream: &UnixStream) -> OwnedFd {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 17 };
    // SAFETY: the event lives for the call; the new descriptor is owned from here on.
    unsafe {
        let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        assert!(epoll >= 0);
        assert_eq!(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &mut event), 0);
        OwnedFd::from_raw_fd(epoll)
    }
}

/// Returns the number of events and the first one's word, or the negative `errno`.
fn wait(epoll: i32, milliseconds: i32) -> (i32, u64) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
    // SAFETY: the array has four places.
    match unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 4, milliseconds) } {
        -1 => (-std::io::Error::last_os_error().raw_os_error().unwrap(), 0),
        count => (count, events[0].u64),
    }
}

/// Without sysmon, so that only the call itself can give up the P.
#[test]
fn other_green_threads_run_meanwhile() {
    let _dog = Watchdog::new();
    let runtime = runtime::Builder::new().procs(1).sysmon(false).build().unwrap();
    let waiter = runtime.spawn(|| {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let epoll = instance(&ours);
        // SAFETY: the call has no condition.
        let thread = || unsafe { libc::gettid() };
        let count = |_: &usize| {
            let (sender, receiver) = mpsc::channel();
            runtime::spawn(move || sender.send(Instant::now()).unwrap());
            let before = thread();
            assert_eq!(wait(epoll.as_raw_fd(), 4), (0, 0));
            assert_eq!(thread(), before);
            let end = Instant::now();
            let ran = loop {
                match receiver.try_recv() {
                    Ok(ran) => break ran,
                    Err(_) => runtime::yield_now(),
                }
            };
            ran < end
        };
        (0..100).filter(count).count()
    });
    let ran = waiter.join().unwrap();
    assert!(ran > 30, "other green threads ran in {ran} of 100 waits");
}

#[test]
fn events_and_errors_are_those_of_the_system() {
    let _dog = Watchdog::new();
    let green = runtime::spawn(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let epoll = instance(&ours);
        assert_eq!(wait(epoll.as_raw_fd(), 0), (0, 0));
        let start = Instant::now();
        assert_eq!(wait(epoll.as_raw_fd(), 20), (0, 0));
        assert!(start.elapsed() >= Duration::from_millis(20));
        let writer = runtime::spawn(move || {
            runtime::sleep(Duration::from_millis(5));
            (&theirs).write_all(b"1").unwrap();
            theirs
        });
        assert_eq!(wait(epoll.as_raw_fd(), -1), (1, 17));
        assert_eq!(wait(epoll.as_raw_fd(), 0), (1, 17), "the bytes are still there");
        assert_eq!(wait(-1, 1_000), (-libc::EBADF, 0));
        assert_eq!(wait(ours.as_raw_fd(), 1_000), (-libc::EINVAL, 0));
        drop(writer.join().unwrap());
    });
    green.join().unwrap();
}
