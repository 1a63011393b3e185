//! The workloads of the comparison on this runtime, through its public API only.
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
mod timer_ops;
mod timers;

use peer_common::args::{self, Args};
use peer_common::report::Report;

fn main() {
    let args = Args::from_command_line("ours");
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
        "timer-churn" => timer_ops::churn,
        "timer-reset" => timer_ops::reset,
        "timer-drop" => timer_ops::drop_many,
        "timer-earlier" => timer_ops::set_earlier,
        "sleep-precision" => sleeps::precision,
        "sleep-loaded" => sleeps::loaded,
        "hog" => hogs::computing,
        "hog-block" => hogs::blocking,
        "hog-crowd" => hogs::crowd,
        "echo" => echo::echo,
        "http" => http::http,
        "idle" => idle::idle,
        "conns-memory" => conns::memory,
        "conns-client" => conns::client,
        other => args::wrong(format_args!("there is no workload \"{other}\"")),
    };
    let runtime = runtime::Builder::new().procs(args.procs()).build().expect("the runtime starts");
    runtime.block_on(move || workload(args)).print();
    // The process ends without waiting for tasks that still sleep.
    std::process::exit(0);
}
