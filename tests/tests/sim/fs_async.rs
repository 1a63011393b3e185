//! Awaited calls on the simulated disks: their results are those on the system's files, they are a part of
//! the schedule, and what they have synced survives a power cut.

use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use runtime::fs::{self, File, OpenOptions, TryLockError};
use runtime::sim::{self, Builder};
use runtime::time::{sleep_async, timeout_async};
use runtime::{sleep, spawn};
use tests::folder::Folder;

const MS: Duration = Duration::from_millis(1);

/// Runs the future that `make` makes in a simulation, and as it is on the system's files. `make` is given an
/// empty folder.
fn on_both<F: Future<Output = ()> + Send + 'static>(make: fn(PathBuf) -> F) {
    let folder = Folder::new();
    runtime::block_on(make(folder.root().to_path_buf()));
    sim::run(0, move || {
        fs::create_dir("/folder").unwrap();
        runtime::block_on(make("/folder".into()));
        spawn(make("/folder".into())).join().unwrap();
    });
}

async fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).open_async(path).await.unwrap()
}

#[test]
fn calls_do_what_those_of_std_do() {
    on_both(|folder| async move {
        let [a, b, dir] = ["a", "b", "dir"].map(|name| folder.join(name));
        fs::write_async(&a, "hello").await.unwrap();
        assert_eq!(fs::read_to_string_async(&a).await.unwrap(), "hello");
        fs::rename_async(&a, &b).await.unwrap();
        assert_eq!(fs::metadata_async(&b).await.unwrap().len(), 5);
        assert_eq!(fs::read_async(&a).await.unwrap_err().kind(), std::io::ErrorKind::NotFound);
        fs::create_dir_all_async(dir.join("deep")).await.unwrap();
        let mut entries = fs::read_dir_async(&dir).await.unwrap();
        assert_eq!(entries.next_entry_async().await.unwrap().unwrap().file_name(), "deep");
        assert!(entries.next_entry_async().await.unwrap().is_none());
        fs::remove_dir_all_async(&dir).await.unwrap();

        let file = open(&b).await;
        assert_eq!(file.seek_async(SeekFrom::End(0)).await.unwrap(), 5);
        file.write_all_async(b" world").await.unwrap();
        file.sync_all_async().await.unwrap();
        file.seek_async(SeekFrom::Start(3)).await.unwrap();
        let mut buf = [0; 5];
        assert_eq!((file.read_async(&mut buf).await.unwrap(), &buf), (5, b"lo wo"));
        let mut rest = Vec::new();
        file.read_to_end_async(&mut rest).await.unwrap();
        assert_eq!(rest, b"rld");
        fs::remove_file_async(&b).await.unwrap();
    });
}

#[test]
fn locks_exclude_each_other_and_a_wait_ends() {
    on_both(|folder| async move {
        let path = folder.join("a");
        let (one, other) = (open(&path).await, open(&path).await);
        one.lock_async().await.unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        assert!(timeout_async(5 * MS, other.lock_shared_async()).await.is_err());
        let waits = spawn(async move { other.lock_async().await });
        sleep_async(MS).await;
        drop(one);
        waits.await.unwrap().unwrap();
        fs::remove_file_async(&path).await.unwrap();
    });
}

/// With each seed, tasks on two files of one name take turns.
#[test]
fn a_lock_holds_with_each_schedule() {
    Builder::new().check_determinism(true).explore(50, || {
        let add = || async {
            let (lock, path) = (open(Path::new("/lock")).await, Path::new("/count"));
            for _ in 0..3 {
                lock.lock_async().await.unwrap();
                let count =
                    fs::read_to_string_async(path).await.map_or(0, |text| text.parse::<u32>().unwrap());
                fs::write_async(path, (count + 1).to_string()).await.unwrap();
                lock.unlock().unwrap();
            }
        };
        let tasks = [spawn(add()), spawn(add()), spawn(add())];
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(fs::read_to_string("/count").unwrap(), "9");
    });
}

/// The time of a call is simulated. The task goes on in that time.
#[test]
fn calls_take_time_beside_their_task() {
    sim::run(0, || {
        let slow = sim::fs::Quality::new().latency(100 * MS..=100 * MS);
        sim::fs::set_quality("main", slow);
        let start = Instant::now();
        runtime::block_on(async {
            let ticks = async {
                for _ in 0..9 {
                    sleep_async(10 * MS).await;
                }
                start.elapsed()
            };
            let (written, ticked) = futures::join!(fs::write_async("/a", "x"), ticks);
            written.unwrap();
            assert!(ticked < 100 * MS, "{ticked:?}");
        });
        assert!(start.elapsed() >= 100 * MS);
    });
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    let lengths = (0..60).map(|seed| {
        sim::run(seed, || {
            let node = sim::node("db", || {
                if !fs::exists("/log").unwrap() {
                    runtime::block_on(async {
                        let log = File::create_async("/log").await.unwrap();
                        log.write_all_async(b"synced").await.unwrap();
                        log.sync_all_async().await.unwrap();
                        File::open_async("/").await.unwrap().sync_all_async().await.unwrap();
                        log.write_all_async(b", not synced").await.unwrap();
                    });
                    runtime::thread::park();
                }
                fs::read("/log").unwrap()
            });
            sleep(100 * MS);
            node.cut_power();
            node.restart();
            let log = node.join().unwrap();
            assert!(log.starts_with(b"synced"), "{log:?}");
            log.len()
        })
    });
    let lengths: Vec<usize> = lengths.collect();
    assert!(lengths.contains(&6) && lengths.contains(&18), "{lengths:?}");
}
