//! A socket of the network, and the waits of calls for it. A wait never unwinds: what calls it is code of
//! std or of C.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use netpoll::source::{Interest, Registry, Source, Token};
use netpoll::{Attempt, Direction, PollDesc, Wait, Waiter};
use sched::park::{Waiting, is_interrupted};
use sched::simulation;
use sched::sync::unpaused;
use sched::{Awaited, Cancel, On, Outcome, Sched, Why};

use super::super::handle::{Handle, describe};
use super::super::{Kind, NetworkState};
use crate::errors::error;

/// A socket of the network.
pub(super) struct Open {
    pub(super) handle: Handle,
    /// Made by the first call that waits.
    registration: OnceLock<PollDesc>,
}

/// The socket as a source of events.
struct OfEvents<'a>(&'a Handle);

impl Source for OfEvents<'_> {
    fn register(&mut self, _: &Registry, token: Token, _: Interest) -> io::Result<()> {
        self.0.set_token(Some(token))
    }

    fn reregister(&mut self, _: &Registry, token: Token, _: Interest) -> io::Result<()> {
        self.0.set_token(Some(token))
    }

    fn deregister(&mut self, _: &Registry) -> io::Result<()> {
        self.0.set_token(None)
    }
}

/// For how long a call may wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// The call does not wait.
    Now,
    For(Duration),
    Never,
}

impl Limit {
    /// Returns the limit of a call that may wait for `time`, or for ever.
    pub(super) fn of(time: Option<Duration>) -> Limit {
        match time {
            None => Limit::Never,
            Some(Duration::ZERO) => Limit::Now,
            Some(time) => Limit::For(time),
        }
    }

    /// Returns until when a call that begins now may wait; `None` if that is for ever.
    pub(super) fn until(self) -> Option<Instant> {
        match self {
            Limit::Now => Some(Instant::now()),
            Limit::For(time) => Instant::now().checked_add(time),
            Limit::Never => None,
        }
    }
}

/// How a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Something may have happened: the caller looks again.
    Again,
    TimedOut,
    /// The green thread is to end, for this error number.
    Interrupted(c_int),
}

impl Open {
    pub(super) fn new(handle: Handle) -> Self {
        Open { handle, registration: OnceLock::new() }
    }

    /// Calls `f` with the state of the network and the id of this socket.
    ///
    /// # Errors
    /// Returns an error number: that of `f`.
    pub(super) fn with<T>(
        &self,
        f: impl FnOnce(&mut NetworkState, u64) -> io::Result<T>,
    ) -> Result<T, c_int> {
        self.handle.with(f).map_err(|error| number_of(&error))
    }

    /// Calls `f` with the kind of this socket.
    ///
    /// # Errors
    /// Returns `ENETDOWN` if the socket belongs to a node that was killed, else the error of `f`.
    pub(super) fn with_kind<T>(&self, f: impl FnOnce(&mut Kind) -> io::Result<T>) -> Result<T, c_int> {
        self.with(|state, id| {
            let socket = state.sockets.get_mut(&id).ok_or_else(|| error(libc::ENETDOWN))?;
            f(&mut socket.kind)
        })
    }

    /// Returns how often attempts to read, and to write, may have begun to find something.
    pub(super) fn activity(&self) -> [u64; 2] {
        // The node was killed: this is its last event.
        self.handle.with(|state, id| state.sockets.get(&id).map_or([u64::MAX; 2], |socket| socket.activity))
    }

    /// Takes the error that the socket has to report; 0 if there is none.
    pub(super) fn take_error(&self) -> Result<c_int, c_int> {
        self.with_kind(|kind| {
            let error = match kind {
                Kind::Stream(stream) => stream.error.take(),
                Kind::Udp(udp) => udp.error.take(),
                Kind::Datagrams(socket) => socket.error.take(),
                Kind::Listener(_) | Kind::Counter(_) | Kind::Timer(_) => None,
            };
            Ok(error.unwrap_or(0))
        })
    }

    /// Attempts `op` until it would no longer block, and waits in between, as long as `limit` says.
    ///
    /// # Errors
    /// Returns an error number: that of `op`, `EAGAIN` when the time is up, or why the caller is to end.
    pub(super) fn repeat<T>(
        &self,
        direction: Direction,
        limit: Limit,
        mut op: impl FnMut(&mut NetworkState, u64) -> io::Result<T>,
    ) -> Result<T, c_int> {
        let first = self.with(&mut op);
        if !matches!(first, Err(libc::EAGAIN)) || matches!(limit, Limit::Now) {
            return first;
        }
        let until = limit.until();
        loop {
            let attempt = self.registration()?.prepare(direction);
            match self.with(&mut op) {
                Err(libc::EAGAIN) => {}
                done => return done,
            }
            match wait(&[(self, attempt, direction)], until) {
                End::Again => {}
                End::TimedOut => return self.with(&mut op),
                End::Interrupted(number) => return Err(number),
            }
        }
    }

