//! Awaited calls on files: results and errors are those of std, other branches of the task go on, and a call
//! of a dropped future leaves nothing behind.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::{self, ErrorKind, SeekFrom};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::future::join_all;
use runtime::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use runtime::spawn;
use runtime::thread::{LocalSet, spawn_local};
use tests::folder::Folder;
use tests::{Watchdog, everywhere, on_each};

/// Runs a future that `make` makes in each kind of executor.
fn in_each_executor<F: Future<Output = ()> + Send + 'static>(make: fn(Folder) -> F) {
    in_each_beside_calls(make);
    on_each(|| in_local_ones(make));
}

/// Runs a future in each kind of executor that goes on while a call blocks. On a green thread those for
/// futures that are not `Send` may have to wait for it: the call may have their OS thread.
fn in_each_beside_calls<F: Future<Output = ()> + Send + 'static>(make: fn(Folder) -> F) {
    everywhere(|| runtime::block_on(make(Folder::new())));
    on_each(|| spawn(make(Folder::new())).join().unwrap());
    let _dog = Watchdog::new();
    in_local_ones(make);
    futures::executor::block_on(make(Folder::new()));
}

fn in_local_ones<F: Future<Output = ()> + Send + 'static>(make: fn(Folder) -> F) {
    runtime::block_on_local(make(Folder::new()));
    runtime::block_on_local(async {
        LocalSet::new().run_until(async { spawn_local(make(Folder::new())).await.unwrap() }).await;
    });
}

#[test]
fn locks_exclude_each_other() {
    in_each_executor(|folder| async move {
        let path = folder.path("file");
        let [one, other] = [(); 2].map(|()| File::create(&path).unwrap());
        for _ in 0..10 {
            one.lock_async().await.unwrap();
            assert!(other.try_lock_shared().is_err());
            let unlocks = async {
                runtime::time::sleep_async(Duration::from_millis(1)).await;
                one.unlock().unwrap();
            };
            let (locked, ()) = futures::join!(other.lock_async(), unlocks);
            locked.unwrap();
            assert!(one.try_lock().is_err());
            other.unlock().unwrap();
            one.lock_shared_async().await.unwrap();
            other.lock_shared_async().await.unwrap();
            assert!(File::open_async(&path).await.unwrap().try_lock().is_err());
            one.unlock().unwrap();
            other.unlock().unwrap();
        }
    });
}

/// A lock that was taken for a future that is dropped before it knows.
#[test]
fn a_dropped_wait_for_a_lock_leaves_none() {
    in_each_beside_calls(|folder| async move {
        let path = folder.path("file");
        let [one, other] = [(); 2].map(|()| File::create(&path).unwrap());
        for i in 0..40 {
            {
                let mut waits = pin!(one.lock_async());
                let begun = poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx))).await;
                runtime::time::sleep_async(Duration::from_micros(100 * (i % 20))).await;
                if begun.is_ready() {
                    one.unlock().unwrap();
                }
            }
            other.lock_async().await.unwrap();
            other.unlock().unwrap();
        }
    });
}

async fn entries_of(dir: &Path) -> Vec<DirEntry> {
    let mut of_dir = fs::read_dir_async(dir).await.unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = of_dir.next_entry_async().await.unwrap() {
        entries.push(entry);
    }
    entries.sort_by_key(DirEntry::file_name);
    entries
}

