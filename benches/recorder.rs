//! What the flight recorder costs a server. An echo or HTTP server and 64 clients run, while the recorder is
//! switched on and off many times a second. Windows with and without it lie side by side, so what disturbs
//! the machine disturbs both.
//!
//! The program prints the requests of a window, the processor time of a request, and percentiles of the time
//! of a request. It prints each without and with the recorder, and their ratios. Each figure is that of one
//! window, and each ratio is the median over all pairs of windows, with the quartiles. The processor time
//! means most on a machine that other programs load.
//!
//! Clients that ask as fast as they can keep the processors busy, and then all percentiles follow the
//! throughput. With `--rate` they ask at fixed times, and the time of a request counts from the time at which
//! it was to be sent.
//!
//! The clients are green threads beside the server, so a request is recorded on both sides. With `--apart`
//! they are in a process of their own, which records nothing: only the server pays, as in production.

use std::io::{self, BufWriter, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use peer_common::http::Requests;
use runtime::net::{TcpListener, TcpStream};
use runtime::{JoinHandle, trace};

const CONNECTIONS: usize = 64;
/// After a switch, the Ps notice it and the caches settle; these requests do not count.
const SETTLES: Duration = Duration::from_millis(5);

/// What the flight recorder costs a server
#[derive(Parser)]
#[command(name = "recorder")]
struct Options {
    #[arg(value_enum, default_value_t = Kind::Echo)]
    kind: Kind,
    /// Number of pairs of windows
    #[arg(long, default_value_t = 200)]
    pairs: usize,
    /// Length of a window, in ms
    #[arg(long, default_value_t = 50)]
    window: u64,
    /// Number of Ps of each process
    #[arg(long, default_value_t = 2)]
    procs: usize,
    /// Events in the ring of each P [default: the runtime's]
    #[arg(long)]
    events: Option<usize>,
    /// Requests a second of all clients together [default: as many as they can]
    #[arg(long)]
    rate: Option<u32>,
    /// Switch nothing: both kinds of windows are without the recorder, which shows the noise
    #[arg(long)]
    control: bool,
    /// With the recorder, also write all events into files in a folder of this name, which is removed
    /// afterwards
    #[cfg(feature = "stream")]
    #[arg(long)]
    stream: Option<std::path::PathBuf>,
    /// Run the clients in a process of their own
    #[arg(long)]
    apart: bool,
    /// Run only the clients, of a server with this address
    #[arg(long, hide = true)]
    clients_of: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Echo,
    Http,
}

/// True when the clients are to end.
static END: AtomicBool = AtomicBool::new(false);

/// A request: when it was to be sent, and how long it took, in ns.
type Request = (u64, u32);

fn main() -> io::Result<()> {
    let options = Options::parse();
    let runtime = runtime::Builder::new().procs(options.procs).build()?;
    if let Some(server) = options.clients_of {
        let clients = runtime.block_on(|| start_clients(&options, server))?;
        // The parent closes its end of the pipe.
        io::stdin().read_to_end(&mut Vec::new())?;
        return write_requests(&requests_of(clients)?);
    }
    let server = runtime.block_on(|| start_server(options.kind))?;
    let (mut pairs, requests) = if options.apart {
        let clients = start_apart(&options, server)?;
        std::thread::sleep(Duration::from_millis(500));
        (measure(&options), end_apart(clients)?)
    } else {
        let clients = runtime.block_on(|| start_clients(&options, server))?;
        (measure(&options), requests_of(clients)?)
    };
    sort_in(&mut pairs, &requests);
    report(&pairs);
    #[cfg(feature = "stream")]
    if let Some(folder) = &options.stream {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}

/// Starts a server that serves until the process ends.
fn start_server(kind: Kind) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    runtime::spawn(move || -> io::Result<()> {
        loop {
            let (stream, _peer) = listener.accept()?;
            stream.set_nodelay(true)?;
            runtime::spawn(move || serve(kind, stream));
        }
    });
    Ok(address)
}

type Client = JoinHandle<io::Result<Vec<Request>>>;

/// Starts the clients, which end when `END` says so.
fn start_clients(options: &Options, server: SocketAddr) -> io::Result<Vec<Client>> {
    let kind = options.kind;
    let gap = options.rate.map(|rate| Duration::from_secs(CONNECTIONS as u64) / rate);
    let begin = Instant::now();
    (0..CONNECTIONS as u32)
        .map(|i| {
            let stream = TcpStream::connect(server)?;
            stream.set_nodelay(true)?;
            // The clients take turns within a gap.
            let times = gap.map(|gap| (begin + gap * i / CONNECTIONS as u32, gap));
            Ok(runtime::spawn(move || ask(kind, stream, times)))
        })
        .collect()
}

/// Ends the clients, and returns their requests.
fn requests_of(clients: Vec<Client>) -> io::Result<Vec<Request>> {
    END.store(true, Ordering::Relaxed);
    let mut requests = Vec::new();
    for client in clients {
        requests.extend(client.join().expect("a client does not panic")?);
    }
    Ok(requests)
}

/// Starts the clients in a process of their own.
fn start_apart(options: &Options, server: SocketAddr) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(format!("{:?}", options.kind).to_lowercase());
    command.args(["--clients-of", &server.to_string(), "--procs", &options.procs.to_string()]);
    command.args(options.rate.map(|rate| format!("--rate={rate}")));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// Ends the clients of another process, and returns their requests.
fn end_apart(mut clients: Child) -> io::Result<Vec<Request>> {
    drop(clients.stdin.take());
    let mut bytes = Vec::new();
    clients.stdout.take().expect("the output is piped").read_to_end(&mut bytes)?;
    assert!(clients.wait()?.success(), "the process of the clients failed");
    let (requests, _) = bytes.as_chunks::<12>();
    let request = |bytes: &[u8; 12]| {
        let (at, took) = bytes.split_at(8);
        (u64::from_ne_bytes(at.try_into().unwrap()), u32::from_ne_bytes(took.try_into().unwrap()))
    };
    Ok(requests.iter().map(request).collect())
}

fn write_requests(requests: &[Request]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for (at, took) in requests {
        out.write_all(&at.to_ne_bytes())?;
        out.write_all(&took.to_ne_bytes())?;
    }
    out.flush()
}

fn serve(kind: Kind, mut stream: TcpStream) -> io::Result<()> {
    let (mut requests, mut answers) = (Requests::default(), Vec::new());
    loop {
        let n = stream.read(requests.space())?;
        if n == 0 {
            return Ok(());
        }
        match kind {
            Kind::Echo => {
                let bytes = &requests.space()[..n];
                stream.write_all(bytes)?;
            }
            Kind::Http => {
                requests.answer(n, &mut answers);
                stream.write_all(&answers)?;
                answers.clear();
            }
        }
    }
}

/// Sends requests until the end: at the first time of `at` and after each gap, or each at once.
fn ask(kind: Kind, mut stream: TcpStream, mut at: Option<(Instant, Duration)>) -> io::Result<Vec<Request>> {
    let request: &[u8] = match kind {
        Kind::Echo => &[7; 64],
        Kind::Http => b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n",
    };
    let (zero, zero_ns) = (Instant::now(), clock_ns(libc::CLOCK_MONOTONIC));
    let mut requests = Vec::new();
    let mut answer = [0; 1024];
    while !END.load(Ordering::Relaxed) {
        let start = match &mut at {
            None => Instant::now(),
            Some((at, gap)) => {
                *at += *gap;
                runtime::sleep_until(*at);
                *at
            }
        };
        stream.write_all(request)?;
        let n = stream.read(&mut answer)?;
        assert!(n >= 64, "an answer of {n} bytes");
        let took = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
        requests.push((zero_ns + (start - zero).as_nanos() as u64, took));
    }
    Ok(requests)
}

/// What was done in one window.
#[derive(Default)]
struct Window {
    /// When it began and ended, in ns.
    begin: u64,
    end: u64,
    /// The processor time of the server's process.
    cpu_ns: u64,
    /// Of each request, in ns. In their order at the end.
    times: Vec<u32>,
}

impl Window {
    fn requests(&self) -> f64 {
        self.times.len() as f64
    }

    fn cpu_us(&self) -> f64 {
        self.cpu_ns as f64 / 1000.0 / self.requests()
    }

    /// Returns the time within which `share` of the requests were answered.
    fn percentile_us(&self, share: f64) -> f64 {
        f64::from(self.times[((self.times.len() - 1) as f64 * share) as usize]) / 1000.0
    }
}

type Pair = [Window; 2];

fn measure(options: &Options) -> Vec<Pair> {
    (0..options.pairs).map(|pair| measure_pair(options, pair)).collect()
}

/// Returns a window without the recorder, and one with it. Every other pair begins with the second.
fn measure_pair(options: &Options, pair: usize) -> Pair {
    let mut windows = Pair::default();
    let order = if pair.is_multiple_of(2) { [0, 1] } else { [1, 0] };
    for which in order {
        let recording = (which == 1 && !options.control).then(|| Recording::start(options));
        std::thread::sleep(SETTLES);
        let times = || [clock_ns(libc::CLOCK_MONOTONIC), clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)];
        let [begin, cpu_before] = times();
        std::thread::sleep(Duration::from_millis(options.window));
        let [end, cpu_after] = times();
        windows[which] = Window { begin, end, cpu_ns: cpu_after - cpu_before, times: Vec::new() };
        drop(recording);
    }
    windows
}

