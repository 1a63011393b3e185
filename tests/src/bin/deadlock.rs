//! Programs for `tests/inspect/deadlock.rs` that deadlock, and programs that only look so. A program has a
//! process to itself, so no other threads hide or cause a deadlock.
//!
//! `deadlock CASE` runs a case. A case that does not deadlock prints `ok`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use runtime::channel::{Receiver, bounded, unbounded};
use runtime::context::Context;
use runtime::sync::{Condvar, Mutex, Notify, Semaphore, WaitGroup};
use runtime::{Builder, Migration, block_on, select, spawn, thread};
use tests::Random;

/// Longer than the detector takes to report a deadlock.
const LONG: Duration = Duration::from_millis(1500);

fn main() {
    tests::child::run_case(CASES);
}

const CASES: &[(&str, fn())] = &[
    // Deadlocks.
    ("two-channels", two_channels),
    ("own-mutex", own_mutex),
    ("lost-wake-up", lost_wake_up),
    ("future", || block_on(std::future::pending())),
    ("sleep-for-ever", || block_on(|| runtime::sleep(Duration::MAX))),
    ("join", || block_on(|| _ = spawn(thread::park).join())),
    ("one-p", || in_one(Builder::new().procs(1))),
    ("strict", || in_one(Builder::new().procs(2).migration(Migration::BeforeStart))),
    ("no-sysmon", || in_one(Builder::new().procs(2).sysmon(false))),
    ("plain-threads-wait-too", plain_threads_wait_too),
    ("two-runtimes", two_runtimes),
    ("after-much-work", after_much_work),
    ("plain-thread-is-busy-first", plain_thread_is_busy_first),
    ("swallowed", swallowed),
    ("caught", caught),
    ("own-panic", own_panic),
    ("will-not-end", will_not_end),
    ("select", select_without_end),
    ("search", search),
    // Not deadlocks.
    ("plain-thread-sends", plain_thread_sends),
    ("plain-thread-notifies-select", plain_thread_notifies_a_select),
    ("plain-thread-waits-with-time-out", plain_thread_waits_with_time_out),
    ("std-channel", std_channel),
    ("sleeps", || block_on(|| runtime::sleep(LONG))),
    ("sleeping-future", || block_on(runtime::time::sleep_async(LONG))),
    ("timer", timer),
    ("context", context),
    ("blocking", || blocks(|| runtime::blocking(|| std::thread::sleep(LONG)))),
    ("blocks-undeclared", || blocks(|| std::thread::sleep(LONG))),
    ("computes", || blocks(|| _ = tests::spin(LONG))),
    ("pinned", pinned),
    ("socket", socket),
    ("other-runtime", other_runtime),
    ("not-in-block-on", not_in_block_on),
    ("to-and-fro", to_and_fro),
    ("hook", hook_ends_a_deadlock),
];

fn two_channels() {
    block_on(|| {
        let ((a, from_a), (b, from_b)) = (bounded::<()>(0), bounded::<()>(0));
        let name = |name: &str| thread::Builder::new().name(name.into());
        let first = name("first").spawn(move || from_b.recv().map(|()| a.send(()).unwrap()));
        let second = name("second").spawn(move || from_a.recv().map(|()| b.send(()).unwrap()));
        first.unwrap().join().unwrap().unwrap();
        second.unwrap().join().unwrap().unwrap();
    });
}

fn own_mutex() {
    block_on(|| {
        let mutex = Mutex::new(());
        let _held = mutex.lock();
        drop(mutex.lock());
    });
}

/// A search for deadlocks of some finds nothing here, and looks all the time.
fn search() {
    let runtime = Builder::new().procs(2).find_deadlocks(Duration::from_millis(5)).build().unwrap();
    runtime.block_on(thread::park);
}

/// The search calls its hook after two looks. All green threads are asleep until then.
fn hook_ends_a_deadlock() {
    static WAITS: std::sync::Mutex<Option<thread::AbortHandle>> = std::sync::Mutex::new(None);
    let runtime = Builder::new().procs(2).find_deadlocks(LONG / 3).build().unwrap();
    // The search rests already.
    std::thread::sleep(LONG / 15);
    runtime::dump::on_deadlock(|_| WAITS.lock().unwrap().take().into_iter().for_each(|it| it.cancel()));
    runtime.block_on(|| {
        let waits = spawn(|| {
            let mutex = Mutex::new(());
            let _held = mutex.lock();
            drop(mutex.lock());
        });
        *WAITS.lock().unwrap() = Some(waits.abort_handle());
        assert!(waits.join().is_err());
    });
}

