//! std's locks on green threads: their waits park. (These tests count OS threads.)

use std::ffi::{c_int, c_long};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;
use runtime::{Migration, Runtime};

/// Far more than any wait of these tests needs: a wake-up was lost.
const LOST: Duration = Duration::from_secs(60);

fn os_threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("/proc").count()
}

/// The highest number of OS threads of this process, looked for every few milliseconds by one that is not
/// counted.
struct Peak {
    stop: mpsc::Sender<()>,
    looks: std::thread::JoinHandle<usize>,
}

impl Peak {
    fn new() -> Self {
        let (stop, stopped) = mpsc::channel();
        let looks = std::thread::spawn(move || {
            let mut most = 0;
            loop {
                most = most.max(os_threads() - 1);
                let wait = stopped.recv_timeout(Duration::from_millis(3));
                if wait != Err(mpsc::RecvTimeoutError::Timeout) {
                    return most;
                }
            }
        });
        Peak { stop, looks }
    }

    fn end(self) -> usize {
        drop(self.stop);
        self.looks.join().expect("the thread that looks")
    }
}

/// Runs `test` on runtimes of both modes with 1, 2 and 8 Ps.
fn on_all_runtimes(test: impl Fn(&Runtime, usize)) {
    for strict in [false, true] {
        for procs in [1, 2, 8] {
            let migration = if strict { Migration::BeforeStart } else { Migration::default() };
            let runtime = runtime::Builder::new().procs(procs).migration(migration).build().unwrap();
            eprintln!("strict: {strict}, Ps: {procs}");
            test(&runtime, procs);
        }
    }
}

fn join<T>(threads: Vec<runtime::thread::JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn a_connection_under_a_mutex_takes_no_os_thread_for_each() {
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, procs| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let mut request = [0; 8];
            while theirs.read_exact(&mut request).is_ok() {
                std::thread::sleep(Duration::from_micros(300));
                theirs.write_all(&request).unwrap();
            }
        });
        let connection = Arc::new(Mutex::new(ours));
        let (before, peak) = (os_threads() - 1, Peak::new());
        let clients = (0..100u64).map(|client| {
            let connection = connection.clone();
            runtime.spawn(move || {
                for round in 0..10 {
                    let mut connection = connection.lock().unwrap();
                    let request = (client << 32 | round).to_le_bytes();
                    connection.write_all(&request).unwrap();
                    let mut answer = [0; 8];
                    connection.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, request);
                }
            })
        });
        join(clients.collect());
        let most = peak.end() - before;
        eprintln!("{most} OS threads");
        assert!(most <= procs + 6, "{most} OS threads");
        drop(connection);
        server.join().unwrap();
    });
}

/// Two threads that take turns by a condition variable.
#[derive(Default)]
struct PingPong {
    turn: Mutex<u32>,
    changed: Condvar,
}

impl PingPong {
    /// Makes every second turn, those for which `turn % 2 == mine`, until there were `turns`.
    fn play(&self, mine: u32, turns: u32) {
        let mut turn = self.turn.lock().unwrap();
        while *turn < turns {
            let waits = |turn: &mut u32| *turn < turns && *turn % 2 != mine;
            let (next, waited) = self.changed.wait_timeout_while(turn, LOST, waits).unwrap();
            assert!(!waited.timed_out(), "a wake-up was lost in turn {}", *next);
            turn = next;
            *turn += u32::from(*turn < turns);
            self.changed.notify_one();
        }
    }
}

#[test]
fn no_wake_up_is_lost_between_a_green_thread_and_an_os_thread() {
    const TURNS: u32 = 40_000;
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, _| {
        let game = Arc::new(PingPong::default());
        let (green, plain) = (game.clone(), game.clone());
        let green = runtime.spawn(move || green.play(0, TURNS));
        let plain = std::thread::spawn(move || plain.play(1, TURNS));
        green.join().unwrap();
        plain.join().unwrap();
        assert_eq!(*game.turn.lock().unwrap(), TURNS);
    });
}

#[test]
fn no_wake_up_is_lost_between_green_threads() {
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, _| {
        let pairs: Vec<_> = (0..20).map(|_| Arc::new(PingPong::default())).collect();
        let players = pairs.iter().flat_map(|game| [(game.clone(), 0), (game.clone(), 1)]);
        join(players.map(|(game, mine)| runtime.spawn(move || game.play(mine, 1000))).collect());
    });
}

