//! Arguments at and beyond their limits. Valid ones work, invalid ones give an error that states the allowed
//! values, and a wait that could never end panics.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::JoinHandle;
use runtime::time::{Elapsed, sleep_async, timeout, timeout_async};
use runtime::{Builder, scope, spawn, thread};
use tests::{Drops, everywhere, on_each, panics_with, with};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Returns the farthest point in time that an `Instant` can represent.
fn far() -> Instant {
    let mut step = Duration::from_secs(1 << 62);
    let mut far = Instant::now();
    while step > Duration::ZERO {
        match far.checked_add(step) {
            Some(farther) => far = farther,
            None => step /= 2,
        }
    }
    far
}

#[test]
fn the_longest_durations_and_farthest_deadlines() {
    everywhere(|| {
        for forever in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_nanos(u64::MAX)] {
            assert_eq!(timeout(MILLI, || runtime::sleep(forever)), Err(Elapsed));
            assert_eq!(timeout(MILLI, || thread::park_timeout(forever)), Err(Elapsed));
            assert_eq!(timeout(forever, || timeout(MILLI, || runtime::sleep(forever))), Ok(Err(Elapsed)));
            let both = async { timeout_async(MILLI, timeout_async(forever, sleep_async(forever))).await };
            assert_eq!(runtime::block_on(both), Err(Elapsed));
            let me = thread::current();
            let other = spawn(move || me.unpark());
            thread::park_timeout(forever);
            other.join().unwrap();
        }
        assert_eq!(timeout(MILLI, || runtime::sleep_until(far())), Err(Elapsed));
    });
}

/// Sleeps that are polled after they were ready, and sleeps that are forgotten while they are pending.
#[test]
fn sleeps_polled_too_often_or_forgotten() {
    everywhere(|| {
        let mut cx = Context::from_waker(Waker::noop());
        let mut over = sleep_async(Duration::ZERO);
        for _ in 0..3 {
            assert!(Pin::new(&mut over).poll(&mut cx).is_ready(), "a ready sleep stays ready");
        }
        let forgets = async {
            for i in 0..20 {
                let mut forgotten = sleep_async(if i % 2 == 0 { MILLI } else { HOUR });
                let ready = tests::futures::poll_once(&mut forgotten).await.is_some();
                assert!(!ready || i % 2 == 0, "only a short one may be over before its first poll");
                std::mem::forget(forgotten);
                let start = Instant::now();
                sleep_async(MILLI).await;
                runtime::sleep(MILLI);
                assert!(start.elapsed() >= 2 * MILLI);
            }
            7
        };
        assert_eq!(spawn(forgets).join().unwrap(), 7);
    });
}

#[test]
fn names_of_threads() {
    on_each(|| {
        let named = |name: &str| {
            let ended = thread::Builder::new().name(name.into()).spawn(|| {
                thread::yield_now();
                thread::current().name().map(str::to_string)
            });
            assert_eq!(ended.unwrap().join().unwrap().as_deref(), Some(name));
        };
        named("");
        named("ünder");
        named(&"long".repeat(100_000));
        for zero in ["\0", "a\0b", "end\0"] {
            let builder = || thread::Builder::new().name(zero.into());
            let refused = builder().spawn(|| ()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
            assert!(refused.to_string().contains("zero byte"), "{refused}");
            scope(|s| assert!(builder().spawn_scoped(s, || ()).is_err()));
        }
    });
    for (name, works) in
        [("", true), ("longer than the system takes", true), ("ünder", true), ("a\0b", false)]
    {
        match Builder::new().procs(1).thread_name(name).build() {
            Ok(runtime) => assert!(works && runtime.block_on(|| spawn(|| 7).join().unwrap()) == 7),
            Err(error) => assert!(!works && error.kind() == ErrorKind::InvalidInput, "{error}"),
        }
    }
}

fn says_what_is_allowed(result: io::Result<impl Sized>, word: &str) {
    let Err(error) = result else { panic!("{word}") };
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains(word) && error.to_string().contains("allowed"), "{error}");
}

