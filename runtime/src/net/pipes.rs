//! Macros that write the methods of the ends of pipes. These ends are non-blocking and registered with the
//! netpoller, as sockets are. The other end is not affected, because the two ends have modes of their own.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{pair, pipe};
#[cfg(windows)]
pub(crate) use windows::{Exit, pair, pipe, relay};

/// Writes an end that reads. `$made` makes `reader`, in which there are six bytes.
macro_rules! readable_pipe {
    ($name:ident, $made:literal) => {
        impl $name {
            /// Reads into `buf` in a future, with any executor. Returns the number of bytes, which is 0 at
            /// the end.
            ///
            /// Dropping the future before it is ready loses no byte.
            ///
            /// # Errors
            ///
            /// Returns the system's error.
            ///
            /// ```
            #[doc = $made]
            /// let mut buf = [0; 100];
            /// assert_eq!(runtime::block_on(async { reader.read_async(&mut buf).await })?, 6);
            /// # std::io::Result::Ok(())
            /// ```
            pub async fn read_async(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                use std::io::Read;
                self.0.run_async(netpoll::Direction::Read, |mut pipe| pipe.read(buf)).await
            }
        }

        impl std::io::Read for &$name {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.0.run(netpoll::Direction::Read, |mut pipe| pipe.read(buf))
            }

            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                self.0.run(netpoll::Direction::Read, |mut pipe| pipe.read_vectored(bufs))
            }
        }

        impl std::io::Read for $name {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                (&*self).read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                (&*self).read_vectored(bufs)
            }
        }
    };
}

/// Writes an end that writes. `$made` makes `writer`.
macro_rules! writable_pipe {
    ($name:ident, $made:literal) => {
        impl $name {
            /// Writes bytes of `buf` in a future, with any executor. Returns the number of bytes that were
            /// written.
            ///
            /// Dropping the future before it is ready writes nothing.
            ///
            /// # Errors
            ///
            /// Returns the system's error.
            ///
            /// ```
            #[doc = $made]
            /// assert_eq!(runtime::block_on(async { writer.write_async(b"hello").await })?, 5);
            /// # std::io::Result::Ok(())
            /// ```
            pub async fn write_async(&self, buf: &[u8]) -> std::io::Result<usize> {
                use std::io::Write;
                self.0.run_async(netpoll::Direction::Write, |mut pipe| pipe.write(buf)).await
            }
        }

        impl std::io::Write for &$name {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                self.0.run(netpoll::Direction::Write, |mut pipe| pipe.write(buf))
            }

            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                self.0.run(netpoll::Direction::Write, |mut pipe| pipe.write_vectored(bufs))
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        impl std::io::Write for $name {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                (&*self).write(buf)
            }

            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                (&*self).write_vectored(bufs)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
}

pub(crate) use {readable_pipe, writable_pipe};
