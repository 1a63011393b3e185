//! A child process of tests, on every system. Its first argument says what it does.

use std::io::{self, BufRead, Read, Write, stderr, stdin, stdout};
use std::process::exit;
use std::time::Duration;

fn main() {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let mut word = || words.next().expect("another argument");
    let done = match &*what {
        "exit" => exit(word().parse().expect("a number")),
        "sleep" => {
            std::thread::sleep(Duration::from_secs(100));
            Ok(())
        }
        "pause" => {
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        }
        "cat" => cat(),
        "line" => stdin().lock().read_line(&mut String::new()).map(drop),
        "fill" => fill(word().parse().expect("a number"), word().parse().expect("a number")),
        "say" => stdout().write_all(word().as_bytes()),
        "complain" => stderr().write_all(word().as_bytes()),
        "env" => stdout().write_all(std::env::var(word()).unwrap_or_default().as_bytes()),
        "count" => count(),
        _ => exit(2),
    };
    if done.is_err() {
        exit(99);
    }
}

/// Copies its input to its output, each part at once.
fn cat() -> io::Result<()> {
    let (mut input, mut output, mut buf) = (stdin().lock(), stdout().lock(), vec![0; 8192]);
    loop {
        match input.read(&mut buf)? {
            0 => return Ok(()),
            n => output.write_all(&buf[..n]).and_then(|()| output.flush())?,
        }
    }
}

/// Writes `bytes` bytes to standard output and to standard error, by turns, and exits with `code`.
fn fill(bytes: usize, code: i32) -> io::Result<()> {
    for _ in 0..bytes.div_ceil(1000) {
        stderr().write_all(&[b'e'; 1000])?;
        stdout().write_all(&[b'o'; 1000])?;
    }
    stdout().flush()?;
    exit(code);
}

/// Prints how many bytes there are to read.
fn count() -> io::Result<()> {
    let mut bytes = Vec::new();
    stdin().lock().read_to_end(&mut bytes)?;
    write!(stdout(), "{}", bytes.len())
}
