//! The errors of simulated calls.

use std::io;

/// Returns the error of the system with that number.
pub(super) fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// Returns an error that names what a simulated disk cannot do.
pub(super) fn unsupported(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("a simulated disk has no {what}"))
}
