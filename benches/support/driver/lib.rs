//! Code that the drivers `compare` and `generations` share. Both run programs or designs in turn, round by
//! round, and write the results as a page of Markdown with a plot.
//!
//! [`options`] reads the common options. [`machine`] describes the machine. [`quiet`] detects disturbing
//! programs. [`spread`] summarises a figure over all rounds. [`page`] and [`plot`] build the documents, and
//! [`output`] writes the files.

#![forbid(unsafe_code)]

pub mod machine;
pub mod options;
pub mod output;
pub mod page;
pub mod plot;
pub mod quiet;
pub mod spread;

/// Returns the order in which `n` entrants run in a round. Each round begins with the next entrant, so that
/// the first place rotates over all entrants.
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
