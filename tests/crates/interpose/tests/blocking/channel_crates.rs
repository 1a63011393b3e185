//! crossbeam-channel and flume, unchanged: they wait by std's `thread::park`, as std's channels do. Between
//! green threads, and between green threads and OS threads, on runtimes with and without sysmon.

use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::time::Duration;

use crossbeam_channel::{after, bounded, never, select, tick, unbounded};
use interpose::crowd::{self, Peak, procs};
use runtime::thread::JoinHandle;
use runtime::{Migration, Runtime};

/// Far more than any wait of these tests needs: a wake-up was lost.
const LOST: Duration = Duration::from_secs(60);

type Sends = Box<dyn Fn(u64) + Send>;
type Receives = Box<dyn Fn() -> Option<u64> + Send>;

/// A channel with room for some messages. `Receives` returns `None` when all senders are gone.
type Channel = fn(usize) -> (Sends, Receives);

fn of_crossbeam(room: usize) -> (Sends, Receives) {
    use crossbeam_channel::RecvTimeoutError::Timeout;
    let (sender, receiver) = bounded(room);
    let receives = move || {
        let message = receiver.recv_timeout(LOST);
        assert_ne!(message, Err(Timeout), "a message was lost");
        message.ok()
    };
    (Box::new(move |message| sender.send(message).unwrap()), Box::new(receives))
}

fn of_flume(room: usize) -> (Sends, Receives) {
    let (sender, receiver) = flume::bounded(room);
    let receives = move || {
        let message = receiver.recv_timeout(LOST);
        assert_ne!(message, Err(flume::RecvTimeoutError::Timeout), "a message was lost");
        message.ok()
    };
    (Box::new(move |message| sender.send(message).unwrap()), Box::new(receives))
}

fn of_std(room: usize) -> (Sends, Receives) {
    let (sender, receiver) = mpsc::sync_channel(room);
    let receives = move || {
        let message = receiver.recv_timeout(LOST);
        assert_ne!(message, Err(mpsc::RecvTimeoutError::Timeout), "a message was lost");
        message.ok()
    };
    (Box::new(move |message| sender.send(message).unwrap()), Box::new(receives))
}

const CHANNELS: [Channel; 3] = [of_crossbeam, of_flume, of_std];

/// Runs `test` on runtimes of both modes with 1 and 4 Ps, with and without sysmon.
fn on_all_runtimes(test: impl Fn(&Runtime)) {
    for procs in [1, 4] {
        for migration in [Migration::default(), Migration::BeforeStart] {
            for sysmon in [true, false] {
                let builder = runtime::Builder::new().procs(procs).migration(migration);
                eprintln!("{procs} Ps, {migration:?}, sysmon: {sysmon}");
                test(&builder.sysmon(sysmon).build().unwrap());
            }
        }
    }
}

/// A thread of either kind.
enum Thread<T> {
    Green(JoinHandle<T>),
    Os(std::thread::JoinHandle<T>),
}

impl<T: Send + 'static> Thread<T> {
    fn spawn(runtime: Option<&Runtime>, f: impl FnOnce() -> T + Send + 'static) -> Self {
        match runtime {
            Some(runtime) => Thread::Green(runtime.spawn(f)),
            None => Thread::Os(std::thread::spawn(f)),
        }
    }

    fn join(self) -> T {
        match self {
            Thread::Green(thread) => thread.join().unwrap(),
            Thread::Os(thread) => thread.join().unwrap(),
        }
    }
}

/// A server answers each number with the next one. `None` starts an OS thread.
fn ask(server: Option<&Runtime>, client: Option<&Runtime>, channel: Channel, room: usize) -> [Thread<()>; 2] {
    const ROUNDS: u64 = 40;
    let ((ask, asked), (answer, answered)) = (channel(room), channel(room));
    let server = Thread::spawn(server, move || {
        while let Some(number) = asked() {
            answer(number + 1);
        }
    });
    let client = Thread::spawn(client, move || {
        for number in 0..ROUNDS {
            ask(number);
            assert_eq!(answered(), Some(number + 1));
        }
    });
    [server, client]
}

#[test]
fn green_threads_and_os_threads_ask_each_other() {
    let _dog = crowd::watch();
    on_all_runtimes(|runtime| {
        for channel in CHANNELS {
            for room in [0, 1, 100] {
                let green = Some(runtime);
                let sides = [(green, green), (green, None), (None, green), (green, green)];
                let threads = sides.map(|(server, client)| ask(server, client, channel, room));
                threads.into_iter().flatten().for_each(Thread::join);
            }
        }
    });
}

/// Producers and consumers of both kinds share one queue.
#[test]
fn a_queue_of_crossbeam_is_shared_by_green_threads_and_os_threads() {
    const EACH: u64 = 300;
    let _dog = crowd::watch();
    on_all_runtimes(|runtime| {
        let (sender, receiver) = bounded(3);
        let kinds = || (0..8).map(|i| (i % 2 == 0).then_some(runtime));
        let consumers: Vec<_> = kinds()
            .map(|kind| {
                let receiver = receiver.clone();
                Thread::spawn(kind, move || receiver.iter().sum::<u64>())
            })
            .collect();
        let producers: Vec<_> = kinds()
            .map(|kind| {
                let sender = sender.clone();
                Thread::spawn(kind, move || (1..=EACH).for_each(|number| sender.send(number).unwrap()))
            })
            .collect();
        drop((sender, receiver));
        producers.into_iter().for_each(Thread::join);
        let sum: u64 = consumers.into_iter().map(Thread::join).sum();
        assert_eq!(sum, 8 * EACH * (EACH + 1) / 2);
    });
}

