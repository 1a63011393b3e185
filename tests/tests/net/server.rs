//! `net::Server`: it ends without breaking a reply, isolates its connections, and survives the limits of the
//! system.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::net::{Server, TcpListener, TcpStream};
use tests::{on, quiet_panics_on_purpose, wait_until};

const MILLI: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

fn start(handler: impl Fn(TcpStream) + Send + Sync + 'static) -> (Server, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    (Server::builder().start(listener, handler).unwrap(), addr)
}

/// Echoes 4 bytes at a time, and waits for `time` before each reply.
fn slow_echo(time: Duration) -> impl Fn(TcpStream) {
    move |mut stream| {
        let mut bytes = [0; 4];
        while stream.read_exact(&mut bytes).is_ok() {
            runtime::sleep(time);
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
    }
}

/// Sends requests until the server ends, and counts whole replies. Panics if a reply is broken.
fn ask_until_the_end(addr: SocketAddr, replies: &AtomicUsize) {
    loop {
        let Ok(mut stream) = TcpStream::connect(addr) else { return };
        while stream.write_all(b"four").is_ok() {
            let mut reply = Vec::new();
            let mut piece = [0; 4];
            while reply.len() < 4 {
                match stream.read(&mut piece[reply.len()..]) {
                    Ok(n @ 1..) => reply.extend_from_slice(&piece[..n]),
                    _ => break,
                }
            }
            match reply.len() {
                0 => break,
                4 => _ = replies.fetch_add(1, SeqCst),
                n => panic!("{n} bytes of a reply"),
            }
        }
        // After the end of its connection a client connects again, until the server refuses.
    }
}

#[test]
fn an_idle_connection_ends_at_once_and_a_busy_one_finishes() {
    on(2, || {
        let (server, addr) = start(slow_echo(200 * MILLI));
        let (mut idle, mut busy) = (TcpStream::connect(addr).unwrap(), TcpStream::connect(addr).unwrap());
        busy.write_all(b"four").unwrap();
        wait_until("both are accepted", || server.connections() == 2);
        // The busy handler has its request.
        runtime::sleep(50 * MILLI);
        let ends = runtime::spawn(move || server.shutdown(LONG));
        assert_eq!(idle.read(&mut [0; 4]).unwrap(), 0);
        let mut reply = Vec::new();
        busy.read_to_end(&mut reply).unwrap();
        assert_eq!(reply, b"four");
        assert_eq!(ends.join().unwrap(), 0, "nothing had to be cancelled");
        assert!(TcpStream::connect(addr).is_err(), "the listener is still open");
    });
}

/// The second request lies in the socket when the server ends.
#[test]
fn a_request_that_has_come_is_answered_at_the_end() {
    on(2, || {
        let (server, addr) = start(slow_echo(200 * MILLI));
        let mut client = TcpStream::connect(addr).unwrap();
        client.write_all(b"onestwos").unwrap();
        wait_until("it is accepted", || server.connections() == 1);
        // The handler has the first request.
        runtime::sleep(50 * MILLI);
        let ends = runtime::spawn(move || server.shutdown(LONG));
        let mut replies = Vec::new();
        client.read_to_end(&mut replies).unwrap();
        assert_eq!(replies, b"onestwos");
        assert_eq!(ends.join().unwrap(), 0, "nothing had to be cancelled");
    });
}

#[test]
fn a_server_that_ends_under_load_breaks_no_reply() {
    for procs in [1, 2, 4] {
        on(procs, || {
            let (server, addr) = start(slow_echo(Duration::ZERO));
            let replies = Arc::new(AtomicUsize::new(0));
            let clients: Vec<_> = (0..20)
                .map(|_| {
                    let replies = replies.clone();
                    runtime::spawn(move || ask_until_the_end(addr, &replies))
                })
                .collect();
            wait_until("many replies", || replies.load(SeqCst) >= 100);
            assert_eq!(server.shutdown(LONG), 0);
            clients.into_iter().for_each(|client| client.join().unwrap());
        });
    }
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn connections_that_do_not_end_are_cancelled() {
    on(2, || {
        let (begun, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begins, counts) = (begun.clone(), dropped.clone());
        let (server, addr) = start(move |_stream| {
            let _counted = Counted(counts.clone());
            begins.fetch_add(1, SeqCst);
            runtime::sleep(Duration::from_secs(3600));
        });
        let mut clients: Vec<_> = (0..10).map(|_| TcpStream::connect(addr).unwrap()).collect();
        // A handler that has not begun would be cancelled before it begins.
        wait_until("all have begun", || begun.load(SeqCst) == 10);
        let start = Instant::now();
        assert_eq!(server.shutdown(50 * MILLI), 10);
        assert!(start.elapsed() >= 50 * MILLI);
        wait_until("the destructors have run", || dropped.load(SeqCst) == 10);
        for client in &mut clients {
            assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)), "the connection is still open");
        }
    });
}

#[test]
fn a_dropped_server_cancels_its_connections() {
    on(2, || {
        let (server, addr) = start(|_stream| runtime::sleep(Duration::from_secs(3600)));
        let mut client = TcpStream::connect(addr).unwrap();
        wait_until("it is accepted", || server.connections() == 1);
        drop(server);
        assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)));
        wait_until("the listener is closed", || TcpStream::connect(addr).is_err());
    });
}

