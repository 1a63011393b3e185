//! TCP sockets: `TcpListener` and `TcpStream`.

mod listener;
mod stream;

pub use listener::{Incoming, TcpListener};
pub use stream::TcpStream;
