//! An epoll: sockets that become readable, each with the word that it was added with.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How many events a wait returns at most.
const EVENTS: usize = 256;

pub(crate) struct Poller {
    epoll: OwnedFd,
}

/// The words of the sockets that a wait has found readable.
pub(crate) struct Ready([libc::epoll_event; EVENTS], usize);

impl Ready {
    pub(crate) fn new() -> Ready {
        Ready([libc::epoll_event { events: 0, u64: 0 }; EVENTS], 0)
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        self.0[..self.1].iter().map(|event| event.u64)
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        // SAFETY: the call takes no memory. The descriptor that it returns belongs to this poller alone.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Poller { epoll: unsafe { OwnedFd::from_raw_fd(epoll) } })
    }

    /// Adds a socket, which is reported as long as it is readable. A socket that is closed goes by itself.
    pub(crate) fn add(&self, socket: &impl AsRawFd, word: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: word };
        // SAFETY: both descriptors are open, and the call only reads the event.
        let done = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &mut event)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits until a socket is readable.
    pub(crate) fn wait(&self, ready: &mut Ready) -> io::Result<()> {
        // SAFETY: the kernel writes at most `EVENTS` events into the array.
        let found = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), ready.0.as_mut_ptr(), EVENTS as libc::c_int, -1)
        };
        ready.1 = usize::try_from(found).unwrap_or(0);
        match found {
            0.. => Ok(()),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
