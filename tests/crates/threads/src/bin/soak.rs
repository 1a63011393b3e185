//! A program of std's threads, and of three crates, that performs random operations at once, and prints
//! what each has observed. The seed alone decides what it prints, so it prints the same with green threads
//! and with OS threads. `ci/threads-soak.sh` runs both in turns and compares.
//!
//! Usage: `soak SEED OPERATIONS`

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Condvar, Mutex, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

runtime::interpose!(threads);

type Operation = fn(&mut Random) -> u64;

const OPERATIONS: &[(&str, Operation)] = &[
    ("tree", tree),
    ("scope", scope),
    ("pool", pool),
    ("ring", ring),
    ("buffer", buffer),
    ("table", table),
    ("rounds", rounds),
    ("turns", turns),
    ("once", once),
    ("locals", locals),
    ("panics", panics),
    ("spins", spins),
    ("sleeps", sleeps),
    ("echo", echo),
    ("pair", pair),
    ("time-out", time_out),
    ("rayon", of_rayon),
    ("select", select),
    ("parking_lot", of_parking_lot),
];

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let (Some(seed), Some(count)) = (numbers.next(), numbers.next()) else {
        panic!("usage: soak SEED OPERATIONS");
    };
    // Panics on purpose are many.
    std::panic::set_hook(Box::new(|info| {
        if !info.to_string().contains("on purpose") {
            eprintln!("{info}");
        }
    }));
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let mut random = Random(seed << 20 | number);
            let (name, operation) = OPERATIONS[random.below(OPERATIONS.len() as u64) as usize];
            let start = move || operation(&mut random);
            (name, thread::Builder::new().name(format!("{name} {number}")).spawn(start).unwrap())
        })
        .collect();
    for (number, (name, thread)) in threads.into_iter().enumerate() {
        println!("{number} {name}: {}", thread.join().expect("an operation"));
    }
}

/// Random numbers by SplitMix64. The same seed gives the same numbers.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Other numbers, which depend on this one's alone.
    fn split(&mut self) -> Random {
        Random(self.next())
    }
}

/// Threads that start threads.
fn tree(random: &mut Random) -> u64 {
    fn grow(mut random: Random, depth: u64) -> u64 {
        let own = random.next() >> 8;
        if depth == 0 {
            return own;
        }
        let children: Vec<_> = (0..1 + random.below(4))
            .map(|_| {
                let random = random.split();
                thread::spawn(move || grow(random, depth - 1))
            })
            .collect();
        children.into_iter().map(|child| child.join().unwrap()).fold(own, u64::wrapping_add)
    }
    let depth = random.below(4);
    grow(random.split(), depth)
}

fn scope(random: &mut Random) -> u64 {
    let numbers: Vec<u64> = (0..100).map(|_| random.below(1000)).collect();
    let sum = AtomicU64::new(0);
    thread::scope(|s| {
        for part in numbers.chunks(7) {
            s.spawn(|| part.iter().for_each(|&number| _ = sum.fetch_add(number, SeqCst)));
        }
    });
    sum.into_inner()
}

/// The pool of every tutorial: a receiver behind a lock.
fn pool(random: &mut Random) -> u64 {
    let (sender, receiver) = mpsc::channel::<u64>();
    let (answers, results) = mpsc::channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let workers: Vec<_> = (0..1 + random.below(5))
        .map(|_| {
            let (receiver, answers) = (receiver.clone(), answers.clone());
            thread::spawn(move || {
                loop {
                    let Ok(job) = receiver.lock().unwrap().recv() else { return };
                    answers.send(job * job).unwrap();
                }
            })
        })
        .collect();
    drop(answers);
    (0..random.below(200)).for_each(|_| sender.send(random.below(1000)).unwrap());
    drop(sender);
    let sum = results.iter().sum();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    sum
}

/// A number goes round through bounded channels.
fn ring(random: &mut Random) -> u64 {
    let (first, mut last) = mpsc::sync_channel(random.below(3) as usize);
    for _ in 0..random.below(8) {
        let (sender, receiver) = mpsc::sync_channel(random.below(3) as usize);
        let from = std::mem::replace(&mut last, receiver);
        thread::spawn(move || from.iter().for_each(|number: u64| sender.send(number + 1).unwrap()));
    }
    let count = random.below(50);
    let sends = thread::spawn(move || (0..count).for_each(|number| first.send(number).unwrap()));
    let sum = last.iter().sum();
    sends.join().unwrap();
    sum
}

