//! `UnixDatagram` of std in a simulation. What a test states of one machine is stated of the kernel, too: the
//! test runs in a simulation, and then with sockets of the system.

runtime::interpose!(sim);

use std::io::{self, ErrorKind};
use std::mem;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use libc::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};
use runtime::sim::{self, Builder};

const SECOND: Duration = Duration::from_secs(1);
/// How long a test waits until another thread waits, and for what does not come.
const MOMENT: Duration = Duration::from_millis(20);
/// How many datagrams a socket takes from others before it has received one.
const QUEUE: usize = 11;
/// The most bytes of a datagram, by Linux' usual settings.
const LONGEST: usize = 212_960;

/// Runs `test` with some seeds, each twice, and then with sockets of the system. `test` gets a directory.
fn same(test: impl Fn(&Path) + Send + Sync) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    Builder::new().check_determinism(true).explore(20, || test(Path::new("/")));
    // Relaxed: the count is a name only.
    let name = format!("unix-datagrams-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir(&dir).unwrap();
    test(&dir);
    std::fs::remove_dir_all(dir).unwrap();
}

fn number<T>(result: io::Result<T>) -> Option<i32> {
    result.err()?.raw_os_error()
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

fn checked(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Returns what a socket is ready for.
fn ready(socket: &UnixDatagram) -> i16 {
    let mut asked = libc::pollfd { fd: socket.as_raw_fd(), events: POLLIN | POLLOUT | POLLRDHUP, revents: 0 };
    // SAFETY: the place is this function's.
    checked(unsafe { libc::poll(&mut asked, 1, 0) } as isize).unwrap();
    asked.revents
}

/// `recv` of C with these flags: the bytes that are in the buffer, and the result.
fn receive(socket: &UnixDatagram, room: usize, flags: i32) -> io::Result<(Vec<u8>, usize)> {
    let mut bytes = vec![0; room];
    // SAFETY: the place is this function's.
    let n = checked(unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), room, flags) })?;
    bytes.truncate(n);
    Ok((bytes, n))
}

fn received(socket: &UnixDatagram) -> Vec<u8> {
    receive(socket, 1000, 0).unwrap().0
}

/// Returns an address as C has it, and its size.
fn address(family: i32, path: &Path) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: zero is a value of each field.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = family as _;
    let bytes = path.as_os_str().as_bytes();
    address.sun_path.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from as _);
    (address, (mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len()) as _)
}

type OnAddress = unsafe extern "C" fn(RawFd, *const libc::sockaddr, libc::socklen_t) -> i32;

/// `bind` or `connect` of C.
fn call(function: OnAddress, socket: &UnixDatagram, family: i32, path: &Path) -> io::Result<usize> {
    let (address, size) = address(family, path);
    // SAFETY: the address is this function's.
    checked(unsafe { function(socket.as_raw_fd(), (&raw const address).cast(), size) } as isize)
}

/// The kernel counts a time-out in ticks, and the first may be a part of one: 10 ms at most.
#[track_caller]
fn assert_waited(start: Instant) {
    let waited = start.elapsed();
    assert!(waited >= MOMENT / 2, "{waited:?}");
}

/// Sends until no more fits in. Returns the number of datagrams.
fn fill(mut send: impl FnMut() -> io::Result<usize>) -> usize {
    for count in 0.. {
        match send() {
            Ok(n) => assert_eq!(n, 1),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return count;
            }
        }
    }
    unreachable!()
}

/// Fills the queue of the socket at `path`, and begins to send one more datagram.
fn send_to_full(path: &Path) -> JoinHandle<io::Result<usize>> {
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    assert_eq!(fill(|| sender.send_to(b"x", path)), QUEUE);
    sender.set_nonblocking(false).unwrap();
    let path = path.to_path_buf();
    let sends = thread::spawn(move || sender.send_to(b"last", path));
    thread::sleep(MOMENT);
    assert!(!sends.is_finished(), "a full queue holds the sender up");
    sends
}

