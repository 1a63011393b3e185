//! `profile::labels`: children inherit them, and dumps and profiles show them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runtime::dump::{GreenThread, Snapshot};
use runtime::{profile, spawn, thread, yield_now};
use tests::{on, wait_until};

fn pairs(labels: &[(&str, &str)]) -> Vec<(String, String)> {
    labels.iter().map(|&(key, value)| (key.into(), value.into())).collect()
}

/// Returns what a dump says of the calling green thread.
fn me(snapshot: &Snapshot) -> &GreenThread {
    snapshot.get(thread::current().id().as_u64().get()).unwrap()
}

/// Returns the labels that a dump shows of the calling green thread.
fn shown() -> Vec<(String, String)> {
    me(&Snapshot::take().unwrap()).labels.clone()
}

#[test]
fn inner_labels_take_the_place_of_outer_ones_and_end_with_the_closure() {
    on(2, || {
        assert_eq!(shown(), []);
        profile::labels(&[("route", "/a"), ("user", "7")], || {
            let nested = profile::labels(&[("user", "8"), ("a", "1")], || {
                yield_now();
                runtime::sleep(Duration::from_millis(1));
                shown()
            });
            assert_eq!(nested, pairs(&[("a", "1"), ("route", "/a"), ("user", "8")]));
            assert_eq!(shown(), pairs(&[("route", "/a"), ("user", "7")]));
            let panics = || profile::labels(&[("user", "9")], || std::panic::resume_unwind(Box::new(1)));
            catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
            assert_eq!(profile::label("user").as_deref(), Some("7"));
        });
        assert_eq!((shown(), profile::label("user")), (vec![], None));
    });
}

#[test]
fn children_inherit_labels_and_keep_them() {
    on(2, || {
        let over = runtime::channel::bounded::<()>(0);
        let children = profile::labels(&[("route", "/a")], || {
            let closure = spawn(|| (profile::label("route"), spawn(shown).join().unwrap()));
            let future = spawn(async { profile::label("route") });
            let (name, wait) = (thread::Builder::new().name("named".into()), over.1.clone());
            let parked = name.spawn(move || _ = wait.recv()).unwrap();
            (closure, future, parked)
        });
        let (closure, future, parked) = children;
        assert_eq!(closure.join().unwrap(), (Some("/a".into()), pairs(&[("route", "/a")])));
        assert_eq!(future.join().unwrap().as_deref(), Some("/a"));
        // A green thread that takes the place of an ended one has no labels of it.
        for _ in 0..100 {
            assert_eq!(spawn(|| profile::label("route")).join().unwrap(), None);
        }
        let line = "', labels: {\"route\": \"/a\"}";
        wait_until("it is parked", || {
            let snapshot = Snapshot::take().unwrap();
            let parked = snapshot.green_threads.iter().find(|it| it.name.as_deref() == Some("named"));
            let (text, grouped) = (snapshot.to_string(), snapshot.grouped());
            assert_eq!(text.matches(&line[3..]).count(), 1, "{text}");
            assert_eq!(grouped.matches(&line[3..]).count(), 1, "{grouped}");
            parked.unwrap().wait.is_some()
        });
        drop(over);
        parked.join().unwrap();
    });
}

#[test]
fn a_plain_thread_passes_its_labels_on() {
    tests::with(1, |runtime| {
        let seen = profile::labels(&[("job", "night")], || {
            assert_eq!(profile::label("job").as_deref(), Some("night"));
            let spawned = runtime.spawn(shown);
            let other = std::thread::spawn(|| profile::label("job")).join().unwrap();
            assert_eq!((other, runtime.block_on(shown)), (None, pairs(&[("job", "night")])));
            spawned.join().unwrap()
        });
        assert_eq!((seen, profile::label("job")), (pairs(&[("job", "night")]), None));
    });
}

/// Labels change and end while dumps read them.
#[test]
fn dumps_read_labels_that_change() {
    on(4, || {
        static OVER: AtomicBool = AtomicBool::new(false);
        let children: Vec<_> = (0..4)
            .map(|i: u32| {
                spawn(move || {
                    while !OVER.load(Ordering::Relaxed) {
                        let text = i.to_string();
                        profile::labels(&[("left", &text), ("right", &text)], || {
                            spawn(yield_now).join().unwrap();
                        });
                        yield_now();
                    }
                })
            })
            .collect();
        let seen = std::cell::Cell::new(0);
        wait_until("dumps have shown labels", || {
            for thread in Snapshot::take().unwrap().green_threads {
                // Green threads of other tests have other labels.
                if let [(left, a), (right, b)] = &*thread.labels
                    && left == "left"
                {
                    assert_eq!((&**right, a), ("right", b));
                    seen.set(seen.get() + 1);
                }
            }
            seen.get() >= 20
        });
        OVER.store(true, Ordering::Relaxed);
        children.into_iter().for_each(|child| child.join().unwrap());
    });
}

