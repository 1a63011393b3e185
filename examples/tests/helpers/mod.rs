//! Helpers of the tests of examples: tests that need programs, examples as servers, clients.

// Each test file uses only some of these.
#![allow(dead_code)]

pub(crate) mod h2;
pub(crate) mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// The name of a test, the programs that the test runs beside the example (and [`NEEDS_HYPER`]), and its
/// body.
pub(crate) type Test = (&'static str, &'static [&'static str], fn());

/// Runs the tests that the command line asks for. The standard harness cannot ignore a test at run time.
pub(crate) fn run(tests: &'static [Test]) {
    if cfg!(not(unix)) {
        return;
    }
    let trials = tests
        .iter()
        .map(|&(name, programs, test)| Trial::ignorable_test(name, move || run_if_installed(programs, test)));
    let mut arguments = Arguments::from_args();
    // As the harness of std has it. These tests mostly wait.
    arguments.test_threads = arguments.test_threads.or_else(test_threads);
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Returns how many tests run at a time by the variable that std's harness reads.
fn test_threads() -> Option<usize> {
    std::env::var("RUST_TEST_THREADS").ok()?.parse().ok()
}

/// Runs `test` if `programs` are installed. Otherwise the test is ignored, or fails if `CI` is `true`.
pub(crate) fn run_if_installed(programs: &[&str], test: fn()) -> Result<Completion, Failed> {
    if programs.contains(&NEEDS_HYPER) && cfg!(not(feature = "hyper")) {
        return Ok(Completion::ignored_with(format!("needs {NEEDS_HYPER}: add `--features hyper`")));
    }
    let programs = programs.iter().copied().filter(|&program| program != NEEDS_HYPER);
    let missing: Vec<&str> = programs.filter(|program| !is_installed(program)).collect();
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

/// What a test names that needs the example `hyper`. `ci/features.sh` runs these tests; without the feature
/// they would compile the runtime once more.
pub(crate) const NEEDS_HYPER: &str = "the feature `hyper` of this package";

/// True if a directory of `PATH` has a file named `program`.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The features of this test program.
const OWN_FEATURES: [(&str, bool); 4] = [
    ("debug", cfg!(feature = "debug")),
    ("hyper", cfg!(feature = "hyper")),
    ("sim", cfg!(feature = "sim")),
    ("tracing", cfg!(feature = "tracing")),
];

/// Builds an example with the features of this test program, so that the test does not run an old build.
/// The features of the dependencies are those of the whole workspace. After `cargo test --workspace`,
/// nothing is left to build. With `EXAMPLES_BUILT=true` all examples have just been built by the caller.
/// Returns the path of the program.
pub(crate) fn build(example: &str) -> PathBuf {
    let directory = std::env::current_exe().expect("this test").with_file_name("..");
    if std::env::var("EXAMPLES_BUILT").is_ok_and(|built| built == "true") {
        return directory.join("examples").join(example);
    }
    let release = directory.components().any(|part| part.as_os_str() == "release");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--workspace", "--example", example]);
    let own = OWN_FEATURES.iter().filter_map(|(feature, is_on)| is_on.then_some(feature));
    cargo.args(own.flat_map(|feature| ["--features".to_string(), format!("examples/{feature}")]));
    // What describes the package of this test would let build scripts run again: that of ring reads it.
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.to_string_lossy().starts_with(start)) {
            cargo.env_remove(name);
        }
    }
    let built = cargo.args(release.then_some("--release")).status().expect("cargo");
    assert!(built.success(), "{example} is not built");
    directory.join("examples").join(example)
}

/// An example that serves until the value is dropped.
pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) addr: String,
    /// What the server prints after its first line.
    pub(crate) output: BufReader<ChildStdout>,
}

impl Server {
    /// Builds the example and starts it on a free port of loopback.
    pub(crate) fn start(example: &str, more: &[&str]) -> Server {
        Server::launch(Command::new(build(example)), example, more)
    }

    /// Starts a server that gives a client half a second for a request.
    pub(crate) fn start_hasty(example: &str, more: &[&str]) -> Server {
        let mut command = Command::new(build(example));
        command.env("EXAMPLE_REQUEST_MS", "500");
        Server::launch(command, example, more)
    }

    fn launch(mut command: Command, example: &str, more: &[&str]) -> Server {
        let mut process = command
            .env("RUST_BACKTRACE", "0")
            // `echo` without it measures itself.
            .args((example == "echo").then_some("--serve"))
            .arg("127.0.0.1:0")
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{example}: {error}"));
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the server's first line");
        let addr = line.trim().strip_prefix("serving on ").expect("the server's address").to_string();
        Server { process, addr, output }
    }

    pub(crate) fn port(&self) -> &str {
        self.addr.rsplit(':').next().expect("a port")
    }

    pub(crate) fn url(&self, path: &str) -> String {
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
pub(crate) fn client(program: &str, args: &[&str], input: &[u8]) -> Output {
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

pub(crate) fn curl(args: &[&str], input: &[u8]) -> String {
    let output = client("curl", &[&["--silent", "--show-error", "--max-time", "30"], args].concat(), input);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs wrk, which requests `url` repeatedly over a few persistent connections.
pub(crate) fn wrk(url: &str) {
    let said = text(&client("wrk", &["-t", "2", "-c", "8", "-d", "2s", url], b""));
    assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}");
    let requests = said.lines().find_map(|line| line.trim().split_once(" requests in "));
    let requests: usize = requests.expect("a number of requests").0.parse().expect("a number");
    assert!(requests > 8, "several requests for each connection: {said}");
}

pub(crate) fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// Sends `bytes` and returns all that the server sends before it ends the connection.
pub(crate) fn exchange(addr: &str, bytes: &[u8]) -> String {
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

/// Returns how many bytes of memory the server's process uses.
pub(crate) fn memory(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    // Elsewhere than on Linux nothing is measured.
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024)
}

/// Returns how many descriptors the server's process has, without those of its pollers: a runtime makes a
/// poller for a P when that first has busy sockets, and keeps it.
pub(crate) fn descriptors(server: &Server) -> usize {
    let Ok(all) = std::fs::read_dir(format!("/proc/{}/fd", server.process.id())) else { return 0 };
    let is_poller = |name: &std::path::PathBuf| name.as_os_str() == "anon_inode:[eventpoll]";
    all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|name| !is_poller(name))
        .count()
}

pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(50), "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
