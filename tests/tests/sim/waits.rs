//! Where a simulation may switch, and what counts as waiting. Each call of the runtime is a point of choice,
//! and time jumps while green threads wait in any way.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use runtime::channel::{self, bounded, unbounded};
use runtime::context::Context;
use runtime::net::{TcpListener, TcpStream, UdpSocket};
use runtime::sim::{self, Builder};
use runtime::sync::{
    Barrier, Condvar, FairMutex, LazyLock, Mutex, Notify, Once, OnceCell, OnceLock, ReentrantMutex, RwLock,
    Semaphore, WaitGroup, broadcast, mpsc, oneshot, watch,
};
use runtime::thread::JoinSet;
use runtime::{JoinHandle, fs, scope, select, sleep, spawn, thread, yield_now};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns how many steps a simulation of `main` makes.
fn steps(main: impl Fn() + Send + Sync) -> u64 {
    Builder::new().threads(1).explore(1, main).steps()
}

/// Checks that `call`, which is given what `begin` returns, is a point of choice: each further call makes a
/// further step.
#[track_caller]
fn is_a_point<T>(name: &str, begin: impl Fn() -> T + Sync + Send, call: impl Fn(&T) + Sync + Send) {
    let times = |n: usize| {
        steps(|| {
            let it = begin();
            (0..n).for_each(|_| call(&it));
        })
    };
    let (few, many) = (times(1), times(11));
    assert!(many >= few + 10, "{name} is no point of choice: {few} steps with one call, {many} with eleven");
}

#[test]
fn calls_of_locks_are_points_of_choice() {
    is_a_point("Mutex::lock", || Mutex::new(()), |it| drop(it.lock()));
    is_a_point("Mutex::try_lock", || Mutex::new(()), |it| drop(it.try_lock()));
    is_a_point("FairMutex::lock", || FairMutex::new(()), |it| drop(it.lock()));
    is_a_point("RwLock::read", || RwLock::new(()), |it| drop(it.read()));
    is_a_point("RwLock::write", || RwLock::new(()), |it| drop(it.write()));
    is_a_point("RwLock::try_read", || RwLock::new(()), |it| drop(it.try_read()));
    is_a_point("RwLock::try_write", || RwLock::new(()), |it| drop(it.try_write()));
    is_a_point("Condvar::notify_one", Condvar::new, |it| _ = it.notify_one());
    is_a_point("Condvar::notify_all", Condvar::new, |it| _ = it.notify_all());
    is_a_point("Semaphore::acquire", || Semaphore::new(1), |it| drop(it.acquire().unwrap()));
    is_a_point("Semaphore::try_acquire", || Semaphore::new(1), |it| drop(it.try_acquire().unwrap()));
    is_a_point("Semaphore::add_permits", || Semaphore::new(1), |it| it.add_permits(1));
    is_a_point("Notify::notify_one", Notify::new, Notify::notify_one);
    is_a_point("Notify::notify_waiters", Notify::new, Notify::notify_waiters);
    is_a_point("Once::call_once", Once::new, |it| it.call_once(|| ()));
    is_a_point("Once::state", Once::new, |it| _ = it.state());
    is_a_point("OnceLock::get", OnceLock::<()>::new, |it| _ = it.get());
    is_a_point("OnceLock::set", OnceLock::new, |it| _ = it.set(1));
    is_a_point("LazyLock::force", || LazyLock::new(|| 7), |it| _ = LazyLock::force(it));
    is_a_point("ReentrantMutex::lock", || ReentrantMutex::new(()), |it| drop(it.lock()));
    is_a_point("OnceCell::get_or_init", OnceCell::new, |it| _ = it.get_or_init(|| 7));
    is_a_point("Barrier::wait", || Barrier::new(1), |it| _ = it.wait());
    is_a_point("WaitGroup::clone", WaitGroup::new, |it| drop(it.clone()));
}

