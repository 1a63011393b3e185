//! Channel programs as Go programmers write them: which calls block, pipelines, generators, servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use runtime::channel::{Receiver, Sender, bounded, never, unbounded};
use runtime::dump::{Snapshot, State};
use runtime::{select, spawn, yield_now};
use tests::channels::{A_WHILE, KINDS, Kind, start};
use tests::crowd::in_each;
use tests::{Random, on};

/// Runs `f` in a green thread. Returns `true` if `f` waits, and `false` if `f` returns.
fn waits(f: impl FnOnce() + Send + 'static) -> bool {
    let thread = spawn(f);
    let id = thread.thread().id().as_u64().get();
    let is_parked = || {
        let snapshot = Snapshot::take().unwrap();
        snapshot.green_threads.iter().any(|seen| seen.id == id && seen.state == State::Waiting)
    };
    while !thread.is_finished() {
        if is_parked() {
            thread.cancel();
            return true;
        }
        yield_now();
    }
    false
}

#[test]
fn which_calls_wait() {
    on(1, || {
        let idle = |kind: Kind| kind.make::<u8>();
        for kind in KINDS {
            let (s, r) = idle(kind);
            let _keep = s.clone();
            assert!(waits(move || _ = r.recv()), "{kind:?} is empty");
            let (s, r) = idle(kind);
            drop(s);
            assert!(!waits(move || assert!(r.recv().is_err())), "{kind:?} has no sender");
            let (s, r) = idle(kind);
            drop(r);
            assert!(!waits(move || assert!(s.send(1).is_err())), "{kind:?} has no receiver");
            let (s, r) = idle(kind);
            let _keep = r.clone();
            assert_eq!(waits(move || _ = s.send(1)), kind == Kind::Bounded(0), "{kind:?} has room or not");
            let (s, r) = idle(kind);
            assert!(!waits(move || select! { recv(r) -> _ => unreachable!(), default => drop(s) }));
            let (s, r) = idle(kind);
            let _keep = s.clone();
            assert!(waits(move || select! { recv(r) -> _ => {}, recv(never::<u8>()) -> _ => {} }));
            let (s, r) = idle(kind);
            (0..kind.room(7)).for_each(|_| s.send(0).unwrap());
            let full = kind != Kind::Unbounded;
            assert_eq!(
                waits(move || select! { send(s, 0) -> _ => {}, recv(never::<u8>()) -> _ => drop(r) }),
                full
            );
        }
        assert!(waits(|| _ = never::<u8>().recv()));
        assert!(waits(|| select! { recv(never::<u8>()) -> _ => {}, recv(never::<u8>()) -> _ => {} }));
    });
}

fn numbers(limit: u32) -> Receiver<u32> {
    let (s, r) = bounded(0);
    spawn(move || (2..limit).all(|n| s.send(n).is_ok()));
    r
}

#[test]
fn the_sieve_of_primes() {
    in_each(|| {
        let mut r = numbers(250);
        let mut primes = Vec::new();
        while let Ok(prime) = r.recv() {
            primes.push(prime);
            let (s, filtered) = bounded(0);
            spawn(move || r.iter().filter(|n| n % prime != 0).all(|n| s.send(n).is_ok()));
            r = filtered;
        }
        assert_eq!(primes.len(), 53);
        assert_eq!((primes[0], primes[52]), (2, 241));
    });
}

#[test]
fn a_generator_ends_with_its_receiver() {
    in_each(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..10)
            .map(|i| {
                let (s, r) = bounded(i % 3);
                let ended = ended.clone();
                let generator = start(i, move || {
                    let mut n = 0;
                    while s.send(n).is_ok() {
                        n += 1;
                    }
                    ended.fetch_add(1, SeqCst);
                });
                assert_eq!(r.iter().take(5).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
                generator
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join());
        assert_eq!(ended.load(SeqCst), 10);
    });
}

/// Merges sorted streams in pairs, with a lookahead of one message for each.
#[test]
fn merging_sorted_streams() {
    fn merge(a: Receiver<u32>, b: Receiver<u32>) -> Receiver<u32> {
        let (s, r) = bounded(0);
        spawn(move || {
            let (mut x, mut y) = (a.recv(), b.recv());
            loop {
                let next = match (x, y) {
                    (Ok(n), Ok(m)) if n <= m => std::mem::replace(&mut x, a.recv()),
                    (_, Ok(_)) => std::mem::replace(&mut y, b.recv()),
                    (Ok(_), _) => std::mem::replace(&mut x, a.recv()),
                    _ => return,
                };
                s.send(next.unwrap()).unwrap();
            }
        });
        r
    }
    in_each(|| {
        let mut streams: Vec<_> = (0..8)
            .map(|i| {
                let (s, r) = bounded(0);
                spawn(move || (0..20).for_each(|n| s.send(n * 8 + i).unwrap()));
                r
            })
            .collect();
        while streams.len() > 1 {
            let (a, b) = (streams.remove(0), streams.remove(0));
            streams.push(merge(a, b));
        }
        assert!(streams.remove(0).into_iter().eq(0..160));
    });
}

