//! Streams for async crates: the traits of `futures-io`, `tokio` and `hyper`, each behind a feature, on one
//! way to poll.
//!
//! They work in any executor. Time-outs and the non-blocking mode hold for blocking calls only.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

use netpoll::Direction;
use netpoll::source::Source;

use super::TcpStream;
use super::awaited::poll_attempts;
#[cfg(unix)]
use super::duplex::DuplexStream;
use super::registration::Pending;
use super::socket::{Socket, copy_error};
#[cfg(unix)]
use super::unix::UnixStream;

impl<S: crate::net::source::Sourced> Socket<S> {
    /// Runs `op` until it would no longer block, as `run` does, in a future. The task is woken to try again.
    /// In one direction of one clone, the task that was polled last is woken.
    pub(crate) fn poll<T>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        mut op: impl FnMut(&S) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let registration = self.registration().map_err(copy_error)?;
        poll_attempts(registration, direction, self.pending(direction), cx, || {
            self.attempt(direction, &mut op)
        })
    }

    /// Polls until an attempt in that direction would not block.
    #[cfg(unix)]
    pub(crate) fn poll_ready(&self, direction: Direction, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(direction, cx, |source| match source.is_ready(direction)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        })
    }

    fn pending(&self, direction: Direction) -> &Pending {
        &self.pending[direction as usize]
    }
}

impl<S: Source> Drop for Socket<S> {
    fn drop(&mut self) {
        for direction in [Direction::Read, Direction::Write] {
            let pending = std::mem::take(&mut self.pending[direction as usize]);
            if let Ok(registration) = self.registration() {
                registration.cancel_poll_wait(direction, pending);
            }
        }
    }
}

/// The result of ending the writing side. It is no error that the peer has left already.
fn close(shutdown: io::Result<()>) -> Poll<io::Result<()>> {
    match shutdown {
        Err(error) if error.kind() != io::ErrorKind::NotConnected => Poll::Ready(Err(error)),
        _ => Poll::Ready(Ok(())),
    }
}

#[cfg(feature = "futures-io")]
macro_rules! futures_io {
    ($stream:ty) => {
        impl futures_io::AsyncRead for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll(Direction::Read, cx, |mut stream| io::Read::read(&mut stream, buf))
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &mut [io::IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0.poll(Direction::Read, cx, |mut stream| io::Read::read_vectored(&mut stream, bufs))
            }
        }

        impl futures_io::AsyncWrite for $stream {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                self.0.poll(Direction::Write, cx, |mut stream| io::Write::write(&mut stream, buf))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0.poll(Direction::Write, cx, |mut stream| io::Write::write_vectored(&mut stream, bufs))
            }

            fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                close(self.shutdown(Shutdown::Write))
            }
        }
    };
}

/// The writing traits of tokio and hyper have the same methods.
#[cfg(any(feature = "tokio-io", feature = "hyper"))]
macro_rules! write {
    ($stream:ty, $trait:path) => {
        impl $trait for $stream {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                self.0.poll(Direction::Write, cx, |mut stream| io::Write::write(&mut stream, buf))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0.poll(Direction::Write, cx, |mut stream| io::Write::write_vectored(&mut stream, bufs))
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                close(self.shutdown(Shutdown::Write))
            }
        }
    };
}

#[cfg(feature = "tokio-io")]
macro_rules! tokio_io {
    ($stream:ty) => {
        impl tokio::io::AsyncRead for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut tokio::io::ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let room = buf.initialize_unfilled();
                let n = std::task::ready!(
                    self.0.poll(Direction::Read, cx, |mut stream| { io::Read::read(&mut stream, room) })
                )?;
                buf.advance(n);
                Poll::Ready(Ok(()))
            }
        }

        write!($stream, tokio::io::AsyncWrite);
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

        write!($stream, ::hyper::rt::Write);
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
mod futures_io_streams {
    use super::*;

    futures_io!(TcpStream);
    futures_io!(&TcpStream);
    #[cfg(unix)]
    futures_io!(UnixStream);
    #[cfg(unix)]
    futures_io!(&UnixStream);
    #[cfg(unix)]
    futures_io!(DuplexStream);
    #[cfg(unix)]
    futures_io!(&DuplexStream);
    halves!(futures_io::AsyncRead, futures_io::AsyncWrite, &mut [u8], usize, poll_close);
}

#[cfg(feature = "tokio-io")]
mod tokio_streams {
    use super::*;

    tokio_io!(TcpStream);
    tokio_io!(&TcpStream);
    #[cfg(unix)]
    tokio_io!(UnixStream);
    #[cfg(unix)]
    tokio_io!(&UnixStream);
    #[cfg(unix)]
    tokio_io!(DuplexStream);
    #[cfg(unix)]
    tokio_io!(&DuplexStream);
    halves!(tokio::io::AsyncRead, tokio::io::AsyncWrite, &mut tokio::io::ReadBuf<'_>, (), poll_shutdown);
}

#[cfg(feature = "hyper")]
mod hyper_streams {
    use super::*;
    use crate::net::source::ReceiveUninit;

    #[cfg(unix)]
    impl ReceiveUninit for crate::net::duplex::End {
        fn receive_uninit(&self, room: &mut [std::mem::MaybeUninit<u8>]) -> io::Result<usize> {
            self.read_uninit(room)
        }
    }

    hyper!(TcpStream);
    #[cfg(unix)]
    hyper!(UnixStream);
    #[cfg(unix)]
    hyper!(DuplexStream);
}