    /// Returns the registration with the poller of the simulation's scheduler.
    fn registration(&self) -> Result<&PollDesc, c_int> {
        if let Some(registration) = self.registration.get() {
            return Ok(registration);
        }
        let made = Sched::with_current(|sched| {
            let sched = sched.ok_or(libc::EBADF)?;
            let register = || sched.netpoll().register(&mut OfEvents(&self.handle));
            unpaused(register).map_err(|error| number_of(&error))
        })?;
        // One thread runs all green threads, and none has run since the look.
        Ok(self.registration.get_or_init(|| made))
    }

    fn number(&self) -> i64 {
        self.handle.number()
    }
}

/// The registration goes before the socket: the poller then reports no event of it.
impl Drop for Open {
    fn drop(&mut self) {
        if let Some(registration) = self.registration.get() {
            // It fails only for what is not registered.
            let _ = unpaused(|| registration.deregister(&mut OfEvents(&self.handle)));
        }
    }
}

/// Looks by `look` until it finds something, and waits in between until one of `sockets` is ready in one of
/// its directions, at most as long as `limit` says. Returns 0 when the time is up.
///
/// # Errors
/// Returns the error number with which the caller is to end.
pub(super) fn look_and_wait(
    sockets: &[(&Open, Direction)],
    limit: Limit,
    mut look: impl FnMut() -> usize,
) -> Result<usize, c_int> {
    let found = look();
    if found > 0 || matches!(limit, Limit::Now) {
        return Ok(found);
    }
    let until = limit.until();
    loop {
        if let Some(found) = look_or_wait(sockets, until, &mut look)? {
            return Ok(found);
        }
    }
}

/// Looks by `look`. If it finds nothing, waits until one of `sockets` is ready in its direction, or until
/// `until`. Returns what was found, or 0 when the time is up; `None` if the caller is to look again.
///
/// # Errors
/// Returns the error number with which the caller is to end.
pub(super) fn look_or_wait(
    sockets: &[(&Open, Direction)],
    until: Option<Instant>,
    mut look: impl FnMut() -> usize,
) -> Result<Option<usize>, c_int> {
    let mut waits = Vec::with_capacity(sockets.len());
    for &(socket, direction) in sockets {
        waits.push((socket, socket.registration()?.prepare(direction), direction));
    }
    match look() {
        0 => {}
        found => return Ok(Some(found)),
    }
    match wait(&waits, until) {
        End::Again => Ok(None),
        End::TimedOut => Ok(Some(look())),
        End::Interrupted(number) => Err(number),
    }
}

/// Waits until an event has come for one of the sockets since its attempt, or until `until`.
fn wait(sockets: &[(&Open, Attempt, Direction)], until: Option<Instant>) -> End {
    let first = sockets.first().map(|&(socket, _, direction)| (socket.number(), direction));
    let on = On::new(&first, describe_wait);
    // SAFETY: `on` and `first` last until this function returns, after the wait.
    let waiting = unsafe { Waiting::begin_on(Why::Socket, &on, Cancel::Ends) };
    let waiter = Waiter::new(waiting.word());
    let withdraw = |count: usize| {
        for (socket, _, direction) in &sockets[..count] {
            let withdraw = |desc: &PollDesc| unpaused(|| desc.withdraw(*direction, waiter));
            socket.registration.get().map(withdraw);
        }
    };
    for (at, (socket, attempt, _)) in sockets.iter().enumerate() {
        let waits = |desc: &PollDesc| unpaused(|| desc.wait(*attempt, waiter));
        match socket.registration.get().map(waits) {
            Some(Ok(Wait::Park)) => {}
            Some(Ok(Wait::Ready)) => {
                withdraw(at);
                return End::Again;
            }
            // The scheduler of the simulation has ended.
            None | Some(Err(_)) => {
                withdraw(at);
                return End::Interrupted(libc::ECANCELED);
            }
        }
    }
    let outcome = match until {
        None => waiting.park(),
        Some(until) => waiting.park_until(until),
    };
    if outcome != Outcome::Woken || sockets.len() > 1 {
        withdraw(sockets.len());
    }
    match outcome {
        Outcome::Woken => End::Again,
        Outcome::TimedOut => End::TimedOut,
        Outcome::Cancelled if is_interrupted() => End::Interrupted(libc::ECANCELED),
        // A `timeout` around the caller.
        Outcome::Cancelled => End::Interrupted(libc::ETIMEDOUT),
    }
}

/// Says in a dump which socket a wait is for; the first, if there are several. *Runs on: any thread.*
fn describe_wait(first: &Option<(i64, Direction)>) -> Option<Awaited> {
    let (fd, direction) = (*first)?;
    let (local, peer) = describe(fd)?;
    Some(Awaited::Descriptor { fd, local, peer, to_write: direction == Direction::Write })
}

/// Returns the error number of an error of the network.
pub(super) fn number_of(error: &io::Error) -> c_int {
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => number,
        (None, io::ErrorKind::WouldBlock) => libc::EAGAIN,
        (None, _) => libc::EIO,
    }
}

/// Fails the run, because the code of the simulation uses `what`. Returns an error number for the caller.
pub(super) fn escape(what: &str, number: c_int) -> c_int {
    simulation::with(|by| by.escape(what));
    number
}