/// A bounded buffer of a mutex and two conditions.
fn buffer(random: &mut Random) -> u64 {
    let shared = Arc::new((Mutex::new(VecDeque::new()), Condvar::new(), Condvar::new()));
    let (makers, each, room) = (1 + random.below(4), random.below(60), 1 + random.below(5) as usize);
    for maker in 0..makers {
        let shared = shared.clone();
        thread::spawn(move || {
            let (queue, has_room, has_more) = &*shared;
            for number in 0..each {
                let mut queue =
                    has_room.wait_while(queue.lock().unwrap(), |queue| queue.len() >= room).unwrap();
                queue.push_back(maker * 1000 + number);
                has_more.notify_one();
            }
        });
    }
    let (queue, has_room, has_more) = &*shared;
    (0..makers * each)
        .map(|_| {
            let mut queue = has_more.wait_while(queue.lock().unwrap(), |queue| queue.is_empty()).unwrap();
            has_room.notify_one();
            queue.pop_front().unwrap()
        })
        .sum()
}

fn table(random: &mut Random) -> u64 {
    let table = Arc::new(RwLock::new(BTreeMap::new()));
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let (table, mut random) = (table.clone(), random.split());
            thread::spawn(move || {
                for _ in 0..30 {
                    if number % 2 == 0 {
                        *table.write().unwrap().entry(random.below(10)).or_insert(0) += random.below(100);
                    } else {
                        let table = table.read().unwrap();
                        assert!(table.values().sum::<u64>() < 3 * 30 * 100);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    table.read().unwrap().iter().map(|(key, value)| key * value).sum()
}

fn rounds(random: &mut Random) -> u64 {
    let (threads, rounds) = (1 + random.below(8) as usize, random.below(20));
    let (barrier, leaders, counts) = (Barrier::new(threads), AtomicU64::new(0), AtomicUsize::new(0));
    thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                for round in 1..=rounds {
                    counts.fetch_add(1, SeqCst);
                    leaders.fetch_add(barrier.wait().is_leader().into(), SeqCst);
                    assert!(counts.load(SeqCst) >= threads * round as usize);
                    barrier.wait();
                }
            });
        }
    });
    leaders.into_inner()
}

/// Two threads that park and unpark each other.
fn turns(random: &mut Random) -> u64 {
    let (turn, rounds) = (AtomicU64::new(0), 2 * random.below(100));
    thread::scope(|s| {
        let main = thread::current();
        let take = |own: u64, other: thread::Thread| {
            while turn.load(SeqCst) < rounds {
                match turn.load(SeqCst) % 2 == own {
                    true => _ = turn.fetch_add(1, SeqCst),
                    false => thread::park_timeout(Duration::from_secs(20)),
                }
                other.unpark();
            }
        };
        let other = s.spawn(move || take(1, main));
        take(0, other.thread().clone());
    });
    turn.into_inner()
}

fn once(random: &mut Random) -> u64 {
    let (cell, inits, value) = (OnceLock::new(), AtomicU64::new(0), random.below(1000));
    thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                let found = cell.get_or_init(|| {
                    thread::sleep(Duration::from_micros(value));
                    inits.fetch_add(1, SeqCst);
                    value
                });
                assert_eq!(*found, value);
            });
        }
    });
    inits.into_inner() << 20 | value
}

/// Thread-locals are fresh in each thread, keep their value across waits, and are dropped before a join
/// returns.
fn locals(random: &mut Random) -> u64 {
    struct Counts(Cell<Option<Arc<AtomicU64>>>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.take().inspect(|drops| _ = drops.fetch_add(1, SeqCst));
        }
    }
    thread_local! {
        static COUNTS: Counts = const { Counts(Cell::new(None)) };
        static NUMBER: Cell<u64> = const { Cell::new(7) };
    }
    let drops = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..random.below(10))
        .map(|number| {
            let drops = drops.clone();
            thread::spawn(move || {
                COUNTS.with(|counts| counts.0.set(Some(drops)));
                assert_eq!(NUMBER.replace(number), 7);
                thread::sleep(Duration::from_micros(100));
                assert_eq!(NUMBER.get(), number);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drops.load(SeqCst)
}

fn panics(random: &mut Random) -> u64 {
    let lock = Arc::new(Mutex::new(random.below(100)));
    let held = lock.clone();
    let panics = thread::spawn(move || {
        let _held = held.lock().unwrap();
        panic!("on purpose");
    });
    let text = *panics.join().unwrap_err().downcast::<&str>().unwrap();
    let poisoned = lock.lock().unwrap_err();
    *poisoned.into_inner() + text.len() as u64
}

/// Threads that wait for an atomic without a pause.
fn spins(random: &mut Random) -> u64 {
    let (gate, passed) = (AtomicUsize::new(0), AtomicU64::new(0));
    let threads = 2 + random.below(3) as usize;
    thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                gate.fetch_add(1, SeqCst);
                while gate.load(SeqCst) < threads {
                    std::hint::spin_loop();
                }
                passed.fetch_add(1, SeqCst);
            });
        }
    });
    passed.into_inner()
}

