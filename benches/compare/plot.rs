//! The results as plots. Each figure has a line, with each entrant's figure as a multiple of the best peer's.
//! Better is to the left.

use driver::plot::{Area, Drawn, HPos, INK, PALE, bold, document, text, width, write};
use driver::spread::{Spread, number};
use plotters::coord::combinators::{BindKeyPoints, IntoLogRange};
use plotters::prelude::*;

use crate::cases::{Better, Metric, Role};
use crate::front::FRONT;
use crate::outcome::Outcome;

/// The sizes of a plot.
struct Layout {
    names: u32,
    /// The figures of this runtime and of the best peer, beside the axis.
    notes: u32,
    line: u32,
    text: f64,
}

const WIDTH: u32 = 900;
const TOP: u32 = 82;
const BOTTOM: u32 = 10;
const WHOLE: Layout = Layout { names: 270, notes: 20, line: 20, text: 12.0 };
const SHORT: Layout = Layout { names: 285, notes: 195, line: 30, text: 14.0 };

/// The axis is logarithmic. Values beyond these are drawn at its ends.
const TICKS: [f64; 9] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

/// The programs and their colours. A reader who does not see red and green apart can distinguish them, too.
const COLOURS: [(&str, RGBColor); 6] = [
    ("ours", RGBColor(0xD5, 0x5E, 0x00)),
    ("go", RGBColor(0x56, 0xB4, 0xE9)),
    ("tokio", RGBColor(0x00, 0x5A, 0x9C)),
    ("tokio-alt", RGBColor(0xCC, 0x79, 0xA7)),
    ("may", RGBColor(0x00, 0x9E, 0x73)),
    ("epoll", RGBColor(0x33, 0x33, 0x33)),
];
const OTHERS: RGBColor = RGBColor(0x99, 0x99, 0x99);
const STRIPE: RGBColor = RGBColor(0xF6, 0xF6, 0xF4);

/// A figure: each entrant's cost, and the costs that just reach the goals.
struct Line {
    name: String,
    note: String,
    costs: Vec<(String, Spread)>,
    goals: Vec<f64>,
}

/// Returns the plot of all figures that have a goal.
pub(crate) fn whole(outcomes: &[Outcome]) -> String {
    let mut lines = Vec::new();
    for outcome in outcomes {
        for metric in outcome.case.metrics.iter().filter(|metric| !metric.goals.is_empty()) {
            let name = format!("{}, {} P: {}", outcome.case.name, outcome.procs, metric.key);
            lines.extend(line(outcome, metric, name));
        }
    }
    plot(&WHOLE, &lines)
}

/// Returns the plot of the main figures, as far as they were measured. Goals, variants of
/// this runtime, tokio with its unstable timers, and loops without a runtime are left out.
pub(crate) fn front(outcomes: &[Outcome]) -> String {
    let found = FRONT.iter().filter_map(|(name, case, procs, key)| {
        let outcome = outcomes.iter().find(|one| one.case.name == *case && one.procs == *procs)?;
        let metric = outcome.case.metrics.iter().find(|metric| metric.key == *key)?;
        let mut line = line(outcome, metric, (*name).into())?;
        line.goals.clear();
        line.costs
            .retain(|(label, _)| label != "tokio-alt" && label != "epoll" && !label.starts_with("ours "));
        Some(line)
    });
    plot(&SHORT, &found.collect::<Vec<_>>())
}

/// Returns `None` if neither a peer nor this runtime has the figure.
fn line(outcome: &Outcome, metric: &Metric, name: String) -> Option<Line> {
    let best = outcome.best(metric);
    let unit =
        best.as_ref().map(|(_, best)| *best).or_else(|| ours(outcome, metric)).filter(|unit| *unit > 0.0)?;
    let cost = |value: f64| match metric.better {
        Better::Smaller => value / unit,
        Better::Larger => unit / value,
    };
    let mut costs = Vec::new();
    // This runtime is drawn last, on top.
    for of_ours in [false, true] {
        let entrants = outcome.entrants.iter().filter(|(_, role, _)| (*role == Role::Ours) == of_ours);
        costs.extend(
            entrants
                .filter_map(|(label, _, state)| Some((label.clone(), state.figure(metric.key)?.map(cost)))),
        );
    }
    let wanted = outcome.verdicts().into_iter().filter(|verdict| verdict.key == metric.key);
    let goals = wanted.filter_map(|verdict| verdict.wanted).map(cost).collect();
    let mut note = ours(outcome, metric).map_or(String::new(), |ours| with_unit(metric.key, ours));
    if let Some((label, best)) = best {
        note += &format!(" · {label} {}", with_unit(metric.key, best));
    }
    Some(Line { name, note, costs, goals })
}

