//! Standard input: reads from a pipe or a terminal park the green thread, and a file is read. Other green
//! threads run on. On Windows a read blocks its OS thread, and no time-out ends it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::io::stdin;
#[cfg(unix)]
use runtime::time::timeout;
use runtime::{sleep, spawn};
use tests::with;

const MILLI: Duration = Duration::from_millis(1);
const CASE: &str = "TESTS_STDIN_CASE";

/// The child prints this line before it reads.
const READY: &str = "now something may come";

/// Runs `body` in a child process with `input` as its standard input. `feed` gets the other end of a pipe,
/// and a function that waits until the child is about to read.
fn child(
    test: &str,
    input: Stdio,
    feed: impl FnOnce(Option<ChildStdin>, &mut dyn FnMut()),
    body: impl FnOnce(),
) {
    if std::env::var_os(CASE).is_some() {
        let _dog = tests::Watchdog::new();
        body();
        return;
    }
    let mut child =
        tests::child::command(test).env(CASE, "1").stdin(input).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut ready = || {
        let mut line = String::new();
        // If the child has ended, its output says why.
        while !line.contains(READY) && said.read_line(&mut line).is_ok_and(|n| n > 0) {}
        std::thread::sleep(3 * MILLI);
    };
    feed(child.stdin.take(), &mut ready);
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
}

#[test]
fn a_read_from_a_pipe_parks() {
    let feed = |pipe: Option<ChildStdin>, ready: &mut dyn FnMut()| {
        let mut pipe = pipe.unwrap();
        for i in 0..20 {
            ready();
            // If the child has ended, the write fails, and the child's output says why.
            let _ = pipe.write_all(format!("line {i}\n").as_bytes());
        }
        let _ = pipe.write_all(b"the rest");
    };
    child("a_read_from_a_pipe_parks", Stdio::piped(), feed, || {
        with(1, |runtime| {
            runtime.block_on(|| {
                let ticks = Arc::new(AtomicUsize::new(0));
                let counts = ticks.clone();
                let ticker = spawn(move || {
                    loop {
                        sleep(MILLI);
                        counts.fetch_add(1, SeqCst);
                    }
                });
                let (mut line, mut given_up) = (String::new(), 0);
                for i in 0..20 {
                    println!("{READY}");
                    line.clear();
                    // A read that times out loses no byte. A read that blocked its OS thread could not time
                    // out.
                    #[cfg(unix)]
                    while timeout(MILLI, || stdin().read_line(&mut line).unwrap()).is_err() {
                        given_up += 1;
                    }
                    #[cfg(windows)]
                    {
                        given_up += stdin().read_line(&mut line).unwrap();
                    }
                    assert_eq!(line, format!("line {i}\n"));
                }
                assert!(given_up > 0 && ticks.load(SeqCst) > 0);
                ticker.cancel();
                let mut rest = String::new();
                stdin().read_to_string(&mut rest).unwrap();
                assert_eq!(rest, "the rest");
                assert_eq!(stdin().lines().count(), 0);
            });
        });
    });
}

#[test]
fn green_and_plain_threads_read_each_line_once() {
    let feed = |pipe: Option<ChildStdin>, _: &mut dyn FnMut()| {
        let mut pipe = pipe.unwrap();
        (0..100).for_each(|i| pipe.write_all(format!("{i}\n").as_bytes()).unwrap_or(()));
    };
    child("green_and_plain_threads_read_each_line_once", Stdio::piped(), feed, || {
        fn sum() -> u64 {
            let mut sum = 0;
            loop {
                let mut line = String::new();
                if stdin().read_line(&mut line).unwrap() == 0 {
                    return sum;
                }
                sum += line.trim().parse::<u64>().unwrap();
            }
        }
        with(2, |runtime| {
            let plain = std::thread::spawn(sum);
            let green: Vec<_> = (0..4).map(|_| runtime.spawn(sum)).collect();
            let green: u64 = green.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(green + plain.join().unwrap(), 4950);
        });
    });
}

#[test]
fn a_file_is_read_to_its_end() {
    let file = File::open("Cargo.toml").unwrap();
    child(
        "a_file_is_read_to_its_end",
        file.into(),
        |_, _| (),
        || {
            with(1, |runtime| {
                runtime.block_on(|| {
                    let lines: Vec<_> = stdin().lock().lines().map(Result::unwrap).collect();
                    assert!(lines.contains(&"[package]".to_string()));
                    assert_eq!(stdin().read(&mut [0; 8]).unwrap(), 0);
                });
            });
        },
    );
}

#[test]
fn an_empty_input() {
    child(
        "an_empty_input",
        Stdio::null(),
        |_, _| (),
        || {
            assert_eq!(stdin().lines().count(), 0);
        },
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_from_a_terminal_parks() {
    use std::os::fd::{FromRawFd, OwnedFd};
    let (mut main, mut other) = (-1, -1);
    let none = std::ptr::null_mut::<u8>();
    // SAFETY: `openpty` writes the two numbers. Null pointers mean that names and modes are not wanted.
    assert_eq!(unsafe { libc::openpty(&mut main, &mut other, none.cast(), none.cast(), none.cast()) }, 0);
    // SAFETY: `openpty` has just made the descriptors, so no other code owns them.
    let (main, other) = unsafe { (OwnedFd::from_raw_fd(main), OwnedFd::from_raw_fd(other)) };
    let feed = |_, ready: &mut dyn FnMut()| {
        ready();
        // The last byte is ctrl-d at the beginning of a line: the end of the input.
        File::from(main.try_clone().unwrap()).write_all(b"typed\n\x04").unwrap();
    };
    child("a_read_from_a_terminal_parks", Stdio::from(other), feed, || {
        with(1, |runtime| {
            runtime.block_on(|| {
                assert!(timeout(MILLI, || stdin().lines().next()).is_err());
                println!("{READY}");
                assert_eq!(stdin().lines().map(Result::unwrap).collect::<Vec<_>>(), ["typed"]);
            });
        });
    });
}
