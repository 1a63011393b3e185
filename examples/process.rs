//! Runs shell commands at the same time, each with a time-out, and prints what they say.
//!
//! `cargo run --example process`, or with commands of your own: `cargo run --example process -- 'ls -l'
//! 'sleep 9'`

use std::io;

use runtime::process::{Command, Output};
use runtime::time::{Duration, timeout};

const LIMIT: Duration = Duration::from_millis(500);

/// Runs one command. Returns `None` if it lasts too long. It is killed then, because the time-out drops it.
fn run(script: &str) -> io::Result<Option<Output>> {
    let mut command = Command::new("sh");
    // `exec` replaces the shell, so that the program itself is killed.
    command.args(["-c", &format!("exec {script}")]).kill_on_drop(true);
    timeout(LIMIT, || command.output()).ok().transpose()
}

fn main() -> io::Result<()> {
    let mut scripts: Vec<String> = std::env::args().skip(1).collect();
    if scripts.is_empty() {
        scripts = ["echo hello", "uname -s", "sleep 60", "ls /no/such/path"].map(String::from).into();
    }
    runtime::block_on(|| {
        let runs: Vec<_> = scripts
            .into_iter()
            .map(|script| runtime::spawn(move || run(&script).map(|output| (script, output))))
            .collect();
        for run in runs {
            match run.join().expect("it does not panic")? {
                (script, None) => println!("{script}: killed after {LIMIT:?}"),
                (script, Some(output)) => {
                    let said = [output.stdout, output.stderr].concat();
                    println!("{script}: {}; {}", output.status, String::from_utf8_lossy(&said).trim_end());
                }
            }
        }
        Ok(())
    })
}
