//! The workloads of the comparison on may, with its default settings.
//!
//! `bench WORKLOAD [--key value ...]`. `benches/peers/README.md` defines the workloads.

mod channels;
mod conns;
mod echo;
mod hogs;
mod http;
mod idle;
mod mutex;
mod sleeps;
mod spawns;
mod timers;

use may::coroutine::Builder;
use may::go;
use may::net::TcpListener;
use peer_common::args::{Args, not_offered, wrong};
use peer_common::report::Report;

/// The body's stack, in words. The body also sorts and prints, and may's 32 KiB are too small for that.
const BODY_STACK: usize = 0x8000;

fn main() {
    let args = Args::from_command_line("may");
    let workload: fn(Args) -> Report = match args.workload() {
        "timers" => timers::timers,
        "sleepers-memory" => timers::sleepers_memory,
        "spawn-join" => spawns::spawn_join,
        "spawn-batch" => spawns::spawn_batch,
        "yield" => spawns::yields,
        "pingpong" => channels::pingpong,
        "chan" => channels::chan,
        "skynet" => channels::skynet,
        "sieve" => channels::sieve,
        "mutex" => mutex::mutex,
        "timer-churn" | "timer-reset" => not_offered("may has no timers except sleep"),
        "sleep-precision" => sleeps::precision,
        "sleep-loaded" => sleeps::loaded,
        "hog" => hogs::computing,
        "hog-block" => hogs::blocking,
        "echo" => echo::echo,
        "http" => http::http,
        "idle" => idle::idle,
        "conns-memory" => conns::memory,
        "conns-client" => conns::client,
        other => wrong(format_args!("there is no workload \"{other}\"")),
    };
    may::config().set_workers(args.procs());
    let body = go!(Builder::new().stack_size(BODY_STACK), move || workload(args));
    let report = body.expect("the body starts").join().expect("the body ends");
    report.print();
    // The process ends without waiting for tasks that still sleep.
    std::process::exit(0);
}

/// Returns a listener on loopback. Port 0 means any free port. The backlog is may's, 1024.
fn listen(port: u16) -> TcpListener {
    TcpListener::bind(("127.0.0.1", port)).expect("a port to listen on")
}
