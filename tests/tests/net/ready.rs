//! Waiting for the readiness of sockets, in one direction and in both.

use std::future::poll_fn;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use runtime::net::unix::UnixStream;
use runtime::net::{Interest, Ready, TcpListener, UdpSocket};
use runtime::time::timeout;
use runtime::{block_on, spawn};
use tests::sockets::connected;
use tests::{everywhere, on_each, until_it_waits};

const MILLI: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Returns two Unix streams that are connected. The first has no room to write. Unlike TCP, the system moves
/// no bytes later that would make room.
fn full() -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    while one.try_write(&[7; 4096]).is_ok() {}
    (one, other)
}

#[test]
fn a_thread_waits_for_what_is_not_ready() {
    everywhere(|| {
        let (one, other) = connected();
        one.writable().unwrap();
        assert!(timeout(MILLI, || one.readable()).is_err());
        assert_eq!(one.ready(BOTH).unwrap(), Ready::WRITABLE);
        (&other).write_all(b"x").unwrap();
        timeout(MINUTE, || one.readable()).unwrap().unwrap();
        assert_eq!(one.ready(BOTH).unwrap(), Ready::WRITABLE | Ready::READABLE);
        assert_eq!(one.ready(Interest::READABLE).unwrap(), Ready::READABLE);
        // It has read nothing.
        (&one).read_exact(&mut [0]).unwrap();
        assert!(timeout(MILLI, || one.ready(Interest::READABLE)).is_err());
    });
}

#[test]
fn the_modes_of_a_socket_do_not_hold() {
    on_each(|| {
        let (one, other) = connected();
        one.set_nonblocking(true).unwrap();
        one.set_read_timeout(Some(MILLI)).unwrap();
        let waits = spawn({
            let one = one.try_clone().unwrap();
            move || one.readable()
        });
        until_it_waits(&waits);
        (&other).write_all(b"x").unwrap();
        waits.join().unwrap().unwrap();
    });
}

/// A thread that waits for both directions of a full stream is woken by what `event` does at the other end.
fn woken_by(event: impl Fn(&UnixStream), expected: impl Fn(Ready) -> bool) {
    let (one, other) = full();
    let waits = spawn({
        let one = one.try_clone().unwrap();
        move || one.ready(BOTH)
    });
    until_it_waits(&waits);
    event(&other);
    let ready = timeout(MINUTE, || waits.join()).unwrap().unwrap().unwrap();
    assert!(expected(ready), "{ready:?}");
}

#[test]
fn either_direction_wakes_a_thread_that_waits_for_both() {
    on_each(|| {
        woken_by(|mut other| other.write_all(b"x").unwrap(), |ready| ready == Ready::READABLE);
        let drain = |other: &UnixStream| while other.try_read(&mut [0; 4096]).is_ok() {};
        woken_by(drain, |ready| ready == Ready::WRITABLE);
        woken_by(|other| other.shutdown(Shutdown::Write).unwrap(), |ready| ready.is_read_closed());
        woken_by(|other| other.shutdown(Shutdown::Both).unwrap(), |ready| ready.is_write_closed());
    });
}

#[test]
fn a_future_waits_for_both_and_leaves_nothing_behind() {
    on_each(|| {
        let (one, other) = full();
        for _ in 0..10 {
            let waits = runtime::time::timeout_async(MILLI, one.ready_async(BOTH));
            assert!(block_on(waits).is_err());
        }
        let ready = spawn({
            let one = one.try_clone().unwrap();
            async move { one.ready_async(BOTH).await }
        });
        (&other).write_all(b"x").unwrap();
        assert!(timeout(MINUTE, || ready.join()).unwrap().unwrap().unwrap().is_readable());
    });
}

#[test]
fn the_end_of_a_stream_is_told() {
    everywhere(|| {
        let (one, other) = connected();
        assert!(!one.ready(BOTH).unwrap().is_read_closed());
        (&other).write_all(b"x").unwrap();
        other.shutdown(Shutdown::Write).unwrap();
        // What came before the end is still there.
        let end = || loop {
            let ready = one.ready(Interest::READABLE).unwrap();
            if ready.is_read_closed() {
                break ready;
            }
            runtime::sleep(MILLI);
        };
        assert!(timeout(MINUTE, end).unwrap().is_readable());
        let mut text = String::new();
        (&one).read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    });
}

