//! A server for several examples: accepts connections and serves each on a green thread of its own.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use runtime::net::{TcpListener, TcpStream};

/// With an address, serves there until killed. Without an address, serves at a free port until `client` returns.
pub(crate) fn run<E: Display>(
    addr: Option<&str>,
    serve: impl Fn(TcpStream) -> Result<(), E> + Send + Sync + 'static,
    client: impl FnOnce(SocketAddr) -> io::Result<()> + Send,
) -> ExitCode {
    let done = runtime::block_on(|| {
        let listener = TcpListener::bind(addr.unwrap_or("127.0.0.1:0"))?;
        let here = listener.local_addr()?;
        println!("serving on {here}");
        let server = runtime::spawn(move || accept(&listener, serve));
        if addr.is_some() {
            server.join().expect("the server does not panic");
        } else {
            client(here)?;
            server.cancel();
        }
        io::Result::Ok(())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn accept<E: Display>(
    listener: &TcpListener,
    serve: impl Fn(TcpStream) -> Result<(), E> + Send + Sync + 'static,
) {
    let serve = Arc::new(serve);
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => {
                let serve = serve.clone();
                runtime::spawn(move || {
                    if let Err(error) = serve(stream) {
                        eprintln!("connection ended with an error: {error}");
                    }
                });
            }
            // Most likely no descriptor is free. `incoming` pauses before it tries again.
            Err(error) => eprintln!("cannot accept: {error}"),
        }
    }
}

/// Returns an error for bytes that break the protocol.
pub(crate) fn wrong(what: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}
