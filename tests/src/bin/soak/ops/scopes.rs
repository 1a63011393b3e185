//! Scopes: all threads of a scope have ended when the scope returns, whatever they do.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use runtime::thread::{self, scope};
use tests::ON_PURPOSE;

use super::panicking;
use crate::actor::Actor;

/// Each scoped thread increments its own counter, on the spawner's stack.
pub(super) fn borrows(a: &mut Actor) {
    let counts: Vec<AtomicU64> = (0..a.number(1..6)).map(|_| AtomicU64::new(0)).collect();
    let joins = a.one_in(2);
    scope(|s| {
        for count in &counts {
            let unborn = a.offspring();
            let child = s.spawn(move || {
                unborn.begin().anything();
                count.fetch_add(1, SeqCst) + 7
            });
            if joins {
                let ended = child.join();
                a.check(matches!(ended, Ok(7)), "the scoped thread returns");
            }
        }
        if a.one_in(3) {
            a.anything();
        }
    });
    a.check(counts.iter().all(|count| count.load(SeqCst) == 1), "each thread has counted");
}

pub(super) fn nested(a: &mut Actor) {
    let count = AtomicU64::new(0);
    nest(a, 3, &count);
    a.check(count.load(SeqCst) == 2 + 4 + 8, "each thread has counted");
}

fn nest(a: &mut Actor, depth: u32, count: &AtomicU64) {
    if depth == 0 {
        return a.pause();
    }
    scope(|s| {
        for _ in 0..2 {
            let unborn = a.offspring();
            s.spawn(move || {
                count.fetch_add(1, SeqCst);
                nest(&mut unborn.begin(), depth - 1, count);
            });
        }
    });
}

/// A scoped thread or the scope's closure panics. All threads of the scope have ended nevertheless.
pub(super) fn panics(a: &mut Actor) {
    let (ended, number) = (AtomicU64::new(0), a.number(1..5));
    let (inside, joined) = (a.one_in(3), a.one_in(2));
    let (who, time) = (a.random.below(number), a.micros(300));
    let result = panicking::catch(|| {
        scope(|s| {
            for i in 0..number {
                let (unborn, ended) = (a.offspring(), &ended);
                let builder = thread::Builder::new().name(format!("scoped-{i}"));
                let child = builder.spawn_scoped(s, move || {
                    let mut b = unborn.begin();
                    b.pause();
                    ended.fetch_add(1, SeqCst);
                    if i == who {
                        panic!("{ON_PURPOSE}: a scoped thread");
                    }
                });
                let child = child.expect("a green thread");
                if i == who && joined {
                    let panicked = child.join().is_err_and(|panic| panicking::is_on_purpose(&*panic));
                    a.check(panicked, "the scoped thread has panicked");
                }
            }
            if inside {
                runtime::sleep(time);
                panic!("{ON_PURPOSE}: the scope");
            }
        });
    });
    a.check(ended.load(SeqCst) == number, "all scoped threads have ended");
    match result {
        Ok(()) => assert!(joined && !inside, "the scope has hidden a panic"),
        Err(text) if inside => assert!(text.contains("the scope")),
        Err(text) => assert!(!joined && text == "a scoped thread panicked", "{text}"),
    }
}
