//! The command-line options that all drivers share. Each driver reads its other options itself.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::exit;

/// The options that all drivers share.
pub struct Common {
    /// The number of rounds.
    pub rounds: usize,
    /// True if small sizes are used, to test that everything works.
    pub quick: bool,
    /// The path of the results, without an extension.
    pub out: PathBuf,
    usage: &'static str,
}

impl Common {
    /// Returns the defaults: `rounds` rounds, and results named `name` in `benches/results`.
    pub fn new(usage: &'static str, rounds: usize, name: &str) -> Common {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        Common { rounds, quick: false, out: results.join(name), usage }
    }

    /// Reads all words. `own` gets each word that is not a common option, and a function that returns the next word as a value.
    ///
    /// # Errors
    /// A description of the first wrong word.
    pub fn parse(
        &mut self,
        mut words: impl Iterator<Item = String>,
        mut own: impl FnMut(&str, &mut dyn FnMut() -> Result<String, String>) -> Result<(), String>,
    ) -> Result<(), String> {
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--rounds" => self.rounds = number(&value()?)?,
                "--quick" => self.quick = true,
                "--out" => self.out = value()?.into(),
                "--help" | "-h" => {
                    println!("{}", self.usage);
                    exit(0);
                }
                _ => own(&word, &mut value)?,
            }
        }
        Ok(())
    }
}

/// Returns the parsed command line. Ends the driver with the usage text if the command line is wrong.
pub fn from_command_line<T>(
    usage: &str,
    parse: impl FnOnce(std::iter::Skip<std::env::Args>) -> Result<T, String>,
) -> T {
    parse(std::env::args().skip(1)).unwrap_or_else(|wrong| stop(format_args!("{wrong}\n\n{usage}")))
}

/// Parses a number of at least 1.
///
/// # Errors
/// The text is not a number, or the number is 0.
pub fn number(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or(format!("a number of at least 1 is expected, not \"{text}\""))
}

/// Parses several values, separated by commas.
///
/// # Errors
/// The first error of `one`.
pub fn list<T>(text: &str, one: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(one).collect()
}

/// Ends the driver with an error message.
pub fn stop(why: impl Display) -> ! {
    eprintln!("error: {why}");
    exit(2);
}

#[cfg(test)]
mod tests {
    use super::{Common, list, number};

    fn parse(line: &str) -> Result<(Common, Vec<String>), String> {
        let (mut common, mut own) = (Common::new("", 5, "name"), Vec::new());
        common.parse(line.split(' ').map(String::from), |word, value| {
            own.push(word.into());
            own.push(value()?);
            Ok(())
        })?;
        Ok((common, own))
    }

    #[test]
    fn what_all_know_and_what_is_left() {
        let (common, own) = parse("--n 1,2 --rounds 2 --quick").unwrap();
        assert_eq!((common.rounds, common.quick, own), (2, true, vec!["--n".into(), "1,2".into()]));
        assert!(common.out.ends_with("benches/results/name"));
        assert_eq!(parse("--out a/b").unwrap().0.out.to_str(), Some("a/b"));
    }

    #[test]
    fn what_is_refused() {
        for line in ["--rounds", "--rounds 0", "--rounds x", "--out", "--n"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn lists() {
        assert_eq!(list("5,7", number), Ok(vec![5, 7]));
        assert!(list("5,", number).is_err());
    }
}
