//! The example `inside`: each of its faults is found as the page `runtime::docs::inside` says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

mod helpers;

/// Ends the process when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn answer(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ask(address: &str, path: &str) -> String {
    let answer = answer(address, path);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    body.to_owned()
}

/// Returns how many green threads of a dump are those of `is_it`: a line, and the frames below.
fn count(dump: &str, is_it: impl Fn(&str) -> bool) -> usize {
    dump.split("\ngreen thread ").filter(|thread| is_it(thread)).count()
}

#[test]
fn each_fault_is_found() {
    let program = helpers::build("inside");
    let mut running =
        Running(Command::new(program).args(["--secs", "300"]).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("look inside: http://").unwrap().trim_end_matches('/').to_owned();
    let (start, dump) = (Instant::now(), || ask(&address, "/dump"));
    let wait_until = |what: &str, is_so: &dyn Fn(&str) -> bool| {
        while !is_so(&dump()) {
            assert!(start.elapsed() < Duration::from_secs(100), "{what} is not found: {}", dump());
            sleep(Duration::from_millis(50));
        }
    };
    wait_until("the leak", &|dump| {
        count(dump, |thread| thread.contains("a channel to receive") && thread.contains("awaits_reply\n"))
            >= 20
    });
    wait_until("the crosswise lock", &|dump| {
        let waits = |name: &str| {
            count(dump, |thread| {
                thread.contains(&format!("'{name}': waits for a mutex")) && thread.contains("transfer\n")
            }) == 1
        };
        waits("transfer there")
            && waits("transfer back")
            && dump.contains("\ndeadlock: 2 green threads wait for each other\n")
    });
    wait_until("the slow handler", &|dump| {
        count(dump, |thread| thread.contains("handles_page\n") && thread.contains("waits for a mutex")) >= 3
            && count(dump, |thread| thread.contains("asks_database\n")) == 1
    });
    // The program's allocator takes no samples.
    let heap = answer(&address, "/heap");
    assert!(heap.starts_with("HTTP/1.1 404 ") && heap.contains("runtime::profile::Profiled"), "{heap}");
    let mut profile = String::new();
    while !profile
        .lines()
        .any(|line| line.starts_with("green thread 'reports'") && line.contains("builds_report"))
    {
        assert!(start.elapsed() < Duration::from_secs(200), "the hog is not found: {profile}");
        profile = ask(&address, "/profile?seconds=2&format=folded");
    }
}