#[test]
fn a_path_is_the_name_of_a_socket() {
    same(|dir| {
        let (path, none) = (dir.join("server"), dir.join("none"));
        let server = UnixDatagram::bind(&path).unwrap();
        assert_eq!(server.local_addr().unwrap().as_pathname(), Some(&*path));
        assert_eq!(number(server.peer_addr()), Some(libc::ENOTCONN));
        assert_eq!(kind(UnixDatagram::bind(&path)), Some(ErrorKind::AddrInUse));
        assert_eq!(kind(UnixDatagram::bind(none.join("x"))), Some(ErrorKind::NotFound));
        let client = UnixDatagram::unbound().unwrap();
        assert!(client.local_addr().unwrap().is_unnamed());
        assert_eq!(kind(client.connect(&none)), Some(ErrorKind::NotFound));
        assert_eq!(kind(client.send_to(b"x", &none)), Some(ErrorKind::NotFound));
        assert_eq!(number(client.send(b"x")), Some(libc::ENOTCONN));
        assert_eq!(number(client.connect(dir)), Some(libc::ECONNREFUSED));

        client.connect(&path).unwrap();
        assert_eq!(client.peer_addr().unwrap().as_pathname(), Some(&*path));
        assert_eq!(client.send(b"hello").unwrap(), 5);
        let (n, from) = server.recv_from(&mut [0; 9]).unwrap();
        assert!(n == 5 && from.is_unnamed());
        let named = UnixDatagram::bind(dir.join("client")).unwrap();
        assert_eq!(named.send_to(b"one", &path).unwrap(), 3);
        let (n, from) = server.recv_from(&mut [0; 9]).unwrap();
        server.send_to(b"answer", from.as_pathname().unwrap()).unwrap();
        assert_eq!((n, received(&named)), (3, b"answer".to_vec()));

        // The path stays when its socket has gone. A peer sees that once.
        drop(server);
        assert_eq!(kind(named.send_to(b"x", &path)), Some(ErrorKind::ConnectionRefused));
        assert_eq!(kind(named.connect(&path)), Some(ErrorKind::ConnectionRefused));
        assert_eq!(kind(UnixDatagram::bind(&path)), Some(ErrorKind::AddrInUse));
        assert_eq!(kind(client.send(b"x")), Some(ErrorKind::ConnectionRefused));
        assert_eq!(number(client.send(b"x")), Some(libc::ENOTCONN));
        runtime::fs::remove_file(&path).unwrap();
        assert_eq!(kind(named.send_to(b"x", &path)), Some(ErrorKind::NotFound));
        UnixDatagram::bind(&path).unwrap();
    });
}

#[test]
fn a_name_of_another_type_is_refused() {
    same(|dir| {
        let (stream, datagrams) = (dir.join("stream"), dir.join("datagrams"));
        let _listener = UnixListener::bind(&stream).unwrap();
        let socket = UnixDatagram::bind(&datagrams).unwrap();
        assert_eq!(number(socket.connect(&stream)), Some(libc::EPROTOTYPE));
        assert_eq!(number(socket.send_to(b"x", &stream)), Some(libc::EPROTOTYPE));
        assert_eq!(number(UnixStream::connect(&datagrams)), Some(libc::EPROTOTYPE));
        // SAFETY: the calls access no memory.
        let results = unsafe {
            let accepted = libc::accept(socket.as_raw_fd(), ptr::null_mut(), ptr::null_mut());
            [libc::listen(socket.as_raw_fd(), 1), accepted]
        };
        let errors = results.map(|result| number(checked(result as isize)));
        assert_eq!(errors, [Some(libc::EOPNOTSUPP); 2]);
    });
}

#[test]
fn abstract_names_are_names_too() {
    same(|_| {
        let name = format!("unix-datagrams {}", std::process::id());
        let name = SocketAddr::from_abstract_name(name).unwrap();
        let server = UnixDatagram::bind_addr(&name).unwrap();
        assert_eq!(kind(UnixDatagram::bind_addr(&name)), Some(ErrorKind::AddrInUse));
        let _other_type = UnixListener::bind_addr(&name).unwrap();
        // Linux gives out a name if there is none.
        let client = UnixDatagram::bind("").unwrap();
        client.send_to_addr(b"x", &name).unwrap();
        let from = server.recv_from(&mut [0]).unwrap().1;
        assert_eq!(from.as_abstract_name(), client.local_addr().unwrap().as_abstract_name());
        assert_eq!(from.as_abstract_name().map(<[u8]>::len), Some(5));
        drop(server);
        assert_eq!(kind(client.connect_addr(&name)), Some(ErrorKind::ConnectionRefused));
    });
}

