//! The simulated network of `runtime::sim`: nodes, TCP, its errors, time-outs and cancellation.

use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use runtime::net::{Server, TcpListener, TcpStream, UdpSocket, lookup_host};
use runtime::sim::{self, Builder, Node, net};
use runtime::time::{sleep_async, timeout, timeout_async};
use runtime::{select, sleep, spawn, thread, yield_now};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Runs `main` with some seeds, each twice.
fn check(main: impl Fn() + Send + Sync) {
    Builder::new().check_determinism(true).explore(20, main);
}

/// Returns both ends of a connection within one node.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Starts a node that echoes, at port 7.
fn echo(name: &str) -> Node<()> {
    let node = sim::node(name, || {
        for stream in TcpListener::bind("0.0.0.0:7").unwrap().incoming() {
            let stream = stream.unwrap();
            spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
    sleep(MS);
    node
}

fn says(stream: &mut TcpStream, text: &str) -> io::Result<String> {
    stream.write_all(text.as_bytes())?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8(answer).unwrap())
}

/// One call on a simulated socket fills one buffer.
#[test]
fn a_read_into_several_buffers_leaves_bytes_for_the_next_read() {
    check(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // The bytes arrive before the server has its socket, so no event reports them. After an event, each
        // read is tried at once.
        client.write_all(b"hello").unwrap();
        sleep(S);
        let (mut server, _) = listener.accept().unwrap();
        // A read that waits although bytes are there gets them when its time is up.
        server.set_read_timeout(Some(5 * S)).unwrap();
        let begun = Instant::now();
        let (mut one, mut two) = ([0; 2], [0; 3]);
        let n = server.read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]).unwrap();
        server.read_exact(&mut [0; 5][n..]).unwrap();
        assert!(begun.elapsed() < 5 * S);
    });
}

#[test]
fn nodes_talk_by_address_and_by_name() {
    check(|| {
        let (_a, _b) = (echo("10.0.0.1"), echo("db"));
        let client = sim::node("10.0.0.2", || {
            let mut one = TcpStream::connect("10.0.0.1:7").unwrap();
            let mut two = TcpStream::connect(("db", 7)).unwrap();
            assert_eq!(one.local_addr().unwrap().ip().to_string(), "10.0.0.2");
            assert_eq!(one.peer_addr().unwrap().to_string(), "10.0.0.1:7");
            assert_ne!(one.local_addr().unwrap(), two.local_addr().unwrap());
            (says(&mut one, "one").unwrap(), says(&mut two, "two").unwrap())
        });
        assert_eq!(client.join().unwrap(), ("one".into(), "two".into()));
    });
}

#[test]
fn large_transfers_keep_their_order() {
    check(|| {
        let node = sim::node("10.0.0.1", || {
            let (mut stream, _) = TcpListener::bind("10.0.0.1:80").unwrap().accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            all
        });
        sleep(MS);
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n.wrapping_mul(n) >> 3) as u8).collect();
        TcpStream::connect("10.0.0.1:80").unwrap().write_all(&bytes).unwrap();
        assert!(node.join().unwrap() == bytes);
    });
}

