//! Mutexes and condition variables of pthread, which Rust uses as C does, by the name in the first argument.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use libc::{pthread_cond_t, pthread_mutex_t, timespec};
use threads::os::run_all;

mod rwlock;
mod shared;

runtime::interpose!(threads);

const MILLI: Duration = Duration::from_millis(1);

unsafe extern "C" {
    fn pthread_mutex_clocklock(m: *mut pthread_mutex_t, clock: libc::clockid_t, t: *const timespec) -> c_int;
    fn pthread_cond_clockwait(
        condition: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        clock: libc::clockid_t,
        time: *const timespec,
    ) -> c_int;
}

/// A mutex, a condition variable and what they protect, all in static memory.
struct Shared {
    mutex: UnsafeCell<pthread_mutex_t>,
    condition: UnsafeCell<pthread_cond_t>,
    /// Under the mutex it is changed by a load and a store.
    value: AtomicUsize,
}

// SAFETY: pthread's functions may use the mutex and the condition variable on any thread.
unsafe impl Sync for Shared {}

impl Shared {
    const fn new() -> Shared {
        Shared {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            condition: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            value: AtomicUsize::new(0),
        }
    }

    /// Returns the value, which the caller uses until `unlock`.
    fn lock(&self) -> &AtomicUsize {
        // SAFETY: the mutex lives as long as `self`.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.mutex.get()) }, 0);
        &self.value
    }

    fn unlock(&self) {
        // SAFETY: the mutex lives as long as `self`.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.mutex.get()) }, 0);
    }

    fn wait(&self) {
        // SAFETY: both live as long as `self`.
        assert_eq!(unsafe { libc::pthread_cond_wait(self.condition.get(), self.mutex.get()) }, 0);
    }

    fn signal(&self) {
        // SAFETY: the condition variable lives as long as `self`.
        assert_eq!(unsafe { libc::pthread_cond_signal(self.condition.get()) }, 0);
    }

    fn broadcast(&self) {
        // SAFETY: the condition variable lives as long as `self`.
        assert_eq!(unsafe { libc::pthread_cond_broadcast(self.condition.get()) }, 0);
    }
}

/// Many threads of both kinds contend for one mutex, also while its owner sleeps.
fn mutex() {
    static SHARED: Shared = Shared::new();
    fn count() {
        for turn in 0..100 {
            let value = SHARED.lock();
            let before = value.load(SeqCst);
            match turn % 50 {
                0 => thread::sleep(MILLI / 10),
                1..5 => thread::yield_now(),
                _ => {}
            }
            value.store(before + 1, SeqCst);
            SHARED.unlock();
        }
    }
    for os_threads in [0, 3] {
        run_all(40, os_threads, count);
        println!("count: {}", SHARED.lock().load(SeqCst));
        SHARED.unlock();
    }
}

/// Threads take turns, each woken by the one before.
fn turns() {
    static SHARED: Shared = Shared::new();
    static NUMBERS: AtomicUsize = AtomicUsize::new(0);
    const THREADS: usize = 8;
    fn take_turns() {
        let mine = NUMBERS.fetch_add(1, SeqCst) % THREADS;
        for _ in 0..200 {
            let value = SHARED.lock();
            while value.load(SeqCst) % THREADS != mine {
                SHARED.wait();
            }
            value.store(value.load(SeqCst) + 1, SeqCst);
            SHARED.unlock();
            SHARED.broadcast();
        }
    }
    for os_threads in [0, 4] {
        run_all(THREADS - os_threads, os_threads, take_turns);
        println!("turns: {}", SHARED.lock().load(SeqCst));
        SHARED.unlock();
    }
}

/// A queue between makers and takers, with one signal for each item.
fn queue() {
    static SHARED: Shared = Shared::new();
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    static MAKES: AtomicUsize = AtomicUsize::new(0);
    fn make_or_take() {
        let makes = MAKES.fetch_add(1, SeqCst).is_multiple_of(2);
        for _ in 0..300 {
            let value = SHARED.lock();
            if makes {
                value.store(value.load(SeqCst) + 1, SeqCst);
            } else {
                while value.load(SeqCst) == 0 {
                    SHARED.wait();
                }
                value.store(value.load(SeqCst) - 1, SeqCst);
                TAKEN.fetch_add(1, SeqCst);
            }
            SHARED.unlock();
            if makes {
                SHARED.signal();
            }
        }
    }
    for os_threads in [0, 6] {
        run_all(20 - os_threads, os_threads, make_or_take);
        println!("taken: {}", TAKEN.load(SeqCst));
    }
}

