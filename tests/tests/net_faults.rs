//! Faults of the network: peers that vanish, reset, close by halves or read slowly, and signals that interrupt every call. A waiter
//! waits is told, all others go on, and no byte is lost or made up.
#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::net::unix::{UnixDatagram, UnixListener, UnixStream};
use runtime::net::{Async, TcpStream, UdpSocket};
use runtime::time::timeout;
use runtime::{JoinHandle, sleep, spawn};
use socket2::{SockFilter, SockRef, TcpKeepalive};
use tests::child;
use tests::sockets::{connected, fill, full, listener, push};
use tests::{PROCS, Watchdog, everywhere, on, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Nothing that is sent to this socket arrives any more, and nothing is answered, not even by an RST: as if its machine were gone.
/// (A filter of the socket's own drops every segment, for which one needs no rights. What this end sends still arrives.)
fn vanish(socket: &impl AsFd) {
    const DROP_ALL: SockFilter = SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0);
    SockRef::from(socket).attach_filter(&[DROP_ALL]).unwrap();
}

/// It is there again.
fn come_back(socket: &impl AsFd) {
    SockRef::from(socket).detach_filter().unwrap();
}

/// A connection in which the system keeps little, however large its own buffers may become.
fn narrow() -> (TcpStream, TcpStream) {
    let (client, server) = connected();
    SockRef::from(&client).set_send_buffer_size(65_536).unwrap();
    SockRef::from(&server).set_recv_buffer_size(65_536).unwrap();
    (client, server)
}

/// Bytes that were written and are not yet acknowledged.
fn under_way(socket: &impl AsFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: it writes one number to where it is told.
    assert_eq!(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) }, 0);
    bytes
}

/// One probe after a second of silence, and the end a second later: the system's shortest times.
fn keep_alive(stream: &TcpStream) {
    let soon = TcpKeepalive::new().with_time(SECOND).with_interval(SECOND).with_retries(1);
    SockRef::from(stream).set_tcp_keepalive(&soon).unwrap();
}

