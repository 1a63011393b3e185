//! A PostgreSQL server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{folder_for, free_port, make_certificate};

/// A PostgreSQL server on a free port of loopback, with its data in a temporary folder.
#[derive(Debug)]
pub struct Postgres {
    server: Child,
    folder: PathBuf,
    /// The port on which the server listens.
    pub port: u16,
}

impl Postgres {
    /// Starts a server for 100 clients and waits until the server accepts connections. Returns `None` if
    /// PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with(100, false)
    }

    /// Starts a server for `clients` connections. With `tls` the server also speaks TLS, with a certificate
    /// for `localhost`. Returns `None` if PostgreSQL is not installed, or openssl if it is needed.
    pub fn start_with(clients: usize, tls: bool) -> Option<Self> {
        let programs = newest_programs()?;
        let folder = folder_for("postgres");
        if tls && !make_certificate(&folder) {
            return None;
        }
        // The server refuses to run as root.
        let owned =
            Command::new("chown").args(["-R", "postgres"]).arg(&folder).stderr(Stdio::null()).status();
        let as_root = owned.is_ok_and(|status| status.success());
        let data = folder.join("data");
        let mut initdb = run(&programs.join("initdb"), as_root);
        initdb.args(["--auth=trust", "--username=postgres", "--no-sync", "-D"]).arg(&data);
        assert!(initdb.stdout(Stdio::null()).status().expect("initdb").success());
        let port = free_port();
        let mut server = run(&programs.join("postgres"), as_root);
        server.arg("-D").arg(&data).arg("-k").arg(&folder).args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        let mut set = |name: &str, value: &str| {
            server.arg("-c").arg(format!("{name}={value}"));
        };
        set("max_connections", &(clients + 20).to_string());
        set("fsync", "off");
        if tls {
            let file = |name| folder.join(name).to_string_lossy().into_owned();
            set("ssl", "on");
            set("ssl_cert_file", &file("server.crt"));
            set("ssl_key_file", &file("server.key"));
        }
        server.stdout(Stdio::null()).stderr(Stdio::null());
        let server = Postgres { server: server.spawn().expect("postgres"), folder, port };
        server.wait_until_ready(&programs);
        Some(server)
    }

    /// Returns the path of the server's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("server.crt")
    }

    fn wait_until_ready(&self, programs: &Path) {
        let start = Instant::now();
        let mut ready = Command::new(programs.join("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        while !ready.status().expect("pg_isready").success() {
            assert!(start.elapsed() < Duration::from_secs(30), "PostgreSQL does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT requests a fast shutdown. The signal must go to the server itself, not to `runuser`, its
        // parent.
        let pid = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
        if let Some(pid) = pid.lines().next() {
            let _ = Command::new("kill").args(["-INT", pid]).status();
        }
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn newest_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut programs: Vec<_> = versions.flatten().map(|version| version.path().join("bin")).collect();
    programs.retain(|programs| programs.join("postgres").exists());
    programs.sort();
    programs.pop()
}

fn run(program: &Path, as_root: bool) -> Command {
    if !as_root {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(program).current_dir("/");
    command
}