#[test]
fn sizes_of_stacks() {
    everywhere(|| {
        for bytes in [0, 1, 1000, usize::MAX >> 23, usize::MAX / 2, usize::MAX - 1, usize::MAX] {
            let builder = || thread::Builder::new().stack_size(bytes);
            let drops = Drops::default();
            let token = drops.token();
            says_what_is_allowed(builder().spawn(move || drop(token)), "stack");
            let goes_on = scope(|s| {
                let token = drops.token();
                says_what_is_allowed(builder().spawn_scoped(s, move || drop(token)), "stack");
                s.spawn(|| 3).join().unwrap()
            });
            assert_eq!((goes_on, drops.count(), drops.alive()), (3, 2, 0), "{bytes}");
        }
        for bytes in [0, 1, 1000, usize::MAX - 1, usize::MAX] {
            says_what_is_allowed(Builder::new().stack_size(bytes).build(), "stack");
        }
        // Sizes that are no multiple of a page work.
        let large = if cfg!(target_pointer_width = "64") { 1 << 30 } else { 256 << 20 };
        for bytes in [(32 << 10) + 1, 54_321, (1 << 20) - 1, 64 << 20, large] {
            let thread = thread::Builder::new().stack_size(bytes).spawn(|| 7);
            assert_eq!(thread.unwrap().join().unwrap(), 7, "{bytes}");
        }
    });
}

#[test]
fn numbers_of_ps_and_threads() {
    with(2, |runtime| {
        let handle = runtime.handle();
        for n in [0, 4097, usize::MAX] {
            says_what_is_allowed(Builder::new().procs(n).build(), "procs");
            says_what_is_allowed(handle.set_procs(n), "procs");
            runtime.block_on(|| {
                let refused = runtime::Handle::current().set_procs(n);
                assert!(refused.as_ref().is_err_and(|error| error.to_string().contains("from 1 to")));
                says_what_is_allowed(refused, "procs");
            });
            assert_eq!(handle.procs(), 2, "a refused call changes nothing");
        }
        runtime.block_on(|| {
            for n in [2, 2, 4096, 2] {
                handle.set_procs(n).unwrap();
                assert_eq!(handle.procs(), n);
                assert_eq!(spawn(|| 5).join().unwrap(), 5);
            }
        });
        let none = Builder::new().max_threads(0).build().unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InvalidInput);
        let many = Builder::new().procs(4096).max_threads(usize::MAX).build().unwrap();
        assert_eq!(many.block_on(|| spawn(|| 7).join().unwrap()), 7);
        assert_eq!(runtime.block_on(|| spawn(|| 7).join().unwrap()), 7);
    });
}

const ITSELF: &str = "a green thread cannot join itself";

/// Spawns a thread that gets its own handle.
fn with_its_handle<T: Send + 'static>(f: impl FnOnce(JoinHandle<T>) -> T + Send + 'static) -> thread::Thread {
    let (sender, own) = mpsc::channel();
    let itself = spawn(move || f(own.recv().unwrap()));
    let thread = itself.thread().clone();
    sender.send(itself).unwrap();
    thread
}

#[test]
fn a_thread_that_joins_itself() {
    on_each(|| {
        let (sender, results) = mpsc::channel();
        let ways: [fn(JoinHandle<()>); 4] = [
            |own| drop(own.join()),
            |own| drop(runtime::block_on(own)),
            |mut own| drop(Pin::new(&mut own).poll(&mut Context::from_waker(Waker::noop()))),
            |own| drop(timeout(HOUR, || own.join())),
        ];
        for way in ways {
            let sender = sender.clone();
            with_its_handle(move |own| {
                panics_with(ITSELF, || way(own));
                sender.send(7).unwrap();
            });
            assert_eq!(results.recv().unwrap(), 7);
        }
        // Calls on its own handle that do not wait work.
        let sender = sender.clone();
        with_its_handle(move |own| {
            assert!(!own.is_finished());
            own.thread().unpark();
            thread::park();
            drop(own);
            sender.send(8).unwrap();
        });
        assert_eq!(results.recv().unwrap(), 8);
    });
}

