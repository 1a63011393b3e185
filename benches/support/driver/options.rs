//! What every driver can be told on its command line; what else there is, a driver reads itself.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::exit;

/// What every driver can be told.
pub struct Common {
    /// How often each is run.
    pub rounds: usize,
    /// Small sizes, to see that everything works.
    pub quick: bool,
    /// Where the results go, without ending.
    pub out: PathBuf,
    usage: &'static str,
}

impl Common {
    /// So many rounds if nothing else is said, and results of that name.
    pub fn new(usage: &'static str, rounds: usize, name: &str) -> Common {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        Common { rounds, quick: false, out: results.join(name), usage }
    }

    /// Reads all words. `own` gets those that not every driver knows, and what gives the word behind it as its value.
    ///
    /// # Errors
    /// What is wrong with the command line.
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

/// What the command line says, or the end of the driver.
pub fn from_command_line<T>(
    usage: &str,
    parse: impl FnOnce(std::iter::Skip<std::env::Args>) -> Result<T, String>,
) -> T {
    parse(std::env::args().skip(1)).unwrap_or_else(|wrong| stop(format_args!("{wrong}\n\n{usage}")))
}

/// A number of things to do.
///
/// # Errors
/// It is none, or 0.
pub fn number(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or(format!("a number of at least 1 is expected, not \"{text}\""))
}

/// Several values with commas between them.
///
/// # Errors
/// The first of those that `one` gives.
pub fn list<T>(text: &str, one: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(one).collect()
}

/// Ends the driver: it cannot do what it was asked for.
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
