//! Calls of sockets that are awaited: while they wait, the other branches of their task go on, and a dropped
//! call loses nothing.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;

use futures::future::{Either, join_all, select};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{join, try_join};
use runtime::net::{TcpListener, TcpStream, UdpSocket, lookup_host_async};
use runtime::spawn;
use runtime::time::{sleep_async, timeout_async};
use tests::crowd::with_each;
use tests::sockets::listener;
use tests::turns::gives_turns;
use tests::{Random, wait_until};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Runs the future of `main` as a green thread of each kind of runtime. Also runs it on a plain OS thread
/// with an executor of another crate.
fn in_each_task<F: Future<Output = ()> + Send>(main: impl Fn() -> F) {
    with_each(|runtime| runtime.block_on(main()));
    let _dog = tests::Watchdog::new();
    futures::executor::block_on(main());
}

/// The clock of a task: one branch of the task counts, and others wait until it has counted on.
#[derive(Default)]
struct Ticks(AtomicUsize);

impl Ticks {
    const SOME: usize = 10;

    async fn count(&self) {
        while self.0.load(SeqCst) < 2 * Self::SOME {
            sleep_async(MILLI / 4).await;
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn have_gone_on(&self) -> bool {
        self.0.load(SeqCst) >= Self::SOME
    }

    async fn go_on(&self) {
        while !self.have_gone_on() {
            sleep_async(MILLI / 8).await;
        }
    }
}

fn udp() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}

/// Polls `future` once. It must have to wait. Then drops it.
fn abandon<F: Future>(future: F) {
    assert!(pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// Sends back what it reads, up to the end. Returns the number of bytes.
macro_rules! echo {
    ($stream:expr) => {
        async {
            let (mut buf, mut bytes) = (vec![0; 64 << 10], 0);
            loop {
                match $stream.read_async(&mut buf).await? {
                    0 => {
                        $stream.shutdown(Shutdown::Write)?;
                        return io::Result::Ok(bytes);
                    }
                    n => $stream.write_all_async(&buf[..n]).await?,
                }
                bytes += 1;
            }
        }
    };
}

/// Writes `out` and the end, and at the same time reads up to the end. Returns what was read.
macro_rules! ask {
    ($stream:expr, $out:expr) => {
        async {
            let writes = async {
                $stream.write_all_async($out).await?;
                $stream.shutdown(Shutdown::Write)
            };
            let reads = async {
                let (mut got, mut buf) = (Vec::new(), vec![0; 64 << 10]);
                loop {
                    match $stream.read_async(&mut buf).await? {
                        0 => return io::Result::Ok(got),
                        n => got.extend_from_slice(&buf[..n]),
                    }
                }
            };
            try_join!(writes, reads).map(|((), got)| got)
        }
    };
}

#[test]
fn while_each_call_waits_the_other_branches_of_its_task_go_on() {
    in_each_task(|| async {
        let ticks = Ticks::default();
        let (listener, addr) = listener();
        let (receiver, to) = udp();
        let answers = async {
            let (stream, _) = listener.accept_async().await?;
            assert!(ticks.have_gone_on(), "the accept waited");
            let mut byte = [0];
            stream.read_async(&mut byte).await?;
            stream.write_all_async(&byte).await
        };
        let receives = async {
            let mut buf = [0; 8];
            let (n, from) = receiver.recv_from_async(&mut buf).await?;
            assert!(ticks.have_gone_on(), "the receiver waited");
            receiver.connect_async(from).await?;
            receiver.send_async(b"bye").await?;
            io::Result::Ok(n)
        };
        let asks = async {
            ticks.go_on().await;
            let stream = TcpStream::connect_async(addr).await?;
            assert_eq!(stream.write_async(b"x").await?, 1);
            let mut byte = [0];
            assert_eq!(stream.peek_async(&mut byte).await?, 1);
            stream.read_async(&mut byte).await?;
            io::Result::Ok(byte)
        };
        let sends = async {
            ticks.go_on().await;
            let sender = UdpSocket::bind_async("127.0.0.1:0").await?;
            sender.send_to_async(b"hello", to).await?;
            let mut buf = [0; 8];
            let (peeked, _) = sender.peek_from_async(&mut buf).await?;
            assert_eq!(sender.peek_async(&mut buf).await?, peeked);
            sender.recv_async(&mut buf).await
        };
        let looks_up = lookup_host_async("localhost:7");
        let (answered, received, byte, sent, found, ()) =
            join!(answers, receives, asks, sends, looks_up, ticks.count());
        answered.unwrap();
        assert_eq!((received.unwrap(), byte.unwrap(), sent.unwrap()), (5, *b"x", 3));
        assert!(found.unwrap().all(|addr| addr.port() == 7));
    });
}

#[test]
fn both_ends_read_and_write_in_one_task() {
    in_each_task(|| async {
        let (listener, addr) = listener();
        let (server, client) = join!(listener.accept_async(), TcpStream::connect_async(addr));
        let ((server, peer), client) = (server.unwrap(), client.unwrap());
        assert_eq!(peer, client.local_addr().unwrap());
        // More than the buffers of both ends hold, so that each branch waits for the other one.
        let bytes = vec![7; 6_000_000];
        let (got, echoed) = join!(ask!(client, &bytes), echo!(server));
        assert!(got.unwrap() == bytes && echoed.unwrap() > 0);
    });
}

#[test]
fn one_task_serves_many_connections() {
    in_each_task(|| async {
        const CLIENTS: usize = 60;
        let (listener, addr) = listener();
        let serves = async {
            let mut echoes = FuturesUnordered::new();
            for _ in 0..CLIENTS {
                let (stream, _) = listener.accept_async().await.unwrap();
                echoes.push(async move { echo!(stream).await.unwrap() });
            }
            while echoes.next().await.is_some() {}
        };
        let clients = (0..CLIENTS).map(|i| async move {
            sleep_async(MILLI / 100 * (i as u32 % 7)).await;
            let stream = TcpStream::connect_async(addr).await.unwrap();
            let bytes = vec![i as u8; 1000 * i];
            assert!(ask!(stream, &bytes).await.unwrap() == bytes);
        });
        join!(serves, join_all(clients));
    });
}

/// Futures in one task, spawned futures and a closure wait for the same socket. Each gets what the others do
/// not get.
#[test]
fn many_waiters_of_one_socket_share_its_connections_and_datagrams() {
    const EACH: usize = 20;
    with_each(|runtime| {
        runtime.block_on(|| {
            let (listener, addr) = listener();
            let (socket, to) = udp();
            let (listener, socket) = (Arc::new(listener), Arc::new(socket));
            let accept = |listener: Arc<TcpListener>| async move { listener.accept_async().await.unwrap().1 };
            let receive = |socket: Arc<UdpSocket>| async move {
                let mut buf = [0; 8];
                socket.recv_async(&mut buf).await.unwrap();
                u64::from_le_bytes(buf) as usize
            };
            let here = {
                let (listener, socket) = (listener.clone(), socket.clone());
                spawn(async move {
                    join!(
                        join_all((0..EACH).map(|_| accept(listener.clone()))),
                        join_all((0..EACH).map(|_| receive(socket.clone())))
                    )
                })
            };
            let apart: Vec<_> = (0..EACH)
                .map(|_| (spawn(accept(listener.clone())), spawn(receive(socket.clone()))))
                .collect();
            let parks = spawn(move || {
                let accepted: Vec<_> = (0..EACH).map(|_| listener.accept().unwrap().1).collect();
                (accepted, (0..EACH).map(|_| receive_here(&socket)).collect::<Vec<_>>())
            });
            let mut clients = Vec::new();
            for i in 0..3 * EACH {
                clients.push(TcpStream::connect(addr).unwrap());
                UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&(i as u64).to_le_bytes(), to).unwrap();
                if i % 5 == 0 {
                    runtime::sleep(MILLI / 10);
                }
            }
            let (mut peers, mut numbers) = here.join().unwrap();
            for (accepts, receives) in apart {
                peers.push(accepts.join().unwrap());
                numbers.push(receives.join().unwrap());
            }
            let (accepted, received) = parks.join().unwrap();
            peers.extend(accepted);
            numbers.extend(received);
            let wanted: HashSet<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
            assert_eq!(peers.len(), wanted.len());
            assert_eq!(peers.into_iter().collect::<HashSet<_>>(), wanted);
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..3 * EACH));
        });
    });
}

