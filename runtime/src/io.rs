//! Standard input as a stream that parks whoever reads it.
//!
//! Everything else of `std::io` works as it is: its traits with this crate's sockets, files in [`blocking`](crate::blocking).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Lines, Read};
use std::sync::OnceLock;

use crate::builder;
use crate::net::{Async, Place};
use crate::sync::{Mutex, MutexGuard};

/// Standard input, as [`std::io::stdin`]: all handles share one buffer, and one reads at a time.
///
/// Reading from a pipe, a terminal or a socket parks the caller until something comes. A regular file, and whatever else the
/// system cannot wait for, is read as in [`blocking`](crate::blocking). The buffer is not std's: use one or the other.
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

/// A handle to standard input; see [`stdin`].
///
/// # Cancellation
///
/// In every method, a cancelled green thread that must wait unwinds. What has not come yet is there for the next one; of a line
/// that was about to be read, what had come of it is lost.
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
    /// Waits until nobody else reads, and keeps others from it until the guard is dropped.
    ///
    /// ```no_run
    /// use std::io::BufRead;
    /// let mut word = Vec::new();
    /// runtime::io::stdin().lock().read_until(b' ', &mut word)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn lock(&self) -> StdinLock<'static> {
        static STDIN: OnceLock<Mutex<BufReader<Input>>> = OnceLock::new();
        StdinLock(STDIN.get_or_init(|| Mutex::new(BufReader::new(Input::open()))).lock())
    }

    /// Reads to the end of the line, and adds that to `line`, its newline included. Zero: there is no more.
    ///
    /// # Errors
    ///
    /// What the system says; `InvalidData` if it is not UTF-8.
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

    /// The lines to come, without their ends; nobody else reads meanwhile.
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

/// Standard input for one reader alone; see [`Stdin::lock`].
///
/// ```no_run
/// use std::io::Read;
/// let mut two = [0; 2];
/// runtime::io::stdin().lock().read_exact(&mut two)?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct StdinLock<'a>(MutexGuard<'a, BufReader<Input>>);

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

/// Where it comes from.
#[derive(Debug)]
enum Input {
    /// The default runtime waits for it, which lives as long as the process.
    Waits(Async<File>),
    Blocks(File),
    /// There is none, as std takes it.
    Nothing,
}

impl Input {
    fn open() -> Input {
        // A duplicate, past std's buffer.
        let Ok(input) = crate::net::duplicate(&io::stdin()).map(File::from) else { return Input::Nothing };
        let other = input.try_clone();
        let waits = Async::with(input, |source| Place::in_runtime(builder::default_sched()?, source));
        match (waits, other) {
            (Ok(input), _) => Input::Waits(input),
            (Err(_), Ok(input)) => Input::Blocks(input),
            (Err(_), Err(_)) => Input::Nothing,
        }
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::Nothing => Ok(0),
            Input::Blocks(input) => crate::blocking(|| input.read(buf)),
            Input::Waits(input) => loop {
                input.readable()?;
                match crate::net::call(|| input.get_ref().read(buf)) {
                    // Somebody else who has it too was faster, and had made it non-blocking.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    done => return done,
                }
            },
        }
    }
}
