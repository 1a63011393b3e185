//! The simulated disks: their results and errors are those of std, and after a power cut only what was synced
//! is sure.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use runtime::fs::{self, File, OpenOptions};
use runtime::sim::fs::{Quality, set_quality};
use runtime::sim::{self, Builder, Faults};
use runtime::sync::Mutex;
use runtime::time::timeout;
use runtime::{sleep, spawn, thread};
use tests::folder::Folder;

const MS: Duration = Duration::from_millis(1);

/// Runs `f` in a simulation, and as it is on the system's files: both must do without a panic. `f` is given
/// an empty folder.
fn on_both(f: fn(&Path)) {
    let folder = Folder::new();
    runtime::block_on(|| f(folder.root()));
    sim::run(0, || {
        fs::create_dir("/folder").unwrap();
        f(Path::new("/folder"));
    });
}

#[test]
fn functions_do_what_those_of_std_do() {
    on_both(|folder| {
        let [a, b, dir] = ["a", "b", "dir"].map(|name| folder.join(name));
        fs::write(&a, "hello").unwrap();
        assert_eq!(fs::read(&a).unwrap(), b"hello");
        assert_eq!(fs::read_to_string(&a).unwrap(), "hello");
        assert_eq!(fs::copy(&a, &b).unwrap(), 5);
        fs::remove_file(&a).unwrap();
        assert!(!fs::exists(&a).unwrap() && fs::exists(&b).unwrap());
        fs::rename(&b, &a).unwrap();
        fs::hard_link(&a, &b).unwrap();
        let metadata = fs::metadata(&b).unwrap();
        assert_eq!((metadata.len(), metadata.nlink(), metadata.is_file()), (5, 2, true));
        let roundabout = folder.join("..").join(folder.file_name().unwrap()).join("./a");
        assert_eq!(fs::canonicalize(roundabout).unwrap(), fs::canonicalize(folder).unwrap().join("a"));
        let link = folder.join("link");
        fs::symlink("a", &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("a"));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && fs::metadata(&link).unwrap().is_file());
        assert_eq!(fs::read(&link).unwrap(), b"hello");
        fs::remove_file(&link).unwrap();
        fs::symlink("loop", folder.join("loop")).unwrap();
        assert_eq!(fs::read(folder.join("loop")).unwrap_err().raw_os_error(), Some(40));
        let mut permissions = fs::metadata(&a).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&a, permissions).unwrap();
        assert!(fs::metadata(&a).unwrap().permissions().readonly());

        fs::create_dir(&dir).unwrap();
        fs::create_dir_all(dir.join("x/y")).unwrap();
        fs::create_dir_all(dir.join("x/y")).unwrap();
        fs::DirBuilder::new().create(dir.join("z")).unwrap();
        let mut entries: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap()).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        let paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
        assert_eq!(paths, [dir.join("x"), dir.join("z")]);
        let is_dir =
            |entry: &fs::DirEntry| entry.file_type().unwrap().is_dir() && entry.metadata().unwrap().is_dir();
        assert!(entries.iter().all(is_dir));
        fs::rename(dir.join("x/y"), dir.join("w")).unwrap();
        fs::rename(dir.join("w"), dir.join("z")).unwrap();
        fs::remove_dir(dir.join("z")).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert!(!fs::exists(&dir).unwrap());
    });
}

