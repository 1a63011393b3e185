//! From a number to its socket, and back.

use std::ffi::c_int;
use std::sync::Arc;

use sched::simulation;

use super::super::{Network, here};
use super::description::{Description, Done, What};
use super::leave::{leave_call_if_over, leave_if_over};
use super::table;

/// Converts a result into what a system call returns.
pub(super) fn raw(done: Done) -> isize {
    done.unwrap_or_else(|number| -(number as isize))
}

/// Calls `call` with the socket of a number, which the caller borrows, after a point of choice. Returns
/// `None` if the number stands for no simulated socket.
#[inline]
pub(super) fn on(fd: c_int, call: impl FnOnce(&Arc<Description>) -> Done) -> Option<isize> {
    on_any(fd, |socket| if matches!(socket.what, What::Socket) { call(socket) } else { Err(libc::ENOTSOCK) })
}

/// As [`on`], for all that has a number.
#[inline]
pub(super) fn on_any(fd: c_int, call: impl FnOnce(&Arc<Description>) -> Done) -> Option<isize> {
    table::is_taken(fd).then(|| {
        leave_call_if_over(Some(fd));
        raw(find_here(fd).and_then(|socket| call(&socket)))
    })
}

/// Returns the socket of a number, after a point of choice. The owner of the number may close it during the
/// call.
///
/// # Errors
/// Returns `EBADF` if it is one of another simulation, or the caller is in none.
pub(super) fn find(fd: c_int) -> Done<Arc<Description>> {
    leave_if_over();
    find_here(fd)
}

fn find_here(fd: c_int) -> Done<Arc<Description>> {
    // It does not unwind, other than `point`.
    simulation::point_in_drop();
    let socket = table::find(fd).filter(|socket| is_here(socket));
    socket.ok_or(libc::EBADF)
}

pub(super) fn is_here(socket: &Description) -> bool {
    here().is_some_and(|network| Arc::ptr_eq(&network, &socket.network))
}

/// Returns the network around the caller, if that is the code of a simulation, after a point of choice.
pub(super) fn network_of_user() -> Option<Arc<Network>> {
    if !simulation::is_user_code() {
        return None;
    }
    simulation::point_in_drop();
    here()
}

/// Gives a new socket a number, with the flags of its making.
pub(super) fn number(socket: Description, flags: c_int) -> Done {
    socket.set_nonblocking(flags & libc::SOCK_NONBLOCK != 0);
    let fd = table::add(Arc::new(socket), 0, flags & libc::SOCK_CLOEXEC != 0)?;
    Ok(fd as isize)
}

/// Gives a socket a second number, the lowest that is free from `first` on.
pub(super) fn duplicate(socket: &Arc<Description>, first: c_int, closes_on_exec: bool) -> Done {
    table::add(socket.clone(), first, closes_on_exec).map(|fd| fd as isize)
}
