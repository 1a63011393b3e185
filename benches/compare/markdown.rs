//! The results as a page: the goals first, then every figure.

use driver::page::Page;
use driver::spread::number;

use crate::cases::Metric;
use crate::outcome::{Outcome, State};
use crate::{Session, http};

const NOTHING: &str = "—";

/// Returns the page, with a link to the plot.
pub(crate) fn page(session: &Session, plot: &str) -> String {
    let mut page = Page::new(
        "Comparison with other runtimes",
        "The workloads are defined in `benches/peers/README.md`.",
        "the programs",
        &session.options.common,
        session.calm.is_doubtful(),
    );
    about(&mut page, session);
    goals(&mut page, &session.outcomes);
    page.paragraph(format_args!("![each figure as a multiple of the best peer's]({plot})"));
    for outcome in &session.outcomes {
        details(&mut page, session, outcome);
    }
    page.finish()
}

/// Adds the facts of the machine and the compared programs.
fn about(page: &mut Page, session: &Session) {
    let facts = session.machine.facts().map(|(name, value)| [name.to_string(), value]);
    let wrk = ["wrk".into(), http::wrk_version().unwrap_or("not installed".into())];
    let runs = ["disturbances".into(), session.calm.report()];
    let versions = session.programs.versions().map(|(name, version)| [name.to_string(), version]);
    page.table(["", ""], facts.into_iter().chain([wrk, runs]).chain(versions));
}

fn goals(page: &mut Page, outcomes: &[Outcome]) {
    let mut rows = Vec::new();
    for outcome in outcomes {
        for verdict in outcome.verdicts() {
            let whose = verdict
                .against
                .map_or(String::new(), |(label, theirs)| format!("{label} {}", number(theirs)));
            let reached = verdict.word == "reached";
            rows.push([
                outcome.case.name.into(),
                outcome.procs.to_string(),
                verdict.key.into(),
                verdict.ours.map_or(NOTHING.into(), number),
                whose,
                verdict.ratio.map_or(NOTHING.into(), |ratio| format!("{}×", number(ratio))),
                verdict.goal,
                if reached { verdict.word.into() } else { format!("**{}**", verdict.word) },
            ]);
        }
    }
    if !rows.is_empty() {
        page.paragraph("## Goals");
        page.table(["case", "Ps", "figure", "ours", "measured by", "ratio", "goal", ""], rows);
    }
}

/// Adds a case: a row for each entrant, a column for each figure.
fn details(page: &mut Page, session: &Session, outcome: &Outcome) {
    let case = outcome.case;
    page.paragraph(format_args!("## {}, {} P: {}", case.name, outcome.procs, case.title));
    let call = format!("bench {} {}", case.workload, case.args(session.options.common.quick));
    page.paragraph(format_args!("`{}`", call.trim()));
    let names = [""].into_iter().chain(case.metrics.iter().map(|metric| metric.key));
    let row = |(label, state): (&String, &State)| {
        let mut cells = vec![label.clone()];
        match state {
            State::Runs(_) => cells.extend(case.metrics.iter().map(|metric| figure(outcome, metric, state))),
            State::NotOffered(why) => cells.push(format!("not offered: {why}")),
            State::Skipped => cells.push("skipped".into()),
            State::Fails(round, why) => cells.push(format!("fails (round {}): {why}", round + 1)),
        }
        cells.resize(case.metrics.len() + 1, String::new());
        cells
    };
    page.table(names, outcome.entrants.iter().map(|(label, _, state)| row((label, state))));
}

/// Returns a figure as text, with its ratio to the best peer's figure.
fn figure(outcome: &Outcome, metric: &Metric, state: &State) -> String {
    let Some(figure) = state.figure(metric.key) else { return NOTHING.into() };
    match outcome.best(metric) {
        Some((_, best)) if best > 0.0 => format!("{figure} {}×", number(figure.median / best)),
        _ => figure.to_string(),
    }
}
