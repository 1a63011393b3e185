//! An accept loop with `select!`. One green thread accepts connections, reaps the ended ones, and ends by a
//! signal or by a message of a client.
//!
//! `net::Server` accepts, limits and ends connections by itself. Write such a loop where a server waits for
//! other things too.
//!
//! ```sh
//! cargo run --release --example greeter                       # with clients of its own, for a moment
//! cargo run --release --example greeter -- 127.0.0.1:7000     # until Ctrl-C, or until a client says `quit`
//! nc 127.0.0.1 7000                                           # then write a name
//! ```

use std::future::pending;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::ops::Deref;
use std::process::ExitCode;
use std::time::Duration;

use runtime::channel::{Receiver, Sender, bounded};
use runtime::context::Context;
use runtime::net::{TcpListener, TcpStream};
use runtime::select;
use runtime::thread::{JoinError, JoinSet};
use support::Args;
use support::server::{line, wrong};

mod support;

const USAGE: &str = "usage: greeter [ADDR]\n\n  ADDR   serve there (like 127.0.0.1:7000) until SIGTERM, SIGINT or a line `quit`";

/// The most bytes of a line.
const LINE: usize = 1000;
/// How long an idle client may stay.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many clients the demonstration has.
const CLIENTS: usize = 100;

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    args.end();
    let served = runtime::block_on(|| {
        let listener = TcpListener::bind(addr.as_deref().unwrap_or("127.0.0.1:0"))?;
        let here = listener.local_addr()?;
        let signals = signals()?;
        println!("serving on {here}");
        let clients = addr.is_none().then(|| runtime::spawn(move || clients(here)));
        let greeted = serve(&listener, &signals)?;
        println!("{greeted} clients were greeted");
        clients.map_or(Ok(()), |clients| clients.join().expect("a client does not panic"))
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Accepts until a signal comes or a client says `quit`. Returns the number of greeted clients.
fn serve(listener: &TcpListener, signals: &Receiver<i32>) -> io::Result<usize> {
    let (quit, quits) = bounded(1);
    let (mut connections, mut greeted) = (JoinSet::new(), 0);
    let (end, cancel) = Context::background().with_cancel();
    loop {
        // The cases that are not chosen are withdrawn, and lose nothing: a client that waits is accepted in
        // the next turn.
        select! {
            accept(listener) -> accepted => match accepted {
                Ok((stream, _peer)) => {
                    let (quit, end) = (quit.clone(), end.clone());
                    connections.spawn(move || greet(stream, &quit, &end));
                }
                Err(error) => {
                    // Most likely there is no free descriptor. A connection that ends gives one back.
                    eprintln!("cannot accept: {error}");
                    runtime::sleep(Duration::from_millis(100));
                }
            },
            future(next_end(&mut connections)) -> ended => greeted += count(ended),
            recv(signals) -> _ => break,
            recv(quits) -> _ => break,
        }
    }
    // Clients that have not said their name end at once, and the others get their reply.
    cancel.cancel();
    while let Some(ended) = connections.join_next() {
        greeted += count(ended);
    }
    Ok(greeted)
}

/// Waits for the next connection to end, also while there is none.
async fn next_end(connections: &mut JoinSet<io::Result<bool>>) -> Result<io::Result<bool>, JoinError> {
    match connections.join_next_async().await {
        Some(ended) => ended,
        None => pending().await,
    }
}

/// Returns how many clients the connection has greeted.
fn count(ended: Result<io::Result<bool>, JoinError>) -> usize {
    match ended {
        Ok(Ok(greeted)) => usize::from(greeted),
        Ok(Err(error)) => {
            eprintln!("connection ended with an error: {error}");
            0
        }
        // The panic of a connection ends that connection alone, and was printed.
        Err(_) => 0,
    }
}

/// Returns `true` if the client was greeted. After `end` no name is waited for.
fn greet(mut stream: TcpStream, quit: &Sender<()>, end: &Context) -> io::Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut input = BufReader::new(&stream);
    let Ok(name) = end.run(|| line(&mut input, LINE)) else { return Ok(false) };
    let name = name?;
    match name.as_deref() {
        // The loop needs one message to end.
        Some("quit") => _ = quit.try_send(()),
        Some(name) => {
            writeln!(stream, "hello, {name}")?;
            return Ok(true);
        }
        None => {}
    }
    Ok(false)
}

/// Returns a channel of the signals that end the program.
#[cfg(unix)]
fn signals() -> io::Result<impl Deref<Target = Receiver<i32>>> {
    use runtime::signal::{SIGINT, SIGTERM, notify};
    notify(&[SIGINT, SIGTERM])
}

#[cfg(not(unix))]
fn signals() -> io::Result<impl Deref<Target = Receiver<i32>>> {
    Ok(Box::new(runtime::channel::never()))
}

/// Clients for a demonstration: each is greeted, and then the last one ends the server.
fn clients(addr: SocketAddr) -> io::Result<()> {
    let say = move |name: &str| {
        let mut stream = TcpStream::connect(addr)?;
        writeln!(stream, "{name}")?;
        stream.shutdown(Shutdown::Write)?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        io::Result::Ok(reply)
    };
    let clients: Vec<_> = (0..CLIENTS).map(|i| runtime::spawn(move || say(&format!("client {i}")))).collect();
    for (i, client) in clients.into_iter().enumerate() {
        let reply = client.join().expect("a client does not panic")?;
        if reply != format!("hello, client {i}\n") {
            return Err(wrong(reply));
        }
    }
    say("quit").map(drop)
}
