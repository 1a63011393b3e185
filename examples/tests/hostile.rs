//! The server examples with clients that break the protocols, send without end, read nothing, or reset.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use helpers::tls::{self, Tls};
use helpers::{NEEDS_HYPER, Server, Test, descriptors, exchange, memory, wait_until};

mod helpers;

const TESTS: &[Test] = &[
    ("http_refuses_requests_that_are_not_certain", &[], http_refuses_requests_that_are_not_certain),
    ("redis_bounds_commands_and_forges_no_reply", &[], redis_bounds_commands_and_forges_no_reply),
    ("chat_takes_no_name_that_forges_lines", &[], chat_takes_no_name_that_forges_lines),
    ("lines_without_end_are_refused", &[], lines_without_end_are_refused),
    ("tls_refuses_lines_without_end", &[], tls_refuses_lines_without_end),
    ("websocket_refuses_large_messages", &[], websocket_refuses_large_messages),
    ("clients_that_read_nothing_use_little_memory", &[], clients_that_read_nothing_use_little_memory),
    ("chat_forgets_a_member_that_reads_nothing", &[], chat_forgets_a_member_that_reads_nothing),
    ("proxy_forgets_clients_that_reset", &[], proxy_forgets_clients_that_reset),
    ("clients_that_dawdle_lose_their_connections", &[], clients_that_dawdle_lose_their_connections),
    ("hyper_bounds_bodies", &[NEEDS_HYPER], hyper_bounds_bodies),
];

fn main() {
    helpers::run(TESTS);
}

fn http_refuses_requests_that_are_not_certain() {
    let server = Server::start("http", &[]);
    let request = |headers: &[u8]| {
        [&b"POST /echo HTTP/1.1\r\nHost: x\r\n"[..], headers, b"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"]
            .concat()
    };
    let refused: &[&[u8]] = &[
        b"Content-Length: +5",
        b"Content-Length: -5",
        b"Content-Length: 5, 5",
        b"Content-Length:",
        b"Content-Length: 0x5",
        b"Content-Length: 99999999999999999999",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: \xff",
        b"Transfer-Encoding: chunked",
        b"Content-Length: 5\r\nTransfer-Encoding: identity",
        b"Content-Length : 5",
        b"X: a\r\n Content-Length: 5",
        b"X: a\nContent-Length: 5",
        b"X: a\rContent-Length: 5",
        b"X: a\0",
        b"Host: y",
    ];
    for headers in refused {
        let reply = exchange(&server.addr, &request(headers));
        let what = String::from_utf8_lossy(headers);
        assert!(
            reply.starts_with("HTTP/1.1 400 ") && reply.matches("HTTP/1.1").count() == 1,
            "{what}: {reply}"
        );
    }
    assert!(exchange(&server.addr, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "));
    // Two equal lengths leave no doubt.
    let twice =
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    assert!(exchange(&server.addr, twice).ends_with("\r\n\r\nok"));
}

fn redis_bounds_commands_and_forges_no_reply() {
    let server = Server::start("redis", &[]);
    let before = memory(&server);
    // Each word and their number are within bounds, but not the words together.
    let word = [&b"$500000\r\n"[..], &vec![b'a'; 500_000], b"\r\n"].concat();
    let command = [&b"*1000\r\n"[..], &word.repeat(20)].concat();
    assert_eq!(exchange(&server.addr, &command), "");
    for refused in
        ["*+1\r\n$4\r\nPING\r\n", "*1\r\n$4\r\nPINGPING\r\n", "*1\n$4\nPING\n", "*1\r\n$-4\r\nPING\r\n"]
    {
        assert_eq!(exchange(&server.addr, refused.as_bytes()), "", "{refused:?}");
    }
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 20 << 20, "{grown} bytes more");
    // A reply has one line, whatever the name of the command.
    let reply = exchange(&server.addr, b"*1\r\n$8\r\nx\r\n+OK\r\n\r\n*1\r\n$4\r\nQUIT\r\n");
    let lines: Vec<_> = reply.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("-ERR unknown") && lines[1] == "+OK", "{reply:?}");
    // The store is bounded, too.
    let mut stream = TcpStream::connect(&server.addr).unwrap();
    let (mut stored, mut line) = (0, String::new());
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    while !line.starts_with("-OOM") && stored < 300 {
        let key = format!("key{stored:03}");
        let set = format!("*3\r\n$3\r\nSET\r\n$6\r\n{key}\r\n");
        stream.write_all(&[set.as_bytes(), &word].concat()).unwrap();
        line.clear();
        replies.read_line(&mut line).unwrap();
        stored += 1;
    }
    assert!(line.starts_with("-OOM"), "{stored} values of 500,000 bytes: {line}");
}

