//! Descriptors that travel over Unix sockets (`SCM_RIGHTS`). Linux only.
//!
//! The system installs as many descriptors as the room for them has, and drops the others. It rounds that
//! room up, so it may install one more than was asked for. That one is closed here.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netpoll::Direction;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::{UnixDatagram, UnixStream};
use crate::net::source::Sourced;

/// The most descriptors of one message: `SCM_MAX_FD` of Linux.
const MOST: usize = 253;

/// What a call of `recv_fds` has received. Linux only.
///
/// [`UnixStream::recv_fds`] and [`UnixDatagram::recv_fds`] return it. Dropping it closes the descriptors.
///
/// ```
/// use runtime::net::unix::{ReceivedFds, UnixStream};
/// let (one, other) = UnixStream::pair()?;
/// one.send_fds(b"x", &[])?;
/// let received: ReceivedFds = other.recv_fds(&mut [0; 10], 1)?;
/// assert_eq!((received.len, received.fds.len(), received.truncated), (1, 0, false));
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct ReceivedFds {
    /// The number of bytes. On a stream, 0 means the end.
    pub len: usize,
    /// The descriptors, in the order of the sender. They are closed in a program that this process starts
    /// (`FD_CLOEXEC`).
    pub fds: Vec<OwnedFd>,
    /// Descriptors were lost: more were sent than there was room for, or the process has too many open. The
    /// lost ones are closed.
    pub truncated: bool,
}

