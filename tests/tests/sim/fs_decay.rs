//! Faults of simulated disks that no error announces: bytes that rot, bad sectors, writes that are lost or
//! land elsewhere, and slow calls.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use runtime::fs::{self, File};
use runtime::sim::fs::{Quality, set_quality};
use runtime::sim::{self, Builder, Faults, Strategy};
use runtime::sleep;

const S: Duration = Duration::from_secs(1);
const SECTOR: usize = 512;

fn writable(path: &str) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

/// Writes a file of which each sector has its number in all bytes, and makes the file sure.
fn make(path: &str, sectors: u8) -> Vec<u8> {
    let bytes: Vec<u8> = (0..sectors).flat_map(|sector| [sector; SECTOR]).collect();
    fs::write(path, &bytes).unwrap();
    File::open(path).unwrap().sync_all().unwrap();
    File::open("/").unwrap().sync_all().unwrap();
    bytes
}

fn changed_bits(one: &[u8], other: &[u8]) -> u32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
}

#[test]
fn a_byte_that_has_rotted_stays_so_until_it_is_written() {
    let places: BTreeSet<usize> = (0..50)
        .map(|seed| {
            sim::run(seed, || {
                let node = sim::node("db", || {
                    let made = (0..8).flat_map(|sector| [sector; SECTOR]).collect::<Vec<u8>>();
                    if !fs::exists("/a").unwrap() {
                        assert_eq!(make("/a", 8), made);
                        set_quality("db", Quality::new().rot(1.0));
                        let mut bytes = [0; 8 * SECTOR];
                        File::open("/a").unwrap().read_exact_at(&mut bytes, 0).unwrap();
                        set_quality("db", Quality::new());
                        assert_eq!(changed_bits(&bytes, &made), 1);
                        sleep(S);
                    }
                    let read = fs::read("/a").unwrap();
                    assert_eq!(changed_bits(&read, &made), 1, "it is read again");
                    let at = read.iter().zip(&made).position(|(read, made)| read != made).unwrap();
                    writable("/a").write_all_at(&made[at..at + 1], at as u64).unwrap();
                    assert_eq!(fs::read("/a").unwrap(), made);
                    at
                });
                sleep(S / 2);
                if sim::random().is_multiple_of(2) {
                    node.kill()
                } else {
                    node.cut_power()
                }
                node.restart();
                node.join().unwrap()
            })
        })
        .collect();
    assert!(places.len() > 40, "{places:?}");
}

#[test]
fn a_bad_sector_is_not_read_until_it_is_written() {
    let sectors: BTreeSet<usize> = (0..50)
        .map(|seed| {
            sim::run(seed, || {
                let made = make("/a", 8);
                let file = writable("/a");
                let is_bad = |sector: usize| {
                    let read = file.read_at(&mut [0; SECTOR], (sector * SECTOR) as u64);
                    read.is_err_and(|error| error.raw_os_error() == Some(libc::EIO))
                };
                set_quality("main", Quality::new().bad_sector(1.0));
                assert_eq!(fs::read("/a").unwrap_err().raw_os_error(), Some(libc::EIO));
                set_quality("main", Quality::new());
                let bad: Vec<usize> = (0..8).filter(|&sector| is_bad(sector)).collect();
                assert_eq!(bad.len(), 1, "{bad:?}");
                assert_eq!((0..8).filter(|&sector| is_bad(sector)).count(), 1, "it stays bad");
                let at = bad[0] * SECTOR;
                file.write_all_at(&made[at..at + SECTOR], at as u64).unwrap();
                assert_eq!(fs::read("/a").unwrap(), made);
                bad[0]
            })
        })
        .collect();
    assert_eq!(sectors.len(), 8);
}

#[test]
fn a_lost_write_changes_nothing_but_the_length() {
    sim::run(0, || {
        let mut made = make("/a", 2);
        set_quality("main", Quality::new().lost_write(1.0));
        let file = writable("/a");
        assert_eq!(file.write_at(&[9; SECTOR], 100).unwrap(), SECTOR);
        assert_eq!(file.write_at(&[9; 10], made.len() as u64).unwrap(), 10);
        file.sync_all().unwrap();
        made.extend([0; 10]);
        assert_eq!(fs::read("/a").unwrap(), made);
    });
}

