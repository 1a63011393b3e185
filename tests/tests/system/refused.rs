//! System calls that a sandbox refuses, or that an older kernel does not have. A program of all the basics
//! gives the same results without each of them, or gets an error that names the reason.
#![cfg(target_os = "linux")]

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::channel::{bounded, unbounded};
use runtime::net::unix::UnixStream;
use runtime::net::{TcpListener, TcpStream, UdpSocket};
use runtime::process::Command;
use runtime::sync::{Condvar, Mutex};
use runtime::time::{Ticker, after_func, timeout};
use runtime::{Builder, Handle, blocking, fs, scope, sleep, spawn, thread};
use tests::child::text;
use tests::folder::Folder;
use tests::refused::{Refused, hide_proc, refuse};
use tests::{Watchdog, has_sysmon};

const MILLI: Duration = Duration::from_millis(1);
/// Longer than any step takes on a busy machine.
const LONG: Duration = Duration::from_secs(40);

// The program --------------------------------------------------------------------------------------------

/// What the child prints when the kernel has no filters, or none for this process.
const LEFT_OUT: &str = "left out:";
const ALL_RIGHT: &str = "all results are right";

fn built(procs: usize) -> runtime::Runtime {
    let builder = Builder::new().procs(procs);
    let builder = if has_sysmon() { builder } else { builder.sysmon(false) };
    builder.build().expect("a runtime")
}

/// Uses the basics, checks each result, and overflows a stack at the end.
fn program() {
    let runtime = built(2);
    runtime.block_on(|| {
        spawns();
        times();
        waits();
        sockets();
        files();
        children();
    });
    drop(runtime);
    if has_sysmon() {
        computing_and_blocking();
    }
    println!("{ALL_RIGHT}");
    let runtime = built(1);
    runtime.block_on(|| {
        thread::Builder::new().name("deep".into()).spawn(|| endless(0)).unwrap().join().unwrap()
    });
}

fn spawns() {
    let numbers: Vec<_> = (0..300_u64)
        .map(|i| {
            spawn(move || {
                sleep(MILLI);
                i
            })
        })
        .collect();
    assert_eq!(numbers.into_iter().map(|number| number.join().unwrap()).sum::<u64>(), 300 * 299 / 2);
    let mut parts = [0; 4];
    scope(|s| {
        for part in &mut parts {
            s.spawn(|| *part += 1);
        }
    });
    assert_eq!(parts, [1; 4]);
    // A panic unwinds a stack.
    tests::quiet_panics_on_purpose();
    assert!(spawn(|| panic!("{}", tests::ON_PURPOSE)).join().is_err());
    let mut dump = Vec::new();
    runtime::dump(&mut dump).unwrap();
    assert!(String::from_utf8(dump).unwrap().contains("green thread"));
}

fn times() {
    for time in [Duration::from_micros(300), 2 * MILLI, 11 * MILLI] {
        let start = Instant::now();
        sleep(time);
        assert!((time..LONG).contains(&start.elapsed()), "{time:?} took {:?}", start.elapsed());
    }
    let ticker = Ticker::new(MILLI);
    let ticks: Vec<_> = ticker.channel().iter().take(3).collect();
    assert!(ticks.is_sorted());
    let (sender, receiver) = unbounded();
    let timer = after_func(MILLI, move || sender.send(7).unwrap());
    assert_eq!(receiver.recv(), Ok(7));
    assert!(!timer.stop());
    assert!(timeout(2 * MILLI, || sleep(2 * LONG)).is_err());
}

fn waits() {
    const EACH: u64 = 2_000;
    let (sender, receiver) = bounded(4);
    let senders: Vec<_> = (0..3)
        .map(|_| {
            let sender = sender.clone();
            spawn(move || (0..EACH).for_each(|i| sender.send(i).unwrap()))
        })
        .collect();
    drop(sender);
    assert_eq!(receiver.iter().sum::<u64>(), 3 * EACH * (EACH - 1) / 2);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let adders: Vec<_> = (0..4)
        .map(|_| {
            let shared = shared.clone();
            spawn(move || {
                for _ in 0..100 {
                    *shared.0.lock() += 1;
                    shared.1.notify_one();
                }
            })
        })
        .collect();
    let mut sum = shared.0.lock();
    while *sum < 400 {
        shared.1.wait(&mut sum);
    }
    drop(sum);
    adders.into_iter().for_each(|adder| adder.join().unwrap());
    // A wake-up by a plain OS thread, and one of it.
    let (to_green, from_plain) = bounded(0);
    let plain = std::thread::spawn(move || (0..50).for_each(|i| to_green.send(i).unwrap()));
    assert_eq!(from_plain.iter().sum::<i32>(), 50 * 49 / 2);
    blocking(|| plain.join().unwrap());
}

