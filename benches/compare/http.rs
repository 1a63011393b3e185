//! The `http` workload: the server's program under wrk, on the same machine.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use driver::machine::first_line;
use serde_json::Value;

use crate::run::{Failure, Record, check};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";

/// Clock ticks a second in /proc/PID/stat. Linux uses this value in user space on every machine.
const TICKS_PER_S: f64 = 100.0;

/// wrk's option for the number of connections. wrk uses one thread, after a second of warm-up.
const CONNECTIONS: &str = "-c64";

/// A server that does not listen within this time has failed.
const START: Duration = Duration::from_secs(10);

/// The server process. Dropping the value kills the process.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Returns the version of the load generator, if wrk is installed.
pub(crate) fn wrk_version() -> Option<String> {
    first_line(Command::new("wrk").arg("-v")).map(|line| line.split(" Copyright").next().unwrap_or("").into())
}

pub(crate) fn run(program: &Path, procs: usize, quick: bool) -> Result<Record, Failure> {
    if wrk_version().is_none() {
        return Err(Failure::NotOffered("wrk is not installed (Debian: apt-get install wrk)".into()));
    }
    let mut server = start(program, procs)?;
    let port = port(&mut server.0).map_err(Failure::Fails)?;
    measure(&mut server.0, port, procs, quick).map_err(Failure::Fails)
}

fn start(program: &Path, procs: usize) -> Result<Server, Failure> {
    let server = Command::new(program)
        .args(["http", "--port", "0", "--procs", &procs.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    server
        .map(Server)
        .map_err(|error| Failure::Fails(format!("{} cannot be run: {error}", program.display())))
}

/// Reads the port from the line that a server prints when it listens. Fails if no line comes within
/// [`START`].
fn port(server: &mut Child) -> Result<u16, String> {
    let out = server.stdout.take().ok_or("the output of the server is not piped")?;
    let (sender, line) = mpsc::channel();
    // If the server prints nothing, this thread is left running. The thread ends with the server.
    thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(out).read_line(&mut line);
        let _ = sender.send(read.map(|_| line));
    });
    let line = line
        .recv_timeout(START)
        .map_err(|_| format!("the server did not listen within {} s", START.as_secs()))?;
    let line = line.map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_str(&line).map_err(|error| format!("no JSON ({error}): {line}"))?;
    let port = value["listens"].as_u64().and_then(|port| u16::try_from(port).ok());
    port.ok_or(format!("the server prints no port: {line}"))
}

fn measure(server: &mut Child, port: u16, procs: usize, quick: bool) -> Result<Record, String> {
    ask_once(port).map_err(|error| format!("the first request: {error}"))?;
    wrk(port, 1)?;
    let before = cpu_us(server)?;
    let load = wrk(port, if quick { 1 } else { 5 })?;
    let cpu = (cpu_us(server)? - before) / load.requests;
    let line = format!(
        "{{\"workload\": \"http\", \"procs\": {procs}, \"requests\": {}, \"req_per_s\": {:.1}, \"p50_us\": {:.1}, \
         \"p99_us\": {:.1}, \"server_cpu_us_per_req\": {cpu:.4}}}",
        load.requests, load.req_per_s, load.p50_us, load.p99_us
    );
    check(&line, &["http".into()], ["server_cpu_us_per_req", "req_per_s", "p50_us", "p99_us"])
}

/// Checks that the server's answers equal the workload's answer, byte by byte. The second request is sent in
/// two parts.
fn ask_once(port: u16) -> Result<(), String> {
    let ask = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut answers = vec![0; 2 * ANSWER.len()];
        stream.write_all(REQUEST)?;
        stream.read_exact(&mut answers[..ANSWER.len()])?;
        let (first, rest) = REQUEST.split_at(REQUEST.len() - 2);
        stream.write_all(first)?;
        thread::sleep(Duration::from_millis(10));
        stream.write_all(rest)?;
        stream.read_exact(&mut answers[ANSWER.len()..])?;
        Ok(answers)
    };
    let answers = ask().map_err(|error| error.to_string())?;
    if answers.chunks(ANSWER.len()).all(|answer| answer == ANSWER) {
        Ok(())
    } else {
        Err(format!("the server sent a wrong answer: {:?}", String::from_utf8_lossy(&answers)))
    }
}

