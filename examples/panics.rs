//! A server that answers a request also if its handler panics: with status 500, on the same connection. Other
//! panics, outside of handlers, end their connection only.
//!
//! ```sh
//! cargo run --release --example panics                       # with a client of its own, for a moment
//! cargo run --release --example panics -- 127.0.0.1:8085     # until Ctrl-C
//! curl -i http://127.0.0.1:8085/12/4 http://127.0.0.1:8085/1/0 http://127.0.0.1:8085/
//! ```

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use http::{Reply, Request};
use runtime::net::TcpStream;
use runtime::thread::Cancelled;
use runtime::time::Elapsed;
use support::Args;
use support::server::{self, wrong};

#[path = "support/http.rs"]
mod http;
mod support;

const USAGE: &str =
    "usage: panics [ADDR]\n\n  ADDR   serve there (like 127.0.0.1:8085) until SIGTERM or SIGINT";

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    args.end();
    server::run(addr.as_deref(), |stream| http::serve(&stream, caught), client)
}

/// Answers a request, also if its handler panics.
fn caught(request: &Request) -> Reply {
    // The handler gets nothing that a panic could leave half changed.
    match catch_unwind(AssertUnwindSafe(|| divide(request))) {
        Ok(reply) => reply,
        // Cancellations and time-outs unwind, too. The server's end cancels its connections, and this must go
        // on.
        Err(payload) if payload.is::<Cancelled>() || payload.is::<Elapsed>() => resume_unwind(payload),
        Err(_) => Reply::text("500 Internal Server Error", "the handler has panicked\n"),
    }
}

/// Answers `/A/B` with A / B. A division by zero panics.
fn divide(request: &Request) -> Reply {
    let mut words = request.path.split('/').skip(1).map(str::parse::<i64>);
    match (words.next(), words.next()) {
        (Some(Ok(a)), Some(Ok(b))) => Reply::text("200 OK", format!("{}\n", a / b)),
        _ => Reply::text("404 Not Found", "ask for a path like /12/4\n"),
    }
}

/// A client. Its second request makes the handler panic.
fn client(addr: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(addr)?;
    stream.write_all(b"GET /12/4 HTTP/1.1\r\nHost: x\r\n\r\nGET /1/0 HTTP/1.1\r\nHost: x\r\n\r\n")?;
    stream.write_all(b"GET /9/3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut replies = String::new();
    stream.read_to_string(&mut replies)?;
    let lines: Vec<_> = replies.lines().filter(|line| line.starts_with("HTTP/1.1 ")).collect();
    println!("{}", lines.join("\n"));
    match lines[..] {
        ["HTTP/1.1 200 OK", "HTTP/1.1 500 Internal Server Error", "HTTP/1.1 200 OK"] => Ok(()),
        _ => Err(wrong("another status is expected")),
    }
}