fn receive_here(socket: &UdpSocket) -> usize {
    let mut buf = [0; 8];
    socket.recv(&mut buf).unwrap();
    u64::from_le_bytes(buf) as usize
}

/// Runs `$call` until it is ready. Before, it is often begun and dropped.
macro_rules! often_dropped {
    ($random:expr, $call:expr) => {
        loop {
            let patience = Duration::from_micros($random.below(150));
            match select(pin!($call), pin!(sleep_async(patience))).await {
                Either::Left((value, _)) => break value.unwrap(),
                Either::Right(_) => {}
            }
        }
    };
}

#[test]
fn dropped_calls_lose_no_connection_and_no_datagram() {
    const ALL: usize = 100;
    with_each(|runtime| {
        let (listener, addr) = runtime.block_on(listener);
        let (socket, to) = runtime.block_on(udp);
        let accepts = runtime.spawn(async move {
            let mut random = Random::new(1);
            let mut peers = HashSet::new();
            for _ in 0..ALL {
                let (_, peer) = often_dropped!(random, listener.accept_async());
                assert!(peers.insert(peer));
            }
            peers
        });
        let receives = runtime.spawn(async move {
            let mut random = Random::new(2);
            for i in 0..ALL {
                let mut buf = [0; 8];
                let (n, _) = often_dropped!(random, socket.recv_from_async(&mut buf));
                assert_eq!((n, u64::from_le_bytes(buf) as usize), (8, i));
            }
        });
        let client = runtime.spawn(move || {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            let clients = (0..ALL).map(|i| {
                if i % 3 == 0 {
                    runtime::sleep(MILLI / 5);
                }
                sender.send_to(&(i as u64).to_le_bytes(), to).unwrap();
                TcpStream::connect(addr).unwrap()
            });
            let clients: Vec<_> = clients.collect();
            clients.iter().map(|client| client.local_addr().unwrap()).collect::<HashSet<_>>()
        });
        receives.join().unwrap();
        assert_eq!(accepts.join().unwrap(), client.join().unwrap());
    });
}

