//! The examples of this package, with PostgreSQL, Redis and clients over std.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crates::{Postgres, Redis, Watchdog, missing};
use serde_json::{Value, json};

/// An example that serves until a signal.
struct Program {
    process: Child,
    addr: String,
    _output: BufReader<ChildStdout>,
}

/// Builds an example, so that the test does not run an old build, and starts it.
fn run(example: &str, args: &[&str], postgres: &Postgres, redis: Option<&Redis>) -> Program {
    let mut command = command(example);
    command
        .args(args)
        .env("DATABASE_URL", format!("postgres://postgres@127.0.0.1:{}/postgres", postgres.port));
    if let Some(redis) = redis {
        command.env("REDIS_URL", format!("redis://127.0.0.1:{}/", redis.port));
    }
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let addr = line.trim().strip_prefix("serving on ").expect("the server's address").to_string();
    Program { process, addr, _output: output }
}

/// Builds the example. With `EXAMPLES_BUILT=true` the caller has just built all of them.
fn command(example: &str) -> Command {
    if !std::env::var("EXAMPLES_BUILT").is_ok_and(|built| built == "true") {
        build(example);
    }
    Command::new(std::env::current_exe().unwrap().with_file_name("..").join("examples").join(example))
}

fn build(example: &str) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "programs", "--example", example]);
    // What describes the package of this test would let build scripts run again: that of ring reads it.
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.to_string_lossy().starts_with(start)) {
            cargo.env_remove(name);
        }
    }
    let built = cargo.status().unwrap();
    assert!(built.success());
}

