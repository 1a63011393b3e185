//! `trace::stream`: what its files have, their rotation, and what happens to them when something fails. There
//! is one recording in a process, so each test has a process of its own.

mod packets;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use runtime::trace::{self, Stream, StreamBuilder};
use runtime::{Builder, sleep, thread, yield_now};
use tests::folder::Folder;
use tests::{PROCS, child, on};

use packets::{Kind, Trace};

/// Returns the files of a stream, the oldest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort_unstable();
    files
}

/// Reads all files of a stream that has ended: each is whole.
fn read(folder: &Path) -> Vec<Trace> {
    let traces: Vec<Trace> = files(folder).iter().map(|file| Trace::read(file)).collect();
    traces.iter().for_each(Trace::check);
    traces
}

/// Returns the messages of a category in all files, in their order.
fn messages(traces: &[Trace], category: &str) -> Vec<String> {
    let prefix = format!("{category}: ");
    let marks = traces.iter().flat_map(|trace| &trace.events).filter(|event| event.kind == Kind::Instant);
    marks.filter_map(|event| Some(event.name.strip_prefix(&prefix)?.to_owned())).collect()
}

/// Files of this age are soon complete.
const SOON: Duration = Duration::from_millis(100);

fn small(folder: &Path) -> StreamBuilder {
    trace::stream(folder).max_file_bytes(64 << 10).max_file_age(SOON).keep(1000)
}

/// Logs the numbers from `first` on in some green threads, with all that comes between: parks, yields,
/// regions.
fn works_from(first: u64, threads: u64, rounds: u64) {
    let work = move |thread: u64| {
        trace::task("worker", || {
            for round in 0..rounds {
                trace::log("number", first + thread * rounds + round);
                trace::region("step", yield_now);
                sleep(Duration::from_millis(1));
            }
        });
    };
    let name = |thread| thread::Builder::new().name(format!("worker {thread}"));
    let all: Vec<_> = (0..threads).map(|thread| name(thread).spawn(move || work(thread)).unwrap()).collect();
    all.into_iter().for_each(|one| one.join().unwrap());
}

fn works(threads: u64, rounds: u64) {
    works_from(0, threads, rounds);
}

/// Works until `is_enough`: on a busy machine the thread of a stream is late.
fn works_until(is_enough: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_enough() {
        works(4, 20);
        assert!(start.elapsed() < Duration::from_secs(60), "the stream writes no files");
    }
}

/// Each event stands in one file: those of the user, and those of the scheduler between.
#[test]
fn the_files_have_each_event_once() {
    tests::alone!();
    for procs in PROCS {
        let folder = Folder::new();
        // In all fewer messages than are kept, so that a late reader loses none.
        let (threads, rounds, times) = (10, 100, 4);
        let stream = small(folder.root()).events(1 << 20).start().unwrap();
        on(procs, || {
            for time in 0..times {
                works_from(time * threads * rounds, threads, rounds);
                let (before, start) = (files(folder.root()).len(), Instant::now());
                while files(folder.root()).len() == before && start.elapsed() < Duration::from_secs(60) {
                    sleep(SOON / 10);
                }
            }
        });
        let rounds = times * rounds;
        assert_eq!(stream.lost(), 0);
        stream.finish().unwrap();
        assert!(!trace::is_on(), "the recording was the stream's");
        let traces = read(folder.root());
        assert!(traces.len() >= 3, "{} files", traces.len());
        let mut numbers: Vec<u64> =
            messages(&traces, "number").iter().map(|number| number.parse().unwrap()).collect();
        // A thread's own messages are in order in all files. Each thread has a hundred numbers of its own.
        for thread in 0..times * threads {
            let own = numbers.iter().filter(|&&number| number / 100 == thread);
            assert!(own.is_sorted(), "the numbers of thread {thread}");
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..threads * rounds).collect::<Vec<_>>());
        // A region that is open at the end of a file ends there, and begins again in the next.
        let steps = |trace: &Trace| trace.count(Kind::Begin, |name| name == "step");
        let begun: usize = traces.iter().map(steps).sum();
        let go_on: usize = traces[1..].iter().map(|trace| trace.begun_at_start(|name| name == "step")).sum();
        assert_eq!(begun - go_on, (threads * rounds) as usize);
        // Each has a name in each file in which it runs.
        let runs = |trace: &Trace| trace.count(Kind::Begin, |name| name.starts_with("worker 7 ("));
        let all_runs: usize = traces.iter().map(runs).sum();
        assert!(all_runs as u64 > rounds, "it runs anew after each yield: {all_runs}");
        let unnamed = |trace: &Trace| trace.count(Kind::Begin, |name| name.contains("(trace_stream.rs:"));
        assert_eq!(traces.iter().map(unnamed).sum::<usize>(), 0, "a worker without its name");
        // An arrow leads from each end of a sleep to the run after it, unless a file ends between them.
        let woken = |event: &&packets::Event| event.has_arrow && event.name.starts_with("worker ");
        let woken = traces.iter().flat_map(|trace| &trace.events).filter(woken).count() as u64;
        assert!(woken + threads * traces.len() as u64 >= threads * rounds, "{woken} arrows");
    }
}

