//! Threads and locks of C11.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use libc::{pthread_cond_t, pthread_mutex_t, pthread_once_t, pthread_t, timespec};

use super::{MILLI, after, report_os_threads, wait_for};

type Start = extern "C-unwind" fn(*mut c_void) -> c_int;

unsafe extern "C-unwind" {
    fn thrd_create(thread: *mut pthread_t, start: Start, argument: *mut c_void) -> c_int;
    fn thrd_join(thread: pthread_t, result: *mut c_int) -> c_int;
    fn thrd_detach(thread: pthread_t) -> c_int;
    fn thrd_exit(result: c_int) -> !;
    fn thrd_current() -> pthread_t;
    fn thrd_equal(one: pthread_t, other: pthread_t) -> c_int;
    fn thrd_sleep(time: *const timespec, left: *mut timespec) -> c_int;
    fn thrd_yield();
    fn mtx_init(mutex: *mut pthread_mutex_t, kind: c_int) -> c_int;
    fn mtx_lock(mutex: *mut pthread_mutex_t) -> c_int;
    fn mtx_timedlock(mutex: *mut pthread_mutex_t, time: *const timespec) -> c_int;
    fn mtx_trylock(mutex: *mut pthread_mutex_t) -> c_int;
    fn mtx_unlock(mutex: *mut pthread_mutex_t) -> c_int;
    fn cnd_init(condition: *mut pthread_cond_t) -> c_int;
    fn cnd_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    fn cnd_timedwait(c: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, time: *const timespec) -> c_int;
    fn cnd_signal(condition: *mut pthread_cond_t) -> c_int;
    fn cnd_broadcast(condition: *mut pthread_cond_t) -> c_int;
    fn cnd_destroy(condition: *mut pthread_cond_t);
    fn call_once(flag: *mut pthread_once_t, first: extern "C-unwind" fn());
    fn tss_create(key: *mut c_uint, destructor: Option<extern "C" fn(*mut c_void)>) -> c_int;
    fn tss_set(key: c_uint, value: *mut c_void) -> c_int;
    fn tss_get(key: c_uint) -> *mut c_void;
}

const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const TIMED_OUT: c_int = 4;
/// The kinds of mutexes.
const TIMED: c_int = 2;

fn create(start: Start, argument: usize) -> pthread_t {
    let mut thread = 0;
    // SAFETY: each function here takes an argument that is a number.
    assert_eq!(unsafe { thrd_create(&mut thread, start, ptr::without_provenance_mut(argument)) }, SUCCESS);
    thread
}

fn join(thread: pthread_t) -> c_int {
    let mut result = 0;
    // SAFETY: each thread is joined once.
    assert_eq!(unsafe { thrd_join(thread, &mut result) }, SUCCESS);
    result
}

/// Threads and what belongs to each.
pub fn threads() {
    static KEY: AtomicUsize = AtomicUsize::new(0);
    static DESTROYED: AtomicUsize = AtomicUsize::new(0);
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    static FLAG: AtomicUsize = AtomicUsize::new(0);
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn destroys(value: *mut c_void) {
        DESTROYED.fetch_add(value.addr(), SeqCst);
    }
    extern "C-unwind" fn first() {
        CALLS.fetch_add(1, SeqCst);
    }
    extern "C-unwind" fn works(argument: *mut c_void) -> c_int {
        let key = KEY.load(SeqCst) as c_uint;
        // SAFETY: the key and the flag exist, and the destructor takes a number.
        unsafe {
            assert_eq!(tss_set(key, argument), SUCCESS);
            call_once(FLAG.as_ptr().cast(), first);
            thrd_yield();
            assert_eq!(thrd_sleep(&timespec { tv_sec: 0, tv_nsec: 100_000 }, ptr::null_mut()), 0);
            assert_eq!(tss_get(key), argument);
            assert!(thrd_equal(thrd_current(), libc::pthread_self()) != 0);
        }
        -(argument.addr() as c_int)
    }
    extern "C-unwind" fn exits(argument: *mut c_void) -> c_int {
        works(argument);
        // SAFETY: no frame below has a destructor.
        unsafe { thrd_exit(argument.addr() as c_int + 100) }
    }
    extern "C-unwind" fn counts(_: *mut c_void) -> c_int {
        ENDED.fetch_add(1, SeqCst);
        0
    }
    let mut key = 0;
    // SAFETY: the place is this function's.
    assert_eq!(unsafe { tss_create(&mut key, Some(destroys)) }, SUCCESS);
    KEY.store(key as usize, SeqCst);
    for start in [works as Start, exits] {
        let threads: Vec<_> = (1..=50).map(|number| create(start, number)).collect();
        let sum: c_int = threads.into_iter().map(join).sum();
        println!("sum: {sum}, destroyed: {}", DESTROYED.swap(0, SeqCst));
    }
    println!("calls: {}", CALLS.load(SeqCst));
    // SAFETY: the threads live until they are joined or detached.
    unsafe {
        println!("equal: {}", thrd_equal(thrd_current(), thrd_current()) != 0);
        let detached = create(counts, 0);
        println!("detached: {}", thrd_detach(detached));
        let joined = create(counts, 0);
        println!("joined: {}", thrd_join(joined, ptr::null_mut()));
    }
    wait_for(&ENDED, 2);
}

