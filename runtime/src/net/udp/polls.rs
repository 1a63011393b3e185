//! Calls of a `UdpSocket` in a poll, for futures that are written by hand. The names are those of tokio.
//!
//! In one direction of one clone, the task that was polled last is woken, whatever it has called.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use netpoll::Direction;

use super::UdpSocket;
use crate::net::source as net;

impl UdpSocket {
    /// Polls for a datagram of the connected address. Returns its length. Bytes that do not fit into `buf` are
    /// lost.
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
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.connect(socket.local_addr()?)?;
    /// socket.send(b"to myself")?;
    /// let mut buf = [0; 100];
    /// let n = runtime::block_on(poll_fn(|cx| socket.poll_recv(cx, &mut buf)))?;
    /// assert_eq!(&buf[..n], b"to myself");
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
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.connect(socket.local_addr()?)?;
    /// socket.send(b"to myself")?;
    /// let mut buf = [0; 100];
    /// let (n, sender) = runtime::block_on(poll_fn(|cx| socket.poll_recv_from(cx, &mut buf)))?;
    /// assert_eq!((&buf[..n], sender), (&b"to myself"[..], socket.local_addr()?));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.0.poll(Direction::Read, cx, |socket| socket.recv_from(buf))
    }

    /// Polls for a datagram of the connected address, and reads it without taking it. Returns its length.
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
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.connect(socket.local_addr()?)?;
    /// socket.send(b"to myself")?;
    /// let mut buf = [0; 100];
    /// let n = runtime::block_on(poll_fn(|cx| socket.poll_peek(cx, &mut buf)))?;
    /// assert_eq!(n, socket.recv(&mut buf)?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll(Direction::Read, cx, |socket| socket.peek(buf))
    }

    /// Polls for a datagram, and reads it without taking it. Returns its length and its sender.
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
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.connect(socket.local_addr()?)?;
    /// socket.send(b"to myself")?;
    /// let mut buf = [0; 100];
    /// let peeked = runtime::block_on(poll_fn(|cx| socket.poll_peek_from(cx, &mut buf)))?;
    /// assert_eq!(peeked, socket.recv_from(&mut buf)?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.0.poll(Direction::Read, cx, |socket| socket.peek_from(buf))
    }

    /// Polls for a datagram, and leaves it. Returns its sender.
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
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.connect(socket.local_addr()?)?;
    /// socket.send(b"to myself")?;
    /// let sender = runtime::block_on(poll_fn(|cx| socket.poll_peek_sender(cx)))?;
    /// assert_eq!(sender, socket.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.0.poll(Direction::Read, cx, net::peek_sender)
    }

    /// Polls until a datagram was sent to the connected address. Returns the number of bytes.
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
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.connect(socket.local_addr()?)?;
    /// let sent = runtime::block_on(poll_fn(|cx| socket.poll_send(cx, b"to myself")))?;
    /// assert_eq!(sent, 9);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll(Direction::Write, cx, |socket| socket.send(buf))
    }

    /// Polls until a datagram was sent to `addr`. Returns the number of bytes.
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
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let addr = socket.local_addr()?;
    /// let sent = runtime::block_on(poll_fn(|cx| socket.poll_send_to(cx, b"to myself", addr)))?;
    /// assert_eq!(sent, 9);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        addr: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.0.poll(Direction::Write, cx, |socket| socket.send_to(buf, addr))
    }
}
