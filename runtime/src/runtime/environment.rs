//! The settings that a program leaves to the environment: reading the variables `RUNTIME_*`, and saying what
//! is wrong with them.
//!
//! A variable that is missing or blank gives `None`. A value that is not allowed is an error, which names the
//! variable, the value and what is allowed.
//!
//! In a process with more rights than the process that started it, such as a setuid program, each variable
//! counts as missing. One names a file to write, and one a signal. A value that is not allowed ends the
//! program. (libc: `secure_getenv`.)

use std::env::{self, VarError};
use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;

use sched::privileges;

use super::{Migration, ThreadLocals};

/// Reads the variable `name` by `parse`, which returns `None` for a value that is not `expected`.
pub(super) fn read<T>(
    name: &str,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> io::Result<Option<T>> {
    let wrong = |value: &str| {
        let text = format!("{name} is {value:?}: {expected} is expected, or no such variable");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    if privileges::are_raised() {
        return Ok(None);
    }
    match env::var(name) {
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(value)) => Err(wrong(&value.to_string_lossy())),
        Ok(value) if value.trim().is_empty() => Ok(None),
        Ok(value) => parse(value.trim()).map(Some).ok_or_else(|| wrong(&value)),
    }
}

/// Reads a number in `range`.
pub(super) fn number(name: &str, range: RangeInclusive<usize>) -> io::Result<Option<usize>> {
    let expected = match *range.end() {
        usize::MAX => format!("a number from {}", range.start()),
        most => format!("a number from {} to {most}", range.start()),
    };
    read(name, &expected, |value| value.parse().ok().filter(|n| range.contains(n)))
}

/// Reads a time in ms, from 1.
pub(super) fn ms(name: &str) -> io::Result<Option<Duration>> {
    let ms = number(name, 1..=usize::MAX)?;
    Ok(ms.map(|ms| Duration::from_millis(ms as u64)))
}

/// Reads a number of bytes in `range`: a number, or a number with the unit `KiB`, `MiB` or `GiB`.
pub(super) fn bytes(name: &str, range: RangeInclusive<usize>) -> io::Result<Option<usize>> {
    let (least, most) = (range.start(), range.end() >> 20);
    let expected = format!("a number of bytes from {least} to {most}MiB, such as 262144 or 256KiB,");
    read(name, &expected, |value| parse_bytes(value).filter(|n| range.contains(n)))
}

/// Reads `on` or `off`.
pub(super) fn switch(name: &str) -> io::Result<Option<bool>> {
    read(name, "on or off", |value| match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    })
}

/// Reads `RUNTIME_THREADS`. Returns `true` if the program's threads are to be green threads.
pub(super) fn threads_are_green() -> io::Result<Option<bool>> {
    read("RUNTIME_THREADS", "green or os", |value| match value {
        "green" => Some(true),
        "os" => Some(false),
        _ => None,
    })
}

/// Reads a name of [`Migration`].
pub(super) fn migration(name: &str) -> io::Result<Option<Migration>> {
    read(name, "anytime or before-start", |value| match value {
        "anytime" => Some(Migration::Anytime),
        "before-start" => Some(Migration::BeforeStart),
        _ => None,
    })
}

/// Reads a name of [`ThreadLocals`].
pub(super) fn thread_locals(name: &str) -> io::Result<Option<ThreadLocals>> {
    read(name, "os or green", |value| match value {
        "os" => Some(ThreadLocals::OfOsThread),
        "green" => Some(ThreadLocals::OfGreenThread),
        _ => None,
    })
}

fn parse_bytes(value: &str) -> Option<usize> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1usize << 30)];
    let found = units.iter().find_map(|(unit, size)| Some((value.strip_suffix(unit)?, *size)));
    let (number, size) = found.unwrap_or((value, 1));
    number.trim_end().parse::<usize>().ok()?.checked_mul(size)
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_have_units_or_none() {
        let cases = [
            ("65536", Some(65_536)),
            ("64KiB", Some(65_536)),
            ("64 KiB", Some(65_536)),
            ("3MiB", Some(3 << 20)),
            ("1GiB", Some(1 << 30)),
            ("64K", None),
            ("KiB", None),
            ("-1", None),
            ("1.5MiB", None),
            ("99999999999999999GiB", None),
        ];
        for (text, size) in cases {
            assert_eq!(parse_bytes(text), size, "{text}");
        }
    }
}