#[test]
fn a_green_thread_that_runs_goes_on_in_the_next_file() {
    tests::alone!();
    let folder = Folder::new();
    let stream = small(folder.root()).start().unwrap();
    on(2, || {
        let root = folder.root().to_path_buf();
        let computes = move || while files(&root).len() < 5 {};
        let long =
            thread::Builder::new().name("long".into()).spawn(move || trace::region("all of it", computes));
        // Something must happen, so that files are written.
        let long = long.unwrap();
        while !long.is_finished() {
            sleep(SOON / 10);
        }
        long.join().unwrap();
    });
    stream.finish().unwrap();
    let traces = read(folder.root());
    let has = |trace: &&Trace| trace.count(Kind::Begin, |name| name == "all of it") > 0;
    let with_region = traces.iter().filter(has).count();
    assert!(with_region >= 3, "{with_region} of {} files", traces.len());
    // So do the slices of Ps and OS threads, while there are some.
    let go_on = |trace: &Trace| trace.begun_at_start(|name| name != "all of it") > 0;
    assert!(traces[1..].iter().filter(has).all(go_on));
}

#[test]
fn no_more_files_stay_than_wanted() {
    tests::alone!();
    let folder = Folder::new();
    // Until the first file of the stream has gone.
    let run = |keep| {
        let before = files(folder.root());
        let stream = small(folder.root()).keep(keep).start().unwrap();
        let new = || files(folder.root()).into_iter().find(|file| !before.contains(file));
        let first = new().unwrap();
        on(2, || works_until(|| !first.exists()));
        stream.finish().unwrap();
    };
    run(3);
    let first = files(folder.root());
    assert_eq!(first.len(), 3);
    // Those of an earlier stream count.
    run(2);
    let second = files(folder.root());
    assert_eq!(second.len(), 2);
    assert!(second.iter().all(|file| !first.contains(file)));
    read(folder.root());
}

/// A small ring is overwritten before it is read. The file says so, and has what came afterwards.
#[test]
fn a_file_says_what_was_lost() {
    tests::alone!();
    let folder = Folder::new();
    let stream = trace::stream(folder.root()).events(64).start().unwrap();
    let lost = {
        on(1, || {
            (0..100_000).for_each(|_| yield_now());
            sleep(Duration::from_millis(200));
            trace::log("after", "all");
            sleep(Duration::from_millis(200));
        });
        stream.lost()
    };
    assert!(lost > 0);
    stream.finish().unwrap();
    let traces = read(folder.root());
    assert_eq!(messages(&traces, "after"), ["all"]);
    let suffix = " events were overwritten";
    let marks = traces[0].events.iter().filter_map(|event| event.name.strip_suffix(suffix));
    let counts: Vec<u64> = marks.map(|count| count.parse().unwrap()).collect();
    assert!(counts.iter().sum::<u64>() >= lost, "{counts:?}, {lost} lost");
}

/// The file of a process that was killed lacks its last moments only.
#[test]
#[cfg(unix)]
fn a_killed_process_leaves_a_file() {
    use std::os::unix::process::ExitStatusExt;
    let folder = Folder::new();
    let env = [("STREAM", folder.root().to_str().unwrap())];
    let run = || {
        let _stream = trace::stream(std::env::var_os("STREAM").unwrap()).start().unwrap();
        runtime::block_on(|| {
            works(4, 50);
            sleep(Duration::from_secs(2));
            std::process::abort();
        });
    };
    child::run_with("a_killed_process_leaves_a_file", "child", &env, run, |output| {
        assert!(output.status.signal().is_some(), "{}", child::stderr(output));
    });
    let traces: Vec<Trace> = files(folder.root()).iter().map(|file| Trace::read(file)).collect();
    assert_eq!(messages(&traces, "number").len(), 200);
}

