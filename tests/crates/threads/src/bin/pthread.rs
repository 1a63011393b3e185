//! Calls of pthread's functions, as C makes them, by the name in the first argument. What is printed is the
//! same for green threads and for OS threads, but for the programs `green` and `constructors`.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::unix::thread::JoinHandleExt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use libc::pthread_t;

runtime::interpose!(threads);

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

unsafe extern "C" {
    fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int;
    fn pthread_timedjoin_np(t: pthread_t, result: *mut *mut c_void, time: *const libc::timespec) -> c_int;
    fn pthread_clockjoin_np(
        thread: pthread_t,
        result: *mut *mut c_void,
        clock: libc::clockid_t,
        time: *const libc::timespec,
    ) -> c_int;
    safe fn pthread_equal(one: pthread_t, other: pthread_t) -> c_int;
    fn pthread_getcpuclockid(thread: pthread_t, clock: *mut libc::clockid_t) -> c_int;
    fn pthread_setschedprio(thread: pthread_t, priority: c_int) -> c_int;
    fn pthread_getschedparam(t: pthread_t, policy: *mut c_int, param: *mut libc::sched_param) -> c_int;
    fn pthread_sigqueue(thread: pthread_t, signal: c_int, value: *mut c_void) -> c_int;
}

fn own() -> pthread_t {
    // SAFETY: the call has no requirements.
    unsafe { libc::pthread_self() }
}

fn create(start: Start, argument: usize) -> pthread_t {
    create_with(ptr::null(), start, argument)
}

fn create_with(attr: *const libc::pthread_attr_t, start: Start, argument: usize) -> pthread_t {
    let mut thread = 0;
    // SAFETY: each function here takes an argument that is a number.
    let error =
        unsafe { libc::pthread_create(&mut thread, attr, start, ptr::without_provenance_mut(argument)) };
    assert_eq!(error, 0, "pthread_create");
    thread
}

/// Returns the result, or the error.
fn join(thread: pthread_t) -> Result<usize, c_int> {
    let mut result = ptr::null_mut();
    // SAFETY: the callers join a thread that lives, or was not joined.
    let error = unsafe { libc::pthread_join(thread, &mut result) };
    if error == 0 { Ok(result.addr()) } else { Err(error) }
}

/// Returns the time of the clock in `ms`.
fn after(clock: libc::clockid_t, ms: i64) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `now`.
    unsafe { libc::clock_gettime(clock, &mut now) };
    let ns = now.tv_nsec + ms * 1_000_000;
    libc::timespec {
        tv_sec: now.tv_sec + ns.div_euclid(1_000_000_000),
        tv_nsec: ns.rem_euclid(1_000_000_000),
    }
}

static GO: AtomicBool = AtomicBool::new(false);

extern "C" fn waits(argument: *mut c_void) -> *mut c_void {
    while !GO.load(SeqCst) {
        std::thread::sleep(Duration::from_micros(100));
    }
    argument
}

extern "C" fn returns(argument: *mut c_void) -> *mut c_void {
    argument
}

fn joins() {
    println!("join: {:?}", join(create(returns, 7)));
    GO.store(false, SeqCst);
    let thread = create(waits, 8);
    let (realtime, monotonic) = (after(libc::CLOCK_REALTIME, 5), after(libc::CLOCK_MONOTONIC, 5));
    let mut result = ptr::null_mut();
    // SAFETY: the thread lives, and the places are this function's.
    unsafe {
        *libc::__errno_location() = 77;
        println!("tryjoin: {}", pthread_tryjoin_np(thread, &mut result) == libc::EBUSY);
        println!("timedjoin: {}", pthread_timedjoin_np(thread, &mut result, &realtime) == libc::ETIMEDOUT);
        let late = pthread_clockjoin_np(thread, &mut result, libc::CLOCK_MONOTONIC, &monotonic);
        println!("clockjoin: {}", late == libc::ETIMEDOUT);
        let wrong = pthread_clockjoin_np(thread, &mut result, libc::CLOCK_PROCESS_CPUTIME_ID, &monotonic);
        println!("by another clock: {}", wrong == libc::EINVAL);
        println!("alive: {}", libc::pthread_kill(thread, 0));
        println!("errno: {}", *libc::__errno_location());
        GO.store(true, SeqCst);
        println!("joined: {}", pthread_timedjoin_np(thread, &mut result, ptr::null()));
    }
    println!("result: {}", result.addr());
    let thread = create(returns, 9);
    // SAFETY: as above.
    while unsafe { pthread_tryjoin_np(thread, &mut result) } == libc::EBUSY {
        std::thread::yield_now();
    }
    println!("result: {}", result.addr());
    extern "C" fn joins_itself(_: *mut c_void) -> *mut c_void {
        ptr::without_provenance_mut(join(own()).unwrap_err() as usize)
    }
    println!("itself: {}", join(create(joins_itself, 0)) == Ok(libc::EDEADLK as usize));
}

