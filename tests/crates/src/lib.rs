//! Test helpers: a watchdog, and servers from Debian packages. A server runs for one test.

mod load;
mod mariadb;
mod postgres;
mod redis;

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub use load::{load_by_h2load, load_by_wrk};
pub use mariadb::MariaDb;
pub use postgres::Postgres;
pub use redis::Redis;

/// Ends the process if a test hangs.
#[derive(Debug)]
pub struct Watchdog {
    // Dropping this sender tells the watchdog that the test has ended.
    _ends: std::sync::mpsc::Sender<()>,
}

impl Watchdog {
    /// Starts a watchdog for a test that lasts less than a minute. Dropping the returned value stops the
    /// watchdog.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self::within(Duration::from_secs(60))
    }

    /// Starts a watchdog for a test that lasts less than `time`.
    #[must_use]
    pub fn within(time: Duration) -> Self {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let watch = move || {
            if receiver.recv_timeout(time) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("the test hangs");
                let _ = runtime::dump(&mut std::io::stderr());
                std::process::abort();
            }
        };
        std::thread::Builder::new().name("watchdog".into()).spawn(watch).expect("a watchdog");
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

/// Returns a port of loopback for a server that is about to listen, below the ports that the kernel gives to
/// clients. No other call in this process returns it: a port is free until its server listens, so that two
/// tests could otherwise get the same one.
pub fn free_port() -> u16 {
    const PORTS: std::ops::Range<u16> = 16_384..32_768;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // Processes begin at different ports.
    let first = std::process::id() as usize * 61;
    for _ in PORTS {
        let port = PORTS.start + ((first + NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS.len()) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port of {PORTS:?} is free");
}

/// Waits until `port` of loopback accepts connections.
pub fn wait_for_port(port: u16) {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < Duration::from_secs(30), "no server listens on port {port}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a new temporary folder for the data of the server `name`. Several tests of a process may run such
/// a server.
fn folder_for(name: &str) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("{name}-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

/// Makes a certificate for `localhost` that signs itself, in `folder`: `server.crt` and `server.key`. Returns
/// `false` if openssl is not installed.
pub fn make_certificate(folder: &Path) -> bool {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args([
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-days",
        "2",
    ]);
    openssl.args(["-keyout", "server.key", "-out", "server.crt"]).current_dir(folder);
    match openssl.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(_) => false,
    }
}
