//! Shared parts of the tests: runtimes, seeded random numbers, a watchdog, counted drops, crowds of threads,
//! channels of each kind, small futures, child processes.

pub mod calls;
pub mod channels;
pub mod child;
pub mod crowd;
pub mod folder;
pub mod futures;
#[cfg(target_os = "linux")]
pub mod refused;
pub mod sockets;
pub mod system;
pub mod turns;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use runtime::{Builder, Handle, JoinHandle, Runtime};

/// The numbers of Ps that tests use: one, about as many as a machine has, and more than that.
pub const PROCS: [usize; 3] = [1, 2, 8];

/// True unless `TESTS_SYSMON` is `off`. Without sysmon, a lost wake-up hangs, because nothing rescues it. The
/// functions of this crate that make runtimes follow this setting. `ci/without-sysmon.sh` sets it.
pub fn has_sysmon() -> bool {
    std::env::var_os("TESTS_SYSMON").is_none_or(|what| what != "off")
}

/// True if `RUNTIME_THREAD_LOCALS` is `green`: std's names of a thread then belong to the green thread.
pub fn has_own_locals() -> bool {
    std::env::var_os("RUNTIME_THREAD_LOCALS").is_some_and(|value| value == "green")
}

/// Names an OS thread. On Linux by the kernel's number, because std's id may belong to a green thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OsThread(
    #[cfg(target_os = "linux")] libc::pid_t,
    #[cfg(not(target_os = "linux"))] std::thread::ThreadId,
);

/// Returns the OS thread of the caller. Not inlined, because it may read a thread-local.
#[inline(never)]
pub fn os_thread() -> OsThread {
    #[cfg(target_os = "linux")]
    // SAFETY: the call has no requirements.
    return OsThread(unsafe { libc::gettid() });
    #[cfg(not(target_os = "linux"))]
    OsThread(thread::current().id())
}

/// Returns `builder`, without sysmon if [`has_sysmon`] is false.
fn as_wanted(builder: Builder) -> Builder {
    if has_sysmon() { builder } else { builder.sysmon(false) }
}

/// Returns a runtime with `procs` Ps.
pub fn runtime(procs: usize) -> Runtime {
    as_wanted(Builder::new().procs(procs)).build().expect("a runtime")
}

/// Runs `main` on the calling thread with a runtime of `procs` Ps, under a watchdog.
pub fn with(procs: usize, main: impl FnOnce(&Runtime)) {
    with_built(Builder::new().procs(procs), main);
}

/// Runs `main` on the calling thread with a runtime that `builder` makes, under a watchdog.
pub fn with_built(builder: Builder, main: impl FnOnce(&Runtime)) {
    let dog = Watchdog::new();
    let runtime = as_wanted(builder).build().expect("a runtime");
    dog.show(runtime.handle());
    main(&runtime);
    if !has_sysmon() {
        assert_no_rescue(&runtime.handle());
    }
}

/// Checks that no P was taken, and no wake-up by sysmon counted, in the runtime.
pub fn assert_no_rescue(handle: &Handle) {
    let now = handle.metrics();
    assert_eq!(now.preemptions + now.sysmon_wakeups, 0, "this runtime has no sysmon: {now:#?}");
}

/// Runs `main` as a green thread of a runtime with `procs` Ps, under a watchdog.
pub fn on(procs: usize, main: impl FnOnce() + Send) {
    with(procs, |runtime| runtime.block_on(main));
}

/// Runs `main` as a green thread of a runtime, for each number of Ps in [`PROCS`].
pub fn on_each(main: impl Fn() + Send + Sync) {
    for procs in PROCS {
        on(procs, &main);
    }
}

/// Runs `main` as [`on_each`] does, and on a plain OS thread.
pub fn everywhere(main: impl Fn() + Send + Sync) {
    on_each(&main);
    let _dog = Watchdog::new();
    main();
}

/// Ends the process when a test hangs, and prints the metrics of runtimes and a dump of all green threads.
/// With `TESTS_ON_HANG=wait` it keeps the process for a debugger. `TESTS_HANG_SECS` sets the time after which
/// a test hangs.
#[derive(Debug)]
pub struct Watchdog {
    shown: Arc<Mutex<Vec<Handle>>>,
    _alive: mpsc::Sender<()>,
}

impl Watchdog {
    /// Starts a watchdog with the default time.
    pub fn new() -> Self {
        let secs = std::env::var("TESTS_HANG_SECS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
        Watchdog::after(Duration::from_secs(secs))
    }

    /// Starts a watchdog that ends the process after `time`, unless the watchdog is dropped first.
    pub fn after(time: Duration) -> Self {
        let shown = Arc::new(Mutex::new(Vec::<Handle>::new()));
        let (alive, ended) = mpsc::channel();
        let (name, handles) = (thread::current().name().unwrap_or("?").to_string(), shown.clone());
        thread::Builder::new()
            .name("watchdog".into())
            .spawn(move || {
                if ended.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let handles = handles.lock().unwrap();
                    hang(&name, &handles);
                }
            })
            .expect("a thread");
        Watchdog { shown, _alive: alive }
    }

