//! Closures with thread-locals of their own: a caught call does not bind them to their OS thread.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::collections::HashSet;
use std::io::{Error, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;
use runtime::{Builder, Runtime, ThreadLocals};

const MILLI: Duration = Duration::from_millis(1);

fn runtime_of(procs: usize) -> Runtime {
    Builder::new().procs(procs).thread_locals(ThreadLocals::OfGreenThread).build().unwrap()
}

fn os_thread() -> i64 {
    // SAFETY: the call has no requirements.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

fn errno() -> i32 {
    Error::last_os_error().raw_os_error().unwrap()
}

/// 200 pairs that wait in `read` for each other, and fail now and then. Each finds its own `errno`, on
/// whatever OS thread it goes on.
#[test]
fn calls_move_with_their_errno() {
    let _watchdog = Watchdog::new();
    for procs in [1, 2, 8] {
        let (runtime, moves) = (runtime_of(procs), AtomicUsize::new(0));
        runtime.block_on(|| {
            runtime::scope(|s| {
                for number in 0..200 {
                    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
                    let moves = &moves;
                    s.spawn(move || {
                        let mut byte = [0];
                        while theirs.read(&mut byte).unwrap() == 1 {
                            if byte[0] % 4 == 0 {
                                std::thread::sleep(MILLI);
                            }
                            theirs.write_all(&byte).unwrap();
                        }
                    });
                    s.spawn(move || {
                        for n in 0..20 {
                            let before = os_thread();
                            // SAFETY: this descriptor is not open.
                            unsafe { libc::close(-1) };
                            ours.write_all(&[n]).unwrap();
                            let mut answer = [0];
                            ours.read_exact(&mut answer).unwrap();
                            assert_eq!((answer[0], errno()), (n, libc::EBADF), "of green thread {number}");
                            moves.fetch_add(usize::from(os_thread() != before), Relaxed);
                        }
                    });
                }
            });
        });
        if procs > 1 {
            assert!(moves.into_inner() > 10, "hardly any call has moved");
        }
    }
}

/// A call that parks and succeeds leaves `errno` alone, as libc's does: also if its descriptor's number had
/// another file before, and while other green threads fail on the same OS thread.
#[test]
fn a_call_that_succeeds_leaves_errno_alone() {
    let _watchdog = Watchdog::new();
    for locals in [ThreadLocals::OfOsThread, ThreadLocals::OfGreenThread] {
        let runtime = Builder::new().procs(1).thread_locals(locals).build().unwrap();
        let over = Arc::new(AtomicUsize::new(0));
        let is_over = over.clone();
        let other = runtime.spawn(move || {
            while is_over.load(Relaxed) == 0 {
                drop(std::fs::File::open("/is/not/there"));
                std::thread::sleep(MILLI / 10);
            }
        });
        for _ in 0..5 {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            let reader = runtime.spawn(move || {
                // SAFETY: this descriptor is not open.
                unsafe { libc::close(-1) };
                ours.read_exact(&mut [0]).unwrap();
                let after_a_read = errno();
                std::thread::sleep(MILLI);
                let after_a_sleep = errno();
                let (sender, receiver) = mpsc::channel();
                let sends = runtime::spawn(move || {
                    std::thread::sleep(MILLI);
                    sender.send(()).unwrap();
                });
                receiver.recv().unwrap();
                let after_a_lock = errno();
                sends.join().unwrap();
                [after_a_read, after_a_sleep, after_a_lock]
            });
            std::thread::sleep(2 * MILLI);
            theirs.write_all(&[1]).unwrap();
            assert_eq!(reader.join().unwrap(), [libc::EBADF; 3], "with {locals:?}");
        }
        over.store(1, Relaxed);
        other.join().unwrap();
    }
}

#[test]
fn waits_of_std_take_no_os_threads() {
    const WAITING: usize = 300;
    let _watchdog = Watchdog::new();
    let runtime = runtime_of(2);
    let over = Arc::new((Mutex::new(false), Condvar::new()));
    let all_wait = Arc::new(Barrier::new(WAITING / 3 + 1));
    let (mut senders, mut threads, mut parked) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..WAITING / 3 {
        let (sender, receiver) = mpsc::channel::<()>();
        senders.push(sender);
        threads.push(runtime.spawn(move || assert!(receiver.recv().is_err())));
        let over = over.clone();
        threads.push(runtime.spawn(move || {
            let (is_over, changed) = &*over;
            drop(changed.wait_while(is_over.lock().unwrap(), |over| !*over).unwrap());
        }));
        let (all_wait, (own, handle)) = (all_wait.clone(), mpsc::channel());
        threads.push(runtime.spawn(move || {
            own.send(std::thread::current()).unwrap();
            all_wait.wait();
            std::thread::park();
        }));
        parked.push(handle.recv().unwrap());
    }
    all_wait.wait();
    let metrics = || runtime.handle().metrics();
    while metrics().waiting < WAITING as u64 {
        std::thread::sleep(MILLI);
    }
    assert!(metrics().threads <= 8, "{} OS threads", metrics().threads);
    let ids: HashSet<_> = parked.iter().map(|thread| thread.id()).collect();
    assert_eq!(ids.len(), WAITING / 3, "two green threads are one to std");
    parked.iter().for_each(std::thread::Thread::unpark);
    drop(senders);
    *over.0.lock().unwrap() = true;
    over.1.notify_all();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// One green thread computes on each OS thread where a reader has begun its wait. The readers go on
/// elsewhere.
#[test]
fn a_reader_does_not_wait_for_its_os_thread() {
    let _watchdog = Watchdog::new();
    let runtime = runtime_of(2);
    let worst = (0..20).map(|_| {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let (begin, begun) = mpsc::channel();
        let reader = runtime.spawn(move || {
            begin.send(os_thread()).unwrap();
            theirs.read_exact(&mut [0]).unwrap();
            Instant::now()
        });
        let reads_on = begun.recv().unwrap();
        let (start, over) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let hogs: Vec<_> = (0..2)
            .map(|_| {
                let over = over.clone();
                runtime.spawn(move || {
                    while os_thread() == reads_on && over.load(Relaxed) == 0 && start.elapsed() < 200 * MILLI
                    {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        std::thread::sleep(5 * MILLI);
        let written = Instant::now();
        ours.write_all(&[1]).unwrap();
        let late = reader.join().unwrap() - written;
        over.store(1, Relaxed);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
        late
    });
    let worst = worst.max().unwrap();
    assert!(worst < 150 * MILLI, "a reader waited for a hog for {worst:?}");
}

/// A close, a cancellation and a time-out end waits at the shared station as at any other.
#[test]
fn waits_end_early() {
    let _watchdog = Watchdog::new();
    for procs in [1, 2] {
        let runtime = runtime_of(procs);
        for _ in 0..20 {
            let ((_one, theirs), (_other, limited)) =
                (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
            let read = |mut stream: UnixStream| {
                runtime.spawn(move || stream.read(&mut [0]).map_err(|error| error.raw_os_error()))
            };
            let (_silent, closed) = UnixStream::pair().unwrap();
            let fd = closed.as_raw_fd();
            let reads_closed = runtime.spawn(move || {
                let mut byte = [0];
                // SAFETY: the call reads one byte at most.
                let result = unsafe { libc::read(fd, byte.as_mut_ptr().cast(), 1) };
                (result, errno())
            });
            let cancelled = read(theirs);
            limited.set_read_timeout(Some(5 * MILLI)).unwrap();
            assert_eq!(read(limited).join().unwrap(), Err(Some(libc::EAGAIN)));
            cancelled.cancel();
            assert!(matches!(cancelled.join(), Err(_) | Ok(Err(Some(libc::ECANCELED)))));
            drop(closed);
            assert_eq!(reads_closed.join().unwrap(), (-1, libc::EBADF));
        }
    }
}

/// A wait that was begun and given up, as when what it is for has happened meanwhile, does not count as a
/// wait that is about to begin.
#[test]
fn a_wait_after_one_that_was_given_up_parks() {
    let _watchdog = Watchdog::new();
    for whose in [ThreadLocals::OfOsThread, ThreadLocals::OfGreenThread] {
        let runtime = Builder::new().procs(1).thread_locals(whose).build().unwrap();
        let (lock, (begin, begun)) = (Arc::new(Mutex::new(())), mpsc::channel());
        let held = lock.lock().unwrap();
        let waits = runtime.spawn({
            let lock = lock.clone();
            move || {
                drop(sched::park::Waiting::begin(sched::Cancel::Ends));
                begin.send(()).unwrap();
                drop(lock.lock().unwrap());
            }
        });
        begun.recv().unwrap();
        let start = Instant::now();
        while runtime.handle().metrics().waiting == 0 {
            assert!(start.elapsed() < 5000 * MILLI, "the wait blocks its OS thread");
            std::thread::sleep(MILLI);
        }
        drop(held);
        waits.join().unwrap();
    }
}

/// The pool of workers that every tutorial has: the receiver behind a lock. The senders and the receiver
/// share OS threads, so without thread-locals of its own a sender would take the receiver for itself.
#[test]
fn connections_in_a_channel_of_std_behind_a_lock_of_std() {
    let _dog = Watchdog::new();
    for procs in [1, 2] {
        let runtime = runtime_of(procs);
        let (sender, receiver) = mpsc::channel();
        (0..20).for_each(|connection| sender.send(connection).unwrap());
        let receiver = Arc::new(Mutex::new(receiver));
        let users: Vec<_> = (0..100)
            .map(|_| {
                let (receiver, sender) = (receiver.clone(), sender.clone());
                runtime.spawn(move || {
                    for _ in 0..50 {
                        let connection: u32 = receiver.lock().unwrap().recv().unwrap();
                        std::thread::sleep(Duration::from_micros(50));
                        sender.send(connection).unwrap();
                    }
                })
            })
            .collect();
        users.into_iter().for_each(|user| user.join().unwrap());
        let left: u32 = receiver.lock().unwrap().try_iter().sum();
        assert_eq!(left, (0..20).sum::<u32>());
    }
}
