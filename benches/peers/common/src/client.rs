//! The client of `conns-memory`: the same program once more, which holds the connections.

use std::process::{Child, Command, Stdio};

/// A client that has been started.
pub struct Client(Child);

impl Client {
    /// Starts one that opens `n` connections to the port.
    pub fn start(port: u16, n: usize, procs: usize) -> Client {
        let child = Command::new(std::env::current_exe().expect("its own path"))
            .args(["conns-client", "--port", &port.to_string(), "--n", &n.to_string()])
            .args(["--procs", &procs.to_string()])
            .stdout(Stdio::null())
            .spawn();
        Client(child.expect("the client starts"))
    }

    /// Ends it, and waits for its end.
    pub fn end(mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("the client can be killed");
    }
}