/// The folder goes, and comes back.
#[test]
fn a_stream_goes_on_when_it_can_be_written_again() {
    let test = "a_stream_goes_on_when_it_can_be_written_again";
    let folder = Folder::new();
    let (place, env) = (folder.path("streams"), folder.path("streams").display().to_string());
    let run = || {
        let place = PathBuf::from(std::env::var_os("STREAM").unwrap());
        let stream = small(&place).start().unwrap();
        let moves = || {
            std::fs::remove_dir_all(&place).unwrap();
            // More than one try fails.
            let start = Instant::now();
            works_until(|| start.elapsed() > Duration::from_secs(5));
            std::fs::create_dir(&place).unwrap();
            works_until(|| {
                trace::log("again", "a file");
                !files(&place).is_empty()
            });
        };
        Builder::new().procs(2).build().unwrap().block_on(moves);
        stream.finish().unwrap();
        // The message before the first file, too: it was in the part for which that file was made, or later.
        assert!(!messages(&read(&place), "again").is_empty());
        // One that cannot be written at the end says so.
        let stream = small(&place).start().unwrap();
        std::fs::remove_dir_all(&place).unwrap();
        let start = Instant::now();
        let works = || works_until(|| start.elapsed() > Duration::from_secs(1));
        Builder::new().procs(2).build().unwrap().block_on(works);
        let error = stream.finish().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        std::fs::create_dir(&place).unwrap();
    };
    child::run_with(test, "child", &[("STREAM", env.as_str())], run, |output| {
        let stderr = child::stderr(output);
        assert!(output.status.success(), "{stderr}");
        assert_eq!(stderr.matches("cannot be written: ").count(), 2, "{stderr}");
    });
    assert!(files(&place).is_empty());
}

#[test]
fn a_stream_leaves_the_recording_of_the_program_on() {
    tests::alone!();
    let folder = Folder::new();
    assert!(trace::start());
    on(1, || trace::log("before", "the stream"));
    let two = [folder.path("a"), folder.path("b")];
    let streams: Vec<Stream> = two.iter().map(|folder| trace::stream(folder).start().unwrap()).collect();
    on(1, || trace::log("during", "it"));
    drop(streams);
    assert!(trace::is_on());
    for folder in two {
        let traces = read(&folder);
        assert_eq!(messages(&traces, "during"), ["it"]);
        assert!(messages(&traces, "before").is_empty());
    }
    // A stream goes on with the next recording.
    let stream = trace::stream(folder.path("c")).start().unwrap();
    assert!(trace::stop());
    on(1, || trace::log("number", 1));
    assert!(trace::start());
    on(1, || trace::log("number", 2));
    stream.finish().unwrap();
    assert!(trace::is_on());
    assert_eq!(messages(&read(&folder.path("c")), "number"), ["2"]);
    assert!(trace::stop());
}

/// On the only P, and while the program waits for nothing else.
#[test]
fn a_green_thread_finishes_a_stream() {
    tests::alone!();
    let folder = Folder::new();
    on(1, || {
        let stream = trace::stream(folder.root()).start().unwrap();
        works(4, 20);
        stream.finish().unwrap();
    });
    assert_eq!(messages(&read(folder.root()), "number").len(), 80);
}

#[test]
#[cfg(unix)]
fn files_and_folders_are_private() {
    use std::os::unix::fs::PermissionsExt;
    tests::alone!();
    let folder = Folder::new();
    let place = folder.path("of/streams");
    trace::stream(&place).start().unwrap().finish().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&place), mode(&files(&place)[0])), (0o700, 0o600));
}

#[test]
fn settings_that_are_not_allowed() {
    tests::alone!();
    let folder = Folder::new();
    let place = folder.path("streams");
    let fails = |builder: StreamBuilder, text: &str| {
        let error = builder.start().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(text), "{error}");
    };
    fails(trace::stream(&place).keep(0), "at least one file is kept");
    fails(trace::stream(&place).max_file_bytes(1000), "64 KiB");
    fails(trace::stream(&place).max_file_age(Duration::ZERO), "100 ms");
    fails(trace::stream(&place).events(1), "from 64 to 16777216");
    assert!(!place.exists() && !trace::is_on());
    std::fs::write(&place, "a file").unwrap();
    assert!(trace::stream(&place).start().is_err());
    assert!(!trace::is_on(), "the recording of a stream that has failed");
}

/// Perfetto's own schema.
#[test]
fn files_follow_perfettos_schema() {
    tests::alone!();
    let Some(python) = super::trace_perfetto::python() else { return };
    let folder = Folder::new();
    let stream = small(folder.root()).start().unwrap();
    on(2, || works(10, 300));
    stream.finish().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/perfetto.py");
    for file in files(folder.root()) {
        let output = Command::new(&python).arg(&script).arg("--part").arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
