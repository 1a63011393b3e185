//! The outcome of a case: the median, least and greatest figure of each entrant, and the verdict on each
//! goal.

use std::path::PathBuf;

use driver::spread::{Spread, number};

use crate::cases::{Better, Bound, Case, Metric, Role};
use crate::run::{Failure, Record};

/// A case with a number of Ps, and the state of each entrant.
pub(crate) struct Outcome {
    pub(crate) case: &'static Case,
    pub(crate) procs: usize,
    pub(crate) entrants: Vec<(String, Role, State)>,
}

/// The results of an entrant in all rounds of a case.
pub(crate) enum State {
    /// The entrant has no program.
    Skipped,
    NotOffered(String),
    /// The entrant failed in this round, and takes no part in later rounds of the case.
    Fails(usize, String),
    Runs(Vec<Record>),
}

impl State {
    pub(crate) fn new(program: &Result<PathBuf, String>) -> State {
        match program {
            Ok(_) => State::Runs(Vec::new()),
            Err(_) => State::Skipped,
        }
    }

    /// True if the entrant takes part in the next round.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self, State::Runs(_))
    }

    pub(crate) fn add(&mut self, round: usize, result: Result<Record, Failure>) {
        match (result, self) {
            (Ok(record), State::Runs(records)) => records.push(record),
            (Err(Failure::NotOffered(why)), state) => *state = State::NotOffered(why),
            (Err(Failure::Fails(why)), state) => *state = State::Fails(round, why),
            (Ok(_), _) => unreachable!("an entrant that has failed does not run again"),
        }
    }

    pub(crate) fn figure(&self, key: &str) -> Option<Spread> {
        let State::Runs(records) = self else { return None };
        Spread::of(records.iter().filter_map(|record| record.figures.get(key).copied()))
    }
}

/// A goal, and this runtime's figure.
pub(crate) struct Verdict {
    pub(crate) key: &'static str,
    pub(crate) ours: Option<f64>,
    /// The entrant to which the goal refers, and that entrant's median.
    pub(crate) against: Option<(String, f64)>,
    pub(crate) ratio: Option<f64>,
    /// The bound of the ratio or of the figure, as text.
    pub(crate) goal: String,
    /// The figure that just reaches the goal.
    pub(crate) wanted: Option<f64>,
    pub(crate) word: &'static str,
}

impl Outcome {
    /// Returns the best peer's label and median.
    pub(crate) fn best(&self, metric: &Metric) -> Option<(String, f64)> {
        let peers = self.entrants.iter().filter(|(_, role, _)| *role == Role::Peer);
        let medians =
            peers.filter_map(|(label, _, state)| Some((label.clone(), state.figure(metric.key)?.median)));
        match metric.better {
            Better::Smaller => medians.min_by(|a, b| a.1.total_cmp(&b.1)),
            Better::Larger => medians.max_by(|a, b| a.1.total_cmp(&b.1)),
        }
    }

    /// True if this runtime's program crashed, took too long, or printed a wrong result.
    pub(crate) fn ours_fails(&self) -> bool {
        self.entrants.iter().any(|(_, role, state)| *role == Role::Ours && matches!(state, State::Fails(..)))
    }

    /// Returns a verdict for each goal with this number of Ps. Returns none if this runtime did not take
    /// part.
    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let Some((_, _, ours)) = self.entrants.iter().find(|(_, role, _)| *role == Role::Ours) else {
            return Vec::new();
        };
        let of_metric = |metric: &'static Metric| {
            let goals = metric.goals.iter().filter(|goal| goal.procs.is_none_or(|procs| procs == self.procs));
            goals.map(move |goal| self.verdict(ours, metric, goal.bound))
        };
        self.case.metrics.iter().flat_map(of_metric).collect()
    }

    fn verdict(&self, ours: &State, metric: &Metric, bound: Bound) -> Verdict {
        let figure = ours.figure(metric.key).map(|figure| figure.median);
        let (against, factor) = match bound {
            Bound::Best(factor) => (self.best(metric), factor),
            Bound::Of(label, factor) => (self.median_of(label, metric.key), factor),
            Bound::AtMost(most) => (None, most),
        };
        let absolute = matches!(bound, Bound::AtMost(_));
        let theirs = against.as_ref().map(|(_, theirs)| *theirs).filter(|theirs| *theirs > 0.0);
        let ratio = figure.zip(theirs).map(|(ours, theirs)| ours / theirs);
        let measured = if absolute { figure } else { ratio };
        let word = match (ours, measured) {
            (State::Fails(..), _) => "FAILS",
            (State::NotOffered(_), _) => "not offered",
            (State::Skipped, _) => "skipped",
            (State::Runs(records), _) if records.is_empty() => "disturbed",
            (_, None) => "no peer",
            (_, Some(value)) if metric.better.reaches(value, factor) => "reached",
            _ => "missed",
        };
        let sign = if metric.better == Better::Larger { "≥" } else { "≤" };
        let times = if absolute { "" } else { "×" };
        let goal = format!("{sign} {}{times}", number(factor));
        let wanted = if absolute { Some(factor) } else { theirs.map(|theirs| factor * theirs) };
        Verdict { key: metric.key, ours: figure, against, ratio, goal, wanted, word }
    }

    fn median_of(&self, wanted: &str, key: &str) -> Option<(String, f64)> {
        let (label, _, state) = self.entrants.iter().find(|(label, _, _)| label == wanted)?;
        Some((label.clone(), state.figure(key)?.median))
    }
}