fn sleeps(random: &mut Random) -> u64 {
    let times: Vec<_> = (0..random.below(10)).map(|_| Duration::from_micros(random.below(5000))).collect();
    thread::scope(|s| {
        let threads = times.iter().map(|&time| {
            s.spawn(move || {
                let start = Instant::now();
                thread::sleep(time);
                assert!(start.elapsed() >= time);
            })
        });
        threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().map_or(0, |()| 1)).sum()
    })
}

/// A server with a thread for each connection.
fn echo(random: &mut Random) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, clients) = (listener.local_addr().unwrap(), 1 + random.below(8));
    let server = thread::spawn(move || {
        let serve = |mut stream: TcpStream| {
            thread::spawn(move || {
                let mut buffer = [0; 300];
                loop {
                    match stream.read(&mut buffer).unwrap() {
                        0 => return,
                        count => stream.write_all(&buffer[..count]).unwrap(),
                    }
                }
            })
        };
        let threads: Vec<_> = (0..clients).map(|_| serve(listener.accept().unwrap().0)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let mut random = random.split();
            thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                let mut sum = 0_u64;
                for _ in 0..random.below(20) {
                    let sent: Vec<u8> = (0..1 + random.below(2000)).map(|_| random.next() as u8).collect();
                    let mut received = vec![0; sent.len()];
                    stream.write_all(&sent).unwrap();
                    stream.read_exact(&mut received).unwrap();
                    assert!(sent == received);
                    sum += received.iter().map(|&byte| u64::from(byte)).sum::<u64>();
                }
                stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
                sum
            })
        })
        .collect();
    let sum = clients.into_iter().map(|client| client.join().unwrap()).sum();
    server.join().unwrap();
    sum
}

/// More bytes than a socket's buffer has, written and read at once.
fn pair(random: &mut Random) -> u64 {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let bytes: Vec<u8> = (0..random.below(400_000)).map(|_| random.next() as u8).collect();
    let count = bytes.len();
    let writes = thread::spawn(move || ours.write_all(&bytes));
    let mut received = Vec::new();
    theirs.read_to_end(&mut received).unwrap();
    writes.join().unwrap().unwrap();
    assert_eq!(received.len(), count);
    received.iter().fold(0, |sum: u64, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

fn time_out(random: &mut Random) -> u64 {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let time = Duration::from_micros(1000 + random.below(4000));
    ours.set_read_timeout(Some(time)).unwrap();
    let start = Instant::now();
    let error = (&ours).read(&mut [0]).unwrap_err();
    // The kernel counts in ticks.
    assert!(start.elapsed() + Duration::from_millis(11) >= time);
    let (_sender, receiver) = mpsc::channel::<()>();
    assert_eq!(receiver.recv_timeout(time), Err(mpsc::RecvTimeoutError::Timeout));
    u64::from(error.kind() == std::io::ErrorKind::WouldBlock)
}

fn of_rayon(random: &mut Random) -> u64 {
    fn sum(numbers: &[u64]) -> u64 {
        match numbers {
            [] => 0,
            [number] => *number,
            _ => {
                let (left, right) = numbers.split_at(numbers.len() / 2);
                let (left, right) = rayon::join(|| sum(left), || sum(right));
                left + right
            }
        }
    }
    let numbers: Vec<u64> = (0..random.below(300)).map(|_| random.below(1000)).collect();
    sum(&numbers)
}

fn select(random: &mut Random) -> u64 {
    let (ones, from_ones) = crossbeam_channel::bounded(random.below(3) as usize);
    let (twos, from_twos) = crossbeam_channel::unbounded();
    let (first, second) = (random.below(100), random.below(100));
    thread::scope(|s| {
        s.spawn(move || (0..first).for_each(|_| ones.send(1).unwrap()));
        s.spawn(move || (0..second).for_each(|_| twos.send(2).unwrap()));
        let never = crossbeam_channel::never();
        let (mut a, mut b, mut sum) = (&from_ones, &from_twos, 0);
        while !std::ptr::eq(a, &never) || !std::ptr::eq(b, &never) {
            crossbeam_channel::select! {
                recv(a) -> found => found.map_or_else(|_| a = &never, |number: u64| sum += number),
                recv(b) -> found => found.map_or_else(|_| b = &never, |number: u64| sum += number),
            }
        }
        sum
    })
}

fn of_parking_lot(random: &mut Random) -> u64 {
    let (count, rounds) = (parking_lot::Mutex::new(0_u64), random.below(100));
    let changed = parking_lot::Condvar::new();
    thread::scope(|s| {
        for own in 0..4 {
            let (count, changed) = (&count, &changed);
            s.spawn(move || {
                for _ in 0..rounds {
                    let mut count = count.lock();
                    changed.wait_while(&mut count, |count| *count % 4 != own);
                    *count += 1;
                    changed.notify_all();
                }
            });
        }
    });
    count.into_inner()
}
