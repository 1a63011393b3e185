//! `TcpSocket`: options and an address before a socket listens or connects.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use runtime::net::{TcpListener, TcpSocket, TcpStream};
use runtime::thread::Cancelled;
use runtime::time::{timeout, timeout_async};
use runtime::{block_on, sleep, spawn};
use socket2::SockRef;
use tests::channels::{A_WHILE, start};
use tests::crowd::in_each;

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn bound() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(loopback()).unwrap();
    socket
}

/// Sends a byte from one end to the other, both of which wait as the runtime's do.
fn talk(mut one: TcpStream, mut other: TcpStream) {
    let reads = spawn(move || {
        let mut byte = [0];
        one.read_exact(&mut byte).unwrap();
        byte[0]
    });
    sleep(A_WHILE);
    other.write_all(&[7]).unwrap();
    assert_eq!(reads.join().unwrap(), 7);
}

#[test]
fn a_socket_connects_from_its_address() {
    in_each(|| {
        for (world, awaited) in [(0, false), (0, true), (1, false), (1, true)] {
            let listener = bound().listen(16).unwrap();
            let addr = listener.local_addr().unwrap();
            let socket = bound();
            let from = socket.local_addr().unwrap();
            let connects = start(world, move || match awaited {
                true => block_on(socket.connect_async(addr)),
                false => socket.connect(addr),
            });
            let (accepted, peer) = listener.accept().unwrap();
            let stream = connects.join().unwrap();
            assert_eq!((peer, stream.local_addr().unwrap()), (from, from));
            talk(accepted, stream);
        }
    });
}

#[test]
fn a_refused_connect_is_an_error() {
    in_each(|| {
        let closed = bound().listen(1).unwrap().local_addr().unwrap();
        let refused = |connected: std::io::Result<TcpStream>| connected.unwrap_err().kind();
        let socket = || TcpSocket::new_v4().unwrap();
        assert_eq!(refused(socket().connect(closed)), ErrorKind::ConnectionRefused);
        assert_eq!(refused(block_on(socket().connect_async(closed))), ErrorKind::ConnectionRefused);
        assert_eq!(bound().bind(loopback()).unwrap_err().kind(), ErrorKind::InvalidInput);
        let listener = bound().listen(1).unwrap();
        let taken = socket().bind(listener.local_addr().unwrap()).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    });
}

/// Returns a listener with a full line, which does not answer, and the connections in its line.
fn deaf() -> (TcpListener, SocketAddr, Vec<TcpStream>) {
    let listener = bound().listen(0).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut line = Vec::new();
    let mut refused_in_a_row = 0;
    while refused_in_a_row < 3 {
        match TcpStream::connect_timeout(&addr, Duration::from_millis(100)) {
            Ok(stream) => (refused_in_a_row, _) = (0, line.push(stream)),
            Err(_) => refused_in_a_row += 1,
        }
    }
    (listener, addr, line)
}

#[test]
fn a_connect_that_waits_can_be_ended() {
    in_each(|| {
        let (_listener, addr, _line) = deaf();
        let connects = spawn(move || TcpSocket::new_v4().unwrap().connect(addr).map(drop));
        sleep(A_WHILE);
        connects.cancel();
        assert!(connects.join().unwrap_err().is::<Cancelled>());
        let connects =
            spawn(move || timeout(A_WHILE, || TcpSocket::new_v4().unwrap().connect(addr)).is_err());
        assert!(connects.join().unwrap());
        let future = TcpSocket::new_v4().unwrap().connect_async(addr);
        assert!(block_on(async { timeout_async(A_WHILE, future).await }).is_err());
    });
}

#[test]
fn options_stay_with_the_socket() {
    let socket = bound();
    socket.set_keepalive(true).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_recv_buffer_size(65_536).unwrap();
    socket.set_zero_linger().unwrap();
    let size = socket.recv_buffer_size().unwrap();
    assert!(size >= 65_536);
    SockRef::from(&socket).set_ttl_v4(42).unwrap();
    assert!(format!("{socket:?}").starts_with("TcpSocket("));
    let listener = bound().listen(u32::MAX).unwrap();
    let stream = socket.connect(listener.local_addr().unwrap()).unwrap();
    let system = SockRef::from(&stream);
    assert!(system.keepalive().unwrap() && stream.nodelay().unwrap());
    assert_eq!(system.recv_buffer_size().unwrap(), size as usize);
    assert_eq!((stream.ttl().unwrap(), stream.linger().unwrap()), (42, Some(Duration::ZERO)));
    let (mut accepted, _) = listener.accept().unwrap();
    drop(stream);
    assert_eq!(accepted.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[cfg(target_os = "linux")]
#[test]
fn several_listeners_share_an_address() {
    let make = |addr| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(addr).unwrap();
        socket.listen(16).unwrap()
    };
    let one = make(loopback());
    let other = make(one.local_addr().unwrap());
    assert_eq!(one.local_addr().unwrap(), other.local_addr().unwrap());
}