/// What std has no function for.
#[test]
fn a_socket_is_bound_later_and_loses_its_peer() {
    same(|dir| {
        let (path, late) = (dir.join("server"), dir.join("late"));
        let server = UnixDatagram::bind(&path).unwrap();
        let client = UnixDatagram::unbound().unwrap();
        client.connect(&path).unwrap();
        call(libc::bind, &client, libc::AF_UNIX, &late).unwrap();
        assert_eq!(client.local_addr().unwrap().as_pathname(), Some(&*late));
        client.send(b"x").unwrap();
        assert_eq!(server.recv_from(&mut [0]).unwrap().1.as_pathname(), Some(&*late));
        server.send_to(b"y", &late).unwrap();
        assert_eq!(received(&client), b"y");
        let bound_again = call(libc::bind, &client, libc::AF_UNIX, &dir.join("third"));
        assert_eq!(number(bound_again), Some(libc::EINVAL));
        assert_eq!(kind(client.send_to(b"x", dir.join("third"))), Some(ErrorKind::NotFound));

        assert_eq!(number(call(libc::connect, &client, libc::AF_INET, &path)), Some(libc::EINVAL));
        assert_eq!(number(call(libc::connect, &client, libc::AF_UNIX, Path::new(""))), Some(libc::EINVAL));
        assert_eq!(client.peer_addr().unwrap().as_pathname(), Some(&*path));
        // What the peer has sent is lost with it.
        server.connect(&late).unwrap();
        server.send(b"lost").unwrap();
        for _ in 0..2 {
            call(libc::connect, &client, libc::AF_UNSPEC, Path::new("")).unwrap();
        }
        assert_eq!(number(client.peer_addr()), Some(libc::ENOTCONN));
        assert_eq!(number(server.send(b"x")), Some(libc::ECONNRESET));
        server.send(b"kept").unwrap();
        assert_eq!(received(&client), b"kept");
    });
}

#[test]
fn messages_keep_their_bounds_and_their_order() {
    same(|_| {
        let (one, two) = UnixDatagram::pair().unwrap();
        assert!(one.local_addr().unwrap().is_unnamed() && one.peer_addr().unwrap().is_unnamed());
        let sizes = [3, 0, 40_000, 1, 100_000];
        sizes.iter().for_each(|&size| assert_eq!(one.send(&vec![size as u8; size]).unwrap(), size));
        for size in sizes {
            let mut bytes = vec![9; 200_000];
            let (n, from) = two.recv_from(&mut bytes).unwrap();
            assert!(n == size && from.is_unnamed());
            assert!(bytes[..n].iter().all(|&byte| byte == size as u8) && bytes[n] == 9);
        }
        // What does not fit is lost.
        one.send(b"long").unwrap();
        // SAFETY: an address without bytes is not read.
        let sent =
            unsafe { libc::sendto(one.as_raw_fd(), b"next".as_ptr().cast(), 4, 0, ptr::dangling(), 0) };
        assert_eq!(checked(sent).unwrap(), 4, "an address without bytes is none");
        let mut bytes = [9; 3];
        assert_eq!((two.recv(&mut bytes[..2]).unwrap(), bytes), (2, [b'l', b'o', 9]));
        assert_eq!(received(&two), b"next");
        two.send(b"other way").unwrap();
        assert_eq!(received(&one), b"other way");
    });
}

