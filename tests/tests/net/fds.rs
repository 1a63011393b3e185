//! Descriptors over Unix sockets: they arrive in their order, closed on exec, and none is leaked.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use runtime::net::unix::{ReceivedFds, UnixDatagram, UnixStream};
use runtime::thread::Cancelled;
use runtime::{block_on, spawn};
use tests::{everywhere, on_each, until_it_waits};

const MILLI: Duration = Duration::from_millis(1);

/// Checks that the reading end that has arrived is one of the pipe of `writer`.
fn is_end_of(reader: OwnedFd, mut writer: PipeWriter, text: &str) {
    writer.write_all(text.as_bytes()).unwrap();
    drop(writer);
    let mut got = String::new();
    File::from(reader).read_to_string(&mut got).unwrap();
    assert_eq!(got, text);
}

fn is_closed_on_exec(fd: &OwnedFd) -> bool {
    // SAFETY: the descriptor is open, and the call changes nothing.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) };
    flags & libc::FD_CLOEXEC != 0
}

/// Returns `true` if all writing ends of the pipe of `reader` are closed.
fn is_hung_up(reader: &PipeReader) -> bool {
    let mut poll = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` is one entry, and the call keeps no pointer.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    ready == 1 && poll.revents & libc::POLLHUP != 0
}

/// Sends two descriptors by `send`, receives them by `receive`, and checks them.
fn two_pipes(send: impl FnOnce(&[BorrowedFd<'_>]), receive: impl FnOnce() -> ReceivedFds) {
    let ((first, to_first), (second, to_second)) = (pipe().unwrap(), pipe().unwrap());
    send(&[first.as_fd(), second.as_fd()]);
    drop((first, second));
    let ReceivedFds { len, mut fds, truncated, .. } = receive();
    assert_eq!((len, fds.len(), truncated), (5, 2, false));
    assert!(fds.iter().all(is_closed_on_exec));
    is_end_of(fds.pop().unwrap(), to_second, "second");
    is_end_of(fds.pop().unwrap(), to_first, "first");
}

#[test]
fn descriptors_arrive_in_their_order_and_are_closed_on_exec() {
    everywhere(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let receive = || other.recv_fds(&mut [0; 100], 2).unwrap();
        two_pipes(|fds| assert_eq!(one.send_fds(b"hello", fds).unwrap(), 5), receive);
        two_pipes(|fds| assert_eq!(block_on(one.send_fds_async(b"hello", fds)).unwrap(), 5), receive);
        let (one, other) = UnixDatagram::pair().unwrap();
        let receive = || block_on(async { other.recv_fds_async(&mut [0; 100], 2).await }).unwrap();
        two_pipes(|fds| assert_eq!(one.send_fds(b"hello", fds).unwrap(), 5), receive);
        two_pipes(|fds| assert_eq!(block_on(one.send_fds_async(b"hello", fds)).unwrap(), 5), receive);
    });
}

#[test]
fn a_receive_waits_and_reads_no_further_than_one_send() {
    everywhere(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let sender = spawn(move || {
            for text in ["a", "bc", "def"] {
                runtime::sleep(MILLI);
                one.send_fds(text.as_bytes(), &[one.as_fd()]).unwrap();
            }
        });
        let mut buf = [0; 100];
        let mut lens = Vec::new();
        loop {
            let received = other.recv_fds(&mut buf, 1).unwrap();
            if received.len == 0 {
                assert!(received.fds.is_empty());
                break;
            }
            assert_eq!(received.fds.len(), 1);
            lens.push(received.len);
        }
        assert_eq!(lens, [1, 2, 3]);
        sender.join().unwrap();
    });
}

#[test]
fn a_send_waits_for_room() {
    everywhere(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let mut sent = 0;
        while let Ok(n) = one.try_write(&[7; 4096]) {
            sent += n;
        }
        let sender = spawn(move || one.send_fds(b"!", &[one.as_fd()]).unwrap());
        runtime::sleep(MILLI);
        assert!(!sender.is_finished(), "there was room");
        let (mut got, mut fds) = (0, 0);
        while got < sent + 1 {
            let received = other.recv_fds(&mut [0; 4096], 1).unwrap();
            got += received.len;
            fds += received.fds.len();
        }
        assert_eq!(fds, 1);
        assert_eq!(sender.join().unwrap(), 1);
    });
}

#[test]
fn lost_descriptors_are_reported_and_none_is_leaked() {
    everywhere(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        for sent in [0, 1, 2, 3, 4, 5, 8, 100, 253] {
            for room in [0, 1, 2, 3, 4, 7, 252, 253, 1000] {
                let (reader, writer) = pipe().unwrap();
                one.send_fds(b"x", &vec![writer.as_fd(); sent]).unwrap();
                drop(writer);
                let received = other.recv_fds(&mut [0; 1], room).unwrap();
                assert_eq!(
                    (received.fds.len(), received.truncated),
                    (sent.min(room), sent > room),
                    "{sent} {room}"
                );
                assert_eq!(is_hung_up(&reader), received.fds.is_empty(), "{sent} {room}");
                drop(received);
                assert!(is_hung_up(&reader), "{sent} {room}");
            }
        }
    });
}

#[test]
fn a_process_with_too_many_descriptors_loses_some() {
    tests::alone!();
    let (one, other) = UnixDatagram::pair().unwrap();
    let (reader, writer) = pipe().unwrap();
    one.send_fds(b"x", &[writer.as_fd(); 3]).unwrap();
    drop(writer);
    // The next number that is free is the last that is allowed.
    let next = reader.try_clone().unwrap();
    let number = next.as_raw_fd() as libc::rlim_t;
    drop(next);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the calls read and write `limit` only.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = number + 1;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    let received = other.recv_fds(&mut [0; 1], 3).unwrap();
    assert!(received.truncated && received.fds.len() <= 1, "{received:?}");
    drop(received);
    assert!(is_hung_up(&reader));
}

#[test]
fn what_is_not_received_as_a_descriptor_is_closed() {
    everywhere(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        let (reader, writer) = pipe().unwrap();
        one.send_fds(b"x", &[writer.as_fd(); 10]).unwrap();
        drop(writer);
        assert!(!is_hung_up(&reader));
        assert_eq!(other.recv(&mut [0; 1]).unwrap(), 1);
        assert!(is_hung_up(&reader), "a receive without room has leaked descriptors");
        let (one, other) = UnixStream::pair().unwrap();
        let (reader, writer) = pipe().unwrap();
        one.send_fds(b"x", &[writer.as_fd()]).unwrap();
        drop(writer);
        drop((one, other));
        assert!(is_hung_up(&reader), "the end of the socket has leaked descriptors");
    });
}

#[test]
fn impossible_sends_are_refused() {
    everywhere(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let invalid =
            |sent: std::io::Result<usize>| assert_eq!(sent.unwrap_err().kind(), ErrorKind::InvalidInput);
        invalid(one.send_fds(b"x", &vec![one.as_fd(); 254]));
        invalid(one.send_fds(b"", &[one.as_fd()]));
        invalid(block_on(one.send_fds_async(b"", &[one.as_fd()])));
        one.send_fds(b"", &[]).unwrap();
        drop(other);
        assert_eq!(one.send_fds(b"x", &[one.as_fd()]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        let (one, _other) = UnixDatagram::pair().unwrap();
        invalid(one.send_fds(b"x", &vec![one.as_fd(); 254]));
    });
}

#[test]
fn a_time_out_and_a_cancellation_end_a_receive_and_lose_nothing() {
    on_each(|| {
        let (one, other) = UnixStream::pair().unwrap();
        other.set_read_timeout(Some(MILLI)).unwrap();
        let error = other.recv_fds(&mut [0; 1], 1).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        other.set_read_timeout(None).unwrap();
        let clone = other.try_clone().unwrap();
        let waits = spawn(move || clone.recv_fds(&mut [0; 1], 1).map(|received| received.len));
        until_it_waits(&waits);
        waits.cancel();
        assert!(waits.join().unwrap_err().is::<Cancelled>());
        one.send_fds(b"x", &[one.as_fd()]).unwrap();
        assert_eq!(other.recv_fds(&mut [0; 1], 1).unwrap().fds.len(), 1);
    });
}
