//! Masks of signals, by the name in the first argument. What is printed is the same for green threads and for
//! OS threads.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Error;
use std::mem::{MaybeUninit, zeroed};
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use libc::{pthread_t, sigset_t};

runtime::interpose!(threads);

const MILLI: Duration = Duration::from_millis(1);

unsafe extern "C" {
    fn sigsuspend(mask: *const sigset_t) -> c_int;
    fn sigpending(set: *mut sigset_t) -> c_int;
    fn pthread_attr_setsigmask_np(attr: *mut libc::pthread_attr_t, mask: *const sigset_t) -> c_int;
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);

fn handle(signal: c_int) {
    extern "C" fn counts(_: c_int) {
        HANDLED.fetch_add(1, SeqCst);
    }
    // SAFETY: the function is a handler, which adds to a number.
    unsafe { libc::signal(signal, counts as extern "C" fn(c_int) as libc::sighandler_t) };
}

fn set_of(signals: &[c_int]) -> sigset_t {
    // SAFETY: the first call makes the set.
    unsafe {
        let mut set = zeroed();
        libc::sigemptyset(&mut set);
        signals.iter().for_each(|&signal| _ = libc::sigaddset(&mut set, signal));
        set
    }
}

fn mask(how: c_int, signals: &[c_int]) {
    // SAFETY: the set is this function's.
    assert_eq!(unsafe { libc::pthread_sigmask(how, &set_of(signals), ptr::null_mut()) }, 0);
}

fn has(set: &sigset_t, signal: c_int) -> bool {
    // SAFETY: the set is one.
    unsafe { libc::sigismember(set, signal) == 1 }
}

fn blocks(signal: c_int) -> bool {
    // SAFETY: the call fills the set.
    unsafe {
        let mut set = zeroed();
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut set), 0);
        has(&set, signal)
    }
}

fn is_pending(signal: c_int) -> bool {
    // SAFETY: the call fills the set.
    unsafe {
        let mut set = zeroed();
        assert_eq!(sigpending(&mut set), 0);
        has(&set, signal)
    }
}

fn send(signal: c_int) {
    // SAFETY: the call has no pointers.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
}

fn own() -> pthread_t {
    // SAFETY: the call has no requirements.
    unsafe { libc::pthread_self() }
}

/// Waits until handlers have run so often.
fn wait_for_handlers(count: usize) {
    while HANDLED.load(SeqCst) < count {
        thread::sleep(MILLI / 10);
    }
}

/// Signals of each kind: those of the process, and those of a thread.
const SIGNALS: [c_int; 6] =
    [libc::SIGUSR1, libc::SIGUSR2, libc::SIGTERM, libc::SIGALRM, libc::SIGPIPE, libc::SIGVTALRM];

/// Each of many threads keeps a mask of its own while all of them sleep, yield and send each other messages.
/// Half of their masks are inherited.
fn kept() {
    fn is_kept(number: usize) -> bool {
        SIGNALS.iter().enumerate().all(|(at, &signal)| blocks(signal) == (number >> at & 1 != 0))
    }
    fn set(number: usize) {
        let of = SIGNALS.iter().enumerate().filter(|(at, _)| number >> at & 1 != 0);
        mask(libc::SIG_SETMASK, &of.map(|(_, &signal)| signal).collect::<Vec<_>>());
    }
    fn live(number: usize) -> usize {
        let (sender, receiver) = mpsc::channel();
        let echo = thread::spawn(move || receiver.iter().filter(|_| !is_kept(number)).count());
        let mut wrong = 0;
        for turn in 0..40 {
            sender.send(()).unwrap();
            match turn % 3 {
                0 => thread::sleep(MILLI / 4),
                1 => thread::yield_now(),
                _ => {}
            }
            wrong += usize::from(!is_kept(number));
        }
        drop(sender);
        wrong + echo.join().unwrap()
    }
    let threads = (0..400).map(|number| {
        let mine = number % 64;
        if number % 2 == 0 {
            // Inherited.
            set(mine);
            let thread = thread::spawn(move || live(mine));
            set(0);
            return thread;
        }
        thread::spawn(move || {
            set(mine);
            live(mine)
        })
    });
    let wrong: usize = threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("wrong: {wrong}, main blocks: {}", SIGNALS.iter().any(|&signal| blocks(signal)));
}

