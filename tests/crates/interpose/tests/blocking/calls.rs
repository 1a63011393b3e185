//! Calls of C: their values and `errno` on green threads are those on OS threads.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;
use interpose::{c_receive, errno_kept_across_timeout, failures_of_calls};

#[test]
fn c_sees_what_it_sees_on_os_threads() {
    let _dog = Watchdog::new();
    let plain: Vec<_> = (0..4).map(|_| std::thread::spawn(failures_of_calls)).collect();
    assert_eq!(plain.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>(), 0, "on OS threads");
    let green: Vec<_> = (0..20)
        .map(|_| runtime::thread::Builder::new().stack_size(1 << 20).spawn(failures_of_calls).unwrap())
        .collect();
    assert_eq!(green.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>(), 0, "on green threads");
    let future = runtime::block_on(async { failures_of_calls() });
    assert_eq!(future, 0, "in a future");
}

#[test]
fn c_sees_what_it_sees_on_os_threads_in_strict_mode() {
    let _dog = Watchdog::new();
    let strict = runtime::Builder::new().migration(runtime::Migration::BeforeStart).build().unwrap();
    let green: Vec<_> = (0..8).map(|_| strict.spawn(failures_of_calls)).collect();
    assert_eq!(green.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>(), 0);
}

#[test]
fn the_address_of_errno_may_be_kept_across_a_call() {
    let _dog = Watchdog::new();
    let threads: Vec<_> = (0..2000)
        .map(|i| {
            runtime::spawn(move || {
                let (ours, _theirs) = UnixStream::pair().unwrap();
                errno_kept_across_timeout(ours.as_raw_fd(), 5 + i % 40)
            })
        })
        .collect();
    let wrong =
        threads.into_iter().filter(|_| true).map(|t| t.join().unwrap()).filter(|&e| e != libc::EAGAIN);
    assert_eq!(wrong.count(), 0);
}

#[test]
fn a_cancellation_is_an_error_of_the_call_and_unwinds_the_next_wait() {
    let _dog = Watchdog::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = runtime::spawn(move || {
        // A green thread that is cancelled before it begins runs nothing.
        sender.send(1).unwrap();
        sender.send(c_receive(ours.as_raw_fd())).unwrap();
        sender.send(c_receive(ours.as_raw_fd())).unwrap();
        runtime::sleep(Duration::from_secs(3600));
        sender.send(0).unwrap();
    });
    assert_eq!(receiver.recv(), Ok(1));
    std::thread::sleep(Duration::from_millis(20));
    thread.cancel();
    assert!(thread.join().is_err());
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [-libc::ECANCELED, -libc::ECANCELED]);
    drop(theirs);
}

#[test]
fn a_timeout_is_an_error_of_the_call_and_unwinds_the_next_wait() {
    let _dog = Watchdog::new();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let green = runtime::spawn(move || {
        let mut seen = 0;
        let limit = Duration::from_millis(20);
        let result = runtime::time::timeout(limit, || {
            seen = c_receive(ours.as_raw_fd());
            runtime::sleep(Duration::from_secs(3600));
        });
        assert!(result.is_err());
        assert_eq!(seen, -libc::ETIMEDOUT);
        let start = Instant::now();
        let result = runtime::time::timeout(limit, || std::thread::sleep(Duration::from_secs(3600)));
        assert!(result.is_ok() && start.elapsed() < Duration::from_secs(60), "a sleep ends early");
    });
    green.join().unwrap();
}

#[test]
fn many_green_threads_wait_for_one_descriptor() {
    let _dog = Watchdog::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let fd = ours.as_raw_fd();
    let readers: Vec<_> = (0..100).map(|_| runtime::spawn(move || c_receive(fd))).collect();
    let writer = runtime::spawn(move || {
        for _ in 0..100 {
            std::io::Write::write_all(&mut &theirs, b"12345678").unwrap();
            runtime::sleep(Duration::from_micros(100));
        }
    });
    writer.join().unwrap();
    assert!(readers.into_iter().all(|reader| reader.join().unwrap() == 8));
}
