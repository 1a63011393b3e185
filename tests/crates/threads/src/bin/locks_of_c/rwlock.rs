//! Read-write locks of pthread.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use libc::{clockid_t, pthread_rwlock_t, timespec};
use threads::os::run_all;

use super::{MILLI, after};

unsafe extern "C" {
    fn pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, time: *const timespec) -> c_int;
    fn pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, time: *const timespec) -> c_int;
    fn pthread_rwlock_clockrdlock(
        lock: *mut pthread_rwlock_t,
        clock: clockid_t,
        time: *const timespec,
    ) -> c_int;
    fn pthread_rwlock_clockwrlock(
        lock: *mut pthread_rwlock_t,
        clock: clockid_t,
        time: *const timespec,
    ) -> c_int;
}

static LOCK: Exclusive = Exclusive(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER));

struct Exclusive(UnsafeCell<pthread_rwlock_t>);

// SAFETY: pthread's functions may use the lock on any thread.
unsafe impl Sync for Exclusive {}

/// Readers and writers of both kinds of threads; the writers change two numbers.
pub fn share() {
    static NUMBERS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    static WRITERS: AtomicUsize = AtomicUsize::new(0);
    let lock = LOCK.0.get();
    fn read_or_write() {
        let (lock, writes) = (LOCK.0.get(), WRITERS.fetch_add(1, SeqCst).is_multiple_of(2));
        for turn in 0..50 {
            // SAFETY: the lock lives as long as the process.
            unsafe {
                assert_eq!(
                    if writes {
                        libc::pthread_rwlock_wrlock(lock)
                    } else {
                        libc::pthread_rwlock_rdlock(lock)
                    },
                    0
                );
            }
            let first = NUMBERS[0].load(SeqCst);
            if writes {
                NUMBERS[0].store(first + 1, SeqCst);
            }
            match turn % 25 {
                0 => thread::sleep(MILLI / 10),
                1..5 => thread::yield_now(),
                _ => {}
            }
            if writes {
                NUMBERS[1].store(first + 1, SeqCst);
            }
            assert_eq!(NUMBERS[0].load(SeqCst), NUMBERS[1].load(SeqCst));
            // SAFETY: this thread has the lock.
            assert_eq!(unsafe { libc::pthread_rwlock_unlock(lock) }, 0);
        }
    }
    for os_threads in [0, 4] {
        run_all(40, os_threads, read_or_write);
        println!("written: {}", NUMBERS[1].load(SeqCst));
    }
    // SAFETY: as above.
    unsafe {
        println!("{}", libc::pthread_rwlock_wrlock(lock));
        println!("{}", libc::pthread_rwlock_wrlock(lock) == libc::EDEADLK);
        println!("{}", libc::pthread_rwlock_rdlock(lock) == libc::EDEADLK);
        let late = || {
            let lock = LOCK.0.get();
            let soon = || after(libc::CLOCK_REALTIME, 5);
            println!("{}", pthread_rwlock_timedrdlock(lock, &soon()) == libc::ETIMEDOUT);
            println!("{}", pthread_rwlock_timedwrlock(lock, &soon()) == libc::ETIMEDOUT);
            for waits in [pthread_rwlock_clockrdlock, pthread_rwlock_clockwrlock] {
                for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
                    println!("{}", waits(lock, clock, &after(clock, 5)) == libc::ETIMEDOUT);
                }
                let no_clock = libc::CLOCK_PROCESS_CPUTIME_ID;
                println!("{}", waits(lock, no_clock, &after(libc::CLOCK_MONOTONIC, 5)) == libc::EINVAL);
            }
        };
        thread::spawn(late).join().unwrap();
        println!("{}", libc::pthread_rwlock_unlock(lock));
    }
}

/// 100 readers wait for a writer at the same time. Then they have the lock at the same time.
pub fn wait() {
    static COMING: AtomicUsize = AtomicUsize::new(0);
    static ALL_READ: Barrier = Barrier::new(100);
    let lock = LOCK.0.get();
    let reads = || {
        COMING.fetch_add(1, SeqCst);
        // SAFETY: the lock lives as long as the process.
        unsafe {
            assert_eq!(libc::pthread_rwlock_rdlock(LOCK.0.get()), 0);
            ALL_READ.wait();
            assert_eq!(libc::pthread_rwlock_unlock(LOCK.0.get()), 0);
        }
    };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::pthread_rwlock_wrlock(lock) }, 0);
    let threads: Vec<_> = (0..100).map(|_| thread::spawn(reads)).collect();
    while COMING.load(SeqCst) < 100 {
        thread::sleep(MILLI);
    }
    thread::sleep(20 * MILLI);
    eprintln!("OS threads: {}", std::fs::read_dir("/proc/self/task").unwrap().count());
    // SAFETY: as above.
    assert_eq!(unsafe { libc::pthread_rwlock_unlock(lock) }, 0);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("all have read");
}

/// Two threads take the lock once in each round, at the same moment. One that is not woken would wait for
/// ever.
pub fn meet() {
    static COMES: AtomicUsize = AtomicUsize::new(0);
    let take = || {
        let lock = LOCK.0.get();
        for round in 0..5_000 {
            COMES.fetch_add(1, SeqCst);
            let mut looks = 0;
            while COMES.load(SeqCst) < 2 * (round + 1) {
                looks += 1;
                if looks % 1_000 == 0 {
                    thread::yield_now();
                }
            }
            // SAFETY: the lock lives as long as the process.
            unsafe {
                assert_eq!(libc::pthread_rwlock_wrlock(lock), 0);
                (0..round % 300).for_each(|_| std::hint::spin_loop());
                assert_eq!(libc::pthread_rwlock_unlock(lock), 0);
            }
        }
    };
    let threads = [thread::spawn(take), thread::spawn(take)];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("met");
}
