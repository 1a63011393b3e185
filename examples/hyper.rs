//! `hyper` 1.x, server and client, on this runtime: its streams, executor and timer. HTTP/1 and HTTP/2 on the
//! same port.
//!
//! ```sh
//! cargo run --release --features hyper --example hyper           # with clients of its own, for a moment
//! cargo run --release --features hyper --example hyper -- 127.0.0.1:8082     # until Ctrl-C
//! curl -d hello http://127.0.0.1:8082/echo
//! curl --http2-prior-knowledge http://127.0.0.1:8082/
//! cargo run --release --features hyper --example hyper -- get http://127.0.0.1:8082/   # a client of any server; --http2
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use futures::future::{Either, select};
use http_body_util::{BodyExt, Empty, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, client, server};
use runtime::context::Context;
use runtime::hyper::{Executor, Timer};
use runtime::net::{Server, TcpStream};
use runtime::time::{sleep_async, timeout, timeout_async};
use support::Args;
use support::server::{request_time, wrong};

mod support;

const USAGE: &str = "usage: hyper [ADDR]\n       hyper get URL [--http2]\n\n  ADDR      serve there (like 127.0.0.1:8082) until SIGTERM or SIGINT
  get URL   print what is there (http:// only)\n  --http2   ask for it by HTTP/2, which the server is known to speak";

type Failure = Box<dyn Error + Send + Sync>;

/// The most bytes of a body.
const BODY: usize = 4 * 1024 * 1024;
/// How long a connection lives, whatever its client does. A client connects again.
const AGE: Duration = Duration::from_secs(600);

/// A client of HTTP/2 begins with these bytes.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    if addr.as_deref() == Some("get") {
        let Some(url) = args.positional() else { args.wrong("get what?") };
        let (url, speaks_2) = (url.to_string_lossy(), args.flag("--http2"));
        args.end();
        return match runtime::block_on(get(&url, speaks_2)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {url}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    args.end();
    let (end, cancel) = Context::background().with_cancel();
    // In HTTP/2 the server says goodbye, and reads on until the open requests have their replies.
    let settings = Server::builder().end_input(false);
    let tell = move || cancel.cancel();
    support::server::run_with(addr.as_deref(), settings, tell, move |stream| serve(stream, &end), clients)
}

/// Peeks at the first bytes with a blocking call, then drives hyper's future on the same green thread. Once
/// `end` is over, answers only the requests that have begun.
fn serve(stream: TcpStream, end: &Context) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let begin = || timeout(request_time(), || begins_with(&stream, PREFACE));
    let Ok(speaks_2) = end.run(begin) else { return Ok(()) };
    let service = service_fn(answer);
    runtime::block_on(async {
        let ended = timeout_async(AGE.min(10 * request_time()), end.done().recv_async());
        if speaks_2?? {
            let mut http = server::conn::http2::Builder::new(Executor);
            let mut connection = pin!(http.timer(Timer).serve_connection(stream, service));
            match select(connection.as_mut(), pin!(ended)).await {
                Either::Left((served, _)) => served?,
                Either::Right(_) => {
                    // Sends GOAWAY.
                    connection.as_mut().graceful_shutdown();
                    timeout_async(request_time(), connection).await??;
                }
            }
        } else {
            let mut http = server::conn::http1::Builder::new();
            // Also between two requests.
            http.half_close(true).timer(Timer).header_read_timeout(request_time());
            let mut connection = pin!(http.serve_connection(stream, service));
            match select(connection.as_mut(), pin!(ended)).await {
                Either::Left((served, _)) => served?,
                Either::Right(_) => {
                    connection.as_mut().graceful_shutdown();
                    timeout_async(request_time(), connection).await??;
                }
            }
        }
        Ok(())
    })
}

