//! Unchanged axum servers and reqwest clients on the runtime, with handlers that park.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Path;
use axum::extract::ws::WebSocketUpgrade;
use axum::response::sse::{Event, Sse};
use axum::routing::get;
use crates::{Watchdog, load_by_h2load, load_by_wrk, load_seconds};
use futures::StreamExt;

const MILLI: Duration = Duration::from_millis(1);

/// Serves `app` in a green thread. Returns the server's address.
fn serve(app: Router) -> SocketAddr {
    let (tell, told) = runtime::channel::bounded(1);
    runtime::spawn(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        tell.send(listener.local_addr().unwrap()).unwrap();
        axum::serve(listener, app).await.unwrap();
    });
    told.recv().unwrap()
}

async fn fetch(client: reqwest::Client, url: String) -> String {
    client.get(url).send().await.unwrap().error_for_status().unwrap().text().await.unwrap()
}

#[test]
fn a_sleeping_handler_delays_no_other_handler() {
    let _dog = Watchdog::new();
    const REQUESTS: u32 = 100;
    let sleeps = || async {
        runtime::sleep(200 * MILLI);
        "slept"
    };
    let addr = serve(Router::new().route("/", get(sleeps)));
    runtime::block_on(|| {
        let client = reqwest::Client::new();
        let start = Instant::now();
        let all: Vec<_> =
            (0..REQUESTS).map(|_| runtime::spawn(fetch(client.clone(), format!("http://{addr}/")))).collect();
        all.into_iter().for_each(|one| assert_eq!(one.join().unwrap(), "slept"));
        // Sequential requests would take 20 seconds.
        assert!(start.elapsed() < REQUESTS * 200 * MILLI / 4, "{:?}", start.elapsed());
    });
}

#[test]
fn handlers_send_to_green_threads_and_await_replies() {
    let _dog = Watchdog::new();
    let (ask, asked) = runtime::channel::bounded::<(u64, runtime::channel::Sender<u64>)>(0);
    runtime::spawn(move || {
        while let Ok((n, reply)) = asked.recv() {
            let _ = reply.send(n * n);
        }
    });
    let square = move |Path(n): Path<u64>| {
        let ask = ask.clone();
        async move {
            // The closure runs in a green thread, where parking blocks no OS thread.
            let answer = runtime::spawn(move || {
                let (reply, replied) = runtime::channel::bounded(1);
                ask.send((n, reply)).unwrap();
                runtime::sleep(MILLI);
                replied.recv().unwrap()
            });
            answer.await.unwrap().to_string()
        }
    };
    let addr = serve(Router::new().route("/{n}", get(square)));
    let served = Arc::new(AtomicUsize::new(0));
    runtime::block_on(|| {
        let crawlers: Vec<_> = (0..20u64)
            .map(|crawler| {
                let served = served.clone();
                runtime::spawn(async move {
                    let client = reqwest::Client::new();
                    for n in 0..50 {
                        let n = crawler * 1000 + n;
                        assert_eq!(
                            fetch(client.clone(), format!("http://{addr}/{n}")).await,
                            (n * n).to_string()
                        );
                        served.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        crawlers.into_iter().for_each(|crawler| crawler.join().unwrap());
    });
    assert_eq!(served.load(SeqCst), 20 * 50);
}

/// Closures drive reqwest by `block_on`, while other green threads run.
#[test]
fn closures_drive_reqwest_by_block_on() {
    let _dog = Watchdog::new();
    let addr = serve(Router::new().route("/", get(|| async { "here" })));
    runtime::block_on(|| {
        let all: Vec<_> = (0..50)
            .map(|_| {
                runtime::spawn(move || {
                    runtime::sleep(MILLI);
                    runtime::block_on(fetch(reqwest::Client::new(), format!("http://{addr}/")))
                })
            })
            .collect();
        all.into_iter().for_each(|one| assert_eq!(one.join().unwrap(), "here"));
    });
}

#[test]
fn a_stream_of_server_sent_events_arrives_in_order() {
    let _dog = Watchdog::new();
    let events = || async {
        let ticks = futures::stream::iter(0..5).then(|n| async move {
            tokio::time::sleep(MILLI).await;
            Ok::<_, Infallible>(Event::default().data(n.to_string()))
        });
        Sse::new(ticks)
    };
    let addr = serve(Router::new().route("/", get(events)));
    let text = runtime::block_on(fetch(reqwest::Client::new(), format!("http://{addr}/")));
    assert_eq!(text, (0..5).map(|n| format!("data: {n}\n\n")).collect::<String>());
}

#[test]
fn web_sockets_echo_messages() {
    let _dog = Watchdog::new();
    let echo = |upgrade: WebSocketUpgrade| async {
        upgrade.on_upgrade(|mut socket| async move {
            while let Some(Ok(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        })
    };
    let addr = serve(Router::new().route("/", get(echo)));
    runtime::block_on(|| {
        let clients: Vec<_> = (0..20)
            .map(|client| {
                runtime::spawn(move || {
                    let stream = runtime::net::TcpStream::connect(addr).unwrap();
                    let (mut socket, _) = tungstenite::client(format!("ws://{addr}/"), stream).unwrap();
                    for n in 0..20 {
                        let text = format!("{client} says {n}");
                        socket.send(text.clone().into()).unwrap();
                        assert_eq!(socket.read().unwrap().into_text().unwrap().as_str(), text);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}

/// wrk sends requests for `LOAD_SECONDS` to three handlers: the first parks, the second computes, the third
/// answers at once.
#[test]
fn each_handler_serves_the_load_of_wrk_without_errors() {
    let _dog = Watchdog::within(Duration::from_secs(60 + 4 * load_seconds()));
    let sleeps = || async { runtime::spawn(|| runtime::sleep(MILLI)).await.unwrap() };
    let parks = || async { runtime::sleep(MILLI) };
    let requests = Arc::new(AtomicUsize::new(0));
    let computes = move || async move {
        // One request in fifty computes for longer than sysmon lets a green thread keep its P. Then that
        // request wakes another green thread.
        let time = if requests.fetch_add(1, SeqCst).is_multiple_of(50) { 12 * MILLI } else { MILLI / 10 };
        let work = runtime::spawn(async move {
            let (start, notify) = (Instant::now(), tokio::sync::Notify::new());
            while start.elapsed() < time {}
            notify.notify_one();
            notify.notified().await;
        });
        work.await.unwrap();
    };
    let app = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/sleeps", get(sleeps))
        .route("/parks", get(parks))
        .route("/computes", get(computes));
    let addr = serve(app);
    for path in ["", "sleeps", "parks", "computes"] {
        load_by_wrk(&format!("http://{addr}/{path}"));
    }
}

/// h2load sends requests over HTTP/2, many at a time on each connection, to handlers that park.
#[test]
fn handlers_that_park_serve_the_load_of_h2load_without_errors() {
    let _dog = Watchdog::within(Duration::from_secs(60 + load_seconds()));
    let sleeps = || async {
        runtime::spawn(|| runtime::sleep(MILLI)).await.unwrap();
        tokio::time::sleep(MILLI).await;
        "slept"
    };
    let addr = serve(Router::new().route("/", get(sleeps)));
    load_by_h2load(&format!("http://{addr}/"));
}
