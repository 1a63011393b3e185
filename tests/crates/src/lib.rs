//! Test helpers: a watchdog, and servers from Debian packages. A server runs for one test.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ends the process if a test hangs.
#[derive(Debug)]
pub struct Watchdog {
    // Dropping this sender tells the watchdog that the test has ended.
    _ends: std::sync::mpsc::Sender<()>,
}

impl Watchdog {
    /// Starts a watchdog for a test that lasts less than a minute. Dropping the returned value stops the watchdog.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self::within(Duration::from_secs(60))
    }

    /// Starts a watchdog for a test that lasts less than `time`.
    #[must_use]
    pub fn within(time: Duration) -> Self {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            if receiver.recv_timeout(time) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("the test hangs");
                let _ = runtime::dump(&mut std::io::stderr());
                std::process::abort();
            }
        });
        Watchdog { _ends: sender }
    }
}

/// Prints that a test is left out because a program is missing. Panics if `CI=true`.
pub fn missing(program: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{program} is not installed: run ci/setup.sh");
    eprintln!("LEFT OUT: {program} is not installed");
}

/// Returns how long each load by wrk or h2load lasts: `LOAD_SECONDS`, 1 by default.
pub fn load_seconds() -> u64 {
    std::env::var("LOAD_SECONDS").map_or(1, |text| text.parse().expect("LOAD_SECONDS is a number"))
}

/// A PostgreSQL server on a free port of loopback, with its data in a temporary folder.
#[derive(Debug)]
pub struct Postgres {
    server: Child,
    folder: PathBuf,
    /// The port on which the server listens.
    pub port: u16,
}

impl Postgres {
    /// Starts a server and waits until the server accepts connections. Returns `None` if PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        let programs = newest_programs()?;
        let folder = std::env::temp_dir().join(format!("postgres-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a temporary folder");
        // The server refuses to run as root.
        let owned = Command::new("chown").arg("postgres").arg(&folder).status();
        let as_root = owned.is_ok_and(|status| status.success());
        let data = folder.join("data");
        let mut initdb = run(&programs.join("initdb"), as_root);
        initdb.args(["--auth=trust", "--username=postgres", "--no-sync", "-D"]).arg(&data);
        assert!(initdb.stdout(Stdio::null()).status().expect("initdb").success());
        let port = free_port();
        let mut server = run(&programs.join("postgres"), as_root);
        server.arg("-D").arg(&data).arg("-k").arg(&folder).args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        server
            .args(["-c", "max_connections=120", "-c", "fsync=off"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Postgres { server: server.spawn().expect("postgres"), folder, port };
        server.wait_until_ready(&programs);
        Some(server)
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
        // SIGINT requests a fast shutdown. The signal must go to the server itself, not to `runuser`, its parent.
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

/// Returns a port of loopback that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// Waits until `port` of loopback accepts connections.
pub fn wait_for_port(port: u16) {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < Duration::from_secs(30), "no server listens on port {port}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
