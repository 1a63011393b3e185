//! A TLS server: `rustls`, a crate for blocking sockets, over the runtime's sockets. The program makes its
//! own certificate.
//!
//! ```sh
//! cargo run --release --example tls                        # with a client of its own, for a moment
//! cargo run --release --example tls -- 127.0.0.1:8443      # until Ctrl-C
//! curl -ki https://127.0.0.1:8443/
//! openssl s_client -connect 127.0.0.1:8443
//! ```

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use runtime::net::TcpStream;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use support::Args;
use support::server::{self, wrong};

mod support;

const USAGE: &str = "usage: tls [ADDR]\n\n  ADDR   serve there (like 127.0.0.1:8443) until SIGTERM or SIGINT";

/// The most bytes of a line, and the most header lines of a request.
const LINE: usize = 64 * 1024;
const HEADERS: usize = 100;

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    args.end();
    let (config, certificate) = configure().expect("a certificate for localhost");
    server::run(addr.as_deref(), move |stream| serve(&config, stream), |addr| client(addr, certificate))
}

fn configure() -> Result<(Arc<ServerConfig>, CertificateDer<'static>), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string(), "127.0.0.1".to_string()])?;
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate.clone()], key)?;
    Ok((Arc::new(config), certificate))
}

/// Answers "GET / HTTP/1.." with a page, and echoes any other line.
fn serve(config: &Arc<ServerConfig>, stream: TcpStream) -> io::Result<()> {
    let connection = ServerConnection::new(config.clone()).map_err(wrong)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    // The first line comes after the handshake, in the same time.
    while let Some(line) = server::within(|| server::line(&mut stream, LINE))? {
        if line.starts_with("GET ") {
            server::within(|| headers(&mut stream))?;
            let body = format!("hello over {:?}\n", stream.get_ref().conn.protocol_version());
            let length = body.len();
            let stream = stream.get_mut();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")?;
            break;
        }
        // In one write: `writeln!` would make two packets of it, and the second would wait for the client's
        // acknowledgement.
        stream.get_mut().write_all((line + "\n").as_bytes())?;
    }
    let stream = stream.get_mut();
    stream.conn.send_close_notify();
    stream.flush()
}

/// Reads the rest of a request.
fn headers(stream: &mut impl BufRead) -> io::Result<()> {
    for _ in 0..HEADERS {
        if server::line(stream, LINE)?.is_none_or(|line| line.is_empty()) {
            break;
        }
    }
    Ok(())
}

/// A client that sends lines and checks their echoes.
fn client(addr: SocketAddr, certificate: CertificateDer<'static>) -> io::Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).map_err(wrong)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = "localhost".try_into().map_err(wrong)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(wrong)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, TcpStream::connect(addr)?));
    for i in 0..1000 {
        let sent = format!("line {i}: {}\n", "x".repeat(i));
        stream.get_mut().write_all(sent.as_bytes())?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if line != sent {
            return Err(wrong(format_args!("{sent:?} came back as {line:?}")));
        }
    }
    let conn = &mut stream.get_mut().conn;
    println!("1,000 lines there and back over {:?}", conn.protocol_version());
    conn.send_close_notify();
    stream.get_mut().flush()?;
    // The server's close_notify follows.
    let end = stream.read_to_end(&mut Vec::new())?;
    if end == 0 { Ok(()) } else { Err(wrong("unexpected bytes before the end of the stream")) }
}