/// A plain OS thread joins a thread.
fn joins_from_an_os_thread() {
    extern "C" fn joins(thread: *mut c_void) -> *mut c_void {
        ptr::without_provenance_mut(join(thread.addr() as pthread_t).unwrap())
    }
    for waiting in [false, true] {
        GO.store(!waiting, SeqCst);
        let thread = create(waits, 5);
        let os_thread = threads::os::create(joins, ptr::without_provenance_mut(thread as usize));
        std::thread::sleep(Duration::from_millis(5));
        GO.store(true, SeqCst);
        println!("from an OS thread: {}", join(os_thread).unwrap());
    }
}

fn detaches() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn counts(_: *mut c_void) -> *mut c_void {
        waits(ptr::null_mut());
        ENDED.fetch_add(1, SeqCst);
        ptr::null_mut()
    }
    GO.store(false, SeqCst);
    let thread = create(counts, 0);
    // SAFETY: the thread lives.
    let detach = || unsafe { libc::pthread_detach(thread) };
    println!("detach: {} {}", detach(), detach() == libc::EINVAL);
    println!("join: {}", join(thread) == Err(libc::EINVAL));
    let mut attr = MaybeUninit::uninit();
    // SAFETY: the first call makes the attributes.
    unsafe {
        libc::pthread_attr_init(attr.as_mut_ptr());
        libc::pthread_attr_setdetachstate(attr.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
    }
    let thread = create_with(attr.as_ptr(), counts, 0);
    println!("join: {}", join(thread) == Err(libc::EINVAL));
    GO.store(true, SeqCst);
    while ENDED.load(SeqCst) < 2 {
        std::thread::yield_now();
    }
    extern "C" fn detaches_itself(_: *mut c_void) -> *mut c_void {
        // SAFETY: this thread lives.
        assert_eq!(unsafe { libc::pthread_detach(own()) }, 0);
        ENDED.fetch_add(1, SeqCst);
        ptr::null_mut()
    }
    (0..100).for_each(|_| _ = create(detaches_itself, 0));
    while ENDED.load(SeqCst) < 102 {
        std::thread::yield_now();
    }
}

/// A key's destructor has run when the join returns, also after `pthread_exit`.
fn ends() {
    static DESTROYED: AtomicUsize = AtomicUsize::new(0);
    static KEY: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn destroys(value: *mut c_void) {
        std::thread::sleep(Duration::from_millis(1));
        DESTROYED.fetch_add(value.addr(), SeqCst);
    }
    extern "C-unwind" fn exits(argument: *mut c_void) -> *mut c_void {
        // SAFETY: the key exists, and its destructor takes a number.
        unsafe { libc::pthread_setspecific(KEY.load(SeqCst) as libc::pthread_key_t, argument) };
        deeper(argument)
    }
    #[inline(never)]
    extern "C-unwind" fn deeper(argument: *mut c_void) -> *mut c_void {
        unsafe extern "C-unwind" {
            fn pthread_exit(value: *mut c_void) -> !;
        }
        // SAFETY: no frame between here and the thread's first function has a destructor.
        unsafe { pthread_exit(argument) }
    }
    let mut key = 0;
    // SAFETY: the function is a destructor. `exits` differs from what the type says only in that it unwinds.
    let start = unsafe {
        libc::pthread_key_create(&mut key, Some(destroys));
        std::mem::transmute::<extern "C-unwind" fn(*mut c_void) -> *mut c_void, Start>(exits)
    };
    KEY.store(key as usize, SeqCst);
    for value in 1..=10 {
        let before = DESTROYED.load(SeqCst);
        let result = join(create(start, value));
        println!("exit: {result:?}, destroyed: {}", DESTROYED.load(SeqCst) - before);
    }
}

