//! Commands of the Redis protocol, as a server reads them: bounded, and strict.

use std::io::{self, BufRead, Read};

use crate::support::server::wrong;

/// The most bytes of a command that is an array, and what each of its words counts beside its bytes.
const COMMAND: usize = 1024 * 1024;
pub(crate) const WORD: usize = 32;
/// The most bytes of a line.
const LINE: usize = 64 * 1024;

pub(crate) type Bytes = Vec<u8>;

/// Reads the words of the next command: an array of strings, or a line. Returns `None` at the end of the
/// stream.
pub(crate) fn command(input: &mut impl BufRead) -> io::Result<Option<Vec<Bytes>>> {
    let Some(line) = line(input)? else { return Ok(None) };
    if line.first() != Some(&b'*') {
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        return Ok(Some(words.map(<[u8]>::to_vec).collect()));
    }
    let mut left = COMMAND;
    let words = (0..number(&line, b'*')?).map(|_| {
        let length = number(&self::line(input)?.ok_or(io::ErrorKind::UnexpectedEof)?, b'$')?;
        left = left.checked_sub(length + WORD).ok_or_else(|| wrong("the command is too long"))?;
        // The memory grows with what arrives, so a client gets none by a promise.
        let mut word = Vec::new();
        input.take(length as u64 + 2).read_to_end(&mut word)?;
        if word.len() < length + 2 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if word.split_off(length) != b"\r\n" {
            return Err(wrong("a string does not end where it should"));
        }
        Ok(word)
    });
    words.collect::<io::Result<_>>().map(Some)
}

/// Reads a line with its end.
fn line(input: &mut impl BufRead) -> io::Result<Option<Bytes>> {
    let mut line = Vec::new();
    input.take(LINE as u64).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() == LINE => Err(wrong("the line is too long")),
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Returns the number of a line that has only `mark` and a number.
fn number(line: &[u8], mark: u8) -> io::Result<usize> {
    let text = line.strip_prefix(&[mark]).and_then(|line| line.strip_suffix(b"\r\n"));
    // `parse` alone would take a sign, and zeros in front.
    let digits = text
        .filter(|text| text.iter().all(u8::is_ascii_digit) && (text[..] == *b"0" || !text.starts_with(b"0")));
    let number = digits.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
    number.filter(|&number| number <= COMMAND).ok_or_else(|| {
        wrong(format_args!("\"{}\" and a number are expected, of a reasonable size", char::from(mark)))
    })
}
