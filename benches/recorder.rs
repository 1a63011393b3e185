//! What the flight recorder costs a server: an echo or HTTP server and 64 clients in one process, while the recorder is switched on and off
//! many times a second. Windows with and without it lie side by side, so what disturbs the machine disturbs both.
//!
//! The program prints the requests of a window, the processor time of a request, and percentiles of the time of a request, without and with
//! the recorder, and their ratios. Each figure is that of one window, and each ratio is the median over all pairs of windows, with the
//! quartiles. The processor time means most on a machine that other programs load.
//!
//! Clients that ask as fast as they can keep the processors busy, and then all percentiles follow the throughput. With `--rate` they ask at
//! fixed times, and the time of a request counts from the time at which it was to be sent.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
    /// Number of Ps
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
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Echo,
    Http,
}

/// The number of the window whose requests count now.
static NOW: AtomicUsize = AtomicUsize::new(PAUSE);
const PAUSE: usize = usize::MAX - 1;
const END: usize = usize::MAX;

/// The requests of one client, on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

static COUNTS: [Count; CONNECTIONS] = [const { Count(AtomicU64::new(0)) }; CONNECTIONS];

fn requests() -> u64 {
    COUNTS.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let runtime = runtime::Builder::new().procs(options.procs).build()?;
    let kind = options.kind;
    let gap = options.rate.map(|rate| Duration::from_secs(CONNECTIONS as u64) / rate);
    let clients = runtime.block_on(move || start(kind, gap))?;
    let mut pairs: Vec<[Window; 2]> = (0..options.pairs).map(|pair| measure_pair(&options, pair)).collect();
    NOW.store(END, Ordering::Relaxed);
    for client in clients {
        for (window, ns) in client.join().expect("a client does not panic")? {
            pairs[window / 2][window % 2].times.push(ns);
        }
    }
    pairs.as_flattened_mut().iter_mut().for_each(|window| window.times.sort_unstable());
    report(&pairs);
    Ok(())
}

/// The requests of a client: the number of the window and the time in ns.
type Times = Vec<(usize, u32)>;

/// Starts the server and its clients, which end when `NOW` says so. Each client sends a request in each `gap`.
fn start(kind: Kind, gap: Option<Duration>) -> io::Result<Vec<JoinHandle<io::Result<Times>>>> {
    let begin = Instant::now();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let mut clients = Vec::new();
    for (i, count) in COUNTS.iter().enumerate() {
        let client = TcpStream::connect(address)?;
        let (server, _peer) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        runtime::spawn(move || serve(kind, server));
        // The clients take turns within a gap.
        let times = gap.map(|gap| (begin + gap * i as u32 / CONNECTIONS as u32, gap));
        clients.push(runtime::spawn(move || ask(kind, client, count, times)));
    }
    Ok(clients)
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
fn ask(
    kind: Kind,
    mut stream: TcpStream,
    count: &Count,
    mut at: Option<(Instant, Duration)>,
) -> io::Result<Times> {
    let request: &[u8] = match kind {
        Kind::Echo => &[7; 64],
        Kind::Http => b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n",
    };
    let mut times = Vec::new();
    let mut answer = [0; 1024];
    loop {
        let now = NOW.load(Ordering::Relaxed);
        if now == END {
            return Ok(times);
        }
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
        count.0.store(count.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if now != PAUSE {
            times.push((now, u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX)));
        }
    }
}

/// What was done in one window.
struct Window {
    requests: u64,
    /// The processor time of the process.
    cpu: Duration,
    /// Of each request, in ns. In their order at the end.
    times: Vec<u32>,
}

impl Window {
    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests as f64
    }

    /// Returns the time within which `share` of the requests were answered.
    fn percentile_us(&self, share: f64) -> f64 {
        f64::from(self.times[((self.times.len() - 1) as f64 * share) as usize]) / 1000.0
    }
}

/// Returns a window without the recorder, and one with it. Every other pair begins with the second.
fn measure_pair(options: &Options, pair: usize) -> [Window; 2] {
    let mut windows = [const { Window { requests: 0, cpu: Duration::ZERO, times: Vec::new() } }; 2];
    let order = if pair.is_multiple_of(2) { [0, 1] } else { [1, 0] };
    for which in order {
        if which == 1 && !options.control {
            match options.events {
                None => assert!(trace::start(), "no recording is on"),
                Some(events) => assert!(trace::start_with(events).expect("a size of a ring")),
            }
        }
        std::thread::sleep(SETTLES);
        let (before, cpu_before) = (requests(), processor_time());
        NOW.store(2 * pair + which, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(options.window));
        NOW.store(PAUSE, Ordering::Relaxed);
        (windows[which].requests, windows[which].cpu) = (requests() - before, processor_time() - cpu_before);
        trace::stop();
    }
    windows
}

/// Returns the processor time of this process.
fn processor_time() -> Duration {
    // SAFETY: all zeroes is a valid time, and the call fills it.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        assert_eq!(libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time), 0);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Prints the medians of a figure of both windows, and the median and the quartiles of their ratio.
fn compare(what: &str, pairs: &[[Window; 2]], figure: impl Fn(&Window) -> f64) {
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

fn report(pairs: &[[Window; 2]]) {
    compare("requests of a window", pairs, |window| window.requests as f64);
    compare("processor time of a request, us", pairs, Window::cpu_us);
    for (name, share) in [("50th", 0.5), ("90th", 0.9), ("99th", 0.99)] {
        compare(&format!("{name} percentile, us"), pairs, |window| window.percentile_us(share));
    }
}
