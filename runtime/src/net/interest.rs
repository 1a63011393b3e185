//! What a caller waits for at a socket (`Interest`), and what the socket is ready for (`Ready`). The names
//! are those of tokio.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

use netpoll::Direction;
use netpoll::source::Look;

/// What a caller waits for at a socket: reading, writing or both.
///
/// ```
/// use runtime::net::Interest;
/// let both = Interest::READABLE | Interest::WRITABLE;
/// assert!(both.is_readable() && both.is_writable());
/// assert_eq!(both.remove(Interest::WRITABLE), Some(Interest::READABLE));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interest(u8);

impl Interest {
    /// Reading, receiving or accepting, and the end of what the peer writes.
    pub const READABLE: Interest = Interest(0b01);

    /// Writing or sending.
    pub const WRITABLE: Interest = Interest(0b10);

    /// Returns what either of the two waits for, as `|` does.
    ///
    /// ```
    /// use runtime::net::Interest;
    /// const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);
    /// assert_eq!(BOTH, Interest::READABLE | Interest::WRITABLE);
    /// ```
    #[allow(clippy::should_implement_trait, reason = "tokio has this name")]
    #[must_use]
    pub const fn add(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// Returns what is left without `other`, or `None` if nothing is.
    ///
    /// ```
    /// use runtime::net::Interest;
    /// assert_eq!(Interest::READABLE.remove(Interest::READABLE), None);
    /// ```
    #[must_use]
    pub const fn remove(self, other: Interest) -> Option<Interest> {
        match self.0 & !other.0 {
            0 => None,
            left => Some(Interest(left)),
        }
    }

    /// Returns `true` if it includes reading.
    ///
    /// ```
    /// assert!(!runtime::net::Interest::WRITABLE.is_readable());
    /// ```
    pub const fn is_readable(self) -> bool {
        self.0 & Interest::READABLE.0 != 0
    }

    /// Returns `true` if it includes writing.
    ///
    /// ```
    /// assert!(runtime::net::Interest::WRITABLE.is_writable());
    /// ```
    pub const fn is_writable(self) -> bool {
        self.0 & Interest::WRITABLE.0 != 0
    }

    /// Returns the one direction of it, or `None` if it includes both.
    pub(super) fn single(self) -> Option<Direction> {
        match (self.is_readable(), self.is_writable()) {
            (true, true) => None,
            (true, false) => Some(Direction::Read),
            _ => Some(Direction::Write),
        }
    }
}

impl BitOr for Interest {
    type Output = Interest;

    fn bitor(self, other: Interest) -> Interest {
        self.add(other)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Interest) {
        *self = self.add(other);
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.single() {
            None => "READABLE | WRITABLE",
            Some(Direction::Read) => "READABLE",
            Some(Direction::Write) => "WRITABLE",
        })
    }
}

/// What a socket was ready for when the call that returned this looked at it.
///
/// Another thread may have read or written since. `is_read_closed` and `is_write_closed` say what the system
/// knows: an end may come late, and some systems report only the end of both directions.
///
/// ```
/// use runtime::net::{Interest, UdpSocket};
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// let ready = socket.ready(Interest::READABLE | Interest::WRITABLE)?;
/// assert!(ready.is_writable() && !ready.is_readable());
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ready(u8);

impl Ready {
    /// Nothing.
    pub const EMPTY: Ready = Ready(0);

    /// There is something to read.
    pub const READABLE: Ready = Ready(0b1);

    /// There is room to write.
    pub const WRITABLE: Ready = Ready(0b10);

    /// The peer writes no more, or this end reads no more.
    pub const READ_CLOSED: Ready = Ready(0b100);

    /// What is written reaches no reader.
    pub const WRITE_CLOSED: Ready = Ready(0b1000);

    /// There is a pending error.
    pub const ERROR: Ready = Ready(0b1_0000);

    /// All of the above.
    pub const ALL: Ready = Ready(0b1_1111);

    pub(super) fn found(look: Look) -> Ready {
        let all = [
            (look.readable, Ready::READABLE),
            (look.writable, Ready::WRITABLE),
            (look.read_closed, Ready::READ_CLOSED),
            (look.write_closed, Ready::WRITE_CLOSED),
            (look.error, Ready::ERROR),
        ];
        let found = all.into_iter().filter(|(is_so, _)| *is_so);
        found.fold(Ready::EMPTY, |ready, (_, part)| ready | part)
    }

    fn has_any(self, parts: Ready) -> bool {
        self & parts != Ready::EMPTY
    }

    /// Returns `true` if the socket is ready for nothing.
    ///
    /// ```
    /// assert!(runtime::net::Ready::EMPTY.is_empty());
    /// ```
    pub fn is_empty(self) -> bool {
        self == Ready::EMPTY
    }

    /// Returns `true` if a read does not have to wait: there is something to read, or the end.
    ///
    /// ```
    /// use runtime::net::Ready;
    /// assert!(Ready::READABLE.is_readable() && Ready::READ_CLOSED.is_readable());
    /// ```
    pub fn is_readable(self) -> bool {
        self.has_any(Ready::READABLE | Ready::READ_CLOSED)
    }

    /// Returns `true` if a write does not have to wait: there is room, or the write fails.
    ///
    /// ```
    /// use runtime::net::Ready;
    /// assert!(Ready::WRITABLE.is_writable() && Ready::WRITE_CLOSED.is_writable());
    /// ```
    pub fn is_writable(self) -> bool {
        self.has_any(Ready::WRITABLE | Ready::WRITE_CLOSED)
    }

    /// Returns `true` if the peer writes no more, or this end reads no more. There may be something to read
    /// that came before.
    ///
    /// ```
    /// assert!(!runtime::net::Ready::READABLE.is_read_closed());
    /// ```
    pub fn is_read_closed(self) -> bool {
        self.has_any(Ready::READ_CLOSED)
    }

    /// Returns `true` if what is written reaches no reader.
    ///
    /// ```
    /// assert!(!runtime::net::Ready::WRITABLE.is_write_closed());
    /// ```
    pub fn is_write_closed(self) -> bool {
        self.has_any(Ready::WRITE_CLOSED)
    }

    /// Returns `true` if the socket has a pending error, which the next call on it returns.
    ///
    /// ```
    /// assert!(runtime::net::Ready::ERROR.is_error());
    /// ```
    pub fn is_error(self) -> bool {
        self.has_any(Ready::ERROR)
    }
}

impl BitOr for Ready {
    type Output = Ready;

    fn bitor(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }
}

impl BitAnd for Ready {
    type Output = Ready;

    fn bitand(self, other: Ready) -> Ready {
        Ready(self.0 & other.0)
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready")
            .field("is_readable", &self.is_readable())
            .field("is_writable", &self.is_writable())
            .field("is_read_closed", &self.is_read_closed())
            .field("is_write_closed", &self.is_write_closed())
            .field("is_error", &self.is_error())
            .finish()
    }
}
