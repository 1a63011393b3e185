//! `poll` and `ppoll` on simulated sockets.

use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use libc::{nfds_t, pollfd, timespec};
use netpoll::Direction;

use super::super::tcp::{Phase, Stream};
use super::super::{Kind as Socket, NetworkState};
use super::description::{Description, Kind, What};
use super::number::{find, raw};
use super::open::{Limit, Open, escape, look_and_wait};
use super::table;

/// What `poll` reports although it is not asked for.
const ALWAYS: i16 = libc::POLLERR | libc::POLLHUP;

/// What is reported for a socket of a node that was killed.
const KILLED: i16 = libc::POLLIN | libc::POLLOUT | ALWAYS;

/// `poll`, for `time` or for ever. Returns `None` if it is for no simulated socket.
///
/// # Safety
/// `fds` leads to `count` elements.
pub unsafe fn poll(fds: *mut pollfd, count: nfds_t, time: Option<Duration>) -> Option<isize> {
    if fds.is_null() || count == 0 {
        return None;
    }
    // SAFETY: the caller's array.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
    if !fds.iter().any(|asked| table::is_taken(asked.fd)) {
        return None;
    }
    let found = poll_sockets(fds, time, |asked| usize::from(asked.revents != 0));
    Some(raw(found.map(|found| found as isize)))
}

/// `ppoll`, without its mask: no signal ends a simulated wait. Returns `None` if it is for no simulated
/// socket.
///
/// # Safety
/// As for `poll`; `time` is null or a time.
pub unsafe fn ppoll(fds: *mut pollfd, count: nfds_t, time: *const timespec) -> Option<isize> {
    // SAFETY: the caller's time.
    let limit = unsafe { time.as_ref() }.map(duration);
    // A time that is none is refused after a look, which says if the call is for a simulated socket.
    let time = limit.map(Option::unwrap_or_default);
    // SAFETY: this contract.
    let found = unsafe { poll(fds, count, time) }?;
    Some(if limit == Some(None) { raw(Err(libc::EINVAL)) } else { found })
}

/// Returns the duration; `None` if it is none.
pub(super) fn duration(time: &timespec) -> Option<Duration> {
    let nanos = u32::try_from(time.tv_nsec).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanos))
}

/// Waits for `time` or for ever until `count` is not zero for all descriptors together, with their events.
/// Returns that sum, or 0 when the time is up.
///
/// # Errors
/// Returns the error number with which the caller is to end. Fails the run if one of the descriptors is no
/// simulated socket.
pub(super) fn poll_sockets(
    fds: &mut [pollfd],
    time: Option<Duration>,
    count: impl Fn(&pollfd) -> usize,
) -> Result<usize, c_int> {
    if !fds.iter().all(|asked| asked.fd < 0 || table::is_taken(asked.fd)) {
        return Err(escape("a poll or select of simulated sockets beside other descriptors", libc::EINVAL));
    }
    let limit = Limit::of(time);
    // A number that was closed is reported as such, and ends the wait.
    let sockets: Vec<_> = fds.iter().map(|asked| find(asked.fd).ok()).collect();
    if sockets.iter().flatten().any(|socket| matches!(socket.what, What::Epoll(_))) {
        return Err(escape("a poll or select of an epoll instance", libc::EINVAL));
    }
    let opens: Vec<Option<Arc<Open>>> =
        sockets.iter().map(|socket| socket.as_ref().and_then(|socket| socket.open())).collect();
    let mut waits = Vec::new();
    for (asked, open) in fds.iter().zip(&opens) {
        let Some(open) = open else { continue };
        // An end or an error wakes the waiters of both directions.
        if asked.events & libc::POLLOUT != 0 {
            waits.push((&**open, Direction::Write));
        }
        if asked.events & libc::POLLOUT == 0 || asked.events & libc::POLLIN != 0 {
            waits.push((&**open, Direction::Read));
        }
    }
    look_and_wait(&waits, limit, || {
        let mut found = 0;
        for (asked, (socket, open)) in fds.iter_mut().zip(sockets.iter().zip(&opens)) {
            asked.revents = match (asked.fd, socket) {
                (..0, _) => 0,
                (_, None) => libc::POLLNVAL,
                (_, Some(socket)) => events(socket, open.as_deref()) & (asked.events | ALWAYS),
            };
            found += count(asked);
        }
        found
    })
}

/// Returns what a socket is ready for.
pub(super) fn events(socket: &Description, open: Option<&Open>) -> i16 {
    let Some(open) = open else {
        // A new socket, as in Linux.
        return match socket.kind {
            Kind::Stream => libc::POLLOUT | libc::POLLHUP,
            Kind::Datagrams | Kind::UnixDatagrams => libc::POLLOUT,
        };
    };
    if socket.kind == Kind::UnixDatagrams {
        return open.with(events_of_datagrams).unwrap_or(KILLED);
    }
    let found = open.with_kind(|kind| {
        Ok(match kind {
            Socket::Listener(listener) if listener.queue.is_empty() => 0,
            Socket::Listener(_) => libc::POLLIN,
            Socket::Stream(stream) => events_of_stream(stream),
            Socket::Udp(udp) => {
                let error = if udp.error.is_some() { libc::POLLERR } else { 0 };
                libc::POLLOUT | error | if udp.is_readable() { libc::POLLIN } else { 0 }
            }
            Socket::Counter(counter) => {
                let writes = if counter.is_writable() { libc::POLLOUT } else { 0 };
                writes | if counter.is_readable() { libc::POLLIN } else { 0 }
            }
            Socket::Timer(timer) if timer.is_readable(socket.network.now_on(sched::simulation::node())) => {
                libc::POLLIN
            }
            Socket::Timer(_) => 0,
            // `events_of_datagrams` needs the state of the peer, too.
            Socket::Datagrams(_) => 0,
        })
    });
    found.unwrap_or(KILLED)
}

fn events_of_stream(stream: &Stream) -> i16 {
    if stream.state == Phase::Connecting {
        return 0;
    }
    let (no_more_comes, no_more_goes) = stream.ended();
    let mut events = 0;
    let mut add = |holds: bool, event: i16| events |= if holds { event } else { 0 };
    add(stream.is_readable(), libc::POLLIN);
    add(stream.is_writable(), libc::POLLOUT);
    add(no_more_comes, libc::POLLRDHUP);
    add(no_more_comes && no_more_goes, libc::POLLHUP);
    add(stream.error.is_some(), libc::POLLERR);
    events
}

/// Returns what a Unix socket for datagrams is ready for. As in Linux, an error alone is nothing to read, and
/// the shutdown of writes leaves the socket writable.
fn events_of_datagrams(state: &mut NetworkState, id: u64) -> io::Result<i16> {
    let is_writable = state.polls_writable(id);
    let socket = state.datagrams(id)?;
    let (read_shut, write_shut) = socket.shut();
    let mut events = 0;
    let mut add = |holds: bool, event: i16| events |= if holds { event } else { 0 };
    add(socket.has_datagram() || read_shut, libc::POLLIN);
    add(is_writable, libc::POLLOUT);
    add(read_shut, libc::POLLRDHUP);
    add(read_shut && write_shut, libc::POLLHUP);
    add(socket.error.is_some(), libc::POLLERR);
    Ok(events)
}
