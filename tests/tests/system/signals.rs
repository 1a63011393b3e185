//! Signals on the OS threads of a runtime: handlers of other code work, and no green thread is disturbed.
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

/// Counts what the handler saw.
static HITS: AtomicU64 = AtomicU64::new(0);
static ON_ALTERNATE_STACK: AtomicU64 = AtomicU64::new(0);
/// Signals on an OS thread that has no alternate stack yet, because it is just starting.
static WITHOUT_ONE: AtomicU64 = AtomicU64::new(0);
static LAST_STACK: AtomicUsize = AtomicUsize::new(0);

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

extern "C" fn count(_signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: all zero is a valid value of this plain struct.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: with a null pointer first, `sigaltstack` only writes to `stack`.
    unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) };
    if stack.ss_flags & libc::SS_ONSTACK != 0 {
        ON_ALTERNATE_STACK.fetch_add(1, SeqCst);
    } else if stack.ss_flags & libc::SS_DISABLE != 0 {
        WITHOUT_ONE.fetch_add(1, SeqCst);
    }
    LAST_STACK.store(std::ptr::from_ref(&stack).addr(), SeqCst);
    HITS.fetch_add(1, SeqCst);
}

/// Installs a handler and returns the action that was installed before.
fn install(signal: c_int, flags: c_int, handler: Handler) -> libc::sigaction {
    install_raw(signal, flags | libc::SA_SIGINFO, handler as *const () as libc::sighandler_t)
}

fn install_raw(signal: c_int, flags: c_int, handler: libc::sighandler_t) -> libc::sigaction {
    // SAFETY: all zero is a valid value of this plain struct.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    // SAFETY: the handlers of this file only call async-signal-safe functions.
    assert_eq!(unsafe { libc::sigaction(signal, &action, &mut before) }, 0);
    before
}

/// A real-time signal: several signals of this number may be pending at a time.
fn counted_signal() -> c_int {
    libc::SIGRTMIN() + 3
}

