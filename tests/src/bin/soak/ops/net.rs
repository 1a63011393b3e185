//! TCP over loopback: every byte arrives, and closing an end ends the waits of its peer.
//!
//! The thread that performs the operation judges the errors of its children. If that thread is interrupted,
//! the ends of its connections close one after the other. Children that still run then see errors, which are
//! not judged.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::Cancelled;
use runtime::time::timeout;

use crate::actor::Actor;
use crate::world::count_refused;

/// Connects to `addr`. Returns `None` if the system has no free port.
pub(super) fn connect(a: &mut Actor, addr: SocketAddr) -> Option<TcpStream> {
    match TcpStream::connect(addr) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            count_refused(&a.world);
            None
        }
        connected => Some(a.good(connected)),
    }
}

/// Binds a listener to a random loopback address. A used port is kept for a minute, so an address soon has no
/// port left.
pub(super) fn listen(a: &mut Actor) -> (TcpListener, SocketAddr) {
    // Only Linux has more than one loopback address without configuration.
    let host = if cfg!(target_os = "linux") { a.number(1..250) as u8 } else { 1 };
    let listener = a.good(TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), 0)));
    let addr = a.good(listener.local_addr());
    (listener, addr)
}

/// Returns both ends of a connection.
fn pair(a: &mut Actor) -> Option<(TcpStream, TcpStream)> {
    let (listener, addr) = listen(a);
    let client = connect(a, addr)?;
    let (server, peer) = a.good(listener.accept());
    assert_eq!(peer, a.good(client.local_addr()));
    Some((client, server))
}

fn bytes(a: &mut Actor, most: u64) -> Vec<u8> {
    (0..a.number(1..most)).map(|_| a.random.number() as u8).collect()
}

/// Sends questions to the echo server and reads the answers. At times the client closes before the last
/// answer.
pub(super) fn echo(a: &mut Actor) {
    let Some(mut stream) = connect(a, a.world.echo) else { return };
    a.good(stream.set_nodelay(true));
    for _ in 0..a.number(0..5) {
        let sent = bytes(a, 700);
        a.good(stream.write_all(&sent));
        if a.one_in(10) {
            return;
        }
        let mut got = vec![0; sent.len()];
        a.good(stream.read_exact(&mut got));
        assert!(got == sent, "bytes have changed on their way");
    }
}

/// The client shuts its sending direction down. The server answers after it has read everything.
pub(super) fn half_close(a: &mut Actor) {
    let (listener, addr) = listen(a);
    let server = a.spawn(move |_| {
        let (mut stream, _) = listener.accept()?;
        let mut got = Vec::new();
        stream.read_to_end(&mut got)?;
        got.reverse();
        stream.write_all(&got)
    });
    let Some(mut client) = connect(a, addr) else { return };
    let sent = bytes(a, 20_000);
    a.good(client.write_all(&sent));
    a.good(client.shutdown(Shutdown::Write));
    let mut got = Vec::new();
    a.good(client.read_to_end(&mut got));
    got.reverse();
    a.check(got == sent, "all bytes have come back");
    a.good(server.value());
}

/// More bytes than the buffers hold, in both directions at the same time.
pub(super) fn both_ways(a: &mut Actor) {
    let Some((client, server)) = pair(a) else { return };
    let number = a.number(1..400_000) as usize;
    let mut children = Vec::new();
    for stream in [client, server].map(Arc::new) {
        let (reads, writes) = (stream.clone(), stream);
        children.push(a.spawn(move |_| {
            let mut left = number;
            while left > 0 {
                let bytes: Vec<u8> = (0..left.min(5000)).map(|i| (left - i) as u8).collect();
                (&*writes).write_all(&bytes)?;
                left -= bytes.len();
            }
            Ok(())
        }));
        children.push(a.spawn(move |_| {
            let (mut left, mut buffer) = (number, vec![0; 3000]);
            while left > 0 {
                let n = left.min(3000);
                (&*reads).read_exact(&mut buffer[..n])?;
                let right = buffer[..n].iter().enumerate().all(|(i, &byte)| byte == (left - i) as u8);
                assert!(right, "the peer's bytes are in order");
                left -= n;
            }
            Ok(())
        }));
    }
    children.into_iter().for_each(|child| a.good(child.value()));
}

/// The peer closes with unread bytes: reads and writes end with an error.
pub(super) fn dropped_peer(a: &mut Actor) {
    let Some((mut client, server)) = pair(a) else { return };
    let writes = a.one_in(2);
    let child = a.spawn(move |_| match writes {
        true => while client.write_all(&[1; 4096]).is_ok() {},
        false => while let Ok(1..) = client.read(&mut [0; 64]) {},
    });
    a.pause();
    drop(server);
    child.value();
}

/// Two threads accept, and the first is cancelled. The connection goes to exactly one of them.
pub(super) fn accept_cancelled(a: &mut Actor) {
    let (listener, addr) = listen(a);
    let listener = Arc::new(listener);
    let [first, second] = std::array::from_fn(|_| {
        let listener = listener.clone();
        a.spawn(move |b| b.good(listener.accept()).1)
    });
    a.pause();
    first.cancel();
    let Some(client) = connect(a, addr) else { return };
    let peer = match first.join() {
        Ok(peer) => {
            second.cancel();
            second.was_cancelled();
            peer
        }
        Err(end) => {
            assert!(end.is::<Cancelled>());
            second.value()
        }
    };
    assert_eq!(peer, a.good(client.local_addr()));
}

/// A read that timed out has consumed no byte.
pub(super) fn read_timeout(a: &mut Actor) {
    let Some((mut client, mut server)) = pair(a) else { return };
    let time = a.micros(300);
    assert!(timeout(time, || client.read(&mut [0; 8])).is_err());
    let writer = a.spawn(move |b| {
        b.pause();
        server.write_all(b"late")
    });
    let mut text = [0; 4];
    match timeout(Duration::from_secs(3600), || client.read_exact(&mut text)) {
        Ok(read) => a.good(read),
        Err(_) => unreachable!("an hour has passed"),
    }
    assert_eq!(&text, b"late");
    a.good(writer.value());
}

/// Connects to a privileged port without a listener.
pub(super) fn refused(_: &mut Actor) {
    let error = TcpStream::connect("127.0.0.1:1").expect_err("the port has no listener");
    assert!(matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::AddrNotAvailable), "{error}");
}
