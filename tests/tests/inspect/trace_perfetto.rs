//! A trace in Perfetto's format, checked against Perfetto's own schema by `ci/perfetto.py`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use runtime::trace::{self, What};
use runtime::{Builder, channel, sleep, spawn, thread};
use tests::folder::Folder;
use tests::on;

/// Returns the Python of the virtual environment that `ci/setup.sh` makes. Returns `None`, and says so, if it
/// does not have the package `perfetto`, which CI requires.
pub(super) fn python() -> Option<String> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/perfetto/bin/python");
    let has = Command::new(&python)
        .args(["-c", "import perfetto.protos"])
        .status()
        .is_ok_and(|status| status.success());
    if !has {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "the package `perfetto` is missing: run ci/setup.sh"
        );
        eprintln!("not checked: the Python package `perfetto` is missing; ci/setup.sh installs it");
    }
    has.then(|| python.display().to_string())
}

#[test]
fn a_runtimes_name_stands_in_its_tracks_as_escaped_text() {
    tests::alone!();
    assert!(trace::start());
    let runtime = Builder::new().procs(1).thread_name("a\u{1b}\n").build().unwrap();
    runtime.block_on(|| spawn(|| ()).join().unwrap());
    let all = trace::snapshot();
    trace::stop();
    let mut trace = Vec::new();
    all.write_perfetto(&mut trace).unwrap();
    let contains = |text: &str| trace.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(contains(r"runtime a\u{1b}\n"), "the runtime's track");
    assert!(contains(r"a\u{1b}\n-0"), "the track of an OS thread");
    // Not the byte alone: a time may have it.
    assert!(!contains("a\u{1b}"));
}

/// A process that does nothing while it is recorded has a trace, too.
#[test]
fn a_trace_without_events_has_its_process() {
    tests::alone!();
    let mut trace = Vec::new();
    trace::snapshot().write_perfetto(&mut trace).unwrap();
    let program = std::env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_str().unwrap().as_bytes();
    assert!(trace.windows(name.len()).any(|bytes| bytes == name));
}

#[test]
fn a_trace_follows_perfettos_schema() {
    let folder = Folder::new();
    let path = folder.path("trace.pftrace");
    let mut all = None;
    on(2, || {
        trace::start();
        let (s, r) = channel::bounded(0);
        let echo = thread::Builder::new().name("echo".into()).spawn(move || r.iter().sum::<u64>()).unwrap();
        let threads: Vec<_> = (0..20).map(|_| spawn(|| sleep(Duration::from_millis(1)))).collect();
        (0..100).for_each(|i| s.send(i).unwrap());
        drop(s);
        assert_eq!(echo.join().unwrap(), 4950);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        all = Some(trace::snapshot());
        trace::stop();
    });
    let all = all.unwrap();
    all.save(&path).unwrap();
    let Some(python) = python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/perfetto.py");
    let output = Command::new(python).arg(script).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).unwrap();
    let number = |name: &str| {
        let words: Vec<&str> = told.split_whitespace().collect();
        let at = words.iter().position(|word| *word == name).unwrap();
        words[at + 1].parse::<usize>().unwrap()
    };
    let count =
        |found: &dyn Fn(&What) -> bool| all.events().iter().filter(|event| found(&event.what)).count();
    let runs = count(&|what| matches!(what, What::Runs { .. }));
    let causes = count(&|what| matches!(what, What::Ready { .. } | What::Spawned { .. }));
    // Each green thread's run is a slice, beside those of OS threads. What was woken at the end may not have
    // run yet.
    assert!(number("slices") >= runs, "{told}, {runs} runs");
    assert!((causes - 10..=causes).contains(&number("arrows")), "{told}, {causes} causes");
    // Beside busy processes one P may run all: a track of it and one of its M, each in a group.
    assert!(number("tracks") >= 4, "{told}");
    // A broken file shows that the check checks: the first name becomes a field that the schema does not
    // know.
    let mut bytes = std::fs::read(&path).unwrap();
    let name = bytes.windows(2).position(|key| key == [0xBA, 0x01]).unwrap();
    bytes[name + 1] = 0x7A;
    std::fs::write(&path, bytes).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/perfetto.py");
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/perfetto/bin/python");
    assert!(!Command::new(python).arg(script).arg(&path).output().unwrap().status.success());
}
