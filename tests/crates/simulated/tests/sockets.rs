//! Sockets of std in a simulation: of the same network as those of the runtime.

runtime::interpose!(sim);

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use runtime::sim::{self, net};

const SECOND: Duration = Duration::from_secs(1);

/// An echo server as everyone writes it with std: a thread for each connection.
fn serve(listener: TcpListener, connections: usize) {
    let threads: Vec<_> = listener
        .incoming()
        .take(connections)
        .map(|stream| {
            let stream = stream.unwrap();
            thread::spawn(move || echo(stream).unwrap())
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            n => stream.write_all(&bytes[..n])?,
        }
    }
}

/// A client that waits for its server to come up.
fn connect(to: &str) -> TcpStream {
    loop {
        match TcpStream::connect(to) {
            Ok(stream) => return stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Makes a connection within the node of the caller.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, from) = listener.accept().unwrap();
    assert_eq!(from, near.local_addr().unwrap());
    assert_eq!(far.local_addr().unwrap(), near.peer_addr().unwrap());
    (near, far)
}

/// What happened, and when.
type History = Arc<Mutex<Vec<(Duration, String)>>>;

/// A server and two clients on nodes of their own, which note what they see.
fn three_nodes() -> Vec<(Duration, String)> {
    let (start, history) = (Instant::now(), History::default());
    let note = move |history: &History, what: String| {
        history.lock().unwrap().push((start.elapsed(), what));
    };
    let noted = history.clone();
    let server = sim::node("server", move || {
        let listener = TcpListener::bind("0.0.0.0:7").unwrap();
        for stream in listener.incoming().take(4) {
            let stream = stream.unwrap();
            note(&noted, format!("{} has come", stream.peer_addr().unwrap()));
            thread::spawn(move || echo(stream).unwrap()).join().unwrap();
        }
    });
    let clients: Vec<_> = ["10.0.0.1", "10.0.0.2"]
        .map(|name| {
            let noted = history.clone();
            sim::node(name, move || {
                for round in 0..2 {
                    let mut stream = connect("server:7");
                    assert_eq!(stream.local_addr().unwrap().ip().to_string(), name);
                    let sent = format!("{name} {round}");
                    stream.write_all(sent.as_bytes()).unwrap();
                    let mut answer = vec![0; sent.len()];
                    stream.read_exact(&mut answer).unwrap();
                    note(&noted, String::from_utf8(answer).unwrap());
                }
            })
        })
        .into();
    clients.iter().for_each(|client| client.join().unwrap());
    server.join().unwrap();
    // The nodes keep it, too: they may be restarted.
    std::mem::take(&mut *history.lock().unwrap())
}

#[test]
fn a_server_and_clients_on_nodes() {
    let history = sim::run(1, three_nodes);
    assert_eq!(history.len(), 8);
    // A packet takes a millisecond at least.
    assert!(history.iter().all(|(time, _)| *time >= Duration::from_millis(2)), "{history:?}");
}

#[test]
fn the_same_seed_has_the_same_history() {
    for seed in 0..20 {
        assert_eq!(sim::run(seed, three_nodes), sim::run(seed, three_nodes), "seed {seed}");
    }
    assert_ne!(sim::run(1, three_nodes), sim::run(2, three_nodes));
    let builder = sim::Builder::new().check_determinism(true);
    let explore = |seeds| builder.explore(seeds, || drop(three_nodes()));
    assert_eq!(explore(20).runs(), 20);
}

#[test]
fn many_bytes_wait_for_their_reader() {
    sim::run(3, || {
        let (mut near, mut far) = pair();
        let bytes: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
        let expected = bytes.clone();
        let writer = thread::spawn(move || near.write_all(&bytes).unwrap());
        thread::sleep(SECOND);
        assert!(!writer.is_finished(), "a connection has no room for so much");
        let mut got = Vec::new();
        far.read_to_end(&mut got).unwrap();
        writer.join().unwrap();
        assert!(got == expected);
    });
}

#[test]
fn a_read_ends_with_its_time() {
    sim::run(1, || {
        let (mut near, _far) = pair();
        assert_eq!(near.read_timeout().unwrap(), None);
        near.set_read_timeout(Some(3600 * SECOND)).unwrap();
        assert_eq!(near.read_timeout().unwrap(), Some(3600 * SECOND));
        let start = Instant::now();
        assert_eq!(near.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(start.elapsed(), 3600 * SECOND);
        near.set_write_timeout(Some(SECOND)).unwrap();
        let error = near.write_all(&vec![0; 1_000_000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(near.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_connection_is_refused_or_not_answered() {
    sim::run(1, || {
        let start = Instant::now();
        let server = sim::node("server", || thread::sleep(10_000 * SECOND));
        assert_eq!(TcpStream::connect("server:80").unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(TcpStream::connect("127.0.0.1:80").unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert!(start.elapsed() < SECOND);
        net::partition("main", &server);
        let addr = SocketAddr::new(server.ip(), 80);
        let error = TcpStream::connect_timeout(&addr, 5 * SECOND).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let waited = start.elapsed();
        assert!(waited >= 5 * SECOND && waited < 6 * SECOND, "{waited:?}");
        let error = TcpStream::connect(addr).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc_numbers::ETIMEDOUT));
        assert_eq!(start.elapsed() - waited, 127 * SECOND);
        net::repair("main", &server);
        let error = TcpStream::connect_timeout(&addr, 5 * SECOND).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        server.join().unwrap();
    });
}

/// This crate does without `libc`.
mod libc_numbers {
    pub const ETIMEDOUT: i32 = 110;
    pub const EAFNOSUPPORT: i32 = 97;
    pub const ENETDOWN: i32 = 100;
}

#[test]
fn a_partition_ends_a_connection_by_its_time() {
    sim::run(5, || {
        let server = sim::node("server", || serve(TcpListener::bind("0.0.0.0:7").unwrap(), 1));
        let mut stream = connect("server:7");
        stream.set_read_timeout(Some(30 * SECOND)).unwrap();
        stream.write_all(b"one").unwrap();
        stream.read_exact(&mut [0; 3]).unwrap();
        net::partition("main", &server);
        stream.write_all(b"two").unwrap();
        assert_eq!(stream.read(&mut [0; 3]).unwrap_err().kind(), ErrorKind::WouldBlock);
        net::repair("main", &server);
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"two");
        stream.set_read_timeout(None).unwrap();
        net::partition("main", &server);
        stream.write_all(b"six").unwrap();
        let start = Instant::now();
        assert_eq!(stream.read(&mut [0; 3]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() > 900 * SECOND);
        // The other end waits for ever, because no packet comes. Its thread ends with its node.
        server.kill();
        assert!(server.join().unwrap_err().is::<runtime::thread::Cancelled>());
    });
}

#[test]
fn a_crash_of_the_peer_resets() {
    sim::run(7, || {
        let server = sim::node("server", || {
            let listener = TcpListener::bind("0.0.0.0:7").unwrap();
            let mut held = Vec::new();
            loop {
                match listener.accept() {
                    Ok((stream, _)) => held.push(stream),
                    Err(error) => return error.to_string(),
                }
            }
        });
        let mut stream = connect("server:7");
        let reader = thread::spawn({
            let mut stream = stream.try_clone().unwrap();
            move || stream.read(&mut [0; 10]).unwrap_err().kind()
        });
        thread::sleep(SECOND);
        server.kill();
        assert_eq!(reader.join().unwrap(), ErrorKind::ConnectionReset);
        assert_eq!(stream.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(TcpStream::connect("server:7").map(drop).map_err(|_| ()), Err(()));
        server.restart();
        connect("server:7").write_all(b"again").unwrap();
    });
}

#[test]
fn clones_share_the_socket_and_its_settings() {
    sim::run(1, || {
        let (mut near, mut far) = pair();
        let mut clone = near.try_clone().unwrap();
        clone.set_nodelay(true).unwrap();
        clone.set_ttl(7).unwrap();
        clone.set_read_timeout(Some(SECOND)).unwrap();
        assert!(near.nodelay().unwrap());
        assert_eq!(near.ttl().unwrap(), 7);
        assert_eq!(near.read_timeout().unwrap(), Some(SECOND));
        far.write_all(b"ab").unwrap();
        let mut bytes = [0; 1];
        near.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"a");
        drop(near);
        clone.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"b");
        clone.write_all(b"still open").unwrap();
        drop(clone);
        let mut text = String::new();
        far.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still open");
    });
}

#[test]
fn a_non_blocking_socket_does_not_wait() {
    sim::run(1, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        near.set_nonblocking(true).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut sent = 0;
        let error = loop {
            match near.write(&[0; 100_000]) {
                Ok(n) => sent += n,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        // The accepted end is in blocking mode.
        far.read_exact(&mut vec![0; sent]).unwrap();
        near.set_nonblocking(false).unwrap();
        thread::spawn(move || {
            thread::sleep(SECOND);
            far.write_all(b"x").unwrap();
        });
        assert_eq!(near.read(&mut [0; 10]).unwrap(), 1);
    });
}

#[test]
fn a_half_of_a_connection_is_shut() {
    sim::run(1, || {
        let (mut near, mut far) = pair();
        let answers = thread::spawn(move || {
            let mut text = String::new();
            far.read_to_string(&mut text).unwrap();
            far.write_all(text.to_uppercase().as_bytes()).unwrap();
        });
        near.write_all(b"all of it").unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(near.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut text = String::new();
        near.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ALL OF IT");
        answers.join().unwrap();
        // A shutdown ends the wait of another thread.
        let (near, _far) = pair();
        let reader = thread::spawn({
            let mut near = near.try_clone().unwrap();
            move || near.read(&mut [0]).unwrap()
        });
        thread::sleep(SECOND);
        near.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn a_peek_leaves_the_bytes_and_lists_of_buffers_are_filled() {
    sim::run(1, || {
        let (mut near, mut far) = pair();
        assert_eq!(far.write_vectored(&[IoSlice::new(b"abc"), IoSlice::new(b"def")]).unwrap(), 6);
        let mut bytes = [0; 4];
        assert_eq!(near.peek(&mut bytes).unwrap(), 4);
        assert_eq!(&bytes, b"abcd");
        let (mut one, mut two) = ([0; 2], [0; 10]);
        let n = near.read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]).unwrap();
        assert_eq!((n, &one, &two[..4]), (6, b"ab", &b"cdef"[..]));
    });
}

#[test]
fn a_file_is_copied_to_a_socket() {
    sim::run(1, || {
        let (mut near, mut far) = pair();
        // std copies such pairs by calls of the kernel, if it can.
        let mut file = sim::real(|| std::fs::File::open("Cargo.toml").unwrap());
        let copies = thread::spawn(move || io::copy(&mut file, &mut far).unwrap());
        let mut text = String::new();
        near.read_to_string(&mut text).unwrap();
        assert_eq!(copies.join().unwrap(), text.len() as u64);
        assert!(text.contains("name = \"simulated\""));
    });
}

#[test]
fn datagrams_go_from_node_to_node() {
    sim::run(1, || {
        let server = sim::node("server", || {
            let socket = UdpSocket::bind("0.0.0.0:53").unwrap();
            let mut bytes = [0; 100];
            let (peeked, _) = socket.peek_from(&mut bytes).unwrap();
            let (n, from) = socket.recv_from(&mut bytes).unwrap();
            assert_eq!(peeked, n);
            socket.send_to(&bytes[..n], from).unwrap();
            // What does not fit is lost.
            assert_eq!(socket.recv(&mut bytes[..2]).unwrap(), 2);
        });
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(SECOND)).unwrap();
        let to = ("server", 53).to_socket_addrs().unwrap().next().unwrap();
        assert_eq!(to.ip(), server.ip());
        let mut bytes = [0; 100];
        let (n, from) = loop {
            socket.send_to(b"hello", to).unwrap();
            match socket.recv_from(&mut bytes) {
                Ok(received) => break received,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        };
        assert_eq!((&bytes[..n], from), (&b"hello"[..], to));
        socket.connect(to).unwrap();
        assert_eq!(socket.peer_addr().unwrap(), to);
        socket.send(b"again").unwrap();
        server.join().unwrap();
        // No socket is there any more: the packet that says so is an error of the connected socket.
        socket.send(b"once more").unwrap();
        assert_eq!(socket.recv(&mut bytes).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn ports_are_those_of_a_node() {
    sim::run(1, || {
        let first = TcpListener::bind("0.0.0.0:80").unwrap();
        assert_eq!(TcpListener::bind("127.0.0.1:80").unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(TcpListener::bind("10.9.9.9:80").unwrap_err().kind(), ErrorKind::AddrNotAvailable);
        UdpSocket::bind("0.0.0.0:80").unwrap();
        sim::node("other", || drop(TcpListener::bind("0.0.0.0:80").unwrap())).join().unwrap();
        drop(first);
        TcpListener::bind("127.0.0.1:80").unwrap();
        assert!("elsewhere:80".to_socket_addrs().is_err());
        assert_eq!(TcpStream::connect("[fd00::1]:80").unwrap_err().kind(), ErrorKind::AddrNotAvailable);
        let both = TcpListener::bind("[::]:81").unwrap();
        let near = TcpStream::connect("127.0.0.1:81").unwrap();
        let (far, from) = both.accept().unwrap();
        assert_eq!(from.ip().to_canonical(), near.local_addr().unwrap().ip());
        assert!(far.peer_addr().unwrap().is_ipv6());
        let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
        let error = udp.connect("[::1]:80").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc_numbers::EAFNOSUPPORT));
    });
}

#[test]
fn a_pair_of_unix_streams() {
    sim::run(1, || {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let answers = thread::spawn(move || {
            let mut bytes = [0; 4];
            far.read_exact(&mut bytes).unwrap();
            far.write_all(&bytes).unwrap();
        });
        thread::sleep(SECOND);
        near.write_all(b"ping").unwrap();
        let mut text = String::new();
        near.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ping");
        answers.join().unwrap();
    });
}

/// A server and a client as everyone writes them, and the addresses that they see.
#[test]
fn unix_streams_by_path() {
    sim::run(1, || {
        let listener = UnixListener::bind("/server").unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some("/server".as_ref()));
        assert_eq!(UnixListener::bind("/server").unwrap_err().kind(), ErrorKind::AddrInUse);
        let server = thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, from) = listener.accept().unwrap();
                assert!(from.is_unnamed());
                let mut bytes = [0; 4];
                stream.read_exact(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
            }
        });
        let mut stream = UnixStream::connect("/server").unwrap();
        assert_eq!(stream.peer_addr().unwrap().as_pathname(), Some("/server".as_ref()));
        assert!(stream.local_addr().unwrap().is_unnamed());
        thread::sleep(SECOND);
        stream.write_all(b"ping").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ping");
        // A socket of the runtime has the same paths.
        let mut other = runtime::net::unix::UnixStream::connect("/server").unwrap();
        other.write_all(b"pong").unwrap();
        other.read_exact(&mut [0; 4]).unwrap();
        server.join().unwrap();
        // The path stays when its listener has gone.
        assert_eq!(UnixStream::connect("/server").unwrap_err().kind(), ErrorKind::ConnectionRefused);
        runtime::fs::remove_file("/server").unwrap();
        assert_eq!(UnixStream::connect("/server").unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn unix_streams_by_an_abstract_name() {
    sim::run(1, || {
        let name = UnixAddr::from_abstract_name(b"server").unwrap();
        let listener = UnixListener::bind_addr(&name).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_abstract_name(), Some(&b"server"[..]));
        let client = thread::spawn(move || {
            let mut stream = UnixStream::connect_addr(&name).unwrap();
            stream.write_all(b"hello").unwrap();
            stream.peer_addr().unwrap().as_abstract_name().unwrap().to_vec()
        });
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), &client.join().unwrap()[..]), ("hello", &b"server"[..]));
    });
}

/// A path belongs to its node, and its connections end with the node.
#[test]
fn unix_streams_stay_within_their_node() {
    sim::run(1, || {
        let server = sim::node("server", || {
            let listener = UnixListener::bind("/server").unwrap();
            let client = thread::spawn(|| UnixStream::connect("/server").unwrap().read(&mut [0]));
            let (_stream, _) = listener.accept().unwrap();
            client.join().unwrap().map_err(|error| error.raw_os_error())
        });
        thread::sleep(SECOND);
        assert_eq!(UnixStream::connect("/server").unwrap_err().kind(), ErrorKind::NotFound);
        server.kill();
        assert_eq!(server.join().unwrap(), Err(Some(libc_numbers::ENETDOWN)));
    });
}

/// libc's `select` on three sets of these descriptors. Returns its result, what is left in the sets, and the
/// time that it has left.
fn select(sets: [&[i32]; 3], time: Option<Duration>) -> (i32, [Vec<i32>; 3], Option<Duration>) {
    type Set = [u64; 16];
    unsafe extern "C" {
        #[link_name = "select"]
        fn of_libc(count: i32, read: *mut Set, write: *mut Set, except: *mut Set, time: *mut [i64; 2])
        -> i32;
    }
    let mut bits = sets.map(|fds| {
        let mut set = [0; 16];
        fds.iter().for_each(|fd| set[*fd as usize / 64] |= 1 << (fd % 64));
        set
    });
    let mut left = time.map(|time| [time.as_secs() as i64, i64::from(time.subsec_micros())]);
    let pointer = left.as_mut().map_or(std::ptr::null_mut(), |left| left);
    let [read, write, except] = &mut bits;
    let count = sets.iter().flat_map(|fds| fds.iter()).max().map_or(0, |most| most + 1);
    // SAFETY: the sets have 1024 bits, which is more than the count; the time is this function's.
    let found = unsafe { of_libc(count, read, write, except, pointer) };
    let still = [0, 1, 2].map(|at| {
        let is_in = |fd: &&i32| bits[at][**fd as usize / 64] >> (**fd % 64) & 1 == 1;
        sets[at].iter().filter(is_in).copied().collect()
    });
    let left = left.map(|[secs, micros]| Duration::new(secs as u64, micros as u32 * 1000));
    (found, still, left)
}

#[test]
fn select_waits_for_one_of_its_sockets() {
    sim::run(1, || {
        let ((one, _far), (other, mut sender)) = (pair(), pair());
        let (first, second) = (one.as_raw_fd(), other.as_raw_fd());
        let start = Instant::now();
        let both = [first, second];
        // Both may be written to, at once.
        let found = select([&both, &[second], &both], Some(10 * SECOND));
        assert_eq!(found, (1, [vec![], vec![second], vec![]], Some(10 * SECOND)));
        assert_eq!(start.elapsed(), Duration::ZERO);
        // Nothing comes.
        let found = select([&both, &[], &both], Some(5 * SECOND));
        assert_eq!(found, (0, [vec![], vec![], vec![]], Some(Duration::ZERO)));
        assert_eq!(start.elapsed(), 5 * SECOND);
        let sends = thread::spawn(move || {
            thread::sleep(SECOND);
            sender.write_all(b"1").unwrap();
            thread::sleep(SECOND);
        });
        let (found, sets, left) = select([&both, &[], &[]], Some(10 * SECOND));
        assert_eq!((found, sets), (1, [vec![second], vec![], vec![]]));
        let passed = start.elapsed() - 5 * SECOND;
        assert!((SECOND..2 * SECOND).contains(&passed), "{passed:?}");
        assert_eq!(left, Some(10 * SECOND - Duration::from_micros(passed.as_nanos().div_ceil(1000) as u64)));
        (&other).read_exact(&mut [0]).unwrap();
        // The end of the peer wakes a wait without a time.
        let found = select([&both, &[], &[]], None);
        assert_eq!(found, (1, [vec![second], vec![], vec![]], None));
        assert_eq!((&other).read(&mut [0]).unwrap(), 0);
        sends.join().unwrap();
        // A descriptor counts once for each set that it is in.
        let found = select([&both, &[second], &[]], None);
        assert_eq!(found, (2, [vec![second], vec![second], vec![]], None));
        // Readiness that no set asks for is no result: only the set for exceptions has the ended stream.
        let start = Instant::now();
        assert_eq!(select([&[], &[], &[second]], Some(SECOND)).0, 0);
        assert_eq!(start.elapsed(), SECOND);
    });
}

/// `ppoll` and `pselect` for a byte of a socket, with a signal mask if `masked`.
fn wait_for_byte(fd: i32, time: Option<[i64; 2]>, masked: bool) -> [i32; 2] {
    unsafe extern "C" {
        fn ppoll(fds: *mut Asked, count: u64, time: *const [i64; 2], mask: *const [u64; 16]) -> i32;
        fn pselect(
            count: i32,
            read: *mut [u64; 16],
            write: *mut [u64; 16],
            except: *mut [u64; 16],
            time: *const [i64; 2],
            mask: *const [u64; 16],
        ) -> i32;
    }
    const POLLIN: i16 = 1;
    let none = std::ptr::null_mut();
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let no_signals = [0; 16];
    let mask = if masked { &raw const no_signals } else { std::ptr::null() };
    let mut set = [0; 16];
    set[fd as usize / 64] |= 1 << (fd % 64);
    let mut asked = Asked { fd, events: POLLIN, found: 0 };
    // SAFETY: the sets have 1024 bits, and all pointers are valid for the calls.
    unsafe { [ppoll(&mut asked, 1, time, mask), pselect(fd + 1, &mut set, none, none, time, mask)] }
}

#[repr(C)]
struct Asked {
    fd: i32,
    events: i16,
    found: i16,
}

#[test]
fn waits_with_a_signal_mask_are_simulated() {
    for masked in [false, true] {
        sim::run(1, move || {
            let (one, mut far) = pair();
            let start = Instant::now();
            assert_eq!(wait_for_byte(one.as_raw_fd(), Some([3, 0]), masked), [0, 0]);
            assert_eq!(start.elapsed(), 6 * SECOND);
            // No time.
            assert_eq!(wait_for_byte(one.as_raw_fd(), Some([0, -1]), masked), [-1, -1]);
            let sends = thread::spawn(move || {
                thread::sleep(SECOND);
                far.write_all(b"1").unwrap();
                far
            });
            assert_eq!(wait_for_byte(one.as_raw_fd(), None, masked), [1, 1]);
            assert!((7 * SECOND..8 * SECOND).contains(&start.elapsed()));
            sends.join().unwrap();
        });
    }
}

#[test]
fn select_refuses_what_is_no_open_socket() {
    let beside = failure(|| {
        let (near, _far) = pair();
        select([&[near.as_raw_fd(), 0], &[], &[]], None);
    });
    assert!(beside.contains("select of simulated sockets beside other descriptors"), "{beside}");
}

/// Sockets of both kinds talk to each other.
#[test]
fn sockets_of_the_runtime_are_in_the_same_network() {
    sim::run(1, || {
        let server = sim::node("server", || {
            let listener = runtime::net::TcpListener::bind("0.0.0.0:7").unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        });
        let mut stream = connect("server:7");
        stream.write_all(b"hello").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        server.join().unwrap();
    });
}

/// Returns the message of the failure of `program`.
fn failure(program: impl Fn() + Send + Sync) -> String {
    sim::Builder::new().shrink(false).try_explore(1, program).unwrap_err().message().into()
}

#[test]
fn what_is_not_simulated_fails_the_run() {
    let multicast = failure(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        _ = socket.join_multicast_v4(&[224, 0, 0, 1].into(), &[0, 0, 0, 0].into());
    });
    assert!(multicast.contains("the option 35 of level 0 of a socket"), "{multicast}");
    let adopted = failure(|| {
        let adopted = runtime::net::TcpStream::from(pair().0);
        _ = (&adopted).read(&mut [0]);
    });
    assert!(adopted.contains("epoll of a simulated socket"), "{adopted}");
}

#[test]
fn threads_that_wait_for_each_other_are_a_deadlock() {
    let failure = failure(|| {
        let (mut near, mut far) = pair();
        let reader = thread::spawn(move || far.read(&mut [0]).map_err(|error| error.kind()));
        _ = near.read(&mut [0]);
        _ = reader.join();
    });
    assert!(failure.contains("deadlock"), "{failure}");
    assert!(failure.contains("127.0.0.1:49"), "the dump names the socket: {failure}");
}

/// The sockets of a node that was killed are not taken for sockets of the system.
#[test]
fn a_deadlock_after_a_kill_is_one() {
    let failure = failure(|| {
        let node = sim::node("server", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:7").unwrap().accept().unwrap();
            while stream.read(&mut [0]).is_err() || stream.peer_addr().is_err() {}
        });
        let stream = connect("server:7");
        thread::sleep(SECOND);
        node.kill();
        drop(stream);
        let (mut near, _far) = pair();
        _ = near.read(&mut [0]);
    });
    assert!(!failure.contains("a socket of the system"), "{failure}");
}

#[test]
fn outside_of_a_simulation_sockets_are_real() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    // A simulation at the same time has other ports.
    sim::run(1, move || {
        assert_eq!(TcpStream::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
    let client = thread::spawn(move || {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(b"real").unwrap();
        let clone = stream.try_clone().unwrap();
        clone.shutdown(Shutdown::Write).unwrap();
    });
    let mut text = String::new();
    listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
    assert_eq!(text, "real");
    client.join().unwrap();
}

/// What a simulation returns is no socket afterwards, and its number is closed.
#[test]
fn a_socket_outlives_its_simulation_as_none() {
    let mut stream = sim::run(1, || pair().0);
    assert!(stream.write(b"x").is_err());
    drop(stream);
    let (mut near, mut far) = sim::run(2, || {
        let (mut near, far) = pair();
        near.write_all(b"x").unwrap();
        (near, far)
    });
    sim::run(3, move || {
        assert!(near.write(b"x").is_err());
        assert!(far.read(&mut [0]).is_err());
        std::mem::forget((near, far));
    });
}