/// Returns this runtime's figure.
fn ours(outcome: &Outcome, metric: &Metric) -> Option<f64> {
    let (_, _, state) = outcome.entrants.iter().find(|(_, role, _)| *role == Role::Ours)?;
    Some(state.figure(metric.key)?.median)
}

/// Returns a figure with the unit that its key names.
fn with_unit(key: &str, value: f64) -> String {
    let unit = match key {
        "mmsgs_per_s" => " M/s",
        _ if key.ends_with("_per_s") => "/s",
        _ if key.starts_with("ns_") => " ns",
        _ if key.contains("us_per_") || key.ends_with("_us") => " µs",
        _ if key.starts_with("bytes_") => " B",
        _ if key.ends_with("ms") => " ms",
        _ => "",
    };
    number(value) + unit
}

fn plot(layout: &Layout, lines: &[Line]) -> String {
    let height = TOP + layout.line * lines.len() as u32 + BOTTOM;
    document((WIDTH, height), |area| {
        legend(area, layout, lines)?;
        draw(area, layout, lines)
    })
}

/// Returns the colour of an entrant, and whether its circle is filled. A variant, such as `go sleep`, has the
/// colour of its program.
fn look(label: &str) -> (RGBColor, bool) {
    let program = label.split(' ').next().unwrap_or(label);
    let known = COLOURS.iter().find(|(name, _)| *name == program);
    known.map_or((OTHERS, true), |(_, colour)| (*colour, program == label))
}

fn legend(area: &Area<'_>, layout: &Layout, lines: &[Line]) -> Drawn {
    let style = || text(layout.text, HPos::Left);
    let what = "Cost as a multiple of the best peer's: further left is better. Dot: median; line: least to greatest; beyond 100×: at the end.";
    write(area, what, (12, 16), style())?;
    let labels = || lines.iter().flat_map(|line| &line.costs).map(|(label, _)| label.as_str());
    let mut x = 18;
    let mut entry = |name: &str, mark: &dyn Fn(i32) -> Drawn| {
        mark(x)?;
        write(area, name, (x + 10, 38), style())?;
        x += 34 + width(name, layout.text);
        Drawn::Ok(())
    };
    for (program, colour) in COLOURS {
        if labels().any(|label| label == program) {
            entry(program, &|x| area.draw(&Circle::new((x, 38), 5, colour.filled())))?;
        }
    }
    if labels().any(|label| look(label).0 == OTHERS) {
        entry("others", &|x| area.draw(&Circle::new((x, 38), 5, OTHERS.filled())))?;
    }
    if labels().any(|label| !look(label).1) {
        entry("a variant", &|x| area.draw(&Circle::new((x, 38), 4, INK.stroke_width(2))))?;
    }
    if lines.iter().any(|line| !line.goals.is_empty()) {
        entry("our goal", &|x| area.draw(&Rectangle::new([(x - 1, 31), (x + 1, 45)], INK.filled())))?;
    }
    Ok(())
}

/// Returns the ticks of an axis on which all costs have a place.
fn ticks(lines: &[Line]) -> &'static [f64] {
    let all = || lines.iter().flat_map(|line| &line.costs).map(|(_, cost)| cost);
    let (least, most) =
        all().fold((1.0, 1.0), |(least, most): (f64, f64), cost| (least.min(cost.min), most.max(cost.max)));
    let from = TICKS.iter().rposition(|tick| *tick <= least).unwrap_or(0);
    let to = TICKS.iter().position(|tick| *tick >= most).unwrap_or(TICKS.len() - 1);
    &TICKS[from.min(TICKS.len() - 2)..=to.max(from + 1).min(TICKS.len() - 1)]
}

