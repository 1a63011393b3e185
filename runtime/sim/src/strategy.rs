//! `strategy`: how a simulation chooses among the green threads that could run.
//!
//! A *choice* has `n` options, at least two. Where a green thread runs and could go on, option 0 is to let
//! it; any other option there is a *preemption*. The options after it are the ready green threads, in the
//! order in which they became ready. So a run in which every choice is 0 has no preemption.

use std::collections::HashMap;
use std::sync::Arc;

use sched::sync::Mutex;

use super::random::Random;
use super::schedule::Schedule;

/// How a simulation chooses among the green threads that could run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Each choice is random, and each option as likely as the others.
    Random,
    /// Probabilistic concurrency testing: each green thread has a random priority, and the one with the
    /// highest runs. At `depth` - 1 random steps the running one gets the lowest priority. With n
    /// green threads and k steps, a run finds a bug that needs `depth` ordered events with a probability of at
    /// least 1/(n·k^(depth-1)) (Burckhardt et al., 2010). An exploration makes three runs more, which tell how
    /// many steps there are.
    ///
    /// A run that is over 1,000 steps longer than the first ones gets fair turns of 100 steps. So a loop that
    /// waits for another green thread ends.
    Pct {
        /// The number of ordered events.
        depth: usize,
    },
    /// Each green thread in its turn: every point of choice switches to the one that has waited longest.
    RoundRobin,
    /// Every schedule with at most so many preemptions, one a run. It is for small programs: the number of
    /// schedules grows exponentially.
    Exhaustive {
        /// The most preemptions in one run.
        preemptions: usize,
    },
    /// The choices of an earlier run.
    Replay(Schedule),
}

/// What a run needs to know of a choice.
pub(super) struct Options<'r> {
    pub(super) running: Option<u64>,
    pub(super) ready: &'r [u64],
}

impl Options<'_> {
    pub(super) fn count(&self) -> usize {
        self.ready.len() + usize::from(self.running.is_some())
    }

    /// Returns the id of the green thread that is option `at`.
    pub(super) fn id(&self, at: usize) -> u64 {
        match self.running {
            Some(running) if at == 0 => running,
            Some(_) => self.ready[at - 1],
            None => self.ready[at],
        }
    }

    fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.running.into_iter().chain(self.ready.iter().copied())
    }
}

/// The state of a strategy in one run.
#[derive(Debug)]
pub(super) enum Chooser {
    Random(Random),
    Pct(Pct),
    RoundRobin,
    Exhaustive { path: Arc<Mutex<Path>>, at: usize, left: usize },
    Replay(Schedule),
}

impl Chooser {
    /// `length` is about how many steps a run has; `path` is the search of an exhaustive exploration.
    pub(super) fn new(strategy: &Strategy, seed: u64, length: u64, path: &Arc<Mutex<Path>>) -> Self {
        let random = Random::new(seed);
        match strategy {
            Strategy::Random => Chooser::Random(random),
            Strategy::Pct { depth } => Chooser::Pct(Pct::new(random, *depth, length)),
            Strategy::RoundRobin => Chooser::RoundRobin,
            Strategy::Exhaustive { preemptions } => {
                Chooser::Exhaustive { path: path.clone(), at: 0, left: *preemptions }
            }
            Strategy::Replay(schedule) => Chooser::Replay(schedule.clone()),
        }
    }

    /// Returns an option; `number` counts the choices, `step` the steps.
    pub(super) fn choose(&mut self, number: u64, step: u64, options: &Options<'_>) -> usize {
        let n = options.count();
        match self {
            Chooser::Random(random) => random.below(n),
            Chooser::Pct(pct) => pct.choose(step, options),
            Chooser::RoundRobin => usize::from(options.running.is_some()),
            Chooser::Exhaustive { path, at, left } => {
                let may_preempt = options.running.is_none() || *left > 0;
                if !may_preempt {
                    return 0;
                }
                let chosen = path.lock().choose(*at, n);
                *at += 1;
                *left -= usize::from(options.running.is_some() && chosen > 0);
                chosen
            }
            Chooser::Replay(schedule) => schedule.at(number).min(n - 1),
        }
    }

    /// Notes that the green thread `id` gives way to all others.
    pub(super) fn yields(&mut self, id: u64) {
        if let Chooser::Pct(pct) = self {
            pct.lower(id);
        }
    }
}

/// The state of [`Strategy::Pct`].
#[derive(Debug)]
pub(super) struct Pct {
    random: Random,
    priorities: HashMap<u64, i64>,
    /// The steps at which the running green thread gets the lowest priority; the next is last.
    changes: Vec<u64>,
    lowest: i64,
    /// The step at which the running green thread gives way, because the run is much longer than expected: it
    /// may wait in a loop for another one, which a fair scheduler would run.
    fair_at: u64,
}

/// How many steps more than expected a run may have before green threads of low priority get their turns.
const PATIENCE: u64 = 1000;
/// How many steps a turn has then.
const TURN: u64 = 100;

