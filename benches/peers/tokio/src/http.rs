//! `http`: a server that gives each request the same answer. The server runs until the driver kills the
//! process.

use std::io;

use peer_common::args::Args;
use peer_common::http::Requests;
use peer_common::report::Report;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::listen;

pub(crate) async fn http(mut args: Args) -> Report {
    let port = args.number("port", 0) as u16;
    let mut report = args.end();
    let listener = listen(port);
    report.count("listens", listener.local_addr().expect("the listener has an address").port().into());
    report.print();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        // An error of a connection is ignored: a client may close a connection at any moment.
        tokio::spawn(async { drop(serve(stream).await) });
    }
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = Requests::default();
    let mut answers = Vec::new();
    loop {
        let n = stream.read(requests.space()).await?;
        if n == 0 {
            return Ok(());
        }
        requests.answer(n, &mut answers);
        stream.write_all(&answers).await?;
        answers.clear();
    }
}
