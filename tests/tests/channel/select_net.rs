//! `select!` over listeners, sockets and signals: an accept loop ends by a message, and no connection and no
//! byte is lost.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::channel::{Receiver, bounded, unbounded};
use runtime::context::{Context, ContextError};
use runtime::net::{TcpListener, TcpStream};
use runtime::thread::Cancelled;
use runtime::{select, select_biased, sleep, spawn};
use tests::crowd::{crowd, in_each};
use tests::{on_each, until_it_waits};

const MILLI: Duration = Duration::from_millis(1);
#[cfg(unix)]
const LONG: Duration = Duration::from_secs(3600);

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

#[cfg(unix)]
fn pair() -> (TcpStream, TcpStream) {
    let (listener, addr) = listener();
    let client = TcpStream::connect(addr).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Connects, and reads the one byte that each accepted connection gets.
fn call(addr: SocketAddr) {
    let mut byte = [0];
    TcpStream::connect(addr).unwrap().read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"a");
}

/// Accepts until there is a message. Returns the number of connections.
fn accepts(listener: &TcpListener, end: &Receiver<()>) -> usize {
    let mut accepted = 0;
    loop {
        select! {
            accept(listener) -> connection => {
                let (mut stream, _peer) = connection.unwrap();
                stream.write_all(b"a").unwrap();
                accepted += 1;
            }
            recv(end) -> _ => return accepted,
        }
    }
}