#[test]
fn functions_do_what_those_of_std_do() {
    in_each_executor(|folder| async move {
        let [a, b, dir] = ["a", "b", "dir"].map(|name| folder.path(name));
        fs::write_async(&a, "hello").await.unwrap();
        assert_eq!(std::fs::read(&a).unwrap(), b"hello");
        assert_eq!(fs::read_async(&a).await.unwrap(), b"hello");
        assert_eq!(fs::read_to_string_async(&a).await.unwrap(), "hello");
        // Under wine that of std returns 0.
        let copied = std::fs::copy(&a, folder.path("of std")).unwrap();
        assert_eq!(fs::copy_async(&a, &b).await.unwrap(), copied);
        assert_eq!(std::fs::read(&b).unwrap(), b"hello");
        fs::remove_file_async(&a).await.unwrap();
        assert!(!fs::exists_async(&a).await.unwrap() && fs::exists_async(&b).await.unwrap());
        fs::rename_async(&b, &a).await.unwrap();
        fs::hard_link_async(&a, &b).await.unwrap();
        assert_eq!(fs::metadata_async(&b).await.unwrap().len(), 5);
        let roundabout = folder.root().join("..").join(folder.root().file_name().unwrap()).join("a");
        assert_eq!(fs::canonicalize_async(roundabout).await.unwrap(), std::fs::canonicalize(&a).unwrap());
        #[cfg(unix)]
        {
            let link = folder.path("link");
            fs::symlink_async(&a, &link).await.unwrap();
            assert_eq!(fs::read_link_async(&link).await.unwrap(), a);
            let itself = fs::symlink_metadata_async(&link).await.unwrap();
            assert!(itself.is_symlink() && fs::metadata_async(&link).await.unwrap().is_file());
        }
        let mut permissions = fs::metadata_async(&a).await.unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions_async(&a, permissions).await.unwrap();
        assert!(std::fs::metadata(&a).unwrap().permissions().readonly());

        fs::create_dir_async(&dir).await.unwrap();
        fs::create_dir_all_async(dir.join("x/y")).await.unwrap();
        DirBuilder::new().create_async(dir.join("z")).await.unwrap();
        DirBuilder::new().recursive(true).create_async(dir.join("z")).await.unwrap();
        let entries = entries_of(&dir).await;
        let paths: Vec<_> = entries.iter().map(DirEntry::path).collect();
        assert_eq!(paths, [dir.join("x"), dir.join("z")]);
        for entry in entries {
            assert!(entry.file_type_async().await.unwrap().is_dir());
            assert!(entry.metadata_async().await.unwrap().is_dir());
        }
        fs::remove_dir_async(dir.join("z")).await.unwrap();
        fs::remove_dir_all_async(&dir).await.unwrap();
        assert!(!dir.exists());
    });
}

