//! Faults of the network: peers that vanish, reset, half-close or read slowly, and signals that interrupt
//! calls. Affected waiters get an error, other threads go on, and no byte is lost or invented.
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

/// Makes the socket's machine seem gone: no segment sent to this socket arrives, and none is answered, not
/// even by an RST. A filter on the socket drops every segment, which needs no privilege. Segments that this
/// end sends still arrive.
fn vanish(socket: &impl AsFd) {
    const DROP_ALL: SockFilter = SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0);
    SockRef::from(socket).attach_filter(&[DROP_ALL]).unwrap();
}

/// Lets segments arrive again.
fn come_back(socket: &impl AsFd) {
    SockRef::from(socket).detach_filter().unwrap();
}

/// Returns a connection with small socket buffers, however large the system's limits are.
fn narrow() -> (TcpStream, TcpStream) {
    let (client, server) = connected();
    SockRef::from(&client).set_send_buffer_size(65_536).unwrap();
    SockRef::from(&server).set_recv_buffer_size(65_536).unwrap();
    (client, server)
}

/// Returns the number of bytes that were written and are not acknowledged.
fn under_way(socket: &impl AsFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: `ioctl` writes a number to `bytes`, which is exclusively borrowed.
    assert_eq!(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) }, 0);
    bytes
}

/// Enables keep-alive with the system's shortest times: a probe after a second of silence, and the end a
/// second later.
fn keep_alive(stream: &TcpStream) {
    let soon = TcpKeepalive::new().with_time(SECOND).with_interval(SECOND).with_retries(1);
    SockRef::from(stream).set_tcp_keepalive(&soon).unwrap();
}

