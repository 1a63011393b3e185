//! Servers, their clients and a clock in one task: a TCP echo, a UDP echo, and nothing that parks.
//!
//! Each branch awaits its sockets. While one waits, the others go on. All run on the main thread, so they
//! share counters in `Cell`s, without locks: `block_on_local` takes futures that are not `Send`.
//!
//! ```sh
//! cargo run --release --example one_task
//! cargo run --release --example one_task -- --clients 50 --secs 5
//! ```

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures::future::{select, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, select_biased};
use runtime::net::{TcpListener, TcpStream, UdpSocket};
use runtime::time::{sleep_async, timeout_async};
use support::{Args, commas};

mod support;

const USAGE: &str = "\
usage: one_task [--clients N] [--secs S]

  --clients N   number of clients of each kind (default 10)
  --secs S      length of the run in seconds (default 1)";

/// What the branches count. They share it by `Rc`: they never run at the same time.
#[derive(Default)]
struct Counts {
    connections: Cell<u64>,
    echoes: Cell<u64>,
    datagrams: Cell<u64>,
    ticks: Cell<u64>,
}

fn add(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

fn main() -> io::Result<()> {
    let mut args = Args::new(USAGE);
    let clients = args.number("--clients", 10, 1..=1_000) as usize;
    let time = Duration::from_secs(args.number("--secs", 1, 1..=3_600));
    args.end();
    let counts = Rc::new(Counts::default());
    runtime::block_on_local(run(clients, time, counts.clone()))?;
    let Counts { connections, echoes, datagrams, ticks } = &*counts;
    println!("connections  {:>9}", commas(connections.get() as usize));
    println!("TCP echoes   {:>9}", commas(echoes.get() as usize));
    println!("UDP echoes   {:>9}", commas(datagrams.get() as usize));
    println!("ticks        {:>9}, of {} at most", commas(ticks.get() as usize), time.as_millis());
    Ok(())
}

/// Runs the servers until the clients are done.
async fn run(clients: usize, time: Duration, counts: Rc<Counts>) -> io::Result<()> {
    let listener = TcpListener::bind_async("127.0.0.1:0").await?;
    let socket = UdpSocket::bind_async("127.0.0.1:0").await?;
    let (tcp, udp) = (listener.local_addr()?, socket.local_addr()?);
    let until = Instant::now() + time;
    let all = async {
        let tcp = try_join_all((0..clients).map(|_| ask_tcp(tcp, until, &counts)));
        let udp = try_join_all((0..clients).map(|_| ask_udp(udp, until, &counts)));
        futures::try_join!(tcp, udp).map(drop)
    };
    let servers = async {
        // The first error ends the program. They have no other end.
        futures::try_join!(serve_tcp(&listener, &counts), serve_udp(&socket), tick(&counts)).map(drop)
    };
    // The servers are dropped with the sockets that they wait for. Nothing is left behind.
    select(pin!(all), pin!(servers)).await.factor_first().0
}

async fn tick(counts: &Counts) -> io::Result<()> {
    loop {
        sleep_async(Duration::from_millis(1)).await;
        add(&counts.ticks);
    }
}

/// Accepts connections and serves the open ones, all in this branch.
async fn serve_tcp(listener: &TcpListener, counts: &Counts) -> io::Result<()> {
    let mut open = FuturesUnordered::new();
    loop {
        select_biased! {
            accepted = listener.accept_async().fuse() => {
                add(&counts.connections);
                open.push(echo(accepted?.0));
            }
            // A broken connection ends alone.
            _ended = open.select_next_some() => {}
        }
    }
}

async fn echo(stream: TcpStream) -> io::Result<()> {
    let mut buf = [0; 4096];
    loop {
        match stream.read_async(&mut buf).await? {
            0 => return Ok(()),
            n => stream.write_all_async(&buf[..n]).await?,
        }
    }
}

async fn serve_udp(socket: &UdpSocket) -> io::Result<()> {
    let mut buf = [0; 1500];
    loop {
        let (n, peer) = socket.recv_from_async(&mut buf).await?;
        socket.send_to_async(&buf[..n], peer).await?;
    }
}

async fn ask_tcp(addr: SocketAddr, until: Instant, counts: &Counts) -> io::Result<()> {
    let stream = TcpStream::connect_async(addr).await?;
    let mut answer = [0; 8];
    for question in 0_u64.. {
        if Instant::now() >= until {
            break;
        }
        stream.write_all_async(&question.to_be_bytes()).await?;
        let mut read = 0;
        while read < answer.len() {
            match stream.read_async(&mut answer[read..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => read += n,
            }
        }
        assert_eq!(u64::from_be_bytes(answer), question);
        add(&counts.echoes);
    }
    Ok(())
}

/// Asks by datagrams, which may be lost: no answer within a time is no error.
async fn ask_udp(addr: SocketAddr, until: Instant, counts: &Counts) -> io::Result<()> {
    let socket = UdpSocket::bind_async("127.0.0.1:0").await?;
    socket.connect_async(addr).await?;
    let mut answer = [0; 8];
    for question in 0_u64.. {
        if Instant::now() >= until {
            break;
        }
        socket.send_async(&question.to_be_bytes()).await?;
        if let Ok(received) = timeout_async(Duration::from_millis(100), socket.recv_async(&mut answer)).await
        {
            received?;
            add(&counts.datagrams);
        }
    }
    Ok(())
}