fn lines_without_end_are_refused() {
    let endless = vec![b'a'; 4 << 20];
    let chat = Server::start("chat", &[]);
    assert_eq!(exchange(&chat.addr, &endless), "your name?\n");
    let redis = Server::start("redis", &[]);
    assert_eq!(exchange(&redis.addr, &endless), "");
    let http = Server::start("http", &[]);
    assert!(exchange(&http.addr, &[b"GET /", &endless[..]].concat()).matches("200 OK").count() == 0);
    for server in [&chat, &redis, &http] {
        let bytes = memory(server);
        assert!(bytes < 64 << 20, "{bytes} bytes");
    }
}

fn chat_takes_no_name_that_forges_lines() {
    let server = Server::start("chat", &[]);
    for name in ["", "* bob has gone", "bob: hello", "b\u{1b}[2J", &"x".repeat(33)] {
        let said = exchange(&server.addr, format!("{name}\n").as_bytes());
        assert!(!said.contains("welcome"), "{name:?}: {said}");
    }
}

fn tls_refuses_lines_without_end() {
    let server = Server::start("tls", &[]);
    let before = memory(&server);
    let mut tls = tls::connect(&server.addr);
    tls.socket().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let refused = (0..64).any(|_| tls.write_all(&[b'a'; 1 << 20]).is_err());
    assert!(refused || tls.read(&mut [0]).is_ok_and(|n| n == 0), "64 MB without an end were taken");
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more");
    // A line that ends is echoed beside the endless one, and after it.
    let mut other = tls::connect(&server.addr);
    other.write_all(b"hello\n").unwrap();
    other.read_exact(&mut [0; 6]).unwrap();
}

/// A frame that announces more than a megabyte, and a message without end in small frames.
fn websocket_refuses_large_messages() {
    const HEAD: usize = 14;
    let frame = |first: u8, announced: u64, sent: usize| {
        let mut frame = vec![first, 0xff];
        frame.extend(announced.to_be_bytes());
        frame.resize(HEAD + sent, 0);
        frame
    };
    let server = Server::start("websocket", &[]);
    let connect = || {
        let socket = TcpStream::connect(&server.addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        tungstenite::client(format!("ws://{}/", server.addr), socket).unwrap().0.into_inner()
    };
    // Refused before its bytes have arrived.
    let mut large = connect();
    large.write_all(&frame(0x82, 64 << 20, 100)).unwrap();
    let ended = large.read(&mut [0; 100]);
    let ended = ended.map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |n| n == 0);
    assert!(ended, "a frame of 64 MB was begun");

    let before = memory(&server);
    let mut endless = connect();
    let piece = frame(0x00, 100_000, 100_000);
    endless.write_all(&frame(0x02, 100_000, 100_000)).unwrap();
    assert!((0..640).any(|_| endless.write_all(&piece).is_err()), "64 MB in frames were taken");
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more");
    // A message of the allowed size is echoed.
    let mut other = connect();
    other.write_all(&frame(0x82, 1 << 20, 1 << 20)).unwrap();
    other.read_exact(&mut [0; 1 << 20]).unwrap();
}