/// The recorder is on.
struct Recording {
    #[cfg(feature = "stream")]
    _stream: Option<trace::Stream>,
}

impl Recording {
    fn start(options: &Options) -> Recording {
        match options.events {
            None => assert!(trace::start(), "no recording is on"),
            Some(events) => assert!(trace::start_with(events).expect("a size of a ring")),
        }
        Recording {
            #[cfg(feature = "stream")]
            _stream: options
                .stream
                .as_ref()
                .map(|folder| trace::stream(folder).keep(2).start().expect("the files of the stream")),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        trace::stop();
    }
}

/// Gives each request to the window in which it was to be sent.
fn sort_in(pairs: &mut [Pair], requests: &[Request]) {
    let mut windows: Vec<&mut Window> = pairs.as_flattened_mut().iter_mut().collect();
    windows.sort_unstable_by_key(|window| window.begin);
    for &(at, took) in requests {
        let after = windows.partition_point(|window| window.begin <= at);
        if let Some(window) = after.checked_sub(1).map(|i| &mut windows[i])
            && at < window.end
        {
            window.times.push(took);
        }
    }
    for window in windows {
        assert!(!window.times.is_empty(), "a window without requests");
        window.times.sort_unstable();
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    // SAFETY: all zeroes is a valid time, and the call fills it.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        assert_eq!(libc::clock_gettime(clock, &mut time), 0);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Prints the medians of a figure of both windows, and the median and the quartiles of their ratio.
fn compare(what: &str, pairs: &[Pair], figure: impl Fn(&Window) -> f64) {
    let sorted = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        [1, 2, 3].map(|part| values[(values.len() - 1) * part / 4])
    };
    let [_, without, _] = sorted(pairs.iter().map(|pair| figure(&pair[0])).collect());
    let [_, with, _] = sorted(pairs.iter().map(|pair| figure(&pair[1])).collect());
    let [low, median, high] = sorted(pairs.iter().map(|pair| figure(&pair[1]) / figure(&pair[0])).collect());
    println!(
        "{what}: {without:.2} without, {with:.2} with the recorder; ratio {median:.4} (quartiles {low:.4} and {high:.4})"
    );
}

fn report(pairs: &[Pair]) {
    compare("requests of a window", pairs, Window::requests);
    compare("processor time of a request, us", pairs, Window::cpu_us);
    for (name, share) in [("50th", 0.5), ("90th", 0.9), ("99th", 0.99)] {
        compare(&format!("{name} percentile, us"), pairs, |window| window.percentile_us(share));
    }
}
