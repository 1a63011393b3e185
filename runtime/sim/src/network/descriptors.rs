//! Sockets that code of std or C makes in a simulation, by functions of libc. They are sockets of the
//! simulated network, with numbers that no file of the system has (`table.rs`).
//!
//! A program with the line `runtime::interpose!(sim)` names the functions of `hooks/functions/both.rs` of
//! `monochrome`, and these ask here first. Each function here returns `None` if the call is not for a
//! simulated socket: then it is the system's. Else it returns what a system call returns: an error is
//! `-errno`.
//!
//! ```text
//!   number ──> Description: mode, time-outs, options; shared by duplicates
//!                   └─> Open: the socket of the network, from the first call that gives it an address
//! ```
//!
//! - Each call is a point of choice. None unwinds: its caller is std or C. A call that has to end because the
//!   simulation or the node does returns `ECANCELED` or `ENETDOWN`. A caller that goes on is left behind.
//! - What is not simulated fails the run by `escape`, which names it.
//! - `datagrams.rs` has what differs for Unix datagrams, in all these calls.
//! - `calls.rs` has the calls on addresses, `transfer.rs` the calls that move bytes, `options.rs` the calls
//!   on settings, `poll.rs` has `poll` and `ppoll`, and `select.rs` has `select` and `pselect`.
//! - `epoll.rs`, `event.rs` and `timer.rs` have `epoll`, `eventfd` and `timerfd_create`. What these make has
//!   a number and a description as sockets have. `entries.rs` has the entries of an instance of epoll.
//! - `number.rs` finds the socket of a number, `description.rs` has the part that duplicates share, `open.rs`
//!   has the waits, and `address.rs` has the addresses of C. `table.rs` has all numbers. `leave.rs` ends a
//!   thread that heeds no error.

#![allow(unsafe_code)]

mod address;
mod calls;
mod datagrams;
mod description;
mod entries;
mod epoll;
mod event;
mod leave;
mod number;
mod open;
mod options;
mod poll;
mod select;
mod table;
mod timer;
mod transfer;

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use sched::simulation;

use super::{Network, NetworkState, here};
use description::{Description, Done, Kind};
use number::{duplicate, is_here, network_of_user, number, on_any, raw};
use open::{Open, escape};

pub use calls::{accept4, bind, connect, getpeername, getsockname, listen, shutdown};
pub use epoll::{epoll_create, epoll_create1, epoll_ctl, epoll_wait};
pub use event::{eventfd, eventfd_read, eventfd_write};
pub use leave::leave_if_over;
pub use options::{fcntl, getsockopt, ioctl, setsockopt};
pub use poll::{poll, ppoll};
pub use select::{pselect, select};
pub use timer::{timerfd_create, timerfd_gettime, timerfd_settime};
pub use transfer::{read, readv, recvfrom, recvmsg, sendmsg, sendto, write, writev};

/// Returns `true` if the number stands for a simulated socket.
#[inline]
#[must_use]
pub fn is_simulated(fd: c_int) -> bool {
    table::is_taken(fd)
}

/// `socket`. Returns `None` outside of a simulation.
#[must_use]
pub fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Option<isize> {
    let network = network_of_user()?;
    Some(raw(kind_of(domain, kind, protocol).and_then(|of| {
        let open = (of == Kind::UnixDatagrams).then(|| datagrams::unbound(&network)).transpose()?;
        let socket = Description::new(network, domain, of, open);
        number(socket, kind)
    })))
}

/// `socketpair`: two Unix sockets within a node. Returns `None` outside of a simulation.
///
/// # Safety
/// `pair` is a place for two numbers.
pub unsafe fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> Option<isize> {
    let network = network_of_user()?;
    let made = kind_of(domain, kind, protocol).and_then(|of| match of {
        _ if domain != libc::AF_UNIX => Err(libc::EOPNOTSUPP),
        Kind::Stream => make_pair(&network, of, kind, NetworkState::pair),
        Kind::Datagrams | Kind::UnixDatagrams => {
            make_pair(&network, of, kind, NetworkState::pair_of_datagrams)
        }
    });
    Some(raw(made.map(|numbers| {
        // SAFETY: the caller's place.
        unsafe { pair.cast::<[c_int; 2]>().write_unaligned(numbers) };
        0
    })))
}

