//! Macros that write the methods which several socket types share: clones and modes, time-outs, TTL, `Read`
//! and `Write`. `$made` is a line of the doc examples, which makes a `socket`.

/// Clones, the non-blocking mode, and the pending error.
macro_rules! shared_methods {
    ($made:literal) => {
        /// Returns another handle to the same socket, for another thread. Settings of one hold for all. The
        /// socket is closed when all are dropped.
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

        /// Sets the non-blocking mode. With `true`, a call that has to wait returns an error of kind
        /// `WouldBlock` at once. The mode holds for all clones.
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
        /// [`time::timeout`](crate::time::timeout). A call whose time is up returns what std returns on this
        /// system: an error of kind `WouldBlock` on Unix, `TimedOut` on Windows.
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
        /// It holds for calls that begin later, on all clones. A call whose time is up returns an error of
        /// kind `WouldBlock` on Unix, `TimedOut` on Windows.
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

/// Reading and writing in futures. `$made` makes `one` and `other`, which are connected.
macro_rules! stream_async_methods {
    ($made:literal) => {
        /// Reads into `buf` in a future, with any executor. Returns the number of bytes, which is 0 at the
        /// end of the stream.
        ///
        /// Dropping the future before it is ready loses no byte. Several futures and threads may read from
        /// one stream. The time-outs and the non-blocking mode hold for blocking calls only.
        ///
        /// For buffers, lines and codecs, the features `futures-io` and `tokio-io` give streams the traits of
        /// these crates.
        ///
        /// # Errors
        ///
        /// Returns the system's error.
        ///
        /// ```
        #[doc = $made]
        /// runtime::block_on(async {
        ///     let mut buf = [0; 100];
        ///     let (read, written) = futures::join!(other.read_async(&mut buf), one.write_async(b"hello"));
        ///     assert_eq!((read?, written?, &buf[..5]), (5, 5, &b"hello"[..]));
        ///     std::io::Result::Ok(())
        /// })?;
        /// # std::io::Result::Ok(())
        /// ```
        pub async fn read_async(&self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0
                .run_async(netpoll::Direction::Read, |stream| crate::net::source::receive(stream, buf))
                .await
        }

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
        /// assert_eq!(runtime::block_on(async { one.write_async(b"hello").await })?, 5);
        /// # drop(other);
        /// # std::io::Result::Ok(())
        /// ```
        pub async fn write_async(&self, buf: &[u8]) -> std::io::Result<usize> {
            self.0.run_async(netpoll::Direction::Write, |stream| crate::net::source::send(stream, buf)).await
        }

        /// Writes all of `buf` in a future, with any executor.
        ///
        /// Dropping the future before it is ready may have written a part of `buf`.
        ///
        /// # Errors
        ///
        /// Returns the system's error. A part of `buf` may have been written.
        ///
        /// ```
        #[doc = $made]
        /// runtime::block_on(async { one.write_all_async(b"hello").await })?;
        /// # drop(other);
        /// # std::io::Result::Ok(())
        /// ```
        pub async fn write_all_async(&self, mut buf: &[u8]) -> std::io::Result<()> {
            while !buf.is_empty() {
                match self.write_async(buf).await? {
                    0 => return Err(std::io::ErrorKind::WriteZero.into()),
                    written => buf = &buf[written..],
                }
            }
            Ok(())
        }
    };
}

/// Reading and writing without waiting. `$made` makes `one` and `other`, which are connected.
macro_rules! stream_try_methods {
    ($made:literal) => {
        /// Reads into `buf` without waiting. Returns the number of bytes, which is 0 at the end of the
        /// stream.
        ///
        /// The time-outs and the non-blocking mode have no effect on it.
        ///
        /// # Errors
        ///
        /// Returns `WouldBlock` if there is nothing to read, and else the system's error.
        ///
        /// ```
        #[doc = $made]
        /// let nothing = one.try_read(&mut [0; 100]).unwrap_err();
        /// assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
        /// # drop(other);
        /// # std::io::Result::Ok(())
        /// ```
        pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0.attempt_once(netpoll::Direction::Read, |stream| crate::net::source::receive(stream, buf))
        }

        /// Reads into several buffers without waiting, as [`try_read`](Self::try_read) does into one. Returns
        /// the number of bytes.
        ///
        /// # Errors
        ///
        /// Returns `WouldBlock` if there is nothing to read, and else the system's error.
        ///
        /// ```
        #[doc = $made]
        /// let mut bytes = [0; 100];
        /// let nothing = one.try_read_vectored(&mut [std::io::IoSliceMut::new(&mut bytes)]).unwrap_err();
        /// assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
        /// # drop(other);
        /// # std::io::Result::Ok(())
        /// ```
        pub fn try_read_vectored(&self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
            self.0.attempt_once(netpoll::Direction::Read, |mut stream| {
                std::io::Read::read_vectored(&mut stream, bufs)
            })
        }

        /// Writes bytes of `buf` without waiting. Returns the number of bytes that were written.
        ///
        /// The time-outs and the non-blocking mode have no effect on it.
        ///
        /// # Errors
        ///
        /// Returns `WouldBlock` if there is no room, and else the system's error.
        ///
        /// ```
        #[doc = $made]
        /// assert_eq!(one.try_write(b"hello")?, 5);
        /// # drop(other);
        /// # std::io::Result::Ok(())
        /// ```
        pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
            self.0.attempt_once(netpoll::Direction::Write, |stream| crate::net::source::send(stream, buf))
        }

        /// Writes bytes of several buffers without waiting, as [`try_write`](Self::try_write) does of one.
        /// Returns the number of bytes that were written.
        ///
        /// # Errors
        ///
        /// Returns `WouldBlock` if there is no room, and else the system's error.
        ///
        /// ```
        #[doc = $made]
        /// let parts = [std::io::IoSlice::new(b"go"), std::io::IoSlice::new(b"ahead")];
        /// assert_eq!(one.try_write_vectored(&parts)?, 7);
        /// # drop(other);
        /// # std::io::Result::Ok(())
        /// ```
        pub fn try_write_vectored(&self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
            self.0.attempt_once(netpoll::Direction::Write, |mut stream| {
                std::io::Write::write_vectored(&mut stream, bufs)
            })
        }
    };
}

