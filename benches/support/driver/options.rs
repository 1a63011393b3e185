//! The command-line options that all drivers share. Each driver adds its own.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::exit;
use std::time::Duration;

/// The options that all drivers share. `rounds` and `out` need a default value, which a driver sets with
/// clap's `mut_arg`.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Number of rounds; what is compared runs in turn in each
    #[arg(long, value_name = "N", value_parser = number, required = false)]
    pub rounds: usize,
    /// Small sizes, to test that everything works; the figures mean nothing
    #[arg(long)]
    pub quick: bool,
    /// Path of the results, without an extension
    #[arg(long, value_name = "PATH", required = false)]
    pub out: PathBuf,
}

/// Parses a number of at least 1.
///
/// # Errors
/// The text is not a number, or the number is 0.
pub fn number(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or("a number of at least 1 is expected".into())
}

/// Parses a number of seconds, which may be 0.
///
/// # Errors
/// The text is not a whole number.
pub fn seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).map_err(|_| "a number of seconds is expected".into())
}

/// Ends the driver with an error message.
pub fn stop(why: impl Display) -> ! {
    eprintln!("error: {why}");
    exit(2);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Common;

    #[derive(Parser)]
    #[command(mut_arg("rounds", |arg| arg.default_value("5")), mut_arg("out", |arg| arg.default_value("a/name")))]
    struct Options {
        #[command(flatten)]
        common: Common,
    }

    fn parse(line: &str) -> Result<Common, clap::Error> {
        Options::try_parse_from(["driver"].into_iter().chain(line.split_whitespace()))
            .map(|options| options.common)
    }

    #[test]
    fn what_all_know() {
        let common = parse("--rounds 2 --quick").unwrap();
        assert_eq!((common.rounds, common.quick, common.out.to_str()), (2, true, Some("a/name")));
        let common = parse("--out b/c").unwrap();
        assert_eq!((common.rounds, common.quick, common.out.to_str()), (5, false, Some("b/c")));
    }

    #[test]
    fn what_is_refused() {
        for line in ["--rounds", "--rounds 0", "--rounds x", "--out", "--n"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
