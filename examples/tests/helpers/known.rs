//! Histories with a known answer, which the checker must find.

use crate::linear::Action::{Cas, Read, Write};
use crate::linear::{Action, History, OnKey};

/// Each operation: its client, its call, its return (0 if there was none), and what it did.
fn is_linearizable(operations: &[(u64, u64, u64, Action)]) -> bool {
    let history = History::new();
    for &(client, called, returned, action) in operations {
        history.add(client, called, (returned > 0).then_some(returned), OnKey("k".into(), action));
    }
    history.check().is_ok()
}

const fn cas(old: u64, new: u64, swapped: Option<bool>) -> Action {
    Cas { old: Some(old), new, swapped }
}

pub(crate) fn accepts_what_has_an_order() {
    assert!(is_linearizable(&[]));
    assert!(is_linearizable(&[(1, 1, 2, Write(Some(1))), (2, 3, 4, Read(Some(1)))]));
    // While a write is under way, a read sees the old value or the new one.
    assert!(is_linearizable(&[(1, 1, 9, Write(Some(1))), (2, 2, 3, Read(None)), (2, 4, 5, Read(Some(1)))]));
    // An operation without an answer happens late, or never.
    assert!(is_linearizable(&[(1, 1, 0, Write(Some(1))), (2, 2, 3, Read(None)), (2, 4, 5, Read(Some(1)))]));
    assert!(is_linearizable(&[(1, 1, 0, Write(Some(1))), (2, 2, 3, Read(None))]));
    assert!(is_linearizable(&[
        (1, 1, 2, Write(Some(1))),
        (1, 3, 9, cas(1, 2, Some(true))),
        (2, 3, 9, cas(1, 3, Some(false))),
        (3, 10, 11, Read(Some(2))),
    ]));
    assert!(is_linearizable(&[
        (1, 1, 2, Write(Some(1))),
        (1, 3, 0, cas(1, 2, None)),
        (2, 5, 6, Read(Some(2)))
    ]));
    assert!(is_linearizable(&[(1, 1, 2, Write(Some(1))), (1, 3, 4, Write(None)), (2, 5, 6, Read(None))]));
}

pub(crate) fn rejects_what_has_none() {
    // A stale read: after the write has returned, and after another client has read the new value.
    assert!(!is_linearizable(&[(1, 1, 2, Write(Some(1))), (2, 3, 4, Read(None))]));
    assert!(!is_linearizable(&[(1, 1, 9, Write(Some(1))), (2, 2, 3, Read(Some(1))), (3, 4, 5, Read(None)),]));
    // A value that was never written, and one from the future.
    assert!(!is_linearizable(&[(1, 1, 2, Read(Some(7)))]));
    assert!(!is_linearizable(&[(1, 1, 2, Read(Some(1))), (2, 3, 4, Write(Some(1)))]));
    // A lost write, and one that comes back.
    assert!(!is_linearizable(&[
        (1, 1, 2, Write(Some(1))),
        (1, 3, 4, Write(Some(2))),
        (2, 5, 6, Read(Some(1))),
    ]));
    assert!(!is_linearizable(&[
        (1, 1, 0, Write(Some(1))),
        (2, 2, 3, Read(Some(1))),
        (2, 4, 5, Write(Some(2))),
        (2, 6, 7, Read(Some(2))),
        (2, 8, 9, Read(Some(1))),
    ]));
    // Two swaps of one value, one that failed without a reason, and one that was applied twice.
    assert!(!is_linearizable(&[
        (1, 1, 2, Write(Some(1))),
        (1, 3, 9, cas(1, 2, Some(true))),
        (2, 3, 9, cas(1, 3, Some(true))),
    ]));
    assert!(!is_linearizable(&[(1, 1, 2, Write(Some(1))), (1, 3, 4, cas(1, 2, Some(false)))]));
    assert!(!is_linearizable(&[
        (1, 1, 2, Write(Some(1))),
        (1, 3, 0, cas(1, 2, None)),
        (2, 4, 5, Read(Some(2))),
        (2, 6, 7, Write(Some(1))),
        (2, 8, 9, Read(Some(2))),
    ]));
}

pub(crate) fn ends_soon_with_many_operations() {
    // Five clients at a time, and many operations: the memory of what was tried keeps the search short.
    let operation = |n: u64| (n % 5, n, n + 5, Write(Some(n)));
    let mut history: Vec<_> = (1..500).map(operation).collect();
    assert!(is_linearizable(&history));
    history.push((9, 2000, 2001, Read(Some(1))));
    assert!(!is_linearizable(&history));
}