/// Waiting for readiness. `$made` makes `socket`.
macro_rules! readiness_methods {
    ($made:literal) => {
        /// Waits until the socket is ready for something of `interest`. Returns for what of it the socket is
        /// ready. Unix only.
        ///
        /// It reads and writes nothing, and another thread may be faster to do so. The time-outs and the
        /// non-blocking mode have no effect on it.
        ///
        /// # Errors
        ///
        /// Returns the system's error, and `NotConnected` after the end of the runtime in which the socket
        /// was made.
        ///
        /// # Cancellation
        ///
        /// A cancelled green thread that has to wait unwinds from here.
        ///
        /// ```
        /// use runtime::net::Interest;
        #[doc = $made]
        /// let ready = socket.ready(Interest::READABLE | Interest::WRITABLE)?;
        /// assert!(ready.is_writable());
        /// # std::io::Result::Ok(())
        /// ```
        #[cfg(unix)]
        pub fn ready(&self, interest: crate::net::Interest) -> std::io::Result<crate::net::Ready> {
            self.0.ready(interest)
        }

        /// Waits as [`ready`](Self::ready) does, in a future, with any executor. Dropping the future leaves
        /// nothing behind. Unix only.
        ///
        /// # Errors
        ///
        /// As [`ready`](Self::ready).
        ///
        /// ```
        /// use runtime::net::Interest;
        #[doc = $made]
        /// let ready = runtime::block_on(async { socket.ready_async(Interest::WRITABLE).await })?;
        /// assert!(ready.is_writable());
        /// # std::io::Result::Ok(())
        /// ```
        #[cfg(unix)]
        pub async fn ready_async(
            &self,
            interest: crate::net::Interest,
        ) -> std::io::Result<crate::net::Ready> {
            self.0.any_ready_async(interest).await
        }

        /// Waits until there is something to read, or an end or an error to report. Unix only.
        ///
        /// It reads nothing, and another thread may be faster to read. The time-outs and the non-blocking
        /// mode have no effect on it.
        ///
        /// # Errors
        ///
        /// As [`ready`](Self::ready).
        ///
        /// # Cancellation
        ///
        /// A cancelled green thread that has to wait unwinds from here.
        ///
        /// ```
        /// use runtime::time::{Duration, timeout};
        #[doc = $made]
        /// assert!(timeout(Duration::from_millis(5), || socket.readable()).is_err());
        /// # std::io::Result::Ok(())
        /// ```
        #[cfg(unix)]
        pub fn readable(&self) -> std::io::Result<()> {
            self.0.ready(crate::net::Interest::READABLE).map(drop)
        }

        /// Waits until there is room to write, or an error to report. Unix only.
        ///
        /// It writes nothing. The time-outs and the non-blocking mode have no effect on it.
        ///
        /// # Errors
        ///
        /// As [`ready`](Self::ready).
        ///
        /// # Cancellation
        ///
        /// A cancelled green thread that has to wait unwinds from here.
        ///
        /// ```
        #[doc = $made]
        /// socket.writable()?;
        /// # std::io::Result::Ok(())
        /// ```
        #[cfg(unix)]
        pub fn writable(&self) -> std::io::Result<()> {
            self.0.ready(crate::net::Interest::WRITABLE).map(drop)
        }

        /// Calls `f` if the socket is ready for something of `interest`, and returns its result. Unix only.
        ///
        /// `f` is a call on this socket that this type has no method for. It must not park, because the call
        /// and the reading of its `errno` must happen on one OS thread.
        ///
        /// # Errors
        ///
        /// Returns `WouldBlock` without a call of `f` if the socket is ready for nothing of `interest`. Else
        /// it returns the error of `f`, or the system's error.
        ///
        /// ```
        /// use runtime::net::Interest;
        #[doc = $made]
        /// let nothing = socket.try_io(Interest::READABLE, || -> std::io::Result<()> { unreachable!() });
        /// assert_eq!(nothing.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        /// assert_eq!(socket.try_io(Interest::WRITABLE, || Ok(7))?, 7);
        /// # std::io::Result::Ok(())
        /// ```
        #[cfg(unix)]
        pub fn try_io<R>(
            &self,
            interest: crate::net::Interest,
            f: impl FnOnce() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            self.0.try_io(interest, f)
        }

        /// Waits in a future, with any executor, until there is something to read, or an end or an error to
        /// report. Unix only.
        ///
        /// It reads nothing. Several futures and threads may wait for one socket, and another may be faster
        /// to read. Dropping the future leaves nothing behind. [`select!`](crate::select) waits for it by its
        /// case `readable(socket)`.
        ///
        /// # Errors
        ///
        /// Returns the system's error, and `NotConnected` after the end of the runtime in which the socket
        /// was made.
        ///
        /// ```
        #[doc = $made]
        /// runtime::select! {
        ///     readable(socket) -> ready => ready?,
        ///     timer(std::time::Duration::from_millis(1)) -> _ => println!("nothing to read"),
        /// }
        /// # std::io::Result::Ok(())
        /// ```
        #[cfg(unix)]
        pub async fn readable_async(&self) -> std::io::Result<()> {
            self.0.ready_async(netpoll::Direction::Read).await
        }

        /// Waits in a future, with any executor, until there is room to write, or an error to report. Unix
        /// only.
        ///
        /// It writes nothing. Dropping the future leaves nothing behind. [`select!`](crate::select) waits for
        /// it by its case `writable(socket)`.
        ///
        /// # Errors
        ///
        /// Returns the system's error, and `NotConnected` after the end of the runtime in which the socket
        /// was made.
        ///
        /// ```
        #[doc = $made]
        /// runtime::select! {
        ///     writable(socket) -> ready => ready?,
        ///     timer(std::time::Duration::from_secs(60)) -> _ => panic!("no room for a minute"),
        /// }
        /// # std::io::Result::Ok(())
        /// ```
        #[cfg(unix)]
        pub async fn writable_async(&self) -> std::io::Result<()> {
            self.0.ready_async(netpoll::Direction::Write).await
        }
    };
}

