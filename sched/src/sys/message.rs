//! Messages of the runtime to stderr.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes `text` and the end of a line to stderr. A message that cannot be written is lost: stderr may be on
/// a full disk, or a pipe that no process reads. `eprintln!` would panic then, which ends a thread of the
/// runtime's own, or the process.
pub fn write_message(text: Arguments<'_>) {
    let _ = io::stderr().write_fmt(format_args!("{text}\n"));
}