#[test]
fn errors_are_those_of_the_system() {
    type Call = fn(&Path) -> io::Result<()>;
    let calls: [Call; 30] = [
        |f| fs::canonicalize(f.join("no")).map(drop),
        |f| fs::copy(f.join("no"), f.join("b")).map(drop),
        |f| fs::create_dir(f.join("no/no")),
        |f| fs::create_dir(f.join("file")),
        |f| fs::create_dir(f.join("file/x")),
        |f| fs::create_dir_all(f.join("file")),
        |f| fs::create_dir_all(f.join("file/x")),
        |f| fs::hard_link(f.join("no"), f.join("b")),
        |f| fs::hard_link(f.join("file"), f.join("dir")),
        |f| fs::metadata(f.join("no")).map(drop),
        |f| fs::metadata(f.join("file/x")).map(drop),
        |f| fs::read(f.join("dir")).map(drop),
        |f| fs::read_to_string(f.join("bytes")).map(drop),
        |f| fs::read_dir(f.join("file")).map(drop),
        |f| fs::read_dir(f.join("no")).map(drop),
        |f| fs::read_link(f.join("file")).map(drop),
        |f| fs::remove_dir(f.join("full")),
        |f| fs::remove_dir(f.join("file")),
        |f| fs::remove_dir_all(f.join("no")),
        |f| fs::remove_file(f.join("dir")),
        |f| fs::rename(f.join("no"), f.join("b")),
        |f| fs::rename(f.join("file"), f.join("dir")),
        |f| fs::rename(f.join("dir"), f.join("file")),
        |f| fs::rename(f.join("dir"), f.join("full")),
        |f| fs::rename(f.join("full"), f.join("full/inner/x")),
        |f| fs::write(f.join("dir"), "x"),
        |f| File::create_new(f.join("file")).map(drop),
        |f| OpenOptions::new().open(f.join("file")).map(drop),
        |f| OpenOptions::new().read(true).create(true).open(f.join("file")).map(drop),
        |_| File::open("").map(drop),
    ];
    static CALLS: std::sync::OnceLock<[Call; 30]> = std::sync::OnceLock::new();
    CALLS.set(calls).unwrap();
    let errors = |folder: &Path| -> Vec<String> {
        fs::write(folder.join("file"), "").unwrap();
        fs::write(folder.join("bytes"), [0xFF]).unwrap();
        fs::create_dir(folder.join("dir")).unwrap();
        fs::create_dir_all(folder.join("full/inner")).unwrap();
        let text = |call: &Call| call(folder).map_or_else(|error| error.to_string(), |()| "none".into());
        CALLS.get().unwrap().iter().map(text).collect()
    };
    let folder = Folder::new();
    let real = runtime::block_on(|| errors(folder.root()));
    let simulated = sim::run(0, || errors(Path::new("/tmp")));
    for (i, (simulated, real)) in simulated.iter().zip(&real).enumerate() {
        assert_eq!(simulated, real, "call {i}");
    }
}

#[test]
fn a_file_reads_writes_and_seeks() {
    on_both(|folder| {
        let path = folder.join("a");
        let mut file = File::create_new(&path).unwrap();
        file.write_all(b"hello ").unwrap();
        assert_eq!(file.write_vectored(&[IoSlice::new(b"wor"), IoSlice::new(b"ld")]).unwrap(), 5);
        file.flush().unwrap();
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.seek(SeekFrom::Start(6)).unwrap(), 6);
        let mut text = String::new();
        file.try_clone().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((&*text, file.stream_position().unwrap()), ("world", 11));
        assert_eq!(file.seek(SeekFrom::End(-11)).unwrap(), 0);
        assert_eq!(file.seek(SeekFrom::Current(-1)).unwrap_err().kind(), ErrorKind::InvalidInput);
        let (mut one, mut other) = ([0; 2], [0; 2]);
        let mut parts = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
        assert_eq!(file.read_vectored(&mut parts).unwrap(), 4);
        assert_eq!((&one, &other), (b"he", b"ll"));
        file.set_len(7).unwrap();
        file.write_all_at(b"W", 6).unwrap();
        file.read_exact_at(&mut one, 5).unwrap();
        assert_eq!((&one, file.metadata().unwrap().len()), (b" W", 7));
        File::options().append(true).open(&path).unwrap().write_all(b"!").unwrap();
        file.write_all_at(b"?", 10).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"hello W!\0\0?");
        let only_reads = File::open(&path).unwrap();
        assert_eq!((&only_reads).write(b"x").unwrap_err().raw_os_error(), Some(9));
        assert_eq!(only_reads.set_len(0).unwrap_err().kind(), ErrorKind::InvalidInput);
        let only_writes = File::options().write(true).open(&path).unwrap();
        assert_eq!((&only_writes).read(&mut [0]).unwrap_err().raw_os_error(), Some(9));
        // A file without a name stays as long as it is open.
        fs::remove_file(&path).unwrap();
        assert_eq!((file.metadata().unwrap().len(), file.metadata().unwrap().nlink()), (11, 0));
        assert_eq!(File::create(&path).unwrap().metadata().unwrap().len(), 0);
        let file = OpenOptions::new().write(true).create(true).mode(0o600).open(folder.join("b")).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    });
}

