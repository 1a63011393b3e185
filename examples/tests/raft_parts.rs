//! The parts of the example raft: its log on a damaged disk, its store, and the checker of what its clients
//! have seen.
//!
//! These tests start no process. A process that a test of another thread starts has all files of this one
//! until it runs its program. With the files it also has their locks.

#![cfg(target_os = "linux")]
#![allow(dead_code)]

use std::fs;
use std::path::Path;

use raft::message::{Change, Command as Entered, Entry, Id, Reply};
use raft::storage::{Record, Storage};
use raft::store::Store;

macro_rules! broken {
    ($step:literal) => {
        false
    };
}

#[path = "helpers/known.rs"]
mod known;
#[path = "helpers/linear.rs"]
mod linear;
#[path = "../raft/mod.rs"]
mod raft;

#[test]
fn a_retry_is_applied_once() {
    let mut store = Store::default();
    assert_eq!(store.apply(1, &Entered::Open), Reply::Opened { session: 1 });
    let cas = |old: Option<&str>, new: &str| {
        let change = Change::Cas { key: "k".into(), old: old.map(Into::into), new: new.into() };
        move |session, number| Entered::Change { session, number, change: change.clone() }
    };
    let (make, change) = (cas(None, "1"), cas(Some("1"), "2"));
    assert_eq!(store.apply(2, &make(1, 1)), Reply::Swapped(true));
    assert_eq!(
        store.apply(3, &make(1, 1)),
        Reply::Swapped(true),
        "a repetition gets the answer of the first"
    );
    assert_eq!(store.apply(4, &change(1, 2)), Reply::Swapped(true));
    assert_eq!(store.apply(5, &make(1, 1)), Reply::Expired, "an older number comes too late");
    assert_eq!(store.apply(6, &make(9, 1)), Reply::Expired, "a session that was never opened");
    assert_eq!(store.get("k").as_deref(), Some("2"));
    // A session that is not used ends when many others have been opened.
    (10..20_010).for_each(|index| _ = store.apply(index, &Entered::Open));
    assert_eq!(store.apply(30_000, &cas(Some("2"), "3")(1, 3)), Reply::Expired);
    assert_eq!(store.get("k").as_deref(), Some("2"));
}

/// Returns the vote and the terms of the entries that a storage in `data` recovers.
fn recovered(data: &Path) -> std::io::Result<(u64, Option<Id>, Vec<u64>)> {
    let (_storage, recovered) = Storage::open(data)?;
    let terms = (1..=recovered.log.last_index()).filter_map(|index| recovered.log.term(index));
    Ok((recovered.term, recovered.voted_for, terms.collect()))
}

#[test]
fn a_torn_tail_is_cut_off_and_damage_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (data, file) = (folder.join("data"), folder.join("data/log"));
    let entry = |index, term| Record::Entry { index, entry: Entry { term, command: Entered::Nothing } };
    let vote = |term, voted_for| Record::Vote { term, voted_for };
    let batches = [
        vec![vote(1, Some(2))],
        vec![entry(1, 1), entry(2, 1), entry(3, 1)],
        vec![vote(2, None), entry(2, 2)],
    ];
    let (mut storage, _) = Storage::open(&data).unwrap();
    let mut ends = vec![0];
    for batch in &batches {
        storage.write(batch).unwrap();
        ends.push(fs::metadata(&file).unwrap().len() as usize);
    }
    assert!(Storage::open(&data).is_err(), "two nodes use one file");
    drop(storage);
    let expected =
        [(0, None, vec![]), (1, Some(2), vec![]), (1, Some(2), vec![1, 1, 1]), (2, None, vec![1, 2])];
    let whole = fs::read(&file).unwrap();
    for length in 0..=whole.len() {
        let good = ends.iter().filter(|&&end| end <= length).count() - 1;
        // The rest of the last batch is missing, or is zeros.
        let next = ends.get(good + 1).unwrap_or(&length);
        for size in [length, *next] {
            let mut bytes = whole[..length].to_vec();
            bytes.resize(size, 0);
            // The last bytes of a batch may be zeros.
            let good = if size == *next && bytes == whole[..size] {
                ends.binary_search(next).unwrap()
            } else {
                good
            };
            fs::write(&file, &bytes).unwrap();
            assert_eq!(recovered(&data).unwrap(), expected[good], "{length} of {size} bytes");
            assert_eq!(fs::metadata(&file).unwrap().len() as usize, ends[good]);
        }
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&file, &bytes).unwrap();
        match recovered(&data) {
            Ok(found) if at >= ends[2] => assert_eq!(found, expected[2], "byte {at}"),
            Ok(found) => panic!("byte {at}: {found:?}"),
            Err(error) => assert!(at < ends[2], "byte {at}: {error}"),
        }
    }
}

#[test]
fn the_checker_accepts_what_has_an_order() {
    known::accepts_what_has_an_order();
}

#[test]
fn the_checker_rejects_what_has_none() {
    known::rejects_what_has_none();
}

#[test]
fn the_checker_ends_soon() {
    known::ends_soon_with_many_operations();
}