#[test]
fn a_look_leaves_the_message_and_a_cut_is_reported() {
    same(|_| {
        let (one, two) = UnixDatagram::pair().unwrap();
        one.send(b"hello").unwrap();
        one.send(b"again").unwrap();
        assert_eq!(receive(&two, 2, libc::MSG_PEEK).unwrap().0, b"he");
        let mut bytes = [0; 2];
        let mut buffer = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 2 };
        // SAFETY: zero is a value of each field.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&mut buffer, 1);
        // SAFETY: the message and its buffer are this function's.
        let mut take = |flags| checked(unsafe { libc::recvmsg(two.as_raw_fd(), &mut message, flags) });
        assert_eq!(take(libc::MSG_PEEK).unwrap(), 2);
        assert_eq!(take(libc::MSG_TRUNC).unwrap(), 5, "the size of the whole");
        assert_eq!((message.msg_flags & libc::MSG_TRUNC, &bytes), (libc::MSG_TRUNC, b"he"));
        assert_eq!(received(&two), b"again");
        let would_block = receive(&two, 2, libc::MSG_DONTWAIT);
        assert_eq!(kind(would_block), Some(ErrorKind::WouldBlock));
    });
}

#[test]
fn the_longest_message() {
    same(|_| {
        let (one, two) = UnixDatagram::pair().unwrap();
        assert_eq!(one.send(&vec![1; LONGEST]).unwrap(), LONGEST);
        assert_eq!(two.recv(&mut vec![0; LONGEST + 1]).unwrap(), LONGEST);
        assert_eq!(number(one.send(&vec![1; LONGEST + 1])), Some(libc::EMSGSIZE));
    });
}

#[test]
fn a_full_queue_holds_its_senders_up() {
    same(|dir| {
        let path = dir.join("server");
        let server = UnixDatagram::bind(&path).unwrap();
        let sends = send_to_full(&path);
        let asking = UnixDatagram::unbound().unwrap();
        assert_eq!(ready(&asking), POLLOUT, "it has no peer");
        asking.connect(&path).unwrap();
        assert_eq!((ready(&asking), ready(&server)), (0, POLLIN | POLLOUT));
        asking.set_write_timeout(Some(MOMENT)).unwrap();
        let start = Instant::now();
        assert_eq!(kind(asking.send(b"x")), Some(ErrorKind::WouldBlock));
        assert_waited(start);
        assert_eq!(received(&server), b"x");
        assert_eq!(sends.join().unwrap().unwrap(), 4);
        // Nothing is lost, and nothing comes twice.
        (1..QUEUE).for_each(|_| assert_eq!(received(&server), b"x"));
        assert_eq!(received(&server), b"last");
        assert_eq!((ready(&asking), ready(&server)), (POLLOUT, POLLOUT));
    });
}

/// The ends of a pair have no bound by number, but one by size.
#[test]
fn a_pair_holds_up_by_bytes() {
    same(|_| {
        let (one, two) = UnixDatagram::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let (mut count, mut writable) = (0, 0);
        let full = fill(|| {
            count += 1;
            writable = if ready(&one) & POLLOUT == 0 { writable } else { count };
            one.send(b"x")
        });
        assert!(full > QUEUE);
        // `poll` wants three quarters of the room.
        assert!(writable * 3 < full && full < writable * 5, "{writable} of {full}");
        one.set_nonblocking(false).unwrap();
        let sends = thread::spawn(move || one.send(b"last").map(|_| one));
        thread::sleep(MOMENT);
        assert!(!sends.is_finished());
        (0..full).for_each(|_| assert_eq!(received(&two), b"x"));
        let one = sends.join().unwrap().unwrap();
        assert_eq!((received(&two), ready(&one)), (b"last".to_vec(), POLLOUT));
    });
}

#[test]
fn a_held_sender_sees_that_the_receiver_is_closed() {
    same(|dir| {
        let path = dir.join("server");
        let server = UnixDatagram::bind(&path).unwrap();
        let sends = send_to_full(&path);
        drop(server);
        assert_eq!(kind(sends.join().unwrap()), Some(ErrorKind::ConnectionRefused));
        runtime::fs::remove_file(&path).unwrap();

        let server = UnixDatagram::bind(&path).unwrap();
        let sends = send_to_full(&path);
        runtime::fs::remove_file(&path).unwrap();
        drop(server);
        assert_eq!(kind(sends.join().unwrap()), Some(ErrorKind::NotFound));

        // The next owner of the path gets the message.
        let server = UnixDatagram::bind(&path).unwrap();
        let sends = send_to_full(&path);
        runtime::fs::remove_file(&path).unwrap();
        let next = UnixDatagram::bind(&path).unwrap();
        drop(server);
        assert_eq!(sends.join().unwrap().unwrap(), 4);
        assert_eq!(received(&next), b"last");
    });
}

