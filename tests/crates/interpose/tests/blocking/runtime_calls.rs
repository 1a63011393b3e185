//! What the runtime calls itself: system calls, and none of the functions of libc that it replaces.
//! (`ci/raw-calls.sh` checks the symbols.)

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;
use waits::std_word::with_table_locked;

const MILLI: Duration = Duration::from_millis(1);

/// The table is locked by one test at a time.
/// A wake-up of an M is a system call. By the hook of `syscall` it would take a lock of the table of futexes.
/// Threads that wake others for a lock of parking_lot do take one, and wait until the table is free again.
/// So a few rounds, in which two threads have met at such a lock, may end late.
#[test]
fn ms_are_woken_while_the_table_of_futexes_is_locked() {
    const ROUNDS: u32 = 50;
    static RAN: AtomicU32 = AtomicU32::new(0);
    /// The round for which the table is locked.
    static LOCKED_FOR: AtomicU32 = AtomicU32::new(0);
    let _dog = Watchdog::new();
    let runtime = runtime::Builder::new().procs(2).build().unwrap();
    let all_ran = |round| RAN.load(SeqCst) == 4 * round;
    let locks_the_table = |round| {
        with_table_locked(|| {
            LOCKED_FOR.store(round, SeqCst);
            let start = Instant::now();
            while !all_ran(round) && start.elapsed() < 500 * MILLI {
                std::hint::spin_loop();
            }
            all_ran(round)
        })
    };
    std::thread::scope(|scope| {
        let locker = scope.spawn(|| {
            (1..=ROUNDS)
                .filter(|&round| {
                    // All Ms sleep.
                    std::thread::sleep(MILLI);
                    let in_time = locks_the_table(round);
                    while !all_ran(round) {
                        std::thread::yield_now();
                    }
                    in_time
                })
                .count()
        });
        for round in 1..=ROUNDS {
            while LOCKED_FOR.load(SeqCst) < round {
                std::thread::yield_now();
            }
            for _ in 0..4 {
                drop(runtime.spawn(|| RAN.fetch_add(1, SeqCst)));
            }
            while !all_ran(round) {
                std::thread::yield_now();
            }
        }
        let in_time = locker.join().unwrap();
        assert!(in_time >= 40, "{in_time} of {ROUNDS} rounds ended while the table was locked");
    });
}

#[inline(never)]
fn computes_with_the_table_locked(over: &AtomicBool, locked: &AtomicBool) -> Duration {
    let spin = |time: Duration| {
        let start = Instant::now();
        while start.elapsed() < time {
            black_box(());
        }
    };
    let start = Instant::now();
    while !over.load(SeqCst) && start.elapsed() < Duration::from_secs(40) {
        with_table_locked(|| {
            locked.store(true, SeqCst);
            spin(20 * MILLI);
        });
        // Threads that wake others for a lock of parking_lot go on: the dump may wait for one of these.
        spin(2 * MILLI);
    }
    start.elapsed()
}

fn dump() -> String {
    let mut dump = Vec::new();
    runtime::dump(&mut dump).unwrap();
    String::from_utf8(dump).unwrap()
}

/// The handler of SIGURG copies a stack and wakes the thread that has asked for it. It interrupts code that
/// has a lock of the table.
#[test]
fn the_signal_of_the_runtime_interrupts_code_that_has_the_table_locked() {
    static OVER: AtomicBool = AtomicBool::new(false);
    static LOCKED: AtomicBool = AtomicBool::new(false);
    let _dog = Watchdog::new();
    let runtime = runtime::Builder::new().procs(2).build().unwrap();
    for _ in 0..3 {
        OVER.store(false, SeqCst);
        LOCKED.store(false, SeqCst);
        let hog = runtime.spawn(|| computes_with_the_table_locked(&OVER, &LOCKED));
        while !LOCKED.load(SeqCst) {
            std::hint::spin_loop();
        }
        // On a busy machine the first dumps may give up before the handler has run.
        while !dump().contains("computes_with_the_table_locked") {}
        OVER.store(true, SeqCst);
        assert!(hog.join().unwrap() < Duration::from_secs(40));
    }
}

const CASE: &str = "INTERPOSE_OVERFLOW";
const PARKED: i32 = 42;

#[allow(unconditional_recursion, reason = "it overflows its stack")]
fn endless(depth: u64) -> u64 {
    black_box(endless(black_box(depth + 1)) + 1)
}

/// The report of an overflow waits for a dump, in the signal handler. It must not park there: the next green
/// thread would run on the alternate stack, with SIGSEGV blocked.
#[test]
fn the_report_of_a_stack_overflow_parks_nothing() {
    static OVERFLOWS_ON: AtomicI32 = AtomicI32::new(0);
    if std::env::var_os(CASE).is_some() {
        let runtime = runtime::Builder::new().procs(1).dump_on(runtime::signal::SIGUSR2).build().unwrap();
        runtime.block_on(|| {
            // The runtime's one P runs these in turn.
            let deep = runtime::spawn(|| {
                // SAFETY: the call has no condition.
                OVERFLOWS_ON.store(unsafe { libc::gettid() }, SeqCst);
                endless(0)
            });
            let next = runtime::spawn(|| {
                // SAFETY: as above. `_exit` ends the process.
                unsafe {
                    if OVERFLOWS_ON.load(SeqCst) == libc::gettid() {
                        libc::_exit(PARKED);
                    }
                }
            });
            (deep.join().unwrap(), next.join().unwrap())
        });
        unreachable!("the process has ended");
    }
    let _dog = Watchdog::new();
    for _ in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "runtime_calls::the_report_of_a_stack_overflow_parks_nothing", "--nocapture"])
            .env(CASE, "1");
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_ne!(
            output.status.code(),
            Some(PARKED),
            "the next green thread ran on the OS thread of the handler"
        );
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}: {said}", output.status);
        let overflow = said.find("has overflowed its stack").unwrap_or_else(|| panic!("{said}"));
        assert!(said[overflow..].contains("green threads"), "no dump: {said}");
    }
}
