//! `io::pipe`: waits park, ends end, and the ends go to children and come from std.

use std::io::{ErrorKind, Read, Write, read_to_string};
use std::os::fd::OwnedFd;
use std::time::Duration;

use runtime::io::{PipeReader, pipe};
use runtime::process::Command;
use runtime::thread::Cancelled;
use runtime::time::timeout;
use runtime::{block_on, spawn};
use tests::{everywhere, on, on_each, until_it_waits};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_reader_and_a_writer_that_wait_leave_their_p_to_others() {
    everywhere(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let reads = spawn(move || {
            let mut got = Vec::new();
            reader.read_to_end(&mut got).map(|_| got)
        });
        // More than what the system keeps, so the writer waits, too.
        let all: Vec<u8> = (0..1_000_000).map(|i| (i % 251) as u8).collect();
        writer.write_all(&all).unwrap();
        drop(writer);
        assert!(timeout(MINUTE, || reads.join()).unwrap().unwrap().unwrap() == all);
    });
}

#[test]
fn a_waiting_read_parks_its_green_thread() {
    on(1, || {
        let (mut reader, mut writer) = pipe().unwrap();
        let reads = spawn(move || reader.read(&mut [0; 9]));
        until_it_waits(&reads);
        writer.write_all(b"x").unwrap();
        assert_eq!(timeout(MINUTE, || reads.join()).unwrap().unwrap().unwrap(), 1);
    });
}

#[test]
fn a_writer_that_waits_learns_of_the_end_of_the_reader() {
    on_each(|| {
        let (reader, mut writer) = pipe().unwrap();
        let writes = spawn(move || writer.write_all(&vec![0; 1 << 20]));
        until_it_waits(&writes);
        drop(reader);
        let error = timeout(MINUTE, || writes.join()).unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_read_that_is_cancelled_takes_nothing() {
    on_each(|| {
        let (reader, mut writer) = pipe().unwrap();
        assert!(timeout(Duration::from_millis(1), || (&reader).read(&mut [0])).is_err());
        let reader = std::sync::Arc::new(reader);
        let same = reader.clone();
        let reads = spawn(move || (&*same).read(&mut [0]));
        until_it_waits(&reads);
        reads.cancel();
        assert!(reads.join().unwrap_err().is::<Cancelled>());
        writer.write_all(b"here").unwrap();
        drop(writer);
        assert_eq!(read_to_string(&*reader).unwrap(), "here");
    });
}

#[test]
fn futures_read_and_write() {
    everywhere(|| {
        let (reader, writer) = pipe().unwrap();
        let reads = spawn(async move {
            let mut buf = [0; 9];
            let n = reader.read_async(&mut buf).await?;
            std::io::Result::Ok(buf[..n].to_vec())
        });
        assert_eq!(block_on(async { writer.write_async(b"hello").await }).unwrap(), 5);
        assert_eq!(timeout(MINUTE, || reads.join()).unwrap().unwrap().unwrap(), b"hello");
    });
}

#[test]
fn the_ends_go_to_a_child_and_come_from_std_in_the_right_mode() {
    let (mut into_cat, mut from_cat) = {
        let ((reader, into_cat), (from_cat, writer)) = (pipe().unwrap(), pipe().unwrap());
        // `cat` would fail at a descriptor in non-blocking mode. So it must wait for its first input.
        let mut cat = Command::new("cat").stdin(reader).stdout(writer).spawn().unwrap();
        spawn(move || cat.wait());
        (into_cat, from_cat)
    };
    runtime::sleep(Duration::from_millis(20));
    into_cat.write_all(b"meow").unwrap();
    drop(into_cat);
    let mut answer = String::new();
    timeout(MINUTE, || from_cat.read_to_string(&mut answer)).unwrap().unwrap();
    assert_eq!(answer, "meow");

    let (reader, mut writer) = std::io::pipe().unwrap();
    let ours = PipeReader::try_from(reader).unwrap();
    assert!(timeout(Duration::from_millis(1), || (&ours).read(&mut [0])).is_err());
    let mut std_again = std::io::PipeReader::from(OwnedFd::from(ours));
    let writes = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        writer.write_all(b"y").unwrap();
    });
    // It blocks, and does not return `WouldBlock`.
    assert_eq!(std_again.read(&mut [0]).unwrap(), 1);
    writes.join().unwrap();
}
