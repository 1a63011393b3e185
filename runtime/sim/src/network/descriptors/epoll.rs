//! `epoll`: lists of descriptors with the events that are waited for.
//!
//! ```text
//!   epoll_wait: look ──nothing──> wait for each entry, and for the bell of the instance ──> look again
//!   epoll_ctl, or the last close of what an entry is for: ring the bell
//! ```
//!
//! A waiter holds the sockets of all entries. So their last close does not close them before the waiter has
//! heard the bell. No simulated time passes in between.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use libc::epoll_event;
use netpoll::Direction;
use netpoll::raw::call;

use super::description::{Description, Done, What};
use super::entries::{Entries, State};
use super::event::make;
use super::number::{find, network_of_user, number, on_any, raw};
use super::open::{Limit, escape, look_or_wait};
use super::poll::events;
use super::table;

/// `epoll_create1`. Returns `None` outside of a simulation.
#[must_use]
pub fn epoll_create1(flags: c_int) -> Option<isize> {
    let network = network_of_user()?;
    if flags & !libc::EPOLL_CLOEXEC != 0 {
        return Some(raw(Err(libc::EINVAL)));
    }
    let made =
        make(&network, What::Epoll(Entries::default()), |state, node| state.add_counter(node, 0, false));
    // The flag is that of sockets.
    Some(raw(made.and_then(|made| number(made, flags))))
}

/// `epoll_create`. Returns `None` outside of a simulation.
#[must_use]
pub fn epoll_create(size: c_int) -> Option<isize> {
    if size > 0 { epoll_create1(0) } else { network_of_user().map(|_| raw(Err(libc::EINVAL))) }
}

/// `epoll_ctl`. Returns `None` if neither descriptor is simulated.
///
/// # Safety
/// As libc's.
pub unsafe fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> Option<isize> {
    if !table::is_taken(epoll) {
        return table::is_taken(fd)
            .then(|| raw(Err(escape("epoll of a simulated socket by the system", libc::EPERM))));
    }
    on_any(epoll, |instance| {
        // SAFETY: the caller's event, if the operation has one.
        let event = if operation == libc::EPOLL_CTL_DEL { None } else { unsafe { event.as_ref() } };
        if event.is_none() && operation != libc::EPOLL_CTL_DEL {
            return Err(libc::EFAULT);
        }
        let of = target(fd)?;
        let What::Epoll(list) = &instance.what else { return Err(libc::EINVAL) };
        if Arc::ptr_eq(&of, instance) {
            return Err(libc::EINVAL);
        }
        if matches!(of.what, What::Epoll(_)) {
            return Err(escape("an epoll instance in another one", libc::ELOOP));
        }
        list.control(operation, fd, &of, event.map(|event| (event.events, event.u64)))?;
        of.watch(instance);
        instance.ring();
        Ok(0)
    })
}

/// Returns what a descriptor that is to be watched stands for.
fn target(fd: c_int) -> Done<Arc<Description>> {
    if table::is_taken(fd) {
        return find(fd);
    }
    // SAFETY: the call takes no pointer.
    let is_open = unsafe { call!(libc::SYS_fcntl, fd, libc::F_GETFD) } >= 0;
    Err(if is_open {
        escape("a descriptor of the system in a simulated epoll", libc::EPERM)
    } else {
        libc::EBADF
    })
}

/// `epoll_wait`, for `time` or for ever. Returns `None` if the instance is not simulated.
///
/// # Safety
/// As libc's.
pub unsafe fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    time: Option<Duration>,
) -> Option<isize> {
    on_any(epoll, |instance| {
        let most = usize::try_from(most).ok().filter(|&most| most > 0).ok_or(libc::EINVAL)?;
        if events.is_null() {
            return Err(libc::EFAULT);
        }
        let What::Epoll(list) = &instance.what else { return Err(libc::EINVAL) };
        // No more than there are entries.
        let mut found = vec![epoll_event { events: 0, u64: 0 }; most.min(list.len().max(16))];
        let count = wait(instance, list, &mut found, Limit::of(time))?;
        // SAFETY: the caller's place has room for `most`.
        unsafe { events.copy_from_nonoverlapping(found.as_ptr(), count) };
        Ok(count as isize)
    })
}

fn wait(
    instance: &Description,
    list: &Entries<Description>,
    to: &mut [epoll_event],
    limit: Limit,
) -> Done<usize> {
    let found = list.look(to, state);
    if found > 0 || matches!(limit, Limit::Now) {
        return Ok(found);
    }
    let (bell, until) = (instance.open_or(libc::EBADF)?, limit.until());
    loop {
        let awaited = list.awaited(Description::open);
        let mut waits = vec![(&*bell, Direction::Read)];
        waits.extend(awaited.iter().map(|(open, direction)| (&**open, *direction)));
        if let Some(found) = look_or_wait(&waits, until, || list.look(to, state))? {
            return Ok(found);
        }
    }
}

fn state(of: &Description) -> State {
    let open = of.open();
    State {
        events: u32::from(events(of, open.as_deref()) as u16),
        activity: open.map_or([0; 2], |open| open.activity()),
    }
}
