//! A figure over all rounds, and the formatting of numbers.

use std::fmt;

/// A figure over all rounds. Shown as `**median** (least – greatest)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value, or the mean of the two middle values.
    pub median: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of some values. Returns `None` if there are no values.
    pub fn of(all: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut all: Vec<f64> = all.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let (min, max) = (*all.first()?, *all.last()?);
        Some(Spread { median: (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0, min, max })
    }

    /// Applies `change` to each of the three values. `change` must keep or reverse their order.
    pub fn map(self, change: impl Fn(f64) -> f64) -> Spread {
        let (a, b) = (change(self.min), change(self.max));
        Spread { median: change(self.median), min: a.min(b), max: a.max(b) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "**{}** ({} – {})", number(self.median), number(self.min), number(self.max))
    }
}

/// Formats a number with three digits, and with all digits before the point: 7, 0.123, 1.23, 12.3, 1,234,567.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v.fract() == 0.0 => 0,
        v if v < 0.9995 => 3,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    if decimals == 0 { grouped(value.round() as usize) } else { format!("{value:.decimals$}") }
}

/// Formats a whole number with commas: 1,234,567.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let group = |(i, c): (usize, char)| {
        let comma = i > 0 && (digits.len() - i).is_multiple_of(3);
        comma.then_some(',').into_iter().chain([c])
    };
    digits.chars().enumerate().flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::{Spread, grouped, number};

    #[test]
    fn medians() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn the_least_stays_the_least() {
        let spread = Spread { median: 2.0, min: 1.0, max: 4.0 };
        assert_eq!(spread.map(|value| 4.0 / value), spread);
        assert_eq!(spread.map(|value| 10.0 * value), Spread { median: 20.0, min: 10.0, max: 40.0 });
        assert_eq!(spread.to_string(), "**2** (1 – 4)");
    }

    #[test]
    fn numbers_as_people_read_them() {
        let numbers = [0.0, 7.0, 0.12345, 0.9999, 1.2345, 9.999, 12.345, 99.99, 123.45, 1_234_567.8];
        let shown = ["0", "7", "0.123", "1.00", "1.23", "10.0", "12.3", "100", "123", "1,234,568"];
        assert_eq!(numbers.map(number), shown);
    }

    #[test]
    fn numbers_in_groups() {
        assert_eq!([0, 100, 1_000, 1_234_567].map(grouped), ["0", "100", "1,000", "1,234,567"]);
    }
}