/// Each run and each stop of a green thread has its labels of that moment, however they were set.
#[test]
fn traces_have_labels() {
    tests::alone!();
    use runtime::trace::{self, What};

    for procs in tests::PROCS {
        let (mut all, mut ids) = (None, Vec::new());
        on(procs, || {
            let over = runtime::channel::bounded::<()>(0);
            let id = || thread::current().id().as_u64().get();
            // Labels that were set before the recording.
            let (wait, send) = (over.1.clone(), runtime::channel::unbounded());
            let sent = send.0.clone();
            let waits = move || {
                sent.send(id()).unwrap();
                let _ = wait.recv();
                (0..3).for_each(|_| runtime::sleep(Duration::from_millis(1)));
                id()
            };
            let old = profile::labels(&[("route", "/old")], || spawn(waits));
            let old_id = send.1.recv().unwrap();
            assert!(trace::start_with(1 << 14).unwrap());
            drop(over);
            ids.push((old.join().unwrap(), "/old"));
            assert_eq!(ids[0].0, old_id);
            let child = profile::labels(&[("route", "/child")], || {
                let child = spawn(move || {
                    yield_now();
                    // Without a P.
                    runtime::blocking(|| std::thread::sleep(Duration::from_millis(20)));
                    profile::labels(&[("step", "inner")], || runtime::sleep(Duration::from_millis(1)));
                    let panics =
                        || profile::labels(&[("step", "-")], || std::panic::resume_unwind(Box::new(1)));
                    catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
                    yield_now();
                    id()
                });
                child.join().unwrap()
            });
            ids.push((child, "/child"));
            let (handle, plain) = (runtime::Handle::current(), runtime::channel::unbounded());
            std::thread::spawn(move || {
                let labelled = profile::labels(&[("route", "/plain")], || handle.spawn(id));
                plain.0.send(labelled.join().unwrap()).unwrap();
            });
            ids.push((plain.1.recv().unwrap(), "/plain"));
            ids.push((id(), "-"));
            yield_now();
            // A green thread of another name has the place of the first one.
            assert!((0..100).all(|_| spawn(|| profile::label("route")).join().unwrap().is_none()));
            all = Some(profile::labels(&[("route", "/now")], trace::snapshot));
            assert!(trace::stop());
        });
        let all = all.unwrap();
        let of = |id: u64, what: fn(&What) -> bool| {
            let events = all.events().iter().filter(move |event| event.what.green_thread() == Some(id));
            let texts = events
                .filter(move |event| what(&event.what))
                .map(|event| event.labels.map(|text| all.text(text)));
            texts.collect::<Vec<_>>()
        };
        let any = |_: &What| true;
        assert!(
            of(ids[0].0, any).iter().all(|text| *text == Some("{\"route\": \"/old\"}")),
            "{:?}",
            of(ids[0].0, any)
        );
        // The first stops may be missing: its P had not noticed the recording.
        assert!(of(ids[0].0, any).len() >= 6, "{:?}", of(ids[0].0, any));
        let mut child = of(ids[1].0, |what| {
            matches!(
                what,
                What::Runs { .. } | What::LabelsChange { .. } | What::Parks { .. } | What::Ends { .. }
            )
        });
        child.dedup();
        let (outer, inner) =
            (Some("{\"route\": \"/child\"}"), Some("{\"route\": \"/child\", \"step\": \"inner\"}"));
        let panics = Some("{\"route\": \"/child\", \"step\": \"-\"}");
        assert_eq!(child, [outer, inner, outer, panics, outer]);
        assert!(
            of(ids[2].0, any).iter().all(|text| *text == Some("{\"route\": \"/plain\"}")),
            "{:?}",
            of(ids[2].0, any)
        );
        let main = of(ids[3].0, |what| !matches!(what, What::Spawned { .. }));
        assert!(main.contains(&Some("{\"route\": \"/child\"}")), "{main:?}");
        assert!(!main.contains(&Some("{\"route\": \"/plain\"}")), "{main:?}");
        // Labels of the moment of the snapshot are not those of before.
        let now = Some("{\"route\": \"/now\"}");
        let first = main.iter().position(|text| *text == now).unwrap();
        assert!(main[first - 1].is_none() && main[first..].iter().all(|text| *text == now), "{main:?}");
        let mut page = Vec::new();
        all.write_html(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains(r#"labels {\"route\": \"/plain\"}"#), "the page shows them");
        #[cfg(feature = "perfetto")]
        {
            let mut trace = Vec::new();
            all.write_perfetto(&mut trace).unwrap();
            let text = b"{\"route\": \"/plain\"}";
            assert!(trace.windows(text.len()).any(|bytes| bytes == text), "Perfetto shows them");
        }
    }
}

#[cfg(all(feature = "debug", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod in_profiles {
    use std::hint::black_box;
    use std::time::Instant;

    use tests::{OnDrop, child};

    use super::*;

    static OVER: AtomicBool = AtomicBool::new(false);

    /// Profiles a child, because there is one profile of a process at a time. The labels change all the time,
    /// so signals come in the middle of a change.
    #[test]
    fn a_cpu_profile_has_labels() {
        child::passes("in_profiles::a_cpu_profile_has_labels", "computes", || {
            on(2, || {
                let over = OnDrop(|| OVER.store(true, Ordering::SeqCst));
                let computes = || {
                    while !OVER.load(Ordering::SeqCst) {
                        profile::labels(&[("step", "inner")], || (0..50).for_each(|i| _ = black_box(i)));
                    }
                };
                let hog = profile::labels(&[("route", "/a;b")], || spawn(computes));
                let (start, mut all, mut folded) = (Instant::now(), 0, String::new());
                while all < 30 && start.elapsed() < Duration::from_secs(40) {
                    let profile = profile::cpu(Duration::from_millis(500)).unwrap();
                    all += profile.samples();
                    folded.push_str(&profile.folded());
                    let has = |text: &[u8]| profile.to_pprof().windows(text.len()).any(|it| it == text);
                    let shows = profile.folded().contains(" route=/a b");
                    assert_eq!((has(b"route"), has(b"/a;b")), (shows, shows));
                }
                drop(over);
                hog.join().unwrap();
                assert!(all >= 30, "{all} samples");
                for end in [" route=/a b;", " route=/a b step=inner;"] {
                    assert!(folded.contains(end), "{end}: {folded}");
                }
            });
        });
    }
}