/// Makes two sockets by `pair`, and gives them numbers with these flags.
fn make_pair(
    network: &Arc<Network>,
    of: Kind,
    flags: c_int,
    pair: impl FnOnce(&mut NetworkState, u32) -> io::Result<(u64, u64)>,
) -> Done<[c_int; 2]> {
    let ends = network.with(|state| pair(state, simulation::node()));
    let (one, other) = ends.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    let [one, other] = [one, other].map(|id| {
        let handle = super::handle::Handle { network: network.clone(), id };
        Description::new(network.clone(), libc::AF_UNIX, of, Some(Open::new(handle)))
    });
    let one = number(one, flags)? as c_int;
    let other = number(other, flags).inspect_err(|_| {
        drop(table::remove(one));
        table::close(one);
    })?;
    Ok([one, other as c_int])
}

fn kind_of(domain: c_int, kind: c_int, protocol: c_int) -> Done<Kind> {
    let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let is_inet = domain == libc::AF_INET || domain == libc::AF_INET6;
    match (is_inet, kind, protocol) {
        (true, libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Ok(Kind::Stream),
        (true, libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Ok(Kind::Datagrams),
        (false, libc::SOCK_STREAM, 0) if domain == libc::AF_UNIX => Ok(Kind::Stream),
        (false, libc::SOCK_DGRAM, 0) if domain == libc::AF_UNIX => Ok(Kind::UnixDatagrams),
        (false, ..) if domain == libc::AF_UNIX => {
            let what = "a Unix socket of the system that is neither a stream nor for datagrams";
            Err(escape(what, libc::EPROTONOSUPPORT))
        }
        _ => Err(escape("a socket of the system that is neither TCP nor UDP", libc::EPROTONOSUPPORT)),
    }
}

/// Takes a number from its socket, before `close` or a call that puts another file there. The number is then
/// one of the system's, and still open. Returns an error for a socket of another simulation.
pub fn close(fd: c_int) -> Option<isize> {
    if !table::is_taken(fd) {
        return None;
    }
    // What was made in a simulation may be dropped after its end.
    let is_foreign = |socket: &Description| here().is_some() && !is_here(socket);
    if table::find(fd).is_some_and(|socket| is_foreign(&socket)) {
        return Some(raw(Err(libc::EBADF)));
    }
    let socket = table::remove(fd);
    simulation::point_in_drop();
    drop(socket);
    None
}

/// Forgets the sockets of a network after its simulation, which has left green threads behind. These never
/// close their sockets.
pub(crate) fn forget_all(network: &Arc<Network>) {
    drop(table::forget(|socket| Arc::ptr_eq(&socket.network, network)));
}

/// `dup`: gives the socket a second number.
#[must_use]
pub fn dup(fd: c_int) -> Option<isize> {
    on_any(fd, |socket| duplicate(socket, 0, false))
}

/// Makes `new` stand for the socket of `old`, after the system has duplicated the descriptor.
pub fn has_duplicated(old: c_int, new: c_int) {
    if let Some(socket) = table::find(old).filter(|_| table::is_taken(old)) {
        // Without a place it is the system's, where each call fails.
        _ = table::insert(new, socket);
    }
}

/// Fails the run if one of the numbers stands for a simulated socket: `what` is not simulated.
#[must_use]
pub fn refuse(fds: &[c_int], what: &str, number: c_int) -> Option<isize> {
    fds.iter().any(|&fd| table::is_taken(fd)).then(|| raw(Err(escape(what, number))))
}

/// Returns the address of a node, as text, if the code of a simulation looks up a name. An address and no
/// name is `None`: nothing is looked up.
///
/// # Errors
/// Returns `EAI_NONAME` if no node has the name.
pub fn resolve(host: &CStr) -> Option<Result<CString, c_int>> {
    let network = network_of_user()?;
    let host = host.to_str().unwrap_or_default();
    if host.parse::<IpAddr>().is_ok() {
        return None;
    }
    let found = network.with(|state| state.nodes.look_up(host));
    let first = found.ok().and_then(|found| CString::new(found.first()?.to_string()).ok());
    Some(first.ok_or(libc::EAI_NONAME))
}

/// Fails the run if the code of a simulation looks up a name by `function`, which is not simulated. Returns
/// `false` outside of a simulation.
#[must_use]
pub fn refuse_look_up(function: &str) -> bool {
    let refused = simulation::is_user_code();
    if refused {
        escape(function, 0);
    }
    refused
}
