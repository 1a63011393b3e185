//! Files and directories: results and errors are those of std.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use runtime::fs::{self, File};
use runtime::time::timeout;
use runtime::{scope, spawn};
use tests::everywhere;
use tests::folder::Folder;

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn functions_do_what_those_of_std_do() {
    everywhere(|| {
        let folder = Folder::new();
        let [a, b, dir] = ["a", "b", "dir"].map(|name| folder.path(name));
        fs::write(&a, "hello").unwrap();
        assert_eq!(std::fs::read(&a).unwrap(), b"hello");
        assert_eq!(fs::read(&a).unwrap(), b"hello");
        assert_eq!(fs::read_to_string(&a).unwrap(), "hello");
        // Under wine that of std returns 0.
        assert_eq!(fs::copy(&a, &b).unwrap(), std::fs::copy(&a, folder.path("of std")).unwrap());
        fs::remove_file(folder.path("of std")).unwrap();
        assert_eq!(fs::read(&b).unwrap(), b"hello");
        fs::remove_file(&a).unwrap();
        assert!(!fs::exists(&a).unwrap() && fs::exists(&b).unwrap());
        fs::rename(&b, &a).unwrap();
        fs::hard_link(&a, &b).unwrap();
        assert_eq!(fs::metadata(&b).unwrap().len(), 5);
        let roundabout = folder.root().join("..").join(folder.root().file_name().unwrap()).join("a");
        assert_eq!(fs::canonicalize(roundabout).unwrap(), std::fs::canonicalize(&a).unwrap());
        #[cfg(unix)]
        {
            let link = folder.path("link");
            fs::symlink(&a, &link).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), a);
            assert!(
                fs::symlink_metadata(&link).unwrap().is_symlink() && fs::metadata(&link).unwrap().is_file()
            );
            fs::remove_file(link).unwrap();
        }
        let mut permissions = fs::metadata(&a).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&a, permissions).unwrap();
        assert!(std::fs::metadata(&a).unwrap().permissions().readonly());

        fs::create_dir(&dir).unwrap();
        fs::create_dir_all(dir.join("x/y")).unwrap();
        fs::DirBuilder::new().create(dir.join("z")).unwrap();
        let mut entries: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap()).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        assert_eq!(
            entries.iter().map(fs::DirEntry::path).collect::<Vec<_>>(),
            [dir.join("x"), dir.join("z")]
        );
        assert!(
            entries
                .iter()
                .all(|entry| entry.file_type().unwrap().is_dir() && entry.metadata().unwrap().is_dir())
        );
        fs::remove_dir(dir.join("z")).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert!(!dir.exists());
    });
}

#[test]
fn errors_are_those_of_std() {
    type Call = fn(&Path, &Path) -> io::Result<()>;
    let calls: [(Call, Call); 13] = [
        (|p, _| fs::canonicalize(p).map(drop), |p, _| std::fs::canonicalize(p).map(drop)),
        (|p, q| fs::copy(p, q).map(drop), |p, q| std::fs::copy(p, q).map(drop)),
        (|p, _| fs::create_dir(p), |p, _| std::fs::create_dir(p)),
        (|p, q| fs::hard_link(p, q), |p, q| std::fs::hard_link(p, q)),
        (|p, _| fs::metadata(p).map(drop), |p, _| std::fs::metadata(p).map(drop)),
        (|p, _| fs::read(p).map(drop), |p, _| std::fs::read(p).map(drop)),
        (|p, _| fs::read_dir(p).map(drop), |p, _| std::fs::read_dir(p).map(drop)),
        (|p, _| fs::read_link(p).map(drop), |p, _| std::fs::read_link(p).map(drop)),
        (|p, _| fs::remove_dir(p), |p, _| std::fs::remove_dir(p)),
        (|p, _| fs::remove_file(p), |p, _| std::fs::remove_file(p)),
        (|p, q| fs::rename(p, q), |p, q| std::fs::rename(p, q)),
        (|p, _| fs::write(p, "x"), |p, _| std::fs::write(p, "x")),
        (|p, _| File::open(p).map(drop), |p, _| std::fs::File::open(p).map(drop)),
    ];
    let missing = (Path::new("/no/such/path"), Path::new("/no/such/other"));
    everywhere(|| {
        for (i, (ours, theirs)) in calls.iter().enumerate() {
            let (ours, theirs) = (ours(missing.0, missing.1), theirs(missing.0, missing.1));
            assert_eq!(ours.unwrap_err().to_string(), theirs.unwrap_err().to_string(), "call {i}");
        }
    });
}