#[test]
fn a_dropped_read_or_write_takes_and_sends_nothing() {
    in_each_task(|| async {
        let (client, server) = tests::sockets::full();
        let mut byte = [0];
        abandon(client.read_async(&mut byte));
        client.set_nonblocking(true).unwrap();
        tests::sockets::push(&client);
        client.set_nonblocking(false).unwrap();
        abandon(client.write_async(&[9; 100]));
        (&server).write_all(b"x").unwrap();
        (&client).read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
        drop(client);
        let mut all = Vec::new();
        (&server).read_to_end(&mut all).unwrap();
        assert!(!all.contains(&9));
    });
}

/// The number of connections that this machine is trying to make to `addr`.
///
/// A count of local addresses: while other tests open and close sockets, the table repeats lines.
#[cfg(target_os = "linux")]
fn half_made(addr: SocketAddr) -> usize {
    const SYN_SENT: &str = "02";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let to = format!("0100007F:{:04X}", addr.port());
    let tries = table.lines().filter_map(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let from = columns.next()?;
        (columns.next() == Some(&to) && columns.next() == Some(SYN_SENT)).then_some(from)
    });
    tries.collect::<std::collections::HashSet<_>>().len()
}

#[cfg(target_os = "linux")]
#[test]
fn a_dropped_connect_closes_the_half_made_connection() {
    use socket2::{Domain, Socket, Type};
    in_each_task(|| async {
        // A queue for one connection, which nothing accepts: the system leaves a further connect unanswered.
        let deaf = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        deaf.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        deaf.listen(0).unwrap();
        let addr = deaf.local_addr().unwrap().as_socket().unwrap();
        let mut made = Vec::new();
        while let Ok(stream) = timeout_async(20 * MILLI, TcpStream::connect_async(addr)).await {
            made.push(stream.unwrap());
        }
        let mut connecting = Box::pin(TcpStream::connect_async(addr));
        assert!(timeout_async(MILLI, &mut connecting).await.is_err());
        // The table may also leave a line out.
        assert!((0..20).any(|_| half_made(addr) == 1), "{}", half_made(addr));
        drop(connecting);
        assert_eq!(half_made(addr), 0);
    });
}