/// A signal that all threads block stays pending, and comes to a `sigwait` and to the thread that unblocks
/// it.
fn pending() {
    handle(libc::SIGUSR1);
    for round in 1..=20 {
        mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
        let others: Vec<_> = (0..8).map(|_| thread::spawn(|| thread::sleep(MILLI))).collect();
        send(libc::SIGUSR1);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(is_pending(libc::SIGUSR1) && HANDLED.load(SeqCst) == round - 1, "round {round}");
        mask(libc::SIG_UNBLOCK, &[libc::SIGUSR1]);
        assert_eq!(HANDLED.load(SeqCst), round, "the handler has run when the call returns");
        assert!(!is_pending(libc::SIGUSR1));
    }
    mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
    let waiter = thread::spawn(|| {
        let mut signal = 0;
        // SAFETY: the places are this function's.
        assert_eq!(unsafe { libc::sigwait(&set_of(&[libc::SIGUSR1]), &mut signal) }, 0);
        signal == libc::SIGUSR1
    });
    thread::sleep(MILLI);
    send(libc::SIGUSR1);
    println!("handled: {}, waited: {}", HANDLED.load(SeqCst), waiter.join().unwrap());
}

/// A handler runs as long as one thread lets the signal in. It stays pending after the end of that thread.
fn last() {
    handle(libc::SIGUSR1);
    let (go, goes) = mpsc::channel::<()>();
    let open = thread::spawn(move || goes.recv().is_ok());
    mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
    send(libc::SIGUSR1);
    wait_for_handlers(1);
    go.send(()).unwrap();
    open.join().unwrap();
    // The OS thread of a joined thread may live a little longer.
    thread::sleep(20 * MILLI);
    send(libc::SIGUSR1);
    thread::sleep(5 * MILLI);
    println!("handled: {}, pending: {}", HANDLED.load(SeqCst), is_pending(libc::SIGUSR1));
}

/// What `pthread_kill` sends to a thread that blocks it comes when the thread unblocks it.
fn sent() {
    static READY: Barrier = Barrier::new(2);
    handle(libc::SIGUSR2);
    mask(libc::SIG_BLOCK, &[libc::SIGUSR2]);
    let thread = thread::spawn(|| {
        READY.wait();
        READY.wait();
        let before = (HANDLED.load(SeqCst), is_pending(libc::SIGUSR2));
        mask(libc::SIG_UNBLOCK, &[libc::SIGUSR2]);
        (before, HANDLED.load(SeqCst), is_pending(libc::SIGUSR2))
    });
    READY.wait();
    use std::os::unix::thread::JoinHandleExt;
    // SAFETY: the thread lives. (With OS threads, the handle is the `pthread_t` as well.)
    let error = unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR2) };
    // SAFETY: as above.
    let own_error = unsafe { libc::pthread_kill(own(), libc::SIGUSR2) };
    READY.wait();
    println!("{error} {own_error} {:?}", thread.join().unwrap());
    // SAFETY: the call has no pointers.
    let raised = unsafe { libc::raise(libc::SIGUSR2) };
    let before = HANDLED.load(SeqCst);
    mask(libc::SIG_UNBLOCK, &[libc::SIGUSR2]);
    println!("{raised} {before} {}", HANDLED.load(SeqCst));
    // SAFETY: as above.
    unsafe { libc::raise(libc::SIGUSR2) };
    println!("{}", HANDLED.load(SeqCst));
}

/// Writes to a pipe without a reader, which causes `SIGPIPE`. Returns `true` if the write fails so.
fn write() -> bool {
    let (reader, mut writer) = std::io::pipe().unwrap();
    drop(reader);
    std::io::Write::write(&mut writer, b"1").is_err_and(|error| error.raw_os_error() == Some(libc::EPIPE))
}

