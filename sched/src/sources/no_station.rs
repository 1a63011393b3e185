//! Ms without stations: no foreign code waits for descriptors by the runtime. See `station.rs`.

use std::io;
use std::time::Duration;

use netpoll::{Turn, Waiter};

use crate::m::OwnM;
use crate::run::sched::Sched;

impl Sched {
    #[inline(always)]
    pub(crate) fn poll_station(&self, _m: OwnM<'_>) {}

    /// Sleeps on the note of `m`, for `time` at most if there is one. May return early.
    pub(crate) fn sleep_on_note(&self, m: OwnM<'_>, time: Option<Duration>) {
        match time {
            None => m.sleep.note.sleep(),
            Some(time) => {
                m.sleep.note.sleep_for(time);
            }
        }
    }

    /// Blocks in the netpoller. *Runs on: `m`, without a P.*
    ///
    /// # Errors
    /// As [`Turn::block`].
    pub(crate) fn block_in_turn(
        &self,
        _m: OwnM<'_>,
        turn: Turn<'_>,
        until: u64,
        time: Option<Duration>,
        ready: &mut Vec<Waiter>,
    ) -> io::Result<()> {
        turn.block(until, time, ready)
    }
}
