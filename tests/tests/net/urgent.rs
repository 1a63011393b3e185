//! TCP's urgent data: bytes behind an urgent byte are delivered as std delivers them.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::net::TcpStream;
use tests::{everywhere, wait_until};

const PAUSE: Duration = Duration::from_millis(5);
const PATIENCE: Option<Duration> = Some(Duration::from_secs(5));

fn send_urgent(stream: &impl AsFd, byte: u8) {
    // SAFETY: `send` reads one byte from `byte`, which lives during the call.
    let sent = unsafe {
        libc::send(
            stream.as_fd().as_raw_fd(),
            (&raw const byte).cast(),
            1,
            libc::MSG_OOB | libc::MSG_NOSIGNAL,
        )
    };
    assert_eq!(sent, 1);
}

fn set_inline(stream: &impl AsFd, inline: bool) {
    let on = libc::c_int::from(inline);
    // SAFETY: `setsockopt` reads an int from `on`, which lives during the call.
    let set = unsafe {
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        let fd = stream.as_fd().as_raw_fd();
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_OOBINLINE, (&raw const on).cast(), len)
    };
    assert_eq!(set, 0);
}

fn send_all(mut to: &std::net::TcpStream, ordinary: [&[u8]; 3]) {
    for (i, bytes) in ordinary.into_iter().enumerate() {
        if i > 0 {
            send_urgent(to, b'!');
        }
        to.write_all(bytes).unwrap();
    }
}

/// Reads until `wanted` bytes have come, with a large buffer. Returns what each read gave.
fn read_all(mut stream: impl Read, wanted: usize) -> Vec<Vec<u8>> {
    let (mut reads, mut got) = (Vec::new(), 0);
    while got < wanted {
        let mut buf = [0; 1000];
        let n = stream.read(&mut buf).unwrap_or_else(|error| panic!("after {reads:?}: {error}"));
        assert!(n > 0, "the end came after {reads:?}");
        reads.push(buf[..n].to_vec());
        got += n;
    }
    reads
}

/// Returns two connections: for a stream of the runtime and for one that becomes std's, each with its writer.
fn both() -> [(TcpStream, std::net::TcpStream); 2] {
    let pair = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let writer = listener.accept().unwrap().0;
        writer.set_nodelay(true).unwrap();
        reader.set_read_timeout(PATIENCE).unwrap();
        (reader, writer)
    };
    [pair(), pair()]
}

#[test]
fn bytes_behind_an_urgent_byte_are_read_as_in_std() {
    everywhere(|| {
        for inline in [false, true] {
            let [(ours, to_ours), (stds, to_stds)] = both();
            let stds = std::net::TcpStream::from(stds);
            set_inline(&ours, inline);
            set_inline(&stds, inline);
            // Only the last urgent mark counts: the system turns an earlier urgent byte into an ordinary
            // byte.
            let wanted = 3 + 4 + 5 + 1 + usize::from(inline);
            for round in 0..3 {
                for to in [&to_ours, &to_stds] {
                    send_all(to, [b"abc", b"defg", b"hijkl"]);
                }
                // After the pause all bytes have come, and their events were seen before the first read.
                runtime::sleep(PAUSE);
                let (ours, stds) = (read_all(&ours, wanted), read_all(&stds, wanted));
                assert_eq!(ours, stds, "inline {inline}, round {round}");
            }
        }
    });
}

#[test]
fn a_waiting_reader_gets_bytes_behind_an_urgent_byte() {
    everywhere(|| {
        for inline in [false, true] {
            let [(ours, to_ours), _] = both();
            set_inline(&ours, inline);
            let ordinary = Arc::new(AtomicUsize::new(0));
            let (mut reader, counted) = (ours.try_clone().unwrap(), ordinary.clone());
            let thread = runtime::spawn(move || {
                let mut buf = [0; 1000];
                loop {
                    let n = reader.read(&mut buf).unwrap();
                    if n == 0 {
                        return;
                    }
                    counted.fetch_add(buf[..n].iter().filter(|&&byte| byte != b'!').count(), SeqCst);
                }
            });
            for i in 1..=50 {
                // The bytes arrive in a single event or in several.
                send_all(&to_ours, [b"ab", b"c", b"defg"]);
                // No further byte and no end follows, so the events so far must suffice.
                wait_until("all bytes have been read", || ordinary.load(SeqCst) == 7 * i);
            }
            drop(to_ours);
            thread.join().unwrap();
        }
    });
}
