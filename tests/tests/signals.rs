//! Signals on the threads that run green threads: the handlers of others work, and nothing here notices.
#![cfg(target_os = "linux")]

use std::ffi::{c_int, c_void};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::{JoinHandle, spawn, thread, yield_now};
use tests::child::{passes, run, stderr, text};
use tests::{Random, on, spin, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);

/// What the handler saw.
static HITS: AtomicU64 = AtomicU64::new(0);
static ON_ALTERNATE_STACK: AtomicU64 = AtomicU64::new(0);
/// On a thread that has none yet: it is just being started.
static WITHOUT_ONE: AtomicU64 = AtomicU64::new(0);
static LAST_STACK: AtomicUsize = AtomicUsize::new(0);

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

extern "C" fn count(_signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: all zeroes is a value of this plain struct.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: asks only.
    unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) };
    if stack.ss_flags & libc::SS_ONSTACK != 0 {
        ON_ALTERNATE_STACK.fetch_add(1, SeqCst);
    } else if stack.ss_flags & libc::SS_DISABLE != 0 {
        WITHOUT_ONE.fetch_add(1, SeqCst);
    }
    LAST_STACK.store(std::ptr::from_ref(&stack).addr(), SeqCst);
    HITS.fetch_add(1, SeqCst);
}

/// Installs a handler and gives what was there before.
fn install(signal: c_int, flags: c_int, handler: Handler) -> libc::sigaction {
    install_raw(signal, flags | libc::SA_SIGINFO, handler as *const () as libc::sighandler_t)
}

fn install_raw(signal: c_int, flags: c_int, handler: libc::sighandler_t) -> libc::sigaction {
    // SAFETY: all zeroes is a value of this plain struct.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    // SAFETY: the handlers of this file do only what a handler may.
    assert_eq!(unsafe { libc::sigaction(signal, &action, &mut before) }, 0);
    before
}

/// One that is counted: several of it may be pending.
fn counted_signal() -> c_int {
    libc::SIGRTMIN() + 3
}

/// The threads of the runtimes of this process, those of sysmon too.
fn runtime_threads() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let ours = tasks.filter(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("green"))
    });
    ours.map(|task| task.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

/// Sends it to one thread of this process; false if that has ended.
fn send(thread: i32, signal: c_int) -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) == 0 }
}

/// Sends `number` signals to each thread of the runtimes, and waits until all were handled.
fn shower(number: u64) {
    let (before, mut sent) = (HITS.load(SeqCst), 0);
    for _ in 0..number {
        for thread in runtime_threads() {
            sent += u64::from(send(thread, counted_signal()));
        }
        std::thread::sleep(MILLI / 10);
    }
    assert!(sent >= number);
    wait_until("all were handled", || HITS.load(SeqCst) >= before + sent);
}

const FLAGS: [c_int; 4] = [0, libc::SA_ONSTACK, libc::SA_RESTART, libc::SA_ONSTACK | libc::SA_RESTART];

#[test]
fn handlers_run_whatever_the_threads_do() {
    for flags in FLAGS {
        passes("handlers_run_whatever_the_threads_do", &flags.to_string(), || {
            install(counted_signal(), flags, count);
            with(2, |runtime| {
                // All sleep: one in the netpoller, the others on their notes.
                runtime.block_on(|| {
                    let blocked: Vec<_> = (0..4)
                        .map(|_| spawn(|| runtime::blocking(|| std::thread::sleep(3 * MILLI))))
                        .collect();
                    blocked.into_iter().for_each(|thread| thread.join().unwrap());
                });
                let listener = runtime.block_on(|| TcpListener::bind("127.0.0.1:0").unwrap());
                std::thread::sleep(5 * MILLI);
                shower(50);
                // They run green threads that yield, that compute, and that block their thread.
                let stop = Arc::new(AtomicBool::new(false));
                let busy: Vec<_> = (0..6)
                    .map(|i| {
                        let stop = stop.clone();
                        runtime.spawn(move || {
                            while !stop.load(SeqCst) {
                                match i % 3 {
                                    0 => yield_now(),
                                    1 => drop(spin(MILLI)),
                                    _ => {
                                        let start = Instant::now();
                                        runtime::blocking(|| std::thread::sleep(MILLI));
                                        assert!(start.elapsed() >= MILLI);
                                    }
                                }
                            }
                        })
                    })
                    .collect();
                shower(50);
                stop.store(true, SeqCst);
                busy.into_iter().for_each(|thread| thread.join().unwrap());
                drop(listener);
            });
            let [all, alternate, without] =
                [&HITS, &ON_ALTERNATE_STACK, &WITHOUT_ONE].map(|count| count.load(SeqCst));
            let expected = if flags & libc::SA_ONSTACK != 0 { all - without } else { 0 };
            assert_eq!(alternate, expected, "of {all}, {without} without one");
            assert!(without < all / 2, "{without} of {all} without one");
        });
    }
}

