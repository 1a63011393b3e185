//! Sockets, and `net::Async`.

mod allocations;
mod async_calls;
mod copy;
mod debug;
mod descriptors;
mod duplex;
mod faults;
mod fds;
mod into_std;
mod names;
mod near;
mod pipe;
mod poll;
mod polls;
#[cfg(unix)]
mod ready;
mod server;
mod sockets;
mod tcp;
mod tcp_socket;
mod ticker;
mod tries;
mod udp;
mod unix;
mod urgent;
