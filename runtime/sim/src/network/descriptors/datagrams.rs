//! The calls on Unix sockets for datagrams that differ from those on other sockets.

use std::io;
use std::os::unix::net::SocketAddr;
use std::sync::Arc;

use netpoll::Direction;
use sched::simulation;

use super::super::addr::Addr;
use super::super::handle::Handle;
use super::super::unix::Type;
use super::super::{Network, NetworkState};
use super::description::{Description, Done};
use super::open::{Limit, Open, number_of};

/// Makes the socket of the network for a number. It has no address.
pub(super) fn unbound(network: &Arc<Network>) -> Done<Open> {
    let made = network.with(|state| state.unbound(simulation::node()));
    let id = made.map_err(|error| number_of(&error))?;
    Ok(Open::new(Handle { network: network.clone(), id }))
}

/// Gives a socket an address: a path on the disk of the node, or an abstract name.
///
/// # Errors
/// Returns `EINVAL` if the socket has one, and the errors of `Network::new_name`.
pub(super) fn bind(socket: &Description, to: &SocketAddr) -> Done {
    let open = socket.open_or(libc::EBADF)?;
    let is_named = open.with(|state, id| Ok(!state.datagrams(id)?.local.unix()?.is_unnamed()))?;
    if is_named {
        return Err(libc::EINVAL);
    }
    let node = simulation::node();
    let made = socket.network.new_name(node, Type::Datagrams, to);
    let (name, addr) = made.map_err(|error| number_of(&error))?;
    open.with(|state, id| state.name_datagrams(id, node, name, addr))?;
    Ok(0)
}

/// Makes the socket that is bound to `to` the peer.
pub(super) fn connect(socket: &Description, to: &SocketAddr) -> Done {
    let open = socket.open_or(libc::EBADF)?;
    let peer = find(&open, to)?;
    open.with(|state, id| state.connect_datagrams(id, peer)).map(|()| 0)
}

/// Leaves the socket without a peer.
pub(super) fn disconnect(socket: &Description) -> Done {
    socket.open_or(libc::EBADF)?.with(NetworkState::disconnect_datagrams).map(|()| 0)
}

fn find(open: &Open, to: &SocketAddr) -> Done<u64> {
    open.handle.find(to).map_err(|error| number_of(&error))
}

/// Sends to an address, or to the peer.
pub(super) fn send(socket: &Description, bytes: &[u8], limit: Limit, to: Option<&SocketAddr>) -> Done {
    let open = socket.open_or(libc::EBADF)?;
    loop {
        let target = to.map(|to| find(&open, to)).transpose()?;
        match open.repeat(Direction::Write, limit, |state, id| state.send_datagram(id, bytes, target)) {
            // The receiver was closed during the wait. As in Linux, the address is looked up again.
            Err(libc::ECONNREFUSED) if target.is_some() => {}
            sent => return sent.map(|n| n as isize),
        }
    }
}

/// Receives a whole datagram, with the address of its sender if that has one. `looks`: leaves it there.
pub(super) fn receive(socket: &Description, limit: Limit, looks: bool) -> Done<(Vec<u8>, Option<Addr>)> {
    let attempt = |state: &mut NetworkState, id| {
        let of = state.datagrams(id)?;
        // As in Linux, the shutdown of reads ends a wait, and a call that does not wait does not see it.
        if matches!(limit, Limit::Now) && !of.has_datagram() && of.error.is_none() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.next_datagram(id, looks)
    };
    let (bytes, from) = socket.open_or(libc::EBADF)?.repeat(Direction::Read, limit, attempt)?;
    let is_named = from.unix().is_ok_and(|from| !from.is_unnamed());
    Ok((bytes, is_named.then_some(from)))
}