#[test]
fn a_select_of_crossbeam_serves_green_threads() {
    const CLIENTS: u64 = 6;
    const EACH: u64 = 50;
    let _dog = crowd::watch();
    on_all_runtimes(|runtime| {
        let ((odd, from_odd), (even, from_even)) = (bounded(0), unbounded());
        let (done, is_done) = bounded::<()>(0);
        let hub = runtime.spawn(move || {
            let (mut sum, lost, ticks) = (0, after(LOST), tick(Duration::from_millis(1)));
            loop {
                select! {
                    recv(from_odd) -> number => sum += number.unwrap(),
                    recv(from_even) -> number => sum += number.unwrap(),
                    recv(never::<u64>()) -> _ => unreachable!("nothing is ever received here"),
                    recv(ticks) -> _ => {}
                    recv(lost) -> _ => panic!("a message was lost"),
                    recv(is_done) -> _ => return sum + from_even.try_iter().sum::<u64>(),
                }
            }
        });
        // From here on the hub has its OS thread alone. A client that was bound to that OS thread before, by
        // a lock in a channel, would have the hub's thread id, and wait for ever (`docs::interpose`, locks of
        // std).
        while runtime.handle().metrics().waiting == 0 {
            std::thread::yield_now();
        }
        let clients = (0..CLIENTS).map(|client| {
            let to = [even.clone(), odd.clone()][client as usize % 2].clone();
            let kind = (client % 3 != 0).then_some(runtime);
            Thread::spawn(kind, move || (1..=EACH).for_each(|number| to.send(number).unwrap()))
        });
        // The hub has the receivers of `odd` and `even` until `done` is dropped.
        clients.collect::<Vec<_>>().into_iter().for_each(Thread::join);
        drop(done);
        assert_eq!(hub.join().unwrap(), CLIENTS * EACH * (EACH + 1) / 2);
    });
}

/// Each green thread that waits has an OS thread, and not more; they end when they are not needed any more.
#[test]
fn waits_in_channels_take_an_os_thread_each() {
    const WAITING: usize = 100;
    let _dog = crowd::watch();
    let spare = procs() + 6;
    // Green threads with thread-locals of their own take none (`own_locals.rs`).
    let runtime = runtime::Builder::new().thread_locals(runtime::ThreadLocals::OfOsThread).build().unwrap();
    let (sender, receiver) = unbounded::<()>();
    let waiting = (0..WAITING).map(|_| {
        let receiver = receiver.clone();
        runtime.spawn(move || receiver.recv_timeout(LOST))
    });
    let waiting: Vec<_> = waiting.collect();
    let metrics = || runtime.handle().metrics();
    while metrics().waiting < WAITING as u64 {
        std::thread::yield_now();
    }
    let threads = metrics().threads;
    eprintln!("{WAITING} green threads in recv: {threads} OS threads");
    assert!((WAITING..=WAITING + spare).contains(&threads), "{threads}");
    drop(sender);
    let disconnected = Err(crossbeam_channel::RecvTimeoutError::Disconnected);
    assert!(waiting.into_iter().all(|thread| thread.join().unwrap() == disconnected));
    while metrics().threads > spare {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// std's locks take no OS threads, whichever threads are on the other side.
#[test]
fn locks_between_green_threads_and_os_threads_take_no_os_threads() {
    const GREEN: usize = 500;
    const OS: usize = 10;
    let _dog = crowd::watch();
    let runtime = runtime::Builder::new().build().unwrap();
    let shared = Arc::new((Barrier::new(GREEN + OS), Mutex::new(0), Condvar::new()));
    let peak = Peak::new();
    let threads = (0..GREEN + OS).map(|i| {
        let shared = shared.clone();
        Thread::spawn((i >= OS).then_some(&runtime), move || {
            let (barrier, count, changed) = &*shared;
            let mut leads = 0;
            for _ in 0..3 {
                leads += usize::from(barrier.wait().is_leader());
            }
            *count.lock().unwrap() += 1;
            changed.notify_all();
            let all = changed.wait_timeout_while(count.lock().unwrap(), LOST, |count| *count < GREEN + OS);
            assert!(!all.unwrap().1.timed_out(), "a notification was lost");
            leads
        })
    });
    let threads: Vec<_> = threads.collect();
    assert_eq!(threads.into_iter().map(Thread::join).sum::<usize>(), 3);
    let (peak, metrics) = (peak.end(), runtime.handle().metrics());
    let rescues = metrics.rescues_computing + metrics.rescues_blocked;
    eprintln!("{GREEN} green threads and {OS} OS threads: {peak:?}, {rescues} rescues");
    assert!(peak.values().sum::<usize>() <= OS + procs() + 6 + (rescues as usize).min(40), "{peak:?}");
}