/// Runs `main` as `everywhere` does, and all at once: it waits for the system's slow clocks.
fn everywhere_at_once(main: impl Fn() + Send + Sync) {
    let (_dog, main) = (Watchdog::new(), &main);
    std::thread::scope(|scope| {
        let on_runtimes = PROCS.map(|procs| scope.spawn(move || on(procs, main)));
        main();
        on_runtimes.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Two who send each other a byte each millisecond, whatever becomes of the rest.
struct Others {
    rounds: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    threads: [JoinHandle<()>; 2],
}

impl Others {
    fn start() -> Others {
        let (rounds, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (mut client, mut server) = connected();
        let echo = spawn(move || while server.read(&mut [0]).unwrap() == 1 && server.write(&[0]).is_ok() {});
        let (counted, stopped) = (rounds.clone(), stop.clone());
        let asks = spawn(move || {
            while !stopped.load(SeqCst) {
                client.write_all(&[0]).unwrap();
                client.read_exact(&mut [0]).unwrap();
                counted.fetch_add(1, SeqCst);
                sleep(MILLI);
            }
        });
        Others { rounds, stop, threads: [echo, asks] }
    }

    /// They have gone on so many times meanwhile, and still do.
    fn went_on(self, times: usize) {
        let rounds = self.rounds.load(SeqCst);
        assert!(rounds >= times, "{rounds} rounds");
        self.go_on(1);
    }

    /// They go on so many times, and end.
    fn go_on(self, times: usize) {
        let before = self.rounds.load(SeqCst);
        wait_until("the others go on", || self.rounds.load(SeqCst) >= before + times);
        self.stop.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

// Peers that vanish --------------------------------------------------------------------------------------------

#[test]
fn keep_alive_ends_the_reads_whose_peer_is_gone() {
    everywhere_at_once(|| {
        let others = Others::start();
        let read = |(mut client, server): (TcpStream, TcpStream)| {
            let start = Instant::now();
            let error = client.read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            assert!(start.elapsed() >= SECOND, "nothing was sent, so nothing else can tell");
            // Told once, as by std.
            assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
            assert_eq!(client.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
            drop(server);
        };
        let silent = connected();
        // This one has been read from: it is known to have nothing more for now.
        let (mut client, mut server) = connected();
        server.write_all(b"x").unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 1);
        wait_until("it is acknowledged", || under_way(&server) == 0);
        for (client, server) in [&silent, &(client.try_clone().unwrap(), server.try_clone().unwrap())] {
            keep_alive(client);
            vanish(server);
        }
        let reader = spawn(move || read((client, server)));
        read(silent);
        reader.join().unwrap();
        others.went_on(50);
    });
}

/// The same by `net::Async`, over a socket that is std's: by a thread, and by a future.
#[test]
fn keep_alive_wakes_whoever_waits_for_readiness() {
    everywhere_at_once(|| {
        let watched = || {
            let (client, server) = connected();
            keep_alive(&client);
            vanish(&server);
            let client = std::net::TcpStream::from(client);
            client.set_nonblocking(true).unwrap();
            assert_eq!((&client).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            (Async::new(client).unwrap(), server)
        };
        let told = |client: &Async<std::net::TcpStream>, start: Instant| {
            assert!(start.elapsed() >= SECOND);
            assert_eq!(client.get_ref().read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        };
        let start = Instant::now();
        let (client, server) = watched();
        let future = spawn(async move {
            client.readable_async().await.unwrap();
            told(&client, start);
            drop(server);
        });
        let (client, _server) = watched();
        client.readable().unwrap();
        told(&client, start);
        future.join().unwrap();
    });
}

#[test]
fn a_user_timeout_ends_the_writes_whose_peer_is_gone() {
    everywhere_at_once(|| {
        let others = Others::start();
        for window_is_shut in [true, false] {
            let (client, server) = if window_is_shut { full() } else { connected() };
            SockRef::from(&client).set_tcp_user_timeout(Some(300 * MILLI)).unwrap();
            let start = Instant::now();
            vanish(&server);
            if !window_is_shut {
                client.set_write_timeout(Some(MILLI)).unwrap();
                fill(&client);
                client.set_write_timeout(None).unwrap();
            }
            let mut reads = client.try_clone().unwrap();
            let reader = spawn(move || reads.read(&mut [0]).map_err(|error| error.kind()));
            let writer = push(&client);
            assert!(start.elapsed() > 100 * MILLI, "{:?}", start.elapsed());
            // The system tells it once, to the first who asks.
            match reader.join().unwrap() {
                Ok(0) => assert_eq!(writer, ErrorKind::TimedOut),
                Err(ErrorKind::TimedOut) => assert_eq!(writer, ErrorKind::BrokenPipe),
                other => panic!("{other:?} and {writer:?}"),
            }
            drop(server);
        }
        others.went_on(20);
    });
}

#[test]
fn time_outs_run_out_though_the_peer_is_gone() {
    everywhere(|| {
        let time = 20 * MILLI;
        let ends = |wait: &dyn Fn() -> ErrorKind| {
            let start = Instant::now();
            assert_eq!(wait(), ErrorKind::WouldBlock);
            assert!(start.elapsed() >= time);
            // Whatever the connection's own time-outs are.
            assert!(timeout(MILLI, wait).is_err());
        };
        let (client, server) = connected();
        vanish(&server);
        client.set_read_timeout(Some(time)).unwrap();
        client.set_write_timeout(Some(time)).unwrap();
        ends(&|| (&client).read(&mut [0]).unwrap_err().kind());
        ends(&|| client.peek(&mut [0]).unwrap_err().kind());
        fill(&client);
        ends(&|| push(&client));
        // And to connect to such a machine.
        let (listener, addr) = listener();
        vanish(&listener);
        let error = TcpStream::connect_timeout(&addr, time).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    });
}

#[test]
fn a_peer_that_comes_back_in_time_has_missed_nothing() {
    everywhere_at_once(|| {
        let (mut client, mut server) = narrow();
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let sent = bytes.clone();
        let writer = spawn(move || client.write_all(&sent).unwrap());
        let mut received = vec![0; 1_000_000];
        server.read_exact(&mut received).unwrap();
        vanish(&server);
        sleep(100 * MILLI);
        assert!(!writer.is_finished());
        come_back(&server);
        server.read_to_end(&mut received).unwrap();
        writer.join().unwrap();
        assert!(received == bytes);

        // Its first segment is lost; the system sends it again after a second.
        let (listener, addr) = listener();
        vanish(&listener);
        let connects = spawn(move || TcpStream::connect(addr).unwrap().write_all(b"x").unwrap());
        sleep(100 * MILLI);
        assert!(!connects.is_finished());
        come_back(&listener);
        listener.accept().unwrap().0.read_exact(&mut [0]).unwrap();
        connects.join().unwrap();
    });
}

// Resets -------------------------------------------------------------------------------------------------------

/// Closes it by an RST.
fn reset(stream: TcpStream) {
    stream.set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

#[test]
fn a_reset_in_the_middle_is_not_taken_for_the_end() {
    everywhere(|| {
        for heard in [100_000, 10] {
            let (mut client, mut server) = connected();
            let sender = spawn(move || {
                server.write_all(&[7; 100_000]).unwrap();
                server.read_exact(&mut [0]).unwrap();
                reset(server);
            });
            let mut bytes = vec![0; heard];
            client.read_exact(&mut bytes).unwrap();
            client.write_all(&[0]).unwrap();
            // What is left of what was sent may be lost, and nothing else comes.
            let error = loop {
                let mut more = [0; 1000];
                match client.read(&mut more) {
                    Ok(n) => {
                        assert_ne!(n, 0, "an orderly end");
                        bytes.extend(&more[..n]);
                    }
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            assert!(bytes.len() <= 100_000 && bytes.iter().all(|&byte| byte == 7));
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
            assert_eq!(client.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
            sender.join().unwrap();
        }
    });
}

#[test]
fn a_reset_in_the_middle_ends_the_writer_and_its_reader() {
    everywhere(|| {
        let (mut client, mut server) = narrow();
        let mut reads = client.try_clone().unwrap();
        let reader = spawn(move || reads.read(&mut [0]).map_err(|error| error.kind()));
        let receiver = spawn(move || {
            server.read_exact(&mut [0; 100_000]).unwrap();
            sleep(MILLI);
            reset(server);
        });
        let writer = client.write_all(&vec![7; 20_000_000]).unwrap_err().kind();
        // The system tells it once, to the first who asks.
        match reader.join().unwrap() {
            Ok(0) => assert_eq!(writer, ErrorKind::ConnectionReset),
            Err(ErrorKind::ConnectionReset) => assert_eq!(writer, ErrorKind::BrokenPipe),
            other => panic!("{other:?} and {writer:?}"),
        }
        receiver.join().unwrap();
    });
}

#[test]
fn connections_that_are_reset_before_they_are_accepted_cost_the_listener_nothing() {
    everywhere(|| {
        let (listener, addr) = listener();
        for _ in 0..20 {
            reset(TcpStream::connect(addr).unwrap());
        }
        let mut client = TcpStream::connect(addr).unwrap();
        let addr = client.local_addr().unwrap();
        client.write_all(b"x").unwrap();
        for _ in 0..20 {
            let (mut stream, _) = listener.accept().unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
        let (mut stream, peer) = listener.accept().unwrap();
        assert_eq!(peer, addr);
        assert_eq!(stream.read(&mut [0]).unwrap(), 1);
    });
}

// By halves, and slowly ----------------------------------------------------------------------------------------

#[test]
fn each_direction_ends_by_itself() {
    everywhere(|| {
        let (mut client, mut server) = connected();
        let answers = spawn(move || {
            let mut asked = Vec::new();
            server.read_to_end(&mut asked).unwrap();
            // The other has said all, and waits for this.
            for piece in 0..20u8 {
                sleep(MILLI / 4);
                server.write_all(&[piece; 100]).unwrap();
            }
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(server.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
            // Nothing more has come.
            assert_eq!(server.read(&mut [0]).unwrap(), 0);
            asked.len()
        });
        client.write_all(&[1; 300_000]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert!(answer.len() == 2000 && answer.chunks(100).zip(0..).all(|(piece, i)| piece == [i; 100]));
        assert_eq!(answers.join().unwrap(), 300_000);
        // Both are shut, and it is still a socket.
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        assert!(client.take_error().unwrap().is_none());
    });
}

#[test]
fn a_writer_that_nobody_reads_from_is_parked_and_holds_nobody_up() {
    for procs in PROCS {
        with(procs, |runtime| {
            runtime.block_on(|| {
                let others = Others::start();
                let (mut client, mut server) = narrow();
                let written = Arc::new(AtomicUsize::new(0));
                let counted = written.clone();
                let writer = spawn(move || {
                    for piece in 0..3000u32 {
                        client.write_all(&[piece as u8; 4096]).unwrap();
                        counted.fetch_add(1, SeqCst);
                    }
                });
                wait_until("it has begun", || written.load(SeqCst) > 0);
                others.go_on(20);
                // It alone waits, and does not try again until it is told to.
                wait_until("nothing happens", || {
                    let seen = || {
                        let metrics = runtime.handle().metrics();
                        (metrics.waiting, metrics.net_wakeups, metrics.yields, written.load(SeqCst))
                    };
                    let before = seen();
                    sleep(20 * MILLI);
                    before.0 == 1 && seen() == before
                });
                assert!(written.load(SeqCst) < 3000, "the system keeps less");
                let mut piece = [0; 4096];
                for i in 0..3000u32 {
                    if i % 100 == 0 {
                        sleep(MILLI / 2);
                    }
                    server.read_exact(&mut piece).unwrap();
                    assert!(piece.iter().all(|&byte| byte == i as u8), "piece {i}");
                }
                assert_eq!(server.read(&mut piece).unwrap(), 0);
                writer.join().unwrap();
            });
        });
    }
}

// Signals ------------------------------------------------------------------------------------------------------

static HITS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_signal: i32) {
    HITS.fetch_add(1, SeqCst);
}

/// Sends every thread of this process but the calling one a signal whose handler restarts no call, until `stop`.
fn storm(stop: &AtomicBool) {
    let signal = libc::SIGRTMIN() + 3;
    // SAFETY: all zeroes is a value of this plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as *const () as libc::sighandler_t;
    // SAFETY: the handler does only what a handler may.
    assert_eq!(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }, 0);
    // SAFETY: asks for a number.
    let me = unsafe { libc::gettid() };
    while !stop.load(SeqCst) {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let tasks = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<i32>().ok());
        for task in tasks.filter(|&task| task != me) {
            // SAFETY: takes numbers only; one that has ended gets nothing.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), task, signal) };
        }
        std::thread::sleep(MILLI / 5);
    }
}

/// Each kind of call that waits, and waits long enough to be interrupted. Any error fails it.
fn all_calls_wait() {
    calls_over_tcp();
    calls_over_udp();
    calls_over_unix_sockets();
}

fn calls_over_tcp() {
    let (listener, addr) = listener();
    let peer = spawn(move || {
        sleep(2 * MILLI);
        let mut client = TcpStream::connect(addr).unwrap();
        sleep(2 * MILLI);
        client.write_all(b"x").unwrap();
        sleep(2 * MILLI);
        client.write_all(b"y").unwrap();
        sleep(2 * MILLI);
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    let (mut server, _) = listener.accept().unwrap();
    assert!(server.peek(&mut [0; 8]).unwrap() > 0);
    server.read_exact(&mut [0; 2]).unwrap();
    let start = Instant::now();
    server.set_read_timeout(Some(5 * MILLI)).unwrap();
    assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(start.elapsed() >= 5 * MILLI);
    write_each(server, 3_000_000);
    assert_eq!(peer.join().unwrap(), 3_000_000);
}

/// By `write` and not by `write_all`, which would try again.
fn write_each(mut stream: impl Write, mut left: usize) {
    while left > 0 {
        left -= stream.write(&vec![7; left]).unwrap();
    }
}

fn calls_over_udp() {
    let (one, two) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let to = one.local_addr().unwrap();
    let peer = spawn(move || {
        sleep(2 * MILLI);
        two.send_to(b"x", to).unwrap();
    });
    assert_eq!(one.recv_from(&mut [0; 8]).unwrap().0, 1);
    peer.join().unwrap();
}

fn calls_over_unix_sockets() {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("net_faults-{}-{}", std::process::id(), NAMES.fetch_add(1, SeqCst));
    let addr = SocketAddr::from_abstract_name(name).unwrap();
    let listener = UnixListener::bind_addr(&addr).unwrap();
    let peer = spawn(move || {
        sleep(2 * MILLI);
        let mut client = UnixStream::connect_addr(&addr).unwrap();
        sleep(2 * MILLI);
        client.write_all(b"x").unwrap();
        sleep(2 * MILLI);
        client.read_to_end(&mut Vec::new()).unwrap()
    });
    let (mut server, _) = listener.accept().unwrap();
    assert_eq!(server.read(&mut [0]).unwrap(), 1);
    write_each(server, 1_000_000);
    assert_eq!(peer.join().unwrap(), 1_000_000);

    let (one, two) = UnixDatagram::pair().unwrap();
    let peer = spawn(move || {
        for i in 0..1000 {
            if i % 500 == 0 {
                sleep(2 * MILLI);
            }
            assert_eq!(two.recv(&mut [0; 8]).unwrap(), 1);
        }
        sleep(2 * MILLI);
        two.send(b"x").unwrap();
    });
    // More than the system keeps.
    (0..1000).for_each(|_| assert_eq!(one.send(b"x").unwrap(), 1));
    assert_eq!(one.recv(&mut [0; 8]).unwrap(), 1);
    peer.join().unwrap();
}

#[test]
fn signals_interrupt_no_call() {
    for procs in PROCS {
        child::passes("signals_interrupt_no_call", &procs.to_string(), || {
            with(procs, |runtime| {
                let (stop, handle) = (AtomicBool::new(false), runtime.handle());
                std::thread::scope(|scope| {
                    scope.spawn(|| storm(&stop));
                    let green: Vec<_> =
                        (0..4).map(|_| runtime.spawn(|| (0..20).for_each(|_| all_calls_wait()))).collect();
                    let plain: Vec<_> =
                        (0..2).map(|_| scope.spawn(|| (0..20).for_each(|_| all_calls_wait()))).collect();
                    // The storm ends in any case.
                    let green: Vec<_> = green.into_iter().map(JoinHandle::join).collect();
                    let plain: Vec<_> = plain.into_iter().map(|thread| thread.join()).collect();
                    stop.store(true, SeqCst);
                    assert!(green.iter().all(Result::is_ok) && plain.iter().all(Result::is_ok));
                });
                assert!(HITS.load(SeqCst) > 1000, "a storm");
                assert_eq!(handle.metrics().waiting, 0);
            });
        });
    }
}
