//! Reads, writes and waits of a socket allocate nothing.
#![cfg(target_os = "linux")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use runtime::spawn;
use tests::on_each;
use tests::sockets::connected;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: each function forwards to `System`, which keeps the contract of `GlobalAlloc`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the contract of this function, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of this function, which is that of `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_round_trip_allocates_nothing() {
    tests::alone!();
    on_each(|| {
        let (mut client, mut server) = connected();
        client.set_read_timeout(Some(std::time::Duration::from_secs(3600))).unwrap();
        let echo = spawn(move || {
            let mut byte = [0];
            while server.read(&mut byte).unwrap() == 1 {
                server.write_all(&byte).unwrap();
            }
        });
        let mut round_trips = |number: u64| {
            let before = ALLOCATIONS.load(Relaxed);
            for i in 0..number {
                client.write_all(&[i as u8]).unwrap();
                client.read_exact(&mut [0]).unwrap();
            }
            ALLOCATIONS.load(Relaxed) - before
        };
        // The first round trips grow queues and heaps, once. Others allocate now and then: an OS thread that
        // starts, or sysmon, which looks at OS threads. On a slow machine it looks often.
        let allocations: Vec<_> =
            (0..50).map(|_| round_trips(100)).take_while(|&number| number > 0).collect();
        assert!(allocations.len() < 50, "allocations in 100 round trips each: {allocations:?}");
        drop(client);
        echo.join().unwrap();
    });
}
