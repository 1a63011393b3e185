//! `std::net` for green threads: the same types and methods; what would block parks the caller instead.

mod socket;
mod tcp;

pub use tcp::{Incoming, TcpListener, TcpStream};
