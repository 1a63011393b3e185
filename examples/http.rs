//! An HTTP/1.1 server on the parser `httparse`, written as for blocking sockets: a green thread for each connection.
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

use runtime::net::TcpStream;
use support::Args;
use support::server::{self, wrong};

mod support;

const USAGE: &str =
    "usage: http [ADDR]\n\n  ADDR   serve there (like 127.0.0.1:8080) until SIGTERM or SIGINT";

/// A request with a larger head or body is refused.
const HEAD: usize = 64 * 1024;
const BODY: usize = 64 * 1024 * 1024;

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    args.end();
    server::run(addr.as_deref(), serve, client)
}

struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
    keep_alive: bool,
}

/// A connection with the bytes that were read and not yet parsed. A client may send several requests at once.
struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
}

fn serve(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut connection = Connection { stream, input: Vec::new() };
    loop {
        match connection.request() {
            Ok(None) => return Ok(()),
            Ok(Some(request)) => {
                connection.stream.write_all(&answer(&request))?;
                if !request.keep_alive {
                    return Ok(());
                }
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    let head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    connection.stream.write_all(head)?;
                }
                return Err(error);
            }
        }
    }
}

/// Returns the values of a header.
fn values<'h>(
    headers: &'h [httparse::Header<'h>],
    name: &'static str,
) -> impl Iterator<Item = io::Result<&'h str>> {
    let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.map(move |header| {
        str::from_utf8(header.value).map_err(|_| wrong(format_args!("the value of {name} is not UTF-8")))
    })
}

/// Returns the length of the body. What is not certain is refused: another server on the way may understand it otherwise,
/// and would take a part of the body for the next request.
fn length(headers: &[httparse::Header<'_>]) -> io::Result<usize> {
    if values(headers, "transfer-encoding").next().is_some() {
        return Err(wrong("the encoding of the body is not supported"));
    }
    let mut length = None;
    for value in values(headers, "content-length") {
        let value = value?;
        // `parse` alone would take a sign.
        let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let value = value.parse().ok().filter(|&value: &usize| digits && value <= BODY);
        let value = value.ok_or_else(|| wrong("the length of the body is no number, or is too large"))?;
        if length.replace(value).is_some_and(|other| other != value) {
            return Err(wrong("the request has two lengths"));
        }
    }
    Ok(length.unwrap_or(0))
}

impl Connection {
    /// Reads the next request. Returns `None` if the client has closed the connection between two requests.
    fn request(&mut self) -> io::Result<Option<Request>> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut parsed = httparse::Request::new(&mut headers);
            if let httparse::Status::Complete(head) = parsed.parse(&self.input).map_err(wrong)? {
                let length = length(parsed.headers)?;
                let header = |name: &'static str| values(parsed.headers, name).next().transpose();
                let keeps = parsed.version == Some(1);
                let mut request = Request {
                    method: parsed.method.unwrap_or_default().into(),
                    path: parsed.path.unwrap_or_default().into(),
                    body: Vec::new(),
                    keep_alive: header("connection")?
                        .map_or(keeps, |value| !value.eq_ignore_ascii_case("close")),
                };
                let waits = header("expect")?.is_some_and(|value| value.eq_ignore_ascii_case("100-continue"));
                if waits && self.input.len() < head + length {
                    self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                }
                while self.input.len() < head + length {
                    self.more()?;
                }
                request.body = self.input[head..head + length].to_vec();
                self.input.drain(..head + length);
                return Ok(Some(request));
            }
            if self.input.len() > HEAD {
                return Err(wrong("the head of the request is too long"));
            }
            match self.more() {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.input.is_empty() => {
                    return Ok(None);
                }
                read => read?,
            }
        }
    }

    fn more(&mut self) -> io::Result<()> {
        let mut piece = [0; 16 * 1024];
        let n = self.stream.read(&mut piece)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.input.extend_from_slice(&piece[..n]);
        Ok(())
    }
}

fn answer(request: &Request) -> Vec<u8> {
    let (status, body) = match (&*request.method, &*request.path) {
        ("GET" | "HEAD", "/") => ("200 OK", &b"hello from a green thread\n"[..]),
        ("POST", "/echo") => ("200 OK", &*request.body),
        (_, "/" | "/echo") => ("405 Method Not Allowed", &b"method not allowed\n"[..]),
        _ => ("404 Not Found", &b"nothing here\n"[..]),
    };
    let connection = if request.keep_alive { "keep-alive" } else { "close" };
    let mut answer =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n", body.len())
            .into_bytes();
    if request.method != "HEAD" {
        answer.extend_from_slice(body);
    }
    answer
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
