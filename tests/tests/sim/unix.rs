//! Unix sockets in `runtime::sim`: their names on the disk of a node, streams, datagrams, errors, time-outs,
//! cancellation and kills.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use runtime::net::Server;
use runtime::net::unix::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use runtime::sim::{self, Builder, net};
use runtime::time::{sleep_async, timeout, timeout_async};
use runtime::{fs, select, sleep, spawn, thread};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// How many connections wait to be accepted at most.
const BACKLOG: usize = 4096;

/// Runs `main` with some seeds, each twice.
fn check(main: impl Fn() + Send + Sync) {
    Builder::new().check_determinism(true).explore(50, main);
}

/// Runs `main` with some seeds, each twice, and once without a simulation: the system does the same. `main`
/// gets a directory.
fn check_with_system(main: impl Fn(&Path) + Send + Sync) {
    check(|| main(Path::new("/tmp")));
    main(tests::folder::Folder::new().root());
}

fn number<T>(result: io::Result<T>) -> Option<i32> {
    result.err()?.raw_os_error()
}

fn abstract_name(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).unwrap()
}

/// Returns both ends of a connection by way of a listener.
fn connection() -> (UnixStream, UnixStream) {
    let listener = UnixListener::bind("").unwrap();
    let client = UnixStream::connect_addr(&listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Calls `test` with the ends of a pair, and with those of a connection.
fn with_both(test: impl Fn(UnixStream, UnixStream)) {
    let (one, two) = UnixStream::pair().unwrap();
    test(one, two);
    let (one, two) = connection();
    test(two, one);
}

/// Writes until nothing more fits in. Returns the number of bytes.
fn fill(stream: &UnixStream) -> usize {
    stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    let full = loop {
        match { stream }.write(&[7; 1000]) {
            Ok(n) => sent += n,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    sent
}

#[test]
fn a_server_at_a_path_answers() {
    check(|| {
        fs::create_dir("/run").unwrap();
        let listener = UnixListener::bind("/run/echo").unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname().unwrap().to_str(), Some("/run/echo"));
        let start = Instant::now();
        let server = spawn(move || {
            for _ in 0..2 {
                let (stream, peer) = listener.accept().unwrap();
                assert!(peer.is_unnamed() && stream.peer_addr().unwrap().is_unnamed());
                assert!(stream.local_addr().unwrap().as_pathname().unwrap().ends_with("echo"));
                spawn(move || io::copy(&mut &stream, &mut &stream));
            }
        });
        let clients = ["one", "two"].map(|text| {
            spawn(move || {
                let mut stream = UnixStream::connect("/run/echo").unwrap();
                assert!(stream.local_addr().unwrap().is_unnamed());
                assert!(stream.peer_addr().unwrap().as_pathname().unwrap().ends_with("echo"));
                stream.write_all(text.as_bytes()).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                assert_eq!(answer, text);
            })
        });
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO, "it takes no time within a machine");
    });
}

#[test]
fn a_path_is_a_file_of_the_disk() {
    check_with_system(|dir| {
        let at = |name| dir.join(name);
        let listener = UnixListener::bind(at("socket")).unwrap();
        let metadata = fs::metadata(at("socket")).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o755);
        assert_eq!(number(fs::read(at("socket"))), Some(libc::ENXIO));
        assert_eq!(number(UnixListener::bind(at("socket"))), Some(libc::EADDRINUSE));
        fs::write(at("file"), "text").unwrap();
        assert_eq!(number(UnixListener::bind(at("file"))), Some(libc::EADDRINUSE));
        assert_eq!(number(UnixListener::bind(at("none/socket"))), Some(libc::ENOENT));
        assert_eq!(number(UnixStream::connect(at("none"))), Some(libc::ENOENT));
        assert_eq!(number(UnixStream::connect(at("file"))), Some(libc::ECONNREFUSED));

        // Other names of the same inode.
        fs::symlink(at("socket"), at("link")).unwrap();
        assert_eq!(number(UnixListener::bind(at("link"))), Some(libc::EADDRINUSE));
        UnixStream::connect(at("link")).unwrap();
        fs::rename(at("socket"), at("moved")).unwrap();
        assert_eq!(number(UnixStream::connect(at("socket"))), Some(libc::ENOENT));
        UnixStream::connect(at("moved")).unwrap();

        // A removed path is free. The listener has what waits, and nothing new comes.
        fs::remove_file(at("moved")).unwrap();
        let second = UnixListener::bind(at("moved")).unwrap();
        UnixStream::connect(at("moved")).unwrap();
        second.accept().unwrap();
        (0..2).for_each(|_| drop(listener.accept().unwrap()));
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);

        // The path stays when the listener is closed.
        drop(second);
        assert_eq!(number(UnixStream::connect(at("moved"))), Some(libc::ECONNREFUSED));
        assert_eq!(number(UnixListener::bind(at("moved"))), Some(libc::EADDRINUSE));
        assert_eq!(
            sim::real(|| at("moved").exists()),
            !sim::is_simulated(),
            "the system's disk has nothing of it"
        );
    });
}

