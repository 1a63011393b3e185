//! Messages of the runtime to stderr.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes `text` and the end of a line to stderr. A message that cannot be written is lost. `eprintln!` would panic: that ends a thread
/// of the runtime's own, or the process, if stderr is a full disk or a pipe that no process reads.
pub fn write_message(text: Arguments<'_>) {
    let _ = io::stderr().write_fmt(format_args!("{text}\n"));
}
