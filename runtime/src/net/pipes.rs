//! Macros that write the methods of the ends of pipes. These ends are non-blocking and registered with the
//! netpoller, as sockets are. The other end is not affected, because the two ends have modes of their own.

/// Writes what all ends share: making one, its descriptor, and giving it to a child process. `$made` is an
/// example of that.
macro_rules! pipe {
    ($name:ident, $source:ident, $made:literal) => {
        impl std::panic::UnwindSafe for $name {}
        impl std::panic::RefUnwindSafe for $name {}

        impl $name {
            /// Registers the end of a pipe with the caller's runtime.
            ///
            /// # Errors
            /// Returns the system's error.
            pub(super) fn of(pipe: impl Into<std::os::fd::OwnedFd>) -> std::io::Result<Self> {
                let source = netpoll::pipe::$source::from(pipe.into());
                crate::net::call(|| source.set_nonblocking(true))?;
                Ok($name(crate::net::Socket::new(source)?))
            }
        }

        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.source().as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.0.source().as_raw_fd()
            }
        }

        /// Returns the descriptor, in blocking mode.
        impl From<$name> for std::os::fd::OwnedFd {
            fn from(pipe: $name) -> std::os::fd::OwnedFd {
                let restore = |source: &netpoll::pipe::$source, _: &_| {
                    // The system does not refuse this for an open pipe.
                    let _ = source.set_nonblocking(false);
                };
                let source = pipe.0.into_source(|_| unreachable!("a pipe has no clones"), restore);
                source.expect("the pipe is not duplicated").into()
            }
        }

        /// Gives the pipe to a child process.
        ///
        /// ```
        #[doc = $made]
        /// # std::io::Result::Ok(())
        /// ```
        impl From<$name> for std::process::Stdio {
            fn from(pipe: $name) -> std::process::Stdio {
                std::os::fd::OwnedFd::from(pipe).into()
            }
        }
    };
}

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

pub(crate) use {pipe, readable_pipe, writable_pipe};
