//! Semaphores.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use libc::{sem_t, timespec};
use threads::os;

use super::{MILLI, after, errno, report_os_threads, wait_for};

unsafe extern "C" {
    fn sem_clockwait(semaphore: *mut sem_t, clock: libc::clockid_t, time: *const timespec) -> c_int;
}

/// A semaphore, with zeroes before it is made.
pub struct Semaphore(UnsafeCell<MaybeUninit<sem_t>>);

// SAFETY: the functions of semaphores may be used on any thread.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    pub const fn new() -> Semaphore {
        Semaphore(UnsafeCell::new(MaybeUninit::zeroed()))
    }

    fn get(&self) -> *mut sem_t {
        self.0.get().cast()
    }

    pub fn init(&self, value: c_uint) {
        // SAFETY: the place is this semaphore's.
        assert_eq!(unsafe { libc::sem_init(self.get(), 0, value) }, 0);
    }

    pub fn wait(&self) {
        // SAFETY: the callers have made the semaphore. A signal ends the wait of an OS thread.
        while unsafe { libc::sem_wait(self.get()) } != 0 {
            assert_eq!(errno(), libc::EINTR);
        }
    }

    pub fn post(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::sem_post(self.get()) }, 0);
    }

    fn value(&self) -> c_int {
        let mut value = -1;
        // SAFETY: as above; the place is this function's.
        assert_eq!(unsafe { libc::sem_getvalue(self.get(), &mut value) }, 0);
        value
    }

    /// Returns how many threads wait, as glibc counts them. *Runs on: the only user.*
    fn waiters(&self) -> u32 {
        // SAFETY: glibc's semaphore begins with the value and the number of waiters.
        unsafe { self.get().cast::<u32>().add(1).read() }
    }
}

/// Three of many threads of both kinds have a place at the same time.
pub fn pool() {
    static PLACES: Semaphore = Semaphore::new();
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    static DONE: AtomicUsize = AtomicUsize::new(0);
    fn visit() {
        for turn in 0..100 {
            PLACES.wait();
            assert!(INSIDE.fetch_add(1, SeqCst) < 3);
            match turn % 50 {
                0 => thread::sleep(MILLI / 10),
                1..5 => thread::yield_now(),
                _ => {}
            }
            INSIDE.fetch_sub(1, SeqCst);
            DONE.fetch_add(1, SeqCst);
            PLACES.post();
        }
    }
    PLACES.init(3);
    for os_threads in [0, 4] {
        os::run_all(40, os_threads, visit);
        println!("visits: {}, places: {}, wait: {}", DONE.load(SeqCst), PLACES.value(), PLACES.waiters());
    }
}

/// A turn goes round. One wake-up that is lost, or that another thread gets, would end it.
pub fn turns() {
    const THREADS: usize = 6;
    static TURNS: [Semaphore; THREADS] = [const { Semaphore::new() }; THREADS];
    static NUMBERS: AtomicUsize = AtomicUsize::new(0);
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    fn take_turns() {
        let mine = NUMBERS.fetch_add(1, SeqCst) % THREADS;
        for _ in 0..500 {
            TURNS[mine].wait();
            TAKEN.fetch_add(1, SeqCst);
            TURNS[(mine + 1) % THREADS].post();
        }
    }
    for os_threads in [0, 3] {
        TURNS.iter().enumerate().for_each(|(at, turn)| turn.init((at == 0).into()));
        os::run_all(THREADS - os_threads, os_threads, take_turns);
        let left: Vec<_> = TURNS.iter().map(Semaphore::value).collect();
        println!("turns: {}, left: {left:?}", TAKEN.load(SeqCst));
    }
}