/// 300 threads wait at the same time, a third of them for the mutex.
fn waiting() {
    static SHARED: Shared = Shared::new();
    static COMING: AtomicUsize = AtomicUsize::new(0);
    static GO: AtomicBool = AtomicBool::new(false);
    fn waits() {
        SHARED.lock();
        COMING.fetch_add(1, SeqCst);
        while !GO.load(SeqCst) {
            SHARED.wait();
        }
        SHARED.unlock();
    }
    fn contends() {
        COMING.fetch_add(1, SeqCst);
        SHARED.lock();
        SHARED.unlock();
    }
    let threads: Vec<_> = (0..200).map(|_| thread::spawn(waits)).collect();
    while COMING.load(SeqCst) < 200 {
        thread::sleep(MILLI);
    }
    SHARED.lock();
    let more: Vec<_> = (0..100).map(|_| thread::spawn(contends)).collect();
    while COMING.load(SeqCst) < 300 {
        thread::sleep(MILLI);
    }
    thread::sleep(20 * MILLI);
    eprintln!("OS threads: {}", std::fs::read_dir("/proc/self/task").unwrap().count());
    GO.store(true, SeqCst);
    SHARED.unlock();
    SHARED.broadcast();
    threads.into_iter().chain(more).for_each(|thread| thread.join().unwrap());
    println!("all have ended");
}

fn after(clock: libc::clockid_t, ms: i64) -> timespec {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `now`.
    unsafe { libc::clock_gettime(clock, &mut now) };
    let ns = now.tv_nsec + ms * 1_000_000;
    timespec { tv_sec: now.tv_sec + ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) }
}

/// Waits with a time, on each clock.
fn times() {
    static SHARED: Shared = Shared::new();
    static HAS_TRIED: AtomicBool = AtomicBool::new(false);
    let (mutex, condition) = (SHARED.mutex.get(), SHARED.condition.get());
    let (realtime, monotonic) = (libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC);
    let late = |result: c_int| result == libc::ETIMEDOUT;
    SHARED.lock();
    // SAFETY: both live as long as the process, and the times are temporary values.
    unsafe {
        println!("{}", late(libc::pthread_cond_timedwait(condition, mutex, &after(realtime, 5))));
        println!("{}", late(pthread_cond_clockwait(condition, mutex, monotonic, &after(monotonic, 5))));
        println!("{}", late(libc::pthread_cond_timedwait(condition, mutex, &after(realtime, -5))));
        let wrong = timespec { tv_sec: 0, tv_nsec: -1 };
        println!("{}", libc::pthread_cond_timedwait(condition, mutex, &wrong) == libc::EINVAL);
        // No clock by which glibc waits.
        let wrong = libc::CLOCK_PROCESS_CPUTIME_ID;
        let waited = pthread_cond_clockwait(condition, mutex, wrong, &after(monotonic, 5));
        println!("{}", waited == libc::EINVAL);
    }
    let waits = thread::spawn(move || {
        let (mutex, late) = (SHARED.mutex.get(), |result: c_int| result == libc::ETIMEDOUT);
        // SAFETY: as above.
        unsafe {
            println!("{}", late(libc::pthread_mutex_timedlock(mutex, &after(realtime, 5))));
            println!("{}", late(pthread_mutex_clocklock(mutex, monotonic, &after(monotonic, 5))));
            let wrong = libc::CLOCK_PROCESS_CPUTIME_ID;
            let waited = pthread_mutex_clocklock(mutex, wrong, &after(monotonic, 5));
            println!("{}", waited == libc::EINVAL);
            println!("{}", libc::pthread_mutex_trylock(mutex) == libc::EBUSY);
            HAS_TRIED.store(true, SeqCst);
            println!("{}", libc::pthread_mutex_timedlock(mutex, &after(realtime, 60_000)));
            libc::pthread_mutex_unlock(mutex);
        }
    });
    while !HAS_TRIED.load(SeqCst) {
        thread::sleep(MILLI);
    }
    thread::sleep(5 * MILLI);
    SHARED.unlock();
    waits.join().unwrap();
    of_monotonic_clock();
}

/// A condition variable with the clock of its attributes.
fn of_monotonic_clock() {
    let (mut attr, mut condition) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    // SAFETY: the first calls make what the others use.
    unsafe {
        libc::pthread_condattr_init(attr.as_mut_ptr());
        libc::pthread_condattr_setclock(attr.as_mut_ptr(), libc::CLOCK_MONOTONIC);
        libc::pthread_cond_init(condition.as_mut_ptr(), attr.as_ptr());
        libc::pthread_mutex_lock(&mut mutex);
        let until = after(libc::CLOCK_MONOTONIC, 5);
        let waited = libc::pthread_cond_timedwait(condition.as_mut_ptr(), &mut mutex, &until);
        println!("{} {}", waited == libc::ETIMEDOUT, libc::pthread_cond_destroy(condition.as_mut_ptr()));
    }
}

