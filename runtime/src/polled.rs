//! Streams and pipes for async crates: the traits of `futures-io`, `tokio` and `hyper`, each behind a
//! feature, on one way to poll.
//!
//! They work in any executor. Time-outs and the non-blocking mode hold for blocking calls only.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

use netpoll::Direction;

#[cfg(unix)]
use crate::net::unix::UnixStream;
use crate::net::{TcpStream, duplex::DuplexStream};

/// The result of ending the writing side. It is no error that the peer has left already.
fn close(shutdown: io::Result<()>) -> Poll<io::Result<()>> {
    match shutdown {
        Err(error) if error.kind() != io::ErrorKind::NotConnected => Poll::Ready(Err(error)),
        _ => Poll::Ready(Ok(())),
    }
}

/// The writing traits of all three crates have these methods. `$end` is the method that ends the writing
/// side, and `$ended` makes its result.
#[allow(unused_macros, reason = "it is for three features")]
macro_rules! write {
    ($source:ty, $trait:path, $end:ident, $ended:expr $(, $is_vectored:item)?) => {
        impl $trait for $source {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                self.0.poll(Direction::Write, cx, |mut source| io::Write::write(&mut source, buf))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0.poll(Direction::Write, cx, |mut source| io::Write::write_vectored(&mut source, bufs))
            }

            $($is_vectored)?

            fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn $end(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let ended: fn(&Self) -> Poll<io::Result<()>> = $ended;
                ended(&self)
            }
        }
    };
}

/// As `write`, for tokio and hyper.
#[allow(unused_macros, reason = "it is for two features")]
macro_rules! write_or_shut {
    ($source:ty, $trait:path, $ended:expr) => {
        write!(
            $source,
            $trait,
            poll_shutdown,
            $ended,
            fn is_write_vectored(&self) -> bool {
                true
            }
        );
    };
}

#[cfg(feature = "hyper")]
macro_rules! hyper {
    ($stream:ty) => {
        impl ::hyper::rt::Read for $stream {
            #[allow(unsafe_code)]
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                mut buf: ::hyper::rt::ReadBufCursor<'_>,
            ) -> Poll<io::Result<()>> {
                let n = std::task::ready!(self.0.poll(Direction::Read, cx, |stream| {
                    // SAFETY: `receive_uninit` writes initialized bytes only, and reads none.
                    let room = unsafe { buf.as_mut() };
                    stream.receive_uninit(room)
                }))?;
                // SAFETY: `receive_uninit` has just written `n` bytes.
                unsafe { buf.advance(n) };
                Poll::Ready(Ok(()))
            }
        }

        write_or_shut!($stream, ::hyper::rt::Write, |stream| close(stream.shutdown(Shutdown::Write)));
    };
}

/// The traits of another crate for the halves of a stream. `$end` is the method that ends the writing side.
#[allow(unused_macros, reason = "it is for two of three features")]
macro_rules! halves {
    ($read:path, $write:path, $buf:ty, $n:ty, $end:ident) => {
        impl<S: crate::net::Split + $read + Unpin> $read for crate::net::OwnedReadHalf<S> {
            fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: $buf) -> Poll<io::Result<$n>> {
                Pin::new(&mut self.0).poll_read(cx, buf)
            }
        }

        impl<S: crate::net::Split + $write + Unpin> $write for crate::net::OwnedWriteHalf<S> {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(self.stream_mut()).poll_write(cx, buf)
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                Pin::new(self.stream_mut()).poll_write_vectored(cx, bufs)
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(self.stream_mut()).poll_flush(cx)
            }

            fn $end(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(self.stream_mut()).$end(cx)
            }
        }
    };
}

#[cfg(feature = "futures-io")]
mod of_futures_io {
    use super::*;
    use crate::io::{PipeReader, PipeWriter};
    use crate::process::{ChildStderr, ChildStdin, ChildStdout};

    macro_rules! read {
        ($source:ty) => {
            impl futures_io::AsyncRead for $source {
                fn poll_read(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buf: &mut [u8],
                ) -> Poll<io::Result<usize>> {
                    self.0.poll(Direction::Read, cx, |mut source| io::Read::read(&mut source, buf))
                }

                fn poll_read_vectored(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    bufs: &mut [io::IoSliceMut<'_>],
                ) -> Poll<io::Result<usize>> {
                    self.0.poll(Direction::Read, cx, |mut source| io::Read::read_vectored(&mut source, bufs))
                }
            }
        };
    }

    macro_rules! stream {
        ($stream:ty) => {
            read!($stream);
            write!($stream, futures_io::AsyncWrite, poll_close, |stream| close(
                stream.shutdown(Shutdown::Write)
            ));
        };
    }

    stream!(TcpStream);
    stream!(&TcpStream);
    halves!(futures_io::AsyncRead, futures_io::AsyncWrite, &mut [u8], usize, poll_close);

    macro_rules! write_pipe {
        ($pipe:ty) => {
            write!($pipe, futures_io::AsyncWrite, poll_close, |_| Poll::Ready(Ok(())));
        };
    }

    #[cfg(unix)]
    stream!(UnixStream);
    #[cfg(unix)]
    stream!(&UnixStream);
    stream!(DuplexStream);
    stream!(&DuplexStream);
    read!(PipeReader);
    read!(ChildStdout);
    read!(ChildStderr);
    write_pipe!(PipeWriter);
    write_pipe!(ChildStdin);
}

#[cfg(feature = "tokio-io")]
mod of_tokio {
    use super::*;
    use crate::io::{PipeReader, PipeWriter};
    use crate::process::{ChildStderr, ChildStdin, ChildStdout};

    macro_rules! read {
        ($source:ty) => {
            impl tokio::io::AsyncRead for $source {
                fn poll_read(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buf: &mut tokio::io::ReadBuf<'_>,
                ) -> Poll<io::Result<()>> {
                    let room = buf.initialize_unfilled();
                    let read =
                        self.0.poll(Direction::Read, cx, |mut source| io::Read::read(&mut source, room));
                    buf.advance(std::task::ready!(read)?);
                    Poll::Ready(Ok(()))
                }
            }
        };
    }

    macro_rules! stream {
        ($stream:ty) => {
            read!($stream);
            write_or_shut!($stream, tokio::io::AsyncWrite, |stream| close(stream.shutdown(Shutdown::Write)));
        };
    }

    stream!(TcpStream);
    stream!(&TcpStream);
    halves!(tokio::io::AsyncRead, tokio::io::AsyncWrite, &mut tokio::io::ReadBuf<'_>, (), poll_shutdown);

    macro_rules! write_pipe {
        ($pipe:ty) => {
            write_or_shut!($pipe, tokio::io::AsyncWrite, |_| Poll::Ready(Ok(())));
        };
    }

    #[cfg(unix)]
    stream!(UnixStream);
    #[cfg(unix)]
    stream!(&UnixStream);
    stream!(DuplexStream);
    stream!(&DuplexStream);
    read!(PipeReader);
    read!(ChildStdout);
    read!(ChildStderr);
    write_pipe!(PipeWriter);
    write_pipe!(ChildStdin);
}

#[cfg(feature = "hyper")]
mod hyper_streams {
    use super::*;
    use crate::net::source::ReceiveUninit;

    impl ReceiveUninit for crate::net::duplex::End {
        fn receive_uninit(&self, room: &mut [std::mem::MaybeUninit<u8>]) -> io::Result<usize> {
            self.read_uninit(room)
        }
    }

    hyper!(TcpStream);
    #[cfg(unix)]
    hyper!(UnixStream);
    hyper!(DuplexStream);
}
