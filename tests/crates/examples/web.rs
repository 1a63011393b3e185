//! A web server with axum and a client with reqwest, both on green threads. The handler sends amounts to an
//! accountant, a green thread in blocking style.
//!
//! Run it: `cargo run --example web` in `tests/crates`. The printed sum shows that each request has added its
//! number once.

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use runtime::channel::{Sender, bounded};

fn main() {
    runtime::Builder::new().tokio(true).build_global().expect("a runtime");
    // The accountant adds each amount that it receives to the sum, and replies with the sum.
    let (orders, inbox) = bounded::<(u64, Sender<u64>)>(10);
    runtime::spawn(move || {
        let mut sum = 0;
        for (amount, reply) in inbox {
            sum += amount;
            let _ = reply.send(sum);
        }
    });

    let add = move |Path(amount): Path<u64>| {
        let orders = orders.clone();
        // The wait for the accountant is in a green thread, so that the wait blocks no OS thread.
        let added = runtime::spawn(move || {
            let (reply, sum) = bounded(1);
            orders.send((amount, reply)).expect("the accountant receives");
            sum.recv().expect("the accountant answers")
        });
        async { added.await.expect("the green thread has not panicked").to_string() }
    };

    let address = runtime::block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the port");
        let app = Router::new().route("/add/{amount}", get(add));
        runtime::spawn(async { axum::serve(listener, app).await });
        address
    });
    println!("http://{address}/add/1");

    // Each client is a future in a green thread.
    runtime::block_on(|| {
        let clients = (1..=100).map(|amount| {
            runtime::spawn(async move {
                reqwest::get(format!("http://{address}/add/{amount}")).await?.text().await
            })
        });
        let sums: Vec<u64> = clients
            .collect::<Vec<_>>()
            .into_iter()
            .map(|client| {
                client
                    .join()
                    .expect("no client panics")
                    .expect("the server answers")
                    .parse()
                    .expect("a number")
            })
            .collect();
        println!("{} requests, sum {}", sums.len(), sums.iter().max().expect("there are requests"));
    });
}
