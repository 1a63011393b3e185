//! An M's station (`netpoll/src/foreign.rs`): where green threads wait for descriptors in calls of foreign
//! code, such as C that calls `recv`. They wait on this M. (Feature `interpose`.)
//!
//! Such a green thread resumes on its M only. So the M looks at its station itself: when it finds no other
//! work, in one round of many, and while it sleeps. An M that sleeps on its note sleeps at the station
//! instead, and a waker of the note wakes it there. The M that blocks in the netpoller blocks at both. While
//! the M runs a G that computes, no other M looks at the station, because none could run its Gs.

use std::io;
use std::time::Duration;

use netpoll::{Station, Turn, Waiter};
use timers::clock;

use crate::g::Ticket;
use crate::g::wait::{Decision, Outcome};
use crate::m::OwnM;
use crate::run::sched::Sched;
use crate::run::wake;
use crate::sources::poll::QUICK_NS;

impl<'m> OwnM<'m> {
    /// Returns the station.
    ///
    /// # Errors
    /// The first call fails if no descriptors are left.
    pub(crate) fn station(self) -> io::Result<&'m Station> {
        self.shared().sleep.note.station()
    }

    /// Calls `wait` in which a green thread waits at the station. *Runs on: that green thread, which returns
    /// to this M.*
    pub(crate) fn counts_at_station<T>(self, wait: impl FnOnce() -> T) -> T {
        self.own().at_station.set(self.own().at_station.get() + 1);
        let result = wait();
        self.own().at_station.set(self.own().at_station.get() - 1);
        result
    }

    /// Returns the station if a green thread may wait there.
    fn station_in_use(self) -> Option<&'m Station> {
        if self.own().at_station.get() == 0 { None } else { self.station().ok() }
    }
}

impl Sched {
    /// Makes each G runnable if its descriptor is ready.
    #[inline]
    pub(crate) fn poll_station(&self, m: OwnM<'_>) {
        if m.own().at_station.get() > 0 {
            self.look_at_station(m, None);
        }
    }

    /// Looks at the station, or blocks there for the time that `block` has.
    #[cold]
    fn look_at_station(&self, m: OwnM<'_>, block: Option<Option<Duration>>) {
        let (Some(station), Some(foreign)) = (m.station_in_use(), self.netpoll.foreign_if_any()) else {
            return;
        };
        let mut ready = m.own().ready.borrow_mut();
        match block {
            None => foreign.poll(station, &mut ready),
            Some(time) => {
                let start = clock::now();
                foreign.block(station, time, &mut ready);
                m.own().network_is_quick.set(!ready.is_empty() && clock::now() - start < QUICK_NS);
            }
        }
        if let Some(held) = m.held() {
            held.counters.net_wakes.add(ready.len() as u64);
        }
        for waiter in ready.drain(..) {
            if let Some(Ticket { g, number }) = Ticket::from_word(waiter.word())
                && g.wait.decide(number, Outcome::Woken) == Decision::Parked
            {
                wake::ready(g);
            }
        }
    }

    /// Sleeps on the note of `m`, or at its station if a green thread waits there, for `time` at most if
    /// there is one. May return early.
    pub(crate) fn sleep_on_note(&self, m: OwnM<'_>, time: Option<Duration>) {
        if m.own().at_station.get() > 0 {
            return m.sleep.note.sleep_at_station(|| self.look_at_station(m, Some(time)));
        }
        match time {
            None => m.sleep.note.sleep(),
            Some(time) => {
                m.sleep.note.sleep_for(time);
            }
        }
    }

    /// Blocks in the netpoller, and at the station if a green thread waits there. *Runs on: `m`, without a
    /// P.*
    ///
    /// # Errors
    /// As [`Turn::block`].
    pub(crate) fn block_in_turn(
        &self,
        m: OwnM<'_>,
        turn: Turn<'_>,
        until: u64,
        time: Option<Duration>,
        ready: &mut Vec<Waiter>,
    ) -> io::Result<()> {
        let Some(station) = m.station_in_use() else { return turn.block(until, time, ready) };
        if turn.block_beside(station, until, time, ready)?
            && let Some(foreign) = self.netpoll.foreign_if_any()
        {
            foreign.poll(station, ready);
        }
        Ok(())
    }
}
