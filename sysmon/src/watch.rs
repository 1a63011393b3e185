//! One P over time: leave it, look again soon, or take it. Pure, so that each rule has its test.

use sched::{Look, OVERDUE_NS, Seen, State};

/// A green thread that computes keeps its P for so long while others wait.
const COMPUTING_NS: u64 = 10_000_000;
/// After so long it is worth asking the system whether it is blocked.
const ASK_NS: u64 = 1_000_000;
/// And after so long when others have just been found blocked.
const ASK_AGAIN_NS: u64 = 100_000;
/// A declared blocking call keeps its P for one short round.
const BLOCKING_NS: u64 = 20_000;
/// And for so long when nobody wants it: then the P goes idle, so that sysmon can sleep when all are.
const BLOCKING_UNWANTED_NS: u64 = 10_000_000;

/// What a P has been doing since when.
#[derive(Debug)]
pub(crate) struct Stretch {
    seen: Option<Seen>,
    seen_at: u64,
    rounds: u32,
    rounds_at: u64,
}

/// How long a P has stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age {
    /// Since its word changed: since a call into the runtime, or out of it.
    pub(crate) lent_ns: u64,
    /// Since it last looked for a G: the same one has run all the while, calls or not.
    pub(crate) stuck_ns: u64,
}

impl Stretch {
    pub(crate) fn new() -> Self {
        Stretch { seen: None, seen_at: 0, rounds: 0, rounds_at: 0 }
    }

    pub(crate) fn update(&mut self, look: &Look, now: u64) {
        if self.seen != Some(look.seen) {
            self.seen_at = now;
        }
        if self.seen.is_none() || self.rounds != look.rounds {
            self.rounds_at = now;
        }
        (self.seen, self.rounds) = (Some(look.seen), look.rounds);
    }

    pub(crate) fn age(&self, now: u64) -> Age {
        Age { lent_ns: now - self.seen_at, stuck_ns: now - self.rounds_at }
    }
}

/// What to do about a P.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Leave,
    LookBy(u64),
    /// Its M is in the runtime, and is to give it up on its way out.
    Ask,
    /// Take it, and ask for it: whichever comes first.
    Take,
    TakeIfBlocked {
        else_look_ns: u64,
    },
}

