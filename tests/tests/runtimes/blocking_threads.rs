//! Blocking calls of the runtime. Other green threads run during a call, and calls wait in line for the OS
//! threads that they may use. The calls open FIFOs, which blocks until the other end is opened.
#![cfg(unix)]

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use runtime::time::timeout;
use runtime::{Builder, JoinHandle, fs, spawn};
use tests::folder::Folder;
use tests::{until_it_waits, wait_until, with_built};

const MILLI: Duration = Duration::from_millis(1);

/// A FIFO: opening one end blocks until the other end is opened.
fn fifo(folder: &Folder, name: &str) -> PathBuf {
    let path = folder.path(name);
    let text = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the string lives until the call returns.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
    path
}

#[test]
fn other_green_threads_run_while_a_call_blocks() {
    with_built(Builder::new().procs(1), |runtime| {
        let folder = Folder::new();
        let path = fifo(&folder, "fifo");
        let text = runtime.block_on({
            let path = path.clone();
            move || {
                let reads = spawn({
                    let path = path.clone();
                    move || fs::read_to_string(path)
                });
                runtime::sleep(MILLI);
                fs::write(path, "hello").unwrap();
                reads.join().unwrap().unwrap()
            }
        });
        assert_eq!(text, "hello");
    });
}

#[test]
fn calls_wait_in_line_for_an_os_thread() {
    const CALLS: usize = 8;
    with_built(Builder::new().procs(2).blocking_threads(1), |runtime| {
        let folder = Folder::new();
        let fifos: Vec<_> = (0..CALLS).map(|i| fifo(&folder, &i.to_string())).collect();
        let mut calls: Vec<JoinHandle<()>> = Vec::new();
        for (i, path) in fifos.iter().cloned().enumerate() {
            calls.push(runtime.spawn(move || {
                assert_eq!(fs::read_to_string(path).unwrap(), "");
            }));
            // The first call blocks: it has the place once another call finds none. The others wait in this
            // order.
            if i > 0 {
                until_it_waits(&calls[i]);
                continue;
            }
            let probe = |path| move || timeout(MILLI, || fs::exists::<PathBuf>(path)).is_err();
            wait_until("the place is taken", || runtime.spawn(probe(folder.path("x"))).join().unwrap());
        }
        // A time-out and a cancellation end a wait in line, and the call is not made.
        let new = folder.path("new");
        let writes = runtime.spawn({
            let new = new.clone();
            move || fs::write(new, "x")
        });
        until_it_waits(&writes);
        writes.cancel();
        assert!(writes.join().is_err() && !new.exists());
        // A plain OS thread does not wait in line.
        assert!(!fs::exists(&new).unwrap());
        // Opening the other end waits for the call: in another order this would hang.
        for path in &fifos {
            drop(std::fs::OpenOptions::new().write(true).open(path).unwrap());
        }
        calls.into_iter().for_each(|call| call.join().unwrap());
    });
}

#[test]
fn calls_use_no_more_os_threads_than_allowed() {
    with_built(Builder::new().procs(1).blocking_threads(3).thread_name("bounded"), |runtime| {
        let folder = Folder::new();
        let fifos: Vec<_> = (0..30).map(|i| fifo(&folder, &i.to_string())).collect();
        let calls: Vec<_> =
            fifos.iter().cloned().map(|path| runtime.spawn(move || fs::read(path).map(drop))).collect();
        let waiting = || {
            let mut dump = Vec::new();
            runtime::dump(&mut dump).unwrap();
            let dump = String::from_utf8(dump).unwrap();
            calls
                .iter()
                .filter(|call| {
                    let id = format!("{:?}", call.thread().id());
                    let id = id.trim_matches(|c: char| !c.is_ascii_digit());
                    dump.contains(&format!("green thread {id}: waits for"))
                })
                .count()
        };
        wait_until("all other calls wait in line", || waiting() == 27);
        #[cfg(target_os = "linux")]
        assert!(tests::system::threads_named("bounded").len() < 10);
        std::thread::scope(|s| {
            for path in &fifos {
                s.spawn(move || drop(std::fs::OpenOptions::new().write(true).open(path).unwrap()));
            }
        });
        calls.into_iter().for_each(|call| call.join().unwrap().unwrap());
    });
}