fn name_of(thread: pthread_t) -> String {
    let mut name = [0 as c_char; 16];
    // SAFETY: the place has room for a name, which ends with a zero.
    unsafe {
        assert_eq!(libc::pthread_getname_np(thread, name.as_mut_ptr(), 16), 0);
        CStr::from_ptr(name.as_ptr()).to_str().unwrap().to_string()
    }
}

fn names() {
    extern "C" fn inherits(_: *mut c_void) -> *mut c_void {
        println!("inherits {}", name_of(own()));
        ptr::null_mut()
    }
    // SAFETY: the thread is this one, or lives until the test lets it go.
    let set = |thread, name: &CStr| unsafe { libc::pthread_setname_np(thread, name.as_ptr()) };
    println!("main: {}", name_of(own()));
    println!("{}", set(own(), c"another"));
    join(create(inherits, 0)).unwrap();
    GO.store(false, SeqCst);
    let thread = create(waits, 0);
    println!("{} {}", set(thread, c"of its parent's"), name_of(thread));
    println!("{} {}", set(thread, c"sixteen letters.") == libc::ERANGE, name_of(thread));
    // SAFETY: the call writes nothing.
    println!("{}", unsafe { libc::pthread_getname_np(thread, ptr::null_mut(), 15) } == libc::ERANGE);
    println!("equal: {} {}", pthread_equal(thread, thread) != 0, pthread_equal(thread, own()) != 0);
    GO.store(true, SeqCst);
    join(thread).unwrap();
    println!("main: {}", name_of(own()));
}

/// Returns `true` if the thread's stack, as libc knows it, has `address`.
fn stack_has(thread: pthread_t, address: usize) -> bool {
    let mut attr = MaybeUninit::uninit();
    let (mut lowest, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the first call makes the attributes.
    unsafe {
        assert_eq!(libc::pthread_getattr_np(thread, attr.as_mut_ptr()), 0);
        libc::pthread_attr_getstack(attr.as_ptr(), &mut lowest, &mut bytes);
        libc::pthread_attr_destroy(attr.as_mut_ptr());
    }
    (lowest.addr()..lowest.addr() + bytes).contains(&address)
}

fn stacks() {
    static ADDRESS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn shows(argument: *mut c_void) -> *mut c_void {
        println!("its own: {}", stack_has(own(), ptr::from_ref(&argument).addr()));
        ADDRESS.store(ptr::from_ref(&argument).addr(), SeqCst);
        waits(argument)
    }
    GO.store(false, SeqCst);
    let thread = create(shows, 0);
    while ADDRESS.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    println!("another's: {}", stack_has(thread, ADDRESS.load(SeqCst)));
    println!(
        "main's: {} {}",
        stack_has(own(), ADDRESS.load(SeqCst)),
        stack_has(own(), (&raw const thread).addr())
    );
    GO.store(true, SeqCst);
    join(thread).unwrap();
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn counts_signal(_: c_int) {
    SIGNALS.fetch_add(1, SeqCst);
}

/// The signals that `waits_for_signals` takes.
const TAKEN: [c_int; 2] = [libc::SIGUSR1, libc::SIGUSR2];

fn set_of_taken() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call makes the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        TAKEN.iter().for_each(|&signal| _ = libc::sigaddset(set.as_mut_ptr(), signal));
        set.assume_init()
    }
}

