//! Loads by wrk and h2load, each for `LOAD_SECONDS`.

use std::process::Command;

use super::{load_seconds, missing};

/// Lets wrk send requests to `url`. Panics if any fails. Prints that the load is left out if wrk is missing.
pub fn load_by_wrk(url: &str) {
    if Command::new("wrk").arg("--version").output().is_err() {
        return missing("wrk");
    }
    let text = run(Command::new("wrk").args(["-t2", "-c64", &format!("-d{}s", load_seconds()), url]));
    assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{url}: {text}");
    assert!(!text.contains(" 0 requests in"), "{url}: {text}");
}

/// Lets h2load send requests to `url`, many at a time on each connection. Panics if any fails. Prints that
/// the load is left out if h2load is missing.
pub fn load_by_h2load(url: &str) {
    if Command::new("h2load").arg("--version").output().is_err() {
        return missing("h2load");
    }
    let text = run(Command::new("h2load").args(["-c8", "-m32", "-D", &load_seconds().to_string(), url]));
    let counts = text.lines().find(|line| line.starts_with("requests:")).expect("h2load's counts");
    assert!(
        !counts.contains(" 0 done") && counts.contains(" 0 failed, 0 errored, 0 timeout"),
        "{url}: {text}"
    );
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{command:?}:\n{text}");
    assert!(output.status.success(), "{text}");
    text
}