/// Runs `main` as `everywhere` does, on all runtimes at the same time, because `main` waits for slow clocks
/// of the system.
fn everywhere_at_once(main: impl Fn() + Send + Sync) {
    let (_dog, main) = (Watchdog::new(), &main);
    std::thread::scope(|scope| {
        let on_runtimes = PROCS.map(|procs| scope.spawn(move || on(procs, main)));
        main();
        on_runtimes.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Two green threads that exchange a byte each millisecond, unaffected by the faults.
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

    /// Checks that the threads have exchanged `times` bytes by now and still go on.
    fn went_on(self, times: usize) {
        let rounds = self.rounds.load(SeqCst);
        assert!(rounds >= times, "{rounds} rounds");
        self.go_on(1);
    }

    /// Waits for `times` more exchanges and ends the threads.
    fn go_on(self, times: usize) {
        let before = self.rounds.load(SeqCst);
        wait_until("the other threads go on", || self.rounds.load(SeqCst) >= before + times);
        self.stop.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

// Peers that vanish
// --------------------------------------------------------------------------------------------

#[test]
fn keep_alive_ends_reads_from_a_vanished_peer() {
    everywhere_at_once(|| {
        let others = Others::start();
        let read = |(mut client, server): (TcpStream, TcpStream)| {
            let start = Instant::now();
            let error = client.read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            assert!(start.elapsed() >= SECOND, "only keep-alive can detect the loss");
            // The error is reported once, as in std.
            assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
            assert_eq!(client.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
            drop(server);
        };
        let silent = connected();
        // A read has emptied this connection, so the runtime knows that it has no bytes.
        let (mut client, mut server) = connected();
        server.write_all(b"x").unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 1);
        wait_until("the byte is acknowledged", || under_way(&server) == 0);
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

/// Keep-alive wakes a thread and a future that wait by `net::Async` for a socket of std.
#[test]
fn keep_alive_wakes_waiters_for_readiness() {
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
fn a_user_timeout_ends_writes_to_a_vanished_peer() {
    everywhere_at_once(|| {
        let others = Others::start();
        for window_is_shut in [true, false] {
            let (client, server) = if window_is_shut { full() } else { connected() };
            let start = Instant::now();
            vanish(&server);
            if !window_is_shut {
                client.set_write_timeout(Some(MILLI)).unwrap();
                fill(&client);
                client.set_write_timeout(None).unwrap();
            }
            // After the fill, which would get the error on a slow machine.
            SockRef::from(&client).set_tcp_user_timeout(Some(300 * MILLI)).unwrap();
            let mut reads = client.try_clone().unwrap();
            let reader = spawn(move || reads.read(&mut [0]).map_err(|error| error.kind()));
            let writer = push(&client);
            assert!(start.elapsed() > 100 * MILLI, "{:?}", start.elapsed());
            // The system reports the error once, to the first call.
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
fn time_outs_expire_with_a_vanished_peer() {
    everywhere(|| {
        let time = 20 * MILLI;
        let ends = |wait: &dyn Fn() -> ErrorKind| {
            let start = Instant::now();
            assert_eq!(wait(), ErrorKind::WouldBlock);
            assert!(start.elapsed() >= time);
            // `timeout` ends the wait too, whatever time-outs the socket has.
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
        // A connect to a vanished machine times out too.
        let (listener, addr) = listener();
        vanish(&listener);
        let error = TcpStream::connect_timeout(&addr, time).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    });
}

#[test]
fn a_peer_that_comes_back_in_time_misses_nothing() {
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

        // The first segment of this connect is lost, and the system sends it again after a second.
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

// Resets
// -------------------------------------------------------------------------------------------------------

/// Closes the stream with an RST.
fn reset(stream: TcpStream) {
    stream.set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

#[test]
fn a_reset_of_a_stream_is_an_error_not_an_end() {
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
            // Unread bytes may be lost. The bytes that arrive are the sent ones.
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
fn a_reset_ends_the_writer_and_the_reader() {
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
        // The system reports the error once, to the first call.
        match reader.join().unwrap() {
            Ok(0) => assert_eq!(writer, ErrorKind::ConnectionReset),
            Err(ErrorKind::ConnectionReset) => assert_eq!(writer, ErrorKind::BrokenPipe),
            other => panic!("{other:?} and {writer:?}"),
        }
        receiver.join().unwrap();
    });
}

#[test]
fn connections_reset_before_accept_do_not_disturb_the_listener() {
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

// Half-closed and slow connections
// -----------------------------------------------------------------------------

#[test]
fn each_direction_ends_separately() {
    everywhere(|| {
        let (mut client, mut server) = connected();
        let answers = spawn(move || {
            let mut asked = Vec::new();
            server.read_to_end(&mut asked).unwrap();
            // The client has shut its sending direction down, and waits for this answer.
            for piece in 0..20u8 {
                sleep(MILLI / 4);
                server.write_all(&[piece; 100]).unwrap();
            }
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(server.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
            // No further bytes have come.
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
        // Both directions are shut down, and the socket still answers calls.
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        assert!(client.take_error().unwrap().is_none());
    });
}

#[test]
fn a_writer_without_a_reader_parks_and_delays_no_other_thread() {
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
                wait_until("the writer has begun", || written.load(SeqCst) > 0);
                others.go_on(20);
                // The writer is the only waiter, and does not retry before an event.
                wait_until("only the writer waits", || {
                    let seen = || {
                        let metrics = runtime.handle().metrics();
                        (metrics.waiting, metrics.net_wakeups, metrics.yields, written.load(SeqCst))
                    };
                    let before = seen();
                    sleep(20 * MILLI);
                    before.0 == 1 && seen() == before
                });
                assert!(written.load(SeqCst) < 3000, "the buffers hold less");
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

// Signals
// ------------------------------------------------------------------------------------------------------

static HITS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_signal: i32) {
    HITS.fetch_add(1, SeqCst);
}

/// Sends a signal to every other thread of this process until `stop`. The handler does not restart system
/// calls.
fn storm(stop: &AtomicBool) {
    let signal = libc::SIGRTMIN() + 3;
    // SAFETY: all zero is a valid value of this plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as *const () as libc::sighandler_t;
    // SAFETY: the handler only increments an atomic number, which is async-signal-safe.
    assert_eq!(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }, 0);
    // SAFETY: `gettid` takes no pointer.
    let me = unsafe { libc::gettid() };
    while !stop.load(SeqCst) {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let tasks = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<i32>().ok());
        for task in tasks.filter(|&task| task != me) {
            // SAFETY: `tgkill` takes only numbers. For a thread that has ended it does nothing.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), task, signal) };
        }
        std::thread::sleep(MILLI / 5);
    }
}

/// Makes a call of each kind that waits, with waits long enough to be interrupted. Any error panics.
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

/// Uses `write`, because `write_all` would retry an interrupted call.
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
    // More datagrams than the system's buffer holds.
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
                    // Panics are collected first, so that the storm is stopped in any case.
                    let green: Vec<_> = green.into_iter().map(JoinHandle::join).collect();
                    let plain: Vec<_> = plain.into_iter().map(|thread| thread.join()).collect();
                    stop.store(true, SeqCst);
                    assert!(green.iter().all(Result::is_ok) && plain.iter().all(Result::is_ok));
                });
                assert!(HITS.load(SeqCst) > 1000, "more than a thousand signals arrived");
                wait_until("no green thread waits", || handle.metrics().waiting == 0);
            });
        });
    }
}
