//! Properties of the parsers, for any bytes. A property that does not hold panics.
//!
//! - The results do not depend on where the bytes are split, and neither does the error.
//! - What is accepted is what the protocol says, by a second and simpler look at its bytes.

use std::fmt::Debug;
use std::io::{self, BufRead, BufReader, Read, Write};

use crate::http::Request;

/// The results of a parser until the end of its input or an error, and that error.
type Results<T> = (Vec<T>, Option<String>);
type Parser<T> = fn(&mut dyn BufRead) -> io::Result<Option<T>>;

/// Splits at every position of a short input, and at this many positions of a long one.
const SPLITS: usize = 64;

/// Checks the requests of `support/http.rs`.
pub fn http(bytes: &[u8]) {
    let parse: Parser<Request> = |mut input| crate::http::request(&mut input, || Ok(()));
    check_splits(bytes, parse);
    check_each(bytes, parse, check_request);
}

/// Checks the commands of `support/resp.rs`.
pub fn resp(bytes: &[u8]) {
    let parse: Parser<Vec<Vec<u8>>> = |mut input| crate::resp::command(&mut input);
    check_splits(bytes, parse);
    check_each(bytes, parse, check_command);
}

/// Checks the lines of `support/server.rs`, for the longest line of `chat` and a short one.
pub fn line(bytes: &[u8]) {
    let short: Parser<String> = |mut input| crate::support::server::line(&mut input, 20);
    let long: Parser<String> = |mut input| crate::support::server::line(&mut input, 1000);
    for (parse, most) in [(short, 20), (long, 1000)] {
        check_splits(bytes, parse);
        check_each(bytes, parse, |line, raw| {
            let text = raw.strip_suffix(b"\n").expect("a line ends");
            assert!(raw.len() <= most);
            assert_eq!(text.strip_suffix(b"\r").unwrap_or(text), line.as_bytes());
            assert!(line.chars().all(|letter| letter == '\t' || !letter.is_control()), "{line:?}");
        });
    }
}

/// Checks that the example `websocket` writes the same, wherever the frames after its handshake are split.
pub fn websocket(bytes: &[u8]) {
    let echo = |mut input: &mut dyn Read| {
        let mut stream = Memory { input: &mut input, output: Vec::new() };
        let error = crate::websocket::serve(&mut stream).err().map(|error| error.to_string());
        (stream.output, error)
    };
    // A handshake. Its reader refuses one that comes byte by byte, and bytes behind it in the same read.
    echo(&mut &*bytes);
    let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let whole = echo(&mut request.chain(bytes));
    assert_eq!(echo(&mut request.chain(OneByOne(bytes))), whole);
    assert!(whole.0.len() <= 2 * bytes.len() + 1000, "an echo has the length of its message");
}

/// A stream of bytes in memory.
struct Memory<'a> {
    input: &'a mut dyn Read,
    output: Vec<u8>,
}

impl Read for Memory<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.input.read(into)
    }
}

impl Write for Memory<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Each read returns one byte.
struct OneByOne<'a>(&'a [u8]);

impl Read for OneByOne<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let end = into.len().min(1);
        self.0.read(&mut into[..end])
    }
}

fn results<T>(input: &mut dyn BufRead, parse: Parser<T>) -> Results<T> {
    let mut results = Vec::new();
    loop {
        match parse(input) {
            Ok(Some(result)) => results.push(result),
            Ok(None) => return (results, None),
            Err(error) => return (results, Some(error.to_string())),
        }
    }
}

/// Parses the bytes in one piece, in two pieces for each split, and one by one.
fn check_splits<T: Debug + PartialEq>(bytes: &[u8], parse: Parser<T>) {
    let whole = results(&mut &*bytes, parse);
    let one_by_one = results(&mut BufReader::with_capacity(1, bytes), parse);
    assert_eq!(one_by_one, whole, "byte by byte");
    for at in (0..bytes.len()).step_by(bytes.len().div_ceil(SPLITS).max(1)) {
        let (first, second) = bytes.split_at(at);
        assert_eq!(results(&mut first.chain(second), parse), whole, "split at {at}");
    }
}

/// Calls `check` with each result and the bytes that it came from.
fn check_each<T>(bytes: &[u8], parse: Parser<T>, check: impl Fn(&T, &[u8])) {
    let mut left = bytes;
    while let (before, Ok(Some(result))) = (left, parse(&mut left)) {
        check(&result, &before[..before.len() - left.len()]);
    }
}

/// Checks a request by its bytes: its length is certain, and no other reader could see another head.
fn check_request(request: &Request, raw: &[u8]) {
    let raw = &raw[raw.iter().position(|&byte| byte != b'\r' && byte != b'\n').expect("a request")..];
    let end = raw.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("the end of the head");
    let (head, body) = (&raw[..end], &raw[end + 4..]);
    assert_eq!(body, request.body);
    let lines: Vec<_> = head.split(|&byte| byte == b'\n').map(|line| line.trim_ascii_end()).collect();
    let ends = head.iter().filter(|&&byte| byte == b'\r' || byte == b'\n').count();
    assert_eq!(ends, 2 * (lines.len() - 1), "each line has one CR and one LF, at its end");
    assert!(head.iter().all(|&byte| byte != 0), "no NUL");

    let words: Vec<_> = lines[0].split(|&byte| byte == b' ').collect();
    assert_eq!(words.len(), 3, "{:?}", lines[0].escape_ascii());
    assert_eq!((words[0], words[1]), (request.method.as_bytes(), request.path.as_bytes()));
    assert!(matches!(words[2], b"HTTP/1.0" | b"HTTP/1.1"));

    let (mut lengths, mut hosts) = (Vec::new(), 0);
    for line in &lines[1..] {
        assert!(!line.starts_with(b" ") && !line.starts_with(b"\t"), "no line continues another");
        let colon = line.iter().position(|&byte| byte == b':').expect("a header has a colon");
        let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
        assert!(!name.is_empty() && name.iter().all(u8::is_ascii_graphic), "{:?}", name.escape_ascii());
        assert_ne!(name, b"transfer-encoding");
        hosts += usize::from(name == b"host");
        if name == b"content-length" {
            assert!(!value.is_empty() && value.iter().all(u8::is_ascii_digit), "{:?}", value.escape_ascii());
            lengths.push(String::from_utf8_lossy(value).parse::<usize>().expect("a number"));
        }
    }
    assert!(lengths.iter().all(|&length| length == body.len()), "{lengths:?}");
    assert!(!lengths.is_empty() || body.is_empty());
    assert!(hosts == 1 || hosts == 0 && words[2] == b"HTTP/1.0");
}

/// Checks a command: an array has one form only, and the words of a line are those between its spaces.
fn check_command(words: &Vec<Vec<u8>>, raw: &[u8]) {
    if raw.starts_with(b"*") {
        let mut array = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            array.extend([format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat());
        }
        assert!(array == raw, "{} is not {}", array.escape_ascii(), raw.escape_ascii());
    } else {
        let spaced = raw.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        assert!(spaced.eq(words), "{words:?} of {}", raw.escape_ascii());
        assert_eq!(raw.iter().position(|&byte| byte == b'\n'), Some(raw.len() - 1));
    }
}
