//! Closing a descriptor for which green threads wait. (A test file of its own: no other test uses the numbers again.)

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use interpose::c_receive;
use interpose::servers::Watchdog;

#[test]
fn closing_a_descriptor_ends_the_waits_for_it() {
    let _dog = Watchdog::new();
    for round in 0..200 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let fd = ours.as_raw_fd();
        let threads: Vec<_> = (0..3).map(|_| runtime::spawn(move || c_receive(fd))).collect();
        // In some rounds a thread may call only after the close, and finds the descriptor closed.
        while round % 2 == 0 && runtime::metrics::snapshot().waiting < 3 {
            std::thread::yield_now();
        }
        drop(ours);
        for thread in threads {
            assert_eq!(thread.join().unwrap(), -libc::EBADF);
        }
        drop(theirs);
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
