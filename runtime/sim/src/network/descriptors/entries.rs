//! The entries of an instance of epoll.
//!
//! An entry belongs to a number and to what the number stood for when the entry was made, as in Linux: it
//! stays as long as any number stands for that. The entries are in the order in which they were made, because
//! numbers depend on the whole process. Those of the last report come last in the next one.
//!
//! An edge is an event of the network since the last report of its entry: its activity has changed.

use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, Weak};

use libc::epoll_event;
use netpoll::Direction;
use sched::sync::Mutex;

const READS: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI) as u32;
const WRITES: u32 = libc::EPOLLOUT as u32;
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// The entries of an instance. `T` is what a number stands for.
pub(super) struct Entries<T>(Mutex<Vec<Entry<T>>>);

struct Entry<T> {
    fd: c_int,
    of: Weak<T>,
    /// Events that are waited for, and the flags. 0 if the entry was reported and is to be reported once.
    asked: u32,
    data: u64,
    /// The activity of the last report; `None` if the first look reports what is ready.
    seen: Option<[u64; 2]>,
}

/// What an entry has found.
pub(super) struct State {
    pub(super) events: u32,
    /// How often attempts to read, and to write, may have begun to find something.
    pub(super) activity: [u64; 2],
}

impl<T> Entry<T> {
    fn is_for(&self, fd: c_int, of: &Arc<T>) -> bool {
        self.fd == fd && ptr::eq(self.of.as_ptr(), Arc::as_ptr(of))
    }

    /// Returns the events to report now.
    fn look(&mut self, state: impl FnOnce(&T) -> State) -> u32 {
        let Some(of) = self.of.upgrade() else { return 0 };
        let State { events, activity } = state(&of);
        let found = events & self.asked;
        let is_new = match self.seen {
            _ if self.asked & EDGE == 0 => true,
            None => true,
            Some(seen) => self.directions().any(|at| seen[at] != activity[at]),
        };
        if found == 0 || !is_new {
            return 0;
        }
        self.seen = Some(activity);
        if self.asked & ONCE != 0 {
            self.asked = 0;
        }
        found
    }

    /// Returns the directions of the events that are waited for. An end or an error is an event of both.
    fn directions(&self) -> impl Iterator<Item = usize> + use<T> {
        let writes = self.asked & WRITES != 0;
        let reads = self.asked & READS != 0 || !writes;
        [reads.then_some(0), writes.then_some(1)].into_iter().flatten()
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries(Mutex::default())
    }
}

impl<T> Entries<T> {
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Makes, changes or removes an entry, as `epoll_ctl`. `event`: what is waited for, and the user's data.
    ///
    /// # Errors
    /// Returns the error number of `epoll_ctl`.
    pub(super) fn control(
        &self,
        operation: c_int,
        fd: c_int,
        of: &Arc<T>,
        event: Option<(u32, u64)>,
    ) -> Result<(), c_int> {
        let mut entries = self.0.lock();
        entries.retain(|entry| entry.of.strong_count() > 0);
        let at = entries.iter().position(|entry| entry.is_for(fd, of));
        let (asked, data) = event.unwrap_or_default();
        let entry = Entry { fd, of: Arc::downgrade(of), asked: asked | ALWAYS, data, seen: None };
        match (operation, at) {
            (libc::EPOLL_CTL_ADD, None) => entries.push(entry),
            (libc::EPOLL_CTL_ADD, Some(_)) => return Err(libc::EEXIST),
            (libc::EPOLL_CTL_MOD, Some(at)) => {
                if (asked | entries[at].asked) & EXCLUSIVE != 0 {
                    return Err(libc::EINVAL);
                }
                entries[at] = entry;
            }
            (libc::EPOLL_CTL_DEL, Some(at)) => drop(entries.remove(at)),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(libc::ENOENT),
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }

    /// Looks by `state` which entries have events, and notes these in `to`. Returns how many there are.
    pub(super) fn look(&self, to: &mut [epoll_event], state: impl Fn(&T) -> State) -> usize {
        let mut entries = self.0.lock();
        let (mut reported, mut found) = (Vec::new(), 0);
        entries.retain_mut(|entry| {
            let events = if found < to.len() { entry.look(&state) } else { 0 };
            if events == 0 {
                return entry.of.strong_count() > 0;
            }
            to[found] = epoll_event { events, u64: entry.data };
            found += 1;
            reported.push(Entry { of: entry.of.clone(), ..*entry });
            false
        });
        entries.extend(reported);
        found
    }

    /// Returns by `open` the sockets of all entries, and the directions in which something may happen.
    pub(super) fn awaited<O: Clone>(&self, open: impl Fn(&T) -> Option<O>) -> Vec<(O, Direction)> {
        let entries = self.0.lock();
        let awaited = |entry: &Entry<T>| {
            let open = open(&*entry.of.upgrade().filter(|_| entry.asked != 0)?)?;
            Some(entry.directions().map(move |at| (open.clone(), [Direction::Read, Direction::Write][at])))
        };
        entries.iter().filter_map(awaited).flatten().collect()
    }
}
