//! The planted bugs under madsim: tasks of its tokio, which run in a random order, with simulated time and
//! network.

#[path = "../share.rs"]
mod share;
#[path = "../tasks.rs"]
mod tasks;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use madsim::Config;
use madsim::runtime::{Handle, Runtime};
use madsim_tokio as tokio;
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

const MS: Duration = Duration::from_millis(1);

/// A client sends each deposit again until it gets an answer. A server that does not know a repeated deposit
/// counts it twice.
async fn lost_ack() {
    let sum = Arc::new(AtomicU32::new(0));
    let account = sum.clone();
    let bank = Handle::current().create_node().ip("10.0.0.1".parse().unwrap()).build();
    bank.spawn(async move {
        let socket = UdpSocket::bind("10.0.0.1:100").await.unwrap();
        let mut seen = HashSet::new();
        loop {
            let mut number = [0];
            let (_, client) = socket.recv_from(&mut number).await.unwrap();
            seen.insert(number);
            account.fetch_add(10, SeqCst);
            socket.send_to(client, &number).await.unwrap();
        }
    });
    let client = Handle::current().create_node().ip("10.0.0.2".parse().unwrap()).build();
    let done = client.spawn(async move {
        sleep(MS).await;
        let socket = UdpSocket::bind("10.0.0.2:200").await.unwrap();
        for number in 0..3 {
            let mut answer = [9];
            while answer != [number] {
                let _ = socket.send_to("10.0.0.1:100", &[number]).await;
                while timeout(50 * MS, socket.recv_from(&mut answer)).await.is_ok() && answer != [number] {}
            }
        }
    });
    done.await.unwrap();
    assert_eq!(sum.load(SeqCst), 30);
}

fn run<F: Future<Output = ()>>(seed: u64, loss: f64, bug: fn() -> F) {
    let mut config = Config::default();
    config.net.packet_loss_rate = loss;
    Runtime::with_seed_and_config(seed, config).block_on(bug());
}

fn main() {
    let tool = "madsim";
    share::print(tool, "lost wake-up", 1000, |seed| run(seed, 0.0, tasks::lost_wake_up));
    share::print(tool, "lock order", 1000, |seed| run(seed, 0.0, tasks::lock_order));
    share::print(tool, "check then act", 1000, |seed| run(seed, 0.0, tasks::check_then_act));
    share::print(tool, "close race", 1000, |seed| run(seed, 0.0, tasks::close_loses_messages));
    share::print(tool, "time-out race", 1000, |seed| run(seed, 0.0, tasks::time_out_race));
    share::print(tool, "double delivery", 1000, |seed| run(seed, 0.0, tasks::double_delivery));
    share::print(tool, "lost ack", 1000, |seed| run(seed, 0.05, lost_ack));
    share::print_yields(tool, || run(1, 0.0, tasks::yields));
}