#[test]
fn a_connect_tries_each_address_and_returns_the_last_error() {
    in_each_task(|| async {
        let (listener, open) = listener();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        // The system refuses this address at once, without a wait.
        let nowhere = SocketAddr::from(([255, 255, 255, 255], 1));
        let several = [nowhere, closed, open];
        let stream = TcpStream::connect_async(&several[..]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        listener.accept_async().await.unwrap();
        let named = TcpStream::connect_async(("localhost", open.port())).await.unwrap();
        assert_eq!(named.peer_addr().unwrap(), open);
        let error = TcpStream::connect_async(&several[..2]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = TcpStream::connect_async(&[][..]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(TcpStream::connect_async("no such name:80").await.is_err());
        assert!(TcpListener::bind_async("no such name:80").await.is_err());
    });
}

/// The settings of calls that park do not hold for calls that are awaited.
#[test]
fn time_outs_and_the_nonblocking_mode_hold_for_parking_calls_only() {
    in_each_task(|| async {
        let (client, server) = tests::sockets::connected();
        client.set_read_timeout(Some(MILLI / 10)).unwrap();
        client.set_nonblocking(true).unwrap();
        let mut byte = [0];
        assert!(timeout_async(2 * MILLI, client.read_async(&mut byte)).await.is_err());
        let (read, written) = join!(client.read_async(&mut byte), async {
            sleep_async(MILLI).await;
            server.write_async(b"x").await
        });
        assert_eq!((read.unwrap(), written.unwrap(), byte), (1, 1, *b"x"));
    });
}

#[test]
fn calls_wait_in_another_runtime_and_end_with_that_of_the_socket() {
    let _dog = tests::Watchdog::new();
    let runtime = tests::runtime(1);
    let ((listener, addr), (socket, _)) = runtime.block_on(|| (listener(), udp()));
    let listener = Arc::new(listener);
    let first = listener.clone();
    let accepts = spawn(async move { first.accept_async().await.map(drop) });
    TcpStream::connect(addr).unwrap();
    accepts.join().unwrap().unwrap();
    let waits = spawn(async move {
        let mut buf = [0];
        let (accepted, received) = join!(listener.accept_async(), socket.recv_async(&mut buf));
        [accepted.unwrap_err().kind(), received.unwrap_err().kind()]
    });
    tests::until_it_waits(&waits);
    drop(runtime);
    assert_eq!(waits.join().unwrap(), [ErrorKind::NotConnected; 2]);
}

#[test]
fn a_cancelled_task_leaves_its_sockets_usable() {
    with_each(|runtime| {
        runtime.block_on(|| {
            let (listener, addr) = listener();
            let listener = Arc::new(listener);
            let tasks: Vec<_> = (0..10)
                .map(|i| {
                    let listener = listener.clone();
                    spawn(async move {
                        match i % 2 {
                            0 => drop(timeout_async(HOUR, listener.accept_async()).await),
                            _ => drop(listener.accept_async().await),
                        }
                    })
                })
                .collect();
            tasks.iter().for_each(tests::until_it_waits);
            tasks.iter().for_each(|task| task.cancel());
            tasks.into_iter().for_each(|task| assert!(task.join().is_err()));
            wait_until("no task has the listener", || Arc::strong_count(&listener) == 1);
            let client = TcpStream::connect(addr).unwrap();
            let (_, peer) = runtime::block_on(listener.accept_async()).unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
        });
    });
}

#[cfg(unix)]
mod unix {
    use runtime::net::unix::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
    use tests::folder::Folder;

    use super::*;

    #[test]
    fn while_each_call_waits_the_other_branches_of_its_task_go_on() {
        in_each_task(|| async {
            let folder = Folder::new();
            let (ticks, path) = (Ticks::default(), folder.path("listener"));
            let listener = UnixListener::bind(&path).unwrap();
            let [one, other] = ["one", "other"].map(|name| folder.path(name));
            let receiver = UnixDatagram::bind(&one).unwrap();
            let answers = async {
                let (stream, _) = listener.accept_async().await?;
                assert!(ticks.have_gone_on(), "the accept waited");
                echo!(stream).await
            };
            let receives = async {
                let mut buf = [0; 8];
                let (n, from) = receiver.recv_from_async(&mut buf).await?;
                assert!(ticks.have_gone_on(), "the receiver waited");
                receiver.send_to_addr_async(b"bye", &from).await?;
                io::Result::Ok(n)
            };
            let asks = async {
                ticks.go_on().await;
                let stream = UnixStream::connect_async(&path).await?;
                let bytes = vec![7; 1_000_000];
                assert!(ask!(stream, &bytes).await? == bytes);
                let addr = SocketAddr::from_pathname(&path)?;
                UnixStream::connect_addr_async(&addr).await.map(drop)
            };
            let sends = async {
                ticks.go_on().await;
                let sender = UnixDatagram::bind(&other)?;
                sender.send_to_async(b"hello", &one).await?;
                let mut buf = [0; 8];
                sender.recv_async(&mut buf).await
            };
            let (answered, received, asked, sent, ()) = join!(answers, receives, asks, sends, ticks.count());
            assert!(answered.unwrap() > 0);
            asked.unwrap();
            assert_eq!((received.unwrap(), sent.unwrap()), (5, 3));
        });
    }

    #[test]
    fn senders_wait_in_one_task_while_the_peer_is_full() {
        const ALL: usize = 2_000;
        in_each_task(|| async {
            let folder = Folder::new();
            let receiver = UnixDatagram::bind(folder.path("receiver")).unwrap();
            let to = folder.path("receiver");
            let [apart, peer] = [(); 2].map(|()| UnixDatagram::unbound().unwrap());
            peer.connect(&to).unwrap();
            let sent = AtomicUsize::new(0);
            let sends_to = async {
                for i in 0..ALL {
                    apart.send_to_async(&(i as u64).to_le_bytes(), &to).await.unwrap();
                    sent.fetch_add(1, SeqCst);
                }
            };
            let sends = async {
                for i in ALL..2 * ALL {
                    peer.send_async(&(i as u64).to_le_bytes()).await.unwrap();
                    sent.fetch_add(1, SeqCst);
                }
            };
            let receives = async {
                sleep_async(MILLI).await;
                assert!(sent.load(SeqCst) < 2 * ALL, "the senders wait");
                let mut numbers = HashSet::new();
                let mut buf = [0; 8];
                for _ in 0..2 * ALL {
                    assert_eq!(receiver.recv_async(&mut buf).await.unwrap(), 8);
                    numbers.insert(u64::from_le_bytes(buf) as usize);
                }
                numbers.len()
            };
            let (received, (), ()) = join!(receives, sends_to, sends);
            assert_eq!(received, 2 * ALL);
        });
    }

    #[test]
    fn connects_wait_in_one_task_while_the_listener_is_full() {
        in_each_task(|| async {
            let folder = Folder::new();
            let path = folder.path("listener");
            let narrow = std::os::unix::net::UnixListener::bind(&path).unwrap();
            socket2::SockRef::from(&narrow).listen(0).unwrap();
            let listener = UnixListener::from(narrow);
            let connects = join_all((0..10).map(|_| UnixStream::connect_async(&path)));
            let accepts = async {
                sleep_async(MILLI).await;
                for _ in 0..10 {
                    listener.accept_async().await.unwrap();
                }
            };
            let (connected, ()) = join!(connects, accepts);
            connected.into_iter().for_each(|stream| drop(stream.unwrap()));
        });
    }
}

/// Futures of calls that own nothing of one OS thread can be spawned.
#[test]
fn the_futures_are_send() {
    fn check(_: impl Send) {}
    let ((listener, addr), (socket, _)) = (listener(), udp());
    let mut buf = [0];
    check(listener.accept_async());
    check(TcpListener::bind_async("localhost:0"));
    check(TcpStream::connect_async(addr));
    check(TcpStream::connect_async(("localhost", 1)));
    check(TcpStream::connect_async(String::from("localhost:1")));
    check(socket.recv_from_async(&mut buf));
    check(socket.send_to_async(&[0], "localhost:1"));
    check(lookup_host_async("localhost:1"));
}

/// The bytes that `write` has sent are not lost by a later wait in another form.
#[test]
fn parked_and_awaited_calls_take_turns_on_one_stream() {
    with_each(|runtime| {
        runtime.block_on(|| {
            let (client, server) = tests::sockets::connected();
            let writes = spawn(move || {
                for i in 0..200u8 {
                    (&client).write_all(&[i]).unwrap();
                    if i % 20 == 0 {
                        runtime::sleep(MILLI / 10);
                    }
                }
            });
            for i in 0..200u8 {
                let mut byte = [0];
                match i % 2 {
                    0 => (&server).read_exact(&mut byte).unwrap(),
                    _ => assert_eq!(runtime::block_on(server.read_async(&mut byte)).unwrap(), 1),
                }
                assert_eq!(byte, [i]);
            }
            writes.join().unwrap();
        });
    });
}

#[test]
fn sockets_that_are_ready_do_not_keep_their_task_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            let (socket, addr) = udp();
            loop {
                socket.send_to_async(b"x", addr).await.unwrap();
                socket.recv_from_async(&mut [0; 8]).await.unwrap();
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let (socket, addr) = udp();
            socket.send_to(b"x", addr).unwrap();
            loop {
                socket.peek_from_async(&mut [0; 8]).await.unwrap();
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let (listener, addr) = listener();
            let one = TcpStream::connect(addr).unwrap();
            let (mut other, _) = listener.accept().unwrap();
            loop {
                one.write_all_async(b"x").await.unwrap();
                // The byte is there.
                other.read_exact(&mut [0]).unwrap();
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let (listener, addr) = listener();
            let mut one = TcpStream::connect(addr).unwrap();
            let (other, _) = listener.accept().unwrap();
            one.write_all(b"x").unwrap();
            loop {
                #[cfg(unix)]
                other.readable_async().await.unwrap();
                other.peek_async(&mut [0]).await.unwrap();
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            loop {
                assert_eq!(lookup_host_async("127.0.0.1:80").await.unwrap().count(), 1);
            }
        })
    });
}

#[cfg(unix)]
#[test]
fn pipes_and_unix_sockets_that_are_ready_do_not_keep_their_task_from_a_time_out() {
    use runtime::net::Async;
    use runtime::net::unix::UnixStream;
    gives_turns(|| {
        Box::pin(async {
            let (_reader, writer) = std::io::pipe().unwrap();
            let writer = Async::new(writer).unwrap();
            loop {
                writer.writable_async().await.unwrap();
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let (one, other) = UnixStream::pair().unwrap();
            loop {
                one.write_async(b"x").await.unwrap();
                other.read_async(&mut [0]).await.unwrap();
            }
        })
    });
}