impl Pct {
    fn new(mut random: Random, depth: usize, length: u64) -> Self {
        let fair_at = length + PATIENCE;
        let length = usize::try_from(length.max(1)).unwrap_or(usize::MAX);
        let mut changes: Vec<u64> = (1..depth).map(|_| random.below(length) as u64).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Pct { random, priorities: HashMap::new(), changes, lowest: 0, fair_at }
    }

    fn lower(&mut self, id: u64) {
        self.lowest -= 1;
        self.priorities.insert(id, self.lowest);
    }

    fn choose(&mut self, step: u64, options: &Options<'_>) -> usize {
        while self.changes.last().is_some_and(|&change| change <= step) {
            self.changes.pop();
            if let Some(running) = options.running {
                self.lower(running);
            }
        }
        if step >= self.fair_at {
            self.fair_at = step + TURN;
            options.running.into_iter().for_each(|running| self.lower(running));
        }
        let (priorities, random) = (&mut self.priorities, &mut self.random);
        // Initial priorities are above all that `lower` gives.
        let mut priority = |id| *priorities.entry(id).or_insert_with(|| (random.next() >> 2) as i64);
        let mut best = (0, i64::MIN);
        for (at, id) in options.ids().enumerate() {
            let priority = priority(id);
            if priority > best.1 {
                best = (at, priority);
            }
        }
        best.0
    }
}

/// The place of an exhaustive exploration in the tree of all choices: depth first.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// Each choice on the way, with the number of its options.
    choices: Vec<(usize, usize)>,
}

impl Path {
    fn choose(&mut self, at: usize, n: usize) -> usize {
        if at == self.choices.len() {
            self.choices.push((0, n));
        }
        self.choices[at].0.min(n - 1)
    }

    /// Moves to the next run. Returns `false` if every run was made.
    pub(super) fn advance(&mut self) -> bool {
        while let Some((chosen, n)) = self.choices.last_mut() {
            *chosen += 1;
            if *chosen < *n {
                return true;
            }
            self.choices.pop();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> Arc<Mutex<Path>> {
        Arc::default()
    }

    #[test]
    fn an_exhaustive_search_makes_each_run_once() {
        let (path, mut runs) = (path(), Vec::new());
        loop {
            let mut chooser = Chooser::new(&Strategy::Exhaustive { preemptions: 9 }, 0, 0, &path);
            let first = chooser.choose(0, 0, &Options { running: None, ready: &[1, 2] });
            let second = chooser.choose(1, 1, &Options { running: Some(1), ready: &[2, 3] });
            runs.push((first, second));
            if !path.lock().advance() {
                break;
            }
        }
        assert_eq!(runs, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn an_exhaustive_search_keeps_to_its_bound_of_preemptions() {
        let (path, mut runs) = (path(), 0);
        loop {
            let mut chooser = Chooser::new(&Strategy::Exhaustive { preemptions: 1 }, 0, 0, &path);
            let sum: usize =
                (0..4).map(|n| chooser.choose(n, n, &Options { running: Some(1), ready: &[2] })).sum();
            assert!(sum <= 1);
            runs += 1;
            if !path.lock().advance() {
                break;
            }
        }
        assert_eq!(runs, 5, "no preemption, or one at each of four points");
    }

    #[test]
    fn by_priorities_one_thread_runs_until_a_change() {
        let mut chooser = Chooser::new(&Strategy::Pct { depth: 1 }, 7, 100, &path());
        let first = chooser.choose(0, 0, &Options { running: None, ready: &[1, 2, 3] }) as u64 + 1;
        let others: Vec<u64> = (1..=3).filter(|&id| id != first).collect();
        for step in 1..50 {
            assert_eq!(chooser.choose(step, step, &Options { running: Some(first), ready: &others }), 0);
        }
        chooser.yields(first);
        assert_ne!(chooser.choose(50, 50, &Options { running: Some(first), ready: &others }), 0);
    }

    #[test]
    fn by_priorities_a_loop_that_waits_for_another_thread_ends() {
        let mut chooser = Chooser::new(&Strategy::Pct { depth: 1 }, 7, 100, &path());
        let first = chooser.choose(0, 0, &Options { running: None, ready: &[1, 2] }) as u64 + 1;
        let other = [3 - first];
        let steps = (1..10_000)
            .take_while(|&step| {
                chooser.choose(step, step, &Options { running: Some(first), ready: &other }) == 0
            })
            .count();
        assert_eq!(steps as u64, 100 + PATIENCE - 1);
    }

    #[test]
    fn round_robin_takes_the_one_that_has_waited_longest() {
        let mut chooser = Chooser::new(&Strategy::RoundRobin, 0, 0, &path());
        assert_eq!(chooser.choose(0, 0, &Options { running: Some(1), ready: &[2, 3] }), 1);
        assert_eq!(chooser.choose(1, 1, &Options { running: None, ready: &[2, 3] }), 0);
    }
}
