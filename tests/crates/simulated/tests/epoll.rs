//! `epoll`, `eventfd` and `timerfd` in a simulation, as C calls them, and by the crate mio.

runtime::interpose!(sim);

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::panic;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD};
use libc::{EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP};
use runtime::sim;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Makes a connection within the node of the caller.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(result: i32) -> OwnedFd {
    // SAFETY: the number is new.
    unsafe { OwnedFd::from_raw_fd(checked(result).unwrap()) }
}

/// Returns the number of an error.
fn number<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

struct Epoll(OwnedFd);

impl Epoll {
    fn new() -> Epoll {
        // SAFETY: the call takes no pointer.
        Epoll(owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }))
    }

    fn control(&self, operation: i32, of: RawFd, events: i32) -> io::Result<i32> {
        let mut event = libc::epoll_event { events: events as u32, u64: of as u64 };
        // SAFETY: the event is this function's.
        checked(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, of, &mut event) })
    }

    fn add(&self, of: &impl AsRawFd, events: i32) {
        self.control(EPOLL_CTL_ADD, of.as_raw_fd(), events).unwrap();
    }

    /// Waits for `time`. Returns the descriptors with their events.
    fn wait(&self, most: usize, time: Option<Duration>) -> Vec<(RawFd, i32)> {
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; most];
        let time = time.map_or(-1, |time| time.as_millis() as i32);
        // SAFETY: the place has room for `most` events.
        let found =
            checked(unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), most as i32, time) });
        events.truncate(found.unwrap() as usize);
        events.iter().map(|event| (event.u64 as RawFd, event.events as i32)).collect()
    }

    fn look(&self) -> Vec<(RawFd, i32)> {
        self.wait(8, Some(Duration::ZERO))
    }
}

#[test]
fn a_level_is_reported_again_and_an_edge_once() {
    sim::run(1, || {
        let (mut near, mut far) = pair();
        let [level, edge, once] = [(); 3].map(|()| Epoll::new());
        let fd = far.as_raw_fd();
        level.add(&far, EPOLLIN);
        edge.add(&far, EPOLLIN | EPOLLET);
        once.add(&far, EPOLLIN | EPOLLONESHOT);
        assert!([&level, &edge, &once].iter().all(|epoll| epoll.look().is_empty()));
        near.write_all(b"abc").unwrap();
        for epoll in [&level, &edge, &once] {
            assert_eq!(epoll.wait(8, Some(SECOND)), [(fd, EPOLLIN)]);
        }
        assert_eq!(level.look(), [(fd, EPOLLIN)]);
        far.read_exact(&mut [0; 1]).unwrap();
        assert_eq!(edge.look(), [], "a part was read, and nothing has come");
        assert_eq!(once.look(), []);
        near.write_all(b"d").unwrap();
        assert_eq!(edge.wait(8, Some(SECOND)), [(fd, EPOLLIN)]);
        assert_eq!(once.look(), []);
        once.control(EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT).unwrap();
        assert_eq!(once.look(), [(fd, EPOLLIN)]);
        far.read_exact(&mut [0; 3]).unwrap();
        assert_eq!(level.look(), []);
        edge.control(EPOLL_CTL_MOD, fd, EPOLLOUT | EPOLLET).unwrap();
        assert_eq!(edge.look(), [(fd, EPOLLOUT)]);
        assert_eq!(edge.look(), []);
    });
}

#[test]
fn ends_are_reported_unasked() {
    sim::run(1, || {
        let (near, far) = pair();
        let epoll = Epoll::new();
        epoll.add(&far, EPOLLRDHUP);
        near.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(epoll.wait(1, Some(SECOND)), [(far.as_raw_fd(), EPOLLRDHUP)]);
        epoll.control(EPOLL_CTL_MOD, far.as_raw_fd(), 0).unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(epoll.wait(1, Some(SECOND)), [(far.as_raw_fd(), EPOLLHUP)]);
        // Bytes that were not read reset the connection.
        let (mut near, far) = pair();
        let epoll = Epoll::new();
        epoll.add(&near, 0);
        near.write_all(b"x").unwrap();
        thread::sleep(SECOND);
        drop(far);
        let found = epoll.wait(1, Some(SECOND));
        assert_eq!(found, [(near.as_raw_fd(), EPOLLERR | EPOLLHUP)]);
    });
}

