//! Libraries on sockets of std, unmodified, in a simulation.

runtime::interpose!(sim);

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use runtime::sim::{self, Faults};

/// Answers requests with their path, one by one on each connection. A path with a number of milliseconds
/// takes that long.
fn serve(listener: TcpListener) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { return };
        thread::spawn(move || answer(stream));
    }
}

fn answer(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&n| n > 0)?;
        let path = line.split(' ').nth(1)?.to_string();
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line).ok().filter(|&n| n > 0)?;
        }
        if let Ok(millis) = path[1..].parse() {
            thread::sleep(Duration::from_millis(millis));
        }
        write!(&stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()).ok()?;
    }
}

fn agent() -> ureq::Agent {
    let limit = Some(Duration::from_secs(2));
    ureq::Agent::config_builder().timeout_global(limit).build().into()
}

fn get(agent: &ureq::Agent, path: &str) -> Result<String, ureq::Error> {
    agent.get(format!("http://server/{path}")).call()?.body_mut().read_to_string()
}

fn server() -> sim::Node<()> {
    sim::node("server", || serve(TcpListener::bind("0.0.0.0:80").unwrap()))
}

#[test]
fn ureq_asks_a_server_of_std() {
    sim::Builder::new().check_determinism(true).explore(10, || {
        let server = server();
        thread::sleep(Duration::from_millis(1));
        let agent = agent();
        let start = Instant::now();
        let clients: Vec<_> = (0..4)
            .map(|number| {
                let agent = agent.clone();
                thread::spawn(move || {
                    assert_eq!(get(&agent, &format!("client{number}")).unwrap(), format!("/client{number}"))
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(get(&agent, "1000").unwrap(), "/1000");
        assert!(start.elapsed() < Duration::from_millis(1500));
        let asked = Instant::now();
        let error = get(&agent, "60000").unwrap_err();
        assert!(matches!(error, ureq::Error::Timeout(_)), "{error}");
        assert_eq!(asked.elapsed().as_secs(), 2);
        server.kill();
    });
}

/// Its threads wait for connections and requests, and it ends by a connection to itself.
#[test]
fn tiny_http_answers() {
    sim::Builder::new().check_determinism(true).explore(10, || {
        let server = sim::node("server", || {
            let server = tiny_http::Server::http("0.0.0.0:80").unwrap();
            thread::scope(|scope| {
                let answer_all = || {
                    for request in server.incoming_requests() {
                        let path = request.url().to_string();
                        if let Ok(millis) = path[1..].parse() {
                            thread::sleep(Duration::from_millis(millis));
                        }
                        request.respond(tiny_http::Response::from_string(path.clone())).unwrap();
                        if path == "/end" {
                            return server.unblock();
                        }
                    }
                };
                (0..2).for_each(|_| _ = scope.spawn(answer_all));
            });
        });
        thread::sleep(Duration::from_millis(1));
        let (agent, start) = (agent(), Instant::now());
        thread::scope(|scope| {
            let ask = |path| assert_eq!(get(&agent, path).unwrap(), format!("/{path}"));
            ["one", "two", "1000", "1001"].into_iter().for_each(|path| _ = scope.spawn(move || ask(path)));
        });
        // Both threads of the server have slept at the same time.
        assert!(start.elapsed() < Duration::from_millis(1500));
        assert_eq!(get(&agent, "end").unwrap(), "/end");
        server.join().unwrap();
    });
}

/// Nodes are cut off and restarted at random. A client that tries again gets its answers.
#[test]
fn a_client_that_tries_again_outlives_faults() {
    let faults = Faults::new().every(Duration::from_millis(500)).partition(0.2).kill(0.2).reset(0.1);
    let report = sim::Builder::new().faults(faults).explore(30, || {
        let server = server();
        let agent = agent();
        for number in 0..10 {
            let path = format!("question{number}");
            let mut tries = 0;
            while get(&agent, &path).is_err() {
                tries += 1;
                assert!(tries < 200, "no answer to question {number}");
                thread::sleep(Duration::from_millis(100));
            }
            thread::sleep(Duration::from_millis(300));
        }
        server.kill();
    });
    assert_eq!(report.runs(), 30);
}

#[test]
fn the_body_of_a_slow_server_comes_in_parts() {
    sim::run(1, || {
        let server = sim::node("server", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:80").unwrap().accept().unwrap();
            // A connection that is closed with unread bytes is reset.
            let head = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
            head.take_while(|line| !line.is_empty()).for_each(drop);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
            for byte in b"parts" {
                thread::sleep(Duration::from_millis(100));
                stream.write_all(&[*byte]).unwrap();
            }
        });
        thread::sleep(Duration::from_millis(1));
        let mut body = String::new();
        let mut answer = agent().get("http://server/").call().unwrap();
        answer.body_mut().as_reader().read_to_string(&mut body).unwrap();
        assert_eq!(body, "parts");
        server.join().unwrap();
    });
}