/// Readiness in a poll, for futures that are written by hand. `$read` and `$write` are the names of the
/// methods; `$made` makes `socket`, which has room to write and nothing to read.
macro_rules! poll_readiness_methods {
    ($read:ident, $write:ident, $made:literal) => {
        /// Polls until there is something to read, or an end or an error to report. Unix only.
        ///
        /// If there is nothing, it wakes the task of `cx` later, and returns `Pending`. It reads nothing, and
        /// another thread may be faster to read. In one direction of one clone, the task that was polled last
        /// is woken: a clone each lets several tasks wait.
        ///
        /// # Errors
        ///
        /// Returns the system's error, and `NotConnected` after the end of the runtime in which the socket
        /// was made.
        ///
        /// ```
        /// use std::task::{Context, Waker};
        #[doc = $made]
        #[doc = concat!("assert!(socket.", stringify!($read), "(&mut Context::from_waker(Waker::noop())).is_pending());")]
        /// # std::io::Result::Ok(())
        /// ```
        #[cfg(unix)]
        pub fn $read(&self, cx: &mut std::task::Context<'_>) -> std::task::Poll<std::io::Result<()>> {
            self.0.poll_ready(netpoll::Direction::Read, cx)
        }

        /// Polls until there is room to write, or an error to report. Unix only.
        ///
        /// If there is none, it wakes the task of `cx` later, and returns `Pending`. It writes nothing. In
        /// one direction of one clone, the task that was polled last is woken.
        ///
        /// # Errors
        ///
        /// Returns the system's error, and `NotConnected` after the end of the runtime in which the socket
        /// was made.
        ///
        /// ```
        #[doc = $made]
        #[doc = concat!("let room = std::future::poll_fn(|cx| socket.", stringify!($write), "(cx));")]
        /// runtime::block_on(async { room.await })?;
        /// # std::io::Result::Ok(())
        /// ```
        #[cfg(unix)]
        pub fn $write(&self, cx: &mut std::task::Context<'_>) -> std::task::Poll<std::io::Result<()>> {
            self.0.poll_ready(netpoll::Direction::Write, cx)
        }
    };
}

/// Reading and writing, also by reference. `$read` is the method of the socket that reads into one buffer.
macro_rules! stream_io {
    ($stream:ident, $read:ident) => {
        impl std::io::Read for &$stream {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.0.$read(buf.len(), |stream| crate::net::source::receive(stream, buf))
            }

            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                // One system call takes a part of a long list, so a short read does not say that nothing is
                // left.
                self.0.run(netpoll::Direction::Read, |mut stream| stream.read_vectored(bufs))
            }
        }

        impl std::io::Write for &$stream {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                self.0.run(netpoll::Direction::Write, |stream| crate::net::source::send(stream, buf))
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

pub(crate) use {
    poll_readiness_methods, readiness_methods, shared_methods, stream_async_methods, stream_io,
    stream_try_methods, timeout_methods, ttl_methods,
};
