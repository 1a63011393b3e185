//! The watch over lone Gs, by an M that sleeps: wakers then wake no M for a G that waits alone at its P.
//!
//! Two Gs that wake each other in turn, or a G that spawns another and waits for it, need one P. Each makes
//! the other runnable, and parks at once. If each of them woke an M for the other, that M would come too
//! late: the P has taken the G by then. Or the M takes the G away from the P that was about to run it, and
//! both have the cost of two processors for the speed of one. So an M that finds a lone G at a P in quick use
//! leaves the G, and watches in its sleep: it looks at the queues of all Ps each [`LOOK`]. If a G has to wait
//! for too long, the M takes a P and takes the G.
//!
//! ```text
//!   the maker of a G at its own P (ready, spawn)   the M
//!   put the G into the queue of its P              begin_watch, before it withdraws its promise to look
//!   full fence                                     sleep for LOOK; look at the queues; again
//!   wake_for_one: no M spins, and                  end_watch     the watch ends, full fence, and then
//!     no M watches, or the G is not lone?                        look at every queue once more
//!     wake one
//! ```
//!
//! The watch covers a G as long as it is the only one in its queue. All other Gs wake an M as always.
//!
//! The price: a lone G of a P that computes waits for two looks, where a woken M would come in less than one.
//! A program pays it at most once for each watch, which begins only after a search that found a P in quick
//! use.

use std::time::Duration;

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
        self.looks = if waits { self.looks.saturating_add(1) } else { 0 };
        waits && (stands_still || self.looks == OFTEN)
    }
}

impl LoneWatch {
    pub(crate) fn new() -> LoneWatch {
        LoneWatch { seen: Vec::new(), quiet: 0 }
    }

    /// Notes a look at each P, in order: whether a G waits there, and the rounds of the P.
    pub(crate) fn note(&mut self, looks: impl Iterator<Item = (bool, u32)>) -> Found {
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
