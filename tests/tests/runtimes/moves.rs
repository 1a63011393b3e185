//! Which calls may move a closure to another OS thread: only calls that park, even if the caller's P was
//! taken in the meantime.

use std::io::{Read, Write};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use runtime::channel::{self, bounded, unbounded};
use runtime::context::Context as Ctx;
use runtime::net::{TcpListener, TcpStream, UdpSocket};
use runtime::sync::{
    Barrier, Condvar, Mutex, Notify, OnceCell, OnceLock, RwLock, Semaphore, WaitGroup, broadcast, oneshot,
    watch,
};
use runtime::thread::{self, JoinSet, park, park_timeout, pin};
use runtime::time::{Ticker, Timer, after_func, interval, interval_at, sleep_async, timeout, timeout_at};
use runtime::{JoinHandle, block_on, blocking, scope, select, sleep, spawn, yield_now};
use tests::crowd::Spinners;
use tests::folder::Folder;
use tests::{on, os_thread, spin};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
/// Longer than sysmon leaves a P to a green thread that computes.
const LONG: Duration = Duration::from_millis(15);

/// Prepares a call, and returns the call.
type Prepare = fn() -> Box<dyn FnOnce()>;

/// Makes a call that leaves `value` undropped, so that no destructor is part of the call.
fn keeping<T: 'static, R>(value: T, call: impl FnOnce(&T) -> R + 'static) -> Box<dyn FnOnce()> {
    let value = Arc::new(std::mem::ManuallyDrop::new(value));
    Box::new(move || drop(call(&value)))
}