#[test]
fn locks_exclude_each_other_and_a_wait_ends() {
    on_both(|folder| {
        fs::write(folder.join("a"), "").unwrap();
        let [one, other] = [(); 2].map(|()| File::open(folder.join("a")).unwrap());
        one.lock().unwrap();
        assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
        assert!(timeout(5 * MS, || other.lock_shared()).is_err());
        let waits = spawn(move || other.lock());
        sleep(MS);
        drop(one);
        waits.join().unwrap().unwrap();
    });
}

#[test]
fn metadata_have_the_simulated_time() {
    sim::run(0, || {
        set_quality("main", Quality::new().latency(Duration::ZERO..=Duration::ZERO));
        sleep(Duration::from_secs(60));
        fs::write("/a", "1").unwrap();
        let made = SystemTime::now();
        sleep(Duration::from_secs(60));
        fs::write("/a", "22").unwrap();
        let metadata = fs::metadata("/a").unwrap();
        assert_eq!(metadata.created().unwrap(), made);
        assert_eq!(metadata.modified().unwrap(), made + Duration::from_secs(60));
        File::open("/a").unwrap().set_modified(made).unwrap();
        assert_eq!(fs::metadata("/a").unwrap().modified().unwrap(), made);
        let error = File::open("/a").unwrap().set_times(fs::FileTimes::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    });
    // Outside of the simulation, std answers for the system's files.
    assert!(std::fs::metadata("Cargo.toml").unwrap().len() > 100);
}

#[test]
fn each_node_has_a_disk_of_its_own_and_none_is_the_system() {
    let name = format!("/tmp/sim-fs-{}", std::process::id());
    let inside = name.clone();
    sim::run(0, move || {
        fs::write(&inside, "main").unwrap();
        assert!(!sim::real(|| Path::new(&inside).exists()));
        assert!(!fs::exists("Cargo.toml").unwrap() && sim::real(|| Path::new("Cargo.toml").exists()));
        let there = inside.clone();
        let node = sim::node("db", move || fs::exists(&there).unwrap());
        assert!(!node.join().unwrap());
    });
    assert!(!Path::new(&name).exists());
    assert!(!sim::run(0, move || fs::exists(&name).unwrap()));
}

/// Runs `before` on a node, ends the node by `ends`, and returns what `after` finds when the node runs again.
fn after<T: Send + 'static>(
    seed: u64,
    cut: bool,
    before: impl Fn() + Send + Sync + 'static,
    after: impl Fn() -> T + Send + Sync + 'static,
) -> T {
    let run = move || {
        let runs = Mutex::new(0);
        let node = sim::node("db", move || {
            *runs.lock() += 1;
            if *runs.lock() == 1 {
                before();
                runtime::thread::park();
            }
            after()
        });
        sleep(MS);
        if cut {
            node.cut_power()
        } else {
            node.kill()
        }
        node.restart();
        node.join().unwrap()
    };
    sim::run(seed, run)
}

/// Returns all outcomes of a power cut after `before` that some seeds have.
fn outcomes<T: Ord + Send + 'static>(before: fn(), then: fn() -> T) -> BTreeSet<T> {
    (0..60).map(|seed| after(seed, true, before, then)).collect()
}

fn list(dir: &str) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_kill_keeps_what_was_written() {
    for seed in 0..20 {
        let write = || {
            fs::create_dir("/a").unwrap();
            fs::write("/a/b", "hello").unwrap();
        };
        assert_eq!(after(seed, false, write, || fs::read_to_string("/a/b").unwrap()), "hello");
    }
}

#[test]
fn a_file_of_a_killed_node_is_closed() {
    sim::run(0, || {
        let file = Arc::new(Mutex::new(None));
        let place = file.clone();
        let node = sim::node("db", move || {
            let open = File::create("/a").unwrap();
            open.lock().unwrap();
            place.lock().replace(open);
            runtime::thread::park();
        });
        sleep(MS);
        node.kill();
        let mut old = file.lock().take().unwrap();
        assert_eq!(old.write(b"x").unwrap_err().raw_os_error(), Some(5));
        node.restart();
        sleep(MS);
        // The new process has the lock, and the file of the old process is no file of its own.
        assert_eq!(old.write(b"x").unwrap_err().raw_os_error(), Some(9));
        assert!(file.lock().as_ref().unwrap().metadata().unwrap().len() == 0);
    });
}

