//! CPU profiles: they name the green thread and the function that computes, and disturb nothing.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::hint::black_box;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use runtime::channel::{TryRecvError, bounded};
use runtime::{profile, spawn, thread};
use tests::{OnDrop, child, on, wait_until};

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static OVER: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn burns(depth: u32) -> u32 {
    if depth > 0 {
        return black_box(burns(black_box(depth - 1))) + 1;
    }
    BEGUN.fetch_add(1, Ordering::SeqCst);
    while !black_box(OVER.load(Ordering::SeqCst)) {}
    0
}

/// Profiles a child, because there is one profile of a process at a time.
#[test]
fn a_profile_names_the_green_thread_and_the_function() {
    const TEST: &str = "a_profile_names_the_green_thread_and_the_function";
    child::passes(TEST, "computes", || {
        on(2, || {
            // A failed check must end the hog too, or it is reported as a hang.
            let over = OnDrop(|| OVER.store(true, Ordering::SeqCst));
            let hog = thread::Builder::new().name("burner".into()).spawn(|| burns(2)).unwrap();
            wait_until("it computes", || BEGUN.load(Ordering::SeqCst) == 1);
            // Samples come with CPU time, of which a loaded machine gives little.
            let (start, mut all, mut folded) = (Instant::now(), 0, String::new());
            while all < 30 && start.elapsed() < Duration::from_secs(40) {
                let profile = profile::cpu(Duration::from_millis(500)).unwrap();
                all += profile.samples();
                // A short profile on a loaded machine may have no sample of the hog.
                let named = profile.to_pprof().windows(6).any(|bytes| bytes == b"burner");
                assert_eq!(named, profile.folded().contains("'burner'"));
                folded.push_str(&profile.folded());
            }
            drop(over);
            assert_eq!(hog.join().unwrap(), 2);
            assert!(all >= 30, "{all} samples");
            let n = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
            let is_hogs = |line: &&str| {
                line.starts_with("green thread 'burner' spawned at tests/tests/inspect/profile.rs:")
            };
            let hogs: Vec<_> = folded.lines().filter(is_hogs).collect();
            // Of the samples of green threads. The thread that reads the hogs' stacks takes as long as the
            // machine lets it.
            let of_green: u64 = folded.lines().filter(|line| line.starts_with("green thread ")).map(n).sum();
            let of_hogs: u64 = hogs.iter().map(|line| n(line)).sum();
            assert!(of_hogs > 0 && of_hogs * 10 >= of_green * 8, "{folded}");
            for line in &hogs {
                assert_eq!(
                    line.matches(";inspect::profile::burns").count(),
                    3,
                    "each stack is whole: {folded}"
                );
                assert!(
                    !line.contains("run_m") && !line.contains("trampoline"),
                    "it ends at the entry: {folded}"
                );
            }
        });
    });
}

// `profile_spins(flag)` spins until the byte at `flag` is not 0. Its first instruction takes part of the
// time, and it calls nothing.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".text",
    ".balign 64",
    ".globl profile_spins",
    ".type profile_spins,@function",
    "profile_spins:",
    ".cfi_startproc",
    "2: cmp byte ptr [rdi], 0",
    "je 2b",
    "ret",
    ".cfi_endproc",
    ".size profile_spins, . - profile_spins",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".text",
    ".balign 64",
    ".globl profile_spins",
    ".type profile_spins,@function",
    "profile_spins:",
    ".cfi_startproc",
    "2: ldarb w1, [x0]",
    "cbz w1, 2b",
    "ret",
    ".cfi_endproc",
    ".size profile_spins, . - profile_spins",
);

// SAFETY: the function above has this signature. It reads the byte and uses no other register than its
// argument's and a scratch one.
unsafe extern "C" {
    safe fn profile_spins(flag: &AtomicBool);
}