    /// Prints the metrics of this runtime too when the test hangs.
    pub fn show(&self, handle: Handle) {
        self.shown.lock().unwrap().push(handle);
    }
}

impl Default for Watchdog {
    fn default() -> Self {
        Watchdog::new()
    }
}

/// Ends the process because `name` hangs. Prints the metrics of the runtimes and a dump; see [`Watchdog`].
pub fn hang(name: &str, handles: &[Handle]) -> ! {
    // Not by `eprintln!`: the harness would keep that for the end of the test, which never comes.
    let mut stderr = std::io::stderr();
    let _ = writeln!(stderr, "{name}: hangs (pid {})", std::process::id());
    for moment in ["now", "one second later"] {
        for handle in handles {
            let _ = writeln!(stderr, "{moment}: {:#?}", handle.metrics());
        }
        thread::sleep(Duration::from_secs(1));
    }
    if let Err(error) = runtime::dump(&mut stderr) {
        let _ = writeln!(stderr, "no dump: {error}");
    }
    while std::env::var_os("TESTS_ON_HANG").is_some_and(|what| what == "wait") {
        thread::sleep(Duration::from_secs(1));
    }
    std::process::abort();
}

/// Polls `condition` until it holds, for what has no wait of its own. Panics after 50 s. For plain and green
/// threads.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(50), "waited too long until {what}");
        runtime::sleep(Duration::from_micros(200));
    }
}

/// Waits until `thread`, a green thread without a name, waits according to a dump, or has ended.
pub fn until_it_waits<T>(thread: &JoinHandle<T>) {
    let id = format!("{:?}", thread.thread().id());
    let line = format!("green thread {}: waits for", id.trim_matches(|c: char| !c.is_ascii_digit()));
    wait_until("the green thread waits", || {
        if thread.is_finished() {
            return true;
        }
        let mut dump = Vec::new();
        runtime::dump(&mut dump).unwrap();
        String::from_utf8(dump).unwrap().contains(&line)
    });
}

/// A random number generator. The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// Makes a generator. Any seed is allowed.
    pub fn new(seed: u64) -> Self {
        Random(fastrand::Rng::with_seed(seed))
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a number from 0 to n - 1.
    ///
    /// # Panics
    /// If n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.u64(..n)
    }
}

/// Counts its tokens: how many were made, and how many dropped.
#[derive(Clone, Debug, Default)]
pub struct Drops(Arc<(AtomicUsize, AtomicUsize)>);

/// A token with a counted drop.
#[derive(Debug)]
pub struct Token(Drops);

impl Drops {
    /// Makes a token.
    pub fn token(&self) -> Token {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        Token(self.clone())
    }

    /// Returns the number of dropped tokens.
    pub fn count(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    /// Returns the number of live tokens. It is negative if a token was dropped twice.
    pub fn alive(&self) -> isize {
        self.0.0.load(Ordering::SeqCst) as isize - self.count() as isize
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.0.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// Calls a closure when it is dropped.
pub struct OnDrop<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl<F: FnMut()> std::fmt::Debug for OnDrop<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnDrop")
    }
}

/// The text in messages of panics on purpose. They are not printed.
pub const ON_PURPOSE: &str = "on purpose";

/// Keeps panics with [`ON_PURPOSE`] in their message off stderr.
pub fn quiet_panics_on_purpose() {
    quiet_panics_that_say(ON_PURPOSE);
}

/// Checks that `f` panics with a message that contains `text`. Such panics are no longer printed.
#[track_caller]
pub fn panics_with<T>(text: &'static str, f: impl FnOnce() -> T) {
    quiet_panics_that_say(text);
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { panic!("the closure did not panic") };
    let said = payload.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| payload.downcast_ref::<&str>().copied());
    assert!(said.is_some_and(|said| said.contains(text)), "the message was {said:?}");
}

fn quiet_panics_that_say(text: &'static str) {
    static QUIET: RwLock<Vec<&str>> = RwLock::new(Vec::new());
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let said = info.payload_as_str().unwrap_or_default();
            if !QUIET.read().unwrap().iter().any(|text| said.contains(text)) {
                before(info);
            }
        }));
    });
    let known = QUIET.read().unwrap().contains(&text);
    if !known {
        QUIET.write().unwrap().push(text);
    }
}

/// Computes for `time`, without a call into the runtime.
pub fn spin(time: Duration) -> u64 {
    let (start, mut x) = (Instant::now(), 1u64);
    while start.elapsed() < time {
        for _ in 0..1000 {
            x = std::hint::black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        }
    }
    x
}
