//! `eventfd`.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use netpoll::Direction;
use sched::simulation;

use super::super::handle::Handle;
use super::super::{Network, NetworkState};
use super::description::{Description, Done, What};
use super::number::{network_of_user, number, on_any, raw};
use super::open::{Open, number_of};

/// How many bytes a read and a write have: a number.
const BYTES: usize = 8;

/// `eventfd`. Returns `None` outside of a simulation.
#[must_use]
pub fn eventfd(count: c_uint, flags: c_int) -> Option<isize> {
    let network = network_of_user()?;
    let by_one = flags & libc::EFD_SEMAPHORE != 0;
    let known = libc::EFD_SEMAPHORE | libc::EFD_NONBLOCK | libc::EFD_CLOEXEC;
    if flags & !known != 0 {
        return Some(raw(Err(libc::EINVAL)));
    }
    let made = make(&network, What::Counter, |state, node| state.add_counter(node, count.into(), by_one));
    // The flags are those of sockets.
    Some(raw(made.and_then(|made| number(made, flags & !libc::EFD_SEMAPHORE))))
}

/// Makes what is waited for as sockets are.
pub(super) fn make(
    network: &Arc<Network>,
    what: What,
    make: impl FnOnce(&mut NetworkState, u32) -> std::io::Result<u64>,
) -> Done<Description> {
    let made = network.with(|state| make(state, simulation::node()));
    let id = made.map_err(|error| number_of(&error))?;
    let open = Open::new(Handle { network: network.clone(), id });
    Ok(Description::of(network.clone(), what, open))
}

/// `eventfd_read`.
///
/// # Safety
/// `to` is a place for a number.
pub unsafe fn eventfd_read(fd: c_int, to: *mut u64) -> Option<isize> {
    on_any(fd, |of| {
        let count = read_number(of)?;
        // SAFETY: the caller's place.
        unsafe { to.write_unaligned(count) };
        Ok(0)
    })
}

/// `eventfd_write`.
#[must_use]
pub fn eventfd_write(fd: c_int, by: u64) -> Option<isize> {
    on_any(fd, |of| raise(of, by).map(|()| 0))
}

/// Reads from what is no socket: a number into the first of the buffers.
///
/// # Safety
/// The place has `room` bytes.
pub(super) unsafe fn read(of: &Description, to: *mut u8, room: usize) -> Done {
    if room < BYTES {
        return Err(libc::EINVAL);
    }
    let bytes = read_number(of)?.to_ne_bytes();
    // SAFETY: this contract.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), BYTES) };
    Ok(BYTES as isize)
}

/// Writes to what is no socket: a number.
pub(super) fn write(of: &Description, bytes: &[u8]) -> Done {
    let number = bytes.first_chunk::<BYTES>().ok_or(libc::EINVAL)?;
    raise(of, u64::from_ne_bytes(*number))?;
    Ok(BYTES as isize)
}

fn read_number(of: &Description) -> Done<u64> {
    let take = match of.what {
        What::Counter => NetworkState::take_count,
        What::Timer(_) => NetworkState::take_expirations,
        What::Socket | What::Epoll(_) => return Err(libc::EINVAL),
    };
    of.open_or(libc::EBADF)?.repeat(Direction::Read, of.limit(Direction::Read, 0), take)
}

fn raise(of: &Description, by: u64) -> Done<()> {
    if !matches!(of.what, What::Counter) || by == u64::MAX {
        return Err(libc::EINVAL);
    }
    let limit = of.limit(Direction::Write, 0);
    of.open_or(libc::EBADF)?.repeat(Direction::Write, limit, |state, id| state.raise_count(id, by))
}
