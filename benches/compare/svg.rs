//! The results as a plot. Each figure has a line, with each entrant's figure as a multiple of the best peer's. Better is to the left.

use driver::spread::Spread;
use driver::svg::Svg;

use crate::cases::{Better, Metric, Role};
use crate::outcome::Outcome;

const LABELS: f64 = 330.0;
const AXIS: f64 = 600.0;
const MARGIN: f64 = 20.0;
const TOP: f64 = 70.0;
const LINE: f64 = 20.0;
/// The axis is logarithmic, from a hundredth to a hundred. Values beyond the axis are drawn at its ends.
const DECADES: f64 = 2.0;

const GOAL: &str = "#d62728";
const COLOURS: [(&str, &str); 6] = [
    ("ours", "#d62728"),
    ("go", "#1f9ec9"),
    ("tokio", "#8a5a44"),
    ("tokio-alt", "#c49c85"),
    ("may", "#5b8c2a"),
    // Every other entrant.
    ("", "#999999"),
];

/// Attributes that align a text with its position.
const MIDDLE: &str = r#" text-anchor="middle""#;
const END: &str = r#" text-anchor="end""#;

/// Returns the whole document.
pub(crate) fn plot(outcomes: &[Outcome]) -> String {
    let lines: Vec<(&Outcome, &Metric, f64)> = outcomes
        .iter()
        .flat_map(|outcome| outcome.case.metrics.iter().map(move |metric| (outcome, metric)))
        .filter(|(_, metric)| !metric.goals.is_empty())
        .filter_map(|(outcome, metric)| Some((outcome, metric, unit(outcome, metric)?)))
        .collect();
    let (width, height) = (LABELS + AXIS + 2.0 * MARGIN, TOP + LINE * lines.len() as f64 + MARGIN);
    let mut svg = Svg::new(width, height);
    legend(&mut svg);
    grid(&mut svg, height);
    for (i, (outcome, metric, unit)) in lines.iter().enumerate() {
        line(&mut svg, TOP + LINE * (i as f64 + 0.5), outcome, metric, *unit);
    }
    svg.finish()
}

/// Returns the figure that counts as 1: the best peer's, or this runtime's if there is no peer.
fn unit(outcome: &Outcome, metric: &Metric) -> Option<f64> {
    let ours = || {
        let (_, _, state) = outcome.entrants.iter().find(|(_, role, _)| *role == Role::Ours)?;
        Some(state.figure(metric.key)?.median)
    };
    outcome.best(metric).map(|(_, best)| best).or_else(ours).filter(|unit| *unit > 0.0)
}

fn legend(svg: &mut Svg) {
    svg.text(MARGIN, 22.0, "cost as a multiple of the best peer's; dot: median, line: least to greatest");
    let mut x = MARGIN;
    for (label, colour) in COLOURS {
        let label = if label.is_empty() { "others" } else { label };
        svg.dot(x + 5.0, 38.0, colour, label);
        svg.text(x + 15.0, 42.0, label);
        x += 90.0;
    }
    svg.down(x, (31.0, 45.0), GOAL, 2.0);
    svg.text(x + 10.0, 42.0, "our goal");
}

fn grid(svg: &mut Svg, height: f64) {
    for (times, label) in [(0.01, "0.01×"), (0.1, "0.1×"), (1.0, "1×"), (10.0, "10×"), (100.0, "100×")] {
        let x = place(times);
        svg.down(x, (TOP, height - MARGIN), if times == 1.0 { "#555555" } else { "#dddddd" }, 1.0);
        svg.text_with(MIDDLE, x, TOP - 6.0, label);
    }
}

fn line(svg: &mut Svg, y: f64, outcome: &Outcome, metric: &Metric, unit: f64) {
    let name = format!("{}, {} P: {}", outcome.case.name, outcome.procs, metric.key);
    svg.text_with(END, MARGIN + LABELS - 10.0, y + 4.0, &name);
    let cost = |value: f64| match metric.better {
        Better::Smaller => value / unit,
        Better::Larger => unit / value,
    };
    for bound in goals(outcome, metric) {
        svg.down(place(cost(bound)), (y - 7.0, y + 7.0), GOAL, 2.0);
    }
    // This runtime is drawn last, on top.
    let ours_last = [false, true];
    for ours in ours_last {
        for (label, role, state) in &outcome.entrants {
            let Some(figure) = state.figure(metric.key).filter(|_| (*role == Role::Ours) == ours) else {
                continue;
            };
            dot(svg, y, label, figure.map(cost));
        }
    }
}

/// Returns the figures that just reach the goals.
fn goals(outcome: &Outcome, metric: &Metric) -> Vec<f64> {
    let verdicts = outcome.verdicts().into_iter().filter(|verdict| verdict.key == metric.key);
    verdicts.filter_map(|verdict| verdict.wanted).collect()
}

fn dot(svg: &mut Svg, y: f64, label: &str, cost: Spread) {
    let colour = COLOURS.iter().find(|(known, _)| *known == label).unwrap_or(&COLOURS[5]).1;
    svg.across((place(cost.min), place(cost.max)), y, colour, 2.0);
    svg.dot(place(cost.median), y, colour, &format!("{label}: {:.3}×", cost.median));
}

/// Returns the horizontal position of a multiple.
fn place(times: f64) -> f64 {
    let decades = if times > 0.0 { times.log10() } else { -DECADES };
    MARGIN + LABELS + AXIS * (decades.clamp(-DECADES, DECADES) + DECADES) / (2.0 * DECADES)
}

#[cfg(test)]
mod tests {
    use super::{AXIS, LABELS, MARGIN, place};

    #[test]
    fn better_is_to_the_left() {
        assert_eq!(place(1.0), MARGIN + LABELS + AXIS / 2.0);
        assert_eq!(place(0.1), MARGIN + LABELS + AXIS / 4.0);
        assert_eq!(place(1e9), MARGIN + LABELS + AXIS);
        assert_eq!(place(0.0), MARGIN + LABELS);
    }
}