#[test]
fn a_packet_takes_time_between_nodes_and_none_within_one() {
    sim::run(1, || {
        let _node = echo("db");
        let start = Instant::now();
        let mut stream = TcpStream::connect("db:7").unwrap();
        assert!((2 * MS..=20 * MS).contains(&start.elapsed()), "{:?}", start.elapsed());
        says(&mut stream, "hello").unwrap();
        assert!((4 * MS..=40 * MS).contains(&start.elapsed()));
        let start = Instant::now();
        let (mut one, mut two) = pair();
        one.write_all(b"x").unwrap();
        two.read_exact(&mut [0]).unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn errors_are_those_of_the_system() {
    sim::run(1, || {
        let refused = TcpStream::connect("127.0.0.1:1").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
        let listener = TcpListener::bind("0.0.0.0:80").unwrap();
        let taken = TcpListener::bind("127.0.0.1:80").unwrap_err();
        assert_eq!(taken.raw_os_error(), Some(libc::EADDRINUSE));
        drop(listener);
        TcpListener::bind("127.0.0.1:80").unwrap();
        let foreign = TcpListener::bind("10.9.9.9:80").unwrap_err();
        assert_eq!(foreign.raw_os_error(), Some(libc::EADDRNOTAVAIL));
        let _node = sim::node("db", thread::park);
        let refused = TcpStream::connect("db:80").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
        assert_eq!(TcpStream::connect("nowhere:80").unwrap_err().kind(), ErrorKind::NotFound);
        let start = Instant::now();
        let lost = TcpStream::connect("10.7.7.7:80").unwrap_err();
        assert_eq!((lost.raw_os_error(), start.elapsed()), (Some(libc::ETIMEDOUT), 127 * S));
        let lost = TcpStream::connect_timeout(&"10.7.7.7:80".parse().unwrap(), S).unwrap_err();
        assert_eq!((lost.kind(), start.elapsed()), (ErrorKind::TimedOut, 128 * S));
    });
}

#[test]
fn names_resolve() {
    sim::run(1, || {
        let node = sim::node("db", || ());
        let found: Vec<_> = lookup_host("db:5432").unwrap().collect();
        assert_eq!(found, [(node.ip(), 5432).into()]);
        assert_eq!(lookup_host(("localhost", 1)).unwrap().next().unwrap().to_string(), "127.0.0.1:1");
        assert!(lookup_host("other:1").is_err());
    });
}

#[test]
fn the_end_and_a_reset_are_told_apart() {
    sim::run(1, || {
        let (mut one, mut two) = pair();
        one.write_all(b"bye").unwrap();
        drop(one);
        let mut text = String::new();
        two.read_to_string(&mut text).unwrap();
        assert_eq!(text, "bye");
        // The peer is gone: the first write is answered by a reset, the second fails.
        two.write_all(b"x").unwrap();
        assert_eq!(two.write_all(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);

        // Unread bytes at the close reset the connection.
        let (one, mut two) = pair();
        two.write_all(b"unread").unwrap();
        drop(one);
        assert_eq!(two.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(two.read(&mut [0]).unwrap(), 0);
        assert_eq!(two.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);

        let (one, mut two) = pair();
        one.set_linger(Some(Duration::ZERO)).unwrap();
        drop(one);
        assert_eq!(two.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn each_direction_is_closed_by_itself() {
    check(|| {
        let (mut one, mut two) = pair();
        one.shutdown(Shutdown::Write).unwrap();
        assert_eq!(one.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(two.read(&mut [0]).unwrap(), 0);
        two.write_all(b"back").unwrap();
        let mut back = [0; 4];
        one.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"back");
        let waits = two.try_clone().unwrap();
        let reader = spawn(move || (&waits).read(&mut [0]).unwrap());
        sleep(MS);
        two.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn a_look_leaves_the_bytes() {
    sim::run(1, || {
        let (mut one, mut two) = pair();
        one.write_all(b"hello").unwrap();
        let mut bytes = [0; 5];
        assert_eq!((two.peek(&mut bytes).unwrap(), &bytes), (5, b"hello"));
        two.read_exact(&mut bytes).unwrap();
        two.set_nonblocking(true).unwrap();
        assert_eq!(two.peek(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(two.read(&mut []).unwrap(), 0);
    });
}

#[test]
fn a_writer_waits_for_room() {
    check(|| {
        let (one, mut two) = pair();
        one.set_nonblocking(true).unwrap();
        let mut sent = 0;
        let full = loop {
            match (&one).write(&[7; 1000]) {
                Ok(n) => sent += n,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        one.set_nonblocking(false).unwrap();
        one.set_write_timeout(Some(S)).unwrap();
        let start = Instant::now();
        assert_eq!((&one).write(&[7]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(start.elapsed(), S);
        let writer = spawn(move || (&one).write_all(&[7; 1000]).unwrap());
        let mut all = Vec::new();
        two.read_to_end(&mut all).unwrap();
        writer.join().unwrap();
        assert_eq!(all.len(), sent + 1000);
    });
}

#[test]
fn waits_have_time_outs() {
    sim::run(1, || {
        let (_one, mut two) = pair();
        let start = Instant::now();
        two.set_read_timeout(Some(S)).unwrap();
        assert_eq!(two.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(start.elapsed(), S);
        two.set_read_timeout(None).unwrap();
        assert!(timeout(S, || two.read(&mut [0])).is_err());
        assert_eq!(start.elapsed(), 2 * S);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(timeout(S, || listener.accept()).is_err());
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_cancelled_reader_unwinds() {
    check(|| {
        let (one, two) = pair();
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
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (one, two) = runtime::block_on(async {
            let (accepted, connected) =
                futures::join!(listener.accept_async(), TcpStream::connect_async(addr));
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
        let client = spawn(move || TcpStream::connect(addr).unwrap());
        select! {
            accept(listener) -> accepted => drop(accepted.unwrap()),
            timer(S) -> _ => panic!("a client has connected"),
        }
        client.join().unwrap();
    });
}

#[test]
fn a_killed_node_unwinds_and_resets_its_connections() {
    check(|| {
        struct Says(runtime::sync::mpsc::Sender<&'static str>, TcpStream);
        impl Drop for Says {
            fn drop(&mut self) {
                // The node is down: nothing of this arrives.
                assert!((&self.1).write_all(b"late").is_err());
                self.0.send("unwound").unwrap();
            }
        }
        let (s, r) = runtime::sync::mpsc::channel();
        let node = sim::node("db", move || {
            let listener = TcpListener::bind("0.0.0.0:80").unwrap();
            let (stream, _) = listener.accept().unwrap();
            let says = Says(s.clone(), stream);
            spawn(move || {
                let _says = says;
                thread::park();
            });
            thread::park();
        });
        sleep(MS);
        let mut stream = TcpStream::connect("db:80").unwrap();
        sleep(S);
        node.kill();
        assert_eq!(r.try_recv(), Ok("unwound"));
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert!(node.join().unwrap_err().is::<thread::Cancelled>());
        let start = Instant::now();
        assert!(TcpStream::connect_timeout(&(node.ip(), 80).into(), S).is_err());
        assert_eq!(start.elapsed(), S, "no one answers");
    });
}

#[test]
fn a_restarted_node_serves_again() {
    check(|| {
        let node = echo("db");
        let mut stream = TcpStream::connect("db:7").unwrap();
        assert_eq!(says(&mut stream, "one").unwrap(), "one");
        node.restart();
        assert_eq!(says(&mut stream, "two").unwrap_err().kind(), ErrorKind::ConnectionReset);
        let mut stream = TcpStream::connect("db:7").unwrap();
        assert_eq!(says(&mut stream, "three").unwrap(), "three");
    });
}

#[test]
fn a_partition_delays_tcp_and_ends_it_at_last() {
    check(|| {
        let _node = echo("db");
        let mut stream = TcpStream::connect("db:7").unwrap();
        net::partition("main", "db");
        stream.set_read_timeout(Some(60 * S)).unwrap();
        assert_eq!(says(&mut stream, "one").unwrap_err().kind(), ErrorKind::WouldBlock);
        net::repair("main", "db");
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"one");
        // The other direction alone.
        net::partition_oneway("db", "main");
        stream.write_all(b"two").unwrap();
        stream.set_read_timeout(None).unwrap();
        let start = Instant::now();
        stream.set_read_timeout(Some(2000 * S)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        net::repair("db", "main");
        // The node has given the connection up, and this end does not know it until it sends.
        assert!(start.elapsed() == 2000 * S);
        assert!(says(&mut stream, "three").is_err());
    });
}

#[test]
fn a_half_open_connection_is_found_by_sending() {
    check(|| {
        let node = echo("db");
        let mut stream = TcpStream::connect("db:7").unwrap();
        net::partition("main", "db");
        node.kill();
        // The reset is lost.
        sleep(S);
        net::repair("main", "db");
        node.restart();
        stream.set_read_timeout(Some(3600 * S)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "it hears nothing");
        assert_eq!(says(&mut stream, "x").unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_node_that_panics_fails_the_simulation() {
    let failure = Builder::new().shrink(false).try_explore(1, || {
        drop(sim::node("db", || panic!("on a node")));
        sleep(S);
    });
    assert!(failure.unwrap_err().message().contains("on a node"));
}

#[test]
fn a_wait_for_a_lost_answer_is_a_deadlock() {
    let failure = Builder::new().shrink(false).try_explore(1, || {
        let (_one, two) = pair();
        let _ = (&two).read(&mut [0]);
    });
    let failure = failure.unwrap_err();
    assert!(failure.message().contains("deadlock"), "{failure}");
    assert!(failure.message().contains("127.0.0.1:49152 to 127.0.0.1:49153"), "{failure}");
}

#[test]
fn what_has_no_descriptor_says_so() {
    sim::run(1, || {
        let (one, two) = pair();
        assert_eq!(one.into_std().unwrap_err().kind(), ErrorKind::Unsupported);
        let panic = catch_unwind(AssertUnwindSafe(|| two.as_raw_fd())).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("no descriptor"));
    });
}

#[test]
fn a_server_of_the_crate_runs_unchanged() {
    check(|| {
        let node = sim::node("web", || {
            let listener = TcpListener::bind("0.0.0.0:80").unwrap();
            let serve = |stream: TcpStream| drop(io::copy(&mut &stream, &mut &stream));
            Server::builder().start(listener, serve).unwrap()
        });
        let server = node.join().unwrap();
        let mut stream = TcpStream::connect("web:80").unwrap();
        assert_eq!(says(&mut stream, "hello").unwrap(), "hello");
        // The connection is idle.
        assert_eq!(server.shutdown(S), 0);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
}

/// Returns the processor's counter, which is not simulated.
#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 has the counter, and Linux lets programs read it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let ticks;
    // SAFETY: every 64-bit Arm has the counter, Linux lets programs read it, and the read changes nothing.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

fn wait_for_ticks(ticks: u64) {
    let start = counter();
    while counter().wrapping_sub(start) < ticks {
        std::hint::spin_loop();
    }
}

/// A scheduler may look at the processor's counter to see that no timer is due yet. Simulated time jumps, and
/// does not follow it.
#[test]
fn whether_a_timer_or_a_packet_of_one_moment_is_first_depends_on_the_seed_only() {
    // About a millisecond: the counter of Arm is slower.
    const TICKS: u64 = if cfg!(target_arch = "x86_64") { 2_000_000 } else { 50_000 };
    let start = Instant::now();
    wait_for_ticks(20 * TICKS);
    let pause = start.elapsed() / 20;
    let timer_is_first = |ticks| {
        let arrived = Arc::new(AtomicUsize::new(0));
        let counts = arrived.clone();
        let _receiver = sim::node("receiver", move || {
            let socket = UdpSocket::bind("0.0.0.0:9").unwrap();
            while socket.recv(&mut [0]).is_ok() {
                counts.fetch_add(1, Relaxed);
            }
        });
        net::set_quality("main", "receiver", net::Quality::new().latency(pause..=pause));
        let socket = UdpSocket::bind("0.0.0.0:8").unwrap();
        let round = |sent| {
            // With so many ticks, the clock and the counter have one pace.
            wait_for_ticks(ticks);
            socket.send_to(&[1], "receiver:9").unwrap();
            sleep(pause);
            let first = arrived.load(Relaxed) == sent;
            while arrived.load(Relaxed) == sent {
                yield_now();
            }
            first
        };
        (0..100).map(round).collect::<Vec<_>>()
    };
    let order = sim::run(1, || timer_is_first(0));
    assert!(order.contains(&true) && order.contains(&false), "{order:?}");
    assert_eq!(sim::run(1, || timer_is_first(TICKS)), order);
}

/// The name of a node is the name of a green thread, too, which debuggers read as a C string.
#[test]
fn a_node_with_a_zero_byte_in_its_name_is_refused() {
    sim::run(1, || {
        let refused = catch_unwind(|| sim::node("a\0b", || ())).unwrap_err();
        let text = refused.downcast_ref::<String>().unwrap();
        assert!(text.contains(r#""a\0b""#) && text.contains("zero byte"), "{text}");
        assert_eq!(
            sim::node("a", || ()).ip().to_string(),
            "192.168.0.2",
            "the refused node has taken no address"
        );
    });
}

#[cfg(unix)]
#[test]
fn sockets_are_awaited_for_an_interest() {
    use runtime::net::unix::UnixStream;
    use runtime::net::{Interest, Ready};
    check(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (two, _) = listener.accept().unwrap();
        let both = Interest::READABLE | Interest::WRITABLE;
        assert_eq!(one.ready(both).unwrap(), Ready::WRITABLE);
        assert!(timeout(S, || one.readable()).is_err());
        let waits = spawn({
            let one = one.try_clone().unwrap();
            move || one.readable()
        });
        (&two).write_all(b"x").unwrap();
        waits.join().unwrap().unwrap();
        assert_eq!(one.ready(both).unwrap(), Ready::READABLE | Ready::WRITABLE);
        two.shutdown(Shutdown::Write).unwrap();
        sleep(S);
        let ready = one.ready(Interest::READABLE).unwrap();
        assert!(ready.is_readable() && ready.is_read_closed() && !ready.is_write_closed());

        let (from, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        from.send_to(b"hello", to.local_addr().unwrap()).unwrap();
        assert_eq!(to.peek_sender().unwrap(), from.local_addr().unwrap());
        assert_eq!(to.recv(&mut [0; 9]).unwrap(), 5);
        let (end, _other) = UnixStream::pair().unwrap();
        assert_eq!(end.peer_cred().unwrap_err().kind(), std::io::ErrorKind::Unsupported);
    });
}
