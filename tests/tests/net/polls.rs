//! The calls of datagram sockets in a poll: they wait, wake their task, and give what the others give.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use runtime::net::UdpSocket;
use runtime::time::timeout;
use runtime::{block_on, spawn};
use tests::{everywhere, on_each, until_it_waits};

const MINUTE: Duration = Duration::from_secs(60);

fn connected() -> (UdpSocket, UdpSocket) {
    let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    one.connect(other.local_addr().unwrap()).unwrap();
    other.connect(one.local_addr().unwrap()).unwrap();
    (one, other)
}

fn is_pending<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> bool {
    poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[test]
fn each_gives_what_the_parking_call_gives() {
    everywhere(|| {
        let (one, other) = connected();
        let (address, mut buf) = (one.local_addr().unwrap(), [0; 100]);
        assert!(is_pending(|cx| other.poll_recv(cx, &mut [0])));
        assert!(is_pending(|cx| other.poll_peek_sender(cx)));
        assert_eq!(block_on(poll_fn(|cx| one.poll_send(cx, b"hello"))).unwrap(), 5);
        let to = other.local_addr().unwrap();
        assert_eq!(block_on(poll_fn(|cx| one.poll_send_to(cx, b"hello again", to))).unwrap(), 11);
        assert_eq!(block_on(poll_fn(|cx| other.poll_peek_sender(cx))).unwrap(), address);
        assert_eq!(block_on(poll_fn(|cx| other.poll_peek_from(cx, &mut buf))).unwrap(), (5, address));
        assert_eq!(block_on(poll_fn(|cx| other.poll_peek(cx, &mut buf))).unwrap(), 5);
        assert_eq!(block_on(poll_fn(|cx| other.poll_recv(cx, &mut buf))).unwrap(), 5);
        assert_eq!(&buf[..5], b"hello");
        assert_eq!(block_on(poll_fn(|cx| other.poll_recv_from(cx, &mut buf))).unwrap(), (11, address));
        assert_eq!(&buf[..11], b"hello again");
        assert!(is_pending(|cx| other.poll_recv_from(cx, &mut buf)));
    });
}

#[test]
fn a_datagram_wakes_the_task_that_polled_last() {
    on_each(|| {
        let (one, other) = connected();
        assert!(is_pending(|cx| other.poll_recv(cx, &mut [0])));
        let waits = spawn(async move {
            let (n, _) = poll_fn(|cx| other.poll_peek_from(cx, &mut [0; 10])).await.unwrap();
            let mut buf = [0; 10];
            let receive = pin!(poll_fn(|cx| other.poll_recv(cx, &mut buf)));
            (n, receive.await.unwrap())
        });
        until_it_waits(&waits);
        one.send(b"x").unwrap();
        assert_eq!(timeout(MINUTE, || waits.join().unwrap()).unwrap(), (1, 1));
    });
}

#[cfg(unix)]
#[test]
fn unix_datagrams_wait_for_room_and_for_datagrams() {
    use runtime::net::unix::UnixDatagram;

    on_each(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        assert!(is_pending(|cx| other.poll_recv_from(cx, &mut [0; 10])));
        let mut sent = 0;
        while one.try_send(&[7; 10]).is_ok() {
            sent += 1;
        }
        assert!(is_pending(|cx| one.poll_send(cx, b"hello")));
        let sender = spawn(async move { poll_fn(|cx| one.poll_send(cx, b"hello")).await.unwrap() });
        until_it_waits(&sender);
        let mut buf = [0; 10];
        for i in 0..sent {
            let n = match i % 2 {
                0 => block_on(poll_fn(|cx| other.poll_recv(cx, &mut buf))).unwrap(),
                _ => block_on(poll_fn(|cx| other.poll_recv_from(cx, &mut buf))).unwrap().0,
            };
            assert_eq!(n, 10);
        }
        assert_eq!(timeout(MINUTE, || sender.join().unwrap()).unwrap(), 5);
        assert_eq!(block_on(poll_fn(|cx| other.poll_recv(cx, &mut buf))).unwrap(), 5);
    });
}
