//! A dump as text: a line for each green thread, and below it the frames of its stack.

use std::fmt::Write;

use super::Dump;
use super::frame::Frame;

pub(super) fn of(dump: &Dump) -> String {
    let mut text = String::new();
    for thread in &dump.threads {
        let _ = writeln!(text, "{}", thread.seen);
        if let Some(stack) = thread.stack {
            dump.stacks[stack].iter().for_each(|frame| add(&mut text, frame));
        }
    }
    let s = if dump.threads.len() == 1 { "" } else { "s" };
    let _ = writeln!(text, "{} green thread{s}", dump.threads.len());
    text
}

fn add(text: &mut String, frame: &Frame) {
    let _ = writeln!(text, "    {}", frame.function);
    if let Some((file, line)) = &frame.place {
        let _ = writeln!(text, "        at {file}:{line}");
    }
}