/// Takes a P only if somebody gains: Gs wait for it, its timers are overdue and no P is idle, or nobody polls; but one of
/// a blocking call in the end also if nobody does.
pub(crate) fn judge(look: &Look, age: Age, unpolled: bool, blocked_ones: bool) -> Verdict {
    let gain = look.work_waits || look.overdue_ns > 0 || unpolled;
    let ask_ns = if blocked_ones { ASK_AGAIN_NS } else { ASK_NS };
    let kept_ns = if look.blocking { ASK_NS } else { COMPUTING_NS };
    let kept_for_long = age.stuck_ns >= kept_ns || look.overdue_ns >= OVERDUE_NS;
    match look.state() {
        State::Idle => Verdict::Leave,
        State::Lent if look.blocking && age.lent_ns >= BLOCKING_UNWANTED_NS => Verdict::Take,
        _ if !gain => Verdict::Leave,
        State::Lent if look.blocking && age.lent_ns >= BLOCKING_NS => Verdict::Take,
        State::Lent if kept_for_long => Verdict::Take,
        State::Held if kept_for_long => Verdict::Ask,
        _ if look.blocking => Verdict::LookBy(BLOCKING_NS),
        State::Held => Verdict::Leave,
        State::Lent if age.stuck_ns >= ask_ns => Verdict::TakeIfBlocked { else_look_ns: ASK_NS },
        // Seen twice: it may be one that stays.
        State::Lent if age.stuck_ns > 0 => Verdict::LookBy(ask_ns - age.stuck_ns),
        State::Lent => Verdict::Leave,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(state: State) -> Look {
        Look { seen: Seen::example(state), rounds: 0, blocking: false, work_waits: false, overdue_ns: 0 }
    }

    fn blocking() -> Look {
        Look { blocking: true, ..look(State::Lent) }
    }

    fn aged(ns: u64) -> Age {
        Age { lent_ns: ns, stuck_ns: ns }
    }

    #[test]
    fn nobody_gains_nothing_is_taken() {
        for state in [State::Idle, State::Held, State::Lent] {
            assert_eq!(judge(&look(state), aged(u64::MAX / 2), false, false), Verdict::Leave);
        }
        let age = aged(BLOCKING_UNWANTED_NS - 1);
        assert_eq!(judge(&blocking(), age, false, false), Verdict::Leave);
    }

    #[test]
    fn a_declared_one_that_nobody_wants_goes_idle_after_ten_milliseconds() {
        let age = aged(BLOCKING_UNWANTED_NS);
        assert_eq!(judge(&blocking(), age, false, false), Verdict::Take);
    }

    #[test]
    fn a_computing_one_has_ten_milliseconds_unless_timers_wait() {
        let mut look = look(State::Lent);
        look.work_waits = true;
        assert_eq!(judge(&look, aged(0), false, false), Verdict::Leave);
        assert_eq!(judge(&look, aged(400_000), false, false), Verdict::LookBy(600_000));
        assert!(matches!(judge(&look, aged(ASK_NS), false, false), Verdict::TakeIfBlocked { .. }));
        assert_eq!(judge(&look, aged(COMPUTING_NS), false, false), Verdict::Take);
        look.overdue_ns = OVERDUE_NS - 1;
        assert_eq!(judge(&look, aged(0), false, false), Verdict::Leave);
        look.overdue_ns = OVERDUE_NS;
        assert_eq!(judge(&look, aged(0), false, false), Verdict::Take);
    }

    #[test]
    fn one_whose_m_is_in_the_runtime_is_asked_for_as_soon_as_it_would_be_taken() {
        let mut look = look(State::Held);
        look.work_waits = true;
        assert_eq!(judge(&look, aged(COMPUTING_NS - 1), false, false), Verdict::Leave);
        assert_eq!(judge(&look, aged(COMPUTING_NS), false, false), Verdict::Ask);
        look.overdue_ns = OVERDUE_NS;
        assert_eq!(judge(&look, aged(0), false, false), Verdict::Ask);
    }

    #[test]
    fn a_declared_one_is_taken_after_one_short_round() {
        let mut look = blocking();
        look.work_waits = true;
        assert_eq!(judge(&look, aged(0), false, false), Verdict::LookBy(BLOCKING_NS));
        assert_eq!(judge(&look, aged(BLOCKING_NS), false, false), Verdict::Take);
    }

    #[test]
    fn a_declared_one_that_calls_the_runtime_all_the_time_is_asked_for_after_a_millisecond() {
        let mut look = blocking();
        look.work_waits = true;
        assert_eq!(judge(&look, Age { lent_ns: 0, stuck_ns: ASK_NS }, false, false), Verdict::Take);
        look.seen = Seen::example(State::Held);
        assert_eq!(judge(&look, Age { lent_ns: 0, stuck_ns: ASK_NS }, false, false), Verdict::Ask);
    }

    #[test]
    fn an_unpolled_network_is_a_gain() {
        assert_eq!(judge(&look(State::Lent), aged(COMPUTING_NS), true, false), Verdict::Take);
    }

    #[test]
    fn a_stretch_ends_with_its_word_and_a_hog_with_its_round() {
        let mut stretch = Stretch::new();
        let mut seen = look(State::Lent);
        stretch.update(&seen, 100);
        stretch.update(&seen, 300);
        assert_eq!(stretch.age(300), Age { lent_ns: 200, stuck_ns: 200 });
        // A call into the runtime and out again, but no look for another G.
        seen.seen = Seen::nth_example(State::Lent, 1);
        stretch.update(&seen, 400);
        assert_eq!(stretch.age(400), Age { lent_ns: 0, stuck_ns: 300 });
        seen.rounds = 1;
        stretch.update(&seen, 500);
        assert_eq!(stretch.age(500), Age { lent_ns: 100, stuck_ns: 0 });
    }
}