/// Sends bytes with descriptors. Never waits, and raises no signal if the peer has closed.
fn send(socket: &(impl Sourced + AsFd), buf: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    socket.check_descriptor()?;
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(fds.len()))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(fds));
        debug_assert!(fits, "the space is for these");
    }
    Ok(rustix::net::sendmsg(socket.as_fd(), &[IoSlice::new(buf)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives bytes, and at most `room` descriptors. Never waits.
fn receive(socket: &(impl Sourced + AsFd), buf: &mut [u8], room: usize) -> io::Result<ReceivedFds> {
    socket.check_descriptor()?;
    let room = room.min(MOST);
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(room))];
    // Its drop closes the descriptors that are not taken out.
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let message = rustix::net::recvmsg(socket.as_fd(), &mut [IoSliceMut::new(buf)], &mut control, flags)?;
    let mut fds = Vec::with_capacity(room);
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    let truncated = message.flags.contains(ReturnFlags::CTRUNC) || fds.len() > room;
    // Closes those beyond the room.
    fds.truncate(room);
    Ok(ReceivedFds { len: message.bytes, fds, truncated })
}

/// Returns an error if `buf` is empty: a stream carries descriptors with a byte only.
fn check_stream(buf: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if buf.is_empty() && !fds.is_empty() {
        let text = "a stream carries descriptors with at least one byte: send one";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

impl UnixStream {
    /// Writes bytes with descriptors, of which the peer gets duplicates. Waits until there is room. Returns
    /// the number of bytes written, which may be less than those of `buf`. Linux only.
    ///
    /// The descriptors go with the first byte. So they were sent if the call returns without an error, and
    /// the rest of `buf` is written without them. The caller keeps its descriptors, and may close them at
    /// once.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` for descriptors without a byte, and for more than 253 descriptors. Returns the
    /// system's error, or the error of the [time-out](UnixStream::set_write_timeout), and `Unsupported` for a
    /// simulated socket.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. Nothing was sent.
    ///
    /// ```
    /// use runtime::net::unix::UnixStream;
    /// use std::io::{Read, Write};
    /// use std::os::fd::AsFd;
    /// let (one, other) = UnixStream::pair()?;
    /// let (reader, mut writer) = std::io::pipe()?;
    /// one.send_fds(b"a pipe", &[reader.as_fd()])?;
    /// drop(reader);
    ///
    /// let mut received = other.recv_fds(&mut [0; 10], 1)?;
    /// writer.write_all(b"hello")?;
    /// drop(writer);
    /// let mut text = String::new();
    /// std::fs::File::from(received.fds.remove(0)).read_to_string(&mut text)?;
    /// assert_eq!(text, "hello");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn send_fds(&self, buf: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        check_stream(buf, fds)?;
        self.0.run(Direction::Write, |stream| send(stream, buf, fds))
    }

    /// Writes bytes with descriptors as [`send_fds`](UnixStream::send_fds) does, in a future. Dropping the
    /// future before it is ready sends nothing. Linux only.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`send_fds`](UnixStream::send_fds), but no time-out.
    ///
    /// ```
    /// use runtime::net::unix::UnixStream;
    /// use std::os::fd::AsFd;
    /// let (one, other) = UnixStream::pair()?;
    /// let received = runtime::block_on(async {
    ///     one.send_fds_async(b"x", &[other.as_fd()]).await?;
    ///     other.recv_fds_async(&mut [0; 10], 1).await
    /// })?;
    /// assert_eq!(received.fds.len(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn send_fds_async(&self, buf: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        check_stream(buf, fds)?;
        self.0.run_async(Direction::Write, |stream| send(stream, buf, fds)).await
    }

    /// Reads bytes, and at most `room` descriptors that came with them. Waits until there is something.
    /// Linux only.
    ///
    /// It reads no further than the bytes of one [`send_fds`](UnixStream::send_fds). All other calls that
    /// read, such as `read`, close the descriptors that come with their bytes.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or the error of the [time-out](UnixStream::set_read_timeout), and
    /// `Unsupported` for a simulated socket. That descriptors were lost is no error: see
    /// [`ReceivedFds::truncated`].
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. Nothing was received.
    ///
    /// An example is at [`send_fds`](UnixStream::send_fds).
    pub fn recv_fds(&self, buf: &mut [u8], room: usize) -> io::Result<ReceivedFds> {
        self.0.run(Direction::Read, |stream| receive(stream, buf, room))
    }

    /// Reads bytes and descriptors as [`recv_fds`](UnixStream::recv_fds) does, in a future. Dropping the
    /// future before it is ready loses nothing. Linux only.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`recv_fds`](UnixStream::recv_fds), but no time-out.
    ///
    /// An example is at [`send_fds_async`](UnixStream::send_fds_async).
    pub async fn recv_fds_async(&self, buf: &mut [u8], room: usize) -> io::Result<ReceivedFds> {
        self.0.run_async(Direction::Read, |stream| receive(stream, buf, room)).await
    }
}

impl UnixDatagram {
    /// Sends a datagram with descriptors to the connected peer, which gets duplicates of them. Waits until
    /// there is room. Returns the number of bytes. Linux only.
    ///
    /// The datagram may be empty. The caller keeps its descriptors, and may close them at once.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` for more than 253 descriptors. Returns the system's error, or the error of the
    /// [time-out](UnixDatagram::set_write_timeout).
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. Nothing was sent.
    ///
    /// ```
    /// use runtime::net::unix::UnixDatagram;
    /// use std::os::fd::AsFd;
    /// let (one, other) = UnixDatagram::pair()?;
    /// one.send_fds(b"", &[one.as_fd(), other.as_fd()])?;
    /// let received = other.recv_fds(&mut [], 1)?;
    /// assert_eq!((received.len, received.fds.len(), received.truncated), (0, 1, true));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn send_fds(&self, buf: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.0.run(Direction::Write, |socket| send(socket, buf, fds))
    }

    /// Sends a datagram with descriptors as [`send_fds`](UnixDatagram::send_fds) does, in a future. Dropping
    /// the future before it is ready sends nothing. Linux only.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`send_fds`](UnixDatagram::send_fds), but no time-out.
    ///
    /// ```
    /// use runtime::net::unix::UnixDatagram;
    /// use std::os::fd::AsFd;
    /// let (one, other) = UnixDatagram::pair()?;
    /// let received = runtime::block_on(async {
    ///     one.send_fds_async(b"x", &[other.as_fd()]).await?;
    ///     other.recv_fds_async(&mut [0; 10], 1).await
    /// })?;
    /// assert_eq!(received.fds.len(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn send_fds_async(&self, buf: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.0.run_async(Direction::Write, |socket| send(socket, buf, fds)).await
    }

    /// Receives a datagram, and at most `room` descriptors that came with it. Waits until there is one. Bytes
    /// that do not fit into `buf` are lost. Linux only.
    ///
    /// All other calls that receive, such as `recv`, close the descriptors that come with a datagram.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or the error of the [time-out](UnixDatagram::set_read_timeout). That
    /// descriptors were lost is no error: see [`ReceivedFds::truncated`].
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. Nothing was received.
    ///
    /// An example is at [`send_fds`](UnixDatagram::send_fds).
    pub fn recv_fds(&self, buf: &mut [u8], room: usize) -> io::Result<ReceivedFds> {
        self.0.run(Direction::Read, |socket| receive(socket, buf, room))
    }

    /// Receives a datagram and descriptors as [`recv_fds`](UnixDatagram::recv_fds) does, in a future.
    /// Dropping the future before it is ready loses nothing. Linux only.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`recv_fds`](UnixDatagram::recv_fds), but no time-out.
    ///
    /// An example is at [`send_fds_async`](UnixDatagram::send_fds_async).
    pub async fn recv_fds_async(&self, buf: &mut [u8], room: usize) -> io::Result<ReceivedFds> {
        self.0.run_async(Direction::Read, |socket| receive(socket, buf, room)).await
    }
}
