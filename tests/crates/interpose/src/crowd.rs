//! Many clients at once: first a few on plain OS threads, for the results that are expected, then all of them
//! on green threads.

use std::collections::HashSet;
use std::fmt::Debug;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::servers::Watchdog;

/// How many of the clients run on plain OS threads, too.
const PLAIN: usize = 20;

/// How many OS threads beyond P + 6 are allowed on a busy machine: sysmon takes a P for each green thread
/// that has run for 10 ms.
const RESCUES: usize = 40;

/// The ids of the OS threads that libtest has started for tests.
static TESTS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// To be called first by a test that counts OS threads. The test must then end within two minutes: less
/// than its clients would take if each waited for the one before.
#[must_use]
pub fn watch() -> Watchdog {
    lock(&TESTS).push(this_thread());
    raise_limit_of_descriptors();
    Watchdog::within(Duration::from_secs(120))
}

/// Runs the first clients (0, 1, ..) on plain OS threads, and then `count` clients at once on green threads.
/// Prints the times and the numbers of OS threads. Returns the results from the green threads.
///
/// Asserts that a client has the same result on both, and that the OS threads at any moment are at most P +
/// 6, and one for each rescue on a busy machine, up to `RESCUES`. If each client blocked its OS thread, some
/// hundreds would be there.
pub fn run<R: Debug + PartialEq + Send + 'static>(
    name: &str,
    count: usize,
    client: impl Fn(usize) -> R + Copy + Send + 'static,
) -> Vec<R> {
    let start = Instant::now();
    let plain: Vec<_> = (0..PLAIN).map(|i| thread::spawn(move || client(i))).collect();
    let expected: Vec<R> = plain.into_iter().map(|client| client.join().expect("a client")).collect();
    eprintln!("{name}: {PLAIN} on plain OS threads took {:.2?}", start.elapsed());

    let rescues = || {
        let now = runtime::metrics::snapshot();
        (now.rescues_computing + now.rescues_blocked + now.hand_offs) as usize
    };
    let (before, peak, start) = (rescues(), Peak::new(), Instant::now());
    let results = runtime::block_on(move || {
        let builder = || runtime::thread::Builder::new().stack_size(1 << 20);
        let clients = (0..count).map(|i| builder().spawn(move || client(i)).expect("a green thread"));
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().expect("a client")).collect::<Vec<R>>()
    });
    let (peak, time, rescued) = (peak.end(), start.elapsed(), rescues() - before);
    let threads = peak.values().sum::<usize>();
    eprintln!(
        "{name}: {count} at once took {time:.2?} and {threads} OS threads ({peak:?}); {rescued} rescues"
    );
    assert_eq!(results[..PLAIN], expected, "{name}: on green threads and on plain OS threads");
    assert!(threads <= procs() + 6 + rescued.min(RESCUES), "{name}: {peak:?}");
    results
}

/// Returns the number of Ps of the default runtime.
pub fn procs() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The OS threads of this process at the moment when they were most, by name. The threads of libtest and of
/// this module are left out.
pub type Threads = std::collections::BTreeMap<String, usize>;

fn threads() -> Threads {
    let tests: HashSet<u32> =
        lock(&TESTS).iter().copied().chain([std::process::id(), this_thread()]).collect();
    let mut threads = Threads::new();
    for task in fs::read_dir("/proc/self/task").expect("/proc").flatten() {
        let id = task.file_name().to_string_lossy().parse().expect("the id of a thread");
        // A thread that has just ended has no name any more.
        let Ok(name) = fs::read_to_string(task.path().join("comm")) else { continue };
        if !tests.contains(&id) && name.trim() != "watchdog" {
            let digits = |c: char| c.is_ascii_digit() || c == '-';
            *threads.entry(name.trim().trim_end_matches(digits).to_owned()).or_default() += 1;
        }
    }
    threads
}

/// Looks for the highest number of OS threads, every few milliseconds.
#[derive(Debug)]
pub struct Peak {
    stop: Arc<AtomicBool>,
    looks: thread::JoinHandle<Threads>,
}

impl Peak {
    /// Starts to look.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let looks = thread::spawn(move || {
            let mut most = threads();
            while !stopped.load(SeqCst) {
                let now = threads();
                if now.values().sum::<usize>() > most.values().sum() {
                    most = now;
                }
                thread::sleep(Duration::from_millis(3));
            }
            most
        });
        Peak { stop, looks }
    }

    /// Returns the OS threads at the moment when they were most.
    pub fn end(self) -> Threads {
        self.stop.store(true, SeqCst);
        self.looks.join().expect("the thread that looks")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn this_thread() -> u32 {
    // SAFETY: the call has no precondition.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// Raises the number of descriptors that this process may have to the number that the system allows.
pub fn raise_limit_of_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a valid structure.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}
