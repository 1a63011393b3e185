//! A server with a metrics endpoint for Prometheus: counters and gauges of the runtime and of the server, as
//! text.
//!
//! ```sh
//! cargo run --release --example metrics                       # with a client of its own, for a moment
//! cargo run --release --example metrics -- 127.0.0.1:8084     # until Ctrl-C
//! curl http://127.0.0.1:8084/metrics
//! ```

use std::fmt::{Display, Write as _};
use std::io::{self, Read, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Reply, Request};
use runtime::metrics::Snapshot;
use runtime::net::TcpStream;
use support::Args;
use support::server::{self, wrong};

#[path = "support/http.rs"]
mod http;
mod support;

const USAGE: &str =
    "usage: metrics [ADDR]\n\n  ADDR   serve there (like 127.0.0.1:8084) until SIGTERM or SIGINT";

/// The server's own figure.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    args.end();
    server::run(addr.as_deref(), |stream| http::serve(&stream, answer), client)
}

fn answer(request: &Request) -> Reply {
    REQUESTS.fetch_add(1, Ordering::Relaxed);
    match (&*request.method, &*request.path) {
        ("GET" | "HEAD", "/") => Reply::text("200 OK", "the figures are at /metrics\n"),
        ("GET" | "HEAD", "/metrics") => Reply {
            status: "200 OK",
            content: "text/plain; version=0.0.4; charset=utf-8",
            body: exposition(&runtime::metrics::snapshot()).into_bytes(),
        },
        (_, "/" | "/metrics") => Reply::text("405 Method Not Allowed", "method not allowed\n"),
        _ => Reply::text("404 Not Found", "nothing here\n"),
    }
}

/// Returns the figures in the text format of Prometheus.
fn exposition(of: &Snapshot) -> String {
    let mut text = String::new();
    let requests = REQUESTS.load(Ordering::Relaxed);
    metric(&mut text, "counter", "http_requests_total", "Requests that this server has received.", requests);
    metric(
        &mut text,
        "gauge",
        "runtime_procs",
        "Green threads that run at the same moment, at most.",
        of.procs,
    );
    metric(&mut text, "gauge", "runtime_os_threads", "OS threads that run green threads.", of.threads);
    metric(&mut text, "gauge", "runtime_green_threads_runnable", "Green threads ready to run.", of.runnable);
    metric(&mut text, "gauge", "runtime_green_threads_running", "Green threads that run.", of.running);
    metric(&mut text, "gauge", "runtime_green_threads_waiting", "Green threads that are parked.", of.waiting);
    metric(&mut text, "gauge", "runtime_timers_pending", "Timers that are pending.", of.timers_pending);
    metric(&mut text, "counter", "runtime_spawned_total", "Green threads spawned.", of.spawned);
    metric(&mut text, "counter", "runtime_ended_total", "Green threads that have ended.", of.ended);
    metric(&mut text, "counter", "runtime_parks_total", "Times that a green thread parked.", of.parks);
    metric(&mut text, "counter", "runtime_steals_total", "Times that a P stole green threads.", of.steals);
    metric(&mut text, "counter", "runtime_net_wakeups_total", "Wake-ups by the network.", of.net_wakeups);
    text.push_str("# HELP runtime_run_queue_length Green threads in the run queue of a P.\n");
    text.push_str("# TYPE runtime_run_queue_length gauge\n");
    for (p, length) in of.local_queues.iter().enumerate() {
        writeln!(text, "runtime_run_queue_length{{p=\"{p}\"}} {length}").expect("a string takes everything");
    }
    text
}

fn metric(text: &mut String, kind: &str, name: &str, help: &str, value: impl Display) {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")
        .expect("a string takes everything");
}

/// A client that reads the figures and checks their form.
fn client(addr: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(addr)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let (_head, figures) = reply.split_once("\r\n\r\n").ok_or_else(|| wrong("no head"))?;
    for line in figures.lines().filter(|line| !line.starts_with('#')) {
        let value = line.rsplit_once(' ').and_then(|(_name, value)| value.parse::<f64>().ok());
        value.ok_or_else(|| wrong(format_args!("{line:?} has no value")))?;
    }
    print!("{figures}");
    Ok(())
}
