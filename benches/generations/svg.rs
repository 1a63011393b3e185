//! The results as a plot, with a panel for each figure and a bar for each design.

use driver::spread::{Spread, number};
use driver::svg::Svg;

use crate::designs::Design;
use crate::report::{Outcome, spread};

const PANEL: f64 = 280.0;
const BAR: f64 = 22.0;
const TITLE: f64 = 44.0;
const MARGIN: f64 = 16.0;
const COLUMNS: usize = 4;
/// The length of the longest bar. The figure is printed after the bar.
const LONGEST: f64 = PANEL - 80.0;

fn colour(design: Design) -> &'static str {
    match design {
        Design::OneHeap => "#8a5a44",
        Design::ManyHeaps => "#c9a227",
        Design::Wheel => "#1f9ec9",
        Design::PerP => "#d62728",
    }
}

/// A figure of a workload, for all designs.
struct Panel {
    workload: String,
    figure: &'static str,
    bars: Vec<(Design, Spread)>,
}

/// Returns the whole document.
pub(crate) fn plot(outcomes: &[Outcome]) -> String {
    let panels: Vec<Panel> = outcomes.iter().flat_map(panels).collect();
    let designs: Vec<Design> =
        outcomes.first().map_or(Vec::new(), |first| first.runs.iter().map(|(design, _)| *design).collect());
    let panel_height = TITLE + BAR * designs.len() as f64 + MARGIN;
    let width = COLUMNS as f64 * (PANEL + MARGIN) + MARGIN;
    let top = 56.0;
    let height = top + panels.len().div_ceil(COLUMNS) as f64 * panel_height + MARGIN;
    let mut svg = Svg::new(width, height);
    legend(&mut svg, &designs);
    for (i, panel) in panels.iter().enumerate() {
        let (column, line) = ((i % COLUMNS) as f64, (i / COLUMNS) as f64);
        draw(&mut svg, MARGIN + column * (PANEL + MARGIN), top + line * panel_height, panel);
    }
    svg.finish()
}

fn panels(outcome: &Outcome) -> Vec<Panel> {
    let panel = |&figure: &&'static str| {
        let bar = |(design, runs): &(Design, Vec<_>)| Some((*design, spread(runs, figure)?));
        Panel {
            workload: outcome.workload.title(),
            figure,
            bars: outcome.runs.iter().filter_map(bar).collect(),
        }
    };
    outcome.workload.plotted().iter().map(panel).collect()
}

fn legend(svg: &mut Svg, designs: &[Design]) {
    svg.text(MARGIN, 18.0, "smaller is better; bar: median, line: least to greatest of the rounds");
    let mut x = MARGIN;
    for design in designs {
        svg.bar(x, 28.0, (12.0, 12.0), colour(*design));
        svg.text(x + 17.0, 38.0, design.title());
        x += 30.0 + 6.4 * design.title().chars().count() as f64;
    }
}

fn draw(svg: &mut Svg, x: f64, y: f64, panel: &Panel) {
    svg.text(x, y + 18.0, &panel.workload);
    svg.text_with(r#" font-weight="bold""#, x, y + 35.0, panel.figure);
    // The scale follows the medians, so that one bad round of one design does not shrink all other bars.
    let greatest = panel.bars.iter().map(|(_, spread)| spread.median).fold(0.0, f64::max);
    let place = |value: f64| if greatest > 0.0 { LONGEST * (value / greatest).min(1.1) } else { 0.0 };
    for (i, (design, spread)) in panel.bars.iter().enumerate() {
        let top = y + TITLE + BAR * i as f64;
        let middle = top + (BAR - 5.0) / 2.0;
        let (length, from, to) = (place(spread.median), place(spread.min), place(spread.max));
        svg.bar(x, top, (length, BAR - 5.0), colour(*design));
        svg.across((x + from, x + to), middle, "#333333", 1.0);
        svg.text(x + to.max(length) + 6.0, middle + 4.0, &number(spread.median));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::plot;
    use crate::designs::Design;
    use crate::measure::Figures;
    use crate::report::Outcome;
    use crate::workloads::Workload;

    #[test]
    fn the_greatest_median_has_the_longest_bar() {
        let run = |value| vec![Figures(vec![("CPU, ms", value), ("voluntary switches", 0.0)])];
        let workload = Workload::Idle { sleepers: 1, time: Duration::from_secs(1) };
        let runs = vec![(Design::OneHeap, run(4.0)), (Design::PerP, run(1.0))];
        let svg = plot(&[Outcome { workload, runs }]);
        assert_eq!(svg.matches("width=\"200.0\"").count(), 1);
        assert_eq!(svg.matches("width=\"50.0\"").count(), 1);
        assert_eq!(svg.matches("width=\"0.0\"").count(), 2);
    }
}
