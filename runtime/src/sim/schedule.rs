//! `schedule`: the choices of one run, as text that replays them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The choices of one run: which option was taken where it was not the first.
///
/// The text of a schedule is a list of `choice:option`, such as `12:1,40:2`; the text of the schedule without preemptions is `-`. A
/// schedule fits the program that it was made from, with the same seed.
///
/// ```
/// let schedule: runtime::sim::Schedule = "12:1,40:2".parse().unwrap();
/// assert_eq!(schedule.len(), 2);
/// assert_eq!(schedule.to_string(), "12:1,40:2");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule(BTreeMap<u64, usize>);

impl Schedule {
    /// Returns how many choices are not the first option.
    ///
    /// ```
    /// assert_eq!(runtime::sim::Schedule::default().len(), 0);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if every choice is the first option.
    ///
    /// ```
    /// assert!(runtime::sim::Schedule::default().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn at(&self, number: u64) -> usize {
        self.0.get(&number).copied().unwrap_or(0)
    }

    pub(super) fn note(&mut self, number: u64, option: usize) {
        if option > 0 {
            self.0.insert(number, option);
        }
    }

    /// Returns this schedule without its entries from `from` to `to`.
    pub(super) fn without(&self, from: usize, to: usize) -> Schedule {
        let kept = self.0.iter().enumerate().filter(|(at, _)| !(from..to).contains(at));
        Schedule(kept.map(|(_, (&number, &option))| (number, option)).collect())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("-");
        }
        for (at, (number, option)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{number}:{option}")?;
        }
        Ok(())
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

impl FromStr for Schedule {
    type Err = ParseScheduleError;

    fn from_str(text: &str) -> Result<Self, ParseScheduleError> {
        if text.trim() == "-" {
            return Ok(Schedule::default());
        }
        let choice = |word: &str| {
            let (number, option) = word.split_once(':')?;
            Some((number.trim().parse().ok()?, option.trim().parse().ok()?))
        };
        text.split(',')
            .map(|word| choice(word).ok_or_else(|| ParseScheduleError(word.to_string())))
            .collect::<Result<_, _>>()
            .map(Schedule)
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
        schedule.note(40, 2);
        schedule.note(12, 1);
        assert_eq!(schedule.to_string(), "12:1,40:2");
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
    }

    #[test]
    fn a_bad_text_is_named() {
        let error = "12:1,x".parse::<Schedule>().unwrap_err();
        assert!(error.to_string().contains("`x`"), "{error}");
        assert!("".parse::<Schedule>().is_err());
        assert!("1:".parse::<Schedule>().is_err());
    }

    #[test]
    fn a_part_is_taken_out() {
        let schedule: Schedule = "1:1,2:1,3:1,4:1".parse().unwrap();
        assert_eq!(schedule.without(1, 3).to_string(), "1:1,4:1");
    }
}
