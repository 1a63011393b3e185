//! `ppoll` with a signal mask, on green threads and on OS threads: the mask holds during the wait, and only
//! then. (The tests send signals to OS threads, and count them.)

use std::ffi::c_int;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;
use runtime::Migration;

/// How often the handler has run.
static SIGNALS: AtomicUsize = AtomicUsize::new(0);

const LONG: Duration = Duration::from_secs(60);

extern "C" fn count(_signal: c_int) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

/// Handles `signal` by `count`. Returns what handled it before.
fn handle(signal: c_int) -> libc::sigaction {
    // SAFETY: all zeroes is a valid action; the handler uses an atomic alone.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as extern "C" fn(c_int) as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    set_action(signal, &action)
}

fn set_action(signal: c_int, action: &libc::sigaction) -> libc::sigaction {
    // SAFETY: both actions are valid places.
    unsafe {
        let mut before = std::mem::zeroed();
        assert_eq!(libc::sigaction(signal, action, &mut before), 0);
        before
    }
}

fn set_of(signals: &[c_int]) -> libc::sigset_t {
    // SAFETY: the call fills the set.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        signals.iter().for_each(|&signal| assert_eq!(libc::sigaddset(&mut set, signal), 0));
        set
    }
}

/// Blocks or unblocks SIGUSR1 for this OS thread.
fn mask(how: c_int) {
    // SAFETY: the set is valid.
    assert_eq!(unsafe { libc::pthread_sigmask(how, &set_of(&[libc::SIGUSR1]), ptr::null_mut()) }, 0);
}

fn is_blocked() -> bool {
    // SAFETY: the call fills the set.
    unsafe {
        let mut set = std::mem::zeroed();
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut set), 0);
        libc::sigismember(&set, libc::SIGUSR1) == 1
    }
}

fn thread_id() -> c_int {
    // SAFETY: the call has no condition.
    unsafe { libc::gettid() }
}

fn send(signal: c_int, thread: c_int) {
    // SAFETY: the call accesses no memory.
    assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) }, 0);
}

/// `ppoll` for bytes of `stream`, with the mask `signals`. Returns the result, or the negative `errno`.
fn wait_for(stream: &UnixStream, time: Duration, signals: &[c_int]) -> c_int {
    let mut look = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointers are valid for the call.
    or_errno(unsafe { libc::ppoll(&mut look, 1, &timespec(time), &set_of(signals)) })
}

/// As `wait_for`, by `pselect`.
fn select_for(stream: &UnixStream, time: Duration, signals: &[c_int]) -> c_int {
    let (fd, none) = (stream.as_raw_fd(), ptr::null_mut());
    // SAFETY: the set and the other pointers are valid for the calls.
    let (found, is_in) = unsafe {
        let mut set: libc::fd_set = std::mem::zeroed();
        libc::FD_SET(fd, &mut set);
        let found = libc::pselect(fd + 1, &mut set, none, none, &timespec(time), &set_of(signals));
        (or_errno(found), libc::FD_ISSET(fd, &set))
    };
    // The kernel leaves the set as it is when it returns an error.
    assert_eq!(is_in, found != 0, "{found}");
    found
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ }
}

fn or_errno(result: c_int) -> c_int {
    if result < 0 { -std::io::Error::last_os_error().raw_os_error().unwrap() } else { result }
}

type Waits = fn(&UnixStream, Duration, &[c_int]) -> c_int;

/// Lets an OS thread run `after` as soon as the caller's OS thread sleeps in the kernel.
fn once_asleep(after: impl FnOnce(c_int) + Send + 'static) -> std::thread::JoinHandle<()> {
    let caller = thread_id();
    std::thread::spawn(move || {
        while !sleeps_in_poll(caller) {
            std::thread::sleep(Duration::from_millis(1));
        }
        after(caller);
    })
}

fn sleeps_in_poll(thread: c_int) -> bool {
    let call = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap();
    let number = call.split(' ').next().unwrap().parse();
    number == Ok(libc::SYS_ppoll) || number == Ok(libc::SYS_pselect6)
}

/// Runs `test` on a plain OS thread, and on green threads of both modes with 1 and 2 Ps.
fn on_all_threads(test: fn(Waits)) {
    for waits in [wait_for as Waits, select_for] {
        on_all_threads_by(test, waits);
    }
}

fn on_all_threads_by(test: fn(Waits), waits: Waits) {
    std::thread::spawn(move || test(waits)).join().unwrap();
    for strict in [false, true] {
        for procs in [1, 2] {
            let migration = if strict { Migration::BeforeStart } else { Migration::default() };
            let runtime = runtime::Builder::new().procs(procs).migration(migration).build().unwrap();
            eprintln!("strict: {strict}, Ps: {procs}");
            runtime.spawn(move || test(waits)).join().unwrap();
        }
    }
}

#[test]
fn a_signal_of_the_mask_waits_until_the_call_returns() {
    let _dog = Watchdog::new();
    handle(libc::SIGUSR1);
    on_all_threads(|waits| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let before = SIGNALS.load(Ordering::SeqCst);
        let sender = once_asleep(move |thread| {
            send(libc::SIGUSR1, thread);
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!(SIGNALS.load(Ordering::SeqCst), before, "the signal came during the wait");
            theirs.write_all(b"1").unwrap();
        });
        assert_eq!(waits(&ours, LONG, &[libc::SIGUSR1]), 1);
        assert_eq!(SIGNALS.load(Ordering::SeqCst), before + 1, "the signal comes as the call returns");
        assert!(!is_blocked());
        sender.join().unwrap();
    });
}

