//! TCP sockets: `TcpListener`, `TcpStream`, and `TcpSocket`, which becomes one of these.

mod listener;
mod socket;
mod stream;

pub use listener::{Incoming, TcpListener};
pub use socket::TcpSocket;
pub use stream::TcpStream;
