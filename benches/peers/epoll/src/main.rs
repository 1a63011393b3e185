//! The servers of the comparison as loops over epoll, without a runtime: what a program can reach that is
//! written for one purpose. An OS thread for each processor waits in its own epoll for its own connections.
//!
//! `bench WORKLOAD [--key value ...]`. `benches/peers/README.md` defines the workloads. This program has
//! `echo` and `http`. `echo --kind uring` is a loop over io_uring.

mod echo;
mod echo_ring;
mod http;
mod poller;
mod ring;

use peer_common::args::{Args, not_offered, wrong};
use peer_common::report::Report;

fn main() {
    let args = Args::from_command_line("epoll");
    let workload: fn(Args) -> Report = match args.workload() {
        "echo" => echo::echo,
        "http" => http::http,
        other if other.starts_with('-') => wrong(format_args!("there is no workload \"{other}\"")),
        _ => not_offered("without a runtime there are servers only"),
    };
    workload(args).print();
}