#[test]
fn errors_are_those_of_the_kernel() {
    let errors = || {
        let (near, far) = pair();
        let epoll = Epoll::new();
        let add = |fd: RawFd| epoll.control(EPOLL_CTL_ADD, fd, EPOLLIN);
        add(near.as_raw_fd()).unwrap();
        let mut numbers = vec![
            number(add(near.as_raw_fd())),
            number(epoll.control(EPOLL_CTL_MOD, far.as_raw_fd(), EPOLLIN)),
            number(epoll.control(EPOLL_CTL_DEL, far.as_raw_fd(), 0)),
            number(epoll.control(99, far.as_raw_fd(), 0)),
            number(add(epoll.0.as_raw_fd())),
            number(add(-1)),
        ];
        // SAFETY: no call accesses memory.
        unsafe {
            let wait = |fd, most| checked(libc::epoll_wait(fd, ptr::dangling_mut(), most, 0));
            numbers.push(number(wait(epoll.0.as_raw_fd(), 0)));
            numbers.push(number(wait(near.as_raw_fd(), 1)));
            numbers.push(number(checked(libc::epoll_create1(1))));
            numbers.push(number(checked(libc::eventfd(0, 1 << 30))));
            numbers.push(number(checked(libc::timerfd_create(77, 0))));
            numbers.push(number(checked(libc::listen(epoll.0.as_raw_fd(), 1))));
        }
        numbers
    };
    let expected = [
        libc::EEXIST,
        libc::ENOENT,
        libc::ENOENT,
        libc::EINVAL,
        libc::EINVAL,
        libc::EBADF,
        libc::EINVAL,
        libc::EINVAL,
        libc::EINVAL,
        libc::EINVAL,
        libc::EINVAL,
        libc::ENOTSOCK,
    ];
    assert_eq!(errors(), expected, "the kernel's");
    assert_eq!(sim::run(1, errors), expected);
}

/// A number stands for its socket as long as there is a duplicate.
#[test]
fn closed_sockets_are_no_longer_reported() {
    sim::run(1, || {
        let (mut near, far) = pair();
        let epoll = Epoll::new();
        epoll.add(&far, EPOLLIN);
        let (fd, clone) = (far.as_raw_fd(), far.try_clone().unwrap());
        drop(far);
        near.write_all(b"x").unwrap();
        assert_eq!(epoll.wait(8, Some(SECOND)), [(fd, EPOLLIN)]);
        drop(clone);
        assert_eq!(epoll.look(), []);
    });
}

/// A socket that is closed while a thread waits for it is closed at once.
#[test]
fn a_close_ends_the_connection_although_a_thread_waits() {
    sim::run(1, || {
        let (mut near, far) = pair();
        let epoll = Arc::new(Epoll::new());
        epoll.add(&far, EPOLLIN);
        let waiter = epoll.clone();
        let waiter = thread::spawn(move || waiter.wait(8, Some(10 * SECOND)));
        thread::sleep(SECOND);
        let start = Instant::now();
        drop(far);
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
        assert!(start.elapsed() < SECOND);
        assert_eq!(waiter.join().unwrap(), []);
    });
}

#[test]
fn an_entry_that_is_added_later_ends_a_wait() {
    sim::run(1, || {
        let epoll = Arc::new(Epoll::new());
        let waiter = epoll.clone();
        let waiter = thread::spawn(move || waiter.wait(8, None));
        thread::sleep(SECOND);
        // SAFETY: the call takes no pointer.
        let event = owned(unsafe { libc::eventfd(1, 0) });
        epoll.add(&event, EPOLLIN);
        assert_eq!(waiter.join().unwrap(), [(event.as_raw_fd(), EPOLLIN)]);
    });
}

#[test]
fn a_count_is_raised_and_taken() {
    let counts = || {
        // SAFETY: the calls take no pointer.
        let [event, by_one] = [0, libc::EFD_SEMAPHORE]
            .map(|flags| owned(unsafe { libc::eventfd(2, flags | libc::EFD_NONBLOCK) }));
        let mut count = 0;
        // SAFETY: the places are this function's.
        unsafe {
            let mut read =
                |fd: &OwnedFd| checked(libc::eventfd_read(fd.as_raw_fd(), &mut count)).map(|_| count);
            let write = |fd: &OwnedFd, by| checked(libc::eventfd_write(fd.as_raw_fd(), by));
            write(&event, 3).unwrap();
            assert_eq!(read(&event).unwrap(), 5);
            assert_eq!(number(read(&event)), libc::EAGAIN);
            assert_eq!([read(&by_one).unwrap(), read(&by_one).unwrap()], [1, 1]);
            assert_eq!(number(read(&by_one)), libc::EAGAIN);
            write(&event, u64::MAX - 1).unwrap();
            assert_eq!(number(write(&event, 1)), libc::EAGAIN);
            assert_eq!(number(write(&event, u64::MAX)), libc::EINVAL);
            assert_eq!(libc::read(event.as_raw_fd(), [0u8; 4].as_mut_ptr().cast(), 4), -1);
        }
    };
    counts();
    sim::run(1, counts);
}

