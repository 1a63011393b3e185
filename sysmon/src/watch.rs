//! The judgement of one P over time: leave the P, look again soon, ask for it, or take it. `judge` has no
//! effect, so that each rule has its test.

use sched::{Look, OVERDUE_NS, Seen, State};

/// A G that computes keeps its P for this long while other Gs wait.
const COMPUTING_NS: u64 = 10_000_000;
/// Sysmon asks the system whether a G's thread is blocked after the G has kept its P for this long.
const ASK_NS: u64 = 1_000_000;
/// The same time if the last round found blocked threads.
const ASK_AGAIN_NS: u64 = 100_000;
/// A G in `blocking` keeps its P for this long while another G could use the P: one short round.
const BLOCKING_NS: u64 = 20_000;
/// A G in `blocking` keeps its P for this long while no G could use the P. Then the P goes idle: sysmon
/// sleeps only when all Ps are idle.
const BLOCKING_UNWANTED_NS: u64 = 10_000_000;

/// Since when a P has stood still.
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
    /// The time since the P's word changed: since its G last entered or left the runtime.
    pub(crate) lent_ns: u64,
    /// The time since the P's M last looked for a G. The same G has run since, and may have called the
    /// runtime.
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
    /// Ask for the P: its G is in the runtime and is to give the P up when it leaves.
    Ask,
    /// Ask for the P and try to take it.
    Take,
    TakeIfBlocked {
        else_look_ns: u64,
    },
}

/// Judges a P. The verdict is `Leave` unless taking the P helps: Gs wait for it, its timers are overdue, or
/// no thread polls the network (`unpolled`). But a lent P whose G is in `blocking` is taken after 10 ms in
/// any case. `blocked_ones` is true if the last round found blocked threads.
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
        // Two rounds have seen the same G on this P: the G may be blocked.
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
    fn a_p_that_no_g_could_use_is_left_alone() {
        for state in [State::Idle, State::Held, State::Lent] {
            assert_eq!(judge(&look(state), aged(u64::MAX / 2), false, false), Verdict::Leave);
        }
        let age = aged(BLOCKING_UNWANTED_NS - 1);
        assert_eq!(judge(&blocking(), age, false, false), Verdict::Leave);
    }

    #[test]
    fn an_unwanted_p_of_a_blocking_call_is_taken_after_ten_milliseconds() {
        let age = aged(BLOCKING_UNWANTED_NS);
        assert_eq!(judge(&blocking(), age, false, false), Verdict::Take);
    }

    #[test]
    fn a_computing_g_keeps_its_p_for_ten_milliseconds_unless_timers_are_overdue() {
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
    fn a_held_p_is_asked_for_when_a_lent_p_would_be_taken() {
        let mut look = look(State::Held);
        look.work_waits = true;
        assert_eq!(judge(&look, aged(COMPUTING_NS - 1), false, false), Verdict::Leave);
        assert_eq!(judge(&look, aged(COMPUTING_NS), false, false), Verdict::Ask);
        look.overdue_ns = OVERDUE_NS;
        assert_eq!(judge(&look, aged(0), false, false), Verdict::Ask);
    }

    #[test]
    fn a_wanted_p_of_a_blocking_call_is_taken_after_one_short_round() {
        let mut look = blocking();
        look.work_waits = true;
        assert_eq!(judge(&look, aged(0), false, false), Verdict::LookBy(BLOCKING_NS));
        assert_eq!(judge(&look, aged(BLOCKING_NS), false, false), Verdict::Take);
    }

    #[test]
    fn a_p_of_a_blocking_call_that_keeps_calling_the_runtime_is_asked_for_after_a_millisecond() {
        let mut look = blocking();
        look.work_waits = true;
        assert_eq!(judge(&look, Age { lent_ns: 0, stuck_ns: ASK_NS }, false, false), Verdict::Take);
        look.seen = Seen::example(State::Held);
        assert_eq!(judge(&look, Age { lent_ns: 0, stuck_ns: ASK_NS }, false, false), Verdict::Ask);
    }

    #[test]
    fn a_p_is_taken_if_the_network_is_unpolled() {
        assert_eq!(judge(&look(State::Lent), aged(COMPUTING_NS), true, false), Verdict::Take);
    }

    #[test]
    fn a_new_word_resets_lent_ns_and_a_new_round_resets_stuck_ns() {
        let mut stretch = Stretch::new();
        let mut seen = look(State::Lent);
        stretch.update(&seen, 100);
        stretch.update(&seen, 300);
        assert_eq!(stretch.age(300), Age { lent_ns: 200, stuck_ns: 200 });
        // The G enters and leaves the runtime, and its M does not look for another G.
        seen.seen = Seen::nth_example(State::Lent, 1);
        stretch.update(&seen, 400);
        assert_eq!(stretch.age(400), Age { lent_ns: 0, stuck_ns: 300 });
        seen.rounds = 1;
        stretch.update(&seen, 500);
        assert_eq!(stretch.age(500), Age { lent_ns: 100, stuck_ns: 0 });
    }
}
