//! The results as a plot, with a panel for each figure and a bar for each design.

use driver::plot::{Area, Drawn, HPos, INK, bold, document, text, write};
use driver::spread::{Spread, number};
use plotters::prelude::*;

use crate::designs::Design;
use crate::report::{Outcome, spread};

const COLUMNS: usize = 3;
const PANEL: u32 = 300;
const BAR: u32 = 22;
const TITLE: u32 = 44;
const MARGIN: u32 = 14;
const TOP: u32 = 76;
const SIZE: f64 = 12.0;
/// The greatest end of a line that is drawn, and the length of the axis, as multiples of the longest bar. The
/// figure follows the bar.
const MOST: f64 = 1.1;
const AXIS: f64 = 1.4;

fn colour(design: Design) -> RGBColor {
    match design {
        Design::OneHeap => RGBColor(0x99, 0x99, 0x99),
        Design::ManyHeaps => RGBColor(0x56, 0xB4, 0xE9),
        Design::Wheel => RGBColor(0x00, 0x9E, 0x73),
        Design::PerP => RGBColor(0xD5, 0x5E, 0x00),
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
    let height = TITLE + BAR * designs.len() as u32 + MARGIN;
    let size = (COLUMNS as u32 * PANEL, TOP + panels.len().div_ceil(COLUMNS) as u32 * height);
    document(size, |area| {
        legend(area, &designs)?;
        let rows = area.margin(TOP, 0, 0, 0).split_evenly((panels.len().div_ceil(COLUMNS), COLUMNS));
        panels.iter().zip(&rows).try_for_each(|(panel, area)| draw(area, panel))
    })
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

fn legend(area: &Area<'_>, designs: &[Design]) -> Drawn {
    let what = "Smaller is better. Bar: median; line: least to greatest of the rounds.";
    write(area, what, (MARGIN as i32, 14), text(SIZE, HPos::Left))?;
    for (i, design) in designs.iter().enumerate() {
        // Two lines of two designs.
        let (x, y) = (MARGIN as i32 + (i as i32 % 2) * 340, 36 + (i as i32 / 2) * 20);
        area.draw(&Rectangle::new([(x, y - 6), (x + 12, y + 6)], colour(*design).filled()))?;
        write(area, design.title(), (x + 19, y), text(SIZE, HPos::Left))?;
    }
    Ok(())
}

fn draw(area: &Area<'_>, panel: &Panel) -> Drawn {
    write(area, &panel.workload, (MARGIN as i32, 12), text(SIZE, HPos::Left))?;
    write(area, panel.figure, (MARGIN as i32, 30), bold(SIZE, HPos::Left))?;
    // The scale follows the medians, so that one bad round of one design does not shrink all other bars.
    let greatest = panel.bars.iter().map(|(_, spread)| spread.median).fold(0.0, f64::max);
    let place = |value: f64| if greatest > 0.0 { (value / greatest).min(MOST) } else { 0.0 };
    let mut chart = ChartBuilder::on(area)
        .margin_top(TITLE)
        .margin_left(MARGIN)
        .margin_bottom(MARGIN)
        .build_cartesian_2d(0.0..AXIS, panel.bars.len() as f64..0.0)?;
    for (i, (design, spread)) in panel.bars.iter().enumerate() {
        let y = i as f64;
        let (length, from, to) = (place(spread.median), place(spread.min), place(spread.max));
        let bar = [(0.0, y + 0.1), (length, y + 0.9)];
        chart.draw_series([Rectangle::new(bar, colour(*design).mix(0.85).filled())])?;
        let line = [(from, y + 0.5), (to, y + 0.5)];
        chart.draw_series([PathElement::new(line, INK.stroke_width(1))])?;
        let label = Text::new(number(spread.median), (6, 0), text(SIZE, HPos::Left));
        chart.draw_series([EmptyElement::at((to.max(length), y + 0.5)) + label])?;
    }
    Ok(())
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
        // Only bars are a little transparent.
        let bars = svg.lines().filter(|line| line.starts_with("<rect") && line.contains("opacity=\"0.85\""));
        let width = |bar: &str| bar.split(" width=\"").nth(1)?.split('"').next()?.parse::<u32>().ok();
        let widths: Vec<u32> = bars.filter_map(width).collect();
        let [longest, quarter, none @ ..] = widths.as_slice() else { panic!("{svg}") };
        assert!(longest.abs_diff(4 * quarter) <= 4 && *quarter > 40 && none == [0, 0], "{widths:?}");
    }
}