#[test]
fn a_timer_expires_in_simulated_time() {
    sim::run(1, || {
        // SAFETY: the call takes no pointer.
        let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) });
        let time = |time: Duration| libc::timespec {
            tv_sec: time.as_secs() as _,
            tv_nsec: time.subsec_nanos() as _,
        };
        let set = |value, interval| {
            let new = libc::itimerspec { it_value: time(value), it_interval: time(interval) };
            // SAFETY: the time is this function's.
            checked(unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &new, ptr::null_mut()) }).unwrap();
        };
        let read = || {
            let mut count = 0u64;
            // SAFETY: the place is this function's.
            assert_eq!(unsafe { libc::read(timer.as_raw_fd(), (&raw mut count).cast(), 8) }, 8);
            count
        };
        let epoll = Epoll::new();
        epoll.add(&timer, EPOLLIN);
        let start = Instant::now();
        set(3600 * SECOND, 10 * SECOND);
        assert_eq!(epoll.wait(1, None), [(timer.as_raw_fd(), EPOLLIN)]);
        assert_eq!(start.elapsed(), 3600 * SECOND);
        assert_eq!(read(), 1);
        assert_eq!(epoll.look(), []);
        thread::sleep(35 * SECOND);
        assert_eq!(read(), 3);
        assert_eq!(read(), 1, "it waits for the next one");
        assert_eq!(start.elapsed(), 3640 * SECOND);
        set(Duration::ZERO, Duration::ZERO);
        assert_eq!(epoll.wait(1, Some(3600 * SECOND)), []);
        assert_eq!(start.elapsed(), 7240 * SECOND);
    });
}

/// A server of mio for one connection. `reads_all`: it reads until nothing is left, as an edge demands.
fn serve_by_mio(reads_all: bool) {
    let mut poll = mio::Poll::new().unwrap();
    let mut listener = mio::net::TcpListener::bind("0.0.0.0:7".parse().unwrap()).unwrap();
    poll.registry().register(&mut listener, mio::Token(0), mio::Interest::READABLE).unwrap();
    let (mut events, mut stream) = (mio::Events::with_capacity(8), None);
    loop {
        poll.poll(&mut events, None).unwrap();
        for event in &events {
            if event.token() == mio::Token(0) {
                let Ok((mut accepted, _)) = listener.accept() else { continue };
                poll.registry().register(&mut accepted, mio::Token(1), mio::Interest::READABLE).unwrap();
                stream = Some(accepted);
                continue;
            }
            let stream: &mut mio::net::TcpStream = stream.as_mut().unwrap();
            loop {
                let mut bytes = [0; 4];
                match stream.read(&mut bytes) {
                    Ok(0) => return,
                    Ok(n) => stream.write_all(&bytes[..n]).unwrap(),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
                if !reads_all {
                    break;
                }
            }
        }
    }
}

fn ask_twice(reads_all: bool) {
    let server = sim::node("server", move || serve_by_mio(reads_all));
    thread::sleep(SECOND);
    let mut stream = TcpStream::connect("server:7").unwrap();
    stream.write_all(b"abcd").unwrap();
    thread::sleep(MS);
    stream.write_all(b"efgh").unwrap();
    let mut answer = [0; 8];
    stream.set_read_timeout(Some(60 * SECOND)).unwrap();
    stream.read_exact(&mut answer).expect("the server answers");
    assert_eq!(&answer, b"abcdefgh");
    drop(stream);
    server.join().unwrap();
}

/// Two messages may come with one edge. The seed decides.
#[test]
fn a_server_of_mio_that_forgets_the_rest_is_found() {
    let explore = |reads_all: bool| sim::Builder::new().try_explore(200, move || ask_twice(reads_all));
    assert!(explore(true).is_ok());
    let failure = explore(false).unwrap_err();
    assert!(failure.message().contains("the server answers"), "{}", failure.message());
    let again = panic::catch_unwind(|| sim::run(failure.seed(), || ask_twice(false)));
    let text = again.unwrap_err().downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains(failure.message()), "the seed repeats it: {text}");
}

#[test]
fn a_waker_of_mio_wakes() {
    sim::run(1, || {
        let mut poll = mio::Poll::new().unwrap();
        let waker = mio::Waker::new(poll.registry(), mio::Token(9)).unwrap();
        let start = Instant::now();
        let waking = thread::spawn(move || {
            thread::sleep(5 * SECOND);
            waker.wake().unwrap();
            waker
        });
        let mut events = mio::Events::with_capacity(8);
        poll.poll(&mut events, Some(60 * SECOND)).unwrap();
        assert_eq!(start.elapsed(), 5 * SECOND);
        assert!(events.iter().all(|event| event.token() == mio::Token(9)) && !events.is_empty());
        poll.poll(&mut events, Some(60 * SECOND)).unwrap();
        assert!(events.is_empty());
        assert_eq!(start.elapsed(), 65 * SECOND);
        drop(waking.join().unwrap());
    });
}