fn lost_wake_up() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    block_on(|| {
        let its = gate.clone();
        // The waker's defect: it does not notify.
        spawn(move || *its.0.lock() = true).join().unwrap();
        gate.1.wait(&mut gate.0.lock());
    });
}

fn in_one(builder: Builder) {
    let runtime = builder.build().unwrap();
    runtime.block_on(|| {
        let group = WaitGroup::new();
        let theirs = group.clone();
        for _ in 0..20 {
            spawn(thread::park);
        }
        group.wait();
        drop(theirs);
    });
}

/// The plain OS threads also wait, for messages that only green threads could send.
fn plain_threads_wait_too() {
    let (s, r) = unbounded::<()>();
    for _ in 0..3 {
        let r = r.clone();
        std::thread::spawn(move || r.recv());
    }
    block_on(|| _ = r.recv());
    drop(s);
}

/// The first three looks for a deadlock meet a thread that might wake the waiter.
fn plain_thread_is_busy_first() {
    let (s, r) = unbounded::<()>();
    let (own, also) = (s.clone(), r.clone());
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1500));
        let ended = also.recv();
        drop((own, ended));
    });
    block_on(|| _ = r.recv());
    drop(s);
}

fn two_runtimes() {
    let (one, other) = (tests::runtime(2), tests::runtime(1));
    let (s, r) = unbounded::<()>();
    let there = other.spawn(thread::park);
    one.block_on(|| _ = r.recv());
    drop((s, there));
}