#[test]
fn locks_exclude_green_threads_and_os_threads() {
    #[derive(Default)]
    struct Locks {
        mutex: Mutex<u64>,
        rwlock: RwLock<[u64; 2]>,
    }
    const ROUNDS: u64 = 300;
    fn use_locks(locks: &Locks, give_way: impl Fn()) {
        for round in 0..ROUNDS {
            let mut count = locks.mutex.lock().unwrap();
            let before = *count;
            if round % 16 == 0 {
                give_way();
            }
            *count = before + 1;
            drop(count);
            if round % 4 == 0 {
                let mut both = locks.rwlock.write().unwrap();
                both[0] += 1;
                give_way();
                both[1] += 1;
            } else {
                let both = locks.rwlock.read().unwrap();
                assert_eq!(both[0], both[1]);
            }
        }
    }
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, _| {
        let locks = Arc::new(Locks::default());
        let nap = || std::thread::sleep(Duration::from_micros(20));
        let green = (0..30).map(|_| {
            let locks = locks.clone();
            runtime.spawn(move || use_locks(&locks, nap))
        });
        let green: Vec<_> = green.collect();
        let plain = [(); 3].map(|()| {
            let locks = locks.clone();
            std::thread::spawn(move || use_locks(&locks, nap))
        });
        join(green);
        plain.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*locks.mutex.lock().unwrap(), 33 * ROUNDS);
        assert_eq!(*locks.rwlock.read().unwrap(), [33 * ROUNDS / 4; 2]);
    });
}

#[test]
fn a_once_and_a_barrier_wait_for_all() {
    const THREADS: usize = 40;
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, procs| {
        let (before, peak) = (os_threads() - 1, Peak::new());
        let shared = Arc::new((Once::new(), OnceLock::new(), Barrier::new(THREADS + 1), AtomicUsize::new(0)));
        let run = |shared: &(Once, OnceLock<u64>, Barrier, AtomicUsize)| {
            let (once, cell, barrier, made) = shared;
            let slowly = || {
                std::thread::sleep(Duration::from_millis(5));
                made.fetch_add(1, Ordering::Relaxed)
            };
            once.call_once(|| _ = slowly());
            assert_eq!(*cell.get_or_init(|| slowly() as u64 + 6), 7);
            (0..20).filter(|_| barrier.wait().is_leader()).count()
        };
        let green = (0..THREADS).map(|_| {
            let shared = shared.clone();
            runtime.spawn(move || run(&shared))
        });
        let green: Vec<_> = green.collect();
        let leaders = run(&shared);
        assert_eq!(leaders + join(green).into_iter().sum::<usize>(), 20);
        assert_eq!(shared.3.load(Ordering::Relaxed), 2);
        let most = peak.end() - before;
        assert!(most <= procs + 6, "{most} OS threads");
    });
}

