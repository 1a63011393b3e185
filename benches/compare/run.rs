//! One run of a program, with a time limit and a check of the result.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::cases::Case;

/// The exit code of a program that does not offer a workload.
const NOT_OFFERED: i32 = 3;

/// A result that has been checked.
pub(crate) struct Record {
    /// The line of JSON, as printed.
    pub(crate) line: String,
    /// All figures of the line, and the figures derived from them.
    pub(crate) figures: BTreeMap<String, f64>,
}

impl Record {
    /// Makes the record of a line that has these fields.
    pub(crate) fn new(line: String, fields: &Map<String, Value>) -> Record {
        let mut figures: BTreeMap<String, f64> =
            fields.iter().filter_map(|(key, value)| Some((key.clone(), value.as_f64()?))).collect();
        derive(&mut figures);
        Record { line, figures }
    }
}

pub(crate) enum Failure {
    /// The program does not offer that workload.
    NotOffered(String),
    /// The program crashed, took too long, or printed no correct result.
    Fails(String),
}

pub(crate) fn run(program: &Path, case: &Case, args: &[String]) -> Result<Record, Failure> {
    let said = capture(program, args, Duration::from_secs(case.limit_secs))?;
    let line = said.lines().last().unwrap_or_default();
    let wanted = case.metrics.iter().map(|metric| metric.key);
    check(line, args, wanted).map_err(Failure::Fails)
}

/// Runs a program to its end. Returns the program's output.
fn capture(program: &Path, args: &[String], limit: Duration) -> Result<String, Failure> {
    let child = Command::new(program)
        .args(args)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::Fails(format!("{} cannot be run: {error}", program.display())))?;
    let (out, err, status) = wait(child, limit).map_err(Failure::Fails)?;
    if status.success() {
        return Ok(out);
    }
    if status.code() == Some(NOT_OFFERED) {
        let why = last_line(&err);
        return Err(Failure::NotOffered(why.strip_prefix("not offered: ").unwrap_or(why).into()));
    }
    Err(Failure::Fails(format!("{status}: {}", what_it_said(&err))))
}

/// Waits until both outputs of `child` are closed. Kills `child` if an output is still open after `limit`.
fn wait(mut child: Child, limit: Duration) -> Result<(String, String, ExitStatus), String> {
    let (sender, ends) = mpsc::channel();
    let read = |mut pipe: Box<dyn Read + Send>| {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // If the read fails, the bytes that were read before count.
            let _ = pipe.read_to_end(&mut bytes);
            let _ = sender.send(());
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(Box::new(child.stdout.take().expect("it is piped")));
    let err = read(Box::new(child.stderr.take().expect("it is piped")));
    let end = std::time::Instant::now() + limit;
    let in_time = (0..2).all(|_| {
        let left = end.saturating_duration_since(std::time::Instant::now());
        ends.recv_timeout(left).is_ok()
    });
    if !in_time {
        child
            .kill()
            .and_then(|()| child.wait())
            .map_err(|error| format!("the program cannot be killed: {error}"))?;
        return Err(format!("the program did not end within {} s", limit.as_secs()));
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok((text(out), text(err), status))
}

/// Returns the most informative line of a crash, cut to 200 characters.
fn what_it_said(err: &str) -> String {
    const TELLING: [&str; 5] = ["panic", "fatal", "error", "overflow", "memory"];
    let lines: Vec<&str> = err.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let telling = lines.iter().position(|line| TELLING.iter().any(|word| line.contains(word)));
    let Some(at) = telling.or(lines.len().checked_sub(1)) else {
        return "the program printed no error".into();
    };
    // A Rust panic prints the place in one line, and the message in the next.
    let why = if lines[at].ends_with(':') { lines.get(at + 1).unwrap_or(&lines[at]) } else { lines[at] };
    why.chars().take(200).collect()
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

/// Checks that a line is the result of a run with `args`, and has all `wanted` figures. Returns the record,
/// or the reason why not.
pub(crate) fn check<'a>(
    line: &str,
    args: &[String],
    wanted: impl IntoIterator<Item = &'a str>,
) -> Result<Record, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("no JSON ({error}): {line}"))?;
    let Value::Object(fields) = value else { return Err(format!("no JSON object: {line}")) };
    if fields.get("workload").and_then(Value::as_str) != args.first().map(String::as_str) {
        return Err(format!("the result of another workload: {line}"));
    }
    for (key, asked) in asked(args) {
        let done =
            fields.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), String::from));
        if done.as_deref() != Some(asked) {
            return Err(format!("the program was called with --{key} {asked}, but reports {done:?}"));
        }
    }
    if fields.get("valid") == Some(&Value::Bool(false)) {
        return Err("not valid: sleepers may have woken before the memory was read".into());
    }
    let record = Record::new(line.into(), &fields);
    for key in wanted {
        match record.figures.get(key) {
            Some(figure) if *figure >= 0.0 => {}
            Some(figure) => return Err(format!("{key} is {figure}")),
            None => return Err(format!("there is no {key}: {line}")),
        }
    }
    Ok(record)
}