#[test]
fn a_receiver_waits_for_its_time() {
    same(|_| {
        let (one, two) = UnixDatagram::pair().unwrap();
        two.set_read_timeout(Some(MOMENT)).unwrap();
        assert_eq!(two.read_timeout().unwrap().map(|time| time >= MOMENT), Some(true));
        let start = Instant::now();
        assert_eq!(kind(two.recv(&mut [0])), Some(ErrorKind::WouldBlock));
        assert_waited(start);
        two.set_read_timeout(None).unwrap();
        let receives = thread::spawn(move || received(&two));
        thread::sleep(MOMENT);
        one.send(b"x").unwrap();
        assert_eq!(receives.join().unwrap(), b"x");
    });
}

#[test]
fn a_socket_hears_its_peer_alone() {
    same(|dir| {
        let [path, first, second] = ["server", "first", "second"].map(|name| dir.join(name));
        let [server, one, two] = [&path, &first, &second].map(|path| UnixDatagram::bind(path).unwrap());
        one.connect(&path).unwrap();
        server.connect(&first).unwrap();
        assert_eq!(kind(two.send_to(b"x", &path)), Some(ErrorKind::PermissionDenied));
        assert_eq!(kind(two.connect(&path)), Some(ErrorKind::PermissionDenied));
        server.send_to(b"to another", &second).unwrap();
        assert_eq!(received(&two), b"to another");
        // Another peer: what the earlier one has sent is lost, and that one is told.
        one.send(b"lost").unwrap();
        server.connect(&second).unwrap();
        assert_eq!((ready(&one), ready(&server)), (POLLOUT | POLLERR, POLLOUT));
        assert_eq!(one.take_error().unwrap().and_then(|error| error.raw_os_error()), Some(libc::ECONNRESET));
        assert_eq!(kind(one.send(b"x")), Some(ErrorKind::PermissionDenied));
        two.connect(&path).unwrap();
        two.send(b"x").unwrap();
        assert_eq!(received(&server), b"x");
    });
}

#[test]
fn a_shutdown_ends_reads_or_writes() {
    same(|dir| {
        let path = dir.join("server");
        let server = UnixDatagram::bind(&path).unwrap();
        let client = UnixDatagram::unbound().unwrap();
        client.connect(&path).unwrap();
        client.send(b"before").unwrap();
        let clone = server.try_clone().unwrap();
        assert_eq!(received(&server), b"before");
        let reader = thread::spawn(move || received(&clone));
        thread::sleep(MOMENT);
        assert!(!reader.is_finished());
        server.shutdown(Shutdown::Read).unwrap();
        assert_eq!(reader.join().unwrap(), b"");
        assert_eq!(ready(&server), POLLIN | POLLOUT | POLLRDHUP);
        assert_eq!(kind(client.send(b"x")), Some(ErrorKind::BrokenPipe));
        // The end is one of a call that may wait.
        assert_eq!(received(&server), b"");
        server.set_nonblocking(true).unwrap();
        assert_eq!(kind(server.recv(&mut [0])), Some(ErrorKind::WouldBlock));
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(kind(client.send_to(b"x", &path)), Some(ErrorKind::BrokenPipe));
        assert_eq!(ready(&client), POLLOUT);
        client.shutdown(Shutdown::Both).unwrap();
        assert_eq!(ready(&client), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
        UnixDatagram::unbound().unwrap().shutdown(Shutdown::Both).unwrap();
    });
}

#[test]
fn clones_are_one_socket() {
    same(|dir| {
        let path = dir.join("server");
        let server = UnixDatagram::bind(&path).unwrap();
        let clone = server.try_clone().unwrap();
        clone.set_nonblocking(true).unwrap();
        assert_eq!(kind(server.recv(&mut [0])), Some(ErrorKind::WouldBlock));
        let client = UnixDatagram::unbound().unwrap();
        client.connect(&path).unwrap();
        drop(server);
        client.send(b"x").unwrap();
        assert_eq!(received(&clone), b"x");
        drop(clone);
        assert_eq!(kind(client.send(b"x")), Some(ErrorKind::ConnectionRefused));
    });
}

struct Epoll(OwnedFd);

impl Epoll {
    fn of(socket: &UnixDatagram, events: i32) -> Epoll {
        // SAFETY: the call takes no pointer.
        let made = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } as isize).unwrap();
        // SAFETY: the number is new.
        let epoll = Epoll(unsafe { OwnedFd::from_raw_fd(made as RawFd) });
        let mut event = libc::epoll_event { events: events as u32, u64: 0 };
        let (fd, of) = (epoll.0.as_raw_fd(), socket.as_raw_fd());
        // SAFETY: the event is this function's.
        checked(unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, of, &mut event) } as isize).unwrap();
        epoll
    }

    /// Waits for `time`, or for ever. Returns the events.
    fn wait(&self, time: Option<Duration>) -> i32 {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let time = time.map_or(-1, |time| time.as_millis() as i32);
        // SAFETY: the event is this function's.
        checked(unsafe { libc::epoll_wait(self.0.as_raw_fd(), &mut event, 1, time) } as isize).unwrap();
        event.events as i32
    }
}