#[test]
fn calls_of_channels_are_points_of_choice() {
    is_a_point("send", unbounded, |(s, _r)| s.send(1).unwrap());
    is_a_point("try_send", || bounded(100), |(s, _r)| s.try_send(1).unwrap());
    is_a_point("try_send where it fails", || bounded(0), |(s, _r)| _ = s.try_send(1));
    is_a_point("try_recv", unbounded::<()>, |(_s, r)| _ = r.try_recv());
    let full = || {
        let (s, r) = unbounded();
        (0..20).for_each(|n| s.send(n).unwrap());
        (s, r)
    };
    is_a_point("recv", full, |(_s, r)| _ = r.recv().unwrap());
    is_a_point("select", full, |(_s, r)| select! { recv(r) -> it => _ = it.unwrap() });
    is_a_point("the end of a sender", unbounded::<()>, |(s, _r)| drop(s.clone()));
    is_a_point("oneshot", || (), |()| oneshot::channel().0.send(1).unwrap_or_default());
    is_a_point("watch::send", || watch::channel(0), |(s, _r)| _ = s.send(1));
    is_a_point("broadcast::send", || broadcast::channel(100), |(s, _r)| _ = s.send(1));
    is_a_point("mpsc::send", mpsc::channel, |(s, _r)| s.send(1).unwrap());
}

#[test]
fn calls_of_threads_and_time_are_points_of_choice() {
    is_a_point("yield_now", || (), |()| yield_now());
    is_a_point("sim::point", || (), |()| sim::point());
    is_a_point("spawn", || (), |()| drop(spawn(|| ())));
    is_a_point("scope", || (), |()| scope(|scope| drop(scope.spawn(|| ()))));
    is_a_point("sleep", || (), |()| sleep(Duration::from_nanos(1)));
    is_a_point("unpark", thread::current, |it| it.unpark());
    is_a_point("a park that does not wait", thread::current, |it| {
        it.unpark();
        thread::park();
    });
    is_a_point("cancel", || spawn(|| ()), JoinHandle::cancel);
    is_a_point("the end of a context", Context::background, |it| it.with_cancel().1.cancel());
    is_a_point("JoinSet::spawn", || Mutex::new(JoinSet::new()), |it| drop(it.lock().spawn(|| ())));
    is_a_point("an atomic load", || sim::atomic::AtomicU32::new(0), |it| _ = it.load(SeqCst));
    is_a_point("an atomic store", || sim::atomic::AtomicU32::new(0), |it| it.store(1, SeqCst));
    is_a_point("an atomic swap", || sim::atomic::AtomicU32::new(0), |it| _ = it.swap(1, SeqCst));
    is_a_point("an atomic sum", || sim::atomic::AtomicU32::new(0), |it| _ = it.fetch_add(1, SeqCst));
}