#[test]
fn a_file_reads_writes_and_seeks() {
    everywhere(|| {
        let folder = Folder::new();
        let mut file = File::create_new(folder.path("a")).unwrap();
        file.write_all(b"hello ").unwrap();
        // Windows writes the first buffer alone.
        let written = file.write_vectored(&[IoSlice::new(b"wor"), IoSlice::new(b"ld")]).unwrap();
        assert_eq!(written, if cfg!(windows) { 3 } else { 5 });
        file.write_all(&b"world"[written..]).unwrap();
        file.flush().unwrap();
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.seek(SeekFrom::Start(6)).unwrap(), 6);
        let mut text = String::new();
        file.try_clone().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((&*text, file.stream_position().unwrap()), ("world", 11));
        file.rewind().unwrap();
        let (mut one, mut other) = ([0; 2], [0; 2]);
        let read = file.read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)]).unwrap();
        assert_eq!(read, if cfg!(windows) { 2 } else { 4 });
        file.read_exact(&mut other[read - 2..]).unwrap();
        assert_eq!((&one, &other), (b"he", b"ll"));
        file.set_len(7).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 7);
        #[cfg(unix)]
        {
            use std::os::unix::fs::FileExt;
            file.write_all_at(b"W", 6).unwrap();
            file.read_exact_at(&mut one, 5).unwrap();
            assert_eq!(&one, b" W");
        }
        #[cfg(not(unix))]
        {
            file.seek(SeekFrom::Start(6)).unwrap();
            file.write_all(b"W").unwrap();
        }
        assert_eq!(File::create_new(folder.path("a")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        File::options().append(true).open(folder.path("a")).unwrap().write_all(b"!").unwrap();
        assert_eq!(fs::read(folder.path("a")).unwrap(), b"hello W!");
        assert_eq!(File::create(folder.path("a")).unwrap().metadata().unwrap().len(), 0);
    });
}

#[test]
fn many_green_threads_read_and_write() {
    everywhere(|| {
        let folder = Folder::new();
        scope(|s| {
            for i in 0..100u32 {
                let path = folder.path(&i.to_string());
                s.spawn(move || {
                    fs::write(&path, vec![i as u8; 10_000]).unwrap();
                    assert!(fs::read(&path).unwrap() == vec![i as u8; 10_000]);
                    fs::remove_file(path).unwrap();
                });
            }
        });
        assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 0);
    });
}

#[test]
fn a_time_out_ends_the_wait_for_a_lock() {
    everywhere(|| {
        let folder = Folder::new();
        fs::write(folder.path("a"), "").unwrap();
        let [one, other] = [(); 2].map(|()| File::open(folder.path("a")).unwrap());
        one.lock().unwrap();
        assert!(timeout(5 * MILLI, || other.lock()).is_err());
        assert!(timeout(5 * MILLI, || other.lock_shared()).is_err());
        let waits = spawn(move || other.lock());
        one.unlock().unwrap();
        waits.join().unwrap().unwrap();
        one.lock_shared().unwrap();
    });
}

#[cfg(unix)]
#[test]
fn owners_are_set_as_std_sets_them() {
    use std::os::unix::fs::MetadataExt;
    everywhere(|| {
        let folder = Folder::new();
        let [file, link] = ["a", "link"].map(|name| folder.path(name));
        fs::write(&file, "").unwrap();
        let (uid, gid) = fs::metadata(&file).map(|now| (now.uid(), now.gid())).unwrap();
        fs::chown(&file, Some(uid), Some(gid)).unwrap();
        fs::fchown(File::open(&file).unwrap(), None, Some(gid)).unwrap();
        // The link leads nowhere: one follows it, and the other does not.
        fs::symlink(folder.path("nothing"), &link).unwrap();
        fs::lchown(&link, Some(uid), None).unwrap();
        assert_eq!(fs::chown(&link, Some(uid), None).unwrap_err().kind(), ErrorKind::NotFound);
        // Only root may give a file away. Then each call is seen to change its own file.
        if uid == 0 {
            fs::chown(&file, Some(7), None).unwrap();
            fs::fchown(File::open(&file).unwrap(), None, Some(8)).unwrap();
            fs::lchown(&link, Some(9), Some(9)).unwrap();
            let owners = |of: fs::Metadata| (of.uid(), of.gid());
            assert_eq!(owners(fs::metadata(&file).unwrap()), (7, 8));
            assert_eq!(owners(fs::symlink_metadata(&link).unwrap()), (9, 9));
        } else {
            assert_eq!(fs::chown(&file, Some(0), None).unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
    });
}

#[cfg(unix)]
#[test]
fn a_file_is_made_of_a_descriptor() {
    use std::os::fd::{FromRawFd, IntoRawFd};
    everywhere(|| {
        let folder = Folder::new();
        fs::write(folder.path("a"), "hello").unwrap();
        let raw = File::open(folder.path("a")).unwrap().into_raw_fd();
        // SAFETY: `into_raw_fd` has given the descriptor up, so nothing else closes it.
        let mut file = unsafe { File::from_raw_fd(raw) };
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    });
}