/// Stopped timers still lie in the heaps, and the runtime has started more OS threads.
fn after_much_work() {
    block_on(|| {
        let ((s, r), (_nobody, nothing)) = (unbounded::<u32>(), unbounded::<u32>());
        let threads: Vec<_> = (0..100)
            .map(|i| {
                let (s, r, nothing) = (s.clone(), r.clone(), nothing.clone());
                spawn(move || {
                    assert!(nothing.recv_timeout(Duration::from_micros(100 * i)).is_err());
                    runtime::blocking(|| std::thread::sleep(Duration::from_millis(1)));
                    s.send(1).unwrap();
                    assert!(r.recv_timeout(Duration::from_secs(3600)).is_ok());
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        thread::park();
    });
}

/// The green thread catches the unwinding and returns a value. The destructor of that value panics.
fn swallowed() {
    let value = block_on(|| {
        let ended = catch_unwind(thread::park);
        assert!(ended.is_err());
        tests::OnDrop(|| panic!("dropped beside the report"))
    });
    println!("ok: {value:?}");
}

/// The caller of `block_on` catches the panic and goes on, as do other green threads. A later deadlock is
/// reported too.
fn caught() {
    let dropped = tests::Drops::default();
    for _ in 0..2 {
        let token = dropped.token();
        let end = catch_unwind(AssertUnwindSafe(|| {
            block_on(|| {
                let _token = token;
                thread::park();
            })
        }));
        let payload = end.expect_err("a deadlock");
        let text = payload.downcast_ref::<String>().unwrap();
        assert!(text.starts_with("all green threads are asleep - deadlock!"), "{text}");
        assert_eq!(dropped.alive(), 0);
        assert_eq!(block_on(|| spawn(|| 5).join().unwrap()), 5);
    }
    println!("caught twice");
    block_on(thread::park);
}

/// The green thread's own panic is reported in place of the deadlock.
fn own_panic() {
    block_on(|| {
        if catch_unwind(thread::park).is_err() {
            panic!("I was waiting for a message");
        }
    });
}

/// A destructor never returns, so the report is the only effect.
fn will_not_end() {
    block_on(|| {
        let _forever = tests::OnDrop(thread::park);
        thread::park();
    });
}

/// Waits for things that no thread will make happen.
fn select_without_end() {
    let (notify, semaphore) = (Notify::new(), Semaphore::new(0));
    let (_s, r) = unbounded::<()>();
    block_on(|| {
        select! {
            recv(r) -> _ => {}
            notified(notify) -> () => {}
            acquired(semaphore) -> _ => {}
            join(spawn(thread::park)) -> _ => {}
        }
    });
}

fn plain_thread_notifies_a_select() {
    let notify = Arc::new(Notify::new());
    let notifies = notify.clone();
    std::thread::spawn(move || {
        std::thread::sleep(LONG);
        notifies.notify_one();
    });
    block_on(|| {
        select! {
            notified(notify) -> () => {}
            join(spawn(thread::park)) -> _ => {}
        }
    });
}

/// Receives a message that `later` arranges to be sent after a while.
fn received(later: impl FnOnce(Box<dyn FnOnce() + Send>)) {
    let (s, r) = unbounded();
    later(Box::new(move || s.send(5).unwrap()));
    assert_eq!(block_on(|| r.recv()), Ok(5));
}

fn plain_thread_sends() {
    received(|send| {
        std::thread::spawn(move || {
            std::thread::sleep(LONG);
            send();
        });
    });
}

fn plain_thread_waits_with_time_out() {
    let (_s, r) = unbounded::<()>();
    received(move |send| {
        std::thread::spawn(move || {
            assert!(r.recv_timeout(LONG).is_err());
            send();
        });
    });
}

/// The first plain thread waits for the second with a std channel, which the detector does not see.
fn std_channel() {
    let (s, r) = std::sync::mpsc::channel();
    received(move |send| {
        std::thread::spawn(move || {
            r.recv().unwrap();
            send();
        });
        std::thread::spawn(move || {
            std::thread::sleep(LONG);
            s.send(()).unwrap();
        });
    });
}

fn timer() {
    let (s, r) = unbounded();
    let _timer = runtime::time::after_func(LONG, move || s.send(()).unwrap());
    block_on(|| r.recv().unwrap());
}

fn context() {
    let (context, _cancel) = Context::background().with_timeout(LONG);
    assert!(block_on(|| context.done().recv()).is_err());
}

fn blocks(how: impl FnOnce() + Send + 'static) {
    received(move |send| {
        spawn(move || {
            how();
            send();
        });
    });
}

/// A pinned green thread waits in place, which the detector does not count as asleep.
fn pinned() {
    let (s, r) = unbounded::<()>();
    received(move |send| {
        let waits = spawn(move || {
            let _pin = thread::pin();
            r.recv().unwrap();
            send();
        });
        std::thread::spawn(move || {
            std::thread::sleep(LONG);
            s.send(()).unwrap();
            waits.join().unwrap();
        });
    });
}

/// A client in another process connects later.
fn socket() {
    block_on(|| {
        let listener = runtime::net::TcpListener::bind("127.0.0.1:0").unwrap();
        println!("port {}", listener.local_addr().unwrap().port());
        listener.accept().unwrap();
    });
}

fn other_runtime() {
    let other = tests::runtime(1);
    received(|send| {
        other.spawn(move || {
            runtime::sleep(LONG);
            send();
        });
    });
}

/// No thread is in `block_on`, so no report is made. This thread waits until the test ends the process.
fn not_in_block_on() {
    let (s, r) = unbounded::<()>();
    let waits: Receiver<()> = r.clone();
    let thread = spawn(move || waits.recv());
    println!("waiting");
    let _ = thread.join();
    drop((s, r));
}

/// A green and a plain thread wait in turns, each for about as long as the detector's check takes.
fn to_and_fro() {
    let (to, from_main) = unbounded();
    let (back, to_main) = unbounded();
    let plain = std::thread::spawn(move || {
        let mut random = Random::new(11);
        while from_main.recv().is_ok() {
            std::thread::sleep(Duration::from_micros(8_000 + random.below(4_000)));
            back.send(()).unwrap();
        }
    });
    block_on(|| {
        let (start, mut random) = (Instant::now(), Random::new(12));
        while start.elapsed() < 2 * LONG {
            to.send(()).unwrap();
            to_main.recv().unwrap();
            if random.below(4) == 0 {
                spawn(thread::yield_now).join().unwrap();
            }
        }
        drop(to);
    });
    plain.join().unwrap();
}