#[test]
fn epoll_waits_for_messages_and_for_room() {
    same(|dir| {
        let path = dir.join("server");
        let server = UnixDatagram::bind(&path).unwrap();
        let client = UnixDatagram::unbound().unwrap();
        client.connect(&path).unwrap();
        client.set_nonblocking(true).unwrap();
        let edge = Epoll::of(&server, libc::EPOLLIN | libc::EPOLLET);
        let sends = thread::spawn(move || {
            thread::sleep(MOMENT);
            assert_eq!(fill(|| client.send(b"x")), QUEUE);
            client
        });
        assert_eq!(edge.wait(None), libc::EPOLLIN);
        let client = sends.join().unwrap();
        edge.wait(Some(Duration::ZERO));
        assert_eq!(edge.wait(Some(MOMENT)), 0, "nothing has come since");
        assert_eq!(Epoll::of(&server, libc::EPOLLIN).wait(None), libc::EPOLLIN);

        let room = Epoll::of(&client, libc::EPOLLOUT);
        assert_eq!(room.wait(Some(MOMENT)), 0);
        let receives = thread::spawn(move || {
            thread::sleep(MOMENT);
            (0..QUEUE).for_each(|_| assert_eq!(received(&server), b"x"));
            server
        });
        assert_eq!(room.wait(None), libc::EPOLLOUT);
        drop(receives.join().unwrap());
    });
}

