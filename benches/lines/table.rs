//! The table of counts, as it is in `benches/lines.txt`, and its comparison with another.
//!
//! ```text
//! OPERATION moved N shared N written N
//! OPERATION writes N FILE FUNCTION
//! ```
//!
//! All numbers are for one operation: lines that moved; of these the lines that half of the Ps or more share;
//! how many of these moved for a write; and these writes by place. The places only explain the number: of
//! several writes to a line, the first moves it, and which that is differs from run to run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use crate::drive::Counted;
use crate::operations::{By, OPERATIONS};
use crate::places;

/// A place that writes shared lines less often in an operation is left out: it is rare work, such as a
/// sample.
const RARE: f64 = 0.1;

/// Files that are left out: this program's own lines, by which it waits for an operation; and the samples of
/// wake-ups. A P takes one sample in 4 ms at most, so that their share of an operation depends on the time.
const LEFT_OUT: [&str; 4] = [
    "benches/lines/",
    "sched/src/notes/latency.rs",
    "sched/src/notes/places.rs",
    "sched/src/notes/sampling.rs",
];

/// The counts of one operation.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Row {
    moved: f64,
    shared: f64,
    written: f64,
    /// By file and function: how often an operation writes shared lines there, without rare places.
    writes: BTreeMap<String, f64>,
}

/// The counts of all operations.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: BTreeMap<String, Row>,
}

/// Sums of one place.
#[derive(Default)]
struct Sums {
    moved: usize,
    shared: usize,
    threads: u32,
    lines: BTreeSet<usize>,
}

/// Makes the row of one operation. With `print` also prints each place, its line in the file included.
pub(crate) fn row(counted: Counted, procs: usize, print: bool) -> Row {
    let addresses = counted.transfers.iter().map(|transfer| transfer.place).collect();
    let names = places::find(&addresses);
    let mut sums: BTreeMap<_, Sums> = BTreeMap::new();
    for transfer in &counted.transfers {
        let Some(place) = names.get(&transfer.place) else { continue };
        if LEFT_OUT.iter().any(|file| place.file.starts_with(file)) {
            continue;
        }
        let sums = sums.entry((place, transfer.write)).or_default();
        sums.moved += 1;
        sums.shared += usize::from(transfer.touched as usize >= procs / 2);
        sums.threads = sums.threads.max(transfer.touched);
        sums.lines.insert(transfer.line);
    }
    let mut row = Row::default();
    let each = |n: usize| n as f64 / counted.operations as f64;
    for ((place, write), sums) in sums {
        row.moved += each(sums.moved);
        row.shared += each(sums.shared);
        if write {
            row.written += each(sums.shared);
            *row.writes.entry(format!("{} {}", place.file, place.function)).or_default() += each(sums.shared);
        }
        if print && each(sums.moved) >= 0.02 {
            println!(
                "  {:5.2} {}, {:.2} of these of shared lines; {} lines, at most {} threads: {} {}:{}",
                each(sums.moved),
                if write { "writes" } else { "reads " },
                each(sums.shared),
                sums.lines.len(),
                sums.threads,
                place.function,
                place.file,
                place.line,
            );
        }
    }
    row.writes.retain(|_, count| *count >= RARE);
    row
}

impl Row {
    /// Returns the lines of the table.
    pub(crate) fn text(&self, operation: &str) -> String {
        let Row { moved, shared, written, .. } = self;
        let mut text = format!("{operation} moved {moved:.2} shared {shared:.2} written {written:.2}\n");
        for (place, count) in &self.writes {
            writeln!(text, "{operation} writes {count:.2} {place}").expect("a string has room");
        }
        text
    }

    /// Keeps the greater of each two counts.
    pub(crate) fn raise(&mut self, other: Row) {
        self.each(&other, f64::max);
        for (place, count) in other.writes {
            let most = self.writes.entry(place).or_default();
            *most = most.max(count);
        }
    }

    /// Keeps the lesser of each two counts.
    pub(crate) fn lower(&mut self, other: &Row) {
        self.each(other, f64::min);
        self.writes.retain(|place, count| {
            *count = count.min(other.writes.get(place).copied().unwrap_or(0.0));
            *count > 0.0
        });
    }

    fn each(&mut self, other: &Row, choose: fn(f64, f64) -> f64) {
        self.moved = choose(self.moved, other.moved);
        self.shared = choose(self.shared, other.shared);
        self.written = choose(self.written, other.written);
    }

    /// Returns what is worse than in `before` by more than the tolerance. If more shared lines are written,
    /// the places that do it more often follow.
    fn worse_than(&self, before: &Row, tolerance: Tolerance) -> Vec<String> {
        let over = |now: f64, before: f64| now > before * tolerance.factor + tolerance.lines;
        let mut worse = Vec::new();
        // Whether an idle M waits for the network is chance: such an M takes two lines of a socket in use.
        if over(self.moved, before.moved + 2.0) {
            worse.push(format!("{:.2} lines move in an operation, {:.2} before", self.moved, before.moved));
        }
        if over(self.shared, before.shared) {
            worse.push(format!(
                "{:.2} shared lines move in an operation, {:.2} before",
                self.shared, before.shared
            ));
        }
        if over(self.written, before.written) {
            let (now, then) = (self.written, before.written);
            let mut text = format!("{now:.2} writes to lines that all Ps share, {then:.2} before:");
            for (place, now) in &self.writes {
                let before = before.writes.get(place).copied().unwrap_or(0.0);
                if over(*now, before) {
                    write!(text, " {place} {now:.2}").expect("a string has room");
                }
            }
            worse.push(text);
        }
        worse
    }
}

