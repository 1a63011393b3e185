//! Reports of hogs: which green thread, spawned where, and in which functions it computed; and of wake-ups
//! that came late.
#![cfg(target_os = "linux")]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use runtime::metrics::{Hog, LateWake};
use runtime::{Builder, Runtime, sleep, thread, yield_now};
use tests::{Watchdog, wait_until};

type Reports = Arc<Mutex<Vec<Hog>>>;

/// Returns a runtime with one P and the reports of its hogs.
fn reporting() -> (Runtime, Reports) {
    let reports = Reports::default();
    let told = reports.clone();
    let builder = Builder::new().procs(1).on_hog(move |hog| told.lock().unwrap().push(hog.clone()));
    (builder.build().unwrap(), reports)
}

/// Runs `hog` in a green thread of this name until a report satisfies `is_it`, while another green thread
/// wants the P.
fn hog_until(name: &str, hog: fn(&AtomicBool), is_it: impl Fn(&Hog) -> bool) -> Hog {
    let _dog = Watchdog::new();
    let (runtime, reports) = reporting();
    let stop = Arc::new(AtomicBool::new(false));
    let stops = stop.clone();
    let other = runtime.spawn(|| {
        loop {
            sleep(Duration::from_millis(1));
        }
    });
    let builder = thread::Builder::new().name(name.into());
    let line = line!() + 1;
    let hogging = builder.spawn_on(move || hog(&stops), &runtime.handle()).unwrap();
    let found = || reports.lock().unwrap().iter().find(|hog| is_it(hog)).cloned();
    let start = Instant::now();
    while found().is_none() {
        if start.elapsed() > Duration::from_secs(30) {
            stop.store(true, SeqCst);
            panic!("{:#?}", reports.lock().unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    stop.store(true, SeqCst);
    hogging.join().unwrap();
    let hog = found().unwrap();
    assert_eq!(hog.rescue.spawned_at, format!("{}:{line}", file!()));
    assert_eq!(hog.rescue.name.as_deref(), Some(name));
    let counted = runtime.handle().hogs();
    let at = counted.iter().find(|at| at.place.is_some_and(|place| place.line() == line)).unwrap();
    assert!(at.computing + at.blocked >= 1 && at.away > Duration::ZERO, "{at:#?}");
    // A dump shows the same, with the last stack.
    let mut dump = Vec::new();
    runtime::dump(&mut dump).unwrap();
    let dump = String::from_utf8(dump).unwrap();
    // Runtimes of other tests may have hogs of this place, too.
    let of_place: Vec<_> = dump.split(&format!("\nhogs spawned at {}:{line}:", file!())).skip(1).collect();
    assert!(!of_place.is_empty(), "{dump}");
    let with_frames = |lines: &&str| lines.lines().nth(1).is_some_and(|frame| frame.starts_with("    "));
    assert!(at.stack.is_empty() || of_place.iter().any(with_frames), "{dump}");
    other.cancel();
    hog
}

#[cfg(feature = "dump-stacks")]
fn shows(hog: &Hog, function: &str) -> bool {
    hog.stack.iter().any(|frame| frame.function.ends_with(function))
}

#[inline(never)]
fn a_named_hog(stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        black_box(computes_in_a_callee(black_box(1000)));
        // Without this call, the hog would be rescued only once.
        if black_box(false) {
            yield_now();
        }
    }
}

#[inline(never)]
fn computes_in_a_callee(n: u64) -> u64 {
    (0..n).fold(1, |product, i| black_box(product ^ i))
}

#[test]
fn a_hog_is_reported_with_its_name_and_spawn_place() {
    let hog = hog_until("hog\u{1b}[2J", a_named_hog, |_| true);
    // Some systems do not say what an OS thread does.
    let (blocked, did) =
        if cfg!(portable) { (None, "computed or blocked") } else { (Some(false), "computed") };
    assert_eq!(hog.rescue.blocked, blocked);
    assert!(hog.to_string().contains(&format!(r"'hog\u{{1b}}[2J' {did} for ")), "{hog}");
}

/// A hog that is rescued again and again: it parks in between.
#[cfg(feature = "dump-stacks")]
fn again_and_again(stop: &AtomicBool, compute: fn()) {
    while !stop.load(SeqCst) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            compute();
        }
        sleep(Duration::from_millis(1));
    }
}

#[cfg(feature = "dump-stacks")]
#[test]
fn the_stack_of_a_hog_shows_its_functions() {
    let hog = hog_until("hog", a_named_hog, |hog| shows(hog, "a_named_hog"));
    assert!(hog.stack.last().unwrap().function.contains("closure"), "{hog}");
    assert!(hog.stack.iter().all(|frame| !frame.function.contains("stack_init_trampoline")), "{hog}");
}

