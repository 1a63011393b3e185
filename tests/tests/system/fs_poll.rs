//! Files, pipes and child processes by the traits of `futures-io` and tokio.
#![cfg(feature = "async-io")]

use std::future::{Future, poll_fn};
use std::io::{ErrorKind, SeekFrom};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::task::Poll;

use runtime::fs::{self, File, OpenOptions};
use tests::folder::Folder;
use tests::{everywhere, on_each};

/// More than one call reads or writes.
const MANY: usize = 5 << 20;

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8).collect()
}

async fn open(path: &PathBuf) -> File {
    OpenOptions::new().read(true).write(true).create(true).open_async(path).await.unwrap()
}

/// Polls once, and drops the future.
async fn begin<T>(future: impl Future<Output = T>) -> Poll<T> {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Makes the tests for the traits of one crate.
macro_rules! of_traits {
    ($module:ident, $($ext:ident)::+, $copy:path, $close:ident) => {
        mod $module {
            use $($ext)::+::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

            use super::*;

            fn in_each_executor<F: Future<Output = ()> + Send + 'static>(make: fn(Folder) -> F) {
                everywhere(|| runtime::block_on(make(Folder::new())));
                on_each(|| runtime::spawn(make(Folder::new())).join().unwrap());
                futures::executor::block_on(make(Folder::new()));
            }

            #[test]
            fn all_bytes_go_from_file_to_file() {
                in_each_executor(|folder| async move {
                    let [from, to] = ["from", "to"].map(|name| folder.path(name));
                    fs::write_async(&from, bytes(MANY)).await.unwrap();
                    let (mut reads, mut writes) = (open(&from).await, open(&to).await);
                    assert_eq!($copy(&mut reads, &mut writes).await.unwrap(), MANY as u64);
                    writes.$close().await.unwrap();
                    assert!(fs::read_async(&to).await.unwrap() == bytes(MANY));
                });
            }

            #[test]
            fn reads_writes_and_seeks_keep_their_order() {
                in_each_executor(|folder| async move {
                    let mut file = open(&folder.path("file")).await;
                    for i in 0..100u8 {
                        file.write_all(&[i; 3]).await.unwrap();
                    }
                    assert_eq!(file.seek(SeekFrom::Current(-3)).await.unwrap(), 297);
                    let mut three = [0; 3];
                    file.read_exact(&mut three).await.unwrap();
                    assert_eq!((three, file.read(&mut three).await.unwrap()), ([99; 3], 0));
                    assert_eq!(file.seek(SeekFrom::Start(3)).await.unwrap(), 3);
                    file.write_all(b"xyz").await.unwrap();
                    file.read_exact(&mut three).await.unwrap();
                    assert_eq!(three, [2; 3]);
                    file.flush().await.unwrap();
                    assert_eq!(fs::read_async(folder.path("file")).await.unwrap()[3..9], *b"xyz\x02\x02\x02");
                    assert_eq!(file.seek(SeekFrom::Start(u64::MAX)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
                    assert_eq!(file.seek(SeekFrom::End(0)).await.unwrap(), 300);
                });
            }

            /// Opens the file, and drops a read of eight bytes that is under way.
            async fn reads(path: &PathBuf, at: u64) -> File {
                loop {
                    let mut file = open(path).await;
                    file.seek(SeekFrom::Start(at)).await.unwrap();
                    if begin(file.read(&mut [0; 8])).await.is_pending() {
                        return file;
                    }
                    // It was done at once, and has its bytes.
                }
            }

            /// The next read has them, also with less room. A write and a seek count from the first of them.
            #[test]
            fn what_a_dropped_future_has_read_is_not_lost() {
                in_each_executor(|folder| async move {
                    let path = folder.path("file");
                    fs::write_async(&path, "0123456789").await.unwrap();
                    let mut file = reads(&path, 0).await;
                    let mut two = [0; 2];
                    file.read_exact(&mut two).await.unwrap();
                    assert_eq!(&two, b"01");
                    assert_eq!(file.seek(SeekFrom::Current(1)).await.unwrap(), 3);
                    let mut file = reads(&path, 2).await;
                    file.read_exact(&mut two[..1]).await.unwrap();
                    file.write_all(b"ab").await.unwrap();
                    file.read_exact(&mut two).await.unwrap();
                    assert_eq!(&two, b"56");
                    file.flush().await.unwrap();
                    assert_eq!(fs::read_async(&path).await.unwrap(), b"012ab56789");
                });
            }

            #[test]
            fn a_dropped_seek_moves_no_later_one() {
                in_each_executor(|folder| async move {
                    let path = folder.path("file");
                    fs::write_async(&path, "0123456789").await.unwrap();
                    let mut file = open(&path).await;
                    for at in [3, 7, 1] {
                        let _ = begin(file.seek(SeekFrom::Start(5))).await;
                        assert_eq!(file.seek(SeekFrom::Start(at)).await.unwrap(), at);
                        let mut one = [0];
                        file.read_exact(&mut one).await.unwrap();
                        assert_eq!(one[0], b'0' + at as u8);
                    }
                });
            }

            #[test]
            fn what_was_written_comes_also_after_a_drop() {
                on_each(|| {
                    let folder = Folder::new();
                    let path = folder.path("file");
                    runtime::block_on(async { open(&path).await.write_all(b"hello").await.unwrap() });
                    tests::wait_until("it is written", || std::fs::read(&path).unwrap() == b"hello");
                });
            }

            /// That of a write comes with the flush, or with the next write, and once.
            #[test]
            fn errors_reach_the_caller() {
                in_each_executor(|folder| async move {
                    let path = folder.path("file");
                    fs::write_async(&path, "0123456789").await.unwrap();
                    let mut reads = File::open_async(&path).await.unwrap();
                    reads.write_all(b"a").await.unwrap();
                    reads.flush().await.unwrap_err();
                    reads.flush().await.unwrap();
                    reads.write_all(b"a").await.unwrap();
                    reads.write_all(b"b").await.unwrap_err();
                    let mut all = Vec::new();
                    assert_eq!(reads.read_to_end(&mut all).await.unwrap(), 10);
                    let mut writes = OpenOptions::new().write(true).open_async(&path).await.unwrap();
                    writes.read(&mut [0; 3]).await.unwrap_err();
                    // A directory can be opened, but not read.
                    #[cfg(unix)]
                    {
                        let mut dir = File::open_async(folder.root()).await.unwrap();
                        let error = dir.read(&mut [0; 3]).await.unwrap_err();
                        assert_eq!(error.kind(), ErrorKind::IsADirectory);
                    }
                });
            }

            /// Pipes are polled as sockets are.
            #[test]
            #[cfg(unix)]
            fn all_bytes_go_through_a_pipe_and_a_child() {
                use runtime::process::{Command, Stdio};

                in_each_executor(|_| async move {
                    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
                    let (mut into_cat, mut from_cat) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
                    let (mut reader, mut writer) = runtime::io::pipe().unwrap();
                    let writes = async {
                        into_cat.write_all(&bytes(1_000_000)).await.unwrap();
                        into_cat.$close().await.unwrap();
                        drop(into_cat);
                    };
                    let carries = async {
                        assert_eq!($copy(&mut from_cat, &mut writer).await.unwrap(), 1_000_000);
                        drop(writer);
                    };
                    let mut got = Vec::new();
                    let reads = reader.read_to_end(&mut got);
                    let (_, _, n) = futures::join!(writes, carries, reads);
                    assert_eq!(n.unwrap(), 1_000_000);
                    assert!(got == bytes(1_000_000));
                    assert!(cat.wait().unwrap().success());
                });
            }
        }
    };
}

of_traits!(of_futures_io, futures_lite::io, futures_lite::io::copy, close);
of_traits!(of_tokio, tokio::io, tokio::io::copy, shutdown);

/// tokio's seek in two steps.
#[test]
fn a_second_call_cannot_begin_during_a_seek() {
    use tokio::io::{AsyncReadExt, AsyncSeek};

    on_each(|| {
        let folder = Folder::new();
        runtime::block_on(async move {
            fs::write_async(folder.path("file"), "0123456789").await.unwrap();
            let mut file = open(&folder.path("file")).await;
            Pin::new(&mut file).start_seek(SeekFrom::Start(4)).unwrap();
            let error = Pin::new(&mut file).start_seek(SeekFrom::Start(5)).unwrap_err();
            assert!(error.to_string().contains("poll_complete"), "{error}");
            for _ in 0..2 {
                assert_eq!(poll_fn(|cx| Pin::new(&mut file).poll_complete(cx)).await.unwrap(), 4);
            }
            assert_eq!(file.read_u8().await.unwrap(), b'4');
        });
    });
}