/// Each request carries the channel for its answer.
#[test]
fn a_server_of_requests() {
    struct Request {
        key: u32,
        value: Option<u32>,
        answer: Sender<Option<u32>>,
    }
    in_each(|| {
        for kind in KINDS {
            let (requests, incoming) = kind.make::<Request>();
            let server = spawn(move || {
                let mut map = HashMap::new();
                for Request { key, value, answer } in incoming {
                    let old = match value {
                        Some(value) => map.insert(key, value),
                        None => map.remove(&key),
                    };
                    answer.send(old).unwrap();
                }
                map.len()
            });
            let clients: Vec<_> = (0..6u32)
                .map(|i| {
                    let requests = requests.clone();
                    start(i as usize, move || {
                        let (answer, answers) = bounded(1);
                        let ask = |key, value| {
                            let answer = answer.clone();
                            requests.send(Request { key, value, answer }).unwrap();
                            answers.recv().unwrap()
                        };
                        for n in 0..30 {
                            let key = i * 100 + n;
                            assert_eq!(ask(key, Some(n)), None);
                            assert_eq!(ask(key, Some(n + 1)), Some(n));
                            if n > 0 {
                                assert_eq!(ask(key, None), Some(n + 1));
                            }
                        }
                    })
                })
                .collect();
            drop(requests);
            clients.into_iter().for_each(|client| client.join());
            assert_eq!(server.join().unwrap(), 6);
        }
    });
}

/// A channel as a semaphore: its capacity limits the threads inside a section.
#[test]
fn a_channel_limits_the_threads_in_a_section() {
    in_each(|| {
        let (enter, leave) = bounded(3);
        let (within, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..12)
            .map(|i| {
                let (enter, leave) = (enter.clone(), leave.clone());
                let (within, most) = (within.clone(), most.clone());
                start(i, move || {
                    for _ in 0..20 {
                        enter.send(()).unwrap();
                        most.fetch_max(within.fetch_add(1, SeqCst) + 1, SeqCst);
                        yield_now();
                        within.fetch_sub(1, SeqCst);
                        leave.recv().unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join());
        assert!((1..=3).contains(&most.load(SeqCst)), "{most:?}");
    });
}

/// A pipeline with several workers in the middle. The source ends, or the sink stops receiving.
#[test]
fn a_pipeline() {
    in_each(|| {
        for (kind, wanted) in KINDS.into_iter().flat_map(|kind| [(kind, usize::MAX), (kind, 7)]) {
            let (s, squared_from) = kind.make::<u64>();
            let (squares, r) = kind.make();
            let source = start(0, move || (1..=200).take_while(|&n| s.send(n).is_ok()).count());
            let workers: Vec<_> = (0..4)
                .map(|i| {
                    let (from, to) = (squared_from.clone(), squares.clone());
                    start(i, move || from.iter().all(|n| to.send(n * n).is_ok()))
                })
                .collect();
            drop((squared_from, squares));
            let sum: u64 = r.iter().take(wanted).sum();
            drop(r);
            let ends: Vec<bool> = workers.into_iter().map(|worker| worker.join()).collect();
            let unhindered = ends.iter().all(|&end| end);
            let made = source.join();
            if wanted == usize::MAX {
                assert_eq!((sum, made, unhindered), (2_686_700, 200, true));
            } else {
                assert!(sum >= 7, "{kind:?}");
            }
        }
    });
}

/// Two selects, each with the other's channels: they must never both wait for ever.
#[test]
fn crossed_selects() {
    in_each(|| {
        for kind in KINDS {
            let ((a, from_a), (b, from_b)) = (kind.make::<u32>(), kind.make::<u32>());
            let other = {
                let (b, from_a) = (b.clone(), from_a.clone());
                start(1, move || trade(&b, &from_a))
            };
            let mine = trade(&a, &from_b);
            let theirs = other.join();
            let (left_a, left_b): (u32, u32) = (from_a.try_iter().sum(), from_b.try_iter().sum());
            assert_eq!(mine.0, theirs.1 + left_a, "{kind:?}");
            assert_eq!(theirs.0, mine.1 + left_b, "{kind:?}");
        }
    });
}

/// Sends the numbers up to 200 and receives at the same time. Returns both sums. Stops when no operation is
/// ready for a while.
fn trade(s: &Sender<u32>, r: &Receiver<u32>) -> (u32, u32) {
    let (mut sent, mut received) = (0, 0);
    for n in 0..200 {
        select! {
            send(s, n) -> done => { done.unwrap(); sent += n }
            recv(r) -> n => received += n.unwrap(),
            default(A_WHILE) => break,
        }
    }
    (sent, received)
}

/// Random operations of a single thread, compared with a `VecDeque`.
#[test]
fn a_channel_is_a_queue() {
    let mut random = Random::new(1234);
    for kind in KINDS.into_iter().cycle().take(40) {
        let (s, r) = kind.make();
        let mut model = std::collections::VecDeque::new();
        let room = kind.room(usize::MAX);
        for n in 0..500u32 {
            match random.below(6) {
                0 | 1 => {
                    let sent = s.try_send(n).is_ok();
                    assert_eq!(sent, model.len() < room);
                    if sent {
                        model.push_back(n);
                    }
                }
                2 => assert_eq!(r.try_recv().ok(), model.pop_front()),
                3 => select! {
                    send(s, n) -> sent => { sent.unwrap(); assert!(model.len() < room); model.push_back(n) }
                    default => assert!(model.len() >= room),
                },
                4 => select! {
                    recv(r) -> n => assert_eq!(n.ok(), model.pop_front()),
                    recv(never::<u8>()) -> _ => unreachable!(),
                    default => assert!(model.is_empty()),
                },
                _ => assert_eq!(r.iter().take(model.len().min(3)).collect::<Vec<_>>(), {
                    let n = model.len().min(3);
                    model.drain(..n).collect::<Vec<_>>()
                }),
            }
            assert_eq!((r.len(), s.is_empty()), (model.len(), model.is_empty()));
        }
        drop(s);
        assert!(r.into_iter().eq(model));
    }
}

#[test]
fn thousands_of_green_threads_and_one_channel() {
    in_each(|| {
        let (s, r) = unbounded();
        (0..2000u32).for_each(|n| {
            let s = s.clone();
            spawn(move || s.send(n).unwrap());
        });
        drop(s);
        assert_eq!(r.iter().sum::<u32>(), 1_999_000);
    });
}
