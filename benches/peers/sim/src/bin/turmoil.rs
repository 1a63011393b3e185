//! The planted bugs under turmoil: hosts that each have a tokio runtime with one thread, with simulated time
//! and network.

#[path = "../share.rs"]
mod share;
#[path = "../tasks.rs"]
mod tasks;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use ::tokio;
use tokio::time::timeout;
use turmoil::net::UdpSocket;
use turmoil::{Builder, Sim};

const MS: Duration = Duration::from_millis(1);

/// A client sends each deposit again until it gets an answer. A server that does not know a repeated deposit
/// counts it twice.
fn lost_ack(sim: &mut Sim<'_>) {
    let sum = Arc::new(AtomicU32::new(0));
    let account = sum.clone();
    sim.host("bank", move || {
        let account = account.clone();
        async move {
            let socket = UdpSocket::bind("0.0.0.0:100").await?;
            let mut seen = HashSet::new();
            loop {
                let mut number = [0];
                let (_, client) = socket.recv_from(&mut number).await?;
                seen.insert(number);
                account.fetch_add(10, SeqCst);
                socket.send_to(&number, client).await?;
            }
        }
    });
    sim.client("main", async move {
        let socket = UdpSocket::bind("0.0.0.0:200").await?;
        for number in 0..3 {
            let mut answer = [9];
            while answer != [number] {
                let _ = socket.send_to(&[number], "bank:100").await;
                while timeout(50 * MS, socket.recv_from(&mut answer)).await.is_ok() && answer != [number] {}
            }
        }
        assert_eq!(sum.load(SeqCst), 30);
        Ok(())
    });
}

fn builder(seed: u64) -> Builder {
    let mut builder = Builder::new();
    builder.rng_seed(seed).enable_random_order().simulation_duration(Duration::from_secs(60));
    builder
}

fn run<F: Future<Output = ()> + 'static>(seed: u64, bug: fn() -> F) {
    let mut sim = builder(seed).build();
    sim.client("main", async move {
        bug().await;
        Ok(())
    });
    sim.run().unwrap();
}

fn main() {
    let tool = "turmoil";
    share::print(tool, "lost wake-up", 1000, |seed| run(seed, tasks::lost_wake_up));
    share::print(tool, "lock order", 1000, |seed| run(seed, tasks::lock_order));
    share::print(tool, "check then act", 1000, |seed| run(seed, tasks::check_then_act));
    share::print(tool, "close race", 1000, |seed| run(seed, tasks::close_loses_messages));
    share::print(tool, "time-out race", 1000, |seed| run(seed, tasks::time_out_race));
    share::print(tool, "double delivery", 1000, |seed| run(seed, tasks::double_delivery));
    share::print(tool, "lost ack", 1000, |seed| {
        // A message breaks its link with the first probability, and each later one repairs it with the
        // second.
        let mut sim = builder(seed).fail_rate(0.05).repair_rate(0.5).build();
        lost_ack(&mut sim);
        sim.run().unwrap();
    });
    share::print_yields(tool, || run(1, tasks::yields));
}
