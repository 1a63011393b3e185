//! The server examples end by SIGTERM and SIGINT, and break no reply under load.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use helpers::{NEEDS_HYPER, Server, Test, h2, tls, wait_until};

mod helpers;

const TESTS: &[Test] = &[
    ("idle_connections_end_at_once", &[], idle_connections_end_at_once),
    ("hyper_ends_idle_connections_at_once", &[NEEDS_HYPER], || idle_connections_of(&["hyper"])),
    ("http_breaks_no_reply", &[], || under_load("http", &[], GET, HELLO, tcp)),
    ("hyper_breaks_no_reply", &[NEEDS_HYPER], || under_load("hyper", &[], GET, HYPER, tcp)),
    ("hyper_says_goodbye_over_http2", &[NEEDS_HYPER], hyper_says_goodbye_over_http2),
    ("redis_breaks_no_reply", &[], || under_load("redis", &[], b"PING\r\n", b"+PONG\r\n", tcp)),
    ("tls_breaks_no_reply", &[], || under_load("tls", &[], b"hello\n", b"hello\n", tls::connect)),
    ("websocket_breaks_no_reply", &[], || under_load("websocket", &[], ASK, b"\x81\x05hello", upgraded)),
    ("panics_breaks_no_reply", &[], || under_load("panics", &[], DIVIDE, PANICKED, tcp)),
    ("metrics_breaks_no_reply", &[], || under_load("metrics", &[], GET, FIGURES, tcp)),
    ("echo_breaks_no_reply", &[], || under_load("echo", &[], b"hello\n", b"hello\n", tcp)),
    ("proxy_breaks_no_reply", &[], proxy_breaks_no_reply),
    ("chat_breaks_no_line", &[], chat_breaks_no_line),
    ("greeter_breaks_no_reply", &[], greeter_breaks_no_reply),
    ("udp_answers_until_its_end", &[], udp_answers_until_its_end),
];

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 26\r\n\
                       Connection: keep-alive\r\n\r\nhello from a green thread\n";
/// The reply of hyper has the time of day in it, so only its length is compared.
const HYPER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\ndate: ..., .. ... .... ..:..:.. ...\r\n\r\nhello over HTTP/1.1\n";
const FIGURES: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 28\r\n\
                         Connection: keep-alive\r\n\r\nthe figures are at /metrics\n";
const DIVIDE: &[u8] = b"GET /1/0 HTTP/1.1\r\nHost: x\r\n\r\n";
const PANICKED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\n\
                          Content-Length: 25\r\nConnection: keep-alive\r\n\r\nthe handler has panicked\n";
/// A masked frame with `hello`.
const ASK: &[u8] = b"\x81\x85\0\0\0\0hello";

const SIGNALS: [&str; 2] = ["-TERM", "-INT"];
/// How many clients load a server.
const CLIENTS: usize = 8;

fn main() {
    helpers::run(TESTS);
}

fn tcp(addr: &str) -> TcpStream {
    TcpStream::connect(addr).expect("a server")
}

/// Returns a connection after the handshake of WebSocket.
fn upgraded(addr: &str) -> TcpStream {
    let (socket, _) = tungstenite::client(format!("ws://{addr}/"), tcp(addr)).expect("a server");
    socket.into_inner()
}

fn idle_connections_end_at_once() {
    idle_connections_of(&[
        "http",
        "redis",
        "chat",
        "tls",
        "websocket",
        "metrics",
        "panics",
        "echo",
        "greeter",
    ]);
}

fn idle_connections_of(examples: &[&str]) {
    for example in examples {
        for signal in SIGNALS {
            let server = Server::start(example, &[]);
            let idle = tcp(&server.addr);
            let said = end_by(server, signal);
            assert!(!said.contains("cancelled"), "{example} {signal}: {said}");
            drop(idle);
        }
    }
}

fn proxy_breaks_no_reply() {
    let target = Server::start("http", &[]);
    under_load("proxy", &[&target.addr], GET, HELLO, tcp);
}

fn hyper_says_goodbye_over_http2() {
    for signal in SIGNALS {
        let server = Server::start("hyper", &[]);
        // A connection that is open and has no requests ends, too.
        let idle = tcp(&server.addr);
        let idle = thread::spawn(move || h2::whole_replies(idle, 0, &AtomicUsize::new(0)));
        load_until(server, signal, |socket, replies| h2::whole_replies(socket, 10, replies), tcp);
        idle.join().unwrap();
    }
}

/// Each line that a member receives is whole, and one that another member has sent.
fn chat_breaks_no_line() {
    for signal in SIGNALS {
        let server = Server::start("chat", &[]);
        load_until(server, signal, whole_lines, tcp);
    }
}