fn begins_with(stream: &TcpStream, text: &[u8]) -> io::Result<bool> {
    let mut bytes = vec![0; text.len()];
    loop {
        let n = stream.peek(&mut bytes)?;
        if n == text.len() || n == 0 || bytes[..n] != text[..n] {
            return Ok(bytes == text);
        }
        // The rest has not arrived yet.
        runtime::sleep(Duration::from_millis(1));
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Failure> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => (StatusCode::OK, Bytes::from(format!("hello over {:?}\n", request.version()))),
        (&Method::GET, "/slow") => {
            sleep_async(Duration::from_millis(20)).await;
            (StatusCode::OK, Bytes::from("at last\n"))
        }
        (&Method::POST, "/echo") => match whole(request.into_body()).await? {
            Ok(body) => (StatusCode::OK, body),
            Err(status) => (status, Bytes::new()),
        },
        _ => (StatusCode::NOT_FOUND, Bytes::from("nothing here\n")),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    Ok(response)
}

/// Returns a whole body, or why it is refused. The body has its time as a whole, and a bound.
async fn whole(body: Incoming) -> Result<Result<Bytes, StatusCode>, Failure> {
    match timeout_async(request_time(), Limited::new(body, BODY).collect()).await {
        Ok(Ok(body)) => Ok(Ok(body.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Ok(Err(StatusCode::PAYLOAD_TOO_LARGE)),
        Ok(Err(error)) => Err(error),
        Err(_) => Ok(Err(StatusCode::REQUEST_TIMEOUT)),
    }
}

/// Prints the body as it arrives.
async fn get(url: &str, speaks_2: bool) -> Result<(), Failure> {
    let url: Uri = url.parse()?;
    let (Some("http"), Some(at)) = (url.scheme_str(), url.authority()) else {
        return Err("no http:// and a name".into());
    };
    // A URL has an IPv6 address in brackets.
    let host = at.host().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, at.port_u16().unwrap_or(80)))?;
    let body = Empty::<Bytes>::new();
    let response = if speaks_2 {
        let (mut sender, connection) = client::conn::http2::handshake(Executor, stream).await?;
        runtime::spawn(connection);
        sender.send_request(Request::get(url).body(body)?).await?
    } else {
        let (mut sender, connection) = client::conn::http1::handshake(stream).await?;
        runtime::spawn(connection);
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        sender.send_request(Request::get(path).header("host", at.as_str()).body(body)?).await?
    };
    if !response.status().is_success() {
        return Err(response.status().to_string().into());
    }
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            io::stdout().write_all(&bytes)?;
        }
    }
    io::stdout().flush()?;
    Ok(())
}

/// Clients of both versions with many requests.
fn clients(addr: SocketAddr) -> io::Result<()> {
    let asked = runtime::block_on(async move {
        let (mut sender, connection) = client::conn::http1::handshake(TcpStream::connect(addr)?).await?;
        let connection = runtime::spawn(connection);
        for i in 0..100 {
            let sent = format!("request {i}: {}", "x".repeat(i * 100));
            sender.ready().await?;
            let response = sender.send_request(post(addr, &sent)?).await?;
            check(&sent, &response.into_body().collect().await?.to_bytes())?;
        }
        drop(sender);
        connection.await.expect("the connection does not panic")?;

        let stream = TcpStream::connect(addr)?;
        let (sender, connection) =
            client::conn::http2::Builder::new(Executor).timer(Timer).handshake(stream).await?;
        let connection = runtime::spawn(connection);
        let requests: Vec<_> = (0..100)
            .map(|i| {
                let mut sender = sender.clone();
                runtime::spawn(async move {
                    let sent = format!("request {i}: {}", "x".repeat(i * 100));
                    sender.ready().await?;
                    let response = sender.send_request(post(addr, &sent)?).await?;
                    check(&sent, &response.into_body().collect().await?.to_bytes())
                })
            })
            .collect();
        for request in requests {
            request.await.expect("the request does not panic")?;
        }
        drop(sender);
        connection.await.expect("the connection does not panic")?;
        Ok::<_, Failure>(())
    });
    asked.map_err(wrong)?;
    println!("100 requests over HTTP/1, 100 at once over HTTP/2, every byte checked");
    Ok(())
}

fn post(
    addr: SocketAddr,
    body: &str,
) -> Result<Request<http_body_util::combinators::BoxBody<Bytes, Infallible>>, Failure> {
    let request = Request::post(format!("http://{addr}/echo")).header("host", addr.to_string());
    Ok(request.body(Full::new(Bytes::from(body.to_string())).boxed())?)
}

fn check(sent: &str, got: &[u8]) -> Result<(), Failure> {
    if got == sent.as_bytes() { Ok(()) } else { Err(wrong("the echo has other bytes").into()) }
}