#[test]
fn calls_of_sockets_and_files_are_points_of_choice() {
    is_a_point("bind", || (), |()| drop(TcpListener::bind("127.0.0.1:0").unwrap()));
    is_a_point("write", pair, |(it, _other)| (&*it).write_all(b"x").unwrap());
    is_a_point("send_to", udp, |it| _ = it.send_to(b"x", it.local_addr().unwrap()).unwrap());
    is_a_point("lookup_host", || (), |()| drop(runtime::net::lookup_host("localhost:1").unwrap()));
    is_a_point("fs::write", || (), |()| fs::write("/a", "b").unwrap());
    is_a_point("fs::exists", || (), |()| _ = fs::exists("/a").unwrap());
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn udp() -> UdpSocket {
    UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

/// Checks that time jumps while a green thread waits in `wait`: `end` ends the wait after an hour of
/// simulated time.
#[track_caller]
fn time_jumps<T: Send + Sync + 'static>(begin: fn() -> T, wait: fn(&T), end: fn(&T)) {
    let real = Instant::now();
    sim::explore(5, || {
        let start = Instant::now();
        let it = Arc::new(begin());
        let other = it.clone();
        let waiter = spawn(move || {
            // The other one has what this one waits for.
            sleep(Duration::from_secs(1));
            wait(&other);
            start.elapsed()
        });
        end(&it);
        assert_eq!(waiter.join().unwrap(), HOUR);
    });
    assert!(real.elapsed() < HOUR);
}

#[test]
fn time_jumps_while_a_lock_is_waited_for() {
    time_jumps(
        || Mutex::new(()),
        |it| drop(it.lock()),
        |it| {
            let _held = it.lock();
            sleep(HOUR);
        },
    );
    time_jumps(
        || RwLock::new(()),
        |it| drop(it.read()),
        |it| {
            let _held = it.write();
            sleep(HOUR);
        },
    );
    time_jumps(
        || RwLock::new(()),
        |it| drop(it.write()),
        |it| {
            let _held = it.read();
            sleep(HOUR);
        },
    );
    time_jumps(
        || (Mutex::new(()), Condvar::new()),
        |it| it.1.wait(&mut it.0.lock()),
        |it| {
            sleep(HOUR);
            it.1.notify_one();
        },
    );
    time_jumps(
        || Semaphore::new(0),
        |it| drop(it.acquire().unwrap()),
        |it| {
            sleep(HOUR);
            it.add_permits(1);
        },
    );
    time_jumps(Notify::new, Notify::notified, |it| {
        sleep(HOUR);
        it.notify_one();
    });
    time_jumps(
        || Barrier::new(2),
        |it| _ = it.wait(),
        |it| {
            sleep(HOUR);
            it.wait();
        },
    );
    time_jumps(
        OnceCell::new,
        |it| _ = it.get_or_init(|| 1),
        |it| {
            it.get_or_init(|| {
                sleep(HOUR);
                2
            });
        },
    );
}

#[test]
fn time_jumps_while_a_channel_or_a_context_is_waited_for() {
    time_jumps(
        || bounded(0),
        |(_s, r)| r.recv().unwrap(),
        |(s, _r)| {
            sleep(HOUR);
            s.send(()).unwrap();
        },
    );
    time_jumps(
        || bounded(0),
        |(s, _r)| s.send(()).unwrap(),
        |(_s, r)| {
            sleep(HOUR);
            r.recv().unwrap();
        },
    );
    time_jumps(
        || bounded(0),
        |(_s, r)| select! { recv(r) -> it => it.unwrap(), recv(channel::never::<()>()) -> _ => {} },
        |(s, _r)| {
            sleep(HOUR);
            s.send(()).unwrap();
        },
    );
    time_jumps(
        || Context::background().with_cancel(),
        |(context, _cancel)| _ = context.done().recv(),
        |(_context, cancel)| {
            sleep(HOUR);
            cancel.cancel();
        },
    );
}

#[test]
fn time_jumps_while_a_socket_is_waited_for() {
    time_jumps(
        pair,
        |(_s, r)| (&*r).read_exact(&mut [0]).unwrap(),
        |(s, _r)| {
            sleep(HOUR);
            (&*s).write_all(b"x").unwrap();
        },
    );
    time_jumps(
        || {
            let (one, other) = pair();
            one.set_nonblocking(true).unwrap();
            while (&one).write(&[0; 1000]).is_ok() {}
            one.set_nonblocking(false).unwrap();
            (one, other)
        },
        |(s, _r)| (&*s).write_all(b"x").unwrap(),
        |(_s, r)| {
            sleep(HOUR);
            (&*r).read_exact(&mut [0; 100_000]).unwrap();
        },
    );
    time_jumps(
        || TcpListener::bind("127.0.0.1:7").unwrap(),
        |it| drop(it.accept().unwrap()),
        |_it| {
            sleep(HOUR);
            drop(TcpStream::connect("127.0.0.1:7").unwrap());
        },
    );
    time_jumps(
        udp,
        |it| _ = it.recv(&mut [0]).unwrap(),
        |it| {
            sleep(HOUR);
            it.send_to(b"x", it.local_addr().unwrap()).unwrap();
        },
    );
}
