//! Unix sockets as in std: paths, abstract and unnamed addresses; streams and datagrams; waits for which the
//! system gives no event.
#![cfg(unix)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use runtime::net::unix::{UnixDatagram, UnixListener, UnixStream};
use runtime::thread::Cancelled;
use runtime::time::timeout;
use runtime::{sleep, spawn};
use tests::folder::Folder;
use tests::{everywhere, on, on_each, wait_until};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A path without a file, in a folder that is removed when the value is dropped.
struct Path(PathBuf, #[allow(dead_code)] Folder);

impl Path {
    fn new() -> Path {
        let folder = Folder::new();
        Path(folder.path("socket"), folder)
    }
}

#[test]
fn streams_over_a_path_carry_every_byte() {
    everywhere(|| {
        let path = Path::new();
        let listener = UnixListener::bind(&path.0).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(&*path.0));
        let server = spawn(move || {
            let echoes: Vec<_> = listener
                .incoming()
                .take(16)
                .map(|stream| {
                    let stream = stream.unwrap();
                    spawn(move || {
                        io::copy(&mut &stream, &mut &stream).unwrap();
                        stream.shutdown(Shutdown::Write).unwrap();
                    })
                })
                .collect();
            echoes.into_iter().for_each(|echo| echo.join().unwrap());
        });
        let clients: Vec<_> = (0..16u8)
            .map(|c| {
                let stream = UnixStream::connect(&path.0).unwrap();
                assert!(stream.local_addr().unwrap().is_unnamed());
                assert_eq!(stream.peer_addr().unwrap().as_pathname(), Some(&*path.0));
                let mut writes = stream.try_clone().unwrap();
                spawn(move || {
                    let writer = spawn(move || {
                        let bytes: Vec<u8> = (0..200_000u32).map(|i| (i % 241) as u8 ^ c).collect();
                        writes.write_all(&bytes).unwrap();
                        writes.shutdown(Shutdown::Write).unwrap();
                    });
                    let mut got = Vec::new();
                    (&stream).read_to_end(&mut got).unwrap();
                    assert_eq!(got.len(), 200_000);
                    assert!(got.iter().enumerate().all(|(i, &byte)| byte == (i % 241) as u8 ^ c));
                    writer.join().unwrap();
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap();
    });
}

#[test]
fn a_path_in_use_missing_or_without_a_listener() {
    everywhere(|| {
        let path = Path::new();
        assert_eq!(UnixStream::connect(&path.0).unwrap_err().kind(), ErrorKind::NotFound);
        let listener = UnixListener::bind(&path.0).unwrap();
        assert_eq!(UnixListener::bind(&path.0).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(UnixDatagram::bind(&path.0).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        assert_eq!(UnixStream::connect(&path.0).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn time_outs_and_modes_of_unix_streams() {
    everywhere(|| {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_read_timeout(Some(5 * MILLI)).unwrap();
        one.set_write_timeout(Some(5 * MILLI)).unwrap();
        let start = Instant::now();
        assert_eq!((&one).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let written = loop_until_full(&one);
        assert!(start.elapsed() >= 10 * MILLI);
        assert_eq!(one.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
        one.set_nonblocking(true).unwrap();
        assert_eq!((&one).write(&[0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.shutdown(Shutdown::Write).unwrap();
        assert_eq!(io::copy(&mut &other, &mut io::sink()).unwrap(), written);
    });
}

fn loop_until_full(mut stream: &UnixStream) -> u64 {
    let mut written = 0;
    loop {
        match stream.write(&[7; 10_000]) {
            Ok(n) => written += n as u64,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return written;
            }
        }
    }
}

#[test]
fn cancellations_and_time_outs_end_unix_waits() {
    on_each(|| {
        let path = Path::new();
        let listener = UnixListener::bind(&path.0).unwrap();
        let (one, _other) = UnixStream::pair().unwrap();
        let (datagrams, _others) = UnixDatagram::pair().unwrap();
        let waits: [Box<dyn Fn() + Send>; 3] = [
            Box::new(move || drop(listener.accept())),
            Box::new(move || drop((&one).read(&mut [0]))),
            Box::new(move || drop(datagrams.recv(&mut [0]))),
        ];
        for wait in waits {
            assert!(timeout(MILLI, &wait).is_err());
            let thread = spawn(wait);
            sleep(MILLI);
            thread.cancel();
            assert!(thread.join().unwrap_err().is::<Cancelled>());
        }
    });
}

/// A full queue gives "try again" on a connect, and the system gives no event when there is room.
#[test]
fn a_connect_waits_while_the_queue_is_full() {
    everywhere(|| {
        let path = Path::new();
        let listener = std::os::unix::net::UnixListener::bind(&path.0).unwrap();
        socket2::SockRef::from(&listener).listen(1).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = timeout(20 * MILLI, || UnixStream::connect(&path.0)) {
            waiting.push(stream.unwrap());
            assert!(waiting.len() < 100, "the queue is short");
        }
        let late = {
            let path = path.0.clone();
            spawn(move || UnixStream::connect(path).unwrap().write_all(b"late"))
        };
        sleep(2 * MILLI);
        assert!(!late.is_finished());
        let listener = UnixListener::from(listener);
        for _ in 0..waiting.len() {
            listener.accept().unwrap();
        }
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "late");
        late.join().unwrap().unwrap();
    });
}

#[test]
fn datagrams_arrive_once_with_their_sender() {
    everywhere(|| {
        let (server, client) = (Path::new(), Path::new());
        let receiver = UnixDatagram::bind(&server.0).unwrap();
        let sender = UnixDatagram::bind(&client.0).unwrap();
        let answers = spawn(move || {
            let mut buf = [0; 8];
            for _ in 0..100 {
                let (n, from) = receiver.recv_from(&mut buf).unwrap();
                receiver.send_to_addr(&buf[..n], &from).unwrap();
            }
        });
        for i in 0..100u8 {
            sender.send_to(&[i, 1, 2], &server.0).unwrap();
            let mut buf = [0; 8];
            let (n, from) = sender.recv_from(&mut buf).unwrap();
            assert_eq!((&buf[..n], from.as_pathname()), (&[i, 1, 2][..], Some(&*server.0)));
        }
        answers.join().unwrap();
        // A child that another test is starting may have the descriptor until it has called `exec`.
        wait_until("the receiver is closed", || sender.connect(&server.0).is_err());
    });
}

/// The receiver's queue is full. The system gives a connected sender an event when there is room, and an
/// unconnected sender none.
#[test]
fn datagram_senders_wait_for_room() {
    everywhere(|| {
        for connects in [false, true] {
            let path = Path::new();
            let receiver = UnixDatagram::bind(&path.0).unwrap();
            let sender = UnixDatagram::unbound().unwrap();
            if connects {
                sender.connect(&path.0).unwrap();
            }
            let to = path.0.clone();
            let send = move |sender: &UnixDatagram, i: u32| match connects {
                true => sender.send(&i.to_le_bytes()),
                false => sender.send_to(&i.to_le_bytes(), &to),
            };
            // Fills the queue.
            sender.set_write_timeout(Some(2 * MILLI)).unwrap();
            let mut sent = 0;
            while let Ok(n) = send(&sender, sent) {
                assert_eq!(n, 4);
                sent += 1;
            }
            sender.set_nonblocking(true).unwrap();
            let start = Instant::now();
            assert_eq!(send(&sender, sent).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(start.elapsed() < HOUR);
            sender.set_nonblocking(false).unwrap();
            sender.set_write_timeout(None).unwrap();
            let all = sent + 500;
            let rest = spawn(move || (sent..all).for_each(|i| assert_eq!(send(&sender, i).unwrap(), 4)));
            sleep(2 * MILLI);
            assert!(!rest.is_finished());
            for i in 0..all {
                let mut number = [0; 4];
                assert_eq!(receiver.recv(&mut number).unwrap(), 4);
                assert_eq!(u32::from_le_bytes(number), i);
            }
            rest.join().unwrap();
        }
    });
}

#[test]
fn pairs_have_no_address_and_end_together() {
    everywhere(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        assert!(one.local_addr().unwrap().is_unnamed() && one.peer_addr().unwrap().is_unnamed());
        one.send(b"hello").unwrap();
        assert_eq!(other.recv(&mut [0; 8]).unwrap(), 5);
        let nameless = one.local_addr().unwrap();
        assert_eq!(one.send_to_addr(b"x", &nameless).unwrap_err().kind(), ErrorKind::InvalidInput);
        drop(other);
        assert!(one.send(b"hello").is_err());

        let (one, other) = UnixStream::pair().unwrap();
        let reader = spawn(move || (&one).read(&mut [0]).unwrap());
        sleep(MILLI);
        drop(other);
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn conversions_keep_the_mode() {
    on(2, || {
        use std::os::fd::OwnedFd;
        let (one, other) = UnixStream::pair().unwrap();
        one.set_read_timeout(Some(20 * MILLI)).unwrap();
        let std = std::os::unix::net::UnixStream::from(one);
        assert_eq!(std.read_timeout().unwrap(), Some(20 * MILLI));
        let one = UnixStream::from(OwnedFd::from(std));
        assert_eq!((&one).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let other = std::os::unix::net::UnixStream::from(other);
        other.set_nonblocking(true).unwrap();
        let other = UnixStream::from(other);
        assert_eq!((&other).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let (one, _other) = UnixDatagram::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let std = std::os::unix::net::UnixDatagram::from(one);
        assert_eq!(std.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn abstract_names() {
    use std::os::linux::net::SocketAddrExt;
    everywhere(|| {
        let addr = |what: &str| {
            let name =
                format!("runtime test {what} {} {:?}", std::process::id(), runtime::thread::current().id());
            runtime::net::unix::SocketAddr::from_abstract_name(name).unwrap()
        };
        let stream = addr("stream");
        let listener = UnixListener::bind_addr(&stream).unwrap();
        let client = spawn(move || UnixStream::connect_addr(&stream).unwrap().write_all(b"hello").unwrap());
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        client.join().unwrap();

        let datagrams = addr("datagrams");
        let receiver = UnixDatagram::bind_addr(&datagrams).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to_addr(b"one", &datagrams).unwrap();
        sender.connect_addr(&datagrams).unwrap();
        sender.send(b"three").unwrap();
        assert_eq!([(); 2].map(|()| receiver.recv(&mut [0; 8]).unwrap()), [3, 5]);
        assert_eq!(
            sender.peer_addr().unwrap().as_abstract_name().map(<[u8]>::len),
            datagrams.as_abstract_name().map(<[u8]>::len)
        );
    });
}