fn echoed(mut client: impl Read + Write + Send, mut server: impl Read + Write + Send) {
    // More than the buffers of the sockets hold.
    let sent: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
    scope(|s| {
        s.spawn(|| {
            let mut got = vec![0; 200_000];
            server.read_exact(&mut got).unwrap();
            server.write_all(&got).unwrap();
        });
        client.write_all(&sent).unwrap();
        let mut back = vec![0; 200_000];
        client.read_exact(&mut back).unwrap();
        assert!(back == sent);
    });
}

fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = spawn(move || listener.accept().unwrap().0);
    let client = TcpStream::connect(address).unwrap();
    echoed(client, accepting.join().unwrap());
    let (client, server) = UnixStream::pair().unwrap();
    echoed(client, server);
    let [one, other] = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    let waiting = {
        let one = one.try_clone().unwrap();
        spawn(move || one.recv(&mut [0; 9]).unwrap())
    };
    other.send_to(b"five!", one.local_addr().unwrap()).unwrap();
    assert_eq!(waiting.join().unwrap(), 5);
    // Whether the file of the names of hosts is there or not.
    assert!(TcpStream::connect(("localhost", address.port())).is_err());
}

fn files() {
    let folder = Folder::new();
    let [from, to] = ["from", "to"].map(|name| folder.path(name));
    fs::write(&from, b"some bytes").unwrap();
    assert_eq!(fs::metadata(&from).unwrap().len(), 10);
    assert_eq!(fs::copy(&from, &to).unwrap(), 10);
    assert_eq!(fs::read(&to).unwrap(), b"some bytes");
    assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 2);
}

