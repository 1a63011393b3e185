//! The workloads of the comparison on tokio's multi-thread runtime.
//!
//! `bench WORKLOAD [--key value ...]`. `benches/peers/README.md` defines the workloads. `--alt` uses tokio's
//! timers in the workers instead of its one wheel, and needs a build with `RUSTFLAGS="--cfg tokio_unstable"`.

mod channels;
mod conns;
mod echo;
mod hogs;
mod http;
mod idle;
mod mutex;
mod sleeps;
mod spawns;
mod timer_ops;
mod timers;

use peer_common::args::{Args, wrong};
use peer_common::report::Report;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};

fn main() {
    let mut args = Args::from_command_line("tokio");
    let alt = args.switch("alt");
    let runtime = start(args.procs(), alt);
    let report = runtime.block_on(async { tokio::spawn(run(args)).await.expect("the body ends") });
    report.print();
    // The process ends without waiting for tasks that still sleep.
    std::process::exit(0);
}

async fn run(args: Args) -> Report {
    match args.workload() {
        "timers" => timers::timers(args).await,
        "sleepers-memory" => timers::sleepers_memory(args).await,
        "spawn-join" => spawns::spawn_join(args).await,
        "spawn-batch" => spawns::spawn_batch(args).await,
        "yield" => spawns::yields(args).await,
        "pingpong" => channels::pingpong(args).await,
        "chan" => channels::chan(args).await,
        "skynet" => channels::skynet(args).await,
        "sieve" => channels::sieve(args).await,
        "mutex" => mutex::mutex(args).await,
        "timer-churn" => timer_ops::churn(args).await,
        "timer-reset" => timer_ops::reset(args).await,
        "sleep-precision" => sleeps::precision(args).await,
        "sleep-loaded" => sleeps::loaded(args).await,
        "hog" => hogs::computing(args).await,
        "hog-block" => hogs::blocking(args).await,
        "echo" => echo::echo(args).await,
        "http" => http::http(args).await,
        "idle" => idle::idle(args).await,
        "conns-memory" => conns::memory(args).await,
        "conns-client" => conns::client(args).await,
        other => wrong(format_args!("there is no workload \"{other}\"")),
    }
}

fn start(procs: usize, alt: bool) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(procs).enable_all();
    if alt {
        use_alt_timer(&mut builder);
    }
    builder.build().expect("the runtime starts")
}

#[cfg(tokio_unstable)]
fn use_alt_timer(builder: &mut Builder) {
    builder.enable_alt_timer();
}

#[cfg(not(tokio_unstable))]
fn use_alt_timer(_builder: &mut Builder) {
    peer_common::args::not_offered("--alt: this was built without --cfg tokio_unstable");
}

/// Returns a listener on loopback. Port 0 means any free port.
fn listen(port: u16) -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], port).into()).expect("a port to listen on");
    socket.listen(4096).expect("the socket listens")
}