#[cfg(feature = "dump-stacks")]
#[test]
fn a_hog_in_the_c_library_shows_who_called_it() {
    #[inline(never)]
    fn sorts_in_c() {
        extern "C" fn by_value(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
            // SAFETY: `qsort` passes pointers to elements.
            unsafe { (*a.cast::<u64>()).cmp(&*b.cast::<u64>()) as libc::c_int }
        }
        let mut numbers: Vec<u64> = (0..20_000_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        // SAFETY: the vector has that many elements of that size.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 8, Some(by_value)) };
        assert!(numbers.is_sorted());
    }
    let hog = |stop: &AtomicBool| again_and_again(stop, sorts_in_c);
    hog_until("sorts", hog, |hog| shows(hog, "sorts_in_c"));
}

#[cfg(feature = "dump-stacks")]
#[test]
fn a_hog_under_malloc_shows_who_called_it() {
    #[inline(never)]
    fn allocates() {
        for size in 1..200 {
            black_box(vec![0_u8; black_box(size * 37)]);
        }
    }
    let hog = |stop: &AtomicBool| again_and_again(stop, allocates);
    hog_until("allocates", hog, |hog| shows(hog, "allocates"));
}

#[test]
fn a_thousand_hogs_give_a_few_reports_and_are_all_counted() {
    const HOGS: usize = 1000;
    let _dog = Watchdog::after(Duration::from_secs(120));
    let (runtime, reports) = reporting();
    let (begun, start) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let stop = Arc::new(AtomicBool::new(false));
    let hogs: Vec<_> = (0..HOGS)
        .map(|_| {
            let (stop, begun) = (stop.clone(), begun.clone());
            runtime.spawn(move || {
                begun.fetch_add(1, SeqCst);
                while !stop.load(SeqCst) {}
            })
        })
        .collect();
    wait_until("a hundred hogs have begun", || begun.load(SeqCst) >= 100);
    stop.store(true, SeqCst);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    let now = runtime.handle().metrics();
    let counted: u64 = runtime.handle().hogs().iter().map(|at| at.computing + at.blocked).sum();
    assert!(counted >= 99, "{counted} rescues");
    assert!(counted <= now.rescues_computing + now.rescues_blocked);
    // All are of one place: one report in a second.
    wait_until("the first report is made", || !reports.lock().unwrap().is_empty());
    let (reports, seconds) = (reports.lock().unwrap().len() as u64, start.elapsed().as_secs());
    assert!((1..=seconds + 2).contains(&reports), "{reports} reports in {seconds} s");
}

#[test]
fn a_panic_of_the_users_function_ends_no_reports() {
    let _dog = Watchdog::new();
    let told = Arc::new(AtomicUsize::new(0));
    let tells = told.clone();
    let call = move |_: &Hog| {
        tells.fetch_add(1, SeqCst);
        std::panic::resume_unwind(Box::new("on purpose"));
    };
    let runtime = Builder::new().procs(1).on_hog(call).build().unwrap();
    runtime.block_on(|| {
        while told.load(SeqCst) < 2 {
            let other = runtime::spawn(|| ());
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(50) {}
            other.join().unwrap();
        }
    });
}

#[test]
fn a_wake_up_behind_a_hog_is_told_and_one_in_time_is_not() {
    let _dog = Watchdog::new();
    let late = Arc::new(Mutex::new(Vec::<LateWake>::new()));
    let told = late.clone();
    let call = move |wake: &LateWake| told.lock().unwrap().push(wake.clone());
    let bound = Duration::from_millis(30);
    // Without sysmon the hog keeps its P.
    let builder = Builder::new().procs(1).sysmon(false).on_late_wake(bound, call);
    let runtime = builder.build().unwrap();
    let line = line!() + 2;
    runtime.block_on(|| {
        let waits = thread::Builder::new().name("waits".into()).spawn(|| ()).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(60) {}
        waits.join().unwrap();
    });
    let of_waits = || late.lock().unwrap().iter().find(|wake| wake.name.as_deref() == Some("waits")).cloned();
    wait_until("the late wake-up is told", || of_waits().is_some());
    let wake = of_waits().unwrap();
    assert_eq!(wake.spawned_at, format!("{}:{line}", file!()));
    assert!(wake.late >= Duration::from_millis(59), "{wake:?}");
    assert!(late.lock().unwrap().iter().all(|wake| wake.late >= bound));
}

#[test]
fn the_threads_of_dropped_runtimes_end() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    for _ in 0..50 {
        let (runtime, _) = reporting();
        runtime.block_on(|| ());
    }
    // Other tests of this file have some threads.
    wait_until("the threads have ended", || threads() <= before + 30);
}
