//! The properties of the fuzz targets (`examples/fuzz`) with a stable toolchain: for the seeds, and for
//! random changes of them. `PARSERS_SEED` repeats a run, and `PARSERS_RUNS` is the number of inputs for each
//! parser.

#![allow(dead_code, unreachable_pub, clippy::duplicate_mod)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fastrand::Rng;

#[path = "../support/http.rs"]
mod http;
#[path = "../fuzz/src/properties.rs"]
mod properties;
#[path = "../support/resp.rs"]
mod resp;
#[path = "../support/mod.rs"]
mod support;
#[path = "../websocket.rs"]
mod websocket;

/// Pieces that a random change inserts.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b":",
    b",",
    b"+",
    b"0",
    b"\0",
    b"\x1b",
    b"\xff",
    b"\r\n ",
    b"\r\n\r\n",
    b"5",
    b"1000000",
    b"\r\nContent-Length: 3",
    b"\r\nContent-Length: 4",
    b"\r\nContent-Length: +3",
    b"\r\nTransfer-Encoding: chunked",
    b"\r\nHost: y",
    b"GET / HTTP/1.1",
    b"$3\r\n",
    b"*2\r\n",
    b"$-1\r\n",
    b"\x81\x85",
    b"\x88\x80",
];

/// Checks `property` for the seeds in `fuzz/seeds/NAME`, and for random changes of them. The parser may
/// reserve `announced` bytes because a length in its input says so.
fn check(name: &str, property: fn(&[u8]), announced: usize) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let mut seeds: Vec<_> =
        fs::read_dir(seeds).unwrap().map(|seed| fs::read(seed.unwrap().path()).unwrap()).collect();
    seeds.sort();
    seeds.iter().for_each(|seed| property(seed));
    let number =
        |variable: &str| std::env::var(variable).ok().map(|text| text.parse::<u64>().expect(variable));
    let seed = number("PARSERS_SEED")
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64);
    println!("{name}: PARSERS_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    for _ in 0..number("PARSERS_RUNS").unwrap_or(5000) {
        let mut bytes = seeds[random.usize(..seeds.len())].clone();
        for _ in 0..=random.usize(..4) {
            change(&mut bytes, &seeds, &mut random);
        }
        let before = PEAK.get();
        PEAK.set((0, 0));
        property(&bytes);
        let (_, peak) = PEAK.get();
        PEAK.set(before);
        // A byte may be a word of its own, with a buffer of its own. The rest is buffers of constant size.
        let most = 200 * bytes.len() + 300_000 + announced;
        assert!(peak < most as isize, "{peak} bytes for {}", bytes.escape_ascii());
    }
}

/// Changes `bytes` at a random place: removes, changes or inserts some, or goes on as another seed does.
fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Rng) {
    let at = random.usize(..=bytes.len());
    let end = at + random.usize(..=bytes.len() - at).min(20);
    match random.u32(..6) {
        0 => drop(bytes.drain(at..end)),
        1 => bytes.truncate(at),
        2 if at < bytes.len() => bytes[at] ^= 1 << random.u32(..8),
        3 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
        4 => {
            let other = &seeds[random.usize(..seeds.len())];
            bytes.truncate(at);
            bytes.extend(&other[random.usize(..=other.len())..]);
        }
        _ => drop(bytes.splice(at..at, PIECES[random.usize(..PIECES.len())].iter().copied())),
    }
}

#[test]
fn http_requests() {
    check("http", properties::http, 0);
}

#[test]
fn redis_commands() {
    check("resp", properties::resp, 0);
}

#[test]
fn lines() {
    check("line", properties::line, 0);
}

#[test]
fn websocket_frames() {
    // The library reserves the payload of a frame when it has read its header.
    check("websocket", properties::websocket, websocket::MESSAGE);
}

/// Counts the bytes that each thread has allocated.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// The bytes that are allocated now, and the most that were.
    static PEAK: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    let (now, peak) = PEAK.get();
    PEAK.set((now + bytes, peak.max(now + bytes)));
}

// SAFETY: every call goes on to the system's allocator with the same arguments. A `Cell` without destructor
// counts, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of this function, and `alloc` got the memory from the same
        // allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}
