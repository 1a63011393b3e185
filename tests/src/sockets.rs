//! Sockets on loopback, and what the system reports about them.

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;

use runtime::net::{TcpListener, TcpStream};

/// Returns a listener and its address.
pub fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let addr = listener.local_addr().expect("an address");
    (listener, addr)
}

/// Returns both ends of a connection: the connecting and the accepting end.
pub fn connected() -> (TcpStream, TcpStream) {
    let (listener, addr) = listener();
    let client = TcpStream::connect(addr).expect("a connection");
    let (server, peer) = listener.accept().expect("a connection");
    assert_eq!(peer, client.local_addr().expect("an address"));
    (client, server)
}

/// Writes until a write fails, which needs a non-blocking socket or a time-out. Returns the number of bytes
/// and the error.
pub fn fill(mut stream: &TcpStream) -> (usize, ErrorKind) {
    let mut written = 0;
    loop {
        match stream.write(&[7; 65536]) {
            Ok(n) => written += n,
            Err(error) => return (written, error.kind()),
        }
    }
}

/// Returns a connection with full buffers, so that a writer waits.
pub fn full() -> (TcpStream, TcpStream) {
    let (client, server) = connected();
    client.set_nonblocking(true).expect("a socket");
    assert_eq!(fill(&client).1, ErrorKind::WouldBlock);
    client.set_nonblocking(false).expect("a socket");
    (client, server)
}

/// Writes until a write fails. Buffers that were full may have grown, so this can take several writes.
pub fn push(stream: &TcpStream) -> ErrorKind {
    push_to_error(stream).kind()
}

/// Writes until a write fails, and returns the error.
pub fn push_to_error(mut stream: &TcpStream) -> io::Error {
    loop {
        if let Err(error) = stream.write(&[0]) {
            return error;
        }
    }
}

/// True if std returns this error from a write to a socket that this process has shut for writing.
pub fn is_of_shut_writes(error: &io::Error) -> bool {
    // Windows: WSAESHUTDOWN, of which std has no kind.
    if cfg!(windows) { error.raw_os_error() == Some(10058) } else { error.kind() == ErrorKind::BrokenPipe }
}

/// True if any epoll instance of this process has the descriptor.
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