/// 200 threads wait for one semaphore at the same time, and each post lets one go.
pub fn waiting() {
    static COMING: AtomicUsize = AtomicUsize::new(0);
    static GONE: AtomicUsize = AtomicUsize::new(0);
    static GATE: Semaphore = Semaphore::new();
    GATE.init(0);
    let pass = || {
        COMING.fetch_add(1, SeqCst);
        GATE.wait();
        GONE.fetch_add(1, SeqCst);
    };
    let threads: Vec<_> = (0..200).map(|_| thread::spawn(pass)).collect();
    wait_for(&COMING, 200);
    thread::sleep(20 * MILLI);
    report_os_threads();
    for posted in 1..=200 {
        GATE.post();
        while GONE.load(SeqCst) < posted {
            thread::yield_now();
        }
        assert_eq!(GONE.load(SeqCst), posted);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("all have passed");
}

/// What the functions return.
pub fn results() {
    static NONE: Semaphore = Semaphore::new();
    NONE.init(0);
    let (realtime, monotonic) = (libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC);
    let error = |result: c_int| if result == 0 { 0 } else { errno() };
    let wrong = timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
    // SAFETY: the semaphores are made, and the times are temporary values.
    unsafe {
        let (none, most) = (NONE.get(), Semaphore::new());
        println!("{}", error(libc::sem_trywait(none)) == libc::EAGAIN);
        println!("{}", error(libc::sem_timedwait(none, &after(realtime, 5))) == libc::ETIMEDOUT);
        println!("{}", error(libc::sem_timedwait(none, &after(realtime, -5))) == libc::ETIMEDOUT);
        println!("{}", error(sem_clockwait(none, monotonic, &after(monotonic, 5))) == libc::ETIMEDOUT);
        println!("{}", error(libc::sem_timedwait(none, &wrong)) == libc::EINVAL);
        println!("{}", error(sem_clockwait(none, 77, &after(monotonic, 5))) == libc::EINVAL);
        most.init(c_int::MAX as c_uint);
        println!("{} {}", error(libc::sem_post(most.get())) == libc::EOVERFLOW, most.value() == c_int::MAX);
        NONE.post();
        NONE.post();
        println!("{} {}", NONE.value(), error(libc::sem_timedwait(none, &after(realtime, -5))));
        println!("{} {}", error(libc::sem_trywait(none)), NONE.value());
        let posts = thread::spawn(|| {
            thread::sleep(5 * MILLI);
            NONE.post();
        });
        println!("{}", error(sem_clockwait(none, realtime, &after(realtime, 60_000))));
        posts.join().unwrap();
        println!("{}", error(libc::sem_destroy(none)));
    }
}

/// The waiter frees the semaphore as soon as its wait has returned.
pub fn freed() {
    for turn in 0..2_000 {
        let semaphore = Box::leak(Box::new(Semaphore::new()));
        semaphore.init(0);
        let address = ptr::from_ref::<Semaphore>(semaphore).expose_provenance();
        let begin = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                // SAFETY: freed by the other thread, after this post alone.
                unsafe { (*ptr::with_exposed_provenance::<Semaphore>(address)).post() };
            });
            begin.wait();
            (0..turn % 200).for_each(|_| std::hint::spin_loop());
            semaphore.wait();
            // SAFETY: no other thread uses the semaphore any more.
            unsafe { semaphore.get().cast::<u8>().write_bytes(0xA5, size_of::<sem_t>()) };
        });
        // SAFETY: as above.
        let bytes = unsafe { semaphore.get().cast::<[u8; size_of::<sem_t>()]>().read() };
        assert!(bytes.iter().all(|&byte| byte == 0xA5), "used after the wait");
        // SAFETY: the box was leaked above.
        drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Semaphore>(address)) });
    }
    println!("freed");
}

/// What the handler of a signal posts.
static SIGNALLED: Semaphore = Semaphore::new();
static POSTED: AtomicUsize = AtomicUsize::new(0);

fn install(signal: c_int) {
    extern "C" fn posts(_: c_int) {
        POSTED.fetch_add(1, SeqCst);
        SIGNALLED.post();
    }
    // SAFETY: the function is a handler, which posts a semaphore.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = posts as extern "C" fn(c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
    }
}