#[test]
fn a_misdirected_write_lands_some_sectors_away() {
    let places: BTreeSet<usize> = (0..50)
        .map(|seed| {
            sim::run(seed, || {
                let made = make("/a", 4);
                set_quality("main", Quality::new().misdirected_write(1.0));
                assert_eq!(writable("/a").write_at(&[9; SECTOR], SECTOR as u64).unwrap(), SECTOR);
                let read = fs::read("/a").unwrap();
                let at = read.iter().position(|&byte| byte == 9).unwrap();
                let mut expected = made;
                expected[at..at + SECTOR].fill(9);
                assert_eq!(read, expected);
                at / SECTOR
            })
        })
        .collect();
    assert_eq!(places, [0, 2, 3].into());
    // A file of one sector has no other place. A place near the end takes what fits.
    sim::run(0, || {
        set_quality("main", Quality::new().misdirected_write(1.0));
        fs::write("/a", "text").unwrap();
        assert_eq!(fs::read("/a").unwrap(), [0; 4]);
        fs::write("/b", [1; SECTOR + 10]).unwrap();
        let read = fs::read("/b").unwrap();
        assert_eq!((read.len(), &read[..SECTOR]), (SECTOR + 10, &[0; SECTOR][..]));
        assert_eq!(read[SECTOR..], [1; 10]);
    });
}

#[test]
fn the_faults_come_as_often_as_they_are_set() {
    let count = |quality: Quality, call: fn(&File) -> bool| {
        sim::run(3, move || {
            fs::write("/a", [7; 4 * SECTOR]).unwrap();
            let file = writable("/a");
            set_quality("main", quality);
            (0..1000).filter(|_| call(&file)).count()
        })
    };
    let write_is_wrong = |file: &File| {
        file.write_all_at(&[8; SECTOR], 0).unwrap();
        let wrong = fs::read("/a").unwrap()[..SECTOR] != [8; SECTOR];
        file.set_len(0).unwrap();
        file.set_len(4 * SECTOR as u64).unwrap();
        wrong
    };
    let read_is_wrong = |file: &File| {
        let mut bytes = [0; SECTOR];
        let read = file.read_exact_at(&mut bytes, 0);
        file.write_all_at(&[7; SECTOR], 0).unwrap();
        read.is_err() || bytes != [7; SECTOR]
    };
    for quality in [Quality::new().rot(0.1), Quality::new().bad_sector(0.1)] {
        assert!((60..140).contains(&count(quality.clone(), read_is_wrong)), "{quality:?}");
        assert_eq!(count(quality, |file| file.write_at(&[7], 0).is_err()), 0);
    }
    for quality in [Quality::new().lost_write(0.1), Quality::new().misdirected_write(0.1)] {
        assert!((60..140).contains(&count(quality.clone(), write_is_wrong)), "{quality:?}");
        assert_eq!(count(quality, |file| file.read_at(&mut [0], 0).is_err()), 0);
    }
    assert_eq!(count(Quality::new(), write_is_wrong) + count(Quality::new(), read_is_wrong), 0);
}

#[test]
fn some_calls_are_slow() {
    let slow = |probability| {
        sim::run(5, move || {
            set_quality("main", Quality::new().slow(probability, 10 * S));
            let call = || {
                let start = Instant::now();
                assert!(fs::exists("/tmp").unwrap());
                start.elapsed()
            };
            let times: Vec<Duration> = (0..1000).map(|_| call()).collect();
            assert!(times.iter().all(|time| *time <= 11 * S), "{times:?}");
            times.iter().filter(|time| **time > 10 * S / 1000).count()
        })
    };
    assert_eq!(slow(0.0), 0);
    assert!((60..140).contains(&slow(0.1)), "{}", slow(0.1));
}

fn sum_of(text: &[u8]) -> u8 {
    text.iter().fold(1, |sum: u8, byte| sum.rotate_left(1) ^ byte)
}

/// Writes a note with a sum over it, and reads it again. The reader trusts its disk, or looks at the sum.
fn keep_note(has_sum: bool) {
    fs::write("/note", [b"remember".as_slice(), &[sum_of(b"remember")]].concat()).unwrap();
    let note = match fs::read("/note") {
        Ok(note) => note,
        Err(error) => return assert_ne!(error.kind(), ErrorKind::NotFound),
    };
    let (text, sum) = note.split_at(8);
    let is_right = sum_of(text) == sum[0];
    assert!(text == b"remember" || (has_sum && !is_right), "another note is taken for this one");
}

#[test]
fn a_program_that_trusts_its_disk_is_found_and_its_fault_is_replayed() {
    let disk = Quality::new().rot(0.05).bad_sector(0.05).lost_write(0.05);
    let builder = Builder::new().faults(Faults::new().disk(disk));
    let failure = builder.try_explore(500, || keep_note(false)).unwrap_err();
    assert_eq!(failure.schedule().len(), 1, "{failure}");
    let replay = builder.clone().strategy(Strategy::Replay(failure.schedule().clone())).shrink(false);
    let again = replay.try_explore(1, || keep_note(false)).unwrap_err();
    assert_eq!(again.message(), failure.message());
    builder.check_determinism(true).explore(500, || keep_note(true));
}