#[test]
fn an_accept_loop_ends_by_a_message() {
    in_each(|| {
        let (listener, addr) = listener();
        let (end, ends) = bounded(1);
        let server = spawn(move || accepts(&listener, &ends));
        (0..10).for_each(|_| call(addr));
        until_it_waits(&server);
        end.send(()).unwrap();
        assert_eq!(server.join().unwrap(), 10);
        // The listener is closed.
        assert_eq!(TcpStream::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn an_accept_loop_ends_by_its_context() {
    in_each(|| {
        let (listener, addr) = listener();
        for timed in [false, true] {
            let root = Context::background();
            let (context, cancel) = if timed { root.with_timeout(3 * MILLI) } else { root.with_cancel() };
            let mut cancel = Some(cancel);
            let ending = (!timed).then(|| {
                let cancel = cancel.take();
                spawn(move || {
                    call(addr);
                    // Cancels the context.
                    drop(cancel);
                })
            });
            let why = loop {
                select! {
                    accept(&listener) -> connection => connection.unwrap().0.write_all(b"a").unwrap(),
                    done(context) -> why => break why,
                }
            };
            ending.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(why, if timed { ContextError::DeadlineExceeded } else { ContextError::Canceled });
        }
    });
}

#[test]
fn an_accept_that_lost_leaves_the_connection() {
    in_each(|| {
        let (listener, addr) = listener();
        listener.set_nonblocking(true).unwrap();
        let (sender, messages) = unbounded();
        for waits in [false, true] {
            if waits {
                // The message ends the wait, and then the connection comes.
                let sending = {
                    let sender = sender.clone();
                    spawn(move || {
                        sleep(MILLI);
                        sender.send(()).unwrap();
                    })
                };
                select! {
                    accept(listener) -> _ => unreachable!("no client connects"),
                    recv(messages) -> _ => {}
                }
                sending.join().unwrap();
            }
            let client = TcpStream::connect(addr).unwrap();
            sender.send(()).unwrap();
            select_biased! {
                recv(messages) -> _ => {}
                accept(listener) -> _ => unreachable!("the message is first"),
            }
            let accepted = select! { accept(listener) -> connection => connection.unwrap() };
            assert_eq!(accepted.1, client.local_addr().unwrap());
            assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    });
}

#[test]
fn each_connection_is_accepted_once_among_many_selects_and_accepts() {
    const CLIENTS: usize = 60;
    in_each(|| {
        let (listener, addr) = listener();
        let ((sender, messages), (end, ends)) = (bounded(0), unbounded::<()>());
        let end = disconnects(end);
        let (accepted, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
        crowd(6, 2, |number| match number {
            0 => {
                (0..CLIENTS).for_each(|_| call(addr));
                tests::wait_until("all messages are received", || received.load(SeqCst) == CLIENTS);
                end();
            }
            1 => (0..CLIENTS).for_each(|n| sender.send(n).unwrap()),
            _ => loop {
                select! {
                    accept(listener) -> connection => {
                        connection.unwrap().0.write_all(b"a").unwrap();
                        accepted.fetch_add(1, SeqCst);
                    }
                    recv(messages) -> message => {
                        message.unwrap();
                        received.fetch_add(1, SeqCst);
                    }
                    recv(ends) -> _ => break,
                    timer(50 * Duration::from_micros(1)) -> _ => {}
                }
            },
        });
        assert_eq!((accepted.load(SeqCst), received.load(SeqCst)), (CLIENTS, CLIENTS));
    });
}

/// Returns a function that disconnects the channel of `sender`.
fn disconnects(sender: runtime::channel::Sender<()>) -> impl Fn() + Sync {
    let sender = runtime::sync::Mutex::new(Some(sender));
    move || drop(sender.lock().take())
}

#[test]
fn a_cancelled_accept_loop_leaves_the_connections_to_another() {
    on_each(|| {
        let (listener, addr) = listener();
        let listener = Arc::new(listener);
        let other = {
            let listener = listener.clone();
            spawn(move || listener.accept().map(|(mut stream, _)| stream.write_all(b"a")))
        };
        let (_end, ends) = unbounded();
        let victim = spawn(move || accepts(&listener, &ends));
        until_it_waits(&victim);
        victim.cancel();
        assert!(victim.join().unwrap_err().is::<Cancelled>());
        call(addr);
        other.join().unwrap().unwrap().unwrap();
    });
}

#[cfg(unix)]
#[test]
fn readable_and_writable_sockets() {
    in_each(|| {
        let (mut client, mut server) = pair();
        select! {
            readable(server) -> _ => unreachable!("nothing was sent"),
            default(MILLI) => {}
        }
        select! {
            readable(server) -> _ => unreachable!("nothing was sent"),
            writable(server) -> ready => ready.unwrap(),
        }
        let sending = spawn(move || {
            sleep(MILLI);
            client.write_all(b"hello").unwrap();
            client
        });
        select! {
            readable(server) -> ready => ready.unwrap(),
            // The same socket twice.
            readable(&server) -> ready => ready.unwrap(),
            timer(LONG) -> _ => unreachable!("an hour is not over"),
        }
        // It stays readable until it is read.
        select! { readable(server) -> ready => ready.unwrap() }
        let mut bytes = [0; 5];
        server.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"hello");
        // The end of the stream.
        drop(sending.join().unwrap());
        select! {
            readable(server) -> ready => ready.unwrap(),
            default(LONG) => unreachable!("an hour is not over"),
        }
        assert_eq!(server.read(&mut bytes).unwrap(), 0);
    });
}

#[cfg(unix)]
#[test]
fn pipes_datagrams_and_unix_sockets() {
    use runtime::net::unix::{UnixDatagram, UnixListener, UnixStream};
    use runtime::net::{Async, UdpSocket};

    in_each(|| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let reader = Async::new(reader).unwrap();
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let (here, there) = UnixDatagram::pair().unwrap();
        let folder = tests::folder::Folder::new();
        let path = folder.path("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let next = || {
            select! {
                readable(reader) -> ready => { ready.unwrap(); "pipe" }
                readable(one) -> ready => { ready.unwrap(); "udp" }
                readable(here) -> ready => { ready.unwrap(); "unix" }
                accept(listener) -> connection => { connection.unwrap(); "listener" }
                default(2 * MILLI) => "nothing",
            }
        };
        assert_eq!(next(), "nothing");
        writer.write_all(b"x").unwrap();
        assert_eq!(next(), "pipe");
        reader.get_ref().read_exact(&mut [0]).unwrap();
        assert_eq!(next(), "nothing");
        other.send_to(b"x", one.local_addr().unwrap()).unwrap();
        select! { readable(one) -> ready => ready.unwrap() }
        one.recv_from(&mut [0]).unwrap();
        there.send(b"x").unwrap();
        assert_eq!(next(), "unix");
        here.recv(&mut [0]).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        assert_eq!(next(), "listener");
        assert_eq!(next(), "nothing");
    });
}

#[cfg(unix)]
#[test]
fn a_signal_ends_an_accept_loop() {
    use runtime::signal::{SIGUSR2, notify};

    on_each(|| {
        let (listener, addr) = listener();
        let signals = notify(&[SIGUSR2]).unwrap();
        let server = spawn(move || {
            let mut accepted = 0;
            loop {
                select! {
                    accept(listener) -> connection => {
                        connection.unwrap().0.write_all(b"a").unwrap();
                        accepted += 1;
                    }
                    signal(signals) -> number => return (accepted, number),
                }
            }
        });
        (0..3).for_each(|_| call(addr));
        signal_hook::low_level::raise(SIGUSR2).unwrap();
        assert_eq!(server.join().unwrap(), (3, Ok(SIGUSR2)));
    });
}
