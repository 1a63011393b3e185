//! Standard output and error: a full pipe parks the writer, texts are not mixed, nothing is lost at the end
//! of the process. Also `io::copy`. On Windows a full pipe blocks the writer's OS thread.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use runtime::io::{stderr, stdout};
use runtime::time::timeout;
use runtime::{block_on, scope, sleep, spawn};
use tests::everywhere;
use tests::sockets::connected;

const MILLI: Duration = Duration::from_millis(1);
const CASE: &str = "TESTS_STDOUT_CASE";
/// What the child writes follows this text: the test harness writes to standard output, too.
const BEGIN: &str = "BEGIN\n";
/// A child writes this to standard error when its parent may read.
const READ: &str = "now read";

/// Runs `body` in a child process with `output` as its standard output. `check` gets the child.
fn child(test: &str, output: Stdio, body: impl FnOnce(), check: impl FnOnce(&mut Child)) {
    if std::env::var_os(CASE).is_some() {
        let _dog = tests::Watchdog::new();
        // It may be a file that the body removes.
        drop(output);
        stdout().write_all(BEGIN.as_bytes()).unwrap();
        body();
        std::process::exit(0);
    }
    let mut child = tests::child::command(test)
        .env(CASE, "1")
        .env("RUNTIME_PROCS", "2")
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check(&mut child);
    let mut errors = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut errors).unwrap();
    }
    assert!(child.wait().unwrap().success(), "{errors}");
}

/// Returns what the child writes to standard output.
fn text(child: &mut Child) -> String {
    let text = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    text.split_once(BEGIN).unwrap().1.to_string()
}

/// Waits until the child says that its parent may read.
fn until_read(child: &mut Child) {
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(READ) {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "the child has ended");
    }
    child.stderr = Some(errors.into_inner());
}

fn lines(n: usize) -> String {
    (0..n).map(|i| format!("line {i}\n")).collect()
}

#[test]
fn a_full_pipe_parks_the_writer() {
    let body = || {
        block_on(|| {
            let writers: Vec<_> =
                (0..8).map(|_| spawn(|| stdout().write_all(lines(20_000).as_bytes()))).collect();
            if cfg!(unix) {
                tests::until_it_waits(&writers[7]);
            }
            // No writer blocks an OS thread, so other green threads run. More than there are Ps.
            scope(|s| (0..100).for_each(|_| drop(s.spawn(|| sleep(MILLI)))));
            writeln!(stderr(), "{READ}").unwrap();
            writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
        });
    };
    child("a_full_pipe_parks_the_writer", Stdio::piped(), body, |child| {
        until_read(child);
        // One text after the other.
        assert!(text(child) == lines(20_000).repeat(8));
    });
}

#[cfg(unix)]
#[test]
fn a_time_out_ends_a_write_to_a_full_pipe() {
    let body = || {
        for _ in 0..2 {
            assert!(block_on(|| timeout(5 * MILLI, || stdout().write_all(&[b'x'; 1 << 20]))).is_err());
            assert!(
                block_on(|| timeout(5 * MILLI, || write!(stdout().lock(), "{}", "x".repeat(1 << 20))))
                    .is_err()
            );
        }
        writeln!(stderr(), "{READ}").unwrap();
        block_on(|| stdout().write_all(b"the end")).unwrap();
    };
    child("a_time_out_ends_a_write_to_a_full_pipe", Stdio::piped(), body, |child| {
        until_read(child);
        let text = text(child);
        assert!(
            text.ends_with("the end") && text.trim_end_matches("the end").bytes().all(|byte| byte == b'x')
        );
    });
}

#[test]
fn texts_are_not_mixed() {
    const THREADS: usize = 50;
    let body = || {
        block_on(|| {
            scope(|s| {
                for i in 0..THREADS {
                    s.spawn(move || {
                        writeln!(stdout(), "{i} {} {}", i + 1, i + 2).unwrap();
                        // The lock is kept while the green thread changes its OS thread.
                        let mut out = stdout().lock();
                        for j in 0..3 {
                            write!(out, "{i}-{j} ").unwrap();
                            sleep(MILLI);
                            // The same green thread may take the lock again.
                            write!(stdout(), "{j} ").unwrap();
                        }
                        writeln!(out).unwrap();
                    });
                }
            });
        });
    };
    child("texts_are_not_mixed", Stdio::piped(), body, |child| {
        let text = text(child);
        let found: HashSet<_> = text.lines().map(str::to_string).collect();
        let short = (0..THREADS).map(|i| format!("{i} {} {}", i + 1, i + 2));
        let long = (0..THREADS).map(|i| format!("{i}-0 0 {i}-1 1 {i}-2 2 "));
        assert_eq!(found, short.chain(long).collect());
    });
}

#[test]
fn a_text_without_a_newline_is_not_lost() {
    let body = || {
        write!(stdout(), "{}", 1).unwrap();
        block_on(|| write!(stdout().lock(), "{}", 2)).unwrap();
        stdout().write_all(b"3").unwrap();
        assert_eq!(stdout().write(b"4").unwrap(), 1);
    };
    child("a_text_without_a_newline_is_not_lost", Stdio::piped(), body, |child| {
        assert_eq!(text(child), "1234")
    });
}

#[test]
fn a_file_is_written() {
    let folder = tests::folder::Folder::new();
    let path = folder.path("out");
    let body = || {
        // The child has made a folder, too.
        std::fs::remove_dir_all(folder.root()).unwrap();
        block_on(|| stdout().write_all(lines(20_000).as_bytes())).unwrap();
    };
    child("a_file_is_written", std::fs::File::create(&path).unwrap().into(), body, |child| {
        assert!(child.wait().unwrap().success());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.split_once(BEGIN).unwrap().1 == lines(20_000));
    });
}

#[cfg(unix)]
#[test]
fn a_stream_that_cannot_be_written_takes_everything() {
    let input = std::fs::File::open("/dev/null").unwrap();
    let body = || block_on(|| stdout().write_all(&[0; 1 << 20])).unwrap();
    child("a_stream_that_cannot_be_written_takes_everything", input.into(), body, |_| ());
}

#[test]
fn copy_goes_on_to_the_end() {
    everywhere(|| {
        let data: Vec<u8> = (0..300_000u32).map(|i| (i >> 3) as u8).collect();
        let (mut from, mut to) = connected();
        let sent = data.clone();
        let copies = spawn(move || runtime::io::copy(&mut &sent[..], &mut to).unwrap());
        let mut got = Vec::new();
        assert_eq!(runtime::io::copy(&mut from, &mut got).unwrap(), data.len() as u64);
        assert_eq!(copies.join().unwrap(), data.len() as u64);
        assert!(got == data);
        assert!(
            timeout(5 * MILLI, || {
                let (mut from, _to) = connected();
                runtime::io::copy(&mut from, &mut std::io::sink())
            })
            .is_err()
        );
    });
}
