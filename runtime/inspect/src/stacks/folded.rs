//! Stacks as the lines that tools for flame graphs read: frames, outermost first, between semicolons, and a
//! number.

/// What ends a frame or a stack in such a line.
const SEPARATORS: [char; 3] = [';', '\n', '\r'];

/// Returns the name of a function as one frame of one line.
pub(crate) fn frame(function: &str) -> String {
    function.replace(SEPARATORS, " ")
}

/// Returns a text of the program as a part of one frame of one line.
pub(crate) fn escaped(text: &str) -> String {
    frame(&text.escape_debug().to_string())
}