impl Program {
    fn connect(&self) -> Client {
        let stream = TcpStream::connect(&self.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client(BufReader::new(stream))
    }

    /// Sends `signal`. The program must succeed.
    fn end_by(mut self, signal: &str) {
        // The shell's own `kill`: the program of that name is not on every machine.
        let kill = format!("kill {signal} {}", self.process.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    /// Sends a request and returns the status and the body of its reply. Returns `None` if the server ended
    /// the connection instead. Panics if the reply is broken.
    fn try_ask(&mut self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{kind}Content-Length: {length}\r\n\r\n{body}");
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) | Err(_) if line.is_empty() => return None,
            read => read.expect("a whole reply"),
        };
        let status = line.split(' ').nth(1).expect("a status").parse().expect("a number");
        let mut length = 0;
        loop {
            line.clear();
            self.0.read_line(&mut line).expect("a whole reply");
            assert!(line.ends_with("\r\n"), "{line:?} is broken");
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a whole reply");
        Some((status, String::from_utf8(body).unwrap()))
    }

    fn ask(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = self.try_ask(method, path, &body).expect("a reply");
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }
}

#[test]
fn service_keeps_books_and_caches_them() {
    let _dog = Watchdog::within(Duration::from_secs(240));
    let Some(postgres) = Postgres::start() else { return missing("postgresql") };
    let Some(redis) = Redis::start() else { return missing("redis-server") };
    let service = run("service", &["127.0.0.1:0"], &postgres, Some(&redis));
    let mut client = service.connect();
    let (status, book) = client.ask("POST", "/books", json!({ "title": "Emma", "year": 1815 }));
    assert_eq!((status, &book["title"]), (201, &json!("Emma")));
    let path = format!("/books/{}", book["id"]);
    for _ in 0..3 {
        assert_eq!(client.ask("GET", &path, Value::Null), (200, book.clone()));
    }
    // What the cache has is not asked from PostgreSQL.
    let psql = |query: &str| {
        let port = postgres.port.to_string();
        let args = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-c", query];
        assert!(Command::new("psql").args(args).output().unwrap().status.success());
    };
    psql("update books set title = 'changed'");
    assert_eq!(client.ask("GET", &path, Value::Null), (200, book));
    assert_eq!(client.ask("DELETE", &path, Value::Null).0, 204);
    assert_eq!(client.ask("DELETE", &path, Value::Null).0, 404);
    assert_eq!(client.ask("GET", &path, Value::Null).0, 404);
    assert_eq!(client.ask("GET", "/books/x", Value::Null).0, 400);
    assert_eq!(client.ask("POST", "/books", json!({ "title": "", "year": 1 })).0, 422);
    assert_eq!(client.ask("POST", "/books", json!({ "title": "Emma" })).0, 422);
    // The service does not read what is too long, so it ends that connection.
    let long = json!({ "title": "x".repeat(20_000), "year": 1 });
    assert_eq!(service.connect().ask("POST", "/books", long).0, 413);
    // The service goes on when the cache has gone.
    let (_, book) = client.ask("POST", "/books", json!({ "title": "Persuasion", "year": 1817 }));
    drop(redis);
    let path = format!("/books/{}", book["id"]);
    assert_eq!(service.connect().ask("GET", &path, Value::Null), (200, book));
    // PostgreSQL's end is an error, too, and not the service's end.
    drop(postgres);
    let status = service.connect().ask("POST", "/books", json!({ "title": "Emma", "year": 1815 })).0;
    assert!(status == 500 || status == 503, "{status}");
    service.end_by("-TERM");
}

#[test]
fn service_breaks_no_reply() {
    let _dog = Watchdog::within(Duration::from_secs(240));
    let Some(postgres) = Postgres::start() else { return missing("postgresql") };
    let Some(redis) = Redis::start() else { return missing("redis-server") };
    for signal in ["-TERM", "-INT"] {
        let service = run("service", &["127.0.0.1:0"], &postgres, Some(&redis));
        let (_, book) = service.connect().ask("POST", "/books", json!({ "title": "Emma", "year": 1815 }));
        let path = format!("/books/{}", book["id"]);
        let add = json!({ "title": "Emma", "year": 1815 }).to_string();
        end_under_load(service, signal, |client| {
            assert_eq!(client.try_ask("POST", "/books", &add)?.0, 201);
            let (status, found) = client.try_ask("GET", &path, "")?;
            assert_eq!((status, serde_json::from_str::<Value>(&found).unwrap()), (200, book.clone()));
            Some(())
        });
    }
}

#[test]
fn bank_loses_no_money() {
    let _dog = Watchdog::within(Duration::from_secs(240));
    let Some(postgres) = Postgres::start() else { return missing("postgresql") };
    for signal in ["-TERM", "-INT"] {
        let bank = run("bank", &["127.0.0.1:0"], &postgres, None);
        let mut client = bank.connect();
        for owner in ["ann", "bob", "cid"] {
            let opened = client.ask("PUT", &format!("/accounts/{owner}/100"), Value::Null).0;
            assert_eq!(opened, if signal == "-TERM" { 201 } else { 409 });
        }
        let refused = [
            json!({ "from": "ann", "to": "dan", "amount": 1 }),
            json!({ "from": "ann", "to": "ann", "amount": 1 }),
            json!({ "from": "ann", "to": "bob", "amount": -1 }),
            json!({ "from": "ann", "to": "bob", "amount": 1000 }),
        ];
        for order in refused {
            assert_eq!(client.ask("POST", "/transfers", order.clone()).0, 422, "{order}");
        }
        end_under_load(bank, signal, |client| {
            for (from, to) in [("ann", "bob"), ("bob", "cid"), ("cid", "ann"), ("bob", "ann")] {
                let order = json!({ "from": from, "to": to, "amount": 7 }).to_string();
                let status = client.try_ask("POST", "/transfers", &order)?.0;
                assert!(status == 204 || status == 422, "{status}");
                let (status, text) = client.try_ask("GET", "/accounts", "")?;
                assert_eq!(status, 200);
                let accounts: Vec<Value> = serde_json::from_str(&text).unwrap();
                let balances = accounts.iter().map(|account| account["balance"].as_i64().unwrap());
                assert!(
                    balances.clone().all(|balance| balance >= 0) && balances.sum::<i64>() == 300,
                    "{text}"
                );
            }
            Some(())
        });
    }
}

/// Sends `signal` while clients ask. `ask` returns `None` if the server has ended the connection.
fn end_under_load(program: Program, signal: &str, ask: impl Fn(&mut Client) -> Option<()> + Sync) {
    let asked = AtomicBool::new(false);
    thread::scope(|s| {
        for _ in 0..8 {
            let mut client = program.connect();
            let (ask, asked) = (&ask, &asked);
            s.spawn(move || {
                while ask(&mut client).is_some() {
                    asked.store(true, Ordering::Relaxed);
                }
            });
        }
        while !asked.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(300));
        program.end_by(signal);
    });
}

#[test]
fn crawler_fetches_each_page_once() {
    let _dog = Watchdog::within(Duration::from_secs(240));
    let output = command("crawler").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.ends_with("200 pages, 0 failed\n"), "{said}");
}

#[test]
fn crawler_fetches_the_pages_of_python() {
    let _dog = Watchdog::within(Duration::from_secs(240));
    if Command::new("python3").arg("--version").output().is_err() {
        return missing("python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let site = [
        (
            "index.html",
            "<a href='a.html'>a</a><a href=\"b.html#x\"><a href='nowhere.html'><a href='mailto:x@y.z'>",
        ),
        ("a.html", "<a href=\"/b.html?x=1&amp;y=2\"><a href='/b.html'><a href='c.txt'>"),
        ("b.html", "<a href='./index.html'><a href='index.html#top'>"),
        ("c.txt", "<a href='never.html'>"),
    ];
    site.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
    let mut python = Command::new("python3")
        .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(python.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let url = line.split(['(', ')']).nth(1).expect("Serving HTTP on .. (URL)");
    let said = |more: &[&str]| {
        let output = command("crawler").arg(format!("{url}index.html")).args(more).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (all, few) = (said(&[]), said(&["2"]));
    let _ = python.kill();
    let _ = python.wait();
    // The pages are index, a, b, b with a query, c and nowhere, which fails.
    assert!(all.ends_with("6 pages, 1 failed\n") && all.contains("404"), "{all}");
    assert!(few.ends_with("2 pages, 0 failed\n"), "{few}");
}