struct Shared {
    mutex: UnsafeCell<pthread_mutex_t>,
    condition: UnsafeCell<pthread_cond_t>,
    /// Under the mutex it is changed by a load and a store.
    value: AtomicUsize,
}

// SAFETY: the functions of C11 may use both on any thread.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
    condition: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
    value: AtomicUsize::new(0),
};

impl Shared {
    fn init(&self) {
        // SAFETY: both are static.
        unsafe {
            assert_eq!(mtx_init(self.mutex.get(), TIMED), SUCCESS);
            assert_eq!(cnd_init(self.condition.get()), SUCCESS);
        }
    }

    fn lock(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { mtx_lock(self.mutex.get()) }, SUCCESS);
    }

    fn unlock(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { mtx_unlock(self.mutex.get()) }, SUCCESS);
    }

    fn wait(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { cnd_wait(self.condition.get(), self.mutex.get()) }, SUCCESS);
    }
}

/// A queue, and what the functions return.
pub fn locks() {
    const ITEMS: usize = 300;
    extern "C-unwind" fn makes(_: *mut c_void) -> c_int {
        for _ in 0..ITEMS {
            SHARED.lock();
            SHARED.value.store(SHARED.value.load(SeqCst) + 1, SeqCst);
            SHARED.unlock();
            // SAFETY: the condition variable is static.
            assert_eq!(unsafe { cnd_signal(SHARED.condition.get()) }, SUCCESS);
        }
        0
    }
    extern "C-unwind" fn takes(_: *mut c_void) -> c_int {
        for _ in 0..ITEMS {
            SHARED.lock();
            while SHARED.value.load(SeqCst) == 0 {
                SHARED.wait();
            }
            SHARED.value.store(SHARED.value.load(SeqCst) - 1, SeqCst);
            SHARED.unlock();
        }
        ITEMS as c_int
    }
    extern "C-unwind" fn tries(_: *mut c_void) -> c_int {
        let (mutex, soon) = (SHARED.mutex.get(), after(libc::CLOCK_REALTIME, 5));
        let wrong = timespec { tv_sec: 0, tv_nsec: -1 };
        // SAFETY: the mutex is static.
        unsafe {
            println!("{}", mtx_trylock(mutex) == BUSY);
            println!("{}", mtx_timedlock(mutex, &soon) == TIMED_OUT);
            println!("{}", mtx_timedlock(mutex, &wrong) == ERROR);
        }
        0
    }
    SHARED.init();
    let threads: Vec<_> = (0..20).map(|at| create([makes as Start, takes][at % 2], 0)).collect();
    println!("taken: {}", threads.into_iter().map(join).sum::<c_int>());
    SHARED.lock();
    let soon = after(libc::CLOCK_REALTIME, 5);
    // SAFETY: both are static.
    println!("{}", unsafe { cnd_timedwait(SHARED.condition.get(), SHARED.mutex.get(), &soon) } == TIMED_OUT);
    join(create(tries, 0));
    SHARED.unlock();
    // SAFETY: no thread waits.
    unsafe { cnd_destroy(SHARED.condition.get()) };
}

/// 200 threads wait, half of them for the mutex.
pub fn waiting() {
    static COMING: AtomicUsize = AtomicUsize::new(0);
    static GO: AtomicBool = AtomicBool::new(false);
    extern "C-unwind" fn waits(_: *mut c_void) -> c_int {
        SHARED.lock();
        COMING.fetch_add(1, SeqCst);
        while !GO.load(SeqCst) {
            SHARED.wait();
        }
        SHARED.unlock();
        1
    }
    extern "C-unwind" fn contends(_: *mut c_void) -> c_int {
        COMING.fetch_add(1, SeqCst);
        SHARED.lock();
        SHARED.unlock();
        1
    }
    SHARED.init();
    let mut threads: Vec<_> = (0..100).map(|_| create(waits, 0)).collect();
    wait_for(&COMING, 100);
    SHARED.lock();
    threads.extend((0..100).map(|_| create(contends, 0)));
    wait_for(&COMING, 200);
    std::thread::sleep(20 * MILLI);
    report_os_threads();
    GO.store(true, SeqCst);
    SHARED.unlock();
    // SAFETY: the condition variable is static.
    assert_eq!(unsafe { cnd_broadcast(SHARED.condition.get()) }, SUCCESS);
    println!("ended: {}", threads.into_iter().map(join).sum::<c_int>());
}
