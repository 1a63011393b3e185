//! Traces that a panic, a hog and a late timer write by themselves.

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use runtime::{Builder, Runtime, sleep, spawn, thread};
use tests::child;
use tests::folder::Folder;

/// Checks that a complete trace with `text` is there.
fn has(path: &Path, text: &str) {
    let page = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(page.ends_with("</html>\n") && page.contains(text), "no {text:?} in {}", path.display());
}

/// Runs `body` in a child process with a trace on these triggers. Then checks what the child has left in the
/// folder, and its stderr.
fn leaves(test: &str, triggers: &str, body: impl FnOnce(Runtime), check: impl FnOnce(&Folder, &str)) {
    let folder = Folder::new();
    let path = folder.path("trace.html");
    let env = [("RUNTIME_TRACE", path.to_str().unwrap()), ("RUNTIME_TRACE_ON", triggers)];
    let run = || body(Builder::new().procs(2).build().unwrap());
    child::run_with(test, "child", &env, run, |output| {
        assert!(output.status.success(), "{}", child::stderr(output));
        check(&folder, &child::stderr(output));
    });
}

/// Runs `body` as a green thread of a child process with a trace on this trigger. The child ends right after
/// it, and must leave a trace with `text`.
fn writes(test: &str, trigger: &str, text: &str, body: fn()) {
    let run = |runtime: Runtime| {
        let _ = catch_unwind(|| runtime.block_on(body));
        std::process::exit(0);
    };
    leaves(test, trigger, run, |folder, stderr| {
        let path = folder.path("trace.html");
        assert!(stderr.contains(&format!("the trace is in {}", path.display())), "{stderr}");
        has(&path, text);
        let names = std::fs::read_dir(folder.root()).unwrap().map(|entry| entry.unwrap().file_name());
        names.for_each(|name| assert!(!name.to_str().unwrap().starts_with('.'), "{name:?} is incomplete"));
    });
}

/// Makes a trace of which the file takes a while.
fn records_much() {
    let both = [(); 2].map(|()| spawn(|| (0..5_000).for_each(|_| runtime::yield_now())));
    both.into_iter().for_each(|one| one.join().unwrap());
}

#[test]
#[cfg(unix)]
fn a_saved_trace_is_private_and_follows_no_link() {
    use std::io::ErrorKind::AlreadyExists;
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    let [place, link, victim] = ["trace.html", "link.html", "victim"].map(|name| folder.path(name));
    let save = |path: &Path| runtime::trace::snapshot().save(path);
    save(&place).unwrap();
    assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(save(&place).unwrap_err().kind(), AlreadyExists);
    std::fs::write(&victim, "precious").unwrap();
    symlink(&victim, &link).unwrap();
    assert_eq!(save(&link).unwrap_err().kind(), AlreadyExists);
    symlink(folder.path("missing"), folder.path("dangling.html")).unwrap();
    assert_eq!(save(&folder.path("dangling.html")).unwrap_err().kind(), AlreadyExists);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!folder.path("missing").exists());
}

#[test]
fn a_panic_writes_a_trace() {
    writes("a_panic_writes_a_trace", "panic", "the culprit", || {
        let culprit = thread::Builder::new().name("the culprit".into()).spawn(|| {
            sleep(Duration::from_millis(1));
            panic!("on purpose");
        });
        assert!(culprit.unwrap().join().is_err());
    });
}

#[test]
fn a_panic_that_ends_the_program_writes_a_trace() {
    writes("a_panic_that_ends_the_program_writes_a_trace", "panic", "the culprit", || {
        records_much();
        let culprit = thread::Builder::new().name("the culprit".into()).spawn(|| panic!("on purpose"));
        culprit.unwrap().join().unwrap();
    });
}

#[test]
fn a_panic_that_ends_a_local_future_writes_a_trace() {
    let test = "a_panic_that_ends_a_local_future_writes_a_trace";
    let run = |runtime: Runtime| {
        let _ =
            catch_unwind(|| runtime.block_on_local(async { spawn(|| panic!("on purpose")).await.unwrap() }));
        std::process::exit(0);
    };
    leaves(test, "panic", run, |folder, _| has(&folder.path("trace.html"), "trace_files.rs"));
}

#[test]
fn the_end_of_a_runtime_waits_for_a_trace() {
    let test = "the_end_of_a_runtime_waits_for_a_trace";
    let run = |runtime: Runtime| {
        runtime.spawn(records_much).join().unwrap();
        assert!(runtime.spawn(|| panic!("on purpose")).join().is_err());
        drop(runtime);
        std::process::exit(0);
    };
    leaves(test, "panic", run, |folder, _| has(&folder.path("trace.html"), "trace_files.rs"));
}

/// Every timer is late. Such a trace takes neither the time nor the number of a panic's.
#[test]
fn a_panic_is_not_behind_a_late_timer() {
    let test = "a_panic_is_not_behind_a_late_timer";
    let run = |runtime: Runtime| {
        runtime.block_on(|| sleep(Duration::from_millis(1)));
        let culprit = || runtime.spawn(|| panic!("on purpose")).join().is_err();
        runtime.block_on(|| assert!(culprit()));
        std::process::exit(0);
    };
    leaves(test, "panic,late=0us", run, |folder, stderr| {
        assert!(stderr.contains("a timer was late: the trace is in "), "{stderr}");
        assert!(stderr.contains("a green thread panicked: the trace is in "), "{stderr}");
        has(&folder.path("trace-2.html"), "trace_files.rs");
    });
}

#[test]
fn a_failure_is_told_once_and_takes_no_number() {
    let test = "a_failure_is_told_once_and_takes_no_number";
    let folder = Folder::new();
    let missing = folder.path("missing");
    let path = missing.join("trace.html");
    let env = [("RUNTIME_TRACE", path.to_str().unwrap()), ("RUNTIME_TRACE_ON", "panic")];
    let run = || {
        let runtime = Builder::new().procs(2).build().unwrap();
        let panics = || {
            let _ = catch_unwind(|| runtime.block_on(|| panic!("on purpose")));
            // Two files of panics are a second apart.
            std::thread::sleep(Duration::from_millis(1050));
        };
        panics();
        panics();
        let path = std::path::PathBuf::from(std::env::var_os("RUNTIME_TRACE").unwrap());
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        panics();
    };
    child::run_with(test, "child", &env, run, |output| {
        let stderr = child::stderr(output);
        assert!(output.status.success(), "{stderr}");
        assert_eq!(stderr.matches("but there is no trace").count(), 1, "{stderr}");
        has(&path, "trace_files.rs");
    });
}

#[test]
fn a_hog_writes_a_trace() {
    writes("a_hog_writes_a_trace", "hog", "which computes", || {
        let hogs: Vec<_> = (0..4)
            .map(|_| {
                spawn(|| {
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_millis(200) {}
                })
            })
            .collect();
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

#[test]
fn a_late_timer_writes_a_trace() {
    // Every timer is a little late.
    writes("a_late_timer_writes_a_trace", "late=0us", "timers", || {
        (0..20).for_each(|_| sleep(Duration::from_millis(1)));
    });
}

#[test]
fn settings_that_are_not_allowed() {
    let test = "settings_that_are_not_allowed";
    let fails = || {
        let error = Builder::new().build().unwrap_err();
        eprintln!("{error}");
    };
    let env = [("RUNTIME_TRACE", "x.html"), ("RUNTIME_TRACE_ON", "sometimes")];
    child::run_with(test, "on", &env, fails, |output| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains("RUNTIME_TRACE_ON is \"sometimes\": a list of panic, hog and late=10ms"),
            "{stderr}"
        );
    });
}
