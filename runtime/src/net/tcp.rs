//! TCP: `TcpListener` and `TcpStream` as in `std::net`.

mod listener;
mod stream;

pub use listener::{Incoming, TcpListener};
pub use stream::TcpStream;