/// Calls that keep the caller on its OS thread.
const STAY: &[(&str, Prepare)] = &[
    ("spawn a closure", || Box::new(|| drop(spawn(|| ())))),
    ("spawn a future", || Box::new(|| drop(spawn(async {})))),
    ("thread::Builder::spawn", || Box::new(|| drop(thread::Builder::new().stack_size(1 << 16).spawn(|| ())))),
    ("JoinHandle::is_finished", || keeping(spawn(|| ()), JoinHandle::is_finished)),
    ("JoinHandle::cancel", || keeping(spawn(|| sleep(HOUR)), JoinHandle::cancel)),
    ("drop of a JoinHandle", || {
        let handle = spawn(|| ());
        Box::new(|| drop(handle))
    }),
    ("Thread::unpark", || keeping(spawn(park), |parked| parked.thread().unpark())),
    ("thread::current", || Box::new(|| drop(thread::current()))),
    ("pin, and drop of its guard", || Box::new(|| drop(pin()))),
    ("blocking", || Box::new(|| blocking(|| ()))),
    ("a computing timeout", || Box::new(|| timeout(HOUR, || ()).unwrap())),
    ("Waker::wake", || {
        let kept: Arc<std::sync::Mutex<Option<Waker>>> = Arc::default();
        drop(spawn({
            let kept = kept.clone();
            std::future::poll_fn(move |cx: &mut Context<'_>| {
                match kept.lock().unwrap().replace(cx.waker().clone()) {
                    None => Poll::Pending,
                    Some(_) => Poll::Ready(()),
                }
            })
        }));
        while kept.lock().unwrap().is_none() {
            yield_now();
        }
        let waker = kept.lock().unwrap().as_ref().unwrap().clone();
        Box::new(|| waker.wake())
    }),
    ("Sender::send with room", || keeping(unbounded(), |(sender, _)| sender.send(1))),
    ("Sender::send to a waiter", || {
        let (sender, receiver) = bounded(1);
        drop(spawn(move || receiver.recv()));
        yield_now();
        keeping(sender, |sender| sender.send(1))
    }),
    ("Sender::try_send", || keeping(bounded(0), |(sender, _)| sender.try_send(1).is_ok())),
    ("Receiver::try_recv", || keeping(unbounded::<i32>(), |(_, receiver)| receiver.try_recv())),
    ("Receiver::recv of a message", || {
        let (sender, receiver) = unbounded();
        sender.send(1).unwrap();
        keeping(receiver, |receiver| receiver.recv())
    }),
    ("drop of a Sender", || {
        let (sender, receiver) = unbounded::<i32>();
        drop(spawn(move || receiver.recv()));
        yield_now();
        Box::new(|| drop(sender))
    }),
    ("select! with a default", || {
        keeping(unbounded::<i32>(), |(_, receiver)| {
            select! { recv(receiver) -> _ => (), default => () }
        })
    }),
    ("channel::after, channel::tick", || Box::new(|| drop((channel::after(HOUR), channel::tick(HOUR))))),
    ("Mutex::lock of a free mutex, and unlock", || keeping(Mutex::new(0), |mutex| *mutex.lock() += 1)),
    ("Mutex::try_lock", || keeping(Mutex::new(0), |mutex| drop(mutex.try_lock()))),
    ("unlock of a Mutex that others wait for", || {
        let mutex = Arc::new(Mutex::new(0));
        let guard = Mutex::lock_arc(&mutex);
        drop(spawn(move || drop(mutex.lock())));
        yield_now();
        Box::new(|| drop(guard))
    }),
    ("RwLock::read and write of a free lock", || {
        keeping(RwLock::new(0), |lock| {
            drop(lock.read());
            drop(lock.write());
            drop(lock.try_read());
        })
    }),
    ("Condvar::notify", || {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        drop(spawn({
            let pair = pair.clone();
            move || {
                let mut told = pair.0.lock();
                pair.1.wait(&mut told);
            }
        }));
        yield_now();
        keeping(pair, |pair| (pair.1.notify_one(), pair.1.notify_all()))
    }),
    ("Notify::notify_one, notify_waiters", || {
        let notify = Arc::new(Notify::new());
        drop(spawn({
            let notify = notify.clone();
            move || notify.notified()
        }));
        yield_now();
        keeping(notify, |notify| {
            notify.notify_one();
            notify.notify_waiters();
        })
    }),
    ("Semaphore::add_permits", || {
        let semaphore = Arc::new(Semaphore::new(0));
        drop(spawn({
            let semaphore = semaphore.clone();
            move || drop(semaphore.acquire())
        }));
        yield_now();
        keeping(semaphore, |semaphore| semaphore.add_permits(1))
    }),
    ("Semaphore::try_acquire, acquire with permits, and their drop", || {
        keeping(Semaphore::new(2), |semaphore| drop((semaphore.try_acquire(), semaphore.acquire())))
    }),
    ("Semaphore::close", || keeping(Semaphore::new(1), Semaphore::close)),
    ("OnceLock::get_or_init", || keeping(OnceLock::new(), |once| *once.get_or_init(|| 1))),
    ("clone and drop of a WaitGroup", || keeping(WaitGroup::new(), |group| drop(group.clone()))),
    ("Timer::new, reset, stop, drop", || {
        Box::new(|| {
            let timer = Timer::new(HOUR);
            timer.reset(HOUR);
            timer.stop();
        })
    }),
    ("after_func", || Box::new(|| drop(after_func(HOUR, || ())))),
    ("Ticker::new, reset, stop, drop", || {
        Box::new(|| {
            let ticker = Ticker::new(HOUR);
            ticker.reset(HOUR);
            ticker.stop();
        })
    }),
    ("Context::with_timeout, CancelOnDrop::cancel", || {
        Box::new(|| {
            let (context, cancel) = Ctx::background().with_timeout(HOUR);
            cancel.cancel();
            assert!(context.err().is_some());
        })
    }),
    ("Context::with_cancel_cause, after_func, stop, cancel", || {
        Box::new(|| {
            let (context, cancel) = Ctx::background().with_cancel_cause();
            assert!(context.after_func(|| ()).stop());
            context.after_func(|| ());
            cancel.cancel("a cause");
            assert!(context.without_cancel().cause().is_none());
        })
    }),
    ("Context::run of code that computes", || {
        let (context, cancel) = Ctx::background().with_cancel();
        Box::new(move || {
            context.run(|| spin(MILLI)).unwrap();
            drop(cancel);
        })
    }),
    ("CancelOnDrop::cancel of a run that waits", || {
        let (context, cancel) = Ctx::background().with_cancel();
        drop(spawn(move || drop(context.run(park))));
        yield_now();
        Box::new(move || cancel.cancel())
    }),
    ("AbortHandle::cancel", || keeping(spawn(park), |parked| parked.abort_handle().cancel())),
    ("JoinSet::spawn, try_join_next, cancel_all, detach_all", || {
        keeping(Mutex::new(JoinSet::new()), |set| {
            let mut set = set.try_lock().unwrap();
            set.spawn(park);
            assert!(set.try_join_next().is_none());
            set.cancel_all();
            set.detach_all();
        })
    }),
    ("JoinSet: extend, try_join_next_with_id", || {
        keeping(Mutex::new(JoinSet::new()), |set| {
            let mut set = set.try_lock().unwrap();
            set.extend([std::future::pending::<()>()]);
            assert!(set.try_join_next_with_id().is_none());
        })
    }),
    ("Sleep::reset", || {
        keeping(Mutex::new(sleep_async(HOUR)), |sleep| {
            let mut sleep = sleep.try_lock().unwrap();
            let deadline = sleep.deadline();
            sleep.reset(deadline + HOUR);
            assert!(!sleep.is_elapsed());
        })
    }),
    ("interval, reset", || Box::new(|| interval(HOUR).reset())),
    ("timeout_at of code that computes", || Box::new(|| timeout_at(Instant::now() + HOUR, || ()).unwrap())),
    ("UdpSocket::try_recv_from, try_send_to", || {
        let socket = runtime::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        keeping(socket, |socket| {
            assert!(socket.try_recv_from(&mut [0; 10]).is_err());
            socket.try_send_to(b"hello", socket.local_addr().unwrap()).unwrap();
        })
    }),
    ("watch: send, send_modify, borrow, has_changed, subscribe", || {
        let (sender, receiver) = watch::channel(0);
        drop(spawn({
            let mut receiver = receiver.clone();
            move || receiver.changed()
        }));
        yield_now();
        keeping((sender, receiver), |(sender, receiver)| {
            sender.send(1).unwrap();
            sender.send_modify(|value| *value += 1);
            assert_eq!(*receiver.borrow(), 2);
            assert!(receiver.has_changed().unwrap());
            drop(sender.subscribe());
        })
    }),
    ("broadcast: send, try_recv, subscribe", || {
        let (sender, receiver) = broadcast::channel(4);
        drop(spawn({
            let mut receiver = sender.subscribe();
            move || receiver.recv()
        }));
        yield_now();
        keeping((sender, Mutex::new(receiver)), |(sender, receiver)| {
            sender.send(1).unwrap();
            assert_eq!(receiver.try_lock().unwrap().try_recv(), Ok(1));
            drop(sender.subscribe());
        })
    }),
    ("oneshot: send to a waiter, recv of a message", || {
        let ((sender, receiver), (ready, message)) = (oneshot::channel(), oneshot::channel());
        drop(spawn(move || receiver.recv()));
        ready.send(2).unwrap();
        yield_now();
        Box::new(move || {
            sender.send(1).unwrap();
            assert_eq!(message.recv(), Ok(2));
        })
    }),
    ("OnceCell::set, get, get_or_init", || {
        keeping(OnceCell::new(), |cell| {
            cell.set(1).unwrap();
            (cell.get().copied(), *cell.get_or_init(|| 2))
        })
    }),
    ("fs::write, read, metadata and remove_file", || {
        Box::new(|| {
            let folder = Folder::new();
            let path = folder.path("file");
            runtime::fs::write(&path, "text").unwrap();
            assert_eq!(runtime::fs::read(&path).unwrap(), b"text");
            assert_eq!(runtime::fs::metadata(&path).unwrap().len(), 4);
            runtime::fs::remove_file(&path).unwrap();
        })
    }),
    ("fs::File: create, write, read, drop", || {
        Box::new(|| {
            let folder = Folder::new();
            let path = folder.path("file");
            let mut file =
                runtime::fs::File::options().read(true).write(true).create(true).open(&path).unwrap();
            file.write_all(b"text").unwrap();
            assert_eq!(file.read(&mut [0; 4]).unwrap(), 0);
            drop(file);
            runtime::fs::remove_file(&path).unwrap();
        })
    }),
    ("UdpSocket::bind, send_to", || {
        Box::new(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        })
    }),
    ("metrics::snapshot", || Box::new(|| drop(runtime::metrics::snapshot()))),
    ("Handle::set_procs", || Box::new(|| runtime::Handle::current().set_procs(1).unwrap())),
    ("dump", || Box::new(|| runtime::dump(&mut std::io::sink()).unwrap())),
    ("TcpListener::bind", || Box::new(|| drop(TcpListener::bind("127.0.0.1:0")))),
    ("a write with room, a read of what is there", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        (&server).write_all(b"x").unwrap();
        sleep(MILLI);
        keeping((client, server, listener), |(client, server, _)| {
            let (mut client, mut server) = (client, server);
            server.write_all(b"y").unwrap();
            client.read(&mut [0; 1]).unwrap()
        })
    }),
    ("block_on a future that is ready", || Box::new(|| block_on(async {}))),
    ("scope without threads", || Box::new(|| scope(|_| ()))),
];

