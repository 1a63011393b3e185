//! Streams for async crates: the traits of futures-io and tokio, in this runtime's executor and in tokio's.
#![cfg(feature = "async-io")]

use std::io::{self, ErrorKind};
use std::time::Duration;

use runtime::net::TcpStream;
use runtime::time::{sleep_async, timeout_async};
use runtime::{block_on, sleep, spawn};
use tests::sockets::{connected, listener};
use tests::{everywhere, on_each};

const MILLI: Duration = Duration::from_millis(1);

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8).collect()
}

/// Makes a test for a set of traits: all bytes are carried in both directions at the same time, up to the
/// shutdown.
macro_rules! carries_every_byte {
    ($name:ident, $copy:path, $ext:path) => {
        #[test]
        fn $name() {
            on_each(|| {
                let (client, server) = connected();
                let echo = spawn(async move { $copy(server).await.unwrap() });
                let (mut writes, mut reads) = (client.try_clone().unwrap(), client);
                let writer = spawn(async move {
                    use $ext::*;
                    writes.write_all(&bytes(1_000_000)).await.unwrap();
                    shut(&writes);
                });
                let got = block_on(async {
                    use $ext::*;
                    let mut got = Vec::new();
                    reads.read_to_end(&mut got).await.unwrap();
                    got
                });
                assert!(got == bytes(1_000_000));
                writer.join().unwrap();
                echo.join().unwrap();
            });
        }
    };
}

fn shut(stream: &TcpStream) {
    stream.shutdown(std::net::Shutdown::Write).unwrap();
}

async fn echo_futures(stream: TcpStream) -> io::Result<()> {
    use futures_lite::io::AsyncWriteExt;
    futures_lite::io::copy(&stream, &mut &stream).await?;
    (&stream).close().await
}

async fn echo_tokio(stream: TcpStream) -> io::Result<()> {
    use tokio::io::AsyncWriteExt;
    let (mut reads, mut writes) = tokio::io::split(stream);
    tokio::io::copy(&mut reads, &mut writes).await?;
    writes.shutdown().await
}

mod futures_ext {
    pub(crate) use futures_lite::io::{AsyncReadExt, AsyncWriteExt};
}
mod tokio_ext {
    pub(crate) use tokio::io::{AsyncReadExt, AsyncWriteExt};
}

carries_every_byte!(futures_io_carries_every_byte, echo_futures, futures_ext);
carries_every_byte!(tokio_carries_every_byte, echo_tokio, tokio_ext);

#[test]
fn a_pending_read_is_woken_and_a_timed_out_read_takes_nothing() {
    use tokio_ext::*;
    everywhere(|| {
        let (mut client, mut server) = connected();
        let late = block_on(async { timeout_async(2 * MILLI, client.read_u8()).await });
        assert!(late.is_err());
        let waits = spawn(async move { client.read_u8().await });
        sleep(MILLI);
        assert!(!waits.is_finished());
        std::io::Write::write_all(&mut server, &[7]).unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), 7);
    });
}

#[test]
fn blocking_and_async_code_share_a_stream() {
    use tokio_ext::*;
    on_each(|| {
        let (client, server) = connected();
        let mut clone = client.try_clone().unwrap();
        let asks = spawn(async move {
            for i in 0..200u8 {
                clone.write_all(&[i]).await.unwrap();
                if i % 50 == 0 {
                    sleep_async(MILLI / 10).await;
                }
            }
        });
        let echo = spawn(move || io::copy(&mut &server, &mut &server).map(drop));
        for i in 0..200u8 {
            let mut byte = [0];
            io::Read::read_exact(&mut &client, &mut byte).unwrap();
            assert_eq!(byte, [i]);
        }
        asks.join().unwrap();
        shut(&client);
        echo.join().unwrap().unwrap();
    });
}

#[test]
fn a_reset_and_a_close_are_reported() {
    use tokio_ext::*;
    on_each(|| {
        let (mut client, server) = connected();
        let waits = spawn(async move { client.read_u8().await.unwrap_err().kind() });
        sleep(MILLI);
        server.set_linger(Some(Duration::ZERO)).unwrap();
        drop(server);
        assert_eq!(waits.join().unwrap(), ErrorKind::ConnectionReset);
        let (mut client, server) = connected();
        drop(server);
        assert_eq!(block_on(async { client.read(&mut [0]).await.unwrap() }), 0);
    });
}

#[test]
fn tokio_drives_a_stream_in_its_own_executor() {
    use tokio_ext::*;
    let _dog = tests::Watchdog::new();
    let (listener, addr) = listener();
    let server = spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        io::copy(&mut &stream, &mut &stream).unwrap();
    });
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        let mut stream = TcpStream::connect(addr).unwrap();
        for i in 0..100u32 {
            stream.write_u32(i).await.unwrap();
            assert_eq!(stream.read_u32().await.unwrap(), i);
        }
    });
    server.join().unwrap();
}

/// `AsyncBufRead`, by the buffered readers of both crates: also of a reference, while another branch writes.
#[test]
fn buffered_readers_read_lines() {
    use futures::io::AsyncBufReadExt as _;
    use futures::{StreamExt, TryStreamExt};
    use tokio::io::AsyncBufReadExt as _;
    on_each(|| {
        let (mut client, server) = connected();
        let lines: Vec<_> = (0..500).map(|i| format!("line {i} {}", "x".repeat(i))).collect();
        let wanted = lines.clone();
        let sender = spawn(async move {
            let mut reader = tokio::io::BufReader::new(&mut client).lines();
            let mut got = Vec::new();
            while let Some(line) = reader.next_line().await.unwrap() {
                got.push(line);
            }
            assert_eq!(got, wanted);
        });
        block_on(async {
            use futures_lite::io::AsyncWriteExt;
            for line in &lines {
                (&server).write_all(format!("{line}\n").as_bytes()).await.unwrap();
            }
            shut(&server);
        });
        sender.join().unwrap();

        let (client, server) = connected();
        let both = async {
            use futures_lite::io::AsyncWriteExt;
            let writes = async {
                for line in &lines {
                    (&server).write_all(format!("{line}\n").as_bytes()).await.unwrap();
                }
                shut(&server);
            };
            let reads = futures::io::BufReader::new(&client).lines().try_collect::<Vec<_>>();
            let split = async {
                let (reader, _writer) = futures::io::AsyncReadExt::split(&server);
                futures::io::BufReader::new(reader).lines().next().await
            };
            shut(&client);
            futures::join!(writes, reads, split)
        };
        let ((), got, none) = block_on(both);
        assert_eq!(got.unwrap(), lines);
        assert!(none.is_none());
    });
}

#[cfg(unix)]
#[test]
fn unix_streams_carry_every_byte() {
    on_each(|| {
        let (one, other) = runtime::net::unix::UnixStream::pair().unwrap();
        let writer = spawn(async move {
            use tokio::io::AsyncWriteExt;
            let mut one = one;
            one.write_all(&bytes(500_000)).await.unwrap();
            one.flush().await.unwrap();
        });
        let got = block_on(async {
            use futures_lite::io::AsyncReadExt;
            let mut got = Vec::new();
            (&other).read_to_end(&mut got).await.unwrap();
            got
        });
        assert!(got == bytes(500_000));
        writer.join().unwrap();
    });
}
