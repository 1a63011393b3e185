//! TCP's urgent data: what comes behind an urgent byte is delivered as std delivers it.
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
    // SAFETY: the system reads one byte, which lives meanwhile.
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
    // SAFETY: the system reads an int, which lives meanwhile.
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

/// What reads of a large buffer give, until so many bytes have come.
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

/// A stream of ours and one of std's, and who writes to each.
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
fn bytes_behind_an_urgent_one_are_read_as_std_reads_them() {
    everywhere(|| {
        for inline in [false, true] {
            let [(ours, to_ours), (stds, to_stds)] = both();
            let stds = std::net::TcpStream::from(stds);
            set_inline(&ours, inline);
            set_inline(&stds, inline);
            // The urgent mark that counts is the last one: of an earlier urgent byte the system makes an ordinary one.
            let wanted = 3 + 4 + 5 + 1 + usize::from(inline);
            for round in 0..3 {
                for to in [&to_ours, &to_stds] {
                    send_all(to, [b"abc", b"defg", b"hijkl"]);
                }
                // All of it has come, and its events have been seen, when the first read begins.
                runtime::sleep(PAUSE);
                let (ours, stds) = (read_all(&ours, wanted), read_all(&stds, wanted));
                assert_eq!(ours, stds, "inline {inline}, round {round}");
            }
        }
    });
}

#[test]
fn a_reader_that_waits_gets_them_too() {
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
                // In one event or in several, as it happens.
                send_all(&to_ours, [b"ab", b"c", b"defg"]);
                // No end and no further byte tells the reader of those that have come.
                wait_until("all have been read", || ordinary.load(SeqCst) == 7 * i);
            }
            drop(to_ours);
            thread.join().unwrap();
        }
    });
}