/// A write to a pipe without a reader: the thread that blocks the signal has it pending.
fn pipe() {
    handle(libc::SIGPIPE);
    let threads: Vec<_> = (0..40)
        .map(|number| {
            thread::spawn(move || {
                if number % 2 == 0 {
                    mask(libc::SIG_BLOCK, &[libc::SIGPIPE]);
                }
                thread::sleep(MILLI);
                assert!(write());
                thread::sleep(MILLI);
                assert_eq!(is_pending(libc::SIGPIPE), number % 2 == 0);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("handled: {}", HANDLED.load(SeqCst));
}

/// A signal stays pending while the OS threads of threads that have it pending start others: each call of
/// `blocking` hands its P to one.
fn starts() {
    handle(libc::SIGPIPE);
    static ALL: Barrier = Barrier::new(40);
    let hold = || {
        mask(libc::SIG_BLOCK, &[libc::SIGPIPE]);
        ALL.wait();
        assert!(write());
        // SAFETY: the call reads a time that lives as long as it. Not libc's `nanosleep`, which parks.
        runtime::blocking(|| unsafe {
            let time = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            libc::syscall(libc::SYS_nanosleep, &raw const time, ptr::null_mut::<libc::timespec>());
        });
        is_pending(libc::SIGPIPE)
    };
    let threads: Vec<_> = (0..40).map(|_| thread::spawn(hold)).collect();
    let pending = threads.into_iter().map(|thread| thread.join().unwrap());
    println!("pending: {}, handled: {}", pending.filter(|&is| is).count(), HANDLED.load(SeqCst));
}

/// `sigsuspend` and `pause` end after the handler of a signal to the process.
fn suspended() {
    handle(libc::SIGUSR1);
    for is_pause in [false, true] {
        static OVER: AtomicBool = AtomicBool::new(false);
        OVER.store(false, SeqCst);
        if !is_pause {
            mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
        }
        let sender = thread::spawn(|| {
            mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
            while !OVER.load(SeqCst) {
                thread::sleep(MILLI);
                send(libc::SIGUSR1);
            }
        });
        let before = HANDLED.load(SeqCst);
        // SAFETY: the set is this function's.
        let result = unsafe { if is_pause { libc::pause() } else { sigsuspend(&set_of(&[])) } };
        let errno = Error::last_os_error().raw_os_error();
        OVER.store(true, SeqCst);
        sender.join().unwrap();
        println!("{result} {} {}", errno == Some(libc::EINTR), HANDLED.load(SeqCst) > before);
        println!("blocks: {}", blocks(libc::SIGUSR1));
        mask(libc::SIG_UNBLOCK, &[libc::SIGUSR1]);
    }
}

/// A thread begins with the mask of its attributes.
fn attributes() {
    extern "C" fn looks(_: *mut c_void) -> *mut c_void {
        let has = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGPIPE].map(blocks);
        ptr::without_provenance_mut(has.iter().fold(0, |all, &one| all << 1 | usize::from(one)))
    }
    mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
    let (mut attr, mut thread, mut result) = (MaybeUninit::uninit(), 0, ptr::null_mut());
    // SAFETY: the first call makes the attributes.
    unsafe {
        libc::pthread_attr_init(attr.as_mut_ptr());
        pthread_attr_setsigmask_np(attr.as_mut_ptr(), &set_of(&[libc::SIGUSR2, libc::SIGPIPE]));
        assert_eq!(libc::pthread_create(&mut thread, attr.as_ptr(), looks, ptr::null_mut()), 0);
        libc::pthread_join(thread, &mut result);
    }
    println!("{:03b}", result.addr());
}

/// The command by which a child prints its mask. Some shells begin with an empty one.
const SHOW: &CStr = c"grep SigBlk /proc/self/status";

/// Programs have the mask of the thread that starts them.
fn programs() {
    fn spawned() {
        let (mut pid, mut status) = (0, 0);
        let mut args = [c"grep".as_ptr(), c"SigBlk".as_ptr(), c"/proc/self/status".as_ptr(), ptr::null()]
            .map(<*const c_char>::cast_mut);
        let none = [ptr::null_mut::<c_char>()];
        // SAFETY: the strings and lists are C's.
        unsafe {
            let (grep, args) = (c"grep".as_ptr(), args.as_mut_ptr());
            assert_eq!(libc::posix_spawnp(&mut pid, grep, ptr::null(), ptr::null(), args, none.as_ptr()), 0);
            libc::waitpid(pid, &mut status, 0);
        }
    }
    fn forked() {
        let args = [c"grep".as_ptr(), c"SigBlk".as_ptr(), c"/proc/self/status".as_ptr(), ptr::null()];
        let mut status = 0;
        // SAFETY: the child only starts a program.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::execvp(args[0], args.as_ptr());
                libc::_exit(1);
            }
            libc::waitpid(pid, &mut status, 0);
        }
    }
    fn opened() {
        let mut text = [0_u8; 100];
        // SAFETY: the strings are C's, and the place has room for 100 bytes.
        unsafe {
            let file = libc::popen(SHOW.as_ptr(), c"r".as_ptr());
            let read = libc::fread(text.as_mut_ptr().cast(), 1, 100, file);
            libc::pclose(file);
            print!("{}", std::str::from_utf8(&text[..read]).unwrap());
        }
    }
    for signals in [&[][..], &[libc::SIGUSR1, libc::SIGPIPE][..]] {
        mask(libc::SIG_SETMASK, signals);
        // SAFETY: the string is C's.
        unsafe { libc::system(SHOW.as_ptr()) };
        spawned();
        forked();
        opened();
        assert!(Command::new("sh").arg("-c").arg(SHOW.to_str().unwrap()).status().unwrap().success());
        // In the child before the program starts, too.
        let mut hooked = Command::new("sh");
        hooked.arg("-c").arg(SHOW.to_str().unwrap());
        // SAFETY: the function does nothing.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut hooked, || Ok(())) };
        assert!(hooked.status().unwrap().success());
        assert_eq!(blocks(libc::SIGUSR1), !signals.is_empty());
    }
}

/// All errors, and what is not blocked although it was asked for.
fn results() {
    let full = set_of(&(1..=64).filter(|signal| ![32, 33].contains(signal)).collect::<Vec<_>>());
    // SAFETY: the sets are this function's.
    unsafe {
        let mut before = set_of(&[]);
        println!("{}", libc::pthread_sigmask(99, &full, ptr::null_mut()) == libc::EINVAL);
        println!("{}", libc::pthread_sigmask(99, ptr::null(), ptr::null_mut()) == 0);
        println!("{}", libc::sigprocmask(99, &full, ptr::null_mut()));
        println!("{}", Error::last_os_error().raw_os_error() == Some(libc::EINVAL));
        println!("{}", libc::sigprocmask(libc::SIG_SETMASK, &full, &mut before));
        println!("{}", (1..32).any(|signal| has(&before, signal)));
        let blocked: Vec<_> = (1..=64).filter(|&signal| !blocks(signal)).collect();
        println!("not blocked: {blocked:?}");
    }
    // Preemption goes on: this thread blocks all signals, and others run.
    static TURNS: AtomicI32 = AtomicI32::new(0);
    let others: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(|| {
                while TURNS.fetch_add(1, SeqCst) < 1_000 {
                    thread::yield_now();
                }
            })
        })
        .collect();
    while TURNS.load(SeqCst) < 1_000 {
        std::hint::spin_loop();
    }
    others.into_iter().for_each(|thread| thread.join().unwrap());
    println!("all have run");
}

/// A signal that no thread blocks ends the process.
fn ends() {
    let blocker = thread::spawn(|| {
        mask(libc::SIG_BLOCK, &[libc::SIGTERM]);
        send(libc::SIGTERM);
        thread::sleep(Duration::from_secs(60));
    });
    blocker.join().unwrap();
    println!("not reached");
}

fn main() {
    let program = std::env::args().nth(1).expect("the name of a program");
    match program.as_str() {
        "kept" => kept(),
        "pending" => pending(),
        "last" => last(),
        "sent" => sent(),
        "pipe" => pipe(),
        "starts" => starts(),
        "suspended" => suspended(),
        "attributes" => attributes(),
        "programs" => programs(),
        "results" => results(),
        "ends" => ends(),
        _ => panic!("no program {program:?}"),
    }
}
