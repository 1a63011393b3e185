//! Barriers.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use libc::pthread_barrier_t;
use threads::os;

use super::{MILLI, report_os_threads, wait_for};

pub struct Barrier(UnsafeCell<MaybeUninit<pthread_barrier_t>>);

// SAFETY: the functions of barriers may be used on any thread.
unsafe impl Sync for Barrier {}

impl Barrier {
    pub const fn new() -> Barrier {
        // What is no part of glibc's barrier is not zero.
        let mut bytes = MaybeUninit::<pthread_barrier_t>::uninit();
        // SAFETY: the bytes are the barrier's.
        unsafe { bytes.as_mut_ptr().cast::<u8>().write_bytes(0xA5, size_of::<pthread_barrier_t>()) };
        Barrier(UnsafeCell::new(bytes))
    }

    fn get(&self) -> *mut pthread_barrier_t {
        self.0.get().cast()
    }

    pub fn init(&self, count: c_uint) -> c_int {
        // SAFETY: the place is this barrier's.
        unsafe { libc::pthread_barrier_init(self.get(), ptr::null(), count) }
    }

    /// Returns `true` to one thread of a round.
    pub fn wait(&self) -> bool {
        // SAFETY: the callers have made the barrier.
        match unsafe { libc::pthread_barrier_wait(self.get()) } {
            0 => false,
            libc::PTHREAD_BARRIER_SERIAL_THREAD => true,
            error => panic!("pthread_barrier_wait: {error}"),
        }
    }

    pub fn destroy(&self) -> c_int {
        // SAFETY: as above.
        unsafe { libc::pthread_barrier_destroy(self.get()) }
    }
}

/// In each round all threads of both kinds have come before one goes on.
pub fn rounds() {
    const THREADS: usize = 20;
    static BARRIER: Barrier = Barrier::new();
    static CAME: AtomicUsize = AtomicUsize::new(0);
    static LEADERS: AtomicUsize = AtomicUsize::new(0);
    fn go_round() {
        for round in 1..=100 {
            CAME.fetch_add(1, SeqCst);
            LEADERS.fetch_add(BARRIER.wait().into(), SeqCst);
            assert!(CAME.load(SeqCst) >= round * THREADS, "a thread has gone on alone");
            assert!(CAME.load(SeqCst) <= (round + 1) * THREADS, "a thread is a round ahead");
        }
    }
    for os_threads in [0, 4] {
        assert_eq!(BARRIER.init(THREADS as c_uint), 0);
        CAME.store(0, SeqCst);
        os::run_all(THREADS - os_threads, os_threads, go_round);
        println!("came: {}, leaders: {}", CAME.load(SeqCst), LEADERS.load(SeqCst));
        println!("{}", BARRIER.destroy());
    }
    println!("{}", Barrier::new().init(0) == libc::EINVAL);
}

/// More threads than a round has meet at one barrier.
pub fn crowd() {
    static BARRIER: Barrier = Barrier::new();
    static TICKETS: AtomicUsize = AtomicUsize::new(0);
    static PASSED: AtomicUsize = AtomicUsize::new(0);
    static LEADERS: AtomicUsize = AtomicUsize::new(0);
    const ALL: usize = 9_000;
    fn pass() {
        while TICKETS.fetch_add(1, SeqCst) < ALL {
            LEADERS.fetch_add(BARRIER.wait().into(), SeqCst);
            let passed = PASSED.fetch_add(1, SeqCst) + 1;
            // A round that is not full may have come with this one, but no thread of it has passed.
            assert!(passed <= TICKETS.load(SeqCst).min(ALL) / 3 * 3, "a thread has passed too early");
        }
    }
    BARRIER.init(3);
    os::run_all(10, 4, pass);
    println!("passed: {}, leaders: {}, {}", PASSED.load(SeqCst), LEADERS.load(SeqCst), BARRIER.destroy());
}

/// 100 threads wait for the last one.
pub fn waiting() {
    static BARRIER: Barrier = Barrier::new();
    static COMING: AtomicUsize = AtomicUsize::new(0);
    BARRIER.init(101);
    let waits = || {
        COMING.fetch_add(1, SeqCst);
        BARRIER.wait()
    };
    let threads: Vec<_> = (0..100).map(|_| thread::spawn(waits)).collect();
    wait_for(&COMING, 100);
    thread::sleep(20 * MILLI);
    report_os_threads();
    let own = BARRIER.wait();
    let leaders = threads.into_iter().map(|thread| usize::from(thread.join().unwrap()));
    println!("leaders: {}", leaders.sum::<usize>() + usize::from(own));
}

/// The leader destroys the barrier and frees it, as soon as its wait has returned.
pub fn freed() {
    for turn in 0..1_000 {
        let barrier = Box::into_raw(Box::new(Barrier::new())).expose_provenance();
        let of = move || ptr::with_exposed_provenance_mut::<Barrier>(barrier);
        // SAFETY: freed below.
        unsafe { (*of()).init(4) };
        let waits = move || {
            (0..turn % 100).for_each(|_| std::hint::spin_loop());
            // SAFETY: the leader waits for the others, before it frees the bytes.
            let barrier = unsafe { &*of() };
            if !barrier.wait() {
                return;
            }
            assert_eq!(barrier.destroy(), 0);
            // SAFETY: no thread uses the barrier any more.
            unsafe { barrier.get().cast::<u8>().write_bytes(0x5A, size_of::<pthread_barrier_t>()) };
        };
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(waits)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // SAFETY: all threads have ended.
        let barrier = unsafe { Box::from_raw(of()) };
        // SAFETY: as above.
        let bytes = unsafe { barrier.get().cast::<[u8; size_of::<pthread_barrier_t>()]>().read() };
        assert!(bytes.iter().all(|&byte| byte == 0x5A), "used after it was destroyed");
    }
    println!("freed");
}
