//! The watch over lone Gs, by an M that sleeps: wakers then wake no M for a G that waits alone at its P.
//!
//! Two Gs that wake each other in turn, or a G that spawns another and waits for it, need one P. Each makes
//! the other runnable, and parks at once. If each of them woke an M for the other, that M would come too late:
//! the P has taken the G meanwhile. Or the M takes the G away from the P that was about to run it, and both
//! have the cost of two processors for the speed of one. So an M that finds a lone G at a P in quick use
//! leaves the G, and watches in its sleep: it looks at the queues of all Ps each [`LOOK`]. If a G has to wait
//! for too long, the M takes a P and takes the G.
//!
//! ```text
//!   the maker of a G at its own P (ready, spawn)   the M
//!   put the G into the queue of its P              begin_watch, before it withdraws its promise to look
//!   full fence                                     sleep for LOOK; look at the queues; again
//!   wake_for_one: the G is not lone,               end_watch     the watch ends, full fence, and then
//!     or no M spins or watches? wake one                         look at every queue once more
//! ```
//!
//! The watch covers a G as long as it is the only one in its queue. All other Gs wake an M as always.
//!
//! The price: a lone G of a P that computes waits for two looks, where a woken M would come in less than one.
//! A program pays it at most once for each watch, which begins only after a search that found a P in quick
//! use.

use std::time::Duration;

use crate::m::OwnM;
use crate::p::P;
use crate::run::sched::Sched;

/// The time between two looks. Linux adds 50 us, unless the thread was given another slack.
pub(crate) const LOOK: Duration = Duration::from_micros(20);
/// In so many looks one after the other a G waited, so the P is short of time although it runs other Gs.
const OFTEN: u8 = 8;
/// The watch ends after so many looks in which no G waited.
const QUIET: u8 = 8;

/// What an M that watches has seen.
#[derive(Debug)]
pub(crate) struct LoneWatch {
    /// Of each P, in order.
    seen: Vec<Seen>,
    /// In how many looks up to the last no G waited.
    quiet: u8,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// In how many looks up to the last a G waited.
    looks: u8,
    rounds: u32,
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The watch goes on.
    Nothing,
    /// The Ps are not in such use any more.
    Quiet,
    /// A G has waited for too long.
    Late,
}

impl Seen {
    /// Notes a look: whether a G waits, and the rounds of the P. Returns `true` if it has waited for too
    /// long.
    fn note(&mut self, waits: bool, rounds: u32) -> bool {
        let stands_still = self.looks > 0 && self.rounds == rounds;
        self.rounds = rounds;
        self.looks = if waits { self.looks + 1 } else { 0 };
        waits && (stands_still || self.looks == OFTEN)
    }
}

impl LoneWatch {
    fn new() -> LoneWatch {
        LoneWatch { seen: Vec::new(), quiet: 0 }
    }

    /// Notes a look at each P, in order: whether a G waits there, and the rounds of the P.
    fn note(&mut self, looks: impl Iterator<Item = (bool, u32)>) -> Found {
        let (mut late, mut any) = (false, false);
        for (at, (waits, rounds)) in looks.enumerate() {
            if at == self.seen.len() {
                self.seen.push(Seen::default());
            }
            late |= self.seen[at].note(waits, rounds);
            any |= waits;
        }
        self.quiet = if any { 0 } else { self.quiet + 1 };
        match () {
            () if late => Found::Late,
            () if self.quiet == QUIET => Found::Quiet,
            () => Found::Nothing,
        }
    }
}

impl Sched {
    /// Begins a watch if this M has left a lone G in its search, and no other M watches. *Runs on: `m`, which
    /// has promised to look for work.*
    pub(crate) fn begin_watch(&self, m: OwnM<'_>) -> Option<LoneWatch> {
        // Windows ends a sleep with a tick of its clock, each 1 to 16 ms.
        let begins = m.own().left_lone.replace(false) && !cfg!(windows) && self.idle.begin_watch();
        begins.then(LoneWatch::new)
    }

    /// Looks at the queues of all Ps. *Runs on: the M that watches.*
    pub(crate) fn look_at_lone_gs(&self, watch: &mut LoneWatch) -> Found {
        watch.note(self.ps().map(|p| (p.queue.len() > 0, p.rounds())))
    }

    /// Ends the watch of `m`. Wakes an M if there is work for which none was woken, and `m` has not promised
    /// to look. *Runs on: `m`.*
    pub(crate) fn end_watch(&self, m: OwnM<'_>) {
        if self.idle.end_watch(|| self.any_g_waits()) && !m.own().spinning.get() {
            self.wake_idle_p();
        }
    }

    /// Returns `true` if a lone G waits at `victim`, and that P makes rounds: it will soon come to the G.
    /// *Runs on: `m`, which looks for work.*
    pub(crate) fn leaves_lone_g(&self, m: OwnM<'_>, victim: &P) -> bool {
        let rounds = victim.rounds();
        if victim.queue.len() != 1 {
            return false;
        }
        // About a microsecond.
        (0..32).for_each(|_| std::hint::spin_loop());
        let leaves = victim.rounds() != rounds;
        if leaves {
            m.own().left_lone.set(true);
        }
        leaves
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_g_is_late_if_its_p_stands_still_between_two_looks() {
        let mut watch = LoneWatch::new();
        assert_eq!(watch.note([(true, 7), (true, 1)].into_iter()), Found::Nothing);
        assert_eq!(watch.note([(true, 8), (false, 1)].into_iter()), Found::Nothing);
        assert_eq!(watch.note([(false, 8), (true, 1)].into_iter()), Found::Nothing);
        assert_eq!(watch.note([(false, 8), (true, 1)].into_iter()), Found::Late);
    }

    #[test]
    fn a_g_is_late_if_one_waits_at_each_look() {
        let mut watch = LoneWatch::new();
        for rounds in 1..OFTEN {
            assert_eq!(watch.note([(true, rounds.into())].into_iter()), Found::Nothing);
        }
        assert_eq!(watch.note([(true, 0)].into_iter()), Found::Late);
    }

    #[test]
    fn the_watch_ends_when_no_g_waits_any_more() {
        let mut watch = LoneWatch::new();
        for _ in 0..2 {
            assert_eq!(watch.note([(true, 1)].into_iter()), Found::Nothing);
            for _ in 1..QUIET {
                assert_eq!(watch.note([(false, 1)].into_iter()), Found::Nothing);
            }
        }
        assert_eq!(watch.note([(false, 1)].into_iter()), Found::Quiet);
    }
}