/// Returns the ids of all OS threads of runtimes in this process, with those of sysmon.
fn runtime_threads() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let ours = tasks.filter(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("green"))
    });
    ours.map(|task| task.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

/// Sends the signal to a thread of this process. Returns `false` if the thread has ended.
fn send(thread: i32, signal: c_int) -> bool {
    // SAFETY: `tgkill` takes only numbers.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) == 0 }
}

/// Sends `number` signals to each OS thread of the runtimes, and waits until all have been handled.
fn shower(number: u64) {
    let (before, mut sent) = (HITS.load(SeqCst), 0);
    for _ in 0..number {
        for thread in runtime_threads() {
            sent += u64::from(send(thread, counted_signal()));
        }
        std::thread::sleep(MILLI / 10);
    }
    assert!(sent >= number);
    wait_until("all signals were handled", || HITS.load(SeqCst) >= before + sent);
}

const FLAGS: [c_int; 4] = [0, libc::SA_ONSTACK, libc::SA_RESTART, libc::SA_ONSTACK | libc::SA_RESTART];

#[test]
fn handlers_run_on_idle_and_busy_os_threads() {
    for flags in FLAGS {
        passes("handlers_run_on_idle_and_busy_os_threads", &flags.to_string(), || {
            install(counted_signal(), flags, count);
            with(2, |runtime| {
                // All OS threads are idle: an M in the netpoller, the others parked on their notes.
                runtime.block_on(|| {
                    let blocked: Vec<_> = (0..4)
                        .map(|_| spawn(|| runtime::blocking(|| std::thread::sleep(3 * MILLI))))
                        .collect();
                    blocked.into_iter().for_each(|thread| thread.join().unwrap());
                });
                let listener = runtime.block_on(|| TcpListener::bind("127.0.0.1:0").unwrap());
                std::thread::sleep(5 * MILLI);
                shower(50);
                // The OS threads run green threads that yield, compute, and block.
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
            assert_eq!(
                alternate, expected,
                "of {all} signals, {without} on threads without an alternate stack"
            );
            assert!(without < all / 2, "{without} of {all} signals on threads without an alternate stack");
        });
    }
}

/// Without SA_ONSTACK the handler runs on the current stack, which may be a green thread's.
#[test]
fn a_handler_runs_on_the_requested_stack() {
    for flags in FLAGS {
        passes("a_handler_runs_on_the_requested_stack", &flags.to_string(), || {
            install(counted_signal(), flags, count);
            on(1, || {
                let size = 64 << 10;
                let on_green = thread::Builder::new().stack_size(size).spawn(|| {
                    let here = 0u8;
                    // SAFETY: `raise` takes a number, and the handler may run on this stack.
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

/// Work of all kinds that checks itself: no wait ends early or with an error, and no byte or wake-up is lost.
struct Work {
    stop: Arc<AtomicBool>,
    done: Arc<[AtomicU64; 6]>,
    threads: Vec<JoinHandle<()>>,
}

impl Work {
    /// Starts the work. The caller is a green thread.
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

    /// Spawns a thread that repeats `once` until the end.
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
            // A connection without a byte ends the server.
            drop(TcpStream::connect(addr).unwrap());
            server.join().unwrap();
        }));
    }

    /// Spawns two threads that pass a number back and forth with `park` and `unpark`.
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

    /// Returns `true` if each kind of work has been done `rounds` times.
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
fn a_storm_of_signals_loses_nothing_and_ends_no_wait_early() {
    const STORM: u64 = 10_000;
    for (procs, flags) in [(1, 0), (2, 0), (2, libc::SA_ONSTACK | libc::SA_RESTART), (8, 0)] {
        passes(
            "a_storm_of_signals_loses_nothing_and_ends_no_wait_early",
            &format!("{procs}-{flags}"),
            || {
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
                        // A thread that always has another signal pending does not go on. On a slow machine
                        // that is so if signals are sent faster than they are handled.
                        while HITS.load(SeqCst) < sent {
                            std::thread::sleep(MILLI / 5);
                        }
                        std::thread::sleep(MILLI / 5);
                    }
                    runtime.block_on(|| work.end());
                    assert_eq!(HITS.load(SeqCst), sent);
                    assert_eq!(runtime.handle().metrics().stackless, 0);
                });
            },
        );
    }
}

/// Profilers and alarms: each half millisecond, of real or of CPU time, the system interrupts some thread.
#[test]
fn profiling_and_alarm_timers_may_interrupt_at_any_time() {
    for (timer, signal) in [(libc::ITIMER_PROF, libc::SIGPROF), (libc::ITIMER_REAL, libc::SIGALRM)] {
        passes("profiling_and_alarm_timers_may_interrupt_at_any_time", &signal.to_string(), || {
            install(signal, libc::SA_ONSTACK, count);
            let each = |micros| {
                let time = libc::timeval { tv_sec: 0, tv_usec: micros };
                let value = libc::itimerval { it_interval: time, it_value: time };
                // SAFETY: `setitimer` reads `value`, and the null pointer means that the old value is not
                // wanted.
                let set = unsafe { libc::syscall(libc::SYS_setitimer, timer, &raw const value, 0) };
                assert_eq!(set, 0);
            };
            with(2, |runtime| {
                each(500);
                let work = runtime.block_on(Work::start);
                wait_until("the work and the signals have gone on", || {
                    work.has_done(30) && HITS.load(SeqCst) > 100
                });
                runtime.block_on(|| work.end());
                each(0);
            });
        });
    }
}

#[test]
fn signal_hook_works_beside_the_runtime() {
    passes("signal_hook_works_beside_the_runtime", "", || {
        use signal_hook::consts::{SIGUSR1, SIGUSR2};
        use signal_hook::iterator::Signals;
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGUSR1, flag.clone()).unwrap();
        with(2, |runtime| {
            runtime.block_on(|| {
                // signal_hook's iterator blocks an OS thread of the runtime in its reads.
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
                    wait_until("the iterator returns the signal", || seen.load(SeqCst) >= round);
                    runtime::sleep(MILLI);
                }
                handle.close();
                watcher.join().unwrap();
            });
        });
    });
}

#[test]
fn a_write_to_a_closed_connection_is_an_error_and_no_signal() {
    for default in [false, true] {
        passes("a_write_to_a_closed_connection_is_an_error_and_no_signal", &default.to_string(), || {
            if default {
                // std ignores SIGPIPE from before `main` on.
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
                // From the second write on, the error is the closed pipe.
                assert_eq!(client.write(&[1; 1000]).unwrap_err().kind(), ErrorKind::BrokenPipe);
            });
        });
    }
}

// Faults
// ---------------------------------------------------------------------------------------------------------

#[inline(never)]
fn endless(depth: u64) -> u64 {
    let block = std::hint::black_box([depth; 32]);
    if depth == u64::MAX { 0 } else { endless(depth + 1) + block[(depth % 32) as usize] }
}

fn touch(address: usize) {
    let nowhere = std::hint::black_box(std::ptr::without_provenance_mut::<u32>(address));
    // SAFETY: none. The write must end the process, by its default effect or by a handler.
    unsafe { nowhere.write_volatile(1) };
}

/// Ends the process with an exit code that depends on the fault's address.
extern "C" fn exits(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer, with the address of the fault.
    let at = unsafe { (*info).si_addr().addr() };
    // SAFETY: `_exit` ends the process and takes no pointer.
    unsafe { libc::_exit(if at == 64 { 42 } else { 43 }) }
}

extern "C" fn exits_simply(_signal: c_int) {
    // SAFETY: `_exit` ends the process and takes no pointer.
    unsafe { libc::_exit(44) }
}

/// Prints a line and returns, so that the fault repeats.
extern "C" fn says_so(_signal: c_int) {
    if HITS.fetch_add(1, SeqCst) > 9 {
        // SAFETY: `_exit` ends the process and takes no pointer.
        unsafe { libc::_exit(45) }
    }
    // SAFETY: the buffer has eight bytes and lives for ever.
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
fn an_earlier_handler_gets_faults_other_than_overflows() {
    let test = "an_earlier_handler_gets_faults_other_than_overflows";
    let before = || {
        install(libc::SIGSEGV, libc::SA_ONSTACK, exits);
    };
    on_green_and_plain(test, before, || touch(64), assert_exits(42));
}

#[test]
fn an_earlier_simple_handler_without_an_alternate_stack_gets_faults() {
    let test = "an_earlier_simple_handler_without_an_alternate_stack_gets_faults";
    let before = || {
        install_raw(libc::SIGSEGV, 0, exits_simply as *const () as libc::sighandler_t);
    };
    on_green_and_plain(test, before, || touch(64), assert_exits(44));
}

/// With SA_RESETHAND the handler runs once, and the repeated fault has its default effect.
#[test]
fn an_earlier_handler_for_a_single_fault_runs_once() {
    let test = "an_earlier_handler_for_a_single_fault_runs_once";
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
fn an_overflow_is_reported_despite_an_earlier_handler() {
    let body = || {
        install(libc::SIGSEGV, libc::SA_ONSTACK, exits);
        on(2, || drop(spawn(|| endless(0)).join()));
    };
    run("an_overflow_is_reported_despite_an_earlier_handler", "", body, |output| {
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}: {}", output.status, text(output));
        assert!(stderr(output).contains("has overflowed its stack"), "{}", text(output));
    });
}

/// A handler that is installed later replaces the runtime's handler. It gets overflows too, on the runtime's
/// alternate stack.
#[test]
fn a_later_handler_replaces_the_runtimes() {
    let test = "a_later_handler_replaces_the_runtimes";
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

/// Like a crash reporter: does its own work first, then calls the handler that was installed before.
extern "C" fn chains(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    says_so(signal);
    let next = OURS.get().expect("the earlier handler is stored").sa_sigaction;
    // SAFETY: the runtime's handler is installed with SA_SIGINFO, so it takes three arguments.
    let next = unsafe { std::mem::transmute::<libc::sighandler_t, Handler>(next) };
    next(signal, info, context);
}

#[test]
fn a_later_handler_that_calls_the_earlier_one_keeps_the_report() {
    let body = || {
        on(2, || {
            let before = install(libc::SIGSEGV, libc::SA_ONSTACK, chains);
            assert!(before.sa_flags & libc::SA_SIGINFO != 0 && OURS.set(before).is_ok());
            drop(spawn(|| endless(0)).join());
        });
    };
    run("a_later_handler_that_calls_the_earlier_one_keeps_the_report", "", body, |output| {
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}: {}", output.status, text(output));
        let said = stderr(output);
        assert!(said.contains("said so") && said.contains("has overflowed its stack"), "{said}");
    });
}