/// Not between two green threads: a sender of std's passes over a receiver on the sender's own OS thread.
#[test]
fn channels_of_std_carry_messages_between_green_and_plain_threads() {
    const SENDERS: u64 = 12;
    const EACH: u64 = 60;
    fn send(sender: mpsc::SyncSender<u64>) {
        (1..=EACH).for_each(|message| sender.send(message).unwrap());
    }
    fn receive(receiver: mpsc::Receiver<u64>) {
        let mut sum = 0;
        for _ in 0..SENDERS * EACH {
            sum += receiver.recv_timeout(LOST).expect("a message was lost");
        }
        assert_eq!(sum, SENDERS * (EACH * (EACH + 1) / 2));
        assert!(receiver.recv().is_err(), "all senders have ended");
    }
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, _| {
        let (sender, receiver) = mpsc::sync_channel(4);
        let green = (0..SENDERS).map(|_| sender.clone()).map(|sender| runtime.spawn(move || send(sender)));
        let green: Vec<_> = green.collect();
        drop(sender);
        receive(receiver);
        join(green);

        let (sender, receiver) = mpsc::sync_channel(4);
        let plain = (0..SENDERS).map(|_| sender.clone());
        let plain: Vec<_> = plain.map(|sender| std::thread::spawn(move || send(sender))).collect();
        drop(sender);
        runtime.spawn(move || receive(receiver)).join().unwrap();
        plain.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The receivers block, or hold, the OS threads to which the senders must return.
#[test]
fn a_sender_that_must_return_to_the_os_thread_of_a_receiver_does() {
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, procs| {
        let pairs: Vec<_> = (0..3 * procs).map(|_| UnixStream::pair().unwrap()).collect();
        let (mut writers, mut receivers, mut senders) = (Vec::new(), Vec::new(), Vec::new());
        let waiting = Arc::new(AtomicUsize::new(0));
        for (mut ours, theirs) in pairs {
            let (sender, receiver) = mpsc::channel();
            let waits = waiting.clone();
            senders.push(runtime.spawn(move || {
                let mut byte = [0];
                waits.fetch_add(1, Ordering::Relaxed);
                ours.read_exact(&mut byte).unwrap();
                sender.send(byte[0]).unwrap();
            }));
            receivers.push(receiver);
            writers.push(theirs);
        }
        while waiting.load(Ordering::Relaxed) < writers.len() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let receivers = receivers.into_iter();
        let receivers = receivers.map(|receiver| runtime.spawn(move || receiver.recv_timeout(LOST).unwrap()));
        let receivers: Vec<_> = receivers.collect();
        std::thread::sleep(Duration::from_millis(20));
        writers.iter_mut().for_each(|writer| writer.write_all(&[7]).unwrap());
        assert!(join(receivers).into_iter().all(|got| got == 7));
        join(senders);
    });
}

#[test]
fn park_and_unpark_of_std() {
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, _| {
        let parked = (0..4).map(|_| {
            let (tell, told) = mpsc::channel();
            let unparked = Arc::new(AtomicBool::new(false));
            let sees = unparked.clone();
            let green = runtime.spawn(move || {
                let _pinned = runtime::thread::pin();
                tell.send(std::thread::current()).unwrap();
                let start = Instant::now();
                while !sees.load(Ordering::Acquire) {
                    std::thread::park_timeout(LOST);
                }
                assert!(start.elapsed() < LOST, "an unpark was lost");
            });
            (green, told, unparked)
        });
        let parked: Vec<_> = parked.collect();
        for (green, told, unparked) in parked {
            let thread = told.recv().unwrap();
            std::thread::sleep(Duration::from_millis(5));
            unparked.store(true, Ordering::Release);
            thread.unpark();
            green.join().unwrap();
        }
        let sum = runtime.spawn(|| {
            let sum = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                (0..4).for_each(|n| {
                    _ = scope.spawn({
                        let sum = &sum;
                        move || sum.fetch_add(n, Ordering::Relaxed)
                    })
                });
            });
            sum.into_inner()
        });
        assert_eq!(sum.join().unwrap(), 6);
    });
}

#[test]
fn a_wait_with_a_time_ends_when_it_is_up() {
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, _| {
        let green = (0..20).map(|i| {
            runtime.spawn(move || {
                let (mutex, condition) = (Mutex::new(()), Condvar::new());
                let (start, time) = (Instant::now(), Duration::from_millis(i));
                let waited = condition.wait_timeout_while(mutex.lock().unwrap(), time, |()| true);
                let waited = waited.unwrap().1;
                assert!(waited.timed_out() && start.elapsed() >= time);
                assert!(start.elapsed() < LOST);
                let (_sender, receiver) = mpsc::channel::<()>();
                let start = Instant::now();
                assert_eq!(receiver.recv_timeout(time), Err(mpsc::RecvTimeoutError::Timeout));
                assert!(start.elapsed() >= time && start.elapsed() < LOST);
            })
        });
        join(green.collect());
    });
}

/// The words of a wait as std begins it.
fn futex_wait(word: &AtomicU32, expected: u32, time: *const libc::timespec) -> (c_long, c_int) {
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    let nothing = std::ptr::null::<u32>();
    // SAFETY: the word and the time outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, time, nothing, !0u32) };
    (result, std::io::Error::last_os_error().raw_os_error().unwrap())
}

fn futex_wake(word: &AtomicU32, most: c_int) -> c_long {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address as a key only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) }
}

