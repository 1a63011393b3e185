//! Unchanged hyper over the runtime's streams, under the load of wrk (HTTP/1.1) and h2load (HTTP/2), with
//! handlers that park.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use crates::{Watchdog, load_by_h2load, load_by_wrk, load_seconds};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, server};
use runtime::net::{TcpListener, TcpStream};

const MILLI: Duration = Duration::from_millis(1);

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    match request.uri().path() {
        // These calls park inside the poll.
        "/parks" => runtime::sleep(MILLI),
        "/computes" => runtime::spawn(|| (0..10_000u64).fold(1, |a, b| std::hint::black_box(a ^ b)))
            .join()
            .map(drop)
            .expect("the green thread does not panic"),
        _ => runtime::spawn(|| runtime::sleep(MILLI)).await.expect("the green thread does not panic"),
    }
    Ok(Response::new(Full::new(Bytes::from("hello"))))
}

/// Serves each connection by `connection` in a green thread. Returns the server's address.
fn serve(connection: impl Fn(TcpStream) + Copy + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    runtime::spawn(move || {
        for stream in listener.incoming().flatten() {
            runtime::spawn(move || connection(stream));
        }
    });
    addr
}

#[test]
fn hyper_serves_the_load_of_wrk_without_errors() {
    let _dog = Watchdog::within(Duration::from_secs(60 + 3 * load_seconds()));
    let addr = serve(|stream| {
        let connection = server::conn::http1::Builder::new()
            .timer(runtime::hyper::Timer)
            .serve_connection(stream, service_fn(answer));
        // A client may reset its connection at the end of the load.
        let _ = runtime::block_on(connection);
    });
    for path in ["sleeps", "parks", "computes"] {
        load_by_wrk(&format!("http://{addr}/{path}"));
    }
}

#[test]
fn hyper_serves_the_load_of_h2load_without_errors() {
    let _dog = Watchdog::within(Duration::from_secs(60 + 2 * load_seconds()));
    let addr = serve(|stream| {
        let connection = server::conn::http2::Builder::new(runtime::hyper::Executor)
            .timer(runtime::hyper::Timer)
            .serve_connection(stream, service_fn(answer));
        let _ = runtime::block_on(connection);
    });
    for path in ["sleeps", "parks"] {
        load_by_h2load(&format!("http://{addr}/{path}"));
    }
}