/// The figures that wrk prints.
#[derive(Debug, PartialEq)]
struct Load {
    requests: f64,
    req_per_s: f64,
    p50_us: f64,
    p99_us: f64,
}

fn wrk(port: u16, secs: u32) -> Result<Load, String> {
    let output = Command::new("wrk")
        .args(["-t1", CONNECTIONS, &format!("-d{secs}s"), "--latency", &format!("http://127.0.0.1:{port}/")])
        .output()
        .map_err(|error| format!("wrk cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("wrk: {}", output.status));
    }
    parse(&text)
}

fn parse(text: &str) -> Result<Load, String> {
    let after = |start: &str| text.lines().find_map(|line| line.trim().strip_prefix(start)).map(str::trim);
    if let Some(errors) = after("Socket errors:").or(after("Non-2xx or 3xx responses:")) {
        return Err(format!("wrk counts errors: {errors}"));
    }
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
    let load = (|| {
        Some(Load {
            requests: requests.filter(|n| *n > 0.0)?,
            req_per_s: after("Requests/sec:")?.parse().ok()?,
            p50_us: time_us(after("50%")?)?,
            p99_us: time_us(after("99%")?)?,
        })
    })();
    load.ok_or(format!("the output of wrk cannot be parsed: {text}"))
}

/// Converts a duration that wrk prints, such as `1.25ms`, to microseconds.
fn time_us(text: &str) -> Option<f64> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let factor = match &text[unit..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(text[..unit].parse::<f64>().ok()? * factor)
}

/// Returns the processor time that all threads of the server have used.
fn cpu_us(server: &mut Child) -> Result<f64, String> {
    if let Ok(Some(status)) = server.try_wait() {
        return Err(format!("the server ended: {status}"));
    }
    let stat =
        fs::read_to_string(format!("/proc/{}/stat", server.id())).map_err(|error| error.to_string())?;
    // The name is in brackets and may contain spaces. The state and the other fields follow the name.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    if ticks.len() < 2 {
        return Err(format!("/proc/PID/stat cannot be parsed: {stat}"));
    }
    Ok(ticks.iter().sum::<f64>() * 1e6 / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::{Load, parse, time_us};

    const GOOD: &str = "\
Running 5s test @ http://127.0.0.1:8080/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   331.55us  130.42us   5.03ms   90.01%
    Req/Sec   190.52k     6.11k  199.80k    80.00%
  Latency Distribution
     50%  325.00us
     75%  361.00us
     90%  410.00us
     99%    1.25ms
  957012 requests in 5.10s, 100.40MB read
Requests/sec: 187652.83
Transfer/sec:     19.69MB
";

    #[test]
    fn what_wrk_reports() {
        let load = Load { requests: 957_012.0, req_per_s: 187_652.83, p50_us: 325.0, p99_us: 1_250.0 };
        assert_eq!(parse(GOOD), Ok(load));
    }

    #[test]
    fn what_wrk_complains_of() {
        for line in
            ["  Socket errors: connect 0, read 5, write 0, timeout 0", "  Non-2xx or 3xx responses: 7"]
        {
            assert!(parse(&format!("{GOOD}{line}\n")).is_err(), "{line}");
        }
        assert!(parse("").is_err());
        assert!(parse(&GOOD.replace("957012 requests", "0 requests")).is_err());
    }

    #[test]
    fn times() {
        assert_eq!(time_us("1.50s"), Some(1_500_000.0));
        assert_eq!(time_us("7.00us"), Some(7.0));
        assert_eq!(time_us("7"), None);
    }
}
