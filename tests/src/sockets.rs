//! Sockets on loopback, and what the system says of them.

use std::net::SocketAddr;

use runtime::net::{TcpListener, TcpStream};

/// A listener and its address.
pub fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let addr = listener.local_addr().expect("an address");
    (listener, addr)
}

/// Both ends of a connection: who connected, who accepted.
pub fn connected() -> (TcpStream, TcpStream) {
    let (listener, addr) = listener();
    let client = TcpStream::connect(addr).expect("a connection");
    let (server, peer) = listener.accept().expect("a connection");
    assert_eq!(peer, client.local_addr().expect("an address"));
    (client, server)
}

/// Whether any epoll instance of this process has that descriptor.
#[cfg(target_os = "linux")]
pub fn is_registered(descriptor: i32) -> bool {
    let of = |line: &str| {
        let number = line.strip_prefix("tfd:").and_then(|rest| rest.split_whitespace().next());
        number.is_some_and(|number| number.parse() == Ok(descriptor))
    };
    std::fs::read_dir("/proc/self/fdinfo")
        .expect("Linux")
        .flatten()
        .any(|info| std::fs::read_to_string(info.path()).is_ok_and(|text| text.lines().any(of)))
}