/// Counts signals by `sigwait`, `sigtimedwait` and `sigwaitinfo` until there are as many of each signal as
/// asked for.
extern "C" fn waits_for_signals(count: *mut c_void) -> *mut c_void {
    let (set, mut counts) = (set_of_taken(), [0; 2]);
    for turn in 0..2 * count.addr() {
        let (mut signal, minute) = (0, libc::timespec { tv_sec: 60, tv_nsec: 0 });
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the places are this function's.
        unsafe {
            match turn % 3 {
                0 => assert_eq!(libc::sigwait(&set, &mut signal), 0),
                1 => signal = libc::sigtimedwait(&set, info.as_mut_ptr(), &minute),
                _ => signal = libc::sigwaitinfo(&set, info.as_mut_ptr()),
            }
            assert!(turn % 3 == 0 || info.assume_init().si_signo == signal);
        }
        counts[usize::from(signal == TAKEN[1])] += 1;
        SIGNALS.fetch_add(1, SeqCst);
    }
    assert_eq!(counts, [count.addr(); 2]);
    ptr::null_mut()
}

/// One thread waits for signals, and another one sends them, each after the one before was taken.
fn signals() {
    const ROUNDS: usize = 500;
    // SAFETY: the set is this function's. The waiter and other OS threads have the mask of this one.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set_of_taken(), ptr::null_mut()) };
    let waiter = create(waits_for_signals, ROUNDS);
    for sent in 0..2 * ROUNDS {
        loop {
            // SAFETY: the waiter was not joined.
            match unsafe { libc::pthread_kill(waiter, TAKEN[sent % 2]) } {
                0 => break,
                // The green thread has not begun to wait.
                error => assert!(error == libc::ENOTSUP && sent == 0),
            }
            std::thread::yield_now();
        }
        while SIGNALS.load(SeqCst) == sent {
            std::thread::yield_now();
        }
    }
    println!("{:?}", join(waiter));
}

thread_local! {
    static SET: Cell<usize> = const { Cell::new(1) };
}

extern "C" fn sets() {
    SET.set(7);
}

/// The dynamic linker calls what stands here, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = sets;

/// A thread-local that a constructor has set, in `main` and in another thread.
fn constructors() {
    println!("main: {}, thread: {}", SET.get(), std::thread::spawn(|| SET.get()).join().unwrap());
}

/// What a green thread answers by itself.
fn green() {
    GO.store(false, SeqCst);
    let (thread, mut clock, mut policy) = (create(waits, 0), 0, -1);
    let (mut none, some) = (libc::sched_param { sched_priority: 9 }, libc::sched_param { sched_priority: 1 });
    let is = |result: c_int, error: c_int| assert_eq!(result, error);
    // SAFETY: the threads live, and the places are this function's.
    unsafe {
        libc::signal(libc::SIGUSR1, counts_signal as extern "C" fn(c_int) as libc::sighandler_t);
        is(libc::pthread_kill(thread, libc::SIGUSR1), libc::ENOTSUP);
        is(pthread_sigqueue(thread, libc::SIGUSR1, ptr::null_mut()), libc::ENOTSUP);
        is(libc::pthread_kill(own(), libc::SIGUSR1), 0);
        assert_eq!(SIGNALS.load(SeqCst), 1);
        is(pthread_getschedparam(thread, &mut policy, &mut none), 0);
        assert_eq!((policy, none.sched_priority), (libc::SCHED_OTHER, 0));
        is(libc::pthread_setschedparam(thread, policy, &none), 0);
        is(libc::pthread_setschedparam(thread, libc::SCHED_FIFO, &some), libc::ENOTSUP);
        is(pthread_setschedprio(thread, 0), 0);
        is(pthread_setschedprio(thread, 1), libc::ENOTSUP);
        let wrong = libc::timespec { tv_sec: 0, tv_nsec: -1 };
        is(pthread_timedjoin_np(thread, ptr::null_mut(), &wrong), libc::EINVAL);
        is(pthread_getcpuclockid(thread, &mut clock), libc::ENOENT);
        let size = size_of::<libc::cpu_set_t>();
        let mut all = std::mem::zeroed::<libc::cpu_set_t>();
        is(libc::pthread_getaffinity_np(thread, size, &mut all), 0);
        assert!(libc::CPU_COUNT(&all) > 0);
        is(libc::pthread_setaffinity_np(thread, size, &all), 0);
        is(libc::pthread_setaffinity_np(thread, size, &std::mem::zeroed()), libc::ENOTSUP);
        let mut more = all;
        libc::CPU_SET(libc::CPU_SETSIZE as usize - 1, &mut more);
        is(libc::pthread_setaffinity_np(thread, size, &more), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|&processor| libc::CPU_ISSET(processor, &all));
        libc::CPU_CLR(first.unwrap(), &mut more);
        is(libc::pthread_setaffinity_np(thread, size, &more), libc::ENOTSUP);
        let mut again = std::mem::zeroed::<libc::cpu_set_t>();
        is(libc::pthread_getaffinity_np(thread, size, &mut again), 0);
        assert!(libc::CPU_EQUAL(&again, &all), "a refused call changes nothing");
    }
    shows_names(thread);
    keeps_os_threads_of_the_runtime();
    GO.store(true, SeqCst);
    println!("{:?}", join(thread));
    let ended = create(returns, 0);
    std::thread::sleep(Duration::from_millis(5));
    // SAFETY: the thread was not joined.
    unsafe { is(libc::pthread_kill(ended, 0), libc::ESRCH) };
    join(ended).unwrap();
}