/// Talks until the server ends the connection, and counts the lines of the others in `lines`.
fn whole_lines(stream: TcpStream, lines: &AtomicUsize) {
    let mut talks = stream.try_clone().unwrap();
    let talker = thread::spawn(move || {
        talks.write_all(b"member\n").unwrap();
        let mut said = 0;
        while writeln!(talks, "{said} is what I say").is_ok() {
            said += 1;
        }
    });
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    while matches!(input.read_line(&mut line), Ok(1..)) {
        let own = ["your name?\n", "* member has come\n", "* member has gone\n"].contains(&&*line);
        let welcome = line.starts_with("welcome member, ") && line.ends_with(" others are here\n");
        let said = line.strip_prefix("member: ").and_then(|line| line.strip_suffix(" is what I say\n"));
        let said = said.is_some_and(|number| number.parse::<usize>().is_ok());
        assert!(own || welcome || said, "{line:?}");
        lines.fetch_add(usize::from(said), Ordering::Relaxed);
        line.clear();
    }
    // An error may come with the beginning of a line.
    assert_eq!(line, "");
    talker.join().unwrap();
}

/// Each connection has one reply.
fn greeter_breaks_no_reply() {
    for signal in SIGNALS {
        let server = Server::start("greeter", &[]);
        let addr = server.addr.clone();
        let greeted = move |mut stream: TcpStream, replies: &AtomicUsize| {
            loop {
                let mut reply = Vec::new();
                let asked = stream.write_all(b"ann\n");
                let read = asked.and_then(|()| stream.read_to_end(&mut reply));
                assert!(reply == b"hello, ann\n" || reply.is_empty(), "{}", reply.escape_ascii());
                replies.fetch_add(usize::from(read.is_ok() && !reply.is_empty()), Ordering::Relaxed);
                let Ok(next) = TcpStream::connect(&addr) else { return };
                stream = next;
            }
        };
        load_until(server, signal, greeted, tcp);
    }
}

fn udp_answers_until_its_end() {
    for signal in SIGNALS {
        let server = Server::start("udp", &[]);
        let connect = |addr: &str| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(addr).unwrap();
            // A datagram that lies in the server's socket at its end has no answer, and no error comes.
            socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
            socket
        };
        let whole = |socket: UdpSocket, answers: &AtomicUsize| {
            let mut bytes = [0; 100];
            // At the end of the server, the system refuses datagrams to its port.
            while socket.send(b"hello").is_ok() {
                let Ok(length) = socket.recv(&mut bytes) else { break };
                assert_eq!(bytes[..length], *b"HELLO");
                answers.fetch_add(1, Ordering::Relaxed);
            }
        };
        load_until(server, signal, whole, connect);
    }
}

/// Clients send requests until the server ends by a signal. Each reply must be whole.
fn under_load<S: Read + Write + Send + 'static>(
    example: &str,
    args: &[&str],
    request: &'static [u8],
    reply: &'static [u8],
    connect: fn(&str) -> S,
) {
    for signal in SIGNALS {
        let server = Server::start(example, args);
        let whole = |stream, replies: &AtomicUsize| whole_replies(stream, request, reply, replies);
        load_until(server, signal, whole, connect);
    }
}

/// Runs `client` in several threads, each with a connection, and sends `signal` when many replies have come.
/// The clients count the replies, and must end when the server does.
fn load_until<S: Send + 'static>(
    server: Server,
    signal: &str,
    client: impl Fn(S, &AtomicUsize) + Send + Sync,
    connect: impl Fn(&str) -> S,
) {
    let (replies, connections) = (AtomicUsize::new(0), AtomicUsize::new(CLIENTS));
    thread::scope(|s| {
        for _ in 0..CLIENTS {
            let stream = connect(&server.addr);
            let (client, replies, connections) = (&client, &replies, &connections);
            s.spawn(move || {
                let _ends = OnDrop(|| _ = connections.fetch_sub(1, Ordering::Relaxed));
                client(stream, replies);
            });
        }
        wait_until("many replies have come", || {
            let ended = connections.load(Ordering::Relaxed) < CLIENTS;
            ended || replies.load(Ordering::Relaxed) > 100 * CLIENTS
        });
        let ended = CLIENTS - connections.load(Ordering::Relaxed);
        let said = end_by(server, signal);
        assert!(ended == 0 && !said.contains("cancelled"), "{ended} clients ended before the signal: {said}");
    });
}

/// Sends requests until the server ends the connection, and counts the replies. Panics if a reply is broken.
fn whole_replies(mut stream: impl Read + Write, request: &[u8], reply: &[u8], replies: &AtomicUsize) {
    let mut bytes = vec![0; reply.len()];
    while stream.write_all(request).and_then(|()| stream.flush()).is_ok() {
        let mut got = 0;
        while got < bytes.len() {
            match stream.read(&mut bytes[got..]) {
                Ok(n @ 1..) => got += n,
                _ if got == 0 => return,
                _ => panic!("{got} bytes of a reply"),
            }
        }
        // A point in the expected reply stands for any byte.
        let same = bytes.iter().zip(reply).all(|(got, expected)| got == expected || *expected == b'.');
        assert!(same, "{}", bytes.escape_ascii());
        replies.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends `signal` to a server, which must succeed. Returns what the server has printed.
fn end_by(mut server: Server, signal: &str) -> String {
    // The shell's own `kill`: the program of that name is not on every machine.
    let kill = format!("kill {signal} {}", server.process.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let status = server.process.wait().unwrap();
    assert!(status.success(), "{status}");
    let mut said = String::new();
    server.output.read_to_string(&mut said).unwrap();
    std::mem::forget(server);
    said
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
