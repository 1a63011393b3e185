//! `net::Async`: threads and futures wait for any descriptor, and each wait can be abandoned.
#![cfg(unix)]

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use runtime::net::Async;
use runtime::thread::Cancelled;
use runtime::time::{sleep_async, timeout, timeout_async};
use runtime::{sleep, spawn};
use tests::{everywhere, on_each, wait_until};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn pipes() -> (Async<PipeReader>, PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    (Async::new(reader).unwrap(), writer)
}

/// Receives without blocking, as C does.
fn receive(socket: &std::os::unix::net::UnixStream, bytes: &mut [u8]) -> std::io::Result<usize> {
    use std::os::fd::AsRawFd;
    // SAFETY: the bytes are valid for writes during the call.
    let n =
        unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
    usize::try_from(n).map_err(|_| std::io::Error::last_os_error())
}

/// Each connection is reset while its reader waits, perhaps on another OS thread than the one on which it
/// began.
#[test]
fn a_call_of_c_returns_its_own_error_after_a_wait() {
    use std::os::unix::net::UnixStream;
    everywhere(|| {
        let readers: Vec<_> = (0..100)
            .map(|n| {
                let (near, mut far) = UnixStream::pair().unwrap();
                let near = Async::new(near).unwrap();
                let (told, tells) = runtime::channel::bounded(1);
                let reader = move || {
                    let mut bytes = [0; 8];
                    assert_eq!(near.read_with(|near| receive(near, &mut bytes)).unwrap(), 1);
                    assert_eq!(near.write_with(|mut near| near.write(b"y")).unwrap(), 1);
                    told.send(()).unwrap();
                    near.read_with(|near| receive(near, &mut bytes)).map_err(|error| error.kind())
                };
                let reader = spawn(reader);
                let writer = spawn(move || {
                    far.write_all(b"x").unwrap();
                    tells.recv().unwrap();
                    (0..n % 7).for_each(|_| runtime::yield_now());
                    // An end that leaves a byte unread resets the connection.
                });
                (reader, writer)
            })
            .collect();
        for (reader, writer) in readers {
            writer.join().unwrap();
            assert_eq!(reader.join().unwrap(), Err(ErrorKind::ConnectionReset));
        }
    });
}

#[test]
fn calls_wait_until_they_would_no_longer_block() {
    everywhere(|| {
        let (reader, mut writer) = pipes();
        let written = Arc::new(AtomicUsize::new(0));
        let reads = spawn({
            let written = written.clone();
            move || {
                let mut calls = 0;
                let read = reader.read_with(|_| {
                    calls += 1;
                    match (calls, written.load(SeqCst)) {
                        (1, _) => Err(ErrorKind::Interrupted.into()),
                        (_, 0) => Err(ErrorKind::WouldBlock.into()),
                        (_, n) => Ok(n),
                    }
                });
                let refused = reader.read_with(|_| Err::<(), _>(ErrorKind::BrokenPipe.into()));
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::BrokenPipe);
                read.unwrap()
            }
        });
        runtime::yield_now();
        written.store(7, SeqCst);
        writer.write_all(b"x").unwrap();
        assert_eq!(reads.join().unwrap(), 7);

        let (reader, writer) = pipe().unwrap();
        let writer = Async::new(writer).unwrap();
        let reads = std::thread::spawn(move || {
            std::thread::sleep(MILLI);
            let mut all = Vec::new();
            (&reader).read_to_end(&mut all).unwrap();
            all.len()
        });
        // SAFETY: the call changes the mode of an open descriptor.
        let set = unsafe {
            libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(writer.get_ref()), libc::F_SETFL, libc::O_NONBLOCK)
        };
        assert_eq!(set, 0);
        let (mut left, block) = (1 << 20, vec![7; 100_000]);
        while left > 0 {
            let part = &block[..left.min(block.len())];
            left -= writer.write_with(|mut writer| writer.write(part)).unwrap();
        }
        drop(writer);
        assert_eq!(runtime::blocking(|| reads.join().unwrap()), 1 << 20);
    });
}

