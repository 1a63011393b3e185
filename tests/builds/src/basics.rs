//! All the basics of the runtime, with checks of each result, and a short stress of the allocator.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::channel::{bounded, unbounded};
use runtime::net::{TcpListener, TcpStream};
use runtime::process::Command;
use runtime::time::after_func;
use runtime::{Builder, blocking, sleep, spawn};

const MILLI: Duration = Duration::from_millis(1);

/// Runs all of them on a runtime of its own, for `time` longer, and ends the runtime. Returns the sum of what
/// came over channels.
pub fn all(time: Duration) -> u64 {
    let runtime = Builder::new().procs(2).build().expect("a runtime");
    let sum = runtime.block_on(move || {
        let threads: Vec<_> = (0..1000_u64)
            .map(|i| {
                spawn(move || {
                    sleep(MILLI);
                    i
                })
            })
            .collect();
        let sum = threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
        assert_eq!(sum, 999 * 1000 / 2);
        times();
        sockets();
        rescue();
        child();
        unwinding();
        sum + memory(time)
    });
    drop(runtime);
    sum
}

fn times() {
    let start = Instant::now();
    sleep(3 * MILLI);
    assert!(start.elapsed() >= 3 * MILLI);
    let (sender, receiver) = unbounded();
    let _timer = after_func(MILLI, move || sender.send(7).unwrap());
    assert_eq!(receiver.recv(), Ok(7));
    assert_eq!(
        blocking(|| {
            std::thread::sleep(MILLI);
            5
        }),
        5
    );
}

fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let echo = spawn(move || {
        let mut got = vec![0; 300_000];
        server.read_exact(&mut got).unwrap();
        got
    });
    client.write_all(&[9; 300_000]).unwrap();
    assert!(echo.join().unwrap() == [9; 300_000]);
}

/// Two green threads compute on both Ps until a third one has slept.
fn rescue() {
    let stop = Arc::new(AtomicBool::new(false));
    let hogs = [0; 2].map(|_| {
        let stop = stop.clone();
        spawn(move || {
            while !stop.load(SeqCst) {
                std::hint::spin_loop();
            }
        })
    });
    sleep(5 * MILLI);
    stop.store(true, SeqCst);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}

fn child() {
    assert_eq!(Command::new("sh").args(["-c", "sleep 0.01; exit 7"]).status().unwrap().code(), Some(7));
}

#[cfg(panic = "unwind")]
fn unwinding() {
    std::panic::set_hook(Box::new(|_| ()));
    assert!(spawn(|| panic!("on purpose")).join().is_err());
    let _ = std::panic::take_hook();
    assert!(runtime::time::timeout(MILLI, || sleep(1000 * MILLI)).is_err());
}

/// `panic = "abort"` unwinds nothing.
#[cfg(not(panic = "unwind"))]
fn unwinding() {}

/// Blocks of memory of many sizes, which other green threads free, on other OS threads too.
fn memory(time: Duration) -> u64 {
    let end = Instant::now() + time;
    let (sender, receiver) = bounded::<Vec<u8>>(16);
    let makers: Vec<_> = (0..16_u64)
        .map(|seed| {
            let sender = sender.clone();
            spawn(move || {
                let (mut x, mut kept) = (seed + 1, Vec::new());
                loop {
                    for _ in 0..50 {
                        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        let block = vec![seed as u8; 1 + (x >> 33) as usize % 20_000];
                        kept.push(block.clone());
                        sender.send(block).unwrap();
                    }
                    // A stack and a record of its own.
                    spawn(move || assert!(kept.iter().flatten().all(|byte| u64::from(*byte) == seed)))
                        .join()
                        .unwrap();
                    kept = Vec::new();
                    if Instant::now() >= end {
                        return;
                    }
                }
            })
        })
        .collect();
    drop(sender);
    let freers: Vec<_> = (0..4)
        .map(|_| {
            let receiver = receiver.clone();
            spawn(move || {
                let mut number = 0;
                for block in receiver {
                    assert!(block.iter().all(|byte| *byte == block[0]));
                    number += 1;
                }
                number
            })
        })
        .collect();
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    let number = freers.into_iter().map(|freer| freer.join().unwrap()).sum::<u64>();
    assert!(number >= 16 * 50 && number % 50 == 0, "{number}");
    number
}
