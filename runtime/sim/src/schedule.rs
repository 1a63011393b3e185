//! `schedule`: the choices and the faults of one run, as text that replays them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The choices and the faults of one run: which option was taken where it was not the first.
///
/// The text of a schedule is a list of `choice:option`, such as `12:1,40:2`. A fault has a letter in front,
/// such as `t3:1`: `p` stands for a packet, `t` for a tick of [`Faults`](super::Faults), `c` for the date of
/// a clock, `r` for its rate, `d` for an operation of a disk, `f` for a call of [`fault`](super::fault()).
/// The text of the schedule without preemptions and faults is `-`. A schedule fits the program that it was
/// made from, with the same seed.
///
/// ```
/// # runtime::sim!();
/// let schedule: runtime::sim::Schedule = "12:1,40:2,p7:1".parse().unwrap();
/// assert_eq!(schedule.len(), 3);
/// assert_eq!(schedule.to_string(), "12:1,40:2,p7:1");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// By their numbers.
    choices: Vec<(u64, usize)>,
    faults: BTreeMap<(Fault, u64), usize>,
}

/// What a fault concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    Packet,
    Tick,
    Clock,
    Disk,
    Program,
    Drift,
}

const LETTERS: [(Fault, char); 6] = [
    (Fault::Packet, 'p'),
    (Fault::Tick, 't'),
    (Fault::Clock, 'c'),
    (Fault::Disk, 'd'),
    (Fault::Program, 'f'),
    (Fault::Drift, 'r'),
];

impl Schedule {
    /// Returns how many choices are not the first option, with the number of faults.
    ///
    /// ```
    /// # runtime::sim!();
    /// assert_eq!(runtime::sim::Schedule::default().len(), 0);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.choices.len() + self.faults.len()
    }

    /// Returns `true` if every choice is the first option, and there are no faults.
    ///
    /// ```
    /// # runtime::sim!();
    /// assert!(runtime::sim::Schedule::default().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn at(&self, number: u64) -> usize {
        self.choices.binary_search_by_key(&number, |&(noted, _)| noted).map_or(0, |at| self.choices[at].1)
    }

    /// Notes a choice that is later than all before.
    pub(super) fn note(&mut self, number: u64, option: usize) {
        debug_assert!(self.choices.last().is_none_or(|&(last, _)| last < number), "choices come in order");
        if option > 0 {
            self.choices.push((number, option));
        }
    }

    pub(super) fn faults(&self) -> &BTreeMap<(Fault, u64), usize> {
        &self.faults
    }

    pub(super) fn set_faults(&mut self, faults: BTreeMap<(Fault, u64), usize>) {
        self.faults = faults;
    }

    /// Returns how many choices are not the first option.
    pub(super) fn choices(&self) -> usize {
        self.choices.len()
    }

    /// Returns this schedule without its entries from `from` to `to`. Faults come after choices.
    pub(super) fn without(&self, from: usize, to: usize) -> Schedule {
        let (choices, stays) = (self.choices.len(), |at: usize| !(from..to).contains(&at));
        let kept = self.choices.iter().enumerate().filter(|&(at, _)| stays(at));
        let faults = self.faults.iter().enumerate().filter(|&(at, _)| stays(choices + at));
        Schedule {
            choices: kept.map(|(_, &choice)| choice).collect(),
            faults: faults.map(|(_, (&number, &option))| (number, option)).collect(),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        let letter =
            |fault| LETTERS.iter().find(|(other, _)| *other == fault).map_or('?', |&(_, letter)| letter);
        let choices = self.choices.iter().map(|(number, option)| format!("{number}:{option}"));
        let faults = self
            .faults
            .iter()
            .map(|((fault, number), option)| format!("{}{number}:{option}", letter(*fault)));
        f.write_str(&choices.chain(faults).collect::<Vec<_>>().join(","))
    }
}

/// The text is no [`Schedule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseScheduleError(String);

impl fmt::Display for ParseScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no choice of a schedule: a schedule is `-` or a list such as `12:1,40:2`", self.0)
    }
}

impl std::error::Error for ParseScheduleError {}

impl Schedule {
    /// Sets a choice, at whichever place.
    fn choose(&mut self, number: u64, option: usize) {
        match self.choices.binary_search_by_key(&number, |&(noted, _)| noted) {
            Ok(at) => self.choices[at].1 = option,
            Err(at) => self.choices.insert(at, (number, option)),
        }
    }

    /// Adds what a word of its text says. Returns `None` if the word is none of a schedule.
    fn add(&mut self, word: &str) -> Option<()> {
        let (number, option) = word.trim().split_once(':')?;
        let option = option.trim().parse().ok()?;
        let fault = LETTERS.iter().find_map(|&(fault, letter)| Some((fault, number.strip_prefix(letter)?)));
        match fault {
            Some((fault, number)) => drop(self.faults.insert((fault, number.parse().ok()?), option)),
            None => self.choose(number.trim().parse().ok()?, option),
        }
        Some(())
    }
}

impl FromStr for Schedule {
    type Err = ParseScheduleError;

    fn from_str(text: &str) -> Result<Self, ParseScheduleError> {
        let mut schedule = Schedule::default();
        if text.trim() == "-" {
            return Ok(schedule);
        }
        for word in text.split(',') {
            schedule.add(word).ok_or_else(|| ParseScheduleError(word.to_string()))?;
        }
        Ok(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_schedule_is_read_again() {
        let mut schedule = Schedule::default();
        assert_eq!("-".parse(), Ok(schedule.clone()));
        schedule.note(3, 0);
        assert!(schedule.is_empty());
        schedule.note(12, 1);
        schedule.note(40, 2);
        assert_eq!(schedule.to_string(), "12:1,40:2");
        assert_eq!([11, 12, 39, 40, 41].map(|number| schedule.at(number)), [0, 1, 0, 2, 0]);
        assert_eq!("40:3,12:1,40:2".parse(), Ok(schedule.clone()), "in any order, and the last counts");
        schedule.set_faults([((Fault::Tick, 3), 1), ((Fault::Packet, 7), 2)].into());
        assert_eq!(schedule.to_string(), "12:1,40:2,p7:2,t3:1");
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
    }

    #[test]
    fn a_bad_text_is_named() {
        let error = "12:1,x".parse::<Schedule>().unwrap_err();
        assert!(error.to_string().contains("`x`"), "{error}");
        assert!("".parse::<Schedule>().is_err());
        assert!("1:".parse::<Schedule>().is_err());
        assert!("z1:1".parse::<Schedule>().is_err());
    }

    #[test]
    fn a_part_is_taken_out() {
        let schedule: Schedule = "1:1,2:1,3:1,4:1,t9:1".parse().unwrap();
        assert_eq!(schedule.without(1, 3).to_string(), "1:1,4:1,t9:1");
        assert_eq!(schedule.without(3, 5).to_string(), "1:1,2:1,3:1");
    }
}