#[test]
fn results_are_those_of_the_kernel() {
    fn check() {
        let word = AtomicU32::new(5);
        let time = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
        assert_eq!(futex_wait(&word, 4, std::ptr::null()), (-1, libc::EAGAIN));
        assert_eq!(futex_wait(&word, 4, &time(0, 1)), (-1, libc::EAGAIN), "the value comes before the time");
        assert_eq!(futex_wait(&word, 5, &time(0, 1)), (-1, libc::ETIMEDOUT));
        assert_eq!(futex_wait(&word, 5, &time(0, 1_000_000_000)), (-1, libc::EINVAL));
        assert_eq!(futex_wait(&word, 5, &time(-1, 0)), (-1, libc::EINVAL));
        assert_eq!(futex_wake(&word, 1), 0);
        // Other numbers, with few and with many arguments.
        // SAFETY: the calls take numbers alone, or map a page of their own.
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_getpid), c_long::from(libc::getpid()));
            assert_eq!(libc::syscall(c_long::from(u16::MAX)), -1);
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
            assert_eq!(libc::syscall(libc::SYS_dup3, 7, 7, 0), -1);
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
            let file = std::fs::File::open("/proc/self/exe").unwrap();
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE);
            let nowhere = std::ptr::null::<u8>();
            let page = libc::syscall(libc::SYS_mmap, nowhere, 4096usize, read, private, fd, 4096usize);
            assert!(page > 0);
            let mapped: &[u8] =
                std::slice::from_raw_parts(std::ptr::with_exposed_provenance(page as usize), 4096);
            let mut bytes = [0; 4096];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 4096).unwrap();
            assert_eq!(mapped, bytes, "the sixth argument is the offset");
            assert_eq!(libc::syscall(libc::SYS_munmap, page, 4096usize), 0);
        }
    }
    let _dog = Watchdog::new();
    check();
    on_all_runtimes(|runtime, _| join((0..4).map(|_| runtime.spawn(check)).collect()).clear());
}

#[test]
fn a_wake_counts_green_threads_and_os_threads() {
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, _| {
        for turn in [0, 1] {
            let word = Arc::new(AtomicU32::new(0));
            let wait = |word: &AtomicU32| assert_eq!(futex_wait(word, 0, std::ptr::null()).0, 0);
            let waiter = || {
                let word = word.clone();
                move || wait(&word)
            };
            let green: Vec<_> = (0..3).map(|_| runtime.spawn(waiter())).collect();
            let plain: Vec<_> = (0..2).map(|_| std::thread::spawn(waiter())).collect();
            // A wake without waiters leaves them alone; with waiters it returns their number.
            let mut woken = 0;
            while woken < 4 {
                let some = futex_wake(&word, 1);
                assert!((0..=1).contains(&some));
                woken += some;
                if some == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            let start = Instant::now();
            while woken < 5 && start.elapsed() < LOST {
                woken += futex_wake(&word, if turn == 0 { c_int::MAX } else { 2 });
            }
            assert_eq!(woken, 5);
            join(green);
            plain.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
}

#[test]
fn a_cancelled_green_thread_waits_for_its_lock_first() {
    let _dog = Watchdog::new();
    on_all_runtimes(|runtime, _| {
        let mutex = Arc::new(Mutex::new(0));
        let held = mutex.lock().unwrap();
        let (tell, told) = mpsc::channel();
        let locker = mutex.clone();
        let green = runtime.spawn(move || {
            tell.send(()).unwrap();
            let limit = Duration::from_millis(1);
            let in_time = runtime::time::timeout(limit, || *locker.lock().unwrap() += 1);
            assert!(in_time.is_ok(), "the lock does not end as its time is up");
            runtime::sleep(Duration::from_secs(3600));
            *locker.lock().unwrap() += 1;
        });
        told.recv().unwrap();
        let waits = || {
            let mut dump = Vec::new();
            runtime::dump(&mut dump).unwrap();
            String::from_utf8(dump).unwrap().contains("a lock or condition of std")
        };
        while !waits() {
            std::thread::sleep(Duration::from_millis(1));
        }
        green.cancel();
        std::thread::sleep(Duration::from_millis(10));
        assert!(!green.is_finished());
        drop(held);
        assert!(green.join().is_err(), "its next wait unwinds");
        assert_eq!(*mutex.lock().unwrap(), 1);
    });
}