/// The acceptor is cancelled while it starts handlers, and meets the drop of the server at the list of
/// connections.
#[test]
fn a_server_that_is_dropped_while_it_accepts_cancels_all_connections() {
    on(4, || {
        let ended = Arc::new(AtomicUsize::new(0));
        let begun = Arc::new(AtomicUsize::new(0));
        for round in 0..2_000 {
            let counts = (begun.clone(), ended.clone());
            let (server, addr) = start(move |_stream| {
                struct Ends(Arc<AtomicUsize>);
                impl Drop for Ends {
                    fn drop(&mut self) {
                        self.0.fetch_add(1, SeqCst);
                    }
                }
                let _ends = Ends(counts.1.clone());
                counts.0.fetch_add(1, SeqCst);
                runtime::sleep(Duration::from_secs(3600));
            });
            let clients: Vec<_> = (0..4).map(|_| StdStream::connect(addr).unwrap()).collect();
            let wanted = round % 4;
            while server.connections() < wanted {
                runtime::yield_now();
            }
            drop(server);
            drop(clients);
        }
        wait_until("all handlers end", || begun.load(SeqCst) == ended.load(SeqCst));
    });
}

/// The acceptor always finds another connection, so it never parks.
#[test]
fn a_server_ends_while_clients_keep_connecting() {
    on(2, || {
        let (server, addr) = start(drop);
        let flood: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut connected = 0;
                    while StdStream::connect(addr).is_ok() {
                        connected += 1;
                    }
                    connected
                })
            })
            .collect();
        runtime::sleep(50 * MILLI);
        server.shutdown(LONG);
        let connected: usize =
            flood.into_iter().map(|client| runtime::blocking(|| client.join().unwrap())).sum();
        assert!(connected > 0);
    });
}

#[test]
fn no_more_connections_are_open_than_allowed() {
    const MOST: usize = 3;
    on(2, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (opens, mosts) = (open, most.clone());
        let server = Server::builder()
            .max_connections(MOST)
            .start(listener, move |mut stream: TcpStream| {
                mosts.fetch_max(opens.fetch_add(1, SeqCst) + 1, SeqCst);
                runtime::sleep(5 * MILLI);
                opens.fetch_sub(1, SeqCst);
                stream.write_all(b"k").unwrap();
            })
            .unwrap();
        let clients: Vec<_> = (0..20)
            .map(|_| {
                runtime::spawn(move || {
                    let mut stream = TcpStream::connect(addr).unwrap();
                    stream.read_exact(&mut [0]).unwrap();
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(most.load(SeqCst), MOST);
        assert_eq!(server.shutdown(LONG), 0);
    });
}

#[test]
#[should_panic = "at least one connection"]
fn a_limit_of_zero_connections_is_refused() {
    let _ = Server::builder().max_connections(0);
}

#[test]
fn a_panic_ends_only_its_connection() {
    quiet_panics_on_purpose();
    on(1, || {
        let (server, addr) = start(|mut stream| {
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() {
                assert_ne!(byte, *b"!", "on purpose");
                stream.write_all(&byte).unwrap();
            }
        });
        let (mut good, mut bad) = (TcpStream::connect(addr).unwrap(), TcpStream::connect(addr).unwrap());
        bad.write_all(b"!").unwrap();
        assert!(matches!(bad.read(&mut [0]), Ok(0) | Err(_)));
        for _ in 0..10 {
            good.write_all(b"a").unwrap();
            good.read_exact(&mut [0]).unwrap();
        }
        wait_until("the bad one is forgotten", || server.connections() == 1);
        assert_eq!(server.shutdown(LONG), 0);
    });
}

#[cfg(unix)]
#[test]
fn a_server_serves_unix_sockets() {
    use runtime::net::unix::{UnixListener, UnixStream};
    on(1, || {
        let folder = tests::folder::Folder::new();
        let path = folder.path("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = Server::builder()
            .start(listener, |mut stream: UnixStream| stream.write_all(b"here").unwrap())
            .unwrap();
        let text = std::io::read_to_string(UnixStream::connect(&path).unwrap()).unwrap();
        assert_eq!(text, "here");
        assert_eq!(server.shutdown(LONG), 0);
    });
}

/// Floods a server until its process reaches a limit of the system, and then asks it once more.
#[cfg(target_os = "linux")]
fn survives(limit: impl FnOnce() -> tests::system::Limit + Send, flood: usize) {
    on(2, || {
        let (tell, errors) = runtime::channel::bounded(100_000);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = Server::builder()
            .on_error(move |error| drop(tell.try_send(error)))
            .start(listener, slow_echo(Duration::ZERO))
            .unwrap();
        let limit = limit();
        let mut clients: Vec<_> = (0..flood).map_while(|_| StdStream::connect(addr).ok()).collect();
        let error = loop {
            if let Ok(error) = errors.recv_timeout(Duration::from_millis(10)) {
                break error;
            }
            // All of the flood may have been accepted before the limit was noticed; the next one is refused
            // then.
            clients.extend(StdStream::connect(addr));
        };
        println!("{} clients, {} connections, {error}", clients.len(), server.connections());
        drop(clients);
        drop(limit);
        let mut client = TcpStream::connect(addr).unwrap();
        client.write_all(b"four").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
        drop(client);
        assert_eq!(server.shutdown(LONG), 0);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_survives_a_want_of_descriptors() {
    tests::child::passes("a_server_survives_a_want_of_descriptors", "", || {
        let more = |n: usize| (tests::system::descriptors() + n) as u64;
        survives(|| tests::system::Limit::new(libc::RLIMIT_NOFILE, more(50)), 100);
    });
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(
    portable,
    ignore = "the system does not say how much address space is in use, so malloc finds none"
)]
fn a_server_survives_a_want_of_stacks() {
    tests::child::passes("a_server_survives_a_want_of_stacks", "", || {
        survives(|| tests::system::Limit::address_space(40 << 20), 2000);
    });
}
