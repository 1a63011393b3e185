//! The dump: a text that says for every green thread what it is doing and what it waits for.

use std::fmt::Write;

use crate::g::{G, Status, table};
use crate::m::release::release;
use crate::sys::fork;

/// Returns one line for each green thread of the process, ordered by id. A line has the id and the name, what the green thread
/// does, what it waits for and since when, and where it was spawned. The green threads run on meanwhile. Their stacks are not shown, because the stack of a
/// parked green thread cannot be unwound from outside.
///
/// # Errors
/// Fails in a forked child, which has none of its parent's green threads.
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
    // A reference first: while it is held, the place in the table stays with this G.
    if !g.life.try_retain() {
        return None;
    }
    let line = describe(g);
    release(g);
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
