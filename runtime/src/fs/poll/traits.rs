//! The traits of `futures-io` and of `tokio` for files.

use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::Done;
use crate::fs::File;

#[cfg(feature = "futures-io")]
mod of_futures_io {
    use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};

    use super::*;

    impl AsyncRead for File {
        fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
            let File { file, begun } = self.get_mut();
            begun.poll_read(file, cx, buf)
        }
    }

    impl AsyncWrite for File {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let File { file, begun } = self.get_mut();
            begun.poll_write(file, cx, buf)
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.get_mut().begun.poll_written(cx)
        }

        fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush(cx)
        }
    }

    impl AsyncSeek for File {
        fn poll_seek(self: Pin<&mut Self>, cx: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
            let File { file, begun } = self.get_mut();
            loop {
                match ready!(begun.settle(cx))? {
                    // Another one is that of a future that was dropped.
                    Some(Done::Moved(done, result)) if done == to => return Poll::Ready(result),
                    Some(_) => {}
                    None => begun.begin_seek(file, to)?,
                }
            }
        }
    }
}

#[cfg(feature = "tokio-io")]
mod of_tokio {
    use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

    use super::*;

    impl AsyncRead for File {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let File { file, begun } = self.get_mut();
            let n = ready!(begun.poll_read(file, cx, buf.initialize_unfilled()))?;
            buf.advance(n);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for File {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let File { file, begun } = self.get_mut();
            begun.poll_write(file, cx, buf)
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.get_mut().begun.poll_written(cx)
        }

        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush(cx)
        }
    }

    impl AsyncSeek for File {
        fn start_seek(self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
            let File { file, begun } = self.get_mut();
            if begun.call.is_some() {
                let text = "another call on this file is under way: await `poll_complete` first";
                return Err(io::Error::other(text));
            }
            begun.begin_seek(file, to)
        }

        fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
            let begun = &mut self.get_mut().begun;
            while let Some(done) = ready!(begun.settle(cx))? {
                if let Done::Moved(_, result) = done {
                    return Poll::Ready(result);
                }
            }
            Poll::Ready(Ok(begun.position))
        }
    }
}
