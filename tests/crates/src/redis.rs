//! A Redis server.

use std::process::{Child, Command, Stdio};

use super::{free_port, wait_for_port};

/// A Redis server on a free port of loopback, without files.
#[derive(Debug)]
pub struct Redis {
    server: Child,
    /// The port on which the server listens.
    pub port: u16,
}

impl Redis {
    /// Starts a server and waits until the server accepts connections. Returns `None` if Redis is not
    /// installed.
    pub fn start() -> Option<Self> {
        let port = free_port();
        let mut server = Command::new("redis-server");
        server.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        let server = Redis { server: server.stdout(Stdio::null()).spawn().ok()?, port };
        wait_for_port(port);
        Some(server)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
