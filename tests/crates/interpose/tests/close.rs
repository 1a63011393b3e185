//! Closing a descriptor for which green threads wait. (Other tests must not use the numbers again
//! meanwhile: this test file is a process of its own, and its tests take turns.)

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use std::sync::Mutex;

use interpose::c_receive;
use interpose::servers::Watchdog;

static TURN: Mutex<()> = Mutex::new(());

#[test]
fn closing_a_descriptor_ends_the_waits_for_it() {
    let (_turn, _dog) = (TURN.lock().unwrap(), Watchdog::new());
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

#[test]
fn a_number_that_is_used_again_wakes_its_new_waiters() {
    let (_turn, _dog) = (TURN.lock().unwrap(), Watchdog::new());
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
