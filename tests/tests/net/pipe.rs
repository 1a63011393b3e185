//! `io::pipe`: waits park, ends end, and the ends go to children and come from std.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write, read_to_string};
use std::sync::Arc;
use std::time::Duration;

use runtime::io::{PipeReader, pipe};
use runtime::process::Command;
use runtime::thread::Cancelled;
use runtime::time::timeout;
use runtime::{block_on, scope, spawn};
use tests::{everywhere, on, on_each, until_it_waits, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A command that copies its input to its output.
fn cat() -> Command {
    tests::child::child(env!("CARGO_BIN_EXE_child"), &["cat"])
}

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
fn a_list_of_buffers_is_written_and_read_in_one_call() {
    everywhere(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let parts = [b"".as_slice(), b"one", b"", b"three"].map(IoSlice::new);
        assert_eq!(writer.write_vectored(&parts).unwrap(), 8);
        let (mut two, mut rest) = ([0; 2], [0; 9]);
        let mut bufs = [IoSliceMut::new(&mut two), IoSliceMut::new(&mut rest)];
        assert_eq!(reader.read_vectored(&mut bufs).unwrap(), 8);
        assert_eq!((&two, &rest[..6]), (b"on", b"ethree".as_slice()));
    });
}

#[test]
fn no_bytes_are_no_end() {
    on_each(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        assert_eq!(reader.read(&mut []).unwrap(), 0);
        assert_eq!(writer.write(&[]).unwrap(), 0);
        assert!(timeout(MILLI, || reader.read(&mut [0])).is_err());
        writer.write_all(b"x").unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 1);
        drop(writer);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn a_write_after_the_end_of_the_reader_fails() {
    on_each(|| {
        let (reader, mut writer) = pipe().unwrap();
        // A read that has begun, too, leaves no reader behind.
        assert!(timeout(MILLI, || (&reader).read(&mut [0])).is_err());
        writer.write_all(b"x").unwrap();
        assert_eq!((&reader).read(&mut [0]).unwrap(), 1);
        assert!(timeout(MILLI, || (&reader).read(&mut [0])).is_err());
        drop(reader);
        assert_eq!(writer.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(writer.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn what_was_written_last_comes_after_the_writer_was_dropped() {
    everywhere(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        // More than the system keeps: the last part may be written in the background.
        let mut sent = 0;
        while let Ok(n) = timeout(5 * MILLI, || writer.write(&[7; 50_000])) {
            sent += n.unwrap();
        }
        drop(writer);
        let mut got = Vec::new();
        timeout(MINUTE, || reader.read_to_end(&mut got)).unwrap().unwrap();
        assert_eq!(got.len(), sent);
    });
}

#[test]
fn many_green_threads_share_the_ends() {
    on_each(|| {
        let (reader, writer) = pipe().unwrap();
        let (reader, writer) = (Arc::new(reader), Arc::new(writer));
        let readers: Vec<_> = (0..20)
            .map(|_| {
                let reader = reader.clone();
                spawn(move || {
                    let (mut sum, mut buf) = (0, [0; 37]);
                    loop {
                        match (&*reader).read(&mut buf).unwrap() {
                            0 => return sum,
                            n => sum += buf[..n].iter().map(|&byte| u64::from(byte)).sum::<u64>(),
                        }
                    }
                })
            })
            .collect();
        readers.iter().for_each(until_it_waits);
        scope(|s| {
            for i in 0..20 {
                let writer = writer.clone();
                s.spawn(move || (0..100).for_each(|_| (&*writer).write_all(&[i; 50]).unwrap()));
            }
        });
        drop(writer);
        let sum: u64 =
            readers.into_iter().map(|reader| timeout(MINUTE, || reader.join()).unwrap().unwrap()).sum();
        assert_eq!(sum, 5_000 * (0..20).sum::<u64>());
    });
}

#[test]
fn time_outs_lose_no_byte() {
    on_each(|| {
        let (reader, mut writer) = pipe().unwrap();
        let bytes: Vec<u8> = (0..20_000).map(|i| (i % 251) as u8).collect();
        let sent = bytes.clone();
        let writes = spawn(move || {
            for part in sent.chunks(200) {
                writer.write_all(part).unwrap();
                runtime::sleep(MILLI / 4);
            }
        });
        let (mut got, mut late) = (Vec::new(), 0);
        let mut buf = [0; 300];
        loop {
            match timeout(MILLI / 5, || (&reader).read(&mut buf)) {
                Ok(Ok(0)) => break,
                Ok(n) => got.extend_from_slice(&buf[..n.unwrap()]),
                Err(_) => late += 1,
            }
        }
        writes.join().unwrap();
        assert!(got == bytes && late > 0, "{} bytes, {late} time-outs", got.len());
    });
}

#[cfg(any(target_os = "linux", windows))]
#[test]
fn waiting_readers_take_no_os_threads() {
    tests::child::passes("waiting_readers_take_no_os_threads", "", || {
        let readers_wait = |n| {
            block_on(|| {
                let (readers, writers): (Vec<_>, Vec<_>) = (0..n).map(|_| pipe().unwrap()).unzip();
                let read = |mut reader: PipeReader| spawn(move || reader.read(&mut [0]));
                let readers: Vec<_> = readers.into_iter().map(read).collect();
                readers.iter().for_each(until_it_waits);
                let threads = tests::system::threads();
                drop(writers);
                readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap().unwrap(), 0));
                threads
            })
        };
        let few = readers_wait(1);
        let threads = readers_wait(50);
        assert!(threads < few + 10, "50 readers took {threads} OS threads, and one took {few}");
    });
}

#[test]
fn a_runtime_ends_while_pipes_wait() {
    for procs in tests::PROCS {
        let mut ends = None;
        with(procs, |runtime| {
            let (reader, writer) = runtime.block_on(|| pipe().unwrap());
            let (reader, writer) = (Arc::new(reader), Arc::new(writer));
            let (same, other) = (reader.clone(), writer.clone());
            let reads = runtime.spawn(move || (&*same).read(&mut [0]));
            until_it_waits(&reads);
            reads.cancel();
            assert!(reads.join().is_err());
            let writes = runtime.spawn(move || (&*other).write_all(&vec![7; 1 << 20]));
            until_it_waits(&writes);
            ends = Some((reader, writer));
        });
        let (reader, writer) = ends.unwrap();
        // The wait has ended with the runtime.
        wait_until("the writer is gone", || Arc::strong_count(&writer) == 1);
        drop(writer);
        // What is there can be read, and then there is an end, or nothing to wait for any more.
        let mut buf = vec![0; 1 << 20];
        let mut got = 0;
        let error = loop {
            match (&*reader).read(&mut buf) {
                Ok(0) => break None,
                Ok(n) => got += n,
                Err(error) => break Some(error.kind()),
            }
        };
        assert!(got > 0 && error.is_none_or(|kind| kind == ErrorKind::NotConnected), "{got}, {error:?}");
    }
}

#[test]
fn the_ends_go_to_a_child() {
    let (mut into_cat, mut from_cat) = {
        let ((reader, into_cat), (from_cat, writer)) = (pipe().unwrap(), pipe().unwrap());
        // It would fail at a descriptor in non-blocking mode. So it must wait for its first input.
        let mut cat = cat().stdin(reader).stdout(writer).spawn().unwrap();
        spawn(move || cat.wait());
        (into_cat, from_cat)
    };
    runtime::sleep(20 * MILLI);
    into_cat.write_all(b"meow").unwrap();
    drop(into_cat);
    let mut answer = String::new();
    timeout(MINUTE, || from_cat.read_to_string(&mut answer)).unwrap().unwrap();
    assert_eq!(answer, "meow");
}

#[test]
fn what_was_read_ahead_goes_to_the_child() {
    everywhere(|| {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"one two").unwrap();
        (&reader).read_exact(&mut [0; 4]).unwrap();
        // It takes the rest. What comes then may have been read ahead by it.
        assert!(timeout(MILLI, || (&reader).read_exact(&mut [0; 9])).is_err());
        let cat = cat().stdin(reader).stdout(runtime::process::Stdio::piped()).spawn().unwrap();
        writer.write_all(b"three").unwrap();
        drop(writer);
        assert_eq!(cat.wait_with_output().unwrap().stdout, b"three");
    });
}

#[cfg(unix)]
#[test]
fn the_ends_come_from_std_and_go_there_in_the_right_mode() {
    use std::os::fd::OwnedFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    let ours = PipeReader::try_from(reader).unwrap();
    assert!(timeout(MILLI, || (&ours).read(&mut [0])).is_err());
    let mut std_again = std::io::PipeReader::from(OwnedFd::from(ours));
    let writes = std::thread::spawn(move || {
        std::thread::sleep(5 * MILLI);
        writer.write_all(b"y").unwrap();
    });
    // It blocks, and does not return `WouldBlock`.
    assert_eq!(std_again.read(&mut [0]).unwrap(), 1);
    writes.join().unwrap();
}

#[cfg(windows)]
#[test]
fn the_ends_go_to_std_for_blocking_calls() {
    use std::fs::File;
    use std::os::windows::io::OwnedHandle;
    let (reader, mut writer) = pipe().unwrap();
    let mut reader = File::from(OwnedHandle::from(reader));
    let writes = std::thread::spawn(move || {
        std::thread::sleep(5 * MILLI);
        writer.write_all(b"y").unwrap();
    });
    assert_eq!(reader.read(&mut [0]).unwrap(), 1);
    writes.join().unwrap();
    assert_eq!(reader.read(&mut [0]).unwrap_or(0), 0);

    let (mut reader, writer) = pipe().unwrap();
    let mut writer = File::from(OwnedHandle::from(writer));
    writer.write_all(b"z").unwrap();
    assert_eq!(reader.read(&mut [0]).unwrap(), 1);
    drop(writer);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}
