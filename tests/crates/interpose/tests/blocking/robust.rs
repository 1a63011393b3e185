//! Caught calls beside what other threads and the system do: descriptors that are replaced or shut down,
//! children, many descriptors. (Another test must not use the numbers of descriptors
//! at the same time.)

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use interpose::c_receive;
use interpose::crowd::raise_limit_of_descriptors;
use interpose::servers::Watchdog;

/// Waits until `count` green threads are parked.
fn await_parked(count: u64) {
    while runtime::metrics::snapshot().waiting < count {
        std::thread::yield_now();
    }
}

#[test]
fn a_descriptor_that_is_replaced_ends_the_waits_for_it() {
    let _dog = Watchdog::new();
    let mut ended = 0;
    for by_dup3 in [false, true] {
        for _ in 0..100 {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (other, mut writer) = UnixStream::pair().unwrap();
            let fd = ours.as_raw_fd();
            let readers: Vec<_> = (0..3).map(|_| runtime::spawn(move || c_receive(fd))).collect();
            await_parked(3);
            // SAFETY: both descriptors are open; the copy takes the place of `ours`, which owns it from here
            // on.
            let copied = unsafe {
                if by_dup3 {
                    libc::dup3(other.as_raw_fd(), fd, libc::O_CLOEXEC)
                } else {
                    libc::dup2(other.as_raw_fd(), fd)
                }
            };
            assert_eq!(copied, fd);
            // The new file is waited for, also by a reader that was late.
            let reader = runtime::spawn(move || c_receive(fd));
            writer.write_all(b"123").unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
            let results = readers.into_iter().chain([reader]).map(|reader| reader.join().unwrap());
            let results: Vec<_> = results.collect();
            assert_eq!(results.iter().filter(|&&result| result == 3).count(), 1, "{results:?}");
            assert!(results.iter().all(|&result| [3, 0, -libc::EBADF].contains(&result)), "{results:?}");
            ended += results.iter().filter(|&&result| result == -libc::EBADF).count();
            drop((ours, theirs, other));
        }
    }
    assert!(ended > 100, "{ended} waits of 600 ended");
}

#[test]
fn a_shutdown_ends_the_waits_of_both_sides() {
    let _dog = Watchdog::new();
    for _ in 0..100 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (a, b) = (ours.as_raw_fd(), theirs.as_raw_fd());
        let readers = [a, b].map(|fd| runtime::spawn(move || c_receive(fd)));
        await_parked(2);
        ours.shutdown(std::net::Shutdown::Both).unwrap();
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 0));
    }
}

#[test]
fn children_start_while_green_threads_are_parked() {
    let _dog = Watchdog::new();
    let (readers, mut writers): (Vec<_>, Vec<_>) = (0..50)
        .map(|_| {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            let reader = runtime::spawn(move || {
                let mut bytes = [0; 2];
                ours.read_exact(&mut bytes).unwrap();
                bytes
            });
            (reader, theirs)
        })
        .unzip();
    await_parked(50);
    let children = (0..8).map(|i: i32| {
        runtime::spawn(move || {
            let mut child = std::process::Command::new("sh");
            child.args(["-c", &format!("sleep 0.0{i}; exit {i}")]).status().unwrap().code()
        })
    });
    let children: Vec<_> = children.collect();
    writers.iter_mut().for_each(|writer| writer.write_all(b"a").unwrap());
    for (i, child) in (0..).zip(children) {
        assert_eq!(child.join().unwrap(), Some(i));
    }
    // A child without exec reads by itself: it has no green threads.
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let status = runtime::spawn(move || {
        // SAFETY: the child makes system calls alone, and ends by `_exit`.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut byte = [0u8];
                let got = libc::read(ours.as_raw_fd(), byte.as_mut_ptr().cast(), 1);
                libc::_exit(if got == 1 { i32::from(byte[0]) } else { 99 });
            }
            ours.write_all(b"!").unwrap();
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            libc::WEXITSTATUS(status)
        }
    });
    theirs.read_exact(&mut [0]).unwrap();
    theirs.write_all(&[7]).unwrap();
    assert_eq!(status.join().unwrap(), 7);
    writers.iter_mut().for_each(|writer| writer.write_all(b"b").unwrap());
    assert!(readers.into_iter().all(|reader| reader.join().unwrap() == *b"ab"));
}

#[test]
fn ten_thousand_descriptors_are_waited_for_at_once() {
    let _dog = Watchdog::new();
    raise_limit_of_descriptors();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let count = (limit.rlim_cur as usize - 200).min(10_000) / 2;
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    let (readers, writers): (Vec<_>, Vec<(usize, OwnedFd)>) = (0..count)
        .map(|i| {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            let reader = runtime::spawn(move || {
                let mut bytes = [0; 8];
                ours.read_exact(&mut bytes).unwrap();
                ours.write_all(&bytes).unwrap();
                usize::from_le_bytes(bytes)
            });
            (reader, (i, theirs.into()))
        })
        .unzip();
    await_parked(count as u64);
    // A busy machine may rescue some that only begin.
    assert!(std::fs::read_dir("/proc/self/task").unwrap().count() <= threads + count / 20);
    for (i, writer) in writers.iter().rev() {
        // SAFETY: the call reads the eight bytes of the number.
        assert_eq!(unsafe { libc::write(writer.as_raw_fd(), std::ptr::from_ref(i).cast(), 8) }, 8);
    }
    assert!(readers.into_iter().enumerate().all(|(i, reader)| reader.join().unwrap() == i));
    for (i, writer) in writers {
        let mut stream = UnixStream::from(writer);
        let mut bytes = [0; 8];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(usize::from_le_bytes(bytes), i);
    }
}

#[test]
fn a_time_limit_that_changes_holds_from_the_next_call() {
    let _dog = Watchdog::new();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let reader = runtime::spawn(move || {
        for ms in [1, 20, 5] {
            let (start, limit) = (Instant::now(), Duration::from_millis(ms));
            ours.set_read_timeout(Some(limit)).unwrap();
            assert_eq!(c_receive(ours.as_raw_fd()), -libc::EAGAIN);
            assert!(start.elapsed() >= limit);
        }
        ours.set_read_timeout(None).unwrap();
        tell.send(()).unwrap();
        c_receive(ours.as_raw_fd())
    });
    told.recv().unwrap();
    await_parked(1);
    std::thread::sleep(Duration::from_millis(20));
    assert!(!reader.is_finished());
    theirs.write_all(b"1").unwrap();
    assert_eq!(reader.join().unwrap(), 1);
}

#[test]
fn an_accept_ends_with_its_listener() {
    let _dog = Watchdog::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = Arc::new(UnixListener::bind(&path).unwrap());
    let accepts = listener.clone();
    let green = runtime::spawn(move || accepts.accept().map(|_| ()).unwrap_err().raw_os_error());
    await_parked(1);
    // SAFETY: the descriptor is open.
    assert_eq!(unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) }, 0);
    assert_eq!(green.join().unwrap(), Some(libc::EINVAL), "as on an OS thread");
}
