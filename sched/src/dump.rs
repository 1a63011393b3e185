//! What every green thread is doing, for a person to read.

use std::fmt::Write;

use crate::fork;
use crate::g::{G, Status, table};
use crate::wake;

/// All green threads of the process, a line each, by their ids: who, what it does, what it waits for and since when, and where
/// it was spawned. They go on meanwhile. Their stacks are not shown: what a parked one has on its stack cannot be
/// unwound from outside.
///
/// # Errors
/// This is a forked child: its green threads stayed behind.
pub fn dump() -> std::io::Result<String> {
    fork::check()?;
    let mut lines: Vec<_> = table::all().filter_map(line).collect();
    lines.sort_unstable();
    let mut text = String::new();
    for (_, line) in &lines {
        text.push_str(line);
    }
    let s = if lines.len() == 1 { "" } else { "s" };
    let _ = writeln!(text, "{} green thread{s}", lines.len());
    Ok(text)
}

fn line(g: &'static G) -> Option<(u64, String)> {
    // A reference first: what it is, and whose, then stays so.
    if !g.life.try_retain() {
        return None;
    }
    let line = describe(g);
    wake::release(g);
    line
}

fn describe(g: &G) -> Option<(u64, String)> {
    if !g.is_green() {
        return None;
    }
    let what = match g.status() {
        Status::Idle | Status::Dead => return None,
        Status::Runnable => "ready to run".into(),
        Status::Running => "running".into(),
        Status::Waiting => waits(g),
    };
    let mut line = format!("green thread {}", g.id());
    if let Some(name) = g.name() {
        let _ = write!(line, " '{name}'");
    }
    let _ = write!(line, ": {what}");
    if let Some(place) = g.place() {
        let _ = write!(line, ", spawned at {place}");
    }
    line.push('\n');
    Some((g.id(), line))
}

fn waits(g: &G) -> String {
    match g.wait_in_words() {
        (why, ms @ 0..1000) => format!("waits for {why}, for {ms} ms"),
        (why, ms) => format!("waits for {why}, for {} s", ms / 1000),
    }
}