/// Without SA_ONSTACK it runs on whatever stack its thread is on: a green thread's.
#[test]
fn a_handler_runs_on_the_stack_that_it_asked_for() {
    for flags in FLAGS {
        passes("a_handler_runs_on_the_stack_that_it_asked_for", &flags.to_string(), || {
            install(counted_signal(), flags, count);
            on(1, || {
                let size = 64 << 10;
                let on_green = thread::Builder::new().stack_size(size).spawn(|| {
                    let here = 0u8;
                    // SAFETY: takes a number; the handler may run here.
                    assert_eq!(unsafe { libc::raise(counted_signal()) }, 0);
                    (std::ptr::from_ref(&here).addr(), LAST_STACK.load(SeqCst))
                });
                let (mine, handlers) = on_green.unwrap().join().unwrap();
                let here = mine.abs_diff(handlers) < size;
                assert_eq!(here, flags & libc::SA_ONSTACK == 0, "{mine:x} {handlers:x}");
            });
        });
    }
}

/// Work of all kinds that checks itself: no wait ends before its time or with an error, no byte and no wake-up is lost.
struct Work {
    stop: Arc<AtomicBool>,
    done: Arc<[AtomicU64; 6]>,
    threads: Vec<JoinHandle<()>>,
}

impl Work {
    /// *On a green thread.*
    fn start() -> Work {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new([const { AtomicU64::new(0) }; 6]));
        let mut work = Work { stop, done, threads: Vec::new() };
        for i in 0..10 {
            work.add(0, move || {
                let time = Duration::from_micros(50 + 100 * i);
                let start = Instant::now();
                runtime::sleep(time);
                assert!(start.elapsed() >= time, "a sleep was cut short");
            });
            work.add(1, move || {
                let (time, start) = (Duration::from_micros(100 + 30 * i), Instant::now());
                runtime::block_on(runtime::time::sleep_async(time));
                assert!(start.elapsed() >= time, "a future's sleep was cut short");
                assert!(runtime::time::timeout(time, thread::park).is_err());
                assert!(start.elapsed() >= 2 * time, "a time-out came early");
            });
        }
        for i in 0..4 {
            work.echo(i);
            work.ping_pong();
        }
        for _ in 0..3 {
            work.add(4, || {
                let start = Instant::now();
                runtime::blocking(|| std::thread::sleep(MILLI));
                assert!(start.elapsed() >= MILLI);
                assert!(runtime::blocking(|| std::fs::read("/proc/self/stat")).unwrap().len() > 20);
            });
            work.add(5, || {
                let threads: Vec<_> = (0..20)
                    .map(|i| {
                        spawn(move || {
                            spin(Duration::from_micros(20));
                            i
                        })
                    })
                    .collect();
                assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>(), 190);
            });
        }
        work
    }

    /// Does it again and again.
    fn add(&mut self, kind: usize, mut once: impl FnMut() + Send + 'static) {
        let (stop, done) = (self.stop.clone(), self.done.clone());
        self.threads.push(spawn(move || {
            while !stop.load(SeqCst) {
                once();
                done[kind].fetch_add(1, SeqCst);
            }
        }));
    }

    fn echo(&mut self, seed: u64) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("accept does not fail");
                let (mut block, mut any) = ([0; 3000], false);
                loop {
                    let n = stream.read(&mut block).expect("a read does not fail");
                    if n == 0 {
                        break;
                    }
                    any = true;
                    stream.write_all(&block[..n]).expect("a write does not fail");
                }
                if !any {
                    return;
                }
            }
        });
        let (mut random, done, stop) = (Random::new(seed), self.done.clone(), self.stop.clone());
        self.threads.push(spawn(move || {
            while !stop.load(SeqCst) {
                let mut stream = TcpStream::connect(addr).expect("a connect does not fail");
                for _ in 0..20 {
                    let sent: Vec<u8> = (0..random.below(5000) + 1).map(|_| random.number() as u8).collect();
                    let mut got = vec![0; sent.len()];
                    stream.write_all(&sent).expect("a write does not fail");
                    stream.read_exact(&mut got).expect("a read does not fail");
                    assert!(sent == got, "other bytes came back");
                    done[2].fetch_add(1, SeqCst);
                }
            }
            // One that says nothing ends the server.
            drop(TcpStream::connect(addr).unwrap());
            server.join().unwrap();
        }));
    }

    /// Two who hand a number to and fro by `park` and `unpark`.
    fn ping_pong(&mut self) {
        let (number, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let turn = |mine: u64| {
            let (number, over) = (number.clone(), over.clone());
            move |other: &thread::Thread| {
                while number.load(SeqCst) % 2 != mine {
                    if over.load(SeqCst) {
                        return false;
                    }
                    thread::park();
                }
                number.fetch_add(1, SeqCst);
                other.unpark();
                true
            }
        };
        let (ping, pong) = (turn(0), turn(1));
        let (stop, done) = (self.stop.clone(), self.done.clone());
        self.threads.push(spawn(move || {
            let me = thread::current();
            let other = spawn(move || while pong(&me) {});
            while !stop.load(SeqCst) {
                ping(other.thread());
                done[3].fetch_add(1, SeqCst);
            }
            over.store(true, SeqCst);
            other.thread().unpark();
            other.join().unwrap();
        }));
    }

    /// All kinds have gone on `rounds` times since the beginning.
    fn has_done(&self, rounds: u64) -> bool {
        self.done.iter().all(|done| done.load(SeqCst) >= rounds)
    }

    fn end(self) {
        self.stop.store(true, SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_storm_loses_nothing_and_cuts_nothing_short() {
    const STORM: u64 = 10_000;
    for (procs, flags) in [(1, 0), (2, 0), (2, libc::SA_ONSTACK | libc::SA_RESTART), (8, 0)] {
        passes("a_storm_loses_nothing_and_cuts_nothing_short", &format!("{procs}-{flags}"), || {
            install(counted_signal(), flags, count);
            with(procs, |runtime| {
                let work = runtime.block_on(Work::start);
                let (mut sent, mut random) = (0, Random::new(7));
                while sent < STORM || !work.has_done(20) {
                    let threads = runtime_threads();
                    for _ in 0..100 {
                        let thread = threads[random.below(threads.len() as u64) as usize];
                        sent += u64::from(send(thread, counted_signal()));
                    }
                    std::thread::sleep(MILLI / 5);
                }
                runtime.block_on(|| work.end());
                wait_until("all were handled", || HITS.load(SeqCst) >= sent);
                assert_eq!(HITS.load(SeqCst), sent);
                assert_eq!(runtime.handle().metrics().stackless, 0);
            });
        });
    }
}

/// Profilers and alarms: a signal each half millisecond, of time or of CPU time, to whatever thread is there.
#[test]
fn timers_of_the_system_may_interrupt_all_the_time() {
    for (timer, signal) in [(libc::ITIMER_PROF, libc::SIGPROF), (libc::ITIMER_REAL, libc::SIGALRM)] {
        passes("timers_of_the_system_may_interrupt_all_the_time", &signal.to_string(), || {
            install(signal, libc::SA_ONSTACK, count);
            let each = |micros| {
                let time = libc::timeval { tv_sec: 0, tv_usec: micros };
                let value = libc::itimerval { it_interval: time, it_value: time };
                // SAFETY: it reads the struct that it is given.
                let set = unsafe { libc::syscall(libc::SYS_setitimer, timer, &raw const value, 0) };
                assert_eq!(set, 0);
            };
            with(2, |runtime| {
                each(500);
                let work = runtime.block_on(Work::start);
                wait_until("enough has been done", || work.has_done(30) && HITS.load(SeqCst) > 100);
                runtime.block_on(|| work.end());
                each(0);
            });
        });
    }
}

#[test]
fn signal_hook_works_beside_us() {
    passes("signal_hook_works_beside_us", "", || {
        use signal_hook::consts::{SIGUSR1, SIGUSR2};
        use signal_hook::iterator::Signals;
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGUSR1, flag.clone()).unwrap();
        with(2, |runtime| {
            runtime.block_on(|| {
                // Its iterator blocks a thread of ours, by its own reads.
                let mut signals = Signals::new([SIGUSR2]).unwrap();
                let (handle, seen) = (signals.handle(), Arc::new(AtomicUsize::new(0)));
                let counts = seen.clone();
                let watcher = spawn(move || {
                    for signal in signals.forever() {
                        assert_eq!(signal, SIGUSR2);
                        counts.fetch_add(1, SeqCst);
                    }
                });
                for round in 1..=20 {
                    flag.store(false, SeqCst);
                    for thread in runtime_threads() {
                        send(thread, SIGUSR1);
                    }
                    wait_until("the flag is set", || flag.load(SeqCst));
                    signal_hook::low_level::raise(SIGUSR2).unwrap();
                    wait_until("the iterator gives it", || seen.load(SeqCst) >= round);
                    runtime::sleep(MILLI);
                }
                handle.close();
                watcher.join().unwrap();
            });
        });
    });
}

#[test]
fn writing_to_a_closed_connection_is_an_error_and_no_signal() {
    for default in [false, true] {
        passes("writing_to_a_closed_connection_is_an_error_and_no_signal", &default.to_string(), || {
            if default {
                // std had it ignored from before `main` on.
                install_raw(libc::SIGPIPE, 0, libc::SIG_DFL);
            }
            on(2, || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                drop(listener.accept().unwrap());
                let error = loop {
                    if let Err(error) = client.write(&[1; 1000]) {
                        break error;
                    }
                    runtime::sleep(MILLI);
                };
                let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
                assert!(kinds.contains(&error.kind()), "{error}");
                // From the second time on it is the closed pipe alone.
                assert_eq!(client.write(&[1; 1000]).unwrap_err().kind(), ErrorKind::BrokenPipe);
            });
        });
    }
}

// Faults ---------------------------------------------------------------------------------------------------------

#[inline(never)]
fn endless(depth: u64) -> u64 {
    let block = std::hint::black_box([depth; 32]);
    if depth == u64::MAX { 0 } else { endless(depth + 1) + block[(depth % 32) as usize] }
}

fn touch(address: usize) {
    let nowhere = std::hint::black_box(std::ptr::without_provenance_mut::<u32>(address));
    // SAFETY: it is not; the process is to die of it, or its handler to end it.
    unsafe { nowhere.write_volatile(1) };
}

/// Ends the process with a code that tells what was the matter.
extern "C" fn exits(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel gives a valid one, with an address for a fault.
    let at = unsafe { (*info).si_addr().addr() };
    // SAFETY: ends the process.
    unsafe { libc::_exit(if at == 64 { 42 } else { 43 }) }
}

extern "C" fn exits_simply(_signal: c_int) {
    // SAFETY: ends the process.
    unsafe { libc::_exit(44) }
}

/// Says so and returns, so that the fault repeats.
extern "C" fn says_so(_signal: c_int) {
    if HITS.fetch_add(1, SeqCst) > 9 {
        // SAFETY: ends the process.
        unsafe { libc::_exit(45) }
    }
    // SAFETY: writes the bytes given.
    unsafe { libc::write(2, c"said so\n".as_ptr().cast(), 8) };
}

fn assert_exits(code: i32) -> impl Fn(&std::process::Output) {
    move |output| {
        assert_eq!(output.status.code(), Some(code), "{}: {}", output.status, text(output));
        assert!(!stderr(output).contains("overflowed"), "{}", text(output));
    }
}

fn on_green_and_plain(test: &str, before: impl Fn(), fault: fn(), check: impl Fn(&std::process::Output)) {
    let green = || {
        before();
        on(2, || spawn(fault).join().unwrap());
    };
    run(test, "green", green, &check);
    let plain = || {
        before();
        on(2, || spawn(|| ()).join().unwrap());
        std::thread::spawn(fault).join().unwrap();
    };
    run(test, "plain", plain, &check);
}

#[test]
fn a_handler_from_before_gets_the_faults_that_are_no_overflow() {
    let test = "a_handler_from_before_gets_the_faults_that_are_no_overflow";
    let before = || {
        install(libc::SIGSEGV, libc::SA_ONSTACK, exits);
    };
    on_green_and_plain(test, before, || touch(64), assert_exits(42));
}

#[test]
fn a_simple_handler_from_before_without_an_alternate_stack_too() {
    let test = "a_simple_handler_from_before_without_an_alternate_stack_too";
    let before = || {
        install_raw(libc::SIGSEGV, 0, exits_simply as *const () as libc::sighandler_t);
    };
    on_green_and_plain(test, before, || touch(64), assert_exits(44));
}

/// SA_RESETHAND: it is asked once, and the fault that repeats is the default's.
#[test]
fn a_handler_from_before_that_wants_one_fault_gets_one() {
    let test = "a_handler_from_before_that_wants_one_fault_gets_one";
    let before = || {
        install_raw(libc::SIGSEGV, libc::SA_RESETHAND, says_so as *const () as libc::sighandler_t);
    };
    on_green_and_plain(
        test,
        before,
        || touch(64),
        |output| {
            assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}: {}", output.status, text(output));
            assert_eq!(stderr(output).matches("said so").count(), 1, "{}", text(output));
        },
    );
}

