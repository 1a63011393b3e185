//! Receivers as streams (feature `stream`).

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::stream::{FusedStream, StreamExt, select};
use runtime::channel::{bounded, never, unbounded};
use runtime::spawn;
use runtime::sync::broadcast::{self, error::RecvError};
use runtime::sync::watch;
use runtime::time::{Ticker, timeout_async};
use tests::everywhere;
use tests::futures::{drive_on_plain_thread, poll_once};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn a_channel_is_a_stream_of_its_messages() {
    everywhere(|| {
        let (s, r) = unbounded();
        (0..3).for_each(|n| s.send(n).unwrap());
        spawn(move || {
            for n in 3..200 {
                if n % 7 == 0 {
                    runtime::sleep(Duration::from_micros(50));
                }
                s.send(n).unwrap();
            }
        });
        runtime::block_on(async {
            let mut stream = r.into_stream();
            assert_eq!(stream.by_ref().take(100).collect::<Vec<_>>().await, (0..100).collect::<Vec<_>>());
            assert!(!stream.is_terminated());
            assert_eq!(stream.by_ref().collect::<Vec<_>>().await, (100..200).collect::<Vec<_>>());
            assert!(stream.is_terminated());
            assert_eq!(stream.next().await, None, "it stays at its end");
        });
    });
}

#[test]
fn a_channel_without_a_buffer_and_two_streams() {
    everywhere(|| {
        let (s, r) = bounded(0);
        let sender = spawn(move || (0..100).for_each(|n: u64| s.send(n).unwrap()));
        let (one, other) = (r.clone().into_stream(), r.into_stream());
        let sum = runtime::block_on(select(one, other).fold(0, |sum, n| async move { sum + n }));
        assert_eq!(sum, 4950);
        sender.join().unwrap();
    });
}

#[test]
fn a_dropped_stream_loses_no_message() {
    everywhere(|| {
        let (s, r) = bounded(0);
        runtime::block_on(async {
            let mut stream = r.clone().into_stream();
            assert!(poll_once(&mut pin!(stream.next())).await.is_none(), "it waits");
            let sender = spawn(async move { s.send_async(7).await });
            // The message may be on its way to the stream.
            runtime::time::sleep_async(MILLI / 4).await;
            drop(stream);
            let received = r.recv_async().await;
            assert_eq!(received, Ok(7));
            sender.await.unwrap().unwrap();
        });
    });
}

#[test]
fn ticks_are_a_stream() {
    everywhere(|| {
        let (start, period) = (Instant::now(), MILLI);
        let ticks = runtime::block_on(Ticker::new(period).into_stream().take(3).collect::<Vec<_>>());
        assert!(ticks.iter().zip(1..).all(|(&tick, n)| tick >= start + n * period), "{ticks:?}");
        let never = never::<u8>().into_stream();
        assert!(runtime::block_on(timeout_async(MILLI, never.collect::<Vec<_>>())).is_err());
    });
}

#[test]
fn a_watched_value_is_a_stream_of_the_present_and_new_values() {
    everywhere(|| {
        let (sender, receiver) = watch::channel(0);
        runtime::block_on(async {
            let mut stream = receiver.into_stream();
            assert_eq!(stream.next().await, Some(0));
            assert!(poll_once(&mut pin!(stream.next())).await.is_none());
            sender.send(1).unwrap();
            sender.send(2).unwrap();
            assert_eq!(stream.next().await, Some(2));
            let changer = spawn(move || {
                runtime::sleep(MILLI / 4);
                sender.send(3).unwrap();
            });
            assert_eq!(stream.next().await, Some(3));
            changer.await.unwrap();
            assert_eq!(stream.next().await, None);
        });
    });
}

#[test]
fn a_broadcast_is_a_stream_that_tells_what_it_missed() {
    everywhere(|| {
        let (sender, receiver) = broadcast::channel(2);
        let mut stream = receiver.into_stream();
        (0..5).for_each(|n| _ = sender.send(n).unwrap());
        runtime::block_on(async {
            assert_eq!(stream.next().await, Some(Err(RecvError::Lagged(3))));
            assert_eq!(stream.next().await, Some(Ok(3)));
            assert_eq!(stream.next().await, Some(Ok(4)));
            drop(sender);
            assert_eq!(stream.next().await, None);
            assert!(stream.is_terminated());
        });
    });
}

#[cfg(unix)]
#[test]
fn signals_are_a_stream() {
    use runtime::signal::{SIGUSR1, notify};
    let mut stream = notify(&[SIGUSR1]).unwrap().into_stream();
    signal_hook::low_level::raise(SIGUSR1).unwrap();
    assert_eq!(drive_on_plain_thread(async move { stream.next().await }), Some(SIGUSR1));
}

#[test]
fn connections_are_a_stream() {
    use runtime::net::{TcpListener, TcpStream};
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let clients = spawn(move || {
            (0..5).map(|_| TcpStream::connect(addr).unwrap().local_addr().unwrap()).collect::<Vec<_>>()
        });
        let peers = runtime::block_on(async {
            let mut incoming = listener.incoming().into_stream();
            // A dropped wait loses no connection.
            let first = usize::from(futures::poll!(incoming.next()).is_ready());
            drop(incoming);
            listener
                .incoming()
                .into_stream()
                .take(5 - first)
                .fold(first, async |count, accepted| accepted.map(|_| count + 1).unwrap())
                .await
        });
        assert_eq!(peers, 5);
        drop(clients.join().unwrap());
        #[cfg(unix)]
        {
            use runtime::net::unix::{UnixListener, UnixStream};
            let folder = tests::folder::Folder::new();
            let path = folder.path("socket");
            let listener = UnixListener::bind(&path).unwrap();
            let _client = UnixStream::connect(&path).unwrap();
            let accepted = runtime::block_on(async { listener.incoming().into_stream().next().await });
            assert!(accepted.unwrap().is_ok());
        }
    });
}
