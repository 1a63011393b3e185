//! The client process of `conns-memory`. The client is the same program, started again, and holds the
//! connections.

use std::process::{Child, Command, Stdio};

/// A running client.
pub struct Client(Child);

impl Client {
    /// Starts a client that opens `n` connections to the port.
    pub fn start(port: u16, n: usize, procs: usize) -> Client {
        let child = Command::new(std::env::current_exe().expect("the path of this program is known"))
            .args(["conns-client", "--port", &port.to_string(), "--n", &n.to_string()])
            .args(["--procs", &procs.to_string()])
            .stdout(Stdio::null())
            .spawn();
        Client(child.expect("the client starts"))
    }

    /// Kills the client, and waits for its end.
    pub fn end(mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("the client can be killed");
    }
}
