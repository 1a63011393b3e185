//! Tasks, regions and messages of the user in traces. There is one recording in a process, so each test has a
//! process of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use runtime::trace::{self, Snapshot, What};
use runtime::{blocking, channel, spawn, thread};
use tests::{PROCS, on};

/// Runs `f` as a green thread during a recording.
fn recorded(procs: usize, f: impl FnOnce() + Send) -> Snapshot {
    let mut all = None;
    on(procs, || {
        assert!(trace::start_with(1 << 16).unwrap());
        f();
        all = Some(trace::snapshot());
        assert!(trace::stop());
    });
    all.unwrap()
}

/// Returns the user's events of the green thread `id` in words, each with the number of its task.
fn of(all: &Snapshot, id: u64) -> Vec<(String, Option<u64>)> {
    let events = all.events().iter().filter(|event| event.what.green_thread() == Some(id));
    let words = |what: What| {
        Some(match what {
            What::TaskBegins { name, .. } => format!("task {}", all.text(name)),
            What::TaskEnds { name, .. } => format!("end of task {}", all.text(name)),
            What::RegionBegins { name, .. } => format!("region {}", all.text(name)),
            What::RegionEnds { name, .. } => format!("end of region {}", all.text(name)),
            What::Logs { category, message, .. } => format!("{}: {}", all.text(category), all.text(message)),
            _ => return None,
        })
    };
    events.filter_map(|event| Some((words(event.what)?, event.task))).collect()
}

fn me() -> u64 {
    thread::current().id().as_u64().get()
}

#[test]
fn stretches_and_messages_are_in_the_order_of_the_program() {
    tests::alone!();
    for procs in PROCS {
        let (send, receive) = channel::unbounded();
        let all = recorded(procs, || {
            trace::task("order", || {
                trace::log("id", 17);
                let child = spawn(|| {
                    trace::region("db", || runtime::sleep(Duration::from_millis(1)));
                    me()
                });
                send.send(child.join().unwrap()).unwrap();
                // Without a P.
                blocking(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    trace::log("id", "in blocking");
                });
                let panics = || trace::region("fails", || std::panic::resume_unwind(Box::new(1)));
                catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
            });
            trace::region("after", || send.send(me()).unwrap());
        });
        let (child, main) = (receive.recv().unwrap(), receive.recv().unwrap());
        let events = of(&all, main);
        let task = events[0].1;
        assert!(task.is_some(), "{events:?}");
        let expected = [
            ("task order", task),
            ("id: 17", task),
            ("id: in blocking", task),
            ("region fails", task),
            ("end of region fails", task),
            ("end of task order", task),
            ("region after", None),
            ("end of region after", None),
        ];
        assert_eq!(events, expected.map(|(words, task)| (words.to_owned(), task)));
        let expected = ["region db", "end of region db"].map(|words| (words.to_owned(), task));
        assert_eq!(of(&all, child), expected);
        // The sleep lies in the region.
        let at = |found: fn(&What) -> bool| all.events().iter().position(|event| found(&event.what)).unwrap();
        let child_parks = |event: &&trace::Event| matches!(event.what, What::Parks { id, why } if id == child && why == "the end of a sleep");
        let parks = all.events().iter().find(child_parks).unwrap();
        assert_eq!(parks.task, task);
        let begins = at(|what| matches!(what, What::RegionBegins { .. }));
        let ends = at(|what| matches!(what, What::RegionEnds { .. }));
        let time = |i: usize| all.events()[i].at;
        assert!(time(begins) <= parks.at && parks.at <= time(ends), "{:?}", all.events());
        let mut page = Vec::new();
        all.write_html(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("db begins") && page.contains("id: 17"), "the page shows them");
    }
}

#[test]
fn nothing_is_formatted_without_a_recording() {
    tests::alone!();
    struct Never;
    impl std::fmt::Display for Never {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("it is formatted")
        }
    }
    on(2, || {
        trace::log("a", Never);
        trace::task("a", || trace::region("b", || ()));
        // A plain thread has no ring.
        assert!(trace::start());
        std::thread::spawn(|| trace::region("plain", || trace::log("plain", 1))).join().unwrap();
        let all = trace::snapshot();
        assert!(trace::stop());
        let is_users = |what: &What| matches!(what, What::RegionBegins { .. } | What::Logs { .. });
        assert!(!all.events().iter().any(|event| is_users(&event.what)), "{:?}", all.events());
    });
}

/// A region that begins before a recording or ends after it does no harm.
#[test]
fn an_end_without_its_begin_is_shown_as_it_is() {
    tests::alone!();
    let all = recorded(2, || {
        trace::stop();
        trace::region("first", || {
            assert!(trace::start());
            trace::region("second", || {
                trace::stop();
                assert!(trace::start());
            });
        });
    });
    let mut page = Vec::new();
    all.write_html(&mut page).unwrap();
    let found = all.events().iter().filter_map(|event| match event.what {
        What::RegionEnds { name, .. } => Some(all.text(name)),
        _ => None,
    });
    assert_eq!(found.collect::<Vec<_>>(), ["second"]);
    #[cfg(feature = "perfetto")]
    all.write_perfetto(&mut page).unwrap();
}

#[cfg(feature = "perfetto")]
#[test]
fn perfetto_has_a_track_of_stretches() {
    tests::alone!();
    let all = recorded(2, || {
        let work =
            || trace::task("order", || trace::region("db", || runtime::sleep(Duration::from_millis(1))));
        thread::Builder::new().name("shop".into()).spawn(work).unwrap().join().unwrap();
    });
    let mut trace = Vec::new();
    all.write_perfetto(&mut trace).unwrap();
    let count = |text: &str| trace.windows(text.len()).filter(|bytes| *bytes == text.as_bytes()).count();
    // The slice, and the mark of its begin.
    assert_eq!((count("order (task "), count("db begins")), (1, 1));
    // The end without a name has no text: one for the slice, one each for the marks of begin and end.
    assert_eq!(count("db"), 3);
}

#[cfg(feature = "tracing")]
#[test]
fn spans_are_regions() {
    tests::alone!();
    use runtime::tracing::{Following, with_default};
    use tracing::{Dispatch, info_span};

    let subscriber = tracing_subscriber::fmt::Subscriber::builder().with_writer(std::io::sink).finish();
    let dispatch = Dispatch::new(Following::new(subscriber));
    let (send, receive) = channel::unbounded();
    let all = recorded(2, || {
        with_default(&dispatch, || {
            let outer = info_span!("request").entered();
            let inner = info_span!("query").entered();
            runtime::sleep(Duration::from_millis(1));
            drop(outer);
            drop(inner);
        });
        send.send(me()).unwrap();
    });
    let words = of(&all, receive.recv().unwrap()).into_iter().map(|(words, _)| words);
    let expected = ["region request", "region query", "end of region request", "end of region query"];
    assert_eq!(words.collect::<Vec<_>>(), expected);
}
