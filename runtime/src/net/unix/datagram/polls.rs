//! Calls of a `UnixDatagram` in a poll, for futures that are written by hand. The names are those of tokio.
//!
//! In one direction of one clone, the task that was polled last is woken, whatever it has called.
//!
//! There is no `poll_send_to`: the system does not report that another socket has room again. So
//! `send_to_async` sleeps between its attempts.

use std::io;
use std::os::unix::net::SocketAddr;
use std::task::{Context, Poll};

use netpoll::Direction;

use super::UnixDatagram;

impl UnixDatagram {
    /// Polls for a datagram. Returns its length. Bytes that do not fit into `buf` are lost.
    ///
    /// If there is none, it wakes the task of `cx` later, and returns `Pending`. In one direction of one
    /// clone, the task that was polled last is woken: a clone each lets several tasks wait.
    ///
    /// # Errors
    ///
    /// Returns the system's error, and `NotConnected` after the end of the runtime in which the socket was
    /// made.
    ///
    /// ```
    /// # use std::future::poll_fn;
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// one.send(b"hello")?;
    /// let mut buf = [0; 100];
    /// let n = runtime::block_on(poll_fn(|cx| other.poll_recv(cx, &mut buf)))?;
    /// assert_eq!(&buf[..n], b"hello");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll(Direction::Read, cx, |socket| socket.recv(buf))
    }

    /// Polls for a datagram. Returns its length and its sender. Bytes that do not fit into `buf` are lost.
    ///
    /// If there is none, it wakes the task of `cx` later, and returns `Pending`. In one direction of one
    /// clone, the task that was polled last is woken: a clone each lets several tasks wait.
    ///
    /// # Errors
    ///
    /// Returns the system's error, and `NotConnected` after the end of the runtime in which the socket was
    /// made.
    ///
    /// ```
    /// # use std::future::poll_fn;
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// one.send(b"hello")?;
    /// let mut buf = [0; 100];
    /// let (n, sender) = runtime::block_on(poll_fn(|cx| other.poll_recv_from(cx, &mut buf)))?;
    /// assert!(&buf[..n] == b"hello" && sender.is_unnamed());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.0.poll(Direction::Read, cx, |socket| socket.recv_from(buf))
    }

    /// Polls until a datagram was sent to the connected peer. Returns the number of bytes.
    ///
    /// If there is no room, it wakes the task of `cx` later, and returns `Pending`. In one direction of one
    /// clone, the task that was polled last is woken: a clone each lets several tasks wait.
    ///
    /// # Errors
    ///
    /// Returns the system's error, and `NotConnected` after the end of the runtime in which the socket was
    /// made.
    ///
    /// ```
    /// # use std::future::poll_fn;
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// assert_eq!(runtime::block_on(poll_fn(|cx| one.poll_send(cx, b"hello")))?, 5);
    /// # drop(other);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll(Direction::Write, cx, |socket| socket.send(buf))
    }
}
