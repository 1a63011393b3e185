//! Planted bugs of programs that keep their data on a disk. A simulation with power cuts and faults of disks
//! finds each, and finds none in the mended program. `SIM_SEEDS=100000` runs the mended programs with that
//! many seeds.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::experiment;
use runtime::fs::{self, File};
use runtime::sim::fs::Quality;
use runtime::sim::{self, Builder, Faults};
use runtime::sleep;

const MS: Duration = Duration::from_millis(1);

/// How many seeds an experiment has.
const EXPERIMENT: u64 = 500;

/// Runs a program with and without its bug. The bug is found within the seeds that an experiment predicts,
/// and the mended program runs with some hundred seeds.
#[track_caller]
fn check(disk: Quality, program: fn(bool)) {
    let builder = Builder::new().faults(Faults::new().disk(disk));
    let share = experiment::share(&builder, EXPERIMENT, || program(false));
    let most = experiment::seeds_for(share);
    let failure = builder.try_explore(most, || program(false)).expect_err("the bug was not found");
    println!(
        "found in run {} of {most} (a share of {share}), {} choices and faults left",
        failure.runs(),
        failure.schedule().len()
    );
    let seeds = std::env::var("SIM_SEEDS").map_or(500, |seeds| seeds.parse().unwrap());
    let builder = builder.shrink(false);
    builder.explore(seeds, || program(true));
    builder.check_determinism(true).explore(20, || program(true));
}

/// Runs `main` on a node, and cuts its power about every 5 ms, while it works or waits.
fn with_power_cuts(main: impl Fn() + Send + Sync + 'static) {
    let node = sim::node("db", main);
    for _ in 0..4 {
        sleep(Duration::from_micros(4000 + sim::random() % 2000));
        node.cut_power();
        node.restart();
    }
    sleep(5 * MS);
    // Its power is on, so only a panic ends it.
    assert!(!node.is_finished(), "{:?}", node.join().unwrap_err().downcast_ref::<String>());
}

/// A log of records, of which those with a number up to `told` were acknowledged. A record with a torn write
/// must not be taken for a whole one. The mended program gives each record a checksum, and cuts off what has
/// a wrong one.
fn torn_write(mended: bool) {
    const RECORD: usize = 3000;
    let record = |number: usize| {
        let mut record = vec![number as u8; RECORD];
        record[0] = 1;
        record
    };
    let told = Arc::new(AtomicUsize::new(0));
    with_power_cuts(move || {
        let mut log = File::options().read(true).append(true).create(true).open("/log").unwrap();
        File::open("/").unwrap().sync_all().unwrap();
        let bytes = fs::read("/log").unwrap();
        let is_good = |number: usize, bytes: &[u8]| {
            // The mended program looks at all bytes, as a checksum does. The other looks whether the record
            // begins.
            if mended { bytes == record(number) } else { bytes[0] == 1 }
        };
        let good =
            bytes.chunks_exact(RECORD).enumerate().take_while(|(i, bytes)| is_good(i + 1, bytes)).count();
        assert!(good >= told.load(Ordering::Relaxed), "a record is lost");
        for (i, bytes) in bytes.chunks_exact(RECORD).take(good).enumerate() {
            assert!(bytes == record(i + 1), "record {} of {good} is torn", i + 1);
        }
        log.set_len((good * RECORD) as u64).unwrap();
        log.sync_all().unwrap();
        for batch in 0.. {
            let first = good + 1 + 3 * batch;
            (first..first + 3).for_each(|number| log.write_all(&record(number)).unwrap());
            log.sync_data().unwrap();
            told.store(first + 2, Ordering::Relaxed);
            sleep(MS);
        }
    });
}

#[test]
fn a_torn_write_after_a_power_cut() {
    check(Quality::new(), torn_write);
}

/// A setting is replaced by a rename. Without a sync before, the new file may have its name and not its
/// content.
fn rename_before_sync(mended: bool) {
    with_power_cuts(move || {
        if fs::exists("/setting").unwrap() {
            let setting = fs::read_to_string("/setting").unwrap();
            assert!(["red", "blue"].contains(&&*setting), "the setting is {setting:?}");
        }
        for setting in ["red", "blue"].into_iter().cycle() {
            let mut file = File::create("/new").unwrap();
            file.write_all(setting.as_bytes()).unwrap();
            if mended {
                file.sync_all().unwrap();
            }
            fs::rename("/new", "/setting").unwrap();
            File::open("/").unwrap().sync_all().unwrap();
            sleep(MS);
        }
    });
}

#[test]
fn a_rename_before_the_sync() {
    check(Quality::new(), rename_before_sync);
}

/// Each message is a file, which is synced before the message is acknowledged. Its name in the directory is
/// not.
fn forgotten_directory(mended: bool) {
    let told = Arc::new(AtomicUsize::new(0));
    with_power_cuts(move || {
        fs::create_dir_all("/messages").unwrap();
        File::open("/messages").unwrap().sync_all().unwrap();
        let there = fs::read_dir("/messages").unwrap().count();
        assert!(there >= told.load(Ordering::Relaxed), "an acknowledged message is lost");
        for number in there.. {
            let mut file = File::create(format!("/messages/{number}")).unwrap();
            file.write_all(b"hello").unwrap();
            file.sync_all().unwrap();
            if mended {
                File::open("/messages").unwrap().sync_all().unwrap();
            }
            told.store(number + 1, Ordering::Relaxed);
            sleep(MS);
        }
    });
}

#[test]
fn a_directory_that_was_not_synced() {
    check(Quality::new(), forgotten_directory);
}

/// Tries until a call does not fail.
fn again<T>(call: impl Fn() -> io::Result<T>) -> T {
    loop {
        match call() {
            Ok(value) => return value,
            Err(_) => sleep(MS / 10),
        }
    }
}

/// A sync that has failed is called again, and returns `Ok`; but what the first was to write is not on the
/// disk. The mended program writes the bytes again.
fn sync_again(mended: bool) {
    let told = Arc::new(AtomicUsize::new(0));
    with_power_cuts(move || {
        let log = again(|| File::options().read(true).write(true).create(true).open("/log"));
        again(|| File::open("/")?.sync_all());
        let bytes = again(|| fs::read("/log"));
        let there = bytes.iter().take_while(|byte| **byte == 1).count();
        assert!(there >= told.load(Ordering::Relaxed), "an acknowledged byte is lost");
        for at in there.. {
            let write = || log.write_all_at(&[1], at as u64);
            if mended {
                again(|| write().and_then(|()| log.sync_data()));
            } else {
                again(write);
                again(|| log.sync_data());
            }
            told.store(at + 1, Ordering::Relaxed);
            sleep(MS);
        }
    });
}

#[test]
fn a_sync_that_is_only_called_again() {
    check(Quality::new().error(0.2), sync_again);
}

/// `write` may write a part only.
fn short_write(mended: bool) {
    let mut file = File::create("/text").unwrap();
    for _ in 0..10 {
        if mended {
            file.write_all(b"hello").unwrap();
        } else {
            _ = file.write(b"hello").unwrap();
        }
    }
    assert_eq!(fs::read_to_string("/text").unwrap(), "hello".repeat(10));
}

#[test]
fn a_short_write() {
    check(Quality::new().short(0.05), short_write);
}