#[test]
fn abstract_names_end_with_their_sockets() {
    check_with_system(|_| {
        let name = format!("sim-unix {}", std::process::id());
        let addr = abstract_name(&name);
        assert_eq!(number(UnixStream::connect_addr(&addr)), Some(libc::ECONNREFUSED));
        let listener = UnixListener::bind_addr(&addr).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_abstract_name(), Some(name.as_bytes()));
        assert_eq!(number(UnixListener::bind_addr(&addr)), Some(libc::EADDRINUSE));
        UnixStream::connect_addr(&addr).unwrap();
        drop(listener);
        assert_eq!(number(UnixStream::connect_addr(&addr)), Some(libc::ECONNREFUSED));
        let _again = UnixListener::bind_addr(&addr).unwrap();

        // Linux gives out a name if there is none.
        let (one, two) = (UnixListener::bind("").unwrap(), UnixListener::bind("").unwrap());
        let (one, two) = (one.local_addr().unwrap(), two.local_addr().unwrap());
        assert_eq!((one.as_abstract_name().unwrap().len(), two.as_abstract_name().unwrap().len()), (5, 5));
        assert_ne!(one.as_abstract_name(), two.as_abstract_name());
        assert_eq!(number(UnixStream::connect("")), Some(libc::EINVAL));
    });
}

#[test]
fn a_node_sees_its_own_sockets_only() {
    check(|| {
        let addr = abstract_name("name");
        let (path, named) = (UnixListener::bind("/socket").unwrap(), UnixListener::bind_addr(&addr).unwrap());
        let node = sim::node("db", || {
            let addr = abstract_name("name");
            assert_eq!(number(UnixStream::connect("/socket")), Some(libc::ENOENT));
            assert_eq!(number(UnixStream::connect_addr(&addr)), Some(libc::ECONNREFUSED));
            let (_path, _named) =
                (UnixListener::bind("/socket").unwrap(), UnixListener::bind_addr(&addr).unwrap());
            UnixStream::connect("/socket").unwrap();
            UnixStream::connect_addr(&addr).unwrap();
            assert_eq!(number(UnixListener::bind("/socket")), Some(libc::EADDRINUSE));
        });
        node.join().unwrap();
        for listener in [path, named] {
            listener.set_nonblocking(true).unwrap();
            assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    });
}

#[test]
fn a_full_backlog_holds_clients_up() {
    let fill = |addr: &SocketAddr| -> Vec<UnixStream> {
        (0..BACKLOG).map(|_| UnixStream::connect_addr(addr).unwrap()).collect()
    };
    Builder::new().check_determinism(true).explore(3, || {
        let addr = abstract_name("full");
        let listener = UnixListener::bind_addr(&addr).unwrap();
        let _clients = fill(&addr);
        let start = Instant::now();
        assert!(timeout(S, || UnixStream::connect_addr(&addr)).is_err());
        assert_eq!(start.elapsed(), S);
        let late = ["one", "two"].map(|text| {
            let addr = addr.clone();
            spawn(move || UnixStream::connect_addr(&addr)?.write_all(text.as_bytes()))
        });
        let future =
            runtime::block_on(async { timeout_async(S, UnixStream::connect_addr_async(&addr)).await });
        assert!(future.is_err());
        // Each one that is accepted makes room for one. Connects that gave up are gone.
        let mut texts: Vec<String> = (0..BACKLOG + 2)
            .map(|_| listener.accept().unwrap().0)
            .skip(BACKLOG)
            .map(|mut stream| {
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                text
            })
            .collect();
        texts.sort();
        assert_eq!(texts, ["one", "two"]);
        let [one, two] = late;
        assert!(one.join().unwrap().is_ok() && two.join().unwrap().is_ok());
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);

        // The end of the listener refuses the clients that wait, and resets the clients in the queue.
        let mut clients = fill(&addr);
        let name = addr.clone();
        let late = spawn(move || UnixStream::connect_addr(&name));
        sleep(S);
        drop(listener);
        assert_eq!(number(late.join().unwrap()), Some(libc::ECONNREFUSED));
        assert_eq!(number(clients[7].read(&mut [0])), Some(libc::ECONNRESET));
    });
}

