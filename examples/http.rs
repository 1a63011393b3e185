//! An HTTP/1.1 server, written as for blocking sockets: a green thread for each connection. The protocol is
//! in `support/http.rs`, on the parser `httparse`.
//!
//! ```sh
//! cargo run --release --example http                       # with a client of its own, for a moment
//! cargo run --release --example http -- 127.0.0.1:8080     # until Ctrl-C
//! curl -i http://127.0.0.1:8080/ --next -d hello http://127.0.0.1:8080/echo
//! wrk -c 100 -d 5 http://127.0.0.1:8080/
//! ```

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use http::{Reply, Request};
use runtime::net::TcpStream;
use support::Args;
use support::server::{self, wrong};

#[path = "support/http.rs"]
mod http;
mod support;

const USAGE: &str =
    "usage: http [ADDR]\n\n  ADDR   serve there (like 127.0.0.1:8080) until SIGTERM or SIGINT";

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    args.end();
    server::run(addr.as_deref(), |stream| http::serve(&stream, answer), client)
}

fn answer(request: &Request) -> Reply {
    match (&*request.method, &*request.path) {
        ("GET" | "HEAD", "/") => Reply::text("200 OK", "hello from a green thread\n"),
        ("POST", "/echo") => Reply::text("200 OK", request.body.clone()),
        (_, "/" | "/echo") => Reply::text("405 Method Not Allowed", "method not allowed\n"),
        _ => Reply::text("404 Not Found", "nothing here\n"),
    }
}

/// A client that sends two requests at once and checks both answers.
fn client(addr: SocketAddr) -> io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(addr)?);
    let requests = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\
                     POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    stream.get_mut().write_all(requests)?;
    for expected in ["hello from a green thread\n", "abc"] {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        println!("{}", line.trim());
        while line.trim() != "" {
            line.clear();
            stream.read_line(&mut line)?;
        }
        let mut body = vec![0; expected.len()];
        stream.read_exact(&mut body)?;
        if body != expected.as_bytes() {
            return Err(wrong(format_args!("the body is {:?}", String::from_utf8_lossy(&body))));
        }
    }
    println!("two requests, two answers");
    Ok(())
}
