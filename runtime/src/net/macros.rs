//! Macros that write the methods which several socket types share: clones and modes, time-outs, TTL, `Read` and
//! `Write`. `$made` is a line of the doc examples, which makes a `socket`.

/// Clones, the non-blocking mode, and the pending error.
macro_rules! shared_methods {
    ($made:literal) => {
        /// Returns another handle to the same socket, for another thread. Settings of one hold for all. The socket is
        /// closed when all are dropped.
        ///
        /// Clones share one descriptor, so cloning is cheap.
        ///
        /// # Errors
        ///
        /// Never fails. It returns a `Result` as in std.
        ///
        /// ```
        #[doc = $made]
        /// let clone = socket.try_clone()?;
        /// assert_eq!(format!("{:?}", clone.local_addr()?), format!("{:?}", socket.local_addr()?));
        /// # std::io::Result::Ok(())
        /// ```
        pub fn try_clone(&self) -> std::io::Result<Self> {
            Ok(Self(self.0.share()))
        }

        /// Sets the non-blocking mode. With `true`, a call that has to wait returns an error of kind `WouldBlock` at
        /// once. The mode holds for all clones.
        ///
        /// (Below this, the system's socket is always non-blocking.)
        ///
        /// # Errors
        ///
        /// Never fails. It returns a `Result` as in std.
        ///
        /// ```
        #[doc = $made]
        /// socket.set_nonblocking(true)?;
        /// # std::io::Result::Ok(())
        /// ```
        pub fn set_nonblocking(&self, nonblocking: bool) -> std::io::Result<()> {
            self.0.set_nonblocking(nonblocking);
            Ok(())
        }

        /// Takes the pending error of the socket, or `None`.
        ///
        /// # Errors
        ///
        /// Returns the system's error.
        ///
        /// ```
        #[doc = $made]
        /// assert!(socket.take_error()?.is_none());
        /// # std::io::Result::Ok(())
        /// ```
        pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
            self.0.ask(|socket| socket.take_error())
        }
    };
}

/// Time-outs of reading and writing.
macro_rules! timeout_methods {
    ($made:literal) => {
        /// Sets how long one call may wait for something to read. `None`, the default, means for ever.
        ///
        /// It holds for calls that begin later, on all clones. To bound several calls together, use
        /// [`time::timeout`](crate::time::timeout). A call whose time is up returns what std returns on this system:
        /// an error of kind `WouldBlock` on Unix, `TimedOut` on Windows.
        ///
        /// # Errors
        ///
        /// Returns `InvalidInput` for a time of zero.
        ///
        /// ```
        #[doc = $made]
        /// socket.set_read_timeout(Some(std::time::Duration::from_millis(5)))?;
        /// assert!(socket.set_read_timeout(Some(std::time::Duration::ZERO)).is_err());
        /// # std::io::Result::Ok(())
        /// ```
        pub fn set_read_timeout(&self, timeout: Option<std::time::Duration>) -> std::io::Result<()> {
            self.0.set_timeout(netpoll::Direction::Read, timeout)
        }

        /// Sets how long one call may wait until it can write. `None`, the default, means for ever.
        ///
        /// It holds for calls that begin later, on all clones. A call whose time is up returns an error of kind
        /// `WouldBlock` on Unix, `TimedOut` on Windows.
        ///
        /// # Errors
        ///
        /// Returns `InvalidInput` for a time of zero.
        ///
        /// ```
        #[doc = $made]
        /// socket.set_write_timeout(Some(std::time::Duration::from_secs(5)))?;
        /// # std::io::Result::Ok(())
        /// ```
        pub fn set_write_timeout(&self, timeout: Option<std::time::Duration>) -> std::io::Result<()> {
            self.0.set_timeout(netpoll::Direction::Write, timeout)
        }

        /// Returns the time-out that [`set_read_timeout`](Self::set_read_timeout) has set.
        ///
        /// # Errors
        ///
        /// Never fails. It returns a `Result` as in std.
        ///
        /// ```
        #[doc = $made]
        /// assert_eq!(socket.read_timeout()?, None);
        /// # std::io::Result::Ok(())
        /// ```
        pub fn read_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
            Ok(self.0.timeout(netpoll::Direction::Read))
        }

        /// Returns the time-out that [`set_write_timeout`](Self::set_write_timeout) has set.
        ///
        /// # Errors
        ///
        /// Never fails. It returns a `Result` as in std.
        ///
        /// ```
        #[doc = $made]
        /// assert_eq!(socket.write_timeout()?, None);
        /// # std::io::Result::Ok(())
        /// ```
        pub fn write_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
            Ok(self.0.timeout(netpoll::Direction::Write))
        }
    };
}

/// The time to live of sent packets.
macro_rules! ttl_methods {
    ($made:literal) => {
        /// Sets `IP_TTL`: the number of hops that a sent packet may make.
        ///
        /// # Errors
        ///
        /// Returns the system's error.
        ///
        /// ```
        #[doc = $made]
        /// socket.set_ttl(42)?;
        /// assert_eq!(socket.ttl()?, 42);
        /// # std::io::Result::Ok(())
        /// ```
        pub fn set_ttl(&self, ttl: u32) -> std::io::Result<()> {
            self.0.ask(|socket| socket.set_ttl(ttl))
        }

        /// Returns the value that [`set_ttl`](Self::set_ttl) has set.
        ///
        /// # Errors
        ///
        /// Returns the system's error.
        ///
        /// ```
        #[doc = $made]
        /// assert!(socket.ttl()? > 0);
        /// # std::io::Result::Ok(())
        /// ```
        pub fn ttl(&self) -> std::io::Result<u32> {
            self.0.ask(|socket| socket.ttl())
        }
    };
}

/// Reading and writing, also by reference. `$read` is the method of the socket that reads.
macro_rules! stream_io {
    ($stream:ident, $read:ident) => {
        impl std::io::Read for &$stream {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.0.$read(buf.len(), |stream| crate::net::sys::receive(stream, buf))
            }

            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                let wanted = bufs.iter().map(|buf| buf.len()).sum();
                self.0.$read(wanted, |mut stream| stream.read_vectored(bufs))
            }
        }

        impl std::io::Write for &$stream {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                self.0.run(netpoll::Direction::Write, |stream| crate::net::sys::send(stream, buf))
            }

            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                self.0.run(netpoll::Direction::Write, |mut stream| stream.write_vectored(bufs))
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        impl std::io::Read for $stream {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                (&*self).read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                (&*self).read_vectored(bufs)
            }
        }

        impl std::io::Write for $stream {
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

pub(crate) use {shared_methods, stream_io, timeout_methods, ttl_methods};