#[test]
fn the_end_and_a_reset_are_told_apart() {
    check_with_system(|_| {
        with_both(|mut one, mut two| {
            one.write_all(b"bye").unwrap();
            drop(one);
            assert_eq!(number(two.write(b"x")), Some(libc::EPIPE), "the first write knows it");
            let mut text = String::new();
            two.read_to_string(&mut text).unwrap();
            assert_eq!(text, "bye");
            two.peer_addr().unwrap();
        });
        // Unread bytes at the close reset the connection.
        with_both(|mut one, mut two| {
            two.write_all(b"unread").unwrap();
            one.write_all(b"last").unwrap();
            drop(one);
            assert_eq!(number(two.write(b"x")), Some(libc::EPIPE));
            let mut last = [0; 4];
            two.read_exact(&mut last).unwrap();
            assert_eq!(&last, b"last");
            assert_eq!(number(two.read(&mut [0])), Some(libc::ECONNRESET));
            assert_eq!(two.read(&mut [0]).unwrap(), 0);
            two.shutdown(Shutdown::Both).unwrap();
        });
        // Also after the end of the other direction.
        with_both(|one, mut two| {
            two.write_all(b"unread").unwrap();
            one.shutdown(Shutdown::Write).unwrap();
            drop(one);
            assert_eq!(number(two.read(&mut [0])), Some(libc::ECONNRESET));
        });
    });
}

#[test]
fn each_direction_is_closed_by_itself() {
    check_with_system(|_| {
        with_both(|mut one, mut two| {
            one.shutdown(Shutdown::Write).unwrap();
            assert_eq!(number(one.write(b"x")), Some(libc::EPIPE));
            assert_eq!(two.read(&mut [0]).unwrap(), 0);
            two.write_all(b"back").unwrap();
            let mut back = [0; 4];
            one.read_exact(&mut back).unwrap();
            assert_eq!(&back, b"back");
            // A reader that has stopped takes nothing.
            one.shutdown(Shutdown::Read).unwrap();
            assert_eq!(number(two.write(b"x")), Some(libc::EPIPE));
            assert_eq!(one.read(&mut [0]).unwrap(), 0);
        });
        with_both(|one, two| {
            let waits = two.try_clone().unwrap();
            let reader = spawn(move || (&waits).read(&mut [0]).unwrap());
            fill(&one);
            let full = one.try_clone().unwrap();
            let writer = spawn(move || number((&full).write(b"x")));
            sleep(MS);
            two.shutdown(Shutdown::Both).unwrap();
            assert_eq!(writer.join().unwrap(), Some(libc::EPIPE));
            reader.join().unwrap();
            drop(one);
        });
    });
}

