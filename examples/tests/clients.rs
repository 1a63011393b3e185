//! The server examples with clients of other projects: curl, openssl, nc, redis-cli, h2load, wrk, and
//! tungstenite over std. The client example with servers of other projects: Python's and nghttpd.
//!
//! If a program of a test is not installed, the test is reported as ignored, with the name of the missing
//! program. With `CI=true` such a test fails. `ci/setup.sh` installs the programs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use helpers::{NEEDS_HYPER, Server, Test, build, client, curl, text, wrk};

mod helpers;

const TESTS: &[Test] = &[
    ("hyper_serves_curl", &[NEEDS_HYPER, "curl"], hyper_serves_curl),
    ("hyper_serves_h2load", &[NEEDS_HYPER, "h2load"], hyper_serves_h2load),
    ("hyper_serves_wrk", &[NEEDS_HYPER, "wrk"], hyper_serves_wrk),
    ("hyper_is_a_client_of_hyper", &[NEEDS_HYPER], hyper_is_a_client_of_hyper),
    ("hyper_is_a_client_of_python", &[NEEDS_HYPER, "python3"], hyper_is_a_client_of_python),
    ("hyper_is_a_client_of_nghttpd", &[NEEDS_HYPER, "nghttpd"], hyper_is_a_client_of_nghttpd),
    ("http_serves_curl", &["curl"], http_serves_curl),
    ("http_serves_wrk", &["wrk"], http_serves_wrk),
    ("tls_serves_curl", &["curl"], tls_serves_curl),
    ("tls_serves_openssl", &["openssl"], tls_serves_openssl),
    ("websocket_serves_a_client_over_std", &[], websocket_serves_a_client_over_std),
    ("websocket_answers_the_handshake_of_curl", &["curl"], websocket_answers_the_handshake_of_curl),
    ("redis_serves_redis_cli", &["redis-cli"], redis_serves_redis_cli),
    ("redis_serves_redis_benchmark", &["redis-benchmark"], redis_serves_redis_benchmark),
    ("chat_carries_lines_between_nc", &["nc"], chat_carries_lines_between_nc),
    ("proxy_stands_between_curl_and_http", &["curl"], proxy_stands_between_curl_and_http),
    ("metrics_serves_curl", &["curl"], metrics_serves_curl),
    ("panics_serves_curl", &["curl"], panics_serves_curl),
    ("udp_serves_nc", &["nc"], udp_serves_nc),
];

fn main() {
    helpers::run(TESTS);
}