#[test]
fn errors_are_those_of_std() {
    in_each_executor(|_| async {
        async fn same<T>(ours: impl Future<Output = io::Result<T>>, theirs: io::Result<T>) {
            let (ours, theirs) = (ours.await.map(drop).unwrap_err(), theirs.map(drop).unwrap_err());
            assert_eq!(ours.to_string(), theirs.to_string());
        }
        let (p, q) = ("/no/such/path", "/no/such/other");
        same(fs::canonicalize_async(p), std::fs::canonicalize(p)).await;
        same(fs::copy_async(p, q), std::fs::copy(p, q)).await;
        same(fs::create_dir_async(p), std::fs::create_dir(p)).await;
        same(fs::hard_link_async(p, q), std::fs::hard_link(p, q)).await;
        same(fs::metadata_async(p), std::fs::metadata(p)).await;
        same(fs::symlink_metadata_async(p), std::fs::symlink_metadata(p)).await;
        same(fs::read_async(p), std::fs::read(p)).await;
        same(fs::read_to_string_async(p), std::fs::read_to_string(p)).await;
        same(fs::read_link_async(p), std::fs::read_link(p)).await;
        same(fs::remove_dir_async(p), std::fs::remove_dir(p)).await;
        same(fs::remove_dir_all_async(p), std::fs::remove_dir_all(p)).await;
        same(fs::remove_file_async(p), std::fs::remove_file(p)).await;
        same(fs::rename_async(p, q), std::fs::rename(p, q)).await;
        same(fs::write_async(p, "x"), std::fs::write(p, "x")).await;
        same(DirBuilder::new().create_async(p), std::fs::create_dir(p)).await;
        let of_std = std::fs::File::open(p).map(File::from);
        same(File::open_async(p), of_std).await;
        assert_eq!(fs::read_dir_async(p).await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_file_reads_writes_and_seeks() {
    in_each_executor(|folder| async move {
        let path = folder.path("a");
        let file = File::create_new_async(&path).await.unwrap();
        assert_eq!(file.write_async(b"hello ").await.unwrap(), 6);
        file.write_all_async(b"world").await.unwrap();
        file.sync_all_async().await.unwrap();
        file.sync_data_async().await.unwrap();
        assert_eq!(file.seek_async(SeekFrom::Start(6)).await.unwrap(), 6);
        let mut bytes = b">".to_vec();
        let clone = file.try_clone_async().await.unwrap();
        assert_eq!(clone.read_to_end_async(&mut bytes).await.unwrap(), 5);
        assert_eq!(bytes, b">world");
        assert_eq!(file.seek_async(SeekFrom::Current(0)).await.unwrap(), 11);
        assert_eq!(file.seek_async(SeekFrom::Start(9)).await.unwrap(), 9);
        let mut buf = *b"......";
        assert_eq!(file.read_async(&mut []).await.unwrap(), 0);
        assert_eq!(file.read_async(&mut buf).await.unwrap(), 2);
        assert_eq!(&buf, b"ld....");
        assert_eq!(file.read_async(&mut buf).await.unwrap(), 0);
        file.set_len_async(7).await.unwrap();
        let now = file.metadata_async().await.unwrap();
        assert_eq!(now.len(), 7);
        let day = now.modified().unwrap() - 24 * 3600 * Duration::from_secs(1);
        file.set_modified_async(day).await.unwrap();
        file.set_times_async(fs::FileTimes::new().set_accessed(day)).await.unwrap();
        let then = file.metadata_async().await.unwrap();
        assert_eq!((then.modified().unwrap(), then.accessed().unwrap()), (day, day));
        file.set_permissions_async(now.permissions()).await.unwrap();
        assert_eq!(File::create_new_async(&path).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        OpenOptions::new().append(true).open_async(&path).await.unwrap().write_all_async(b"!").await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"hello w!");
        assert_eq!(File::open_async(&path).await.unwrap().metadata_async().await.unwrap().len(), 8);
        assert_eq!(File::create_async(&path).await.unwrap().metadata_async().await.unwrap().len(), 0);
        // No call runs any more, so this does not wait.
        std::fs::File::from(file).sync_all().unwrap();
    });
}

/// Calls at offsets leave the position, also those of futures that run at the same time.
#[cfg(unix)]
#[test]
fn a_file_reads_and_writes_at_offsets() {
    in_each_executor(|folder| async move {
        let path = folder.path("a");
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open_async(&path).await.unwrap();
        let at = |i: u64| (i * 37 % 100) * 3;
        let file_ref = &file;
        join_all((0..100).map(|i| async move {
            assert_eq!(file_ref.write_at_async(&[i as u8; 3], at(i)).await.unwrap(), 3);
        }))
        .await;
        join_all((0..100).map(|i| async move {
            let mut buf = [255; 3];
            assert_eq!(file_ref.read_at_async(&mut buf, at(i)).await.unwrap(), 3);
            assert_eq!(buf, [i as u8; 3]);
        }))
        .await;
        assert_eq!(file.seek_async(SeekFrom::Current(0)).await.unwrap(), 0);
        let mut buf = [255; 3];
        assert_eq!(file.read_at_async(&mut buf, 299).await.unwrap(), 1);
        assert_eq!(file.read_at_async(&mut buf, 300).await.unwrap(), 0);
        assert_eq!(file.read_at_async(&mut [], 0).await.unwrap(), 0);
        // As std's: a hole before, and an error for a file that is not open for it.
        assert_eq!(file.write_at_async(b"end", 400).await.unwrap(), 3);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 403);
        let only_read = File::open_async(&path).await.unwrap();
        let of_std = std::os::unix::fs::FileExt::write_at(&std::fs::File::open(&path).unwrap(), b"a", 0);
        let (error, expected) = (only_read.write_at_async(b"a", 0).await.unwrap_err(), of_std.unwrap_err());
        assert_eq!(error.raw_os_error(), expected.raw_os_error());
    });
}

#[cfg(unix)]
#[test]
fn owners_and_modes_are_set_as_std_sets_them() {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    in_each_executor(|folder| async move {
        let [file, link, dir] = ["a", "link", "dir"].map(|name| folder.path(name));
        fs::write_async(&file, "").await.unwrap();
        let (uid, gid) = fs::metadata_async(&file).await.map(|now| (now.uid(), now.gid())).unwrap();
        fs::symlink_async(folder.path("nothing"), &link).await.unwrap();
        fs::lchown_async(&link, Some(uid), None).await.unwrap();
        let error = fs::chown_async(&link, Some(uid), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let open = async || File::open_async(&file).await.unwrap();
        // Only root may give a file away. Then each call is seen to change its own file.
        if uid == 0 {
            fs::chown_async(&file, Some(7), None).await.unwrap();
            fs::fchown_async(open().await, None, Some(8)).await.unwrap();
            fs::lchown_async(&link, Some(9), Some(9)).await.unwrap();
            let owners = |of: fs::Metadata| (of.uid(), of.gid());
            assert_eq!(owners(fs::metadata_async(&file).await.unwrap()), (7, 8));
            assert_eq!(owners(fs::symlink_metadata_async(&link).await.unwrap()), (9, 9));
        } else {
            fs::fchown_async(open().await, None, Some(gid)).await.unwrap();
            let error = fs::chown_async(&file, Some(0), None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        }
        DirBuilder::new().mode(0o700).create_async(&dir).await.unwrap();
        assert_eq!(fs::metadata_async(&dir).await.unwrap().permissions().mode() & 0o777, 0o700);
    });
}

#[test]
fn many_futures_read_and_write() {
    in_each_executor(|folder| async move {
        join_all((0..100u8).map(|i| {
            let path = folder.path(&i.to_string());
            async move {
                fs::write_async(&path, vec![i; 10_000]).await.unwrap();
                assert!(fs::read_async(&path).await.unwrap() == vec![i; 10_000]);
                fs::remove_file_async(path).await.unwrap();
            }
        }))
        .await;
        assert!(entries_of(folder.root()).await.is_empty());
    });
}

/// Polls a future once, and drops it. Returns its output if it was ready.
async fn polled_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[test]
fn a_dropped_future_of_a_directory_loses_no_entry() {
    in_each_executor(|folder| async move {
        let all: BTreeSet<PathBuf> = (0..100).map(|i| folder.path(&i.to_string())).collect();
        all.iter().for_each(|path| std::fs::write(path, "").unwrap());
        let mut entries = fs::read_dir_async(folder.root()).await.unwrap();
        let mut found = BTreeSet::new();
        loop {
            // Futures that are dropped, an awaited entry, and one of the iterator.
            for _ in 0..3 {
                if let Some(entry) = polled_once(entries.next_entry_async()).await {
                    found.extend(entry.unwrap().map(|entry| entry.path()));
                }
            }
            let Some(entry) = entries.next_entry_async().await.unwrap() else { break };
            assert!(found.insert(entry.path()));
            found.extend(entries.next().map(|entry| entry.unwrap().path()));
        }
        assert!(entries.next().is_none() && found == all);
    });
}

/// Calls that block: on FIFOs, because opening one end blocks until the other end is opened.
#[cfg(unix)]
mod fifos {
    use std::ffi::CString;
    use std::io::Write;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use futures::future::{Either, select};
    use futures::join;
    use runtime::time::{sleep_async, timeout, timeout_async};
    use runtime::{Builder, blocking_async};
    use tests::{Drops, quiet_panics_on_purpose, until_it_waits, wait_until, with_built};

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn fifo(folder: &Folder, name: &str) -> PathBuf {
        let path = folder.path(name);
        let text = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the string lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
        path
    }

    /// Opens the end of a FIFO that writes, once a reader is there. Returns an error if there is none.
    fn writer(path: &Path) -> io::Result<std::fs::File> {
        use std::os::unix::fs::OpenOptionsExt;
        std::fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path)
    }

    /// Waits until a call has the one place of the runtime of the calling green thread.
    fn until_the_place_is_taken() {
        wait_until("the place is taken", || timeout(MILLI, || fs::exists("/")).is_err());
    }

    /// Polls a future until its call runs, and drops it.
    async fn until_it_runs<F: Future>(call: F) {
        match select(pin!(call), pin!(blocking_async(until_the_place_is_taken))).await {
            Either::Left(_) => panic!("the call has not blocked"),
            Either::Right(_) => {}
        }
    }

    #[test]
    fn other_branches_go_on_while_a_call_blocks() {
        in_each_beside_calls(|folder| async move {
            let path = fifo(&folder, "fifo");
            let write = async {
                sleep_async(MILLI).await;
                fs::write_async(&path, "hello").await.unwrap();
            };
            let (text, ()) = join!(fs::read_to_string_async(&path), write);
            assert_eq!(text.unwrap(), "hello");
        });
    }

    #[test]
    fn a_time_out_ends_the_wait_for_a_call() {
        in_each_beside_calls(|folder| async move {
            let path = fifo(&folder, "fifo");
            let file = OpenOptions::new().read(true).write(true).open_async(&path).await.unwrap();
            assert!(timeout_async(MILLI, file.read_async(&mut [0; 8])).await.is_err());
            // If the read has begun, this ends it, and the conversion waits for that.
            file.write_all_async(b"x").await.unwrap();
            drop(std::fs::File::from(file));
        });
    }

    #[test]
    fn awaited_calls_and_calls_that_park_wait_in_one_line() {
        with_built(Builder::new().procs(2).blocking_threads(1), |runtime| {
            let folder = Folder::new();
            let fifos: Vec<_> = (0..8).map(|i| fifo(&folder, &i.to_string())).collect();
            let mut calls = Vec::new();
            for (i, path) in fifos.iter().cloned().enumerate() {
                let waiting = runtime.handle().metrics().blocking_queue;
                calls.push(match i % 2 {
                    0 => runtime.spawn(async { fs::read_to_string_async(path).await.unwrap() }),
                    _ => runtime.spawn(|| fs::read_to_string(path).unwrap()),
                });
                match i {
                    0 => runtime.block_on(until_the_place_is_taken),
                    _ => wait_until("the call is in line", || {
                        runtime.handle().metrics().blocking_queue > waiting
                    }),
                }
            }
            // In another order, or with a second place, this would hang or end early.
            for path in &fifos {
                assert!(calls.iter().all(|call| !call.is_finished()) || path != &fifos[0]);
                std::fs::write(path, "x").unwrap();
            }
            assert!(calls.into_iter().all(|call| call.join().unwrap() == "x"));
        });
    }

    #[test]
    fn a_future_that_is_dropped_before_its_call_has_begun_makes_no_call() {
        with_built(Builder::new().procs(2).blocking_threads(1), |runtime| {
            let folder = Folder::new();
            let (path, new) = (fifo(&folder, "fifo"), folder.path("new"));
            // A future that was never polled.
            drop(fs::write_async(&new, "x"));
            let blocks = runtime.spawn({
                let path = path.clone();
                || fs::read(path)
            });
            runtime.block_on(until_the_place_is_taken);
            // A task that is cancelled while its call waits in line.
            let waiting = || runtime.handle().metrics().blocking_queue;
            let write = runtime.spawn({
                let new = new.clone();
                async { fs::write_async(new, "x").await }
            });
            wait_until("the call is in line", || waiting() == 1);
            write.cancel();
            assert!(write.join().is_err());
            wait_until("the call has left the line", || waiting() == 0);
            // Such a future of a plain OS thread.
            runtime.block_on_local(async {
                assert!(timeout_async(MILLI, fs::write_async(&new, "x")).await.is_err());
            });
            wait_until("the call has left the line", || waiting() == 0);
            std::fs::write(path, "").unwrap();
            blocks.join().unwrap().unwrap();
            // The line is empty, so a call that was still to come would be made before this one.
            assert!(!runtime.block_on(async { fs::exists_async(&new).await }).unwrap());
        });
    }

    #[test]
    fn a_call_that_runs_goes_on_after_its_future_and_closes_its_file() {
        with_built(Builder::new().procs(2).blocking_threads(1), |runtime| {
            let folder = Folder::new();
            let path = fifo(&folder, "fifo");
            for cancelled in [false, true] {
                if cancelled {
                    let path = path.clone();
                    let opens = runtime.spawn(async { File::open_async(path).await });
                    runtime.block_on(until_the_place_is_taken);
                    opens.cancel();
                    assert!(opens.join().is_err());
                } else {
                    runtime.block_on(until_it_runs(File::open_async(&path)));
                }
                let other_end = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                wait_until("the reader is closed", || (&other_end).write_all(b"x").is_err());
                drop(other_end);
                wait_until("there is no reader", || writer(&path).is_err());
            }
        });
    }

    #[test]
    fn the_end_of_the_runtime_ends_a_call_in_line() {
        let _dog = Watchdog::new();
        let folder = Folder::new();
        let path = fifo(&folder, "fifo");
        let runtime = Builder::new().procs(1).blocking_threads(1).build().unwrap();
        let handle = runtime.handle();
        let runs = std::thread::spawn({
            let (handle, path) = (handle.clone(), path.clone());
            move || handle.block_on_local(fs::read_async(path))
        });
        runtime.block_on(until_the_place_is_taken);
        let in_line = std::thread::spawn({
            let (handle, path) = (handle.clone(), path.clone());
            move || handle.block_on_local(fs::read_async(path))
        });
        wait_until("the call is in line", || handle.metrics().blocking_queue == 1);
        let ended = Arc::new(AtomicBool::new(false));
        let ends = std::thread::spawn({
            let ended = ended.clone();
            move || {
                drop(runtime);
                ended.store(true, SeqCst);
            }
        });
        assert_eq!(in_line.join().unwrap().unwrap_err().kind(), ErrorKind::NotConnected);
        // The call that runs is not interrupted, and the end waits for it.
        assert!(!ended.load(SeqCst) && !runs.is_finished());
        std::fs::write(&path, "x").unwrap();
        assert_eq!(runs.join().unwrap().unwrap(), b"x");
        ends.join().unwrap();
        // After the end no call is made.
        let new = folder.path("new");
        let error = handle.block_on_local(fs::write_async(&new, "x")).unwrap_err();
        assert!(!new.exists(), "{error}");
    }

    #[test]
    fn a_file_that_a_running_call_uses_is_given_away_after_that() {
        with_built(Builder::new().procs(2).blocking_threads(1), |runtime| {
            let folder = Folder::new();
            let path = fifo(&folder, "fifo");
            let file = File::options().read(true).write(true).open(&path).unwrap();
            runtime.block_on(async { until_it_runs(file.read_async(&mut [0; 8])).await });
            let gives = runtime.spawn(move || std::fs::File::from(file));
            until_it_waits(&gives);
            assert!(!gives.is_finished());
            std::fs::write(&path, "x").unwrap();
            drop(gives.join().unwrap());
            wait_until("the descriptor is closed", || writer(&path).is_err());
        });
    }

    /// Panics where a call uses it.
    struct Panics(#[expect(dead_code, reason = "it is dropped")] tests::Token);

    impl AsFd for Panics {
        fn as_fd(&self) -> BorrowedFd<'_> {
            panic!("{}", tests::ON_PURPOSE);
        }
    }

    #[test]
    fn a_panic_in_a_call_goes_to_the_awaiter() {
        quiet_panics_on_purpose();
        let drops = Drops::default();
        everywhere(|| {
            let call = || runtime::block_on(fs::fchown_async(Panics(drops.token()), None, None));
            let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
            assert_eq!(*panic.downcast::<String>().unwrap(), tests::ON_PURPOSE);
            wait_until("the descriptor is dropped", || drops.alive() == 0);
        });
    }
}