/// A foreign waker that counts its wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_reader_waits_for_bytes_written_before_or_later() {
    everywhere(|| {
        let (reader, mut writer) = pipes();
        for early in [true, false] {
            for _ in 0..20 {
                if early {
                    writer.write_all(b"x").unwrap();
                }
                let late = (!early).then(|| {
                    let mut writer = writer.try_clone().unwrap();
                    spawn(move || writer.write_all(b"x").unwrap())
                });
                reader.readable().unwrap();
                reader.readable().unwrap();
                assert_eq!(reader.get_ref().read(&mut [0; 8]).unwrap(), 1);
                late.into_iter().for_each(|late| late.join().unwrap());
            }
        }
        drop(writer);
        reader.readable().unwrap();
        assert_eq!(reader.get_ref().read(&mut [0; 8]).unwrap(), 0);
    });
}

#[test]
fn a_writer_waits_for_room() {
    everywhere(|| {
        let (mut reader, writer) = pipe().unwrap();
        let writer = Async::new(writer).unwrap();
        writer.writable().unwrap();
        writer.get_ref().write_all(&[7; 65536]).unwrap();
        assert!(timeout(2 * MILLI, || writer.writable()).is_err());
        let waits = spawn(move || writer.writable());
        sleep(MILLI);
        assert!(!waits.is_finished());
        reader.read_exact(&mut [0; 8192]).unwrap();
        waits.join().unwrap().unwrap();
    });
}

#[test]
fn abandoned_waits_can_be_repeated() {
    on_each(|| {
        let (reader, mut writer) = pipes();
        let reader = Arc::new(reader);
        let waits = {
            let reader = reader.clone();
            spawn(move || reader.readable())
        };
        sleep(MILLI);
        waits.cancel();
        assert!(waits.join().unwrap_err().is::<Cancelled>());
        let late = timeout_future(&reader, MILLI);
        assert!(late.is_none());
        writer.write_all(b"x").unwrap();
        timeout_future(&reader, HOUR).unwrap();
        reader.readable().unwrap();
    });
}

fn timeout_future(reader: &Async<PipeReader>, time: Duration) -> Option<()> {
    runtime::block_on(async { timeout_async(time, reader.readable_async()).await }).ok().map(Result::unwrap)
}

#[test]
fn futures_and_threads_wait_for_the_same_descriptor() {
    on_each(|| {
        let (reader, mut writer) = pipes();
        let reader = Arc::new(reader);
        let woken = Arc::new(AtomicUsize::new(0));
        for i in 0..8 {
            let (reader, woken) = (reader.clone(), woken.clone());
            match i % 2 {
                0 => drop(spawn(async move {
                    reader.readable_async().await.unwrap();
                    woken.fetch_add(1, SeqCst);
                })),
                _ => drop(spawn(move || {
                    reader.readable().unwrap();
                    woken.fetch_add(1, SeqCst);
                })),
            }
        }
        sleep(MILLI);
        assert_eq!(woken.load(SeqCst), 0);
        writer.write_all(b"x").unwrap();
        wait_until("all waiters are woken", || woken.load(SeqCst) == 8);
    });
}

#[test]
fn a_foreign_waker_is_called_once_per_event() {
    everywhere(|| {
        let (reader, mut writer) = pipes();
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let calls = |count: &Arc<Count>| count.0.load(SeqCst);
        {
            let mut future = pin!(reader.readable_async());
            // Only the waker of the last poll is called.
            for count in [&first, &second] {
                let waker = Waker::from(count.clone());
                assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
            writer.write_all(b"x").unwrap();
            wait_until("the last waker is called", || calls(&second) == 1);
            let waker = Waker::from(second.clone());
            assert!(matches!(future.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(()))));
        }
        reader.get_ref().read_exact(&mut [0]).unwrap();
        {
            let mut future = pin!(reader.readable_async());
            let waker = Waker::from(second.clone());
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        writer.write_all(b"x").unwrap();
        sleep(2 * MILLI);
        assert_eq!((calls(&first), calls(&second)), (0, 1), "a dropped future is not woken");
        wait_until("no waker is kept", || Arc::strong_count(&first) == 1 && Arc::strong_count(&second) == 1);
    });
}

#[test]
fn a_future_may_be_polled_by_different_tasks() {
    on_each(|| {
        let (reader, mut writer) = pipes();
        let reader = Arc::new(reader);
        let mine = reader.clone();
        let future = async move { mine.readable_async().await.map(|()| 7) };
        let mut future = Box::pin(future);
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let moved = spawn(future);
        sleep(MILLI);
        assert!(!moved.is_finished());
        writer.write_all(b"x").unwrap();
        assert_eq!(moved.join().unwrap().unwrap(), 7);
    });
}

#[test]
fn a_runtime_that_ends_wakes_futures_that_wait_for_its_sockets() {
    let _dog = tests::Watchdog::new();
    let runtime = tests::runtime(1);
    let (reader, _writer) = runtime.block_on(pipes);
    let waits = spawn(async move { reader.readable_async().await });
    sleep(2 * MILLI);
    drop(runtime);
    assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::NotConnected);
}

