//! The debug page in a real browser: what its scripts make of the program.

#![cfg(unix)]

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runtime::sync::Mutex;
use runtime::{Builder, debug, thread};
use tests::Watchdog;
use tests::folder::Folder;

/// Returns the document at `url` after its scripts have run, or `None` if there is no browser.
fn document(url: &str) -> Option<String> {
    let Ok(version) = Command::new("chromium").arg("--version").output() else {
        assert!(std::env::var("CI").is_err(), "chromium is not installed; ci/setup.sh installs it");
        eprintln!("SKIPPED: chromium is not installed");
        return None;
    };
    assert!(version.status.success(), "{version:?}");
    let folder = Folder::new();
    // The browser's clock stands still while a request is under way, so the budget does not depend on the
    // load.
    let args =
        ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom", url];
    let output = Command::new("chromium")
        .arg(format!("--user-data-dir={}", folder.root().display()))
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[inline(never)]
fn parks_for_the_page() {
    thread::park();
}

#[inline(never)]
fn computes_for_the_page(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        std::hint::black_box((0..1000_u64).sum::<u64>());
    }
}

/// Two green threads deadlock, one parks, and two keep both Ps. The page shows all that, with charts and a
/// flame graph.
#[test]
fn the_page_draws_the_program_while_all_ps_are_kept() {
    let _dog = Watchdog::after(Duration::from_secs(240));
    let runtime = Builder::new().procs(2).track_locks(true).build().unwrap();
    let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let server = runtime.block_on(|| {
        let parked = thread::Builder::new().name("parked".into()).spawn(parks_for_the_page).unwrap();
        let own = thread::Builder::new().name("<b>own</b>".into()).spawn(|| {
            let mutex = Mutex::new(());
            let _guard = mutex.lock();
            drop(mutex.lock());
        });
        drop((parked, own.unwrap()));
        debug::serve("127.0.0.1:0").unwrap()
    });
    for _ in 0..2 {
        runtime.spawn(|| computes_for_the_page(over));
    }
    let url = format!("http://{}/#record", server.local_addr());
    let Some(page) = document(&url) else { return over.store(true, Ordering::Relaxed) };
    over.store(true, Ordering::Relaxed);
    let part = |from: &str, to: &str| {
        let start = page.find(from).unwrap_or_else(|| panic!("{from} is missing: {page}"));
        let rest = &page[start..];
        &rest[..rest[1..].find(to).map_or(rest.len(), |end| end + 1)]
    };
    assert!(part("<span id=\"count\"", "</span>").contains(" green threads, "), "{page}");
    assert!(part("<tbody id=\"rows\"", "</tbody>").contains("parks_for_the_page"), "{page}");
    // The name of a green thread is text, and no element.
    let deadlocks = part("<section id=\"deadlocks\"", "</section>");
    assert!(deadlocks.contains("&lt;b&gt;own&lt;/b&gt;") && !deadlocks.contains("<b>own"), "{deadlocks}");
    assert!(!deadlocks[..deadlocks.find('>').unwrap()].contains("hidden"), "{deadlocks}");
    let charts = part("<section id=\"charts\"", "</section>");
    assert!(charts.matches("<polyline").count() >= 6, "{charts}");
    let now = part("<span id=\"now\"", "</span>");
    assert!(!now.contains("no answer"), "{now}");
    if cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        assert!(part("<span id=\"profiled\"", "</span>").contains(" samples"), "{page}");
        assert!(part("<div id=\"flame\"", "</section>").contains("computes_for_the_page"), "{page}");
    }
    drop(server);
}
