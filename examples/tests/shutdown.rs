//! The server examples end by SIGTERM and SIGINT, and break no reply under load.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use helpers::{Server, Test, tls};

mod helpers;

const TESTS: &[Test] = &[
    ("idle_connections_end_at_once", &[], idle_connections_end_at_once),
    ("http_breaks_no_reply", &[], || under_load("http", &[], &[], GET, HELLO, tcp)),
    ("hyper_breaks_no_reply", &[], || under_load("hyper", &["hyper"], &[], GET, HYPER, tcp)),
    ("redis_breaks_no_reply", &[], || under_load("redis", &[], &[], b"PING\r\n", b"+PONG\r\n", tcp)),
    ("tls_breaks_no_reply", &[], || under_load("tls", &[], &[], b"hello\n", b"hello\n", tls::connect)),
    ("websocket_breaks_no_reply", &[], || under_load("websocket", &[], &[], ASK, b"\x81\x05hello", upgraded)),
    ("panics_breaks_no_reply", &[], || under_load("panics", &[], &[], DIVIDE, PANICKED, tcp)),
    ("proxy_breaks_no_reply", &[], proxy_breaks_no_reply),
    ("udp_answers_until_its_end", &[], udp_answers_until_its_end),
];

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 26\r\n\
                       Connection: keep-alive\r\n\r\nhello from a green thread\n";
/// The reply of hyper has the time of day in it, so only its length is compared.
const HYPER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\ndate: ..., .. ... .... ..:..:.. ...\r\n\r\nhello over HTTP/1.1\n";
const DIVIDE: &[u8] = b"GET /1/0 HTTP/1.1\r\nHost: x\r\n\r\n";
const PANICKED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\n\
                          Content-Length: 25\r\nConnection: keep-alive\r\n\r\nthe handler has panicked\n";
/// A masked frame with `hello`.
const ASK: &[u8] = b"\x81\x85\0\0\0\0hello";

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
    let target = Server::start("http", &[]);
    let more: &[(&str, &[&str])] = &[
        ("http", &[]),
        ("redis", &[]),
        ("chat", &[]),
        ("tls", &[]),
        ("websocket", &[]),
        ("metrics", &[]),
        ("proxy", &[&target.addr]),
    ];
    for &(example, args) in more {
        for signal in ["-TERM", "-INT"] {
            let server = Server::start(example, args);
            let idle = tcp(&server.addr);
            let took = end_by(server, signal);
            // Idle connections must not have to be cancelled, after 5 s.
            assert!(took < Duration::from_secs(4) || example == "proxy", "{example} {signal}: {took:?}");
            drop(idle);
        }
    }
}

fn proxy_breaks_no_reply() {
    let target = Server::start("http", &[]);
    under_load("proxy", &[], &[&target.addr], GET, HELLO, tcp);
}

fn udp_answers_until_its_end() {
    for signal in ["-TERM", "-INT"] {
        let server = Server::start("udp", &[]);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(&server.addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let clients = thread::spawn(move || {
            let (mut answers, mut bytes) = (0, [0; 100]);
            // At the end of the server, the system refuses datagrams to its port.
            while socket.send(b"hello").is_ok() {
                let Ok(length) = socket.recv(&mut bytes) else { break };
                assert_eq!(bytes[..length], *b"HELLO");
                answers += 1;
            }
            answers
        });
        thread::sleep(Duration::from_millis(300));
        end_by(server, signal);
        assert!(clients.join().unwrap() > 0);
    }
}

/// Clients send requests until the server ends by a signal. Each reply must be whole.
fn under_load<S: Read + Write + Send + 'static>(
    example: &str,
    features: &[&str],
    args: &[&str],
    request: &'static [u8],
    reply: &'static [u8],
    connect: fn(&str) -> S,
) {
    for signal in ["-TERM", "-INT"] {
        let server = Server::start_with(example, features, args);
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let stream = connect(&server.addr);
                thread::spawn(move || whole_replies(stream, request, reply))
            })
            .collect();
        thread::sleep(Duration::from_millis(300));
        end_by(server, signal);
        let replies: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
        assert!(replies > 0, "{example} {signal}");
    }
}

/// Sends requests until the server ends the connection. Returns how many replies came. Panics if a reply is broken.
fn whole_replies(mut stream: impl Read + Write, request: &[u8], reply: &[u8]) -> usize {
    let (mut replies, mut bytes) = (0, vec![0; reply.len()]);
    while stream.write_all(request).and_then(|()| stream.flush()).is_ok() {
        let mut got = 0;
        while got < bytes.len() {
            match stream.read(&mut bytes[got..]) {
                Ok(n @ 1..) => got += n,
                _ if got == 0 => return replies,
                _ => panic!("{got} bytes of a reply"),
            }
        }
        // A point in the expected reply stands for any byte.
        let same = bytes.iter().zip(reply).all(|(got, expected)| got == expected || *expected == b'.');
        assert!(same, "{}", bytes.escape_ascii());
        replies += 1;
    }
    replies
}

/// Sends `signal` to a server, which must succeed. Returns how long its end took.
fn end_by(mut server: Server, signal: &str) -> Duration {
    let start = Instant::now();
    // The shell's own `kill`: the program of that name is not on every machine.
    let kill = format!("kill {signal} {}", server.process.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let status = server.process.wait().unwrap();
    assert!(status.success(), "{status}");
    std::mem::forget(server);
    start.elapsed()
}