#[test]
fn a_scoped_thread_that_joins_itself() {
    everywhere(|| {
        scope(|s| {
            let (sender, own) = mpsc::channel();
            let itself = s.spawn(move || {
                let own: thread::ScopedJoinHandle<'_, ()> = own.recv().unwrap();
                panics_with(ITSELF, || own.join());
            });
            sender.send(itself).unwrap();
        });
    });
}

const AGAIN: &str = "after a poll had returned its result";

#[test]
fn a_handle_whose_result_was_taken() {
    everywhere(|| {
        let taken = || {
            let mut handle = spawn(|| String::from("once"));
            let result = runtime::block_on(&mut handle);
            assert_eq!(result.unwrap(), "once");
            handle
        };
        panics_with(AGAIN, || runtime::block_on(taken()));
        panics_with(AGAIN, || taken().join());
        let over = taken();
        assert!(over.is_finished());
        over.cancel();
        drop(over);
    });
}

#[test]
fn forgotten_guards_and_handles() {
    on_each(|| {
        for _ in 0..50 {
            spawn(|| std::mem::forget(thread::pin())).join().unwrap();
            std::mem::forget(spawn(|| ()));
            std::mem::forget(spawn(async { 7 }));
        }
        // A thread that uses the G of a thread with a forgotten guard is not pinned.
        let moved = || {
            let here = tests::os_thread();
            (0..50).any(|_| {
                runtime::sleep(Duration::from_micros(100));
                tests::os_thread() != here
            })
        };
        if runtime::Handle::current().procs() > 1 {
            let movers: Vec<_> = (0..100).map(|_| spawn(moved)).collect();
            let moved =
                movers.into_iter().filter_map(|mover| mover.join().ok()).filter(|&moved| moved).count();
            assert!(moved > 0, "no green thread has moved to another OS thread");
        }
    });
}

#[test]
fn unparking_an_ended_thread() {
    on_each(|| {
        for _ in 0..100 {
            let dead = spawn(thread::current).join().unwrap();
            // The unpark of an ended thread must not wake this thread.
            let next = spawn(|| {
                let start = Instant::now();
                thread::park_timeout(MILLI);
                start.elapsed() >= MILLI
            });
            dead.unpark();
            assert!(next.join().unwrap());
            assert_ne!(dead.id(), thread::current().id());
        }
    });
}

#[test]
fn nested_block_on() {
    fn closures(depth: u32) -> u32 {
        if depth == 0 { spawn(|| 7).join().unwrap() } else { runtime::block_on(move || closures(depth - 1)) }
    }
    fn futures(depth: u32) -> u32 {
        runtime::block_on(async move {
            sleep_async(Duration::from_micros(10)).await;
            if depth == 0 { spawn(async { 7 }).await.unwrap() } else { futures(depth - 1) }
        })
    }
    fn others(depth: u32) -> u32 {
        let handle = runtime::Handle::current();
        if depth == 0 { 7 } else { handle.block_on(move || others(depth - 1)) }
    }
    everywhere(|| assert_eq!((closures(50), futures(20), others(20)), (7, 7, 7)));
}

#[test]
fn sockets_with_empty_arguments() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert_eq!(client.write(&[]).unwrap(), 0);
        assert_eq!(client.write_vectored(&[IoSlice::new(&[]), IoSlice::new(b"x")]).unwrap(), 1);
        let mut byte = [0];
        let read = server.read_vectored(&mut [IoSliceMut::new(&mut []), IoSliceMut::new(&mut byte)]);
        assert_eq!((read.unwrap(), byte), (1, *b"x"));
        let none: &[SocketAddr] = &[];
        assert_eq!(TcpListener::bind(none).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(TcpStream::connect(none).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(TcpListener::bind("no port").is_err());
        assert!(TcpListener::bind("256.256.256.256:1").is_err());
    });
}