#[test]
fn a_destructor_of_a_killed_node_writes_nothing() {
    struct Writes;
    impl Drop for Writes {
        fn drop(&mut self) {
            assert!(fs::write("/late", "x").is_err());
        }
    }
    let ends = || {
        let _writes = Writes;
        runtime::thread::park();
    };
    assert!(!after(0, false, ends, || fs::exists("/late").unwrap()));
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    let write = || {
        fs::create_dir_all("/data/deep").unwrap();
        let mut file = File::create("/data/deep/log").unwrap();
        file.write_all(&[7; 3000]).unwrap();
        file.sync_data().unwrap();
        File::open("/data/deep").unwrap().sync_all().unwrap();
        file.write_all(&[8; 3000]).unwrap();
    };
    let found = outcomes(write, || {
        let bytes = fs::read("/data/deep/log").unwrap();
        assert_eq!(bytes[..3000], [7; 3000]);
        assert!(bytes[3000..].iter().all(|byte| [0, 8].contains(byte)), "neither lost nor written");
        (bytes.len(), bytes[3000..].contains(&0))
    });
    // Nothing, all, a part and a hole.
    assert!(found.contains(&(3000, false)) && found.contains(&(6000, false)), "{found:?}");
    assert!(found.contains(&(6000, true)) && found.len() > 3, "{found:?}");
}

#[test]
fn an_entry_that_was_not_synced_may_be_lost() {
    let write = || {
        let file = File::create("/a").unwrap();
        (&file).write_all(b"x").unwrap();
        file.sync_all().unwrap();
    };
    // If the entry is there, so are the bytes.
    let found = outcomes(write, || fs::read_to_string("/a").ok());
    assert_eq!(found, [None, Some("x".into())].into());
}

#[test]
fn a_rename_without_a_sync_of_the_file_may_leave_an_empty_one() {
    let write = || {
        fs::write("/text", "old").unwrap();
        File::open("/text").unwrap().sync_all().unwrap();
        File::open("/").unwrap().sync_all().unwrap();
        fs::write("/new", "new").unwrap();
        fs::rename("/new", "/text").unwrap();
    };
    let found = outcomes(write, || fs::read_to_string("/text").unwrap());
    assert_eq!(found, ["", "\0\0\0", "new", "old"].map(String::from).into());
}

#[test]
fn a_rename_happens_as_a_whole() {
    let write = || {
        fs::create_dir_all("/a").unwrap();
        fs::create_dir_all("/b").unwrap();
        fs::write("/a/x", "1").unwrap();
        File::open("/a/x").unwrap().sync_all().unwrap();
        ["/", "/a", "/b"].iter().for_each(|dir| File::open(dir).unwrap().sync_all().unwrap());
        fs::rename("/a/x", "/b/y").unwrap();
        fs::rename("/b/y", "/b/z").unwrap();
    };
    let found = outcomes(write, || (list("/a"), list("/b")));
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let each = [(names(&["x"]), names(&[])), (names(&[]), names(&["y"])), (names(&[]), names(&["z"]))];
    assert_eq!(found, each.into());
}

#[test]
fn a_file_that_is_removed_may_come_back() {
    let write = || {
        fs::write("/a", "x").unwrap();
        File::open("/a").unwrap().sync_all().unwrap();
        File::open("/").unwrap().sync_all().unwrap();
        fs::remove_file("/a").unwrap();
    };
    assert_eq!(outcomes(write, || fs::read_to_string("/a").ok()), [None, Some("x".into())].into());
}

#[test]
fn writes_of_a_file_opened_with_o_sync_are_sure() {
    const O_SYNC: i32 = 0o4010000;
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).custom_flags(O_SYNC).open("/a").unwrap();
        File::open("/").unwrap().sync_all().unwrap();
        file.write_all(b"sure").unwrap();
    };
    assert_eq!(outcomes(write, || fs::read_to_string("/a").unwrap()), ["sure".into()].into());
}

/// A program that loses its note in a power cut.
fn forgets() {
    let node = sim::node("db", || {
        if fs::exists("/told").unwrap() {
            assert_eq!(fs::read_to_string("/note").unwrap(), "remember");
        }
        fs::write("/note", "remember").unwrap();
        File::open("/").unwrap().sync_all().unwrap();
        fs::write("/told", "").unwrap();
        File::open("/").unwrap().sync_all().unwrap();
        runtime::thread::park();
    });
    sleep(MS);
    node.cut_power();
    node.restart();
    sleep(MS);
    assert!(!node.is_finished() || node.join().is_ok(), "the note is lost");
}