/// A sample may come at the first instruction of a function, and in a function that calls nothing and has
/// saved nothing.
#[test]
fn the_innermost_function_is_where_the_sample_was() {
    const TEST: &str = "the_innermost_function_is_where_the_sample_was";
    child::passes(TEST, "spins", || {
        on(2, || {
            let over = OnDrop(|| OVER.store(true, Ordering::SeqCst));
            let spins = || {
                BEGUN.fetch_add(1, Ordering::SeqCst);
                profile_spins(&OVER);
            };
            let hog = thread::Builder::new().name("spinner".into()).spawn(spins).unwrap();
            wait_until("it spins", || BEGUN.load(Ordering::SeqCst) == 1);
            let (start, mut all, mut folded) = (Instant::now(), 0, String::new());
            while all < 50 && start.elapsed() < Duration::from_secs(40) {
                let profile = profile::cpu(Duration::from_millis(500)).unwrap();
                all += profile.samples();
                folded.push_str(&profile.folded());
            }
            drop(over);
            hog.join().unwrap();
            let n = |line: &&str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
            let hogs = || folded.lines().filter(|line| line.starts_with("green thread 'spinner' "));
            // The first samples may be taken before the call.
            let exact = |line: &&str| {
                let (stack, _) = line.rsplit_once(' ').unwrap();
                stack.ends_with(";profile_spins") && stack.contains("the_innermost_function")
            };
            let (of_hog, right) =
                (hogs().map(|l| n(&l)).sum::<u64>(), hogs().filter(exact).map(|l| n(&l)).sum::<u64>());
            assert!(of_hog > 10 && right * 100 >= of_hog * 98, "{right} of {of_hog}: {folded}");
        });
    });
}

#[test]
fn there_is_one_profile_at_a_time() {
    const TEST: &str = "there_is_one_profile_at_a_time";
    child::passes(TEST, "two", || {
        on(2, || {
            // The looks of the other thread are profiles, too, and may take longer than one of the first's:
            // it names what it has found.
            let (over, is_over) = bounded::<()>(0);
            let first = spawn(move || {
                while is_over.try_recv() == Err(TryRecvError::Empty) {
                    let _ = profile::cpu(Duration::from_millis(100));
                }
            });
            wait_until("the first one is taken", || match profile::cpu(Duration::ZERO) {
                Err(error) => error.kind() == ErrorKind::ResourceBusy,
                Ok(_) => false,
            });
            drop(over);
            first.join().unwrap();
            profile::cpu(Duration::ZERO).unwrap();
        });
    });
    child::passes(TEST, "foreign", || {
        extern "C" fn handles(_: libc::c_int) {}
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(libc::SIGPROF, handles as extern "C" fn(libc::c_int) as libc::sighandler_t) };
        let error = on_plain(|| profile::cpu(Duration::from_millis(10))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
    });
}

fn on_plain<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|s| s.spawn(f).join().unwrap())
}

/// Green threads switch all the time, so the signal comes at every step of a switch.
#[test]
fn switches_go_on_under_a_profile() {
    const TEST: &str = "switches_go_on_under_a_profile";
    child::passes(TEST, "switches", || {
        on(2, || {
            let pairs: Vec<_> = (0..4)
                .map(|_| {
                    let (ask, asked) = bounded::<u64>(0);
                    let (answer, answered) = bounded(0);
                    let echo = spawn(move || asked.iter().try_for_each(|n| answer.send(n + 1)));
                    let asks = spawn(move || {
                        let mut n = 0;
                        while !OVER.load(Ordering::Relaxed) {
                            ask.send(n).unwrap();
                            assert_eq!(answered.recv(), Ok(n + 1));
                            n += 1;
                            assert_eq!(spawn(move || n).join().unwrap(), n);
                            let _ = runtime::time::timeout(Duration::from_micros(50), thread::park);
                        }
                        n
                    });
                    (asks, echo)
                })
                .collect();
            for _ in 0..6 {
                let profile = profile::cpu(Duration::from_millis(250)).unwrap();
                assert_eq!(profile.lost(), 0);
            }
            OVER.store(true, Ordering::Relaxed);
            for (asks, echo) in pairs {
                assert!(asks.join().unwrap() > 0);
                echo.join().unwrap().unwrap();
            }
        });
    });
}
