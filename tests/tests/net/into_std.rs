//! `into_std`: each type of socket as a socket of std, also with clones, and when no descriptor is left.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use runtime::net::unix::{UnixDatagram, UnixListener, UnixStream};
use runtime::net::{TcpListener, TcpStream, UdpSocket};
use tests::folder::Folder;
use tests::system::Limit;
use tests::{child, everywhere};

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[test]
fn streams_become_blocking_streams_of_std() {
    everywhere(|| {
        let (client, mut server) = tcp_pair();
        client.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
        // The system rounds the time to some milliseconds.
        let mut client: std::net::TcpStream = client.into_std().unwrap();
        assert_eq!(client.read_timeout().unwrap(), Some(Duration::from_secs(40)));
        server.write_all(b"tcp").unwrap();
        let mut bytes = [0; 3];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"tcp");

        let (one, mut other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let mut one: std::os::unix::net::UnixStream = one.into_std().unwrap();
        assert_eq!(one.read(&mut bytes).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        other.write_all(b"unx").unwrap();
        one.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"unx");
    });
}

#[test]
fn listeners_and_datagrams_become_those_of_std() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap().into_std().unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());

        let folder = Folder::new();
        let path = folder.path("socket");
        let listener = UnixListener::bind(&path).unwrap().into_std().unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        listener.accept().unwrap();

        let socket = UdpSocket::bind("127.0.0.1:0").unwrap().into_std().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"udp", socket.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 3];
        assert_eq!(socket.recv_from(&mut bytes).unwrap(), (3, sender.local_addr().unwrap()));

        let (one, other) = UnixDatagram::pair().unwrap();
        let one = one.into_std().unwrap();
        other.send(b"unx").unwrap();
        assert_eq!((one.recv(&mut bytes).unwrap(), &bytes), (3, b"unx"));
    });
}

#[test]
fn a_clone_goes_on_beside_the_socket_of_std() {
    everywhere(|| {
        let (client, mut server) = tcp_pair();
        let mut clone = client.try_clone().unwrap();
        let mut given = client.into_std().unwrap();
        assert_ne!(given.as_raw_fd(), clone.as_raw_fd());
        server.write_all(b"ab").unwrap();
        let (mut first, mut second) = ([0], [0]);
        given.read_exact(&mut first).unwrap();
        clone.read_exact(&mut second).unwrap();
        assert_eq!((first, second), (*b"a", *b"b"));
    });
}

/// Calls `into_std` of a socket that has a clone, while the process may have no further descriptor.
macro_rules! refused {
    ($socket:expr) => {{
        let socket = $socket;
        let clone = socket.try_clone().unwrap();
        let free = OwnedFd::from(File::open("/dev/null").unwrap());
        let limit = Limit::new(libc::RLIMIT_NOFILE, free.as_raw_fd() as u64);
        drop(free);
        let error = socket.into_std().unwrap_err();
        drop(limit);
        assert!(error.to_string().contains("a socket that has clones cannot be given away"), "{error}");
        let reason = std::io::Error::from_raw_os_error(libc::EMFILE).to_string();
        assert!(error.to_string().contains(&reason), "{error}");
        // The clone is whole, and the last one needs no descriptor.
        clone.into_std().unwrap();
    }};
}

#[test]
fn without_a_descriptor_for_a_clone_it_is_an_error() {
    child::passes("without_a_descriptor_for_a_clone_it_is_an_error", "", || {
        runtime::block_on(|| {
            let folder = Folder::new();
            let (_client, server) = tcp_pair();
            refused!(server);
            refused!(TcpListener::bind("127.0.0.1:0").unwrap());
            refused!(UdpSocket::bind("127.0.0.1:0").unwrap());
            refused!(UnixListener::bind(folder.path("socket")).unwrap());
            refused!(UnixStream::pair().unwrap().0);
            refused!(UnixDatagram::pair().unwrap().0);
        });
    });
}
