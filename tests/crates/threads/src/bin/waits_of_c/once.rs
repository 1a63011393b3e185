//! `pthread_once` and spin locks.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use libc::{pthread_once_t, pthread_spinlock_t, pthread_t};
use threads::os;

use super::{MILLI, report_os_threads, wait_for};

unsafe extern "C-unwind" {
    fn pthread_once(variable: *mut pthread_once_t, first: extern "C-unwind" fn()) -> c_int;
    fn pthread_exit(result: *mut c_void) -> !;
}

unsafe extern "C" {
    fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
}

pub struct Once(UnsafeCell<pthread_once_t>);

// SAFETY: the functions may be used on any thread.
unsafe impl Sync for Once {}

impl Once {
    pub const fn new() -> Once {
        Once(UnsafeCell::new(libc::PTHREAD_ONCE_INIT))
    }

    pub fn call(&self, first: extern "C-unwind" fn()) {
        // SAFETY: the variable is this one's.
        assert_eq!(unsafe { pthread_once(self.0.get(), first) }, 0);
    }
}

/// Of many threads of both kinds one calls the function, and all see what it has done.
pub fn once() {
    static FIRSTS: [Once; 200] = [const { Once::new() }; 200];
    static VALUES: [AtomicUsize; 200] = [const { AtomicUsize::new(0) }; 200];
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    extern "C-unwind" fn first() {
        let call = CALLS.fetch_add(1, SeqCst);
        if call.is_multiple_of(3) {
            thread::sleep(MILLI / 10);
        }
        VALUES[call].store(1, SeqCst);
    }
    fn calls() {
        for (once, value) in FIRSTS.iter().zip(&VALUES) {
            once.call(first);
            assert_eq!(value.load(SeqCst), 1, "not done");
        }
    }
    os::run_all(10, 4, calls);
    println!("calls: {}", CALLS.load(SeqCst));
}

/// 100 threads wait for the function of another one.
pub fn waiting() {
    static ONCE: Once = Once::new();
    static COMING: AtomicUsize = AtomicUsize::new(0);
    static GO: AtomicBool = AtomicBool::new(false);
    extern "C-unwind" fn first() {
        while !GO.load(SeqCst) {
            thread::sleep(MILLI);
        }
    }
    let threads: Vec<_> = (0..100)
        .map(|_| {
            thread::spawn(|| {
                COMING.fetch_add(1, SeqCst);
                ONCE.call(first);
                assert!(GO.load(SeqCst));
            })
        })
        .collect();
    wait_for(&COMING, 100);
    thread::sleep(20 * MILLI);
    report_os_threads();
    GO.store(true, SeqCst);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("done");
}

/// The function ends its thread nine times, while others wait: each time the next one calls it.
pub fn exits() {
    static ONCE: Once = Once::new();
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static RETURNED: AtomicUsize = AtomicUsize::new(0);
    extern "C-unwind" fn first() {
        let call = CALLS.fetch_add(1, SeqCst) + 1;
        thread::sleep(MILLI);
        if call < 10 {
            // SAFETY: no frame below has a destructor of this program's.
            unsafe { pthread_exit(ptr::without_provenance_mut(call)) };
        }
    }
    extern "C-unwind" fn calls(_: *mut c_void) -> *mut c_void {
        // SAFETY: the variable is static.
        unsafe { pthread_once(ONCE.0.get(), first) };
        RETURNED.fetch_add(1, SeqCst);
        ptr::null_mut()
    }
    let threads: Vec<_> = (0..15)
        .map(|_| {
            let mut thread = 0;
            // SAFETY: the place is this function's.
            assert_eq!(unsafe { pthread_create(&mut thread, ptr::null(), calls, ptr::null_mut()) }, 0);
            thread
        })
        .collect();
    threads.into_iter().for_each(os::join);
    println!("calls: {}, returned: {}", CALLS.load(SeqCst), RETURNED.load(SeqCst));
}

/// A child that is forked within the function has no thread that calls it, and calls it anew.
pub fn forks() {
    static ONCE: Once = Once::new();
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static GO: AtomicBool = AtomicBool::new(false);
    extern "C-unwind" fn first() {
        BEGUN.store(true, SeqCst);
        while !GO.load(SeqCst) {
            thread::sleep(MILLI);
        }
    }
    extern "C-unwind" fn in_child() {}
    let calls = thread::spawn(|| ONCE.call(first));
    while !BEGUN.load(SeqCst) {
        thread::sleep(MILLI);
    }
    let mut status = -1;
    // SAFETY: the child calls what may be called there.
    unsafe {
        match libc::fork() {
            0 => {
                ONCE.call(in_child);
                libc::_exit(7);
            }
            child => assert_eq!(libc::waitpid(child, &mut status, 0), child),
        }
    }
    println!("child: {}", libc::WEXITSTATUS(status));
    GO.store(true, SeqCst);
    calls.join().unwrap();
}

struct Spin(UnsafeCell<pthread_spinlock_t>);

// SAFETY: the functions of spin locks may be used on any thread.
unsafe impl Sync for Spin {}

/// Threads of both kinds spin for a lock, also while its owner does not run.
pub fn spin() {
    static SPIN: Spin = Spin(UnsafeCell::new(0));
    static VALUE: AtomicUsize = AtomicUsize::new(0);
    fn count() {
        for turn in 0..50 {
            // SAFETY: the lock is made below.
            assert_eq!(unsafe { libc::pthread_spin_lock(SPIN.0.get()) }, 0);
            let before = VALUE.load(SeqCst);
            match turn % 25 {
                0 => thread::sleep(MILLI / 10),
                1..3 => thread::yield_now(),
                _ => {}
            }
            VALUE.store(before + 1, SeqCst);
            // SAFETY: as above.
            assert_eq!(unsafe { libc::pthread_spin_unlock(SPIN.0.get()) }, 0);
        }
    }
    // SAFETY: the place is static.
    assert_eq!(unsafe { libc::pthread_spin_init(SPIN.0.get(), 0) }, 0);
    for os_threads in [0, 2] {
        os::run_all(10, os_threads, count);
        println!("count: {}", VALUE.load(SeqCst));
    }
}
