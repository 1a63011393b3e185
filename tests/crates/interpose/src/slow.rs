//! The program `slow_server`, for one test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A running `slow_server`.
#[derive(Debug)]
pub struct SlowServer {
    process: Child,
    /// The port on which the server listens.
    pub port: u16,
}

impl SlowServer {
    /// Starts `program` with `args`: milliseconds and a protocol.
    pub fn start(program: &str, args: &[&str]) -> SlowServer {
        let mut server = Command::new(program);
        let mut process =
            server.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect(program);
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("the port");
        SlowServer { process, port: line.trim().parse().expect("the port") }
    }
}

impl Drop for SlowServer {
    fn drop(&mut self) {
        // The server ends when its standard input is closed.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