fn http_serves_curl() {
    let server = Server::start("http", &[]);
    assert_eq!(curl(&[&server.url("/")], b""), "hello from a green thread\n");
    // Both requests use the same connection.
    let both = curl(&["-i", &server.url("/"), &server.url("/nowhere")], b"");
    assert!(both.contains("HTTP/1.1 200 OK") && both.contains("HTTP/1.1 404 Not Found"), "{both}");
    let reused = curl(&["-v", "--stderr", "-", &server.url("/"), &server.url("/")], b"");
    assert!(reused.contains("Re-using existing connection"), "{reused}");
    // The body is large enough for "Expect: 100-continue".
    let body: Vec<u8> = (0..3_000_000u32).map(|i| b'a' + (i % 26) as u8).collect();
    let echo = server.url("/echo");
    let echoed =
        client("curl", &["--silent", "-H", "Expect: 100-continue", "--data-binary", "@-", &echo], &body);
    assert!(echoed.stdout == body);
    let head = curl(&["--head", &server.url("/")], b"");
    assert!(head.contains("Content-Length: 26"), "{head}");
    let refused = curl(&["-X", "DELETE", "-o", "/dev/null", "-w", "%{http_code}", &server.url("/")], b"");
    assert_eq!(refused, "405");
    // Bytes that are not HTTP end only their own connection.
    let mut stream = TcpStream::connect(&server.addr).unwrap();
    stream.write_all(b"\x00\x01\x02 nonsense\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
    assert_eq!(curl(&["--http1.0", &server.url("/")], b""), "hello from a green thread\n");
}

fn http_serves_wrk() {
    let server = Server::start("http", &[]);
    wrk(&server.url("/"));
}

fn tls_serves_curl() {
    let server = Server::start("tls", &[]);
    let url = format!("https://{}/", server.addr);
    assert_eq!(curl(&["--insecure", &url], b""), "hello over Some(TLSv1_3)\n");
    assert_eq!(curl(&["--insecure", "--tls-max", "1.2", &url], b""), "hello over Some(TLSv1_2)\n");
    // A client that does not speak TLS ends only its own connection.
    let mut stream = TcpStream::connect(&server.addr).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    assert!(curl(&["--insecure", &url], b"").starts_with("hello"));
}

fn tls_serves_openssl() {
    let server = Server::start("tls", &[]);
    let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let said = client("openssl", &["s_client", "-quiet", "-connect", &server.addr], request);
    assert!(text(&said).contains("hello over Some(TLSv1_3)"), "{}", text(&said));
}

fn websocket_serves_a_client_over_std() {
    let server = Server::start("websocket", &[]);
    let stream = TcpStream::connect(&server.addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let (mut socket, answer) = tungstenite::client(format!("ws://{}/", server.addr), stream).unwrap();
    assert_eq!(answer.status(), 101);
    for size in [0, 1, 125, 126, 65_535, 65_536, 1_000_000] {
        let sent = tungstenite::Message::text("ä".repeat(size / 2));
        socket.send(sent.clone()).unwrap();
        assert!(socket.read().unwrap() == sent);
    }
    socket.send(tungstenite::Message::Ping(b"p"[..].into())).unwrap();
    assert!(socket.read().unwrap().is_pong());
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
}

fn websocket_answers_the_handshake_of_curl() {
    let server = Server::start("websocket", &[]);
    // The key and the answer are from the example of the standard (RFC 6455, 1.3).
    let url = server.url("/");
    let upgrade = [
        "-i",
        "-N",
        "--http1.1",
        "-H",
        "Connection: Upgrade",
        "-H",
        "Upgrade: websocket",
        "-H",
        "Sec-WebSocket-Version: 13",
        "-H",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "--max-time",
        "2",
        &url,
    ];
    // curl waits for messages until its time is up.
    let output = Command::new("curl").args(["-s"]).args(upgrade).output().expect("curl");
    let said = text(&output);
    assert!(
        said.contains("101 Switching Protocols") && said.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        "{said}"
    );
}

fn redis_serves_redis_cli() {
    let server = Server::start("redis", &[]);
    let cli = |args: &[&str]| text(&client("redis-cli", &[&["-p", server.port()], args].concat(), b""));
    assert_eq!(cli(&["ping"]), "PONG\n");
    assert_eq!(cli(&["set", "name", "grün \r\n thread"]), "OK\n");
    assert_eq!(cli(&["get", "name"]), "grün \r\n thread\n");
    assert_eq!(cli(&["get", "nothing"]), "\n");
    assert_eq!(cli(&["-r", "5", "incr", "counter"]), "1\n2\n3\n4\n5\n");
    assert!(cli(&["incr", "name"]).contains("not an integer"));
    assert_eq!(cli(&["exists", "name", "counter", "nothing"]), "2\n");
    assert_eq!(cli(&["del", "name", "nothing"]), "1\n");
    assert!(cli(&["nonsense"]).contains("ERR"));
}

fn redis_serves_redis_benchmark() {
    let server = Server::start("redis", &[]);
    for pipeline in ["1", "16"] {
        let args =
            ["-p", server.port(), "-t", "ping,set,get", "-n", "5000", "-c", "20", "-P", pipeline, "-q"];
        let said = text(&client("redis-benchmark", &args, b""));
        for test in ["PING_INLINE", "PING_MBULK", "SET", "GET"] {
            assert!(said.contains(&format!("{test}: ")), "{said}");
        }
    }
}

fn chat_carries_lines_between_nc() {
    let server = Server::start("chat", &[]);
    let enter = |name: &str| {
        let mut nc = Command::new("nc")
            .args(["127.0.0.1", server.port()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("nc");
        let mut input = nc.stdin.take().expect("a pipe");
        writeln!(input, "{name}").unwrap();
        let mut lines = BufReader::new(nc.stdout.take().expect("a pipe")).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "your name?");
        assert!(lines.next().unwrap().starts_with(&format!("welcome {name}")));
        (nc, input, lines)
    };
    let (mut ann, ann_says, mut ann_hears) = enter("ann");
    let (mut bob, mut bob_says, mut bob_hears) = enter("bob");
    assert_eq!(ann_hears.next().unwrap(), "* bob has come");
    for i in 0..50 {
        writeln!(bob_says, "line {i}").unwrap();
        assert_eq!(ann_hears.next().unwrap(), format!("bob: line {i}"));
    }
    // A killed nc closes its connection without a farewell.
    ann.kill().unwrap();
    ann.wait().unwrap();
    drop(ann_says);
    assert_eq!(bob_hears.next().unwrap(), "* ann has gone");
    bob.kill().unwrap();
    bob.wait().unwrap();
}

fn proxy_stands_between_curl_and_http() {
    let target = Server::start("http", &[]);
    let proxy = Server::start("proxy", &[&target.addr]);
    let body: Vec<u8> = (0..1_000_000u32).map(|i| b'a' + (i % 26) as u8).collect();
    for _ in 0..5 {
        assert_eq!(curl(&[&proxy.url("/")], b""), "hello from a green thread\n");
        let echoed = client("curl", &["--silent", "--data-binary", "@-", &proxy.url("/echo")], &body);
        assert!(echoed.stdout == body);
    }
    // The proxy's target is gone.
    drop(target);
    let output = Command::new("curl").args(["-s", "--max-time", "30", &proxy.url("/")]).output();
    assert!(!output.expect("curl").status.success());
}

fn metrics_serves_curl() {
    let server = Server::start("metrics", &[]);
    let figure = |name: &str| {
        let said = curl(&[&server.url("/metrics")], b"");
        assert!(said.contains(&format!("# TYPE {name} ")), "{said}");
        let line =
            said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("a figure");
        line.parse::<u64>().expect("a number")
    };
    assert_eq!(figure("http_requests_total"), 1);
    curl(&[&server.url("/"), &server.url("/")], b"");
    assert_eq!(figure("http_requests_total"), 4);
    // The connection that asks is a green thread that runs.
    assert!(figure("runtime_green_threads_running") >= 1 && figure("runtime_spawned_total") >= 3);
}

fn panics_serves_curl() {
    let server = Server::start("panics", &[]);
    let urls = [server.url("/12/4"), server.url("/1/0"), server.url("/9/3")];
    let said = curl(&["-v", "--stderr", "-", &urls[0], &urls[1], &urls[2]], b"");
    assert!(said.contains("HTTP/1.1 500 ") && said.contains("the handler has panicked"), "{said}");
    assert_eq!(said.matches("HTTP/1.1 200 OK").count(), 2, "{said}");
    // The connection outlives the panic.
    assert_eq!(said.matches("Re-using existing connection").count(), 2, "{said}");
}

fn udp_serves_nc() {
    let server = Server::start("udp", &[]);
    let said = client("nc", &["-u", "-w", "2", "127.0.0.1", server.port()], b"hello\n");
    assert_eq!(text(&said), "HELLO\n");
}

fn hyper_serves_curl() {
    let server = Server::start("hyper", &[]);
    assert_eq!(curl(&[&server.url("/")], b""), "hello over HTTP/1.1\n");
    assert_eq!(curl(&["--http1.0", &server.url("/")], b""), "hello over HTTP/1.0\n");
    assert_eq!(curl(&["--http2-prior-knowledge", &server.url("/")], b""), "hello over HTTP/2.0\n");
    let body: Vec<u8> = (0..3_000_000u32).map(|i| b'a' + (i % 26) as u8).collect();
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let args = ["--silent", version, "--data-binary", "@-", &server.url("/echo")];
        assert!(client("curl", &args, &body).stdout == body);
    }
    // Over HTTP/2 each request has a connection of its own: curl 7.88 fails to share a connection, with
    // nghttpd too, in its "HTTP2 framing layer".
    for more in [&["--http1.1"][..], &["--http2-prior-knowledge", "--parallel-immediate"]] {
        let slow = server.url("/slow");
        let said = curl(&[more, &["--parallel", &slow, &slow, &server.url("/")]].concat(), b"");
        assert_eq!(said.matches("at last").count(), 2, "{said}");
    }
    let missing = curl(&["-o", "/dev/null", "-w", "%{http_code}", &server.url("/nowhere")], b"");
    assert_eq!(missing, "404");
}

fn hyper_serves_h2load() {
    let server = Server::start("hyper", &[]);
    // Each connection carries many requests at the same time.
    let load = client("h2load", &["-n", "1000", "-c", "10", "-m", "20", &server.url("/slow")], b"");
    assert!(text(&load).contains("1000 succeeded, 0 failed"), "{}", text(&load));
}

fn hyper_serves_wrk() {
    let server = Server::start("hyper", &[]);
    wrk(&server.url("/"));
    wrk(&server.url("/slow"));
}

/// A server program of another project, killed when the value is dropped.
struct Foreign(Child);

impl Foreign {
    fn start(program: &str, args: &[&str]) -> Foreign {
        let child = Command::new(program).args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Foreign(child.unwrap_or_else(|error| panic!("{program}: {error}")))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the hyper example at the path `hyper` as a client: `hyper get ARGS..`. A client that hangs ends with
/// its server, which the panic of this test drops.
fn get(hyper: &Path, args: &[&str]) -> Output {
    let (mut command, (ends, end)) = (Command::new(hyper), std::sync::mpsc::channel());
    command.arg("get").args(args);
    std::thread::spawn(move || ends.send(command.output()));
    end.recv_timeout(Duration::from_secs(60))
        .expect("the client ends within a minute")
        .expect("the example runs")
}

/// A directory with a `page` to serve, removed when the value is dropped.
struct Site {
    root: PathBuf,
    page: String,
}

impl Site {
    fn new(name: &str) -> Site {
        let root = std::env::temp_dir().join(format!("runtime-clients-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let page: String = (0..100_000).map(|i| format!("{i}\n")).collect();
        std::fs::write(root.join("page"), &page).unwrap();
        Site { root, page }
    }

    fn path(&self) -> &str {
        self.root.to_str().expect("a name in UTF-8")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn hyper_is_a_client_of_hyper() {
    let hyper = build("hyper");
    let server = Server::start("hyper", &[]);
    for (args, version) in [(&[][..], "1.1"), (&["--http2"], "2.0")] {
        let said = text(&get(&hyper, &[args, &[&server.url("/")]].concat()));
        assert_eq!(said, format!("hello over HTTP/{version}\n"));
    }
}

fn hyper_is_a_client_of_python() {
    let hyper = build("hyper");
    let site = Site::new("python");
    let args = ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", site.path()];
    let mut python = Foreign::start("python3", &args);
    let mut line = String::new();
    BufReader::new(python.0.stdout.as_mut().expect("a pipe")).read_line(&mut line).unwrap();
    let url = line.split(['(', ')']).nth(1).expect("Serving HTTP on .. (URL)");
    let got = get(&hyper, &[&format!("{url}page")]);
    assert!(got.status.success() && got.stdout == site.page.as_bytes(), "{}", got.status);
    let missing = get(&hyper, &[&format!("{url}nowhere")]);
    assert!(!missing.status.success() && text(&missing).contains("404"), "{}", text(&missing));
    // Python's server does not speak HTTP/2.
    assert!(!get(&hyper, &["--http2", url]).status.success());
}

fn hyper_is_a_client_of_nghttpd() {
    let hyper = build("hyper");
    let site = Site::new("nghttpd");
    // nghttpd does not report its port, so the test picks a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = free.port().to_string();
    let args = ["-a", "127.0.0.1", "--no-tls", "-d", site.path(), &port];
    let mut nghttpd = Foreign::start("nghttpd", &args);
    while TcpStream::connect(free).is_err() {
        assert!(nghttpd.0.try_wait().unwrap().is_none(), "nghttpd has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    let got = get(&hyper, &["--http2", &format!("http://{free}/page")]);
    assert!(got.status.success() && got.stdout == site.page.as_bytes(), "{}", text(&got));
}
