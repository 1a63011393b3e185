//! Decisions of a simulated network: each fault is one, taken from the seed or from an earlier run, and noted
//! for a replay.

use std::collections::BTreeMap;

use super::super::random::Random;
use super::super::schedule::Fault;

/// The faults of one run.
#[derive(Debug)]
pub(crate) struct Decisions {
    seed: u64,
    /// The faults of an earlier run, which are made again.
    replay: Option<BTreeMap<(Fault, u64), usize>>,
    noted: BTreeMap<(Fault, u64), usize>,
    counts: BTreeMap<Fault, u64>,
}

impl Decisions {
    pub(super) fn new(seed: u64, replay: Option<BTreeMap<(Fault, u64), usize>>) -> Self {
        Decisions { seed, replay, noted: BTreeMap::new(), counts: BTreeMap::new() }
    }

    /// Decides for one of `chances`, which are probabilities: returns its place, counted from 1, or 0 for
    /// none. Returns the number of the decision as well.
    pub(crate) fn decide(&mut self, fault: Fault, chances: &[f64]) -> (usize, u64) {
        let count = self.counts.entry(fault).or_default();
        let number = *count;
        *count += 1;
        let option = match &self.replay {
            Some(replay) => replay.get(&(fault, number)).copied().unwrap_or(0).min(chances.len()),
            None => {
                let mut left = self.source(fault, number).unit();
                let found = chances.iter().position(|chance| {
                    left -= chance;
                    left < 0.0
                });
                found.map_or(0, |at| at + 1)
            }
        };
        if option > 0 {
            self.noted.insert((fault, number), option);
        }
        (option, number)
    }

    /// Returns the random numbers of one decision. They depend on no other decision, and not on what was
    /// decided.
    pub(crate) fn random(&self, fault: Fault, number: u64) -> Random {
        let mut random = self.source(fault, number);
        // The first number made the decision.
        random.next();
        random
    }

    fn source(&self, fault: Fault, number: u64) -> Random {
        // The seed is mixed first. Else the decisions of a seed would be those of the next seed in another
        // order.
        let mixed = Random::new(self.seed).next();
        let mut random = Random::new(mixed ^ (fault as u64) << 56 ^ number);
        random.next();
        random
    }

    /// Takes the faults that were made.
    pub(super) fn take_noted(&mut self) -> BTreeMap<(Fault, u64), usize> {
        std::mem::take(&mut self.noted)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn what_a_fault_concerns_does_not_depend_on_the_decision_for_it() {
        let mut seen = [0; 4];
        for seed in 0..1000 {
            let mut decisions = Decisions::new(seed, None);
            let (fault, number) = decisions.decide(Fault::Tick, &[0.2]);
            if fault == 1 {
                seen[decisions.random(Fault::Tick, number).below(4)] += 1;
            }
        }
        assert!(seen.iter().all(|times| (20..100).contains(times)), "{seen:?}");
    }

    #[test]
    fn seeds_share_no_decision() {
        let first = |seed, fault, number| Decisions::new(seed, None).random(fault, number).next();
        let all: HashSet<u64> = (0..16)
            .flat_map(|seed| (0..16).map(move |number| (seed, number)))
            .flat_map(|(seed, number)| [first(seed, Fault::Packet, number), first(seed, Fault::Tick, number)])
            .collect();
        assert_eq!(all.len(), 16 * 16 * 2);
    }
}