/// What a count may grow before it is worse: by a factor, and by some lines.
#[derive(Clone, Copy)]
struct Tolerance {
    factor: f64,
    lines: f64,
}

/// Returns the tolerance of an operation. Where other Ms search for work or sysmon looks at the same time,
/// the counts depend on the time.
fn tolerance(operation: &str) -> Tolerance {
    let found = OPERATIONS.iter().find(|it| it.name == operation);
    match found.map(|it| it.by) {
        Some(By::Half | By::AtOnce | By::Outside) => Tolerance { factor: 1.3, lines: 2.0 },
        _ => Tolerance { factor: 1.1, lines: 0.5 },
    }
}

impl Table {
    /// Reads a table.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be read, or is no table.
    pub(crate) fn read(path: &Path) -> Table {
        Table::parse(&std::fs::read_to_string(path).expect("the table can be read"))
    }

    fn parse(text: &str) -> Table {
        let mut table = Table::default();
        let number = |text: &str| text.parse().expect("a number");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                [operation, "moved", moved, "shared", shared, "written", written] => {
                    let row = table.rows.entry(operation.into()).or_default();
                    (row.moved, row.shared) = (number(moved), number(shared));
                    row.written = number(written);
                }
                [operation, "writes", count, file, function] => {
                    let row = table.rows.entry(operation.into()).or_default();
                    row.writes.insert(format!("{file} {function}"), number(count));
                }
                _ => panic!("no line of a table: {line}"),
            }
        }
        table
    }

    pub(crate) fn write(&self, path: &Path) {
        let text: String = self.rows.iter().map(|(operation, row)| row.text(operation)).collect();
        std::fs::write(path, text).expect("the table can be written");
    }

    /// Returns what is worse than in `before`, a line for each.
    pub(crate) fn worse_than(&self, before: &Table) -> Vec<String> {
        self.rows.iter().flat_map(|(operation, row)| before.worse(operation, row)).collect()
    }

    /// Returns what is worse in `row` than in this table, a line for each.
    pub(crate) fn worse(&self, operation: &str, row: &Row) -> Vec<String> {
        match self.rows.get(operation) {
            Some(before) => {
                let found = row.worse_than(before, tolerance(operation));
                found.into_iter().map(|text| format!("{operation}: {text}")).collect()
            }
            None => vec![format!("{operation}: not in the table")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Table};

    const BEFORE: &str = "spawn moved 0.30 shared 0.05 written 0.00\nsleep moved 3.00 shared 1.10 written 1.00\nsleep writes 1.00 a.rs f\n";

    fn worse(now: &str) -> Vec<String> {
        Table::parse(now).worse_than(&Table::parse(BEFORE))
    }

    #[test]
    fn the_same_counts_pass() {
        assert!(worse(BEFORE).is_empty());
        let text: String = Table::parse(BEFORE).rows.iter().rev().map(|(name, row)| row.text(name)).collect();
        assert_eq!(text, BEFORE, "a table that is read and written is the same");
    }

    #[test]
    fn one_more_shared_line_fails() {
        let found = worse("spawn moved 1.30 shared 1.05 written 1.00\nspawn writes 1.00 b.rs g\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].ends_with("1.00 writes to lines that all Ps share, 0.00 before: b.rs g 1.00"));
    }

    #[test]
    fn another_place_passes_and_one_more_fails() {
        assert!(worse("sleep moved 3.00 shared 1.10 written 1.00\nsleep writes 1.00 b.rs g\n").is_empty());
        let found = worse(
            "sleep moved 3.00 shared 1.10 written 2.00\nsleep writes 1.00 a.rs f\nsleep writes 1.00 b.rs g\n",
        );
        assert_eq!(found, ["sleep: 2.00 writes to lines that all Ps share, 1.00 before: b.rs g 1.00"]);
    }

    fn row(text: &str) -> Row {
        Table::parse(text).rows.remove("sleep").expect("a row")
    }

    const OTHER: &str =
        "sleep moved 2.00 shared 1.50 written 1.50\nsleep writes 1.30 a.rs f\nsleep writes 0.20 b.rs g\n";

    #[test]
    fn a_table_has_the_greatest_counts_of_its_runs() {
        let mut most = row(BEFORE);
        most.raise(row(OTHER));
        let text =
            "sleep moved 3.00 shared 1.50 written 1.50\nsleep writes 1.30 a.rs f\nsleep writes 0.20 b.rs g\n";
        assert_eq!(most.text("sleep"), text);
    }

    #[test]
    fn a_row_that_is_counted_again_has_what_each_run_has() {
        let mut least = row(BEFORE);
        least.lower(&row(OTHER));
        let text = "sleep moved 2.00 shared 1.10 written 1.00\nsleep writes 1.00 a.rs f\n";
        assert_eq!(least.text("sleep"), text);
    }

    #[test]
    fn more_lines_of_two_ps_fail() {
        assert_eq!(worse("spawn moved 2.70 shared 0.05 written 0.00\n").len(), 0);
        assert_eq!(
            worse("spawn moved 3.10 shared 0.05 written 0.00\n"),
            ["spawn: 3.10 lines move in an operation, 0.30 before"]
        );
    }

    #[test]
    fn an_operation_without_a_row_fails() {
        assert_eq!(worse("yield moved 0.00 shared 0.00 written 0.00\n"), ["yield: not in the table"]);
    }
}
