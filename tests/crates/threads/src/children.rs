//! Children of the process, started by many threads at the same time.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;

pub fn run() {
    let threads: Vec<_> = (0..20).map(|number| thread::spawn(move || start(number))).collect();
    threads.into_iter().for_each(|thread| print!("{}", thread.join().unwrap()));
    println!("{:?}", Command::new("/does/not/exist").spawn().map_err(|error| error.kind()).err());
}

/// Returns what two children have printed, and how the second has ended.
fn start(number: u32) -> String {
    let echo = Command::new("echo").arg(format!("thread {number}")).output().unwrap();
    let script = "read line; echo \"has read $line\"; exit 3";
    let mut shell = Command::new("sh");
    let mut shell = shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(&echo.stdout).unwrap();
    let mut answer = String::new();
    shell.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    format!("{} {answer}", shell.wait().unwrap().code().unwrap())
}
