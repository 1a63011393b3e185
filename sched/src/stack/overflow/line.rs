//! The line that says which green thread has overflowed its stack.

use std::mem;

use super::Overflowed;
use crate::sys;

/// Writes the line that names the green thread. Allocates nothing: this runs in a fault handler.
pub(super) fn report(overflowed: &Overflowed) {
    let Overflowed { name, id, file, line, stack_bytes } = *overflowed;
    let mut text = Text { bytes: [0; 512], len: 0 };
    text.push("green thread '");
    if name.is_empty() {
        text.push("<unnamed>");
    }
    text.push_escaped(name);
    text.push("' (id ").push_number(id).push(", spawned at ").push(file).push(":").push_number(line.into());
    text.push(") has overflowed its stack (").push_number((stack_bytes / 1024) as u64).push(" KiB)\n");
    text.flush();
}

/// A buffer for text that goes to stderr: one write if the text fits, several if a name is long.
struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Text {
    fn push(&mut self, text: &str) -> &mut Text {
        text.bytes().for_each(|byte| self.push_byte(byte));
        self
    }

    fn push_escaped(&mut self, text: &str) {
        for c in text.escape_debug() {
            self.push(c.encode_utf8(&mut [0; 4]));
        }
    }

    fn push_number(&mut self, number: u64) -> &mut Text {
        if number >= 10 {
            self.push_number(number / 10);
        }
        self.push_byte(b'0' + (number % 10) as u8);
        self
    }

    fn push_byte(&mut self, byte: u8) {
        if self.len == self.bytes.len() {
            self.flush();
        }
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn flush(&mut self) {
        let text = &self.bytes[..mem::take(&mut self.len)];
        sys::write_error(text);
    }
}