fn children() {
    let mut waited = Command::new("sh").args(["-c", "sleep 0.02; exit 7"]).spawn().unwrap();
    assert_eq!(waited.wait().unwrap().code(), Some(7));
    let output = Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).output().unwrap();
    assert_eq!(
        (output.status.code(), &output.stdout[..], &output.stderr[..]),
        (Some(3), &b"out\n"[..], &b"err\n"[..])
    );
    let mut killed = Command::new("sleep").arg("100").spawn().unwrap();
    assert!(timeout(2 * MILLI, || killed.wait()).is_err());
    killed.kill().unwrap();
    assert_eq!(killed.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// The only P is taken from green threads that compute or block unannounced, also from more of them than may
/// have OS threads at once.
fn computing_and_blocking() {
    const HOGS: u64 = 12;
    let runtime = built(1);
    let handle: Handle = runtime.handle();
    runtime.block_on(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let hogs: Vec<_> = (0..HOGS)
            .map(|i| {
                let (stop, rounds) = (stop.clone(), rounds.clone());
                spawn(move || {
                    while !stop.load(SeqCst) {
                        if i % 4 == 0 {
                            std::thread::sleep(MILLI)
                        } else {
                            tests::spin(MILLI / 10);
                        }
                        rounds.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            let before = rounds.load(SeqCst);
            sleep(2 * MILLI);
            tests::wait_until("a hog goes on", || rounds.load(SeqCst) > before);
        }
        stop.store(true, SeqCst);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
    assert!(handle.metrics().preemptions > 0, "{:#?}", handle.metrics());
}

#[inline(never)]
fn endless(depth: u64) -> u64 {
    let block = std::hint::black_box([depth; 32]);
    if depth == u64::MAX { 0 } else { endless(depth + 1) + block[(depth % 32) as usize] }
}

// The refusals -------------------------------------------------------------------------------------------

/// Set in the process that is restricted from its start.
const RESTRICTED: &str = "TESTS_RESTRICTED";

/// Runs `body` in a child that is restricted by `restrict` from its start: libc and std make calls before
/// `main`, and keep what they have found out. Prints the reason if the system has no such restriction.
#[track_caller]
fn runs_after(
    test: &str,
    case: &str,
    restrict: impl Fn() -> io::Result<()>,
    body: impl Fn(),
    check: impl Fn(&Output),
) {
    let restricted = || {
        if std::env::var_os(RESTRICTED).is_some() {
            let _dog = Watchdog::new();
            return body();
        }
        let mut again = tests::child::this_program();
        again.args(std::env::args().skip(1)).env(RESTRICTED, "yes");
        let error = restrict().err().unwrap_or_else(|| again.exec());
        println!("{LEFT_OUT} {error}");
    };
    tests::child::run(test, case, restricted, |output| {
        if text(output).contains(LEFT_OUT) {
            println!("{test}: {}", text(output));
        } else {
            check(output);
        }
    });
}

/// Checks that a child has run the program to its end, and has reported the overflow.
fn assert_ran(test: &str, case: &str, output: &Output) {
    let said = text(output);
    let words = [ALL_RIGHT, "green thread 'deep'", "has overflowed its stack"];
    // Without signals to threads, libc's `abort` ends the process by another signal.
    let right = words.iter().all(|words| said.contains(words)) && output.status.signal().is_some();
    assert!(right, "{test}/{case}: {}\n{said}", output.status);
}

/// Runs the program in children, in which the kernel refuses these calls with each of these errors.
#[track_caller]
fn runs_without(test: &str, calls: &[Refused], errors: &[(&str, i32)]) {
    for (name, errno) in errors {
        let body = || {
            // The filter is there.
            calls.iter().for_each(|call| assert_eq!(call.answer(), *errno, "{call:?}"));
            program();
        };
        runs_after(test, name, || refuse(calls, *errno), body, |output| assert_ran(test, name, output));
    }
}

/// A kernel that has never had the call, and a container that forbids the call.
const BOTH: &[(&str, i32)] = &[("ENOSYS", libc::ENOSYS), ("EPERM", libc::EPERM)];

macro_rules! refused {
    ($($name:ident: $($call:ident),+;)*) => {$(
        #[test]
        fn $name() {
            runs_without(stringify!($name), &[$(Refused::call(libc::$call)),+], BOTH);
        }
    )*};
}

refused! {
    barriers: SYS_membarrier;
    alarms: SYS_timerfd_create;
    settings_of_alarms: SYS_timerfd_settime;
    descriptors_of_children: SYS_pidfd_open, SYS_pidfd_send_signal;
    settings_of_slices: SYS_sched_setattr, SYS_sched_getattr;
    sets_of_processors: SYS_sched_setaffinity, SYS_sched_getaffinity;
    advice: SYS_madvise;
    looks_at_pages: SYS_mincore;
    settings_of_threads: SYS_prctl;
    reads_of_own_memory: SYS_process_vm_readv;
    signals_to_threads: SYS_tgkill;
    restartable_sequences: SYS_rseq;
    lists_of_robust_locks: SYS_get_robust_list, SYS_set_robust_list;
    ranges_of_descriptors: SYS_close_range;
    newer_waits: SYS_epoll_pwait2;
    rings: SYS_io_uring_setup, SYS_io_uring_enter;
    copies_in_the_kernel: SYS_copy_file_range, SYS_splice, SYS_sendfile;
    random_bytes: SYS_getrandom;
    sleeps_of_threads: SYS_nanosleep;
    limits: SYS_prlimit64;
}

/// glibc takes the older call only for `ENOSYS`, and starts no thread for `EPERM`.
#[test]
fn newer_starts_of_threads() {
    runs_without("newer_starts_of_threads", &[Refused::call(libc::SYS_clone3)], &BOTH[..1]);
}

/// On 32 bits the loader of glibc takes the older call only for `ENOSYS`, and starts no program for `EPERM`.
#[test]
fn newer_metadata() {
    let errors = if cfg!(target_pointer_width = "64") { BOTH } else { &BOTH[..1] };
    runs_without("newer_metadata", &[Refused::call(libc::SYS_statx)], errors);
}

/// Before Linux 6.13, and in a sandbox that knows no newer advice.
#[test]
fn marks_of_guards() {
    const MADV_GUARD_INSTALL: u32 = 102;
    let marks = Refused { call: libc::SYS_madvise, with: Some((2, MADV_GUARD_INSTALL)) };
    let errors = [("EINVAL", libc::EINVAL), BOTH[0], BOTH[1]];
    runs_without("marks_of_guards", &[marks], &errors);
}

/// Commands of the barrier that the kernel refuses after it has taken the registration.
#[test]
fn barriers_after_their_registration() {
    let barrier = Refused {
        call: libc::SYS_membarrier,
        with: Some((0, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED as u32)),
    };
    runs_without("barriers_after_their_registration", &[barrier], BOTH);
}

/// All at once that a kernel of 2019 does not have.
#[test]
fn all_newer_calls() {
    let calls = [
        libc::SYS_pidfd_open,
        libc::SYS_epoll_pwait2,
        libc::SYS_close_range,
        libc::SYS_clone3,
        libc::SYS_rseq,
        libc::SYS_membarrier,
        libc::SYS_io_uring_setup,
    ];
    runs_without("all_newer_calls", &calls.map(Refused::call), &BOTH[..1]);
}

#[test]
fn the_folder_of_processes() {
    const TEST: &str = "the_folder_of_processes";
    runs_after(TEST, "", hide_proc, program, |output| assert_ran(TEST, "", output));
}

/// Nothing else wakes an OS thread that waits for sockets.
#[test]
fn no_runtime_is_built_without_events() {
    const TEST: &str = "no_runtime_is_built_without_events";
    for ((name, errno), kind) in BOTH.iter().zip([ErrorKind::Unsupported, ErrorKind::PermissionDenied]) {
        for (call, number) in [("eventfd2", libc::SYS_eventfd2), ("epoll_create1", libc::SYS_epoll_create1)] {
            let body = || {
                let error = Builder::new().build().unwrap_err();
                println!("{:?}: {error}", error.kind());
            };
            let check = |output: &Output| {
                let said = text(output);
                let kind = format!("{kind:?}: the system refuses the calls that wait for events");
                assert!(output.status.success() && said.contains(&kind) && said.contains(call), "{said}");
            };
            let refusal = [Refused::call(number)];
            runs_after(TEST, &format!("{call} {name}"), || refuse(&refusal, *errno), body, check);
        }
    }
}
