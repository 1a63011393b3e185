//! A timeline as an HTML page that needs nothing else: the data as JSON, and a script that draws them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use super::Snapshot;
use super::timeline::{Fill, Lane, Row, Timeline, words};

const PAGE: &str = include_str!("page.html");
/// How much of the end of the trace the page shows, in ns.
const SHOWN_NS: u64 = 1_000_000_000;
/// The most slices, and the most marks, of a page: a browser draws these at once.
const MOST: usize = 200_000;

/// Returns the name of a row.
pub(super) fn row_name(snapshot: &Snapshot, (runtime, lane): Row) -> String {
    let name = snapshot.runtimes().get(runtime).map_or("", |name| name);
    match lane {
        Lane::P(p) => format!("P {p}"),
        Lane::M(m) => format!("{}-{m}", name.escape_debug()),
    }
}

/// Writes the page.
pub(super) fn write(snapshot: &Snapshot, timeline: &Timeline, w: &mut impl Write) -> io::Result<()> {
    let (before, after) = PAGE.split_once("/*DATA*/").expect("the page has a place for the data");
    w.write_all(before.as_bytes())?;
    w.write_all(data(snapshot, timeline).as_bytes())?;
    w.write_all(after.as_bytes())
}

/// The texts of a page, each once.
#[derive(Default)]
struct Texts {
    numbers: HashMap<String, usize>,
    all: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: String) -> usize {
        *self.numbers.entry(text).or_insert_with_key(|text| {
            self.all.push(text.clone());
            self.all.len() - 1
        })
    }
}

/// Returns the data of the page as a JSON object. All times are in ns since its `from`.
fn data(snapshot: &Snapshot, timeline: &Timeline) -> String {
    let last = snapshot.events().last().map_or(0, |event| event.at.as_nanos() as u64);
    let from = first_shown(timeline, last.saturating_sub(SHOWN_NS));
    let mut texts = Texts::default();
    let rows: Vec<Row> = timeline.rows.keys().copied().collect();
    let number_of: HashMap<Row, usize> = rows.iter().enumerate().map(|(i, &row)| (row, i)).collect();
    let mut json = String::from("{");
    let names: Vec<String> = rows.iter().map(|&row| quoted(&row_name(snapshot, row))).collect();
    let of_ps: Vec<u8> = rows.iter().map(|(_, lane)| u8::from(matches!(lane, Lane::P(_)))).collect();
    let runtimes: Vec<usize> = rows.iter().map(|(runtime, _)| *runtime).collect();
    let runtime_names: Vec<String> = snapshot.runtimes().iter().map(|name| quoted(name)).collect();
    let _ = write!(
        json,
        "\"from\":{from},\"length\":{},\"lost\":{},\"rows\":[{}],\"isP\":{of_ps:?},\"runtime\":{runtimes:?},\"runtimes\":[{}],\"slices\":[",
        last.saturating_sub(from),
        snapshot.lost(),
        names.join(","),
        runtime_names.join(",")
    );
    // [row, start, length, text, color, why it ended, arrow]
    let mut separator = "";
    for slice in timeline.rows.values().flatten().filter(|slice| slice.end >= from && slice.start <= last) {
        let (text, color) = match slice.fill {
            Fill::Green { id, poll } => {
                let place = snapshot.spawned_at(id).map(|place| format!("\nspawned at {place}"));
                let labels = slice.labels.map(|labels| format!("\nlabels {}", snapshot.text(labels)));
                let poll = if poll { "\na poll of its future" } else { "" };
                let (place, labels) = (place.unwrap_or_default(), labels.unwrap_or_default());
                (format!("{}{poll}{place}{labels}", snapshot.label(id)), id as i64)
            }
            Fill::HasP(p) => (format!("has P {p}"), -1),
            Fill::Parked => ("parked".into(), -2),
            Fill::Network => ("waits for the network and the timers".into(), -3),
        };
        let start = slice.start.max(from);
        let (text, ended) = (texts.number(text), texts.number(ended_in_words(slice.ended)));
        let row = number_of[&slice.row];
        let _ = write!(
            json,
            "{separator}[{row},{},{},{text},{color},{ended},{}]",
            start - from,
            slice.end.min(last).saturating_sub(start),
            slice.arrow
        );
        separator = ",";
    }
    // [row, at, text, arrow]
    json.push_str("],\"marks\":[");
    separator = "";
    for mark in timeline.marks.iter().filter(|mark| mark.at >= from) {
        let text = texts.number(words(&mark.what, snapshot));
        let _ =
            write!(json, "{separator}[{},{},{text},{}]", number_of[&mark.row], mark.at - from, mark.arrow);
        separator = ",";
    }
    let all: Vec<String> = texts.all.iter().map(|text| quoted(text)).collect();
    let _ = write!(json, "],\"texts\":[{}]}}", all.join(","));
    json
}

/// Returns the time from which on the page shows everything: `from`, or later if there would be too much.
fn first_shown(timeline: &Timeline, from: u64) -> u64 {
    let mut ends: Vec<u64> = timeline.rows.values().flatten().map(|slice| slice.end).collect();
    let mut marks: Vec<u64> = timeline.marks.iter().map(|mark| mark.at).collect();
    let nth_last = |all: &mut Vec<u64>| match all.len().checked_sub(MOST) {
        Some(i) if i > 0 => *all.select_nth_unstable(i).1,
        _ => 0,
    };
    from.max(nth_last(&mut ends)).max(nth_last(&mut marks))
}

fn ended_in_words(ended: &str) -> String {
    match ended {
        "" | "it yields" | "it ends" | "its P is taken" => ended.into(),
        why => format!("it waits for {why}"),
    }
}

/// Returns `text` as a JSON string that may stand in a script.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            // `</script>` would end the script.
            '<' | '\0'..=' ' | '\u{7f}'.. if c != ' ' => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(quoted, "\\u{unit:04x}");
                }
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn no_text_ends_the_script() {
        assert_eq!(quoted("a b"), "\"a b\"");
        assert_eq!(quoted("</script>\"\\\n"), "\"\\u003c/script>\\\"\\\\\\u000a\"");
        assert_eq!(quoted("ä\u{1F600}"), "\"\\u00e4\\ud83d\\ude00\"");
    }
}
