//! Unchanged axum and reqwest, each on tokio's own runtime of one thread, in a simulation: tokio waits by
//! `epoll`, `eventfd` and its own timers, which are simulated.

runtime::interpose!(sim);

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use runtime::sim::{self, Builder, Faults, Strategy, net::Quality};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn tokio_runs<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn serve(balance: Arc<AtomicU64>) -> sim::Node<()> {
    let node = sim::node("server", move || {
        let deposit = async |State(balance): State<Arc<AtomicU64>>| {
            balance.fetch_add(1, Ordering::Relaxed);
            "done"
        };
        let slow = async || {
            tokio::time::sleep(60 * S).await;
            "slept"
        };
        let app = Router::new()
            .route("/deposit", post(deposit))
            .route("/slow", get(slow))
            .with_state(balance.clone());
        tokio_runs(async {
            let listener = tokio::net::TcpListener::bind("0.0.0.0:80").await.unwrap();
            _ = axum::serve(listener, app).await;
        });
    });
    thread::sleep(MS);
    node
}

fn client() -> reqwest::Client {
    // reqwest sets `TCP_USER_TIMEOUT`, which a simulation refuses.
    reqwest::Client::builder().no_proxy().tcp_user_timeout(None).timeout(2 * S).build().unwrap()
}

#[test]
fn reqwest_asks_axum() {
    Builder::new().check_determinism(true).explore(5, || {
        let balance = Arc::new(AtomicU64::new(0));
        let server = serve(balance.clone());
        let start = Instant::now();
        tokio_runs(async {
            let client = client();
            let url = format!("http://{}/deposit", server.ip());
            for _ in 0..3 {
                let answer = client.post(&url).send().await.unwrap();
                assert_eq!(answer.text().await.unwrap(), "done");
            }
            let error = client.get(format!("http://{}/slow", server.ip())).send().await.unwrap_err();
            assert!(error.is_timeout(), "{error:?}");
        });
        assert_eq!(start.elapsed().as_secs(), 2);
        assert_eq!(balance.load(Ordering::Relaxed), 3);
        server.kill();
    });
}

#[test]
fn names_of_nodes_are_looked_up() {
    Builder::new().check_determinism(true).explore(5, || {
        let balance = Arc::new(AtomicU64::new(0));
        let server = serve(balance.clone());
        let text = tokio_runs(async {
            client().post("http://server/deposit").send().await.unwrap().text().await.unwrap()
        });
        assert_eq!(text, "done");
        server.kill();
    });
}

/// A client makes ten deposits, and repeats each until there is an answer, which may double one.
fn deposits() {
    let balance = Arc::new(AtomicU64::new(0));
    let server = serve(balance.clone());
    let address = server.ip();
    let client = sim::node("client", move || {
        tokio_runs(async {
            let client = client();
            for _ in 0..10 {
                while client.post(format!("http://{address}/deposit")).send().await.is_err() {
                    tokio::time::sleep(200 * MS).await;
                }
            }
        });
    });
    while !client.is_finished() {
        thread::sleep(S);
    }
    let made = balance.load(Ordering::Relaxed);
    server.kill();
    assert!(made == 10, "{made} deposits of 10");
}

#[test]
fn a_deposit_that_a_retry_doubles_is_found_and_replayed() {
    let quality = Quality::new().latency(MS..=20 * MS);
    let faults = Faults::new().quality(quality).every(20 * MS).lasts(3 * S).partition(0.1);
    let builder = || Builder::new().faults(faults.clone());
    let failure = builder().try_explore(100, deposits).unwrap_err();
    assert!(failure.message().contains("deposits of 10"), "{failure}");
    let again = builder().strategy(Strategy::Replay(failure.schedule().clone()));
    let replayed = again.first_seed(failure.seed()).try_explore(1, deposits);
    assert_eq!(replayed.unwrap_err().message(), failure.message());
    Builder::new().check_determinism(true).explore(5, deposits);
}
