//! The server examples with clients of other projects: curl, openssl, nc, redis-cli, h2load, wrk, and tungstenite
//! over std. The client example with servers of other projects: Python's and nghttpd.
//!
//! A test whose programs are not installed is reported as ignored, with the name of the missing program. With `CI=true`
//! such a test fails. `ci/setup.sh` installs the programs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// The name of a test, the programs that the test runs beside the example, and its body.
type Test = (&'static str, &'static [&'static str], fn());

const TESTS: &[Test] = &[
    ("http_serves_curl", &["curl"], http_serves_curl),
    (
        "http_refuses_requests_whose_length_is_not_certain",
        &[],
        http_refuses_requests_whose_length_is_not_certain,
    ),
    ("redis_bounds_commands_and_forges_no_reply", &[], redis_bounds_commands_and_forges_no_reply),
    ("lines_without_end_are_refused", &[], lines_without_end_are_refused),
    ("proxy_forgets_clients_that_reset", &[], proxy_forgets_clients_that_reset),
    (
        "servers_end_by_a_signal_without_breaking_a_reply",
        &[],
        servers_end_by_a_signal_without_breaking_a_reply,
    ),
    ("http_serves_wrk", &["wrk"], http_serves_wrk),
    ("tls_serves_curl", &["curl"], tls_serves_curl),
    ("tls_serves_openssl", &["openssl"], tls_serves_openssl),
    ("websocket_serves_a_client_over_std", &[], websocket_serves_a_client_over_std),
    ("websocket_answers_the_handshake_of_curl", &["curl"], websocket_answers_the_handshake_of_curl),
    ("redis_serves_redis_cli", &["redis-cli"], redis_serves_redis_cli),
    ("redis_serves_redis_benchmark", &["redis-benchmark"], redis_serves_redis_benchmark),
    ("chat_carries_lines_between_nc", &["nc"], chat_carries_lines_between_nc),
    ("proxy_stands_between_curl_and_http", &["curl"], proxy_stands_between_curl_and_http),
    ("hyper_serves_curl", &["curl"], hyper_serves_curl),
    ("hyper_serves_h2load", &["h2load"], hyper_serves_h2load),
    ("hyper_serves_wrk", &["wrk"], hyper_serves_wrk),
    ("hyper_is_a_client_of_hyper", &[], hyper_is_a_client_of_hyper),
    ("hyper_is_a_client_of_python", &["python3"], hyper_is_a_client_of_python),
    ("hyper_is_a_client_of_nghttpd", &["nghttpd"], hyper_is_a_client_of_nghttpd),
];

fn main() {
    if cfg!(not(unix)) {
        return;
    }
    // The standard harness cannot ignore a test at run time.
    let trials = TESTS
        .iter()
        .map(|&(name, programs, test)| Trial::ignorable_test(name, move || run_if_installed(programs, test)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

/// Runs `test` if `programs` are installed. Otherwise the test is ignored, or fails if `CI` is `true`.
fn run_if_installed(programs: &[&str], test: fn()) -> Result<Completion, Failed> {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| !is_installed(program)).collect();
    if missing.is_empty() {
        test();
        return Ok(Completion::Completed);
    }
    let reason = format!("{} not installed: run ci/setup.sh", missing.join(", "));
    if std::env::var("CI").is_ok_and(|ci| ci == "true") {
        return Err(reason.into());
    }
    Ok(Completion::ignored_with(reason))
}

/// True if a directory of `PATH` has a file named `program`.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Builds an example, so that the test does not run an old build. Returns the path of its program.
fn build(example: &str, features: &[&str]) -> PathBuf {
    let directory = std::env::current_exe().expect("this test").with_file_name("..");
    let release = directory.components().any(|part| part.as_os_str() == "release");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "examples", "--example", example]);
    cargo.args(features.iter().flat_map(|feature| ["--features", feature]));
    let built = cargo.args(release.then_some("--release")).status().expect("cargo");
    assert!(built.success(), "{example} is not built");
    directory.join("examples").join(example)
}

/// An example that serves until the value is dropped.
struct Server {
    process: Child,
    addr: String,
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Builds the example and starts it on a free port of loopback.
    fn start(example: &str, more: &[&str]) -> Server {
        Server::start_with(example, &[], more)
    }

    fn start_with(example: &str, features: &[&str], more: &[&str]) -> Server {
        let program = build(example, features);
        let mut process = Command::new(program)
            .arg("127.0.0.1:0")
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{example}: {error}"));
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the server's first line");
        let addr = line.trim().strip_prefix("serving on ").expect("the server's address").to_string();
        Server { process, addr, _output: output }
    }

    fn port(&self) -> &str {
        self.addr.rsplit(':').next().expect("a port")
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that has ended by itself is a failure.
        assert!(self.process.try_wait().expect("a child").is_none() || std::thread::panicking());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a client program with `input` on its stdin. The program must succeed within a minute.
fn client(program: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new("timeout")
        .args(["60", program])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("coreutils' timeout");
    let mut pipe = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // The program may end before it has read all input.
    let feeder = std::thread::spawn(move || drop(pipe.write_all(&input)));
    let output = child.wait_with_output().expect("a child");
    feeder.join().expect("the feeder does not panic");
    assert!(output.status.success(), "{program} {args:?}: {}\n{}", output.status, text(&output));
    output
}

fn curl(args: &[&str], input: &[u8]) -> String {
    let output = client("curl", &[&["--silent", "--show-error", "--max-time", "30"], args].concat(), input);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs wrk, which requests `url` repeatedly over a few persistent connections.
fn wrk(url: &str) {
    let said = text(&client("wrk", &["-t", "2", "-c", "8", "-d", "2s", url], b""));
    assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}");
    let requests = said.lines().find_map(|line| line.trim().split_once(" requests in "));
    let requests: usize = requests.expect("a number of requests").0.parse().expect("a number");
    assert!(requests > 8, "several requests for each connection: {said}");
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
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

fn hyper_serves_curl() {
    let server = Server::start_with("hyper", &["hyper"], &[]);
    assert_eq!(curl(&[&server.url("/")], b""), "hello over HTTP/1.1\n");
    assert_eq!(curl(&["--http1.0", &server.url("/")], b""), "hello over HTTP/1.0\n");
    assert_eq!(curl(&["--http2-prior-knowledge", &server.url("/")], b""), "hello over HTTP/2.0\n");
    let body: Vec<u8> = (0..3_000_000u32).map(|i| b'a' + (i % 26) as u8).collect();
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let args = ["--silent", version, "--data-binary", "@-", &server.url("/echo")];
        assert!(client("curl", &args, &body).stdout == body);
    }
    // Over HTTP/2 each request has a connection of its own: curl 7.88 fails to share a connection, with nghttpd too,
    // in its "HTTP2 framing layer".
    for more in [&["--http1.1"][..], &["--http2-prior-knowledge", "--parallel-immediate"]] {
        let slow = server.url("/slow");
        let said = curl(&[more, &["--parallel", &slow, &slow, &server.url("/")]].concat(), b"");
        assert_eq!(said.matches("at last").count(), 2, "{said}");
    }
    let missing = curl(&["-o", "/dev/null", "-w", "%{http_code}", &server.url("/nowhere")], b"");
    assert_eq!(missing, "404");
}

fn hyper_serves_h2load() {
    let server = Server::start_with("hyper", &["hyper"], &[]);
    // Each connection carries many requests at the same time.
    let load = client("h2load", &["-n", "1000", "-c", "10", "-m", "20", &server.url("/slow")], b"");
    assert!(text(&load).contains("1000 succeeded, 0 failed"), "{}", text(&load));
}

fn hyper_serves_wrk() {
    let server = Server::start_with("hyper", &["hyper"], &[]);
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

/// Runs the hyper example at the path `hyper` as a client: `hyper get ARGS..`.
fn get(hyper: &Path, args: &[&str]) -> Output {
    let output = Command::new("timeout").arg("60").arg(hyper).arg("get").args(args).output();
    output.expect("coreutils' timeout")
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
    let hyper = build("hyper", &["hyper"]);
    let server = Server::start_with("hyper", &["hyper"], &[]);
    for (args, version) in [(&[][..], "1.1"), (&["--http2"], "2.0")] {
        let said = text(&get(&hyper, &[args, &[&server.url("/")]].concat()));
        assert_eq!(said, format!("hello over HTTP/{version}\n"));
    }
}

fn hyper_is_a_client_of_python() {
    let hyper = build("hyper", &["hyper"]);
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
    let hyper = build("hyper", &["hyper"]);
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

/// Sends `bytes` and returns all that the server sends before it ends the connection.
fn exchange(addr: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // The server may end the connection before it has read all.
    let _ = stream.write_all(bytes);
    let mut reply = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(n @ 1..) = stream.read(&mut piece) {
        reply.extend_from_slice(&piece[..n]);
    }
    String::from_utf8_lossy(&reply).into_owned()
}

fn http_refuses_requests_whose_length_is_not_certain() {
    let server = Server::start("http", &[]);
    let request = |headers: &[u8]| {
        [b"POST /echo HTTP/1.1\r\nHost: x\r\n", headers, b"\r\n\r\nGET / HTTP/1.1\r\n\r\n"].concat()
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
    ];
    for headers in refused {
        let reply = exchange(&server.addr, &request(headers));
        let what = String::from_utf8_lossy(headers);
        assert!(
            reply.starts_with("HTTP/1.1 400 ") && reply.matches("HTTP/1.1").count() == 1,
            "{what}: {reply}"
        );
    }
    // Two equal lengths leave no doubt.
    let twice =
        b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    assert!(exchange(&server.addr, twice).ends_with("\r\n\r\nok"));
}

fn redis_bounds_commands_and_forges_no_reply() {
    let server = Server::start("redis", &[]);
    let before = memory(&server);
    // Each word and their number are within bounds, but not the words together.
    let word = [&b"$500000\r\n"[..], &vec![b'a'; 500_000], b"\r\n"].concat();
    let command = [&b"*1000\r\n"[..], &word.repeat(20)].concat();
    assert_eq!(exchange(&server.addr, &command), "");
    assert_eq!(exchange(&server.addr, b"*+1\r\n$4\r\nPING\r\n"), "");
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
    // The TLS server speaks through openssl in another test. Here its own client sends lines of up to 1,000 bytes.
    for server in [&chat, &redis, &http] {
        let bytes = memory(server);
        assert!(bytes < 64 << 20, "{bytes} bytes");
    }
}

fn proxy_forgets_clients_that_reset() {
    // The target echoes, and reads no more once its client reads nothing.
    let target = Server::start("http", &[]);
    let proxy = Server::start("proxy", &[&target.addr]);
    let before = descriptors(&proxy);
    assert_eq!(exchange(&proxy.addr, b"GET / HTTP/1.0\r\n\r\n").matches("200 OK").count(), 1);
    wait_until("the first connection is closed", || descriptors(&proxy) == before);
    let request =
        [&b"POST /echo HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n"[..], &vec![b'a'; 2_000_000]].concat();
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

fn servers_end_by_a_signal_without_breaking_a_reply() {
    let target = Server::start("http", &[]);
    let more: &[(&str, &[&str])] = &[
        ("http", &[]),
        ("redis", &[]),
        ("chat", &[]),
        ("tls", &[]),
        ("websocket", &[]),
        ("proxy", &[&target.addr]),
    ];
    for &(example, args) in more {
        for signal in ["-TERM", "-INT"] {
            let server = Server::start(example, args);
            let idle = TcpStream::connect(&server.addr).unwrap();
            let took = end_by(server, signal);
            // Idle connections must not have to be cancelled, after 5 s.
            assert!(took < Duration::from_secs(4) || example == "proxy", "{example} {signal}: {took:?}");
            drop(idle);
        }
    }
    for signal in ["-TERM", "-INT"] {
        let server = Server::start("http", &[]);
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let addr = server.addr.clone();
                std::thread::spawn(move || whole_replies(&addr))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        end_by(server, signal);
        let replies: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
        assert!(replies > 0);
    }
}

/// Sends `signal` to a server, which must succeed. Returns how long its end took.
fn end_by(mut server: Server, signal: &str) -> Duration {
    let start = std::time::Instant::now();
    // The shell's own `kill`: the program of that name is not on every machine.
    let kill = format!("kill {signal} {}", server.process.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let status = server.process.wait().unwrap();
    assert!(status.success(), "{status}");
    std::mem::forget(server);
    start.elapsed()
}

/// Sends requests to http until the server ends. Returns how many replies came. Panics if a reply is broken.
fn whole_replies(addr: &str) -> usize {
    let Ok(mut stream) = TcpStream::connect(addr) else { return 0 };
    let expected =
        b"HTTP/1.1 200 OK\r\nContent-Length: 26\r\nConnection: keep-alive\r\n\r\nhello from a green thread\n";
    let (mut replies, mut reply) = (0, vec![0; expected.len()]);
    while stream.write_all(b"GET / HTTP/1.1\r\n\r\n").is_ok() {
        let mut got = 0;
        while got < reply.len() {
            match stream.read(&mut reply[got..]) {
                Ok(n @ 1..) => got += n,
                _ if got == 0 => return replies,
                _ => panic!("{got} bytes of a reply"),
            }
        }
        assert_eq!(reply, expected);
        replies += 1;
    }
    replies
}

/// Returns how many bytes of memory the server's process uses.
fn memory(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    // Elsewhere than on Linux nothing is measured.
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024)
}

/// Returns how many descriptors the server's process has.
fn descriptors(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.process.id())).map_or(0, Iterator::count)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(50), "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
