//! A server that waits for some milliseconds before each answer. It prints its port, and ends when its
//! standard input is closed.
//!
//! - `http`: each answer is the path of the request.
//! - `smtp`: the answer to a mail is the last line of the mail.
//! - `tls FOLDER`: each answer is the line that was received, with the certificate in that folder.
//!
//! It is a process of its own, so that a test counts the OS threads of the clients alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use native_tls::{Identity, TlsAcceptor};

runtime::interpose!();

fn main() {
    interpose::crowd::raise_limit_of_descriptors();
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().expect("slow_server MILLISECONDS PROTOCOL [FOLDER]");
    let delay = Duration::from_millis(next().parse().expect("milliseconds"));
    match next().as_str() {
        "http" => serve(move |stream| answer_http(&stream, delay)),
        "smtp" => serve(move |stream| answer_smtp(&stream, delay)),
        "tls" => {
            let acceptor = acceptor(Path::new(&next()));
            serve(move |stream| answer_tls(acceptor.accept(stream).ok()?, delay));
        }
        protocol => panic!("{protocol}: http, smtp and tls are served"),
    }
}

/// Serves each connection in a green thread, until standard input is closed.
fn serve(answer: impl Fn(TcpStream) -> Option<()> + Clone + Send + 'static) {
    // A listener of the runtime has a long queue of connections.
    let listener = runtime::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    println!("{}", listener.local_addr().expect("the port").port());
    runtime::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            let stream = TcpStream::from(stream);
            stream.set_nonblocking(false).expect("a blocking stream");
            let builder = runtime::thread::Builder::new().stack_size(1 << 20);
            builder.spawn(move || answer(stream)).expect("a green thread");
        }
    });
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn answer_http(mut stream: &TcpStream, delay: Duration) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    lines.find(|line| line.as_ref().is_ok_and(String::is_empty))?.ok()?;
    runtime::sleep(delay);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", path.len());
    stream.write_all((head + &path).as_bytes()).ok()
}

fn answer_smtp(mut stream: &TcpStream, delay: Duration) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    stream.write_all(b"220 here\r\n").ok()?;
    loop {
        let line = lines.next()?.ok()?;
        let answer = match line.split([' ', ':']).next()? {
            "DATA" => {
                stream.write_all(b"354 go on\r\n").ok()?;
                let mail: Vec<_> =
                    lines.by_ref().map_while(Result::ok).take_while(|line| line != ".").collect();
                runtime::sleep(delay);
                format!("250 {}", mail.last()?)
            }
            "QUIT" => return stream.write_all(b"221 bye\r\n").ok(),
            "EHLO" | "MAIL" | "RCPT" | "RSET" | "NOOP" => "250 ok".to_owned(),
            _ => "502 unknown".to_owned(),
        };
        stream.write_all((answer + "\r\n").as_bytes()).ok()?;
    }
}

fn acceptor(folder: &Path) -> TlsAcceptor {
    let file = |name| std::fs::read(folder.join(name)).expect("the certificate");
    let identity =
        Identity::from_pkcs8(&file("server.crt"), &file("server.key")).expect("a certificate and its key");
    TlsAcceptor::new(identity).expect("an acceptor")
}

fn answer_tls(stream: native_tls::TlsStream<TcpStream>, delay: Duration) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).ok()? > 0 {
        runtime::sleep(delay);
        stream.get_mut().write_all(line.as_bytes()).ok()?;
        line.clear();
    }
    stream.get_mut().shutdown().ok()
}