impl Better {
    fn reaches(self, value: f64, bound: f64) -> bool {
        match self {
            Better::Smaller => value <= bound,
            Better::Larger => value >= bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Outcome, State};
    use crate::cases::{CASES, Role};
    use crate::run::{Failure, Record};

    fn runs(key: &str, figures: &[f64]) -> State {
        let record = |figure: &f64| Record {
            line: String::new(),
            figures: BTreeMap::from([(key.to_string(), *figure)]),
        };
        State::Runs(figures.iter().map(record).collect())
    }

    fn outcome(name: &str, procs: usize, entrants: Vec<(&str, Role, State)>) -> Outcome {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        let entrants = entrants.into_iter().map(|(label, role, state)| (label.into(), role, state)).collect();
        Outcome { case, procs, entrants }
    }

    fn words(outcome: &Outcome) -> Vec<&'static str> {
        outcome.verdicts().iter().map(|verdict| verdict.word).collect()
    }

    #[test]
    fn goals_are_set_by_the_best_peer() {
        let key = "ns_per_yield";
        let others = || {
            [
                ("go", Role::Peer, runs(key, &[80.0])),
                ("may", Role::Peer, runs(key, &[30.0, 50.0])),
                ("another", Role::Shown, runs(key, &[1.0])),
            ]
        };
        let with = |ours| {
            let mut entrants = vec![("ours", Role::Ours, ours)];
            entrants.extend(others());
            outcome("yield", 2, entrants)
        };
        let reached = with(runs(key, &[16.0]));
        assert_eq!(reached.verdicts()[0].against, Some(("may".into(), 40.0)));
        assert_eq!(reached.verdicts()[0].ratio, Some(0.4));
        assert_eq!(words(&reached), ["reached"]);
        assert_eq!(words(&with(runs(key, &[16.1]))), ["missed"]);
        let fails = with(State::Fails(0, String::new()));
        assert_eq!(words(&fails), ["FAILS"]);
        assert!(fails.ours_fails() && !reached.ours_fails());
        assert_eq!(words(&outcome("yield", 2, others().into())), [""; 0]);
        assert_eq!(words(&outcome("yield", 2, vec![("ours", Role::Ours, runs(key, &[1.0]))])), ["no peer"]);
    }

    #[test]
    fn larger_is_better_for_some() {
        let key = "req_per_s";
        let with = |ours| {
            let mut entrants =
                vec![("ours", Role::Ours, runs(key, &[ours])), ("go", Role::Peer, runs(key, &[100.0]))];
            for (_, _, state) in &mut entrants {
                let State::Runs(records) = state else { unreachable!() };
                records[0].figures.extend([("p50_us".into(), 1.0), ("p99_us".into(), 1.0)]);
            }
            outcome("echo", 1, entrants)
        };
        assert_eq!(words(&with(112.0)), ["reached"]);
        assert_eq!(words(&with(111.0)), ["missed"]);
    }

    #[test]
    fn a_goal_may_depend_on_the_number_of_ps() {
        let key = "ns_per_rt";
        let entrants = |ours| {
            vec![
                ("ours", Role::Ours, runs(key, &[ours])),
                ("go", Role::Peer, runs(key, &[100.0])),
                ("may spsc", Role::Shown, runs(key, &[40.0])),
            ]
        };
        assert_eq!(words(&outcome("pingpong", 1, entrants(30.0))), ["missed", "reached"]);
        assert_eq!(words(&outcome("pingpong", 2, entrants(30.0))), ["reached", "reached"]);
        assert_eq!(words(&outcome("pingpong", 4, entrants(30.0))), [""; 0]);
    }

    #[test]
    fn absolute_goals_need_no_peer() {
        let with =
            |bytes| outcome("conns-memory", 2, vec![("ours", Role::Ours, runs("bytes_per_conn", &[bytes]))]);
        assert_eq!(words(&with(4_700.0)), ["reached"]);
        assert_eq!(words(&with(4_701.0)), ["missed"]);
    }

    #[test]
    fn one_failure_is_enough() {
        let mut state = State::new(&Ok("x".into()));
        assert!(state.goes_on());
        state.add(1, Err(Failure::Fails("oh".into())));
        assert!(!state.goes_on());
        assert!(state.figure("x").is_none());
    }
}