/// Returns the options that have a value. If a name occurs twice, the last value counts.
fn asked(args: &[String]) -> BTreeMap<&str, &str> {
    let pairs = args.windows(2).filter(|pair| !pair[1].starts_with("--"));
    pairs.filter_map(|pair| Some((pair[0].strip_prefix("--")?, pair[1].as_str()))).collect()
}

/// Adds the figures that goals refer to but no program prints.
fn derive(figures: &mut BTreeMap<String, f64>) {
    if let (Some(mean), Some(asked)) = (figures.get("mean_ms"), figures.get("ms")) {
        figures.insert("overshoot_ms".into(), mean - asked);
    }
    if let (Some(cpu_ms), Some(ticks)) = (figures.get("cpu_ms"), figures.get("ticks"))
        && *ticks > 0.0
    {
        figures.insert("cpu_us_per_tick".into(), cpu_ms * 1e3 / ticks);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{Failure, capture, check};

    fn args(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    fn sh(script: &str, limit: Duration) -> Result<String, Failure> {
        capture(Path::new("/bin/sh"), &["-c".into(), script.into()], limit)
    }

    #[test]
    fn a_right_result_and_what_is_derived_from_it() {
        let line = r#"{"impl": "x", "workload": "timers", "procs": 2, "n": 10, "ms": 10, "mean_ms": 10.25}"#;
        let asked = args("timers --n 100 --n 10 --procs 2");
        let record = check(line, &asked, ["mean_ms", "overshoot_ms"]).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(record.figures["overshoot_ms"], 0.25);
        let line = r#"{"workload": "idle", "cpu_ms": 3, "ticks": 1000}"#;
        assert_eq!(check(line, &args("idle"), []).map(|record| record.figures["cpu_us_per_tick"]), Ok(3.0));
    }

    #[test]
    fn wrong_results() {
        let result = |line| check(line, &args("yield --n 5"), ["ns_per_yield"]).map(|record| record.line);
        for line in [
            "",
            "no",
            "[1]",
            r#"{"workload": "yield", "n": 5}"#,
            r#"{"workload": "yield", "n": 6, "ns_per_yield": 1}"#,
            r#"{"workload": "mutex", "n": 5, "ns_per_yield": 1}"#,
            r#"{"workload": "yield", "n": 5, "ns_per_yield": -1}"#,
            r#"{"workload": "yield", "n": 5, "ns_per_yield": "1"}"#,
            r#"{"workload": "yield", "n": 5, "ns_per_yield": 1, "valid": false}"#,
        ] {
            assert!(result(line).is_err(), "{line}");
        }
        assert!(result(r#"{"workload": "yield", "n": 5, "ns_per_yield": 1}"#).is_ok());
    }

    #[test]
    fn crashes_and_programs_that_do_not_end() {
        let long = Duration::from_secs(60);
        assert!(matches!(sh("echo a; echo b", long), Ok(out) if out == "a\nb\n"));
        assert!(matches!(sh("echo 'not offered: no such' >&2; exit 3", long),
            Err(Failure::NotOffered(why)) if why == "no such"));
        assert!(matches!(sh("echo here: >&2; echo 'panic: oh' >&2; kill -9 $$", long),
            Err(Failure::Fails(why)) if why.contains("signal: 9") && why.contains("panic: oh")));
        assert!(
            matches!(sh("printf \"thread 'x' panicked at a.rs:1:2:\\noh\\nnote: run\" >&2; exit 101", long),
            Err(Failure::Fails(why)) if why.ends_with("101: oh"))
        );
        assert!(matches!(sh("exec sleep 600", Duration::from_millis(50)), Err(Failure::Fails(_))));
    }
}
