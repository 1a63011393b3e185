//! The watchdog: ends the process, with all that is known, after a failed check or when an operation lasts
//! too long.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::board;
use crate::settings::Settings;
use crate::site::Site;

/// Messages of panics that the soak expects, beside the messages that begin with `ON_PURPOSE`.
const EXPECTED: [&str; 3] = [
    tests::ON_PURPOSE,
    "a scoped thread panicked",
    "cannot spawn a green thread: its runtime has been shut down",
];

/// If the watchdog's tick lasts this long, the machine stood still, and slow operations are not the runtime's
/// fault.
const STANDSTILL: Duration = Duration::from_secs(2);

static AGAIN: OnceLock<String> = OnceLock::new();
static SITES: Mutex<Vec<Weak<Site>>> = Mutex::new(Vec::new());

/// Starts the watchdog, and a panic hook that reports each unexpected panic.
pub(crate) fn start(settings: &Settings) {
    AGAIN.set(settings.again()).expect("the watchdog starts once");
    let patience = settings.patience;
    thread::Builder::new().name("watchdog".into()).spawn(move || watch(patience)).expect("a thread");
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or("");
        // Panics that only repeat an expected panic are not reported.
        if EXPECTED.iter().any(|expected| text.starts_with(expected)) {
            return;
        }
        before(info);
        report("a check failed");
        std::process::abort();
    }));
}

/// Adds `site` to the sites with metrics in a report.
pub(crate) fn show(site: &Arc<Site>) {
    let mut sites = SITES.lock().unwrap();
    sites.retain(|site| site.strong_count() > 0);
    sites.push(Arc::downgrade(site));
}

fn watch(patience: Duration) {
    loop {
        let start = Instant::now();
        thread::sleep(board::TICK);
        board::tick();
        let slept = start.elapsed();
        if slept > STANDSTILL {
            println!("the machine stood still for {:.1} s", slept.as_secs_f64());
        }
        if let Some(place) = board::who_hangs(patience) {
            report(&format!("{place} hangs"));
            let sites = SITES.lock().unwrap().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
            tests::hang("soak", &sites.iter().map(|site| site.handle.clone()).collect::<Vec<_>>());
        }
    }
}

fn report(what: &str) {
    let again = AGAIN.get().map_or("", String::as_str);
    eprintln!(
        "\nsoak: {what} (pid {}). The same choices again, if not the same timing: {again}",
        std::process::id()
    );
    board::print(60);
}
