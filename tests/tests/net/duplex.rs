//! `io::duplex`: every byte comes in order, ends end, waits are woken, and what is cancelled takes nothing.

use std::io::{ErrorKind, IoSlice, Read, Write, read_to_string};
use std::net::Shutdown;
use std::time::Duration;

use runtime::io::{DuplexStream, copy_bidirectional, duplex};
use runtime::thread::Cancelled;
use runtime::time::timeout;
use runtime::{block_on, scope, spawn};
use tests::futures::{drive_on_plain_thread, either, poll_once};
use tests::{everywhere, on_each, until_it_waits};

const MINUTE: Duration = Duration::from_secs(60);

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8).collect()
}

/// Writes all bytes, and ends the writing side.
fn write_to_end(mut stream: &DuplexStream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
}

fn read_to_end(mut stream: &DuplexStream) -> Vec<u8> {
    let mut got = Vec::new();
    timeout(MINUTE, || stream.read_to_end(&mut got)).unwrap().unwrap();
    got
}

#[test]
fn every_byte_comes_in_order_in_both_directions() {
    everywhere(|| {
        for size in [1, 7, 4096] {
            let (one, other) = duplex(size);
            let (up, down) = (bytes(3000), bytes(2000));
            scope(|s| {
                s.spawn(|| write_to_end(&one, &up));
                s.spawn(|| write_to_end(&other, &down));
                let back = s.spawn(|| read_to_end(&one));
                assert!(read_to_end(&other) == up);
                assert!(back.join().unwrap() == down);
            });
        }
    });
}

#[test]
fn a_buffer_takes_what_it_has_room_for() {
    everywhere(|| {
        let (mut one, mut other) = duplex(5);
        assert_eq!(one.write_vectored(&[IoSlice::new(b"abc"), IoSlice::new(b"defg")]).unwrap(), 5);
        assert_eq!(one.write(b"").unwrap(), 0);
        assert_eq!(other.read(&mut []).unwrap(), 0);
        let mut some = [0; 3];
        assert_eq!(other.read(&mut some).unwrap(), 3);
        assert_eq!(one.write(b"xyz-").unwrap(), 3);
        drop(one);
        assert_eq!((&some, read_to_string(other).unwrap().as_str()), (b"abc", "dexyz"));
    });
}

#[test]
fn the_drop_of_an_end_wakes_what_waits_at_the_other() {
    on_each(|| {
        let (one, other) = duplex(4);
        let (mut read, mut write) = one.into_split();
        write.write_all(b"full").unwrap();
        let reads = spawn(move || read.read(&mut [0; 9]));
        let writes = spawn(move || write.write(b"more"));
        until_it_waits(&reads);
        until_it_waits(&writes);
        drop(other);
        assert_eq!(timeout(MINUTE, || reads.join()).unwrap().unwrap().unwrap(), 0);
        let broken = timeout(MINUTE, || writes.join()).unwrap().unwrap().unwrap_err();
        assert_eq!(broken.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_shutdown_ends_one_direction_and_what_was_written_is_read() {
    everywhere(|| {
        let (mut one, mut other) = duplex(64);
        one.write_all(b"last words").unwrap();
        one.shutdown(Shutdown::Write).unwrap();
        assert_eq!(one.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(read_to_string(&other).unwrap(), "last words");
        other.write_all(b"answer").unwrap();
        drop(other);
        assert_eq!(read_to_string(&one).unwrap(), "answer");
        let (mut one, other) = duplex(64);
        other.shutdown(Shutdown::Read).unwrap();
        assert_eq!(one.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_read_that_times_out_or_is_cancelled_takes_nothing() {
    on_each(|| {
        let (mut one, other) = duplex(64);
        assert!(timeout(Duration::from_millis(1), || (&other).read(&mut [0])).is_err());
        scope(|s| {
            let reads = s.spawn(|| (&other).read(&mut [0]));
            reads.abort_handle().cancel();
            assert!(reads.join().unwrap_err().is::<Cancelled>());
        });
        one.write_all(b"here").unwrap();
        drop(one);
        assert_eq!(read_to_string(&other).unwrap(), "here");
    });
}

#[test]
fn a_dropped_future_takes_nothing_and_all_waiting_readers_are_woken() {
    everywhere(|| {
        let (one, other) = duplex(8);
        block_on(async {
            let mut none = [0; 8];
            assert!(poll_once(&mut Box::pin(other.read_async(&mut none))).await.is_none());
        });
        scope(|s| {
            let readers: Vec<_> =
                (0..4).map(|_| s.spawn(async { other.read_async(&mut [0]).await.unwrap() })).collect();
            let mut left = 4;
            while left > 0 {
                left -= block_on(async { one.write_async(&[7; 8][..left]).await.unwrap() });
            }
            for reader in readers {
                assert_eq!(timeout(MINUTE, || reader.join()).unwrap().unwrap(), 1);
            }
        });
    });
}

#[test]
fn another_executor_drives_the_futures() {
    let (one, other) = duplex(2);
    let writes = std::thread::spawn(move || {
        drive_on_plain_thread(async {
            let (all, mut written) = (bytes(1000), 0);
            while written < all.len() {
                written += one.write_async(&all[written..]).await.unwrap();
            }
        });
    });
    let got = drive_on_plain_thread(async {
        let (mut got, mut buf) = (Vec::new(), [0; 3]);
        loop {
            match other.read_async(&mut buf).await.unwrap() {
                0 => return got,
                n => got.extend_from_slice(&buf[..n]),
            }
        }
    });
    assert!(got == bytes(1000));
    writes.join().unwrap();
}

#[test]
fn a_loop_that_is_always_ready_lets_the_other_branch_have_a_turn() {
    on_each(|| {
        let (one, other) = duplex(1);
        block_on(async {
            let busy = async {
                loop {
                    one.write_async(b"x").await.unwrap();
                    other.read_async(&mut [0]).await.unwrap();
                }
            };
            either(busy, runtime::time::sleep_async(Duration::from_millis(1))).await;
        });
    });
}

#[test]
fn a_proxy_copies_between_two_pairs() {
    everywhere(|| {
        let ((client, near), (far, server)) = (duplex(3), duplex(5));
        let proxy = spawn(move || copy_bidirectional(&near, &far));
        let answers = spawn(move || {
            let question = read_to_end(&server);
            write_to_end(&server, &question.repeat(2));
        });
        write_to_end(&client, b"question");
        assert_eq!(read_to_end(&client), b"questionquestion");
        answers.join().unwrap();
        assert_eq!(timeout(MINUTE, || proxy.join()).unwrap().unwrap().unwrap(), (8, 16));
    });
}

#[test]
#[should_panic(expected = "a stream without room")]
fn a_pair_without_room_is_refused() {
    duplex(0);
}