/// A client sends requests until the server takes no more, and reads nothing. A second client is served at
/// the same time.
fn clients_that_read_nothing_use_little_memory() {
    let value = [&b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1000\r\n"[..], &[b'a'; 1000], b"\r\n"].concat();
    let large =
        [&b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"[..], &[b'a'; 100_000]].concat();
    let line = [&[b'a'; 1000][..], b"\n"].concat();
    let servers: [(&str, &[u8], &[u8]); 3] =
        [("http", b"", &large), ("redis", &value, b"GET a\r\n"), ("tls", b"", &line)];
    for (example, first, request) in servers {
        let server = Server::start(example, &[]);
        let connect = || -> Box<dyn Stream> {
            match example {
                "tls" => Box::new(tls::connect(&server.addr)),
                _ => Box::new(TcpStream::connect(&server.addr).unwrap()),
            }
        };
        // What the first client costs is not counted.
        let mut other = connect();
        other.write_all(first).unwrap();
        other.write_all(request).unwrap();
        other.read_exact(&mut [0; 5]).unwrap();
        let before = memory(&server);
        let mut client = connect();
        client.socket().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let requests = request.repeat(1 + 100_000 / request.len());
        let mut sent = 0;
        // TLS makes few bytes of many requests, if the replies are in them.
        while sent < 200 << 20 {
            match client.write_all(&requests) {
                Ok(()) => sent += requests.len(),
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => break,
                Err(error) => panic!("{example}: {error}"),
            }
        }
        assert!(sent < 200 << 20, "{example} takes requests of a client that reads nothing");
        let grown = memory(&server).saturating_sub(before);
        assert!(grown < 8 << 20, "{example}: {grown} bytes more");
        other.write_all(request).unwrap();
        other.read_exact(&mut [0; 5]).unwrap();
    }
}

trait Stream: Read + Write {
    fn socket(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Stream for Tls {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

/// Lines go on to the other members, the slow member uses little memory, and the server ends its connection.
fn chat_forgets_a_member_that_reads_nothing() {
    let server = Server::start("chat", &[]);
    let enter = |name: &str| {
        let mut stream = TcpStream::connect(&server.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        writeln!(stream, "{name}").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(io::Result::unwrap);
        while !lines.next().unwrap().starts_with("welcome") {}
        (stream, lines)
    };
    let slow = enter("slow");
    let (_listener, mut heard) = enter("listener");
    let (mut talker, _) = enter("talker");
    let before = memory(&server);
    let (text, mut gone) = ("x".repeat(900), false);
    for batch in 0..400 {
        let lines: String = (0..100).map(|i| format!("{batch}.{i} {text}\n")).collect();
        talker.write_all(lines.as_bytes()).unwrap();
        for line in lines.lines() {
            let expected = format!("talker: {line}");
            let said =
                heard.by_ref().find(|said| !said.starts_with('*') || said.contains("slow has gone")).unwrap();
            gone |= said.starts_with('*');
            if !gone {
                assert_eq!(said, expected);
            }
        }
        let grown = memory(&server).saturating_sub(before);
        assert!(grown < 12 << 20, "{grown} bytes more after {batch} batches");
    }
    gone = gone || heard.any(|said| said == "* slow has gone");
    assert!(gone);
    drop(slow);
}

fn proxy_forgets_clients_that_reset() {
    // The target echoes, and reads no more once its client reads nothing.
    let target = Server::start("http", &[]);
    let proxy = Server::start("proxy", &[&target.addr]);
    let before = descriptors(&proxy);
    assert_eq!(exchange(&proxy.addr, b"GET / HTTP/1.0\r\n\r\n").matches("200 OK").count(), 1);
    wait_until("the first connection is closed", || descriptors(&proxy) == before);
    let request =
        [&b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n"[..], &vec![b'a'; 2_000_000]]
            .concat();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let stream = TcpStream::connect(&proxy.addr).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    // Each client sends requests until all buffers on the way are full, and reads nothing.
    let (mut idle, mut sent) = (0, vec![0; clients.len()]);
    while idle < 50 {
        let mut any = false;
        for (mut client, sent) in clients.iter().zip(&mut sent) {
            while let Ok(n @ 1..) = client.write(&request[*sent..]) {
                *sent = (*sent + n) % request.len();
                any = true;
            }
        }
        idle = if any { 0 } else { idle + 1 };
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(descriptors(&proxy) >= before + 2 * clients.len());
    // Closing with unread bytes resets a connection.
    drop(clients);
    wait_until("the proxy has forgotten the clients", || descriptors(&proxy) <= before);
}

/// An example, its arguments, and the begin of a request with the byte that goes on.
type Case<'c> = (&'c str, &'c [&'c str], Option<(&'c [u8], u8)>);

/// A client that sends nothing, and one that sends a byte of a request now and then.
fn clients_that_dawdle_lose_their_connections() {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = target.local_addr().unwrap().to_string();
    let head = (&b"GET / HTTP/1.1\r\nX: "[..], b'x');
    // The head of a record of 16 KiB, which begins a handshake of TLS.
    let hello = (&[22, 3, 1, 64, 0, 1, 0, 63, 252][..], 0);
    let cases: [Case<'_>; 5] = [
        ("http", &[], Some(head)),
        ("websocket", &[], Some(head)),
        ("redis", &[], Some((b"*1\r\n$1000\r\n", b'x'))),
        ("tls", &[], Some(hello)),
        ("proxy", &[&target], None),
    ];
    for (example, more, dripped) in cases {
        let server = Server::start_hasty(example, more);
        ends(&server, example, |_| ());
        if let Some((begin, byte)) = dripped {
            let mut begin = Some(begin);
            ends(&server, example, |mut client| drop(client.write(begin.take().unwrap_or(&[byte]))));
        }
    }
}

/// Calls `send` again and again, and checks that the server ends the connection.
fn ends(server: &Server, example: &str, mut send: impl FnMut(&TcpStream)) {
    let mut client = TcpStream::connect(&server.addr).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let begun = Instant::now();
    loop {
        send(&client);
        match client.read(&mut [0; 1000]) {
            Ok(0) => return,
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return,
            _ => assert!(begun.elapsed() < Duration::from_secs(20), "{example} keeps the connection"),
        }
    }
}

fn hyper_bounds_bodies() {
    let server = Server::start("hyper", &[]);
    let post = |length: usize| {
        let head = format!(
            "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        exchange(&server.addr, &[head.as_bytes(), &vec![b'a'; length]].concat())
    };
    assert!(post(1000).starts_with("HTTP/1.1 200 "));
    let reply = post(6 << 20);
    assert!(!reply.starts_with("HTTP/1.1 200 "), "{} bytes came back", reply.len());

    // A body that does not come to its end is refused long before the connection is too old.
    let hasty = Server::start_hasty("hyper", &[]);
    let begun = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\naaa";
    let reply = exchange(&hasty.addr, begun);
    assert!(reply.starts_with("HTTP/1.1 408 "), "{reply:?}");
}
