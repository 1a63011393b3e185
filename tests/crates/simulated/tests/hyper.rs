//! Unchanged hyper, client and server, over simulated sockets. `runtime::hyper` has its executor and timer.

runtime::interpose!(sim);

use std::collections::HashSet;
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, client, server};
use parking_lot::Mutex;
use runtime::hyper::{Executor, Timer};
use runtime::net::{TcpListener, TcpStream};
use runtime::sim::{self, Builder, Faults, Strategy, net::Quality};
use runtime::time::{sleep_async, timeout_async};
use runtime::{block_on, sleep, spawn};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

type Failure = Box<dyn Error + Send + Sync>;
type Body = Full<Bytes>;

#[derive(Clone, Copy, Debug)]
enum Version {
    One,
    Two,
}

/// An account, on a disk that outlives the node: each deposit adds 1. A deposit with a key is made once.
#[derive(Default)]
struct Account(Mutex<(u64, HashSet<String>)>);

impl Account {
    fn deposit(&self, key: Option<&str>) {
        let (balance, keys) = &mut *self.0.lock();
        if key.is_none_or(|key| keys.insert(key.into())) {
            *balance += 1;
        }
    }

    fn balance(&self) -> u64 {
        self.0.lock().0
    }
}

async fn answer(account: Arc<Account>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let text = |text: String| Response::new(Full::new(text.into()));
    let key = request.headers().get("idempotency-key").map(|key| key.to_str().unwrap().to_string());
    Ok(match (request.method(), request.uri().path()) {
        (&Method::POST, "/deposit") => {
            // A server that closes before it has read all resets the connection, and the answer may be lost.
            _ = request.into_body().collect().await;
            account.deposit(key.as_deref());
            text("done".into())
        }
        (&Method::GET, "/balance") => text(account.balance().to_string()),
        (&Method::GET, "/slow") => {
            sleep_async(60 * S).await;
            text("slept".into())
        }
        (&Method::POST, "/echo") => {
            let body = request.into_body().collect().await;
            Response::new(Full::new(body.map(|body| body.to_bytes()).unwrap_or_default()))
        }
        _ => {
            let mut response = text(String::new());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    })
}

async fn connection(version: Version, stream: TcpStream, account: Arc<Account>) {
    let service = service_fn(move |request| answer(account.clone(), request));
    // A connection that fails is its client's matter.
    _ = match version {
        Version::One => {
            server::conn::http1::Builder::new().timer(Timer).serve_connection(stream, service).await
        }
        Version::Two => {
            server::conn::http2::Builder::new(Executor).timer(Timer).serve_connection(stream, service).await
        }
    };
}

/// Starts the node of the server.
fn serve(version: Version) -> (sim::Node<()>, Arc<Account>) {
    let account = Arc::new(Account::default());
    let kept = account.clone();
    let node = sim::node("server", move || {
        let listener = TcpListener::bind("0.0.0.0:80").unwrap();
        for stream in listener.incoming().flatten() {
            spawn(connection(version, stream, kept.clone()));
        }
    });
    sleep(MS);
    (node, account)
}

/// Sends a request by a connection of its own.
async fn send(version: Version, request: Request<Body>) -> Result<Bytes, Failure> {
    let stream = TcpStream::connect_async("server:80").await?;
    let response = match version {
        Version::One => {
            let (mut sender, connection) = client::conn::http1::handshake(stream).await?;
            spawn(connection);
            sender.send_request(request).await?
        }
        Version::Two => {
            let (mut sender, connection) =
                client::conn::http2::Builder::new(Executor).timer(Timer).handshake(stream).await?;
            spawn(connection);
            sender.send_request(request).await?
        }
    };
    if !response.status().is_success() {
        return Err(response.status().to_string().into());
    }
    Ok(response.into_body().collect().await?.to_bytes())
}

fn request(method: Method, path: &str, key: Option<&str>, body: Bytes) -> Request<Body> {
    let request =
        Request::builder().method(method).uri(format!("http://server{path}")).header("host", "server");
    let request = key.into_iter().fold(request, |request, key| request.header("idempotency-key", key));
    request.body(Full::new(body)).unwrap()
}

fn get(version: Version, path: &str) -> Result<Bytes, Failure> {
    block_on(send(version, request(Method::GET, path, None, Bytes::new())))
}

#[test]
fn a_client_asks_a_server() {
    for version in [Version::One, Version::Two] {
        Builder::new().check_determinism(true).explore(10, move || {
            let (_server, account) = serve(version);
            let large: Bytes = (0..300_000_u32).map(|n| n as u8).collect();
            let clients: Vec<_> = (0..4)
                .map(|number| {
                    let large = large.clone();
                    spawn(async move {
                        let key = number.to_string();
                        let deposit = request(Method::POST, "/deposit", Some(&key), Bytes::new());
                        assert_eq!(send(version, deposit).await.unwrap(), "done");
                        let echo = request(Method::POST, "/echo", None, large.clone());
                        assert!(send(version, echo).await.unwrap() == large);
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            assert_eq!(get(version, "/balance").unwrap(), "4");
            assert_eq!(account.balance(), 4);
            assert_eq!(get(version, "/nothing").unwrap_err().to_string(), "404 Not Found");
        });
    }
}

#[test]
fn time_outs_and_partitions_take_simulated_time() {
    for version in [Version::One, Version::Two] {
        Builder::new().check_determinism(true).explore(5, move || {
            let (server, _account) = serve(version);
            let start = Instant::now();
            assert_eq!(get(version, "/slow").unwrap(), "slept");
            assert!(start.elapsed() >= 60 * S && start.elapsed() < 61 * S);
            let slow = || block_on(timeout_async(2 * S, async { get_async(version, "/slow").await }));
            assert!(slow().is_err());
            sim::net::partition("main", &server);
            assert!(block_on(timeout_async(2 * S, get_async(version, "/balance"))).is_err());
            sim::net::repair("main", &server);
            assert_eq!(get(version, "/balance").unwrap(), "0");
            server.kill();
            get(version, "/balance").unwrap_err();
            server.restart();
            sleep(MS);
            assert_eq!(get(version, "/balance").unwrap(), "0");
        });
    }
}

async fn get_async(version: Version, path: &str) -> Result<Bytes, Failure> {
    send(version, request(Method::GET, path, None, Bytes::new())).await
}

/// hyper's own time-out for the head of a request passes in simulated time.
#[test]
fn the_server_gives_up_a_client_that_sends_no_request() {
    Builder::new().check_determinism(true).explore(5, || {
        let _server = serve(Version::One);
        let start = Instant::now();
        let mut stream = TcpStream::connect("server:80").unwrap();
        std::io::Write::write_all(&mut stream, b"GET /balance HTTP/1.1\r\n").unwrap();
        _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
        // hyper's default.
        assert_eq!(start.elapsed().as_secs(), 30);
    });
}

fn faults() -> Faults {
    let quality = Quality::new().latency(MS..=20 * MS).loss(0.02);
    Faults::new().quality(quality).every(S).lasts(3 * S).partition(0.1).reset(0.1).kill(0.05).clock_drift(200)
}

/// A client makes ten deposits, and repeats each until there is an answer. Panics if the balance is another
/// one. With a key the server knows a deposit that comes again.
fn deposits(version: Version, with_key: bool) {
    let (server, account) = serve(version);
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let client = sim::node("client", move || {
        for number in 0..10 {
            let key = number.to_string();
            let deposit =
                || request(Method::POST, "/deposit", with_key.then_some(&*key), Bytes::from_static(b"1"));
            while !matches!(block_on(timeout_async(S, send(version, deposit()))), Ok(Ok(_))) {
                sleep(200 * MS);
            }
            sleep(500 * MS);
        }
        is_done.store(true, Ordering::Relaxed);
    });
    // A fault may end the client, and then the server has fewer deposits.
    while !client.is_finished() {
        sleep(S);
    }
    assert!(account.balance() >= 10 || !done.load(Ordering::Relaxed));
    assert!(account.balance() <= 10, "{} deposits of 10", account.balance());
    drop(server);
}

#[test]
fn a_run_with_faults_is_the_same_each_time() {
    for version in [Version::One, Version::Two] {
        let builder = Builder::new().faults(faults()).check_determinism(true);
        builder.explore(15, move || deposits(version, true));
    }
}

#[test]
fn a_deposit_that_a_retry_doubles_is_found_and_replayed() {
    for version in [Version::One, Version::Two] {
        let builder = || Builder::new().faults(faults());
        let failure = builder().try_explore(200, move || deposits(version, false)).unwrap_err();
        assert!(failure.message().contains("deposits of 10"), "{failure}");
        assert!(!failure.schedule().is_empty(), "no fault, no retry: {failure}");
        let again = builder().strategy(Strategy::Replay(failure.schedule().clone()));
        let replayed = again.first_seed(failure.seed()).try_explore(1, move || deposits(version, false));
        assert_eq!(replayed.unwrap_err().message(), failure.message());
        builder().explore(60, move || deposits(version, true));
    }
}
