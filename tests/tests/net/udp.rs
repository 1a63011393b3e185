//! UDP as in std: each datagram arrives once, a waiter is woken, and time-outs and cancellations end waits.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use runtime::net::UdpSocket;
use runtime::thread::Cancelled;
use runtime::time::timeout;
use runtime::{sleep, spawn};
use tests::{everywhere, on, on_each};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const EXPIRED: ErrorKind = if cfg!(unix) { ErrorKind::WouldBlock } else { ErrorKind::TimedOut };

fn socket() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}

#[test]
fn questions_and_answers() {
    everywhere(|| {
        let (server, addr) = socket();
        let server = spawn(move || {
            let mut buf = [0; 64];
            loop {
                let (n, peer) = server.recv_from(&mut buf).unwrap();
                server.send_to(&buf[..n], peer).unwrap();
            }
        });
        let clients: Vec<_> = (0..8u8)
            .map(|c| {
                spawn(move || {
                    let (client, _) = socket();
                    client.connect(addr).unwrap();
                    assert_eq!(client.peer_addr().unwrap(), addr);
                    for i in 0..50 {
                        client.send(&[c, i, 7]).unwrap();
                        let mut buf = [0; 64];
                        assert_eq!(client.recv(&mut buf).unwrap(), 3);
                        assert_eq!(buf[..3], [c, i, 7]);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.cancel();
        assert!(server.join().unwrap_err().is::<Cancelled>());
    });
}

#[test]
fn clones_receive_each_datagram_once() {
    on_each(|| {
        let (server, addr) = socket();
        let got = Arc::new(Mutex::new(HashSet::new()));
        let receivers: Vec<_> = (0..4)
            .map(|_| {
                let (server, got) = (server.try_clone().unwrap(), got.clone());
                spawn(move || {
                    loop {
                        let mut number = [0; 4];
                        assert_eq!(server.recv_from(&mut number).unwrap().0, 4);
                        assert!(
                            got.lock().unwrap().insert(u32::from_le_bytes(number)),
                            "a datagram arrived twice"
                        );
                    }
                })
            })
            .collect();
        let (client, _) = socket();
        for number in 0..200u32 {
            client.send_to(&number.to_le_bytes(), addr).unwrap();
            tests::wait_until("the datagram has arrived", || got.lock().unwrap().contains(&number));
        }
        for receiver in receivers {
            receiver.cancel();
            assert!(receiver.join().unwrap_err().is::<Cancelled>());
        }
    });
}

#[test]
fn udp_time_outs_modes_and_peeks() {
    everywhere(|| {
        let (receiver, addr) = socket();
        let (sender, from) = socket();
        let mut buf = [0; 8];
        receiver.set_read_timeout(Some(5 * MILLI)).unwrap();
        let start = Instant::now();
        assert_eq!(receiver.recv(&mut buf).unwrap_err().kind(), EXPIRED);
        assert_eq!(receiver.recv_from(&mut buf).unwrap_err().kind(), EXPIRED);
        assert_eq!(receiver.peek(&mut buf).unwrap_err().kind(), EXPIRED);
        assert_eq!(receiver.peek_from(&mut buf).unwrap_err().kind(), EXPIRED);
        assert!(start.elapsed() >= 20 * MILLI);
        receiver.set_read_timeout(Some(HOUR)).unwrap();
        receiver.set_nonblocking(true).unwrap();
        assert_eq!(receiver.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        receiver.set_nonblocking(false).unwrap();
        let late = spawn(move || {
            sleep(MILLI);
            sender.send_to(b"hello", addr).unwrap();
        });
        assert_eq!(receiver.peek_from(&mut buf).unwrap(), (5, from));
        assert_eq!(receiver.peek(&mut buf).unwrap(), 5);
        // The rest of the datagram is discarded. Windows reports that (WSAEMSGSIZE), and std returns the error.
        match receiver.recv_from(&mut buf[..2]) {
            Err(error) if cfg!(windows) => assert_eq!(error.raw_os_error(), Some(10040)),
            received => assert_eq!(received.unwrap(), (2, from)),
        }
        assert_eq!(&buf[..2], b"he");
        late.join().unwrap();
        assert!(timeout(MILLI, || receiver.recv(&mut buf)).is_err());
        assert_eq!(
            receiver.set_write_timeout(Some(Duration::ZERO)).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    });
}

#[test]
fn a_connected_socket_reports_an_absent_receiver() {
    everywhere(|| {
        let (closed, addr) = socket();
        drop(closed);
        let (client, _) = socket();
        client.connect(addr).unwrap();
        client.send(b"hello").unwrap();
        let refused = if cfg!(windows) { ErrorKind::ConnectionReset } else { ErrorKind::ConnectionRefused };
        assert_eq!(client.recv(&mut [0]).unwrap_err().kind(), refused);
    });
}

#[test]
fn options_reach_the_socket_of_the_system() {
    on(1, || {
        let (socket, _) = socket();
        socket.set_broadcast(true).unwrap();
        assert!(socket.broadcast().unwrap());
        socket.set_multicast_loop_v4(false).unwrap();
        assert!(!socket.multicast_loop_v4().unwrap());
        socket.set_multicast_ttl_v4(5).unwrap();
        assert_eq!(socket.multicast_ttl_v4().unwrap(), 5);
        socket.set_ttl(77).unwrap();
        assert_eq!(socket.ttl().unwrap(), 77);
        assert!(socket.take_error().unwrap().is_none());
        assert!(
            socket.send_to(&[0; 100_000], socket.local_addr().unwrap()).is_err(),
            "the datagram is too long"
        );
        assert_eq!(
            socket.send_to(&[], &[][..] as &[SocketAddr]).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    });
}

#[test]
fn a_socket_converts_to_std_and_back() {
    everywhere(|| {
        let (one, addr) = socket();
        one.set_read_timeout(Some(HOUR)).unwrap();
        let std = std::net::UdpSocket::from(one);
        assert_eq!(std.read_timeout().unwrap(), Some(HOUR));
        std.send_to(b"hello", addr).unwrap();
        let one = UdpSocket::from(std);
        assert_eq!(one.recv(&mut [0; 8]).unwrap(), 5);
        assert_eq!(one.read_timeout().unwrap(), Some(HOUR));
        let clone = one.try_clone().unwrap();
        let std = std::net::UdpSocket::from(one);
        std.send_to(b"again", addr).unwrap();
        assert_eq!(clone.recv(&mut [0; 8]).unwrap(), 5);
    });
}

/// Not every system carries multicast on loopback, so only joining is checked, not delivery.
#[test]
fn groups_are_joined_and_left() {
    on(1, || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let (group, here) = ([224, 0, 0, 251].into(), [127, 0, 0, 1].into());
        socket.join_multicast_v4(&group, &here).unwrap();
        assert_eq!(socket.join_multicast_v4(&group, &here).unwrap_err().kind(), ErrorKind::AddrInUse);
        socket.leave_multicast_v4(&group, &here).unwrap();
        assert!(socket.leave_multicast_v4(&group, &here).is_err());
    });
}