/// Dumps have the names that a thread gives itself or another one.
fn shows_names(thread: pthread_t) {
    // SAFETY: the threads live.
    unsafe {
        libc::pthread_setname_np(own(), c"gives itself".as_ptr());
        libc::pthread_setname_np(thread, c"first name".as_ptr());
        libc::pthread_setname_np(thread, c"is given".as_ptr());
    }
    let mut dump = Vec::new();
    runtime::dump(&mut dump).unwrap();
    let dump = String::from_utf8(dump).unwrap();
    assert!(dump.contains("gives itself") && dump.contains("is given"), "{dump}");
    assert!(!dump.contains("first name"), "{dump}");
}

/// The threads of a runtime that user code starts are OS threads: they could not run green threads.
fn keeps_os_threads_of_the_runtime() {
    let count = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let (before, runtime) = (count(), runtime::Builder::new().procs(2).build().unwrap());
    assert!(count() > before, "{before} OS threads before and after");
    assert_eq!(runtime.block_on(|| runtime::spawn(|| 5).join().unwrap()), 5);
}

/// Cancels a thread in a call of std's, which std's join takes for a panic. With `cleans` the thread has a
/// frame that calls libc, and that would have to drop something.
fn cancels_rust(cleans: bool) {
    struct Prints;
    impl Drop for Prints {
        fn drop(&mut self) {
            println!("dropped");
        }
    }
    let thread = std::thread::spawn(move || {
        let _prints = cleans.then(|| Prints);
        if cleans {
            // SAFETY: the call has no requirements.
            unsafe { libc::sleep(20) };
        }
        std::thread::sleep(Duration::from_secs(20));
    });
    std::thread::sleep(Duration::from_millis(20));
    // SAFETY: the thread lives.
    println!("{}", unsafe { libc::pthread_cancel(thread.as_pthread_t()) });
    println!("joined: {}", thread.join().is_ok());
}

fn main() {
    let program = std::env::args().nth(1).expect("the name of a program");
    match program.as_str() {
        "joins" => joins(),
        "os-thread" => joins_from_an_os_thread(),
        "detaches" => detaches(),
        "ends" => ends(),
        "names" => names(),
        "stacks" => stacks(),
        "signals" => signals(),
        "cancels-rust" => cancels_rust(false),
        "cancels-frame" => cancels_rust(true),
        "constructors" => constructors(),
        "green" => green(),
        _ => panic!("no program {program:?}"),
    }
}