#[test]
fn many_futures_at_many_pipes() {
    on_each(|| {
        let (readers, mut writers): (Vec<_>, Vec<_>) = (0..100).map(|_| pipes()).unzip();
        let sums: Vec<_> = readers
            .into_iter()
            .map(|reader| {
                spawn(async move {
                    let mut sum = 0;
                    loop {
                        reader.readable_async().await.unwrap();
                        let mut byte = [0];
                        match reader.get_ref().read(&mut byte).unwrap() {
                            0 => return sum,
                            _ => sum += u32::from(byte[0]),
                        }
                        if byte[0] % 5 == 0 {
                            sleep_async(MILLI / 10).await;
                        }
                    }
                })
            })
            .collect();
        for byte in 0..50u8 {
            writers.iter_mut().for_each(|writer| writer.write_all(&[byte]).unwrap());
        }
        drop(writers);
        assert!(sums.into_iter().all(|sum| sum.join().unwrap() == 49 * 50 / 2));
    });
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(portable, ignore = "only Linux has a hint")]
fn an_unsuitable_descriptor_is_refused_with_a_hint() {
    tests::on(1, || {
        let error = Async::new(std::fs::File::open("Cargo.toml").unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("regular file"), "{error}");
        assert!(error.to_string().contains("blocking"), "the message says what to do: {error}");
        assert!(Async::new(std::fs::File::open("/").unwrap()).is_err());
    });
}

#[test]
#[cfg_attr(all(portable, not(kqueue_model)), ignore = "epoll has the error, and only Linux has a hint")]
fn a_descriptor_is_registered_once_at_a_time() {
    tests::on(1, || {
        let (reader, mut writer) = pipes();
        let again = Async::new(&reader).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        assert!(again.to_string().contains("duplicate"), "{again}");
        // The first is still the one to which events come.
        let writes = spawn(move || {
            sleep(MILLI);
            writer.write_all(b"x").unwrap();
            writer
        });
        reader.readable().unwrap();
        let _writer = writes.join().unwrap();
        let reader = reader.into_inner();
        Async::new(&reader).unwrap();
        Async::new(&reader).unwrap();

        // A socket is registered from its start.
        let listener = runtime::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(Async::new(&listener).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let address = listener.local_addr().unwrap();
        let client = spawn(move || {
            sleep(MILLI);
            runtime::net::TcpStream::connect(address).unwrap()
        });
        listener.accept().unwrap();
        client.join().unwrap();
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_timerfd_can_be_awaited() {
    use std::os::fd::{FromRawFd, OwnedFd};
    everywhere(|| {
        // SAFETY: the call takes no pointer, and no other code owns the descriptor.
        let timer = unsafe { OwnedFd::from_raw_fd(libc::timerfd_create(libc::CLOCK_MONOTONIC, 0)) };
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let time = libc::timespec { tv_sec: 0, tv_nsec: 3_000_000 };
        let once = libc::itimerspec { it_interval: zero, it_value: time };
        let number = std::os::fd::AsRawFd::as_raw_fd(&timer);
        let start = std::time::Instant::now();
        // SAFETY: `timerfd_settime` reads `once`; a null pointer for the old value is allowed.
        assert_eq!(unsafe { libc::timerfd_settime(number, 0, &once, std::ptr::null_mut()) }, 0);
        let timer = Async::new(timer).unwrap();
        timer.readable().unwrap();
        assert!(start.elapsed() >= 2 * MILLI);
    });
}