#[test]
fn an_overflow_is_named_although_there_was_a_handler_before() {
    let body = || {
        install(libc::SIGSEGV, libc::SA_ONSTACK, exits);
        on(2, || drop(spawn(|| endless(0)).join()));
    };
    run("an_overflow_is_named_although_there_was_a_handler_before", "", body, |output| {
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}: {}", output.status, text(output));
        assert!(stderr(output).contains("has overflowed its stack"), "{}", text(output));
    });
}

/// A handler installed later replaces ours: it gets overflows, too, on the alternate stack that the runtime provides.
#[test]
fn a_handler_installed_later_replaces_ours() {
    let test = "a_handler_installed_later_replaces_ours";
    let later = |fault: fn() -> u64| {
        on(2, move || {
            spawn(|| ()).join().unwrap();
            install(libc::SIGSEGV, libc::SA_ONSTACK, exits);
            drop(spawn(fault).join());
        });
    };
    let null = || {
        later(|| {
            touch(64);
            0
        });
    };
    run(test, "null", null, assert_exits(42));
    run(test, "overflow", || later(|| endless(0)), assert_exits(43));
}

static OURS: std::sync::OnceLock<libc::sigaction> = std::sync::OnceLock::new();

/// As a crash reporter does: its own part first, then the handler that was there before.
extern "C" fn chains(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    says_so(signal);
    let next = OURS.get().expect("set before").sa_sigaction;
    // SAFETY: that of the runtime takes three arguments.
    let next = unsafe { std::mem::transmute::<libc::sighandler_t, Handler>(next) };
    next(signal, info, context);
}

#[test]
fn a_handler_installed_later_that_passes_on_keeps_the_report() {
    let body = || {
        on(2, || {
            let before = install(libc::SIGSEGV, libc::SA_ONSTACK, chains);
            assert!(before.sa_flags & libc::SA_SIGINFO != 0 && OURS.set(before).is_ok());
            drop(spawn(|| endless(0)).join());
        });
    };
    run("a_handler_installed_later_that_passes_on_keeps_the_report", "", body, |output| {
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}: {}", output.status, text(output));
        let said = stderr(output);
        assert!(said.contains("said so") && said.contains("has overflowed its stack"), "{said}");
    });
}