#[test]
fn a_writer_waits_for_room() {
    check_with_system(|_| {
        with_both(|one, mut two| {
            let sent = fill(&one);
            assert!((64 << 10..1 << 20).contains(&sent), "{sent}");
            one.set_write_timeout(Some(S)).unwrap();
            let start = Instant::now();
            assert_eq!((&one).write(&[7]).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(start.elapsed() >= S && (start.elapsed() == S || !sim::is_simulated()));
            let writer = spawn(move || (&one).write_all(&[7; 1000]).unwrap());
            sleep(MS);
            let mut all = Vec::new();
            two.read_to_end(&mut all).unwrap();
            writer.join().unwrap();
            assert_eq!(all.len(), sent + 1000);
        });
    });
}

#[test]
fn bytes_keep_their_order() {
    check(|| {
        let (mut one, mut two) = UnixStream::pair().unwrap();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n.wrapping_mul(n) >> 3) as u8).collect();
        let sent = bytes.clone();
        let writer = spawn(move || one.write_all(&sent).unwrap());
        let mut all = Vec::new();
        two.read_to_end(&mut all).unwrap();
        writer.join().unwrap();
        assert!(all == bytes);
    });
}

#[test]
fn waits_have_time_outs() {
    sim::run(1, || {
        let (_one, mut two) = UnixStream::pair().unwrap();
        let start = Instant::now();
        two.set_read_timeout(Some(S)).unwrap();
        assert_eq!(two.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(start.elapsed(), S);
        two.set_read_timeout(None).unwrap();
        assert!(timeout(S, || two.read(&mut [0])).is_err());
        assert_eq!(start.elapsed(), 2 * S);
        two.set_nonblocking(true).unwrap();
        assert_eq!(two.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(two.read(&mut []).unwrap(), 0);
        assert!(two.take_error().unwrap().is_none());
        let listener = UnixListener::bind("/socket").unwrap();
        assert!(timeout(S, || listener.accept()).is_err());
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_cancelled_reader_unwinds() {
    check(|| {
        let (one, two) = UnixStream::pair().unwrap();
        let reader = spawn(move || (&two).read(&mut [0]));
        sleep(MS);
        reader.cancel();
        assert!(reader.join().unwrap_err().is::<thread::Cancelled>());
        // Its end is closed.
        assert_eq!((&one).read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn futures_and_select_wait_for_sockets() {
    check(|| {
        let listener = UnixListener::bind("/socket").unwrap();
        let (one, two) = runtime::block_on(async {
            let (accepted, connected) =
                futures::join!(listener.accept_async(), UnixStream::connect_async("/socket"));
            (accepted.unwrap().0, connected.unwrap())
        });
        runtime::block_on(async {
            let mut buf = [0; 8];
            let late = async {
                sleep_async(S).await;
                two.write_all_async(b"hello").await
            };
            let (read, written) = futures::join!(one.read_async(&mut buf), late);
            assert_eq!((read.unwrap(), written.is_ok()), (5, true));
            assert!(timeout_async(S, one.read_async(&mut buf)).await.is_err());
            one.writable_async().await.unwrap();
        });
        select! {
            readable(one) -> _ => panic!("nothing was sent"),
            timer(S) -> _ => {},
        }
        (&two).write_all(b"x").unwrap();
        select! {
            readable(one) -> ready => ready.unwrap(),
            timer(S) -> _ => panic!("a byte was sent"),
        }
    });
}

#[test]
fn no_fault_of_the_network_concerns_them() {
    check(|| {
        net::partition("main", "main");
        with_both(|mut one, mut two| {
            net::reset("main", "main");
            net::hold("main", "main");
            one.write_all(b"x").unwrap();
            two.read_exact(&mut [0]).unwrap();
        });
    });
}

#[test]
fn a_killed_node_loses_its_sockets() {
    check(|| {
        // Both ends were made on the node; one is in the hands of the main node.
        let (s, r) = runtime::sync::mpsc::channel();
        let node = sim::node("db", move || {
            let _listener = UnixListener::bind("/socket").map_err(|error| error.raw_os_error());
            let _named = UnixListener::bind_addr(&abstract_name("name")).unwrap();
            let found = UnixStream::connect("/socket").map(drop);
            let (one, two) = UnixStream::pair().unwrap();
            s.send((one, number(found))).unwrap();
            let _ = (&two).read(&mut [0]);
        });
        let (mut stream, found) = r.recv().unwrap();
        assert_eq!(found, None);
        let reader = spawn(move || (number(stream.read(&mut [0])), number(stream.write(&[0]))));
        sleep(MS);
        node.kill();
        assert_eq!(reader.join().unwrap(), (Some(libc::ENETDOWN), Some(libc::ENETDOWN)));
        // The path stays on the disk, without a listener. The abstract name is free.
        node.restart();
        let (_stream, found) = r.recv().unwrap();
        assert_eq!(found, Some(libc::ECONNREFUSED));
        node.kill();
    });
}

#[test]
fn a_wait_for_a_byte_that_no_one_sends_is_a_deadlock() {
    let message = |main: fn()| {
        let failure = Builder::new().shrink(false).try_explore(1, main).unwrap_err();
        assert!(failure.message().contains("deadlock"), "{failure}");
        failure.message().to_string()
    };
    let text = message(|| {
        let listener = UnixListener::bind("/run.sock").unwrap();
        let stream = UnixStream::connect("/run.sock").unwrap();
        let _accepted = listener.accept().unwrap();
        let _ = (&stream).read(&mut [0]);
    });
    assert!(text.contains("to read, unnamed to /run.sock"), "{text}");
    let text = message(|| {
        let (one, _two) = UnixStream::pair().unwrap();
        fill(&one);
        let _ = (&one).write(&[0]);
    });
    assert!(text.contains("to write, unnamed to unnamed"), "{text}");
    let text = message(|| drop(UnixListener::bind_addr(&abstract_name("db")).unwrap().accept()));
    assert!(text.contains("to read, @db"), "{text}");
    let text = message(|| {
        let _listener = UnixListener::bind_addr(&abstract_name("db")).unwrap();
        let _clients: Vec<_> =
            (0..=BACKLOG).map(|_| UnixStream::connect_addr(&abstract_name("db")).unwrap()).collect();
    });
    assert!(text.contains("to write, unnamed to @db"), "{text}");
}

#[test]
fn what_has_no_descriptor_says_so() {
    sim::run(1, || {
        let (one, two) = UnixStream::pair().unwrap();
        assert_eq!(one.into_std().unwrap_err().kind(), ErrorKind::Unsupported);
        let panic = catch_unwind(AssertUnwindSafe(|| two.as_raw_fd())).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("no descriptor"));
        let listener = UnixListener::bind("/socket").unwrap();
        assert_eq!(listener.into_std().unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(UnixDatagram::unbound().unwrap().into_std().unwrap_err().kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn a_server_of_the_crate_runs_unchanged() {
    check(|| {
        let listener = UnixListener::bind("/socket").unwrap();
        let serve = |stream: UnixStream| drop(io::copy(&mut &stream, &mut &stream));
        let server = Server::builder().start(listener, serve).unwrap();
        let mut stream = UnixStream::connect("/socket").unwrap();
        stream.write_all(b"hello").unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello");
        // The connection is idle.
        assert_eq!(server.shutdown(S), 0);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn signals_can_be_asked_for() {
    sim::run(1, || drop(runtime::signal::notify(&[libc::SIGUSR2]).unwrap()));
}

/// Returns a socket at `name` in `dir`, and one without an address.
fn receiver_and_sender(path: &Path) -> (UnixDatagram, UnixDatagram) {
    (UnixDatagram::bind(path).unwrap(), UnixDatagram::unbound().unwrap())
}

/// Sends to `path` until there is no room. Returns the number of datagrams.
fn fill_inbox(sender: &UnixDatagram, path: &Path) -> usize {
    sender.set_nonblocking(true).unwrap();
    let mut sent = 0;
    let full = loop {
        match sender.send_to(b"datagram", path) {
            Ok(n) => sent += n / 8,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    sender.set_nonblocking(false).unwrap();
    sent
}

#[test]
fn datagrams_keep_their_bounds_and_order() {
    check_with_system(|dir| {
        let (server, client) = receiver_and_sender(&dir.join("datagrams"));
        assert!(client.local_addr().unwrap().is_unnamed());
        assert_eq!(number(client.peer_addr()), Some(libc::ENOTCONN));
        client.send_to(b"one", dir.join("datagrams")).unwrap();
        client.send_to(b"", dir.join("datagrams")).unwrap();
        client.connect(dir.join("datagrams")).unwrap();
        assert!(client.peer_addr().unwrap().as_pathname().unwrap().ends_with("datagrams"));
        assert_eq!(client.send(b"three").unwrap(), 5);
        let mut buf = [0; 100];
        let (n, sender) = server.recv_from(&mut buf).unwrap();
        assert!(&buf[..n] == b"one" && sender.is_unnamed());
        assert_eq!(server.recv(&mut buf).unwrap(), 0);
        // What does not fit is lost.
        assert_eq!(server.recv(&mut buf[..2]).unwrap(), 2);
        assert_eq!(&buf[..2], b"th");
        server.set_nonblocking(true).unwrap();
        assert_eq!(server.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);

        // An answer goes to the address of the sender.
        let named = UnixDatagram::bind(dir.join("named")).unwrap();
        named.send_to(b"question", dir.join("datagrams")).unwrap();
        let (_, sender) = server.recv_from(&mut buf).unwrap();
        assert!(sender.as_pathname().unwrap().ends_with("named"));
        server.send_to_addr(b"answer", &sender).unwrap();
        let (n, sender) = named.recv_from(&mut buf).unwrap();
        assert!(&buf[..n] == b"answer" && sender.as_pathname().unwrap().ends_with("datagrams"));
        let long = vec![0; 1 << 20];
        assert_eq!(number(named.send_to(&long, dir.join("datagrams"))), Some(libc::EMSGSIZE));
    });
}

#[test]
fn errors_of_datagrams_are_those_of_the_system() {
    check_with_system(|dir| {
        let at = |name| dir.join(name);
        let (server, client) = receiver_and_sender(&at("server"));
        assert_eq!(number(UnixDatagram::bind(at("server"))), Some(libc::EADDRINUSE));
        assert_eq!(number(client.send(b"x")), Some(libc::ENOTCONN));
        assert_eq!(number(client.send_to(b"x", at("none"))), Some(libc::ENOENT));
        assert_eq!(number(client.connect(at("none"))), Some(libc::ENOENT));
        assert_eq!(number(UnixStream::connect(at("server"))), Some(libc::EPROTOTYPE));
        let _listener = UnixListener::bind(at("listener")).unwrap();
        assert_eq!(number(client.connect(at("listener"))), Some(libc::EPROTOTYPE));
        assert_eq!(number(client.send_to(b"x", at("listener"))), Some(libc::EPROTOTYPE));

        // A socket with a peer takes datagrams of that peer only.
        let friend = UnixDatagram::bind(at("friend")).unwrap();
        server.connect(at("friend")).unwrap();
        assert_eq!(number(client.send_to(b"x", at("server"))), Some(libc::EPERM));
        assert_eq!(number(client.connect(at("server"))), Some(libc::EPERM));
        friend.send_to(b"x", at("server")).unwrap();
        assert_eq!(server.recv(&mut [0; 9]).unwrap(), 1);

        // The end of a peer is reported once. A receiver never hears of it.
        drop(friend);
        assert_eq!(number(server.send(b"x")), Some(libc::ECONNREFUSED));
        assert_eq!(number(server.send(b"x")), Some(libc::ENOTCONN));
        assert_eq!(number(client.send_to(b"x", at("friend"))), Some(libc::ECONNREFUSED));
        server.set_read_timeout(Some(MS)).unwrap();
        assert_eq!(server.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);

        // A new peer: what the old one has sent is lost, and the old one gets an error.
        let (one, two) = (UnixDatagram::bind(at("one")).unwrap(), UnixDatagram::bind(at("two")).unwrap());
        one.connect(at("two")).unwrap();
        two.connect(at("one")).unwrap();
        one.send(b"lost").unwrap();
        two.connect(at("server")).unwrap();
        assert_eq!(number(one.recv(&mut [0])), Some(libc::ECONNRESET));
        two.set_read_timeout(Some(MS)).unwrap();
        assert_eq!(two.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(number(one.send(b"x")), Some(libc::EPERM));

        let (one, two) = UnixDatagram::pair().unwrap();
        one.shutdown(Shutdown::Write).unwrap();
        assert_eq!(number(one.send(b"x")), Some(libc::EPIPE));
        two.send(b"x").unwrap();
        one.shutdown(Shutdown::Read).unwrap();
        assert_eq!(number(two.send(b"x")), Some(libc::EPIPE));
        assert_eq!(one.recv(&mut [0]).unwrap(), 1);
    });
}

#[test]
fn a_full_inbox_holds_senders_up() {
    check_with_system(|dir| {
        let path = dir.join("full");
        let (receiver, sender) = receiver_and_sender(&path);
        let sent = fill_inbox(&sender, &path);
        assert!(sent >= 10, "{sent}");
        if sim::is_simulated() {
            assert_eq!(sent, 11);
        }
        let start = Instant::now();
        sender.set_write_timeout(Some(10 * MS)).unwrap();
        assert_eq!(sender.send_to(b"x", &path).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(start.elapsed() >= 10 * MS);
        let connected = UnixDatagram::unbound().unwrap();
        connected.connect(&path).unwrap();
        connected.set_write_timeout(Some(10 * MS)).unwrap();
        assert_eq!(connected.send(b"x").unwrap_err().kind(), ErrorKind::WouldBlock);
        sender.set_write_timeout(None).unwrap();
        connected.set_write_timeout(None).unwrap();
        let to = path.clone();
        let one = spawn(move || sender.send_to(b"late", to));
        let two = spawn(move || connected.send(b"late"));
        sleep(MS);
        let mut buf = [0; 100];
        (0..sent).for_each(|_| assert_eq!(receiver.recv(&mut buf).unwrap(), 8));
        (0..2).for_each(|_| assert_eq!(receiver.recv(&mut buf).unwrap(), 4));
        assert_eq!((one.join().unwrap().unwrap(), two.join().unwrap().unwrap()), (4, 4));
    });
}

#[test]
fn the_end_of_a_full_receiver_ends_the_wait_of_senders() {
    check_with_system(|dir| {
        let path = dir.join("full");
        let (receiver, sender) = receiver_and_sender(&path);
        fill_inbox(&sender, &path);
        let connected = UnixDatagram::unbound().unwrap();
        connected.connect(&path).unwrap();
        let one = spawn(move || sender.send_to(b"late", path));
        let two = spawn(move || connected.send(b"late"));
        sleep(MS);
        drop(receiver);
        assert_eq!(number(one.join().unwrap()), Some(libc::ECONNREFUSED));
        assert_eq!(number(two.join().unwrap()), Some(libc::ECONNREFUSED));
    });
}

#[test]
fn an_end_of_a_pair_is_bound_by_what_it_has_sent() {
    check_with_system(|_| {
        let (one, two) = UnixDatagram::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let sent = std::iter::repeat_with(|| one.send(&[7; 1000])).take_while(Result::is_ok).count();
        assert!((50..300).contains(&sent), "{sent}");
        one.set_nonblocking(false).unwrap();
        let writer = spawn(move || one.send(b"late"));
        sleep(MS);
        let mut buf = [0; 2000];
        (0..sent).for_each(|_| assert_eq!(two.recv(&mut buf).unwrap(), 1000));
        assert_eq!(two.recv(&mut buf).unwrap(), 4);
        writer.join().unwrap().unwrap();
    });
}

#[test]
fn datagrams_are_awaited_and_cancelled() {
    check(|| {
        let (receiver, sender) = receiver_and_sender(Path::new("/socket"));
        runtime::block_on(async {
            let mut buf = [0; 8];
            let late = async {
                sleep_async(S).await;
                sender.send_to_async(b"hello", "/socket").await
            };
            let (received, sent) = futures::join!(receiver.recv_async(&mut buf), late);
            assert_eq!((received.unwrap(), sent.unwrap()), (5, 5));
            assert!(timeout_async(S, receiver.recv_async(&mut buf)).await.is_err());
        });
        select! {
            readable(receiver) -> _ => panic!("nothing was sent"),
            timer(S) -> _ => {},
        }
        let sent = fill_inbox(&sender, Path::new("/socket"));
        runtime::block_on(async {
            assert!(timeout_async(S, sender.send_to_async(b"x", "/socket")).await.is_err());
            let late = async {
                sleep_async(S).await;
                receiver.recv_async(&mut [0; 8]).await
            };
            let (sent, received) = futures::join!(sender.send_to_async(b"x", "/socket"), late);
            assert_eq!((sent.unwrap(), received.unwrap()), (1, 8));
            sender.connect("/socket").unwrap();
            assert!(timeout_async(S, sender.writable_async()).await.is_err(), "the peer has no room");
            receiver.recv(&mut [0; 8]).unwrap();
            sender.writable_async().await.unwrap();
        });
        (0..sent - 1).for_each(|_| assert!(receiver.recv(&mut [0; 8]).is_ok()));
        let reader = spawn(move || receiver.recv(&mut [0]));
        sleep(MS);
        reader.cancel();
        assert!(reader.join().unwrap_err().is::<thread::Cancelled>());
        assert_eq!(number(sender.send(b"x")), Some(libc::ECONNREFUSED));
    });
}

#[test]
fn names_of_datagrams_are_those_of_a_node_and_type() {
    check(|| {
        let addr = abstract_name("name");
        let _listener = UnixListener::bind_addr(&addr).unwrap();
        let socket = UnixDatagram::bind_addr(&addr).unwrap();
        assert_eq!(number(UnixDatagram::bind_addr(&addr)), Some(libc::EADDRINUSE));
        let node = sim::node("db", || {
            let addr = abstract_name("name");
            let sender = UnixDatagram::unbound().unwrap();
            assert_eq!(number(sender.send_to_addr(b"x", &addr)), Some(libc::ECONNREFUSED));
            let _own = UnixDatagram::bind_addr(&addr).unwrap();
            sender.send_to_addr(b"x", &addr).unwrap();
            sender
        });
        let of_other_node = node.join().unwrap();
        of_other_node.set_nonblocking(true).unwrap();
        // A socket looks for names on the node on which it was made.
        assert_eq!(number(of_other_node.send_to_addr(b"x", &addr)), Some(libc::ECONNREFUSED));
        node.kill();
        assert_eq!(number(of_other_node.send_to_addr(b"x", &addr)), Some(libc::ENETDOWN));
        socket.set_nonblocking(true).unwrap();
        assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_wait_for_a_datagram_or_for_room_is_a_deadlock() {
    let message = |main: fn()| {
        let failure = Builder::new().shrink(false).try_explore(1, main).unwrap_err();
        assert!(failure.message().contains("deadlock"), "{failure}");
        failure.message().to_string()
    };
    let text = message(|| drop(UnixDatagram::bind("/run.sock").unwrap().recv(&mut [0])));
    assert!(text.contains("to read, /run.sock"), "{text}");
    let text = message(|| {
        let (_receiver, sender) = receiver_and_sender(Path::new("/run.sock"));
        sender.connect("/run.sock").unwrap();
        fill_inbox(&sender, Path::new("/run.sock"));
        let _ = sender.send(b"x");
    });
    assert!(text.contains("to write, unnamed to /run.sock"), "{text}");
    let text = message(|| {
        let (_receiver, sender) = receiver_and_sender(Path::new("/run.sock"));
        fill_inbox(&sender, Path::new("/run.sock"));
        let _ = sender.send_to(b"x", "/run.sock");
    });
    assert!(text.contains("to write, unnamed"), "{text}");
}