fn draw(area: &Area<'_>, layout: &Layout, lines: &[Line]) -> Drawn {
    let ticks = ticks(lines);
    let (from, to) = (ticks[0], ticks[ticks.len() - 1]);
    let place = |cost: f64| cost.clamp(from, to);
    let axis = (from..to).log_scale().with_key_points(ticks.to_vec());
    for i in (0..lines.len() as u32).step_by(2) {
        let top = (TOP + i * layout.line) as i32;
        let corners = [(0, top), (WIDTH as i32, top + layout.line as i32)];
        area.draw(&Rectangle::new(corners, STRIPE.filled()))?;
    }
    let mut chart = ChartBuilder::on(area)
        .margin_top(TOP - 16)
        .margin_bottom(BOTTOM)
        .margin_right(layout.notes)
        .set_label_area_size(LabelAreaPosition::Top, 16)
        .set_label_area_size(LabelAreaPosition::Left, layout.names)
        .build_cartesian_2d(axis, lines.len() as f64..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .axis_style(PALE)
        .bold_line_style(PALE)
        .x_label_style(text(layout.text - 1.0, HPos::Center))
        .x_label_formatter(&|times| format!("{times}×"))
        .draw()?;
    if layout.notes > 100 {
        let at = ((WIDTH - layout.notes) as i32 + 32, TOP as i32 - 18);
        write(area, "ours · best peer", at, bold(layout.text - 1.0, HPos::Left))?;
    }
    let best = [(1.0, 0.0), (1.0, lines.len() as f64)];
    chart.draw_series([PathElement::new(best, INK.mix(0.7).stroke_width(1))])?;
    for (i, line) in lines.iter().enumerate() {
        let y = i as f64 + 0.5;
        let (left, middle) = chart.backend_coord(&(from, y));
        let (right, _) = chart.backend_coord(&(to, y));
        write(area, &line.name, (left - 12, middle), text(layout.text, HPos::Right))?;
        if layout.notes > 100 {
            write(area, &line.note, (right + 12, middle), text(layout.text - 1.0, HPos::Left))?;
        }
        let goal = |goal: &f64| {
            EmptyElement::at((place(*goal), y)) + Rectangle::new([(-1, -7), (1, 7)], INK.filled())
        };
        chart.draw_series(line.goals.iter().map(goal))?;
        for (label, cost) in &line.costs {
            let (colour, filled) = look(label);
            let ends = [(place(cost.min), y), (place(cost.max), y)];
            chart.draw_series([PathElement::new(ends, colour.mix(0.6).stroke_width(2))])?;
            let size = if label == "ours" { 6 } else { 5 };
            let style = if filled { colour.mix(0.9).filled() } else { colour.stroke_width(2) };
            chart.draw_series([Circle::new((place(cost.median), y), size, style)])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::whole;
    use crate::recorded::read;

    /// Returns the horizontal positions of go's and of our dot.
    fn dots(case: &str, key: &str, go: u32, ours: u32) -> (i32, i32) {
        let line = |entrant, figure| {
            let result = format!(r#"{{"procs": 2, "{key}": {figure}}}"#);
            format!("{{\"case\": \"{case}\", \"entrant\": \"{entrant}\", \"result\": {result}}}\n")
        };
        let plot = whole(&read(&(line("go", go) + &line("ours", ours))).unwrap());
        let circles: Vec<i32> = plot
            .split("<circle cx=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        let [_, _, go, ours] = circles[..] else { panic!("{plot}") };
        (go, ours)
    }

    #[test]
    fn better_is_to_the_left() {
        let (go, ours) = dots("yield", "ns_per_yield", 100, 10);
        assert!(ours < go - 50, "{ours} {go}");
        let (go, ours) = dots("echo", "req_per_s", 10, 100);
        assert!(ours < go - 50, "{ours} {go}");
        let (go, ours) = dots("echo", "req_per_s", 100, 10);
        assert!(go < ours - 50, "{ours} {go}");
    }

    #[test]
    fn what_is_beyond_the_axis_is_at_its_end() {
        assert_eq!(dots("yield", "ns_per_yield", 1, 1_000), dots("yield", "ns_per_yield", 1, 100));
    }
}
