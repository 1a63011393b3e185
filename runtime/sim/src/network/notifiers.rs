//! What has a number and is no socket: the counters and the timers of the network. Threads wait for them as
//! for sockets.

use std::io;

use super::counter::Counter;
use super::timer::Timer;
use super::{Kind, NetworkState};
use crate::errors::error;

impl NetworkState {
    /// Makes a counter. `by_one`: a thread takes 1 only.
    ///
    /// # Errors
    /// Returns that of a node which is down; so does `add_timer`.
    pub(super) fn add_counter(&mut self, node: u32, count: u64, by_one: bool) -> io::Result<u64> {
        self.nodes.get(node).check_up()?;
        Ok(self.add(node, Kind::Counter(Counter::new(count, by_one))))
    }

    /// Makes a timer that does not expire yet.
    pub(super) fn add_timer(&mut self, node: u32) -> io::Result<u64> {
        self.nodes.get(node).check_up()?;
        Ok(self.add(node, Kind::Timer(Timer::default())))
    }

    /// Returns what has this id.
    ///
    /// # Errors
    /// Returns `ENETDOWN` if the node was killed.
    fn notifier(&mut self, id: u64) -> io::Result<&mut Kind> {
        self.sockets.get_mut(&id).map(|socket| &mut socket.kind).ok_or_else(|| error(libc::ENETDOWN))
    }

    fn counter(&mut self, id: u64) -> io::Result<&mut Counter> {
        if let Kind::Counter(counter) = self.notifier(id)? { Ok(counter) } else { Err(error(libc::EINVAL)) }
    }

    pub(super) fn timer(&mut self, id: u64) -> io::Result<&mut Timer> {
        if let Kind::Timer(timer) = self.notifier(id)? { Ok(timer) } else { Err(error(libc::EINVAL)) }
    }

    /// Takes the count.
    ///
    /// # Errors
    /// Returns `WouldBlock` if it is 0.
    pub(super) fn take_count(&mut self, id: u64) -> io::Result<u64> {
        let taken = self.counter(id)?.take().ok_or(io::ErrorKind::WouldBlock)?;
        self.report(id, false, true);
        Ok(taken)
    }

    /// Raises the count.
    ///
    /// # Errors
    /// Returns `WouldBlock` if the count would be too high.
    pub(super) fn raise_count(&mut self, id: u64, by: u64) -> io::Result<()> {
        self.counter(id)?.raise(by).ok_or(io::ErrorKind::WouldBlock)?;
        self.report(id, true, false);
        Ok(())
    }

    /// Wakes the threads that wait to read, although nothing has changed.
    pub(super) fn ring(&mut self, id: u64) {
        self.report(id, true, false);
    }

    /// Sets a timer. Returns what `left` says before.
    pub(super) fn set_timer(&mut self, id: u64, new: Timer) -> io::Result<(u64, u64)> {
        let now = self.now_at(id);
        let timer = self.timer(id)?;
        let before = timer.left(now);
        timer.set(new);
        self.arm_timer(id);
        Ok(before)
    }

    /// Returns how often the timer has expired since that was last asked.
    ///
    /// # Errors
    /// Returns `WouldBlock` if it has not.
    pub(super) fn take_expirations(&mut self, id: u64) -> io::Result<u64> {
        let now = self.now_at(id);
        let taken = self.timer(id)?.take(now).ok_or(io::ErrorKind::WouldBlock)?;
        self.arm_timer(id);
        Ok(taken)
    }
}
