//! `http`: a server that gives each request the same answer. The server runs until the driver kills the
//! process.

use std::io::{self, Read, Write};

use may::go;
use may::net::TcpStream;
use peer_common::args::Args;
use peer_common::http::Requests;
use peer_common::report::Report;

use crate::listen;

pub(crate) fn http(mut args: Args) -> Report {
    let port = args.number("port", 0) as u16;
    let mut report = args.end();
    let listener = listen(port);
    report.count("listens", listener.local_addr().expect("the listener has an address").port().into());
    report.print();
    loop {
        let (stream, _) = listener.accept().expect("a connection");
        // An error of a connection is ignored: a client may close a connection at any moment.
        go!(move || drop(serve(stream)));
    }
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = Requests::default();
    let mut answers = Vec::new();
    loop {
        let n = stream.read(requests.space())?;
        if n == 0 {
            return Ok(());
        }
        requests.answer(n, &mut answers);
        stream.write_all(&answers)?;
        answers.clear();
    }
}