/// A signal handler lets threads of both kinds go, one for each signal.
pub fn handler() {
    static GONE: AtomicUsize = AtomicUsize::new(0);
    fn pass() {
        SIGNALLED.wait();
        GONE.fetch_add(1, SeqCst);
    }
    SIGNALLED.init(0);
    install(libc::SIGUSR1);
    for os_threads in [0, 4] {
        let threads: Vec<_> = (0..50).map(|_| thread::spawn(pass)).collect();
        let of_os: Vec<_> = (0..os_threads).map(|_| os::spawn(pass)).collect();
        let all = GONE.load(SeqCst) + 50 + os_threads;
        while GONE.load(SeqCst) < all {
            let before = GONE.load(SeqCst);
            // SAFETY: the signal has a handler.
            unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
            while GONE.load(SeqCst) == before {
                thread::sleep(MILLI / 10);
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        of_os.into_iter().for_each(os::join);
        println!("gone: {}, posted: {}, left: {}", GONE.load(SeqCst), POSTED.load(SeqCst), SIGNALLED.value());
    }
}

/// A signal comes to each OS thread again and again, while threads park and wake each other: a handler that
/// took a lock of what it interrupts would wait for ever. The OS threads of the runtime do not block this
/// signal.
pub fn storm() {
    static OVER: AtomicBool = AtomicBool::new(false);
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    static PAIRS: [[Semaphore; 2]; 8] = [const { [Semaphore::new(), Semaphore::new()] }; 8];
    SIGNALLED.init(0);
    install(libc::SIGVTALRM);
    PAIRS.iter().flatten().for_each(|semaphore| semaphore.init(0));
    let mut threads = Vec::new();
    for [one, other] in &PAIRS {
        for (waits, posts) in [(one, other), (other, one)] {
            threads.push(thread::spawn(move || {
                while !OVER.load(SeqCst) {
                    posts.post();
                    waits.wait();
                }
                posts.post();
            }));
        }
    }
    let takes = thread::spawn(|| {
        while TAKEN.load(SeqCst) < 20_000 {
            SIGNALLED.wait();
            TAKEN.fetch_add(1, SeqCst);
        }
    });
    let signals = os::spawn(|| {
        while !OVER.load(SeqCst) {
            signal_each_os_thread(libc::SIGVTALRM);
        }
    });
    takes.join().unwrap();
    OVER.store(true, SeqCst);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    os::join(signals);
    println!("taken: {}", TAKEN.load(SeqCst));
}

/// Sends the signal to each OS thread of this process but the caller.
fn signal_each_os_thread(signal: c_int) {
    // SAFETY: the calls have no pointers.
    let (process, own) = unsafe { (libc::getpid(), libc::gettid()) };
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        let thread: c_int = thread.unwrap().file_name().to_str().unwrap().parse().unwrap();
        if thread != own {
            // SAFETY: as above. A thread that has ended gets none.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
        }
    }
}

/// A waiter and a poster come at the same moment, in each round. A waiter that is not woken would wait for
/// ever.
pub fn meet() {
    static GATE: Semaphore = Semaphore::new();
    static COMES: AtomicUsize = AtomicUsize::new(0);
    GATE.init(0);
    fn meet(act: fn(&Semaphore)) {
        for round in 0..20_000 {
            COMES.fetch_add(1, SeqCst);
            let mut looks = 0;
            while COMES.load(SeqCst) < 2 * (round + 1) {
                looks += 1;
                if looks % 1_000 == 0 {
                    thread::yield_now();
                }
            }
            (0..round % 100).for_each(|_| std::hint::spin_loop());
            act(&GATE);
        }
    }
    let threads = [thread::spawn(|| meet(Semaphore::wait)), thread::spawn(|| meet(Semaphore::post))];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("met");
}

/// Waits of which the time is up at about the moment of a post: no post is lost.
pub fn late() {
    static GATE: Semaphore = Semaphore::new();
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    const TURNS: usize = 300;
    GATE.init(0);
    let takes = || {
        while TAKEN.load(SeqCst) < TURNS {
            // SAFETY: the semaphore is made.
            if unsafe { libc::sem_timedwait(GATE.get(), &after(libc::CLOCK_REALTIME, 1)) } == 0 {
                TAKEN.fetch_add(1, SeqCst);
            }
        }
    };
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(takes)).collect();
    let also = os::spawn(takes);
    for posted in 1..=TURNS {
        thread::sleep(MILLI);
        GATE.post();
        while TAKEN.load(SeqCst) < posted {
            thread::yield_now();
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    os::join(also);
    println!("taken: {}, left: {}, wait: {}", TAKEN.load(SeqCst), GATE.value(), GATE.waiters());
}

/// A forked child has the thread that forks alone: its wait is the kernel's, also while others wait for the
/// semaphore in the parent.
pub fn forks() {
    static GATE: Semaphore = Semaphore::new();
    static COMING: AtomicUsize = AtomicUsize::new(0);
    GATE.init(0);
    let waits = || {
        COMING.fetch_add(1, SeqCst);
        GATE.wait();
    };
    let threads: Vec<_> = (0..5).map(|_| thread::spawn(waits)).collect();
    wait_for(&COMING, 5);
    thread::sleep(5 * MILLI);
    let mut status = -1;
    // SAFETY: the child calls what may be called there, and the places are this function's.
    unsafe {
        match libc::fork() {
            0 => {
                let soon = after(libc::CLOCK_REALTIME, 5);
                let late = libc::sem_timedwait(GATE.get(), &soon) == -1 && errno() == libc::ETIMEDOUT;
                GATE.post();
                GATE.wait();
                libc::_exit(if late { 7 } else { 8 });
            }
            child => assert_eq!(libc::waitpid(child, &mut status, 0), child),
        }
    }
    println!("child: {}", libc::WEXITSTATUS(status));
    (0..5).for_each(|_| GATE.post());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
