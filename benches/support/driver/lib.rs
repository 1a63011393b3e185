//! What the drivers `compare` and `generations` have in common: both run something in turn, round by round, and write what
//! came of it as a page of Markdown with a plot.
//!
//! [`options`] reads what every driver can be told, [`machine`] looks at what figures depend on, [`quiet`] at what
//! disturbs them, [`spread`] sums a figure up over all rounds, [`page`] and [`svg`] write, and [`output`] puts all of it into files.

#![forbid(unsafe_code)]

pub mod machine;
pub mod options;
pub mod output;
pub mod page;
pub mod quiet;
pub mod spread;
pub mod svg;

/// In which order `n` take part in a round: each round begins with another, so that none always runs after the same one.
pub fn turns(round: usize, n: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |turn| (round + turn) % n)
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_has_its_turn() {
        let order = |round| super::turns(round, 3).collect::<Vec<_>>();
        assert_eq!([order(0), order(1), order(5)], [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        assert_eq!(super::turns(1, 0).count(), 0);
    }
}
