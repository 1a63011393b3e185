//! HTTP/1.1 for the servers of several examples, on the parser `httparse`: bounded, and strict. A request is
//! refused if its length is not certain. Another server on the way may understand it otherwise, and would
//! take a part of the body for the next request.

use std::io::{self, BufRead, BufReader, Read, Write};

use runtime::net::TcpStream;

use crate::support::server::{within, wrong};

/// The most bytes of a head and of a body, and the most headers.
const HEAD: usize = 16 * 1024;
const BODY: usize = 4 * 1024 * 1024;
const HEADERS: usize = 64;

#[derive(Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
}

pub(crate) struct Reply {
    /// Like `200 OK`.
    pub(crate) status: &'static str,
    /// The type of the body.
    pub(crate) content: &'static str,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(status: &'static str, text: impl Into<Vec<u8>>) -> Reply {
        Reply { status, content: "text/plain; charset=utf-8", body: text.into() }
    }
}

/// Answers the requests of a connection, one after another, until the client or a request ends it.
pub(crate) fn serve(stream: &TcpStream, mut answer: impl FnMut(&Request) -> Reply) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut output = stream;
    let mut input = BufReader::with_capacity(HEAD, stream);
    loop {
        // Each request has its time as a whole: a client that sends a byte now and then gains nothing by it.
        let read = || request(&mut input, || output.write_all(b"HTTP/1.1 100 Continue\r\n\r\n"));
        match within(read) {
            Ok(None) => return Ok(()),
            Ok(Some(request)) => {
                let reply = answer(&request);
                within(|| write(&mut output, &request, &reply))?;
                if !request.keep_alive {
                    return Ok(());
                }
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    let reply = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    within(|| output.write_all(reply))?;
                }
                return Err(error);
            }
        }
    }
}

/// Writes a reply by one call, so that it is one packet if it is small.
fn write(output: &mut impl Write, request: &Request, reply: &Reply) -> io::Result<()> {
    let connection = if request.keep_alive { "keep-alive" } else { "close" };
    let mut bytes = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
        reply.status,
        reply.content,
        reply.body.len()
    )
    .into_bytes();
    if request.method != "HEAD" {
        bytes.extend_from_slice(&reply.body);
    }
    output.write_all(&bytes)
}

/// Reads the next request. Returns `None` if the client has closed the connection between two requests. Calls
/// `go_on` if the client waits for `100 Continue` before it sends the body.
pub(crate) fn request(
    input: &mut impl BufRead,
    go_on: impl FnOnce() -> io::Result<()>,
) -> io::Result<Option<Request>> {
    let Some(head) = head(input)? else { return Ok(None) };
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    if parsed.parse(&head).map_err(wrong)? != httparse::Status::Complete(head.len()) {
        return Err(wrong("the head of the request is not complete"));
    }
    let new = parsed.version == Some(1);
    let hosts = values(parsed.headers, "host").count();
    if hosts > 1 || new && hosts == 0 {
        return Err(wrong("a request has one header Host"));
    }
    let length = length(parsed.headers)?;
    if new && length > 0 && has(parsed.headers, "expect", "100-continue")? {
        go_on()?;
    }
    let kept = if new {
        !has(parsed.headers, "connection", "close")?
    } else {
        has(parsed.headers, "connection", "keep-alive")?
    };
    let request = Request {
        method: parsed.method.unwrap_or_default().into(),
        path: parsed.path.unwrap_or_default().into(),
        body: read_exact(input, length)?,
        keep_alive: kept,
    };
    Ok(Some(request))
}

/// Reads a head and the empty line that ends it. Each line must end with CR and LF; the parser refuses a CR
/// elsewhere. A line that continues the line before it is refused. Empty lines before a request are skipped.
fn head(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    loop {
        let start = head.len();
        input.take((HEAD - start) as u64).read_until(b'\n', &mut head)?;
        match &head[start..] {
            line if line.ends_with(b"\n") => check_line(line)?,
            _ if head.len() == HEAD => return Err(wrong("the head of the request is too long")),
            [] if start == 0 => return Ok(None),
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        match (start, &head[start..]) {
            (0, b"\r\n") => head.clear(),
            (_, b"\r\n") => return Ok(Some(head)),
            _ => {}
        }
    }
}

fn check_line(line: &[u8]) -> io::Result<()> {
    match line.strip_suffix(b"\r\n") {
        Some([b' ' | b'\t', ..]) => Err(wrong("a line of the head begins with a space")),
        Some(_) => Ok(()),
        None => Err(wrong("a line of the head ends without CR")),
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

/// Returns `true` if one of the words of a header is `word`, in small or large letters.
fn has(headers: &[httparse::Header<'_>], name: &'static str, word: &str) -> io::Result<bool> {
    let mut found = false;
    for value in values(headers, name) {
        found |= value?.split(',').any(|other| other.trim().eq_ignore_ascii_case(word));
    }
    Ok(found)
}

/// Returns the length of the body.
fn length(headers: &[httparse::Header<'_>]) -> io::Result<usize> {
    if values(headers, "transfer-encoding").next().is_some() {
        return Err(wrong("the encoding of the body is not supported"));
    }
    let mut length = None;
    for value in values(headers, "content-length") {
        let value = value?;
        // `parse` alone would take a sign.
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        let value = value.parse().ok().filter(|&value: &usize| digits && value <= BODY);
        let value = value.ok_or_else(|| wrong("the length of the body is no number, or is too large"))?;
        if length.replace(value).is_some_and(|other| other != value) {
            return Err(wrong("the request has two lengths"));
        }
    }
    Ok(length.unwrap_or(0))
}

/// Reads `length` bytes. The memory grows with what arrives, so a client gets none by a promise.
pub(crate) fn read_exact(input: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