#[test]
fn a_signal_outside_of_the_mask_ends_the_wait() {
    let _dog = Watchdog::new();
    handle(libc::SIGUSR1);
    on_all_threads(|waits| {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        mask(libc::SIG_BLOCK);
        let before = SIGNALS.load(Ordering::SeqCst);
        // A signal that is pending ends the call at once.
        send(libc::SIGUSR1, thread_id());
        assert_eq!(SIGNALS.load(Ordering::SeqCst), before);
        assert_eq!(waits(&ours, LONG, &[]), -libc::EINTR);
        assert_eq!(SIGNALS.load(Ordering::SeqCst), before + 1);
        assert!(is_blocked(), "the mask of before holds again");
        // So does one that comes during the call.
        let sender = once_asleep(|thread| send(libc::SIGUSR1, thread));
        assert_eq!(waits(&ours, LONG, &[]), -libc::EINTR);
        assert_eq!(SIGNALS.load(Ordering::SeqCst), before + 2);
        assert!(is_blocked());
        sender.join().unwrap();
        mask(libc::SIG_UNBLOCK);
    });
}

/// Runs `body` while so many green threads compute that the runtime has installed the handler of its signal.
fn while_hogs_are_paused<T>(runtime: &runtime::Runtime, body: impl FnOnce() -> T) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    let hogs: Vec<_> = (0..20)
        .map(|_| {
            let stop = stop.clone();
            let start = Instant::now();
            runtime.spawn(move || while !stop.load(Ordering::Relaxed) && start.elapsed() < LONG {})
        })
        .collect();
    let start = Instant::now();
    while !is_handled(libc::SIGURG) && start.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(is_handled(libc::SIGURG), "the runtime pauses green threads that compute");
    let result = body();
    stop.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    result
}

#[test]
fn the_signal_of_the_runtime_does_not_end_the_wait() {
    let _dog = Watchdog::new();
    let test = || {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let sender = once_asleep(move |thread| {
            send(libc::SIGURG, thread);
            std::thread::sleep(Duration::from_millis(30));
            theirs.write_all(b"1").unwrap();
        });
        let result = wait_for(&ours, LONG, &[]);
        sender.join().unwrap();
        result
    };
    let runtime = runtime::Builder::new().procs(1).build().unwrap();
    let result = while_hogs_are_paused(&runtime, || runtime.spawn(test).join().unwrap());
    assert_eq!(result, 1);
    // A program's own handler is another matter.
    let before = handle(libc::SIGURG);
    let result = runtime.spawn(test).join().unwrap();
    set_action(libc::SIGURG, &before);
    assert_eq!(result, -libc::EINTR);
}

/// The kernel returns `EINTR` for a look, too, if a signal is pending.
#[test]
fn the_signal_of_the_runtime_interrupts_no_look() {
    let _dog = Watchdog::new();
    let looks = || {
        // The signals are to go to the OS thread that looks.
        let _pin = runtime::thread::pin();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (fd, thread, stop) = (ours.as_raw_fd(), thread_id(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let sender = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                send(libc::SIGURG, thread);
            }
        });
        let interrupted = (0..30_000).filter(|_| poll_now(fd) == -1 || select_now(fd) == -1).count();
        stop.store(true, Ordering::Relaxed);
        sender.join().unwrap();
        interrupted
    };
    let runtime = runtime::Builder::new().procs(1).build().unwrap();
    let interrupted = while_hogs_are_paused(&runtime, || runtime.spawn(looks).join().unwrap());
    assert_eq!(interrupted, 0);
}

fn poll_now(fd: c_int) -> c_int {
    let mut look = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: the structure is valid for the call.
    unsafe { libc::poll(&mut look, 1, 0) }
}

fn select_now(fd: c_int) -> c_int {
    // SAFETY: the set and the time are valid for the calls.
    unsafe {
        let mut set: libc::fd_set = std::mem::zeroed();
        libc::FD_SET(fd, &mut set);
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        libc::select(fd + 1, &mut set, ptr::null_mut(), ptr::null_mut(), &mut time)
    }
}

fn is_handled(signal: c_int) -> bool {
    // SAFETY: the call fills the action.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(signal, ptr::null(), &mut action), 0);
        action.sa_sigaction != libc::SIG_DFL
    }
}

/// The P is given up for the wait, and not only when a rescue takes it after 10 ms.
#[test]
fn other_green_threads_run_meanwhile() {
    let _dog = Watchdog::new();
    let runtime = runtime::Builder::new().procs(1).build().unwrap();
    let waiter = runtime.spawn(|| {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        (0..100)
            .filter(|_| {
                let (sender, receiver) = mpsc::channel();
                runtime::spawn(move || sender.send(Instant::now()).unwrap());
                assert_eq!(wait_for(&ours, Duration::from_millis(4), &[libc::SIGUSR1]), 0);
                let end = Instant::now();
                // The other green thread needs the only P, which this loop gives to it if it has not run yet.
                let ran = loop {
                    match receiver.try_recv() {
                        Ok(ran) => break ran,
                        Err(_) => runtime::yield_now(),
                    }
                };
                ran < end
            })
            .count()
    });
    let ran = waiter.join().unwrap();
    assert!(ran > 30, "other green threads ran in {ran} of 100 waits");
}
