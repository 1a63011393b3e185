//! Sockets, and `net::Async`.

mod allocations;
mod async_calls;
#[cfg(unix)]
mod copy;
mod debug;
mod descriptors;
mod faults;
mod into_std;
mod names;
mod poll;
#[cfg(unix)]
mod ready;
mod server;
mod sockets;
mod tcp;
mod tcp_socket;
mod tries;
mod udp;
mod unix;
mod urgent;