/// Senders of one receiver: each message comes once, and those of one sender in their order.
#[test]
fn many_senders_have_one_receiver() {
    same(|dir| {
        let path = dir.join("server");
        let server = UnixDatagram::bind(&path).unwrap();
        let sender = |sender: u8| {
            let path = path.clone();
            thread::spawn(move || {
                let socket = UnixDatagram::unbound().unwrap();
                (0..20).for_each(|count| assert_eq!(socket.send_to(&[sender, count], &path).unwrap(), 2));
            })
        };
        let senders = [0, 1, 2].map(sender);
        let mut next = [0; 3];
        for _ in 0..60 {
            let message = received(&server);
            let next = &mut next[message[0] as usize];
            assert_eq!(message[1], *next);
            *next += 1;
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!((next, ready(&server)), ([20; 3], POLLOUT));
    });
}

#[test]
fn a_poll_of_mio_waits() {
    same(|dir| {
        let (path, token) = (dir.join("server"), mio::Token(7));
        let mut poll = mio::Poll::new().unwrap();
        let mut server = mio::net::UnixDatagram::bind(&path).unwrap();
        poll.registry().register(&mut server, token, mio::Interest::READABLE).unwrap();
        assert_eq!(kind(server.recv(&mut [0])), Some(ErrorKind::WouldBlock));
        let sends = thread::spawn(move || {
            thread::sleep(MOMENT);
            UnixDatagram::unbound().unwrap().send_to(b"hello", path)
        });
        let mut events = mio::Events::with_capacity(8);
        poll.poll(&mut events, None).unwrap();
        assert!(events.iter().all(|event| event.token() == token && event.is_readable()));
        let mut bytes = [0; 9];
        assert_eq!((server.recv(&mut bytes).unwrap(), &bytes[..5]), (5, &b"hello"[..]));
        assert_eq!(sends.join().unwrap().unwrap(), 5);
    });
}

#[test]
fn a_wait_takes_simulated_time() {
    sim::run(1, || {
        let (one, two) = UnixDatagram::pair().unwrap();
        two.set_read_timeout(Some(3600 * SECOND)).unwrap();
        let start = Instant::now();
        assert_eq!(kind(two.recv(&mut [0])), Some(ErrorKind::WouldBlock));
        assert_eq!(start.elapsed(), 3600 * SECOND);
        one.send(b"x").unwrap();
        assert_eq!(received(&two), b"x");
        assert_eq!(start.elapsed(), 3600 * SECOND, "it takes no time within a machine");
        one.set_write_timeout(Some(60 * SECOND)).unwrap();
        let error = loop {
            if let Err(error) = one.send(b"x") {
                break error;
            }
        };
        assert_eq!((error.kind(), start.elapsed()), (ErrorKind::WouldBlock, 3660 * SECOND));
    });
}

/// A path belongs to its node, and its socket ends with the node.
#[test]
fn datagrams_stay_within_their_node() {
    sim::run(1, || {
        let server = sim::node("server", || {
            let server = UnixDatagram::bind("/server").unwrap();
            let client = UnixDatagram::unbound().unwrap();
            client.send_to(b"x", "/server").unwrap();
            assert_eq!(received(&server), b"x");
            [number(server.recv(&mut [0])), number(UnixDatagram::unbound()), number(UnixDatagram::pair())]
        });
        thread::sleep(SECOND);
        let socket = UnixDatagram::unbound().unwrap();
        assert_eq!(kind(socket.send_to(b"x", "/server")), Some(ErrorKind::NotFound));
        server.kill();
        let [waiting, later @ ..] = server.join().unwrap();
        assert!([Some(libc::ENETDOWN), Some(libc::ECANCELED)].contains(&waiting), "{waiting:?}");
        assert_eq!(later, [Some(libc::ENETDOWN); 2]);
    });
}

/// Sockets of both kinds talk to each other.
#[test]
fn sockets_of_the_runtime_have_the_same_names() {
    sim::run(1, || {
        let std = UnixDatagram::bind("/std").unwrap();
        let own = runtime::net::unix::UnixDatagram::bind("/own").unwrap();
        std.send_to(b"to the runtime", "/own").unwrap();
        let mut bytes = [0; 100];
        let (n, from) = own.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..n], from.as_pathname()), (&b"to the runtime"[..], Some(Path::new("/std"))));
        own.send_to(b"to std", "/std").unwrap();
        assert_eq!(received(&std), b"to std");
    });
}

/// Returns the message of the failure of `program`.
fn failure(program: impl Fn() + Send + Sync) -> String {
    Builder::new().shrink(false).try_explore(1, program).unwrap_err().message().into()
}

#[test]
fn a_wait_for_no_sender_is_a_deadlock() {
    let failure = failure(|| _ = UnixDatagram::bind("/server").unwrap().recv(&mut [0]));
    assert!(failure.contains("deadlock") && failure.contains("/server"), "{failure}");
}

#[test]
fn what_is_not_simulated_fails_the_run() {
    let make = |kind| {
        // SAFETY: the calls access no memory but the place.
        failure(move || unsafe {
            let mut pair = [0; 2];
            libc::socket(libc::AF_UNIX, kind, 0);
            libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr());
        })
    };
    let sequence = make(libc::SOCK_SEQPACKET);
    assert!(sequence.contains("that is neither a stream nor for datagrams"), "{sequence}");
    let control = failure(|| {
        let (one, _two) = UnixDatagram::pair().unwrap();
        let mut control = [0u64; 4];
        // SAFETY: zero is a value of each field.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), 32);
        // SAFETY: the message and its control data are this function's.
        unsafe { libc::sendmsg(one.as_raw_fd(), &message, 0) };
    });
    assert!(control.contains("control data of a socket"), "{control}");
}