/// Returns a mutex of a kind.
fn of_kind(kind: c_int) -> pthread_mutex_t {
    let (mut attr, mut mutex) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the first call makes the attributes, the last one the mutex.
    unsafe {
        libc::pthread_mutexattr_init(attr.as_mut_ptr());
        libc::pthread_mutexattr_settype(attr.as_mut_ptr(), kind);
        libc::pthread_mutex_init(mutex.as_mut_ptr(), attr.as_ptr());
        mutex.assume_init()
    }
}

/// Recursive and error-checking mutexes know their thread.
fn kinds() {
    static RECURSIVE: AtomicUsize = AtomicUsize::new(0);
    static CHECKS: AtomicUsize = AtomicUsize::new(0);
    static HAS_TRIED: AtomicBool = AtomicBool::new(false);
    for (kind, place) in
        [(libc::PTHREAD_MUTEX_RECURSIVE, &RECURSIVE), (libc::PTHREAD_MUTEX_ERRORCHECK, &CHECKS)]
    {
        place.store(Box::into_raw(Box::new(of_kind(kind))).expose_provenance(), SeqCst);
    }
    let mutex = |place: &AtomicUsize| ptr::with_exposed_provenance_mut::<pthread_mutex_t>(place.load(SeqCst));
    // SAFETY: the mutexes live as long as the process.
    unsafe {
        let (recursive, checks) = (mutex(&RECURSIVE), mutex(&CHECKS));
        let lock = |mutex| libc::pthread_mutex_lock(mutex);
        println!("{} {}", lock(recursive), lock(recursive));
        println!("{} {}", lock(checks), lock(checks) == libc::EDEADLK);
        let others = thread::spawn(move || {
            let (recursive, checks) = (mutex(&RECURSIVE), mutex(&CHECKS));
            println!("{}", libc::pthread_mutex_unlock(recursive) == libc::EPERM);
            println!("{}", libc::pthread_mutex_unlock(checks) == libc::EPERM);
            HAS_TRIED.store(true, SeqCst);
            println!("{} {}", libc::pthread_mutex_lock(recursive), libc::pthread_mutex_lock(checks));
            println!("{} {}", libc::pthread_mutex_unlock(recursive), libc::pthread_mutex_unlock(checks));
        });
        while !HAS_TRIED.load(SeqCst) {
            thread::sleep(MILLI);
        }
        println!("{}", libc::pthread_mutex_unlock(recursive));
        thread::sleep(5 * MILLI);
        println!("{} {}", libc::pthread_mutex_unlock(recursive), libc::pthread_mutex_unlock(checks));
        others.join().unwrap();
    }
}

/// The signaller destroys the condition variable and frees it, as soon as the waiters are woken.
fn destroy() {
    for _ in 0..200 {
        let shared = Box::into_raw(Box::new(Shared::new())).expose_provenance();
        let of = move || ptr::with_exposed_provenance_mut::<Shared>(shared);
        let ended: Vec<_> = (0..4)
            .map(|_| {
                thread::spawn(move || {
                    // SAFETY: the mutex is freed after this thread has unlocked it.
                    let shared = unsafe { &*of() };
                    shared.lock().fetch_add(1, SeqCst);
                    while shared.value.load(SeqCst) < 10 {
                        shared.wait();
                    }
                    shared.unlock();
                })
            })
            .collect();
        // SAFETY: freed below only.
        let shared = unsafe { &*of() };
        while shared.lock().load(SeqCst) < 4 {
            shared.unlock();
            thread::yield_now();
        }
        shared.value.store(10, SeqCst);
        shared.broadcast();
        shared.unlock();
        // SAFETY: no thread waits any more, but those that have been woken.
        unsafe {
            assert_eq!(libc::pthread_cond_destroy(shared.condition.get()), 0);
            shared.condition.get().cast::<u8>().write_bytes(0, size_of::<pthread_cond_t>());
        }
        ended.into_iter().for_each(|thread| thread.join().unwrap());
        // SAFETY: all threads have ended.
        let bytes = unsafe { shared.condition.get().cast::<[u8; size_of::<pthread_cond_t>()]>().read() };
        assert!(bytes.iter().all(|&byte| byte == 0), "used after it was destroyed");
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(of()) });
    }
    println!("destroyed");
}

fn main() {
    match std::env::args().nth(1).expect("the name of a program").as_str() {
        "mutex" => mutex(),
        "turns" => turns(),
        "queue" => queue(),
        "waiting" => waiting(),
        "times" => times(),
        "rwlock" => rwlock::share(),
        "meet" => rwlock::meet(),
        "readers" => rwlock::wait(),
        "kinds" => kinds(),
        "destroy" => destroy(),
        "shared" => shared::take_turns(),
        "robust" => shared::owner_ends(),
        program => panic!("no program {program:?}"),
    }
}
