//! The results as a page.

use driver::machine::Machine;
use driver::page::Page;
use driver::spread::Spread;

use crate::designs::Design;
use crate::measure::Figures;
use crate::options::Options;
use crate::workloads::Workload;

/// A workload, and the runs of each design.
pub(crate) struct Outcome {
    pub(crate) workload: Workload,
    pub(crate) runs: Vec<(Design, Vec<Figures>)>,
}

/// Returns the spread of a figure over all rounds.
pub(crate) fn spread(runs: &[Figures], name: &str) -> Option<Spread> {
    Spread::of(runs.iter().filter_map(|run| run.get(name)))
}

/// Returns the page, with a link to the plot.
pub(crate) fn page(options: &Options, machine: &Machine, outcomes: &[Outcome], plot: &str) -> String {
    let about = format!(
        "The same workloads over four designs of timers, all on this runtime's scheduler with {} P, by `cargo run \
         --release -p benches --bin generations`. benches/generations/README.md explains the figures.",
        options.procs()
    );
    let mut page =
        Page::new("Generations of timers", &about, "the designs", &options.common, machine.was_busy());
    page.table(["", ""], machine.facts().map(|(name, value)| [name.to_string(), value]));
    page.paragraph(format_args!("![bars for each design]({plot})"));
    for outcome in outcomes {
        table(&mut page, outcome);
    }
    page.finish()
}

/// Adds the table of a workload: a row for each figure, a column for each design.
fn table(page: &mut Page, outcome: &Outcome) {
    page.paragraph(format_args!("## {}", outcome.workload.title()));
    let first = outcome.runs.first().and_then(|(_, runs)| runs.first());
    let figures = first.iter().flat_map(|figures| &figures.0);
    let row = |(name, _): &(&str, f64)| {
        let cells = outcome.runs.iter().map(|(_, runs)| spread(runs, name));
        let cells = cells.map(|spread| spread.map_or("—".into(), |spread| spread.to_string()));
        [name.to_string()].into_iter().chain(cells).collect::<Vec<_>>()
    };
    let designs = outcome.runs.iter().map(|(design, _)| design.title());
    page.table([""].into_iter().chain(designs), figures.map(row));
}
