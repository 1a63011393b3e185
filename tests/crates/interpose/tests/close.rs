//! Closing a descriptor for which green threads wait. (Another test must not use the
//! numbers at the same time, and keeps none of its own open here: this file is a program of its own.)

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use interpose::servers::Watchdog;
use interpose::{CHILDREN, c_receive, close_by_vfork, close_descriptors, wait_by_child};

runtime::interpose!();

#[test]
fn closing_a_descriptor_ends_the_waits_for_it() {
    let _dog = Watchdog::new();
    for _ in 0..200 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let fd = ours.as_raw_fd();
        let threads: Vec<_> = (0..3).map(|_| runtime::spawn(move || c_receive(fd))).collect();
        // A thread that calls only after the close may find the number in use again.
        while runtime::metrics::snapshot().waiting < 3 {
            std::thread::yield_now();
        }
        drop(ours);
        for thread in threads {
            assert_eq!(thread.join().unwrap(), -libc::EBADF);
        }
        drop(theirs);
    }
}

/// `close_range` and `closefrom` close more than one descriptor.
#[test]
fn closing_many_descriptors_ends_the_waits_for_them() {
    let _dog = Watchdog::new();
    for from in [false, true] {
        // Above all other descriptors of this process.
        let first = if from { 700 } else { 600 };
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        for (at, (ours, _)) in (0..).zip(&pairs) {
            // SAFETY: the copies are this test's, at numbers that are free.
            assert_eq!(unsafe { libc::dup2(ours.as_raw_fd(), first + at) }, first + at);
        }
        let readers: Vec<_> = (0..3).map(|at| runtime::spawn(move || c_receive(first + at))).collect();
        while runtime::metrics::snapshot().waiting < 3 {
            std::thread::yield_now();
        }
        assert_eq!(close_descriptors(first, if from { -1 } else { first + 2 }), 0);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), -libc::EBADF);
        }
    }
}

#[test]
fn a_number_that_is_used_again_wakes_its_new_waiters() {
    let _dog = Watchdog::new();
    runtime::block_on(|| {
        let mut last = -1;
        for round in 0..200u8 {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let again = ours.as_raw_fd() == last;
            last = ours.as_raw_fd();
            let reader = runtime::spawn(move || {
                let got = c_receive(ours.as_raw_fd());
                // Closed without the hook: the runtime learns of it by the next wait only.
                // SAFETY: this thread owns the descriptor and gives it up.
                unsafe { libc::syscall(libc::SYS_close, std::os::fd::IntoRawFd::into_raw_fd(ours)) };
                got
            });
            runtime::sleep(std::time::Duration::from_micros(200));
            std::io::Write::write_all(&mut &theirs, &[round]).unwrap();
            assert_eq!(reader.join().unwrap(), 1, "used again: {again}");
        }
    });
}

/// A child of `vfork` has the memory of its parent, but descriptors of its own.
#[test]
fn a_close_by_a_child_of_vfork_ends_no_wait() {
    let _dog = Watchdog::new();
    for green in [false, true] {
        for _ in 0..50 {
            let (pair, second) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
            let [a, b] = [pair.0.as_raw_fd(), second.0.as_raw_fd()];
            let readers = [a, b].map(|fd| runtime::spawn(move || c_receive(fd)));
            while runtime::metrics::snapshot().waiting < 2 {
                std::thread::yield_now();
            }
            let other = second.1.as_raw_fd();
            let child = move || close_by_vfork(a, b, other);
            let status = if green { runtime::spawn(child).join().unwrap() } else { child() };
            assert_eq!(status, 0);
            std::io::Write::write_all(&mut &pair.1, b"12").unwrap();
            std::io::Write::write_all(&mut &second.1, b"123").unwrap();
            assert_eq!(readers.map(|reader| reader.join().unwrap()), [2, 3], "green: {green}");
        }
    }
}

/// A call that would wait in a child of `vfork` blocks the child, and runs none of its parent's green
/// threads.
#[test]
fn a_child_of_vfork_waits_in_the_kernel() {
    children_wait_in_the_kernel(0);
}

#[test]
fn a_child_of_clone_waits_in_the_kernel() {
    children_wait_in_the_kernel(1);
}

#[test]
fn a_child_of_a_fork_that_tells_nobody_waits_in_the_kernel() {
    children_wait_in_the_kernel(2);
}

#[test]
fn a_child_of_clone_by_its_number_waits_in_the_kernel() {
    children_wait_in_the_kernel(3);
}

#[test]
fn a_child_of_clone3_by_its_number_waits_in_the_kernel() {
    const { assert!(CHILDREN == 5) };
    children_wait_in_the_kernel(4);
}

/// Each in a process of its own: what has made a child is noted once for all.
fn children_wait_in_the_kernel(how: i32) {
    let _dog = Watchdog::new();
    for round in 0..20u8 {
        let runtime = runtime::Builder::new().procs(1).build().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            for byte in [round, 3] {
                std::thread::sleep(std::time::Duration::from_millis(5));
                std::io::Write::write_all(&mut &theirs, &[byte]).unwrap();
            }
        });
        let own = std::process::id();
        let waits = runtime.spawn(move || wait_by_child(how, ours.as_raw_fd()));
        let others: Vec<_> = (0..3)
            .map(|_| {
                runtime.spawn(move || {
                    runtime::sleep(std::time::Duration::from_millis(2));
                    // SAFETY: the call has no condition.
                    assert_eq!(unsafe { libc::getpid() }.cast_unsigned(), own, "runs in the child");
                })
            })
            .collect();
        assert_eq!(waits.join().unwrap(), i32::from(round) + 3);
        others.into_iter().for_each(|other| other.join().unwrap());
        writer.join().unwrap();
    }
}
