//! What a number stands for: a socket or the like, with its mode and its settings.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use libc::clockid_t;
use netpoll::Direction;
use sched::sync::Mutex;

use super::super::Network;
use super::entries::Entries;
use super::open::{Limit, Open};

/// The result of a call, or an error number.
pub(super) type Done<T = isize> = Result<T, c_int>;

/// What a number stands for. Duplicates of the number share it.
pub(super) struct Description {
    pub(super) network: Arc<Network>,
    pub(super) what: What,
    /// `AF_INET`, `AF_INET6` or `AF_UNIX`.
    pub(super) family: c_int,
    pub(super) kind: Kind,
    /// `None` of a socket that has no address yet.
    open: Mutex<Option<Arc<Open>>>,
    nonblocking: AtomicBool,
    /// For how long a call may wait to read, and to write, in microseconds; 0 means for ever.
    limits: [AtomicU64; 2],
    /// Options without an effect, with the values that were set: by level and name.
    pub(super) options: Mutex<BTreeMap<(c_int, c_int), c_int>>,
    /// The instances of epoll that have it.
    watchers: Mutex<Vec<Weak<Description>>>,
}

/// What has a number.
pub(super) enum What {
    Socket,
    /// What `eventfd` has made.
    Counter,
    /// What `timerfd_create` has made, for this clock.
    Timer(clockid_t),
    /// An instance of epoll.
    Epoll(Entries<Description>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stream,
    /// Of UDP.
    Datagrams,
    /// It is a socket of the network from its making on.
    UnixDatagrams,
}

impl Description {
    pub(super) fn new(network: Arc<Network>, family: c_int, kind: Kind, open: Option<Open>) -> Self {
        Description {
            network,
            what: What::Socket,
            family,
            kind,
            open: Mutex::new(open.map(Arc::new)),
            nonblocking: AtomicBool::new(false),
            limits: Default::default(),
            options: Mutex::default(),
            watchers: Mutex::default(),
        }
    }

    /// Returns what is no socket.
    pub(super) fn of(network: Arc<Network>, what: What, open: Open) -> Self {
        let mut of = Description::new(network, libc::AF_UNSPEC, Kind::Stream, Some(open));
        of.what = what;
        of
    }

    /// Notes that an instance of epoll has it.
    pub(super) fn watch(&self, instance: &Arc<Description>) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|watcher| watcher.strong_count() > 0);
        if !watchers.iter().any(|watcher| ptr::eq(watcher.as_ptr(), Arc::as_ptr(instance))) {
            watchers.push(Arc::downgrade(instance));
        }
    }

    /// Lets the waiters of an instance of epoll look again.
    pub(super) fn ring(&self) {
        if let Some(open) = self.open() {
            open.handle.with(|state, id| state.ring(id));
        }
    }

    pub(super) fn open(&self) -> Option<Arc<Open>> {
        self.open.lock().clone()
    }

    /// Returns the socket of the network.
    ///
    /// # Errors
    /// Returns `otherwise` if there is none yet.
    pub(super) fn open_or(&self, otherwise: c_int) -> Done<Arc<Open>> {
        self.open().ok_or(otherwise)
    }

    pub(super) fn set_open(&self, open: Open) -> Arc<Open> {
        let open = Arc::new(open);
        let earlier = self.open.lock().replace(open.clone());
        // Its drop closes the socket: that takes the lock of the network.
        drop(earlier);
        open
    }

    // Relaxed, here and in the other accesses: one thread runs all green threads of a simulation.
    pub(super) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    pub(super) fn limit_of(&self, direction: Direction) -> &AtomicU64 {
        &self.limits[usize::from(direction == Direction::Write)]
    }

    /// Returns for how long a call with these flags may wait.
    pub(super) fn limit(&self, direction: Direction, flags: c_int) -> Limit {
        match self.limit_of(direction).load(Ordering::Relaxed) {
            _ if flags & libc::MSG_DONTWAIT != 0 || self.is_nonblocking() => Limit::Now,
            0 => Limit::Never,
            micros => Limit::For(Duration::from_micros(micros)),
        }
    }
}

/// The waiters of the instances of epoll that have it keep its socket open until they look again.
impl Drop for Description {
    fn drop(&mut self) {
        let watchers = std::mem::take(self.watchers.get_mut());
        watchers.iter().filter_map(Weak::upgrade).for_each(|watcher| watcher.ring());
    }
}
