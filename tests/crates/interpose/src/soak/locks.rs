//! Operations on std's locks, and sleeps.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier, Condvar, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant};

use super::{Random, Side};

const THREADS: u64 = 6;

pub(super) fn sleep(_: Side, seed: u64) -> String {
    let (start, time) = (Instant::now(), Duration::from_micros(100 * seed));
    std::thread::sleep(time);
    format!("{}", start.elapsed() >= time)
}

pub(super) fn counter(side: Side, seed: u64) -> String {
    let shared = Arc::new((Mutex::new(0), RwLock::new([0; 2]), OnceLock::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let shared = shared.clone();
            side.spawn(move || {
                let mut random = Random::new(seed ^ thread);
                let first = *shared.2.get_or_init(|| {
                    std::thread::sleep(Duration::from_micros(200));
                    seed
                });
                assert_eq!(first, seed);
                for _ in 0..30 {
                    let mut count = shared.0.lock().unwrap();
                    *count += 1;
                    if random.below(8) == 0 {
                        std::thread::sleep(Duration::from_micros(random.below(100)));
                    }
                    drop(count);
                    if random.below(3) == 0 {
                        let mut both = shared.1.write().unwrap();
                        both[0] += 1;
                        std::thread::sleep(Duration::from_micros(random.below(30)));
                        both[1] += 1;
                    } else {
                        let both = shared.1.read().unwrap();
                        assert_eq!(both[0], both[1]);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join());
    format!("{} {:?}", shared.0.lock().unwrap(), shared.1.read().unwrap())
}

pub(super) fn connection_under_a_lock(side: Side, seed: u64) -> String {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = side.spawn(move || {
        let (mut theirs, mut request) = (theirs, [0; 8]);
        while theirs.read_exact(&mut request).is_ok() {
            theirs.write_all(&request).unwrap();
        }
    });
    let connection = Arc::new(Mutex::new(ours));
    let clients: Vec<_> = (0..THREADS)
        .map(|client| {
            let connection = connection.clone();
            side.spawn(move || {
                for round in 0..10 {
                    let request = (seed << 32 | client << 16 | round).to_le_bytes();
                    let mut answer = [0; 8];
                    let mut connection = connection.lock().unwrap();
                    connection.write_all(&request).unwrap();
                    connection.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, request);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join());
    drop(connection);
    server.join();
    String::new()
}

pub(super) fn condition(side: Side, seed: u64) -> String {
    let turns = 20 + seed as u32;
    let game = Arc::new((Mutex::new(0), Condvar::new()));
    let players: Vec<_> = (0..2)
        .map(|mine| {
            let game = game.clone();
            side.spawn(move || {
                let mut turn = game.0.lock().unwrap();
                while *turn < turns {
                    turn = game.1.wait_while(turn, |turn| *turn < turns && *turn % 2 != mine).unwrap();
                    *turn += u32::from(*turn < turns);
                    game.1.notify_one();
                }
            })
        })
        .collect();
    players.into_iter().for_each(|player| player.join());
    let (turn, condition) = &*game;
    let waited = condition
        .wait_timeout_while(turn.lock().unwrap(), Duration::from_micros(seed * 30), |_| true)
        .unwrap();
    format!("{} {}", *waited.0, waited.1.timed_out())
}

pub(super) fn barrier(side: Side, seed: u64) -> String {
    let barrier = Arc::new(Barrier::new(THREADS as usize));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let barrier = barrier.clone();
            side.spawn(move || (0..seed + 1).filter(|_| barrier.wait().is_leader()).count())
        })
        .collect();
    format!("{}", threads.into_iter().map(|thread| thread.join()).sum::<usize>())
}