#[test]
fn what_a_power_cut_loses_is_part_of_the_schedule() {
    let failure = Builder::new().try_explore(20, forgets).unwrap_err();
    assert!(failure.schedule().to_string().contains('d'), "{failure}");
    // One loss is enough.
    assert_eq!(failure.schedule().len(), 1, "{failure}");
    let replay = Builder::new().strategy(sim::Strategy::Replay(failure.schedule().clone())).shrink(false);
    assert!(replay.try_explore(1, forgets).is_err());
}

#[test]
fn power_cuts_happen_by_themselves() {
    let faults = Faults::new().every(100 * MS).lasts(50 * MS).cut_power(0.5);
    let builder = Builder::new().faults(faults).check_determinism(true);
    let cuts = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = cuts.clone();
    builder.explore(20, move || {
        let count = count.clone();
        let node = sim::node("db", move || {
            if fs::exists("/dir").unwrap() && !fs::exists("/dir/file").unwrap() {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            fs::create_dir_all("/dir").unwrap();
            File::open("/dir").unwrap().sync_all().unwrap();
            fs::write("/dir/file", "x").unwrap();
            sleep(Duration::from_secs(3600));
        });
        sleep(Duration::from_secs(3));
        drop(node);
    });
    assert!(cuts.load(std::sync::atomic::Ordering::Relaxed) > 0);
}

#[test]
fn a_disk_forgets_files_that_were_removed() {
    let used_kb = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let kb = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        kb.trim().trim_end_matches(" kB").parse().unwrap()
    };
    sim::run(0, || {
        let before = used_kb();
        for _ in 0..3000 {
            fs::write("/a", vec![1; 300_000]).unwrap();
            fs::remove_file("/a").unwrap();
        }
        File::open("/").unwrap().sync_all().unwrap();
        fs::write("/b", "x").unwrap();
        // Without it the process would have 900 MB more. Other tests run at the same time.
        let after = used_kb();
        assert!(after < before + 400_000, "{before} kB before, {after} kB after");
    });
}

#[test]
#[should_panic = "a simulated file has no descriptor"]
fn a_file_has_no_descriptor() {
    sim::run(0, || std::fs::File::from(File::create("/a").unwrap()));
}