/// Calls that may move the caller: the list in the docs of `runtime`.
const PARK: &[(&str, fn())] = &[
    ("sleep", || sleep(MILLI / 10)),
    ("yield_now", yield_now),
    ("park", || {
        let me = thread::current();
        drop(spawn(move || me.unpark()));
        park();
    }),
    ("park_timeout", || park_timeout(MILLI / 10)),
    ("JoinHandle::join", || spawn(|| sleep(MILLI / 10)).join().unwrap()),
    ("block_on", || block_on(sleep_async(MILLI / 10))),
    ("scope", || scope(|s| drop(s.spawn(|| sleep(MILLI / 10))))),
    ("Sender::send, Receiver::recv", || {
        let (sender, receiver) = bounded(0);
        let from = spawn(move || sender.send(1).unwrap());
        receiver.recv().unwrap();
        from.join().unwrap();
    }),
    ("select!", || {
        let at = channel::after(MILLI / 10);
        select! { recv(at) -> _ => () }
    }),
    ("watch::Receiver::changed", || {
        let (sender, mut receiver) = watch::channel(0);
        drop(spawn(move || sender.send(1)));
        receiver.changed().unwrap();
    }),
    ("oneshot::Receiver::recv", || {
        let (sender, receiver) = oneshot::channel();
        drop(spawn(move || sender.send(1)));
        receiver.recv().unwrap();
    }),
    ("JoinSet::join_next", || {
        let mut set = JoinSet::new();
        set.spawn(|| sleep(MILLI / 10));
        set.join_next().unwrap().unwrap();
    }),
    ("JoinSet::join_next_with_id", || {
        let mut set = JoinSet::new();
        set.spawn(|| sleep(MILLI / 10));
        set.join_next_with_id().unwrap().unwrap();
    }),
    ("Interval::tick", || {
        interval_at(Instant::now() + MILLI / 10, HOUR).tick();
    }),
    ("Context::run of code that waits", || {
        let (context, _cancel) = Ctx::background().with_timeout(MILLI / 10);
        context.run(park).unwrap_err();
    }),
    ("Barrier::wait", || {
        let barrier = Arc::new(Barrier::new(2));
        let other = barrier.clone();
        drop(spawn(move || other.wait()));
        barrier.wait();
    }),
];

#[test]
fn a_call_that_does_not_park_does_not_move_its_caller() {
    on(1, || {
        let others = Spinners::new(2);
        let before = runtime::metrics::snapshot().rescues_computing;
        for (name, prepare) in STAY {
            for _ in 0..2 {
                let call = prepare();
                let here = os_thread();
                spin(LONG);
                call();
                assert_eq!(os_thread(), here, "{name} has moved its caller");
            }
        }
        let taken = runtime::metrics::snapshot().rescues_computing - before;
        // The test shows something only if the P was taken during many of the calls.
        assert!(taken > STAY.len() as u64 / 2, "the P was taken only {taken} times");
        drop(others);
    });
}

#[test]
fn calls_that_park_may_move_their_callers() {
    on(4, || {
        let others = Spinners::new(8);
        let moves = |&(name, call): &(&'static str, fn())| {
            let moves = (0..50).filter(|_| {
                let here = os_thread();
                call();
                os_thread() != here
            });
            (name, moves.count())
        };
        let moves: Vec<_> = PARK.iter().map(moves).collect();
        println!("{moves:?}");
        assert!(moves.iter().any(|(_, moves)| *moves > 0), "no caller has moved: {moves:?}");
        drop(others);
    });
}
