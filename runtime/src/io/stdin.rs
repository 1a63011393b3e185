//! `Stdin`: standard input, with one buffer for all readers.

use std::io::{self, BufRead, BufReader, Lines, Read};
use std::sync::OnceLock;

use super::descriptor::Descriptor;
use crate::sync::{Mutex, MutexGuard};

/// Returns a handle to standard input, with the API of [`std::io::stdin`]. All handles share one buffer, and
/// one thread reads at a time.
///
/// Reading from a pipe, a terminal or a socket parks the caller until something comes. A regular file, and
/// whatever else the system cannot wait for, is read as in [`blocking`](crate::blocking). On Windows that is
/// all. The buffer is not that of std: use one or the other.
///
/// ```no_run
/// for line in runtime::io::stdin().lines() {
///     println!("{}", line?.to_uppercase());
/// }
/// # std::io::Result::Ok(())
/// ```
pub fn stdin() -> Stdin {
    Stdin(())
}

/// A handle to standard input, from [`stdin`].
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a method that has to wait. Bytes that have not come yet are there
/// for the next reader. Bytes of an unfinished line that was being read are lost. On Windows a read that has
/// begun ends first.
///
/// ```
/// use std::io::Read;
/// # if false {
/// let mut text = String::new();
/// runtime::io::stdin().read_to_string(&mut text)?;
/// # }
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Stdin(());

impl Stdin {
    /// Waits until no other thread reads. Keeps other threads from reading until the guard is dropped.
    ///
    /// ```no_run
    /// use std::io::BufRead;
    /// let mut word = Vec::new();
    /// runtime::io::stdin().lock().read_until(b' ', &mut word)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn lock(&self) -> StdinLock<'static> {
        static STDIN: OnceLock<Mutex<BufReader<Descriptor>>> = OnceLock::new();
        StdinLock(STDIN.get_or_init(|| Mutex::new(BufReader::new(Descriptor::of(&io::stdin())))).lock())
    }

    /// Reads up to the end of the line, and appends that to `line`, its newline included. Returns the number
    /// of bytes; 0 at the end.
    ///
    /// # Errors
    ///
    /// Returns the system's error, and `InvalidData` if the line is not UTF-8.
    ///
    /// ```no_run
    /// let mut line = String::new();
    /// while runtime::io::stdin().read_line(&mut line)? > 0 {
    ///     print!("{line}");
    ///     line.clear();
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn read_line(&self, line: &mut String) -> io::Result<usize> {
        self.lock().read_line(line)
    }

    /// Returns an iterator over the lines, without their ends. No other thread reads meanwhile.
    ///
    /// ```no_run
    /// let numbers = runtime::io::stdin().lines().filter_map(|line| line.ok()?.parse::<u64>().ok());
    /// println!("{}", numbers.sum::<u64>());
    /// ```
    pub fn lines(self) -> Lines<StdinLock<'static>> {
        self.lock().lines()
    }
}

impl Read for &Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.lock().read(buf)
    }
}

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.lock().read(buf)
    }
}

/// Standard input for one reader alone, from [`Stdin::lock`].
///
/// ```no_run
/// use std::io::Read;
/// let mut two = [0; 2];
/// runtime::io::stdin().lock().read_exact(&mut two)?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct StdinLock<'a>(MutexGuard<'a, BufReader<Descriptor>>);

impl Read for StdinLock<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl BufRead for StdinLock<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.0.consume(amount);
    }
}