#[test]
fn a_disk_that_is_full_takes_what_fits() {
    sim::run(0, || {
        set_quality("main", Quality::new().capacity(1000));
        let mut file = File::create("/a").unwrap();
        assert_eq!(file.write(&[1; 700]).unwrap(), 700);
        assert_eq!(file.write(&[1; 700]).unwrap(), 300);
        assert_eq!(file.write(&[1; 700]).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(fs::write("/b", "x").unwrap_err().kind(), ErrorKind::StorageFull);
        // What is there can be written again, and what is removed gives room.
        file.write_all_at(&[2; 1000], 0).unwrap();
        assert_eq!(file.set_len(1001).unwrap_err().kind(), ErrorKind::StorageFull);
        file.set_len(400).unwrap();
        fs::write("/b", [3; 600]).unwrap();
        assert_eq!(file.write_at(&[1; 10], 395).unwrap(), 5);
        let node = sim::node("db", || fs::write("/c", [0; 5000]));
        node.join().unwrap().unwrap();
    });
}

#[test]
fn faults_of_a_disk_come_as_often_as_they_are_set() {
    let count = |quality: Quality, call: fn() -> bool| {
        sim::run(3, move || {
            fs::write("/a", [7; 100]).unwrap();
            set_quality("main", quality);
            (0..1000).filter(|_| call()).count()
        })
    };
    let reads_less = || match File::open("/a").unwrap().read(&mut [0; 100]).unwrap() {
        100 => false,
        less => (1..100).contains(&less),
    };
    assert!((60..140).contains(&count(Quality::new().short(0.1), reads_less)));
    let writes_less = || File::options().write(true).open("/a").unwrap().write(&[7; 100]).unwrap() < 100;
    assert!((60..140).contains(&count(Quality::new().short(0.1), writes_less)));
    let fails = || fs::exists("/a").is_err_and(|error| error.raw_os_error() == Some(5));
    assert!((60..140).contains(&count(Quality::new().error(0.1), fails)));
    // Each makes one call, and no other goes wrong.
    assert_eq!(count(Quality::new().lost_sync(0.5), || fs::exists("/a").is_err()), 0);
    assert_eq!(count(Quality::new(), reads_less), 0);
}

#[test]
fn a_lost_sync_makes_nothing_sure() {
    let write = || {
        let mut file = File::create("/a").unwrap();
        file.write_all(b"old").unwrap();
        file.sync_all().unwrap();
        File::open("/").unwrap().sync_all().unwrap();
        set_quality("db", Quality::new().lost_sync(1.0));
        file.write_all(b", new").unwrap();
        file.sync_all().unwrap();
    };
    let found = outcomes(write, || fs::read_to_string("/a").unwrap());
    assert_eq!(found, ["old", "old, new", "old\0\0\0\0\0"].map(String::from).into());
}

#[test]
fn a_fault_of_a_disk_is_replayed_and_left_out_where_it_is_not_needed() {
    let program = || {
        let mut file = File::create("/a").unwrap();
        (0..20).for_each(|_| assert_eq!(file.write(b"hello").unwrap(), 5));
    };
    let builder = Builder::new().faults(Faults::new().disk(Quality::new().short(0.2)));
    let failure = builder.try_explore(20, program).unwrap_err();
    assert_eq!(failure.schedule().len(), 1, "{failure}");
    let replay = builder.strategy(sim::Strategy::Replay(failure.schedule().clone())).shrink(false);
    assert_eq!(replay.try_explore(1, program).unwrap_err().message(), failure.message());
}

/// Writes a note in two calls, while another green thread looks at it. Returns `true` if that one sees a
/// part.
fn sees_a_part(quality: Quality) -> bool {
    set_quality("main", quality);
    let mut file = File::create("/note").unwrap();
    let writer =
        spawn(move || ["re", "member"].iter().for_each(|part| file.write_all(part.as_bytes()).unwrap()));
    // A timer, not a choice: without time for a call all is written before it.
    sleep(20 * Duration::from_micros(1));
    let seen = fs::read("/note").unwrap();
    writer.join().unwrap();
    assert_eq!(fs::read("/note").unwrap(), b"remember");
    seen == b"re"
}

#[test]
fn calls_take_time() {
    let part =
        |quality: fn() -> Quality| (0..100).filter(|&seed| sim::run(seed, || sees_a_part(quality()))).count();
    assert_eq!(part(|| Quality::new().latency(Duration::ZERO..=Duration::ZERO)), 0);
    let seen = part(Quality::new);
    assert!((5..95).contains(&seen), "{seen}");
    let slow = Quality::new().latency(5 * MS..=10 * MS);
    let times: BTreeSet<Duration> = (0..20)
        .map(|seed| {
            let slow = slow.clone();
            sim::run(seed, || {
                set_quality("main", slow);
                let start = Instant::now();
                fs::write("/a", "b").unwrap();
                start.elapsed()
            })
        })
        .collect();
    assert!(times.len() > 10 && times.iter().all(|time| (5 * MS..=10 * MS).contains(time)), "{times:?}");
    Builder::new().check_determinism(true).explore(20, || {
        sees_a_part(Quality::new());
    });
}

#[test]
fn a_cancellation_does_not_interrupt_a_call() {
    sim::explore(50, || {
        set_quality("main", Quality::new().latency(MS..=MS));
        let thread = spawn(|| {
            fs::write("/a", "b").unwrap();
            fs::write("/b", "b").unwrap();
        });
        sleep(Duration::from_micros(500));
        thread.cancel();
        thread.join().unwrap();
        assert!(fs::exists("/a").unwrap() && fs::exists("/b").unwrap());
    });
}

#[test]
fn a_call_ends_with_its_node() {
    sim::explore(20, || {
        set_quality("main", Quality::new());
        let node = sim::node("db", || fs::write("/a", "b").unwrap());
        set_quality("db", Quality::new().latency(Duration::from_secs(3600)..=Duration::from_secs(3600)));
        sleep(MS);
        let start = Instant::now();
        node.kill();
        assert!(node.is_finished() && start.elapsed() < Duration::from_secs(1));
    });
}

#[test]
fn a_call_that_ends_at_the_end_of_its_node_does_not_return() {
    let time = Duration::from_micros(10);
    let faults = Faults::new().disk(Quality::new().latency(time..=time));
    Builder::new().faults(faults).explore(200, || {
        let node = sim::node("db", || {
            loop {
                fs::write("/a", "b").unwrap();
            }
        });
        sleep(10 * time);
        node.cut_power();
        let ended = node.join().unwrap_err();
        assert!(ended.is::<thread::Cancelled>(), "{:?}", ended.downcast_ref::<String>());
    });
}
