//! A WebSocket echo server: `tungstenite`, a crate for blocking sockets, over the runtime's sockets.
//!
//! ```sh
//! cargo run --release --example websocket                       # with clients of its own, for a moment
//! cargo run --release --example websocket -- 127.0.0.1:9001     # until Ctrl-C
//! ```

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use runtime::net::TcpStream;
use support::Args;
use support::server::{self, wrong};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message};

mod support;

const USAGE: &str =
    "usage: websocket [ADDR]\n\n  ADDR   serve there (like 127.0.0.1:9001) until SIGTERM or SIGINT";

/// The most bytes of a message.
pub(crate) const MESSAGE: usize = 1024 * 1024;

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    args.end();
    let serve = |stream: TcpStream| {
        stream.set_nodelay(true).map_err(Error::from)?;
        serve(stream)
    };
    server::run(addr.as_deref(), serve, clients)
}

/// Echoes the messages of a client.
pub(crate) fn serve(stream: impl Read + Write) -> Result<(), Box<Error>> {
    let config = WebSocketConfig::default().max_message_size(Some(MESSAGE)).max_frame_size(Some(MESSAGE));
    let accept = || {
        tungstenite::accept_with_config(stream, Some(config)).map_err(|error| match error {
            tungstenite::HandshakeError::Failure(error) => error,
            // A read or a write has waited too long.
            tungstenite::HandshakeError::Interrupted(_) => Error::Io(io::ErrorKind::TimedOut.into()),
        })
    };
    let mut socket = server::within(accept)?;
    loop {
        match server::within(|| socket.read()) {
            // The library answers pings.
            Ok(message) if message.is_text() || message.is_binary() => {
                server::within(|| socket.send(message))?
            }
            Ok(_) => {}
            Err(Error::ConnectionClosed) => return Ok(()),
            Err(error) => return Err(Box::new(error)),
        }
    }
}

/// Runs a hundred clients at once.
fn clients(addr: SocketAddr) -> io::Result<()> {
    let clients: Vec<_> = (0..100).map(|number| runtime::spawn(move || client(addr, number))).collect();
    for client in clients {
        client.join().expect("a client does not panic").map_err(wrong)?;
    }
    println!("100 clients received the echo of every message");
    Ok(())
}

fn client(addr: SocketAddr, number: usize) -> Result<(), Box<Error>> {
    let stream = TcpStream::connect(addr).map_err(Error::from)?;
    let (mut socket, _answer) =
        tungstenite::client(format!("ws://{addr}/"), stream).map_err(|error| match error {
            tungstenite::HandshakeError::Failure(error) => error,
            tungstenite::HandshakeError::Interrupted(_) => unreachable!("the stream blocks"),
        })?;
    for i in 0..20 {
        let sent = match i % 2 {
            0 => Message::text(format!("message {i} of client {number}")),
            _ => Message::binary(vec![number as u8; i * 1000]),
        };
        socket.send(sent.clone())?;
        if socket.read()? != sent {
            return Err(Box::new(Error::Io(wrong("another message came back"))));
        }
    }
    socket.close(None)?;
    loop {
        match socket.read() {
            Ok(_) => {}
            Err(Error::ConnectionClosed) => return Ok(()),
            Err(error) => return Err(Box::new(error)),
        }
    }
}