#[test]
fn a_try_is_made_only_if_the_socket_is_ready() {
    everywhere(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let never = || -> std::io::Result<()> { panic!("the socket is not ready") };
        let error = socket.try_io(Interest::READABLE, never).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let addr = socket.local_addr().unwrap();
        let sent =
            socket.try_io(Interest::WRITABLE, || socket2::SockRef::from(&socket).send_to(b"x", &addr.into()));
        assert_eq!(sent.unwrap(), 1);
        socket.readable().unwrap();
        let error = socket.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::Other.into()));
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Other);
    });
}

#[test]
fn the_sender_of_a_datagram_is_told_and_the_datagram_stays() {
    everywhere(|| {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let (to, from) = (one.local_addr().unwrap(), other.local_addr().unwrap());
        assert_eq!(one.try_peek_sender().unwrap_err().kind(), ErrorKind::WouldBlock);
        let sends = spawn(move || other.send_to(b"hello", to).unwrap());
        assert_eq!(timeout(MINUTE, || one.peek_sender()).unwrap().unwrap(), from);
        assert_eq!(one.try_peek_sender().unwrap(), from);
        assert_eq!(block_on(async { one.peek_sender_async().await }).unwrap(), from);
        assert_eq!(one.recv_from(&mut [0; 9]).unwrap(), (5, from));
        sends.join().unwrap();
    });
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_at_the_other_end_is_told() {
    use std::os::unix::fs::MetadataExt;
    everywhere(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let mine = std::fs::metadata("/proc/self").unwrap();
        let peer = one.peer_cred().unwrap();
        assert_eq!((peer.uid(), peer.gid()), (mine.uid(), mine.gid()));
        assert_eq!(peer.pid(), Some(std::process::id().try_into().unwrap()));
        assert_eq!(peer, other.peer_cred().unwrap());
    });
}

#[test]
fn a_poll_leaves_a_waker_that_the_event_wakes() {
    everywhere(|| {
        let (one, other) = full();
        let waits = spawn({
            let one = one.try_clone().unwrap();
            async move {
                poll_fn(|cx| one.poll_write_ready(cx)).await.unwrap();
                one.try_write(b"y").unwrap()
            }
        });
        until_it_waits(&waits);
        while other.try_read(&mut vec![0; 64 << 10]).is_ok() {}
        assert_eq!(timeout(MINUTE, || waits.join()).unwrap().unwrap(), 1);

        let (one, other) = connected();
        let waits = spawn(async move {
            poll_fn(|cx| one.poll_read_ready(cx)).await.unwrap();
            one.try_read(&mut [0; 9]).unwrap()
        });
        until_it_waits(&waits);
        (&other).write_all(b"abc").unwrap();
        assert_eq!(timeout(MINUTE, || waits.join()).unwrap().unwrap(), 3);

        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        block_on(async { poll_fn(|cx| socket.poll_send_ready(cx)).await }).unwrap();
        let waits = spawn(async move { poll_fn(|cx| socket.poll_recv_ready(cx)).await });
        until_it_waits(&waits);
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", addr).unwrap();
        timeout(MINUTE, || waits.join()).unwrap().unwrap().unwrap();
    });
}

#[test]
fn clones_of_a_listener_poll_for_connections_at_once() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let waits = [(); 3].map(|()| {
            let clone = listener.try_clone().unwrap();
            spawn(async move { poll_fn(|cx| clone.poll_accept(cx)).await.unwrap().1 })
        });
        waits.iter().for_each(until_it_waits);
        let mut ours = [(); 3].map(|()| std::net::TcpStream::connect(addr).unwrap());
        let mut accepted = waits.map(|waits| timeout(MINUTE, || waits.join()).unwrap().unwrap());
        accepted.sort();
        ours.sort_by_key(|stream| stream.local_addr().unwrap());
        assert_eq!(accepted, ours.each_ref().map(|stream| stream.local_addr().unwrap()));
    });
}
