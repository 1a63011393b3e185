//! Stress: a random mix of everything, whose counts must come out even.
//!
//! `STRESS_SECS=180 cargo test -p tests --test stress --release -- --nocapture` runs it for minutes; `STRESS_SEED`
//! repeats the choices of a run that failed (not its timing) and `STRESS_PROCS=1,2` says on how many Ps.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::{self, Thread};
use runtime::time::sleep_async;
use runtime::{Builder, Handle, JoinHandle};
use tests::futures::{both, either};
use tests::{Drops, ON_PURPOSE, OnDrop, Random, Watchdog, wait_until};

const SERVERS: usize = 8;
/// No more than so many live at once.
const MOST: u64 = 3000;

/// What all share.
struct World {
    handle: Handle,
    stop: AtomicBool,
    drops: Drops,
    started: AtomicU64,
    ended: AtomicU64,
    asked: AtomicU64,
    answered: AtomicU64,
    echoed: AtomicU64,
    servers: Vec<Server>,
    echo: SocketAddr,
}

/// Answers questions, and is parked while there are none.
#[derive(Default)]
struct Server {
    questions: Mutex<VecDeque<Question>>,
    thread: Mutex<Option<Thread>>,
}

struct Question {
    asker: Thread,
    value: u64,
    answer: Arc<AtomicU64>,
}

impl World {
    fn live(&self) -> u64 {
        // The ended first: none of them is missing among those that started.
        let ended = self.ended.load(SeqCst);
        self.started.load(SeqCst) - ended
    }

    fn serve(&self, i: usize) {
        let server = &self.servers[i];
        loop {
            let question = server.questions.lock().unwrap().pop_front();
            match question {
                Some(question) => {
                    question.answer.store(question.value + 1, SeqCst);
                    question.asker.unpark();
                    self.answered.fetch_add(1, SeqCst);
                }
                None if self.stop.load(SeqCst) => return,
                None => thread::park(),
            }
        }
    }

    /// Asks a server and waits for its answer, from any kind of thread.
    fn ask(&self, random: &mut Random) {
        let server = &self.servers[random.below(SERVERS as u64) as usize];
        let (value, answer) = (random.below(1 << 40), Arc::new(AtomicU64::new(0)));
        let question = Question { asker: thread::current(), value, answer: answer.clone() };
        server.questions.lock().unwrap().push_back(question);
        self.asked.fetch_add(1, SeqCst);
        server.thread.lock().unwrap().as_ref().expect("servers come first").unpark();
        while answer.load(SeqCst) == 0 {
            if random.below(4) == 0 {
                thread::park_timeout(Duration::from_micros(random.below(100)));
            } else {
                thread::park();
            }
        }
        assert_eq!(answer.load(SeqCst), value + 1);
    }

    fn echo(&self, random: &mut Random) {
        let mut stream = match TcpStream::connect(self.echo) {
            Ok(stream) => stream,
            // This machine may be short of ports; that is not what is tested.
            Err(error) => return eprintln!("connect: {error}"),
        };
        for _ in 0..random.below(4) {
            let bytes: Vec<u8> = (0..1 + random.below(300)).map(|_| random.number() as u8).collect();
            stream.write_all(&bytes).unwrap();
            let mut back = vec![0; bytes.len()];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(bytes, back);
            self.echoed.fetch_add(bytes.len() as u64, SeqCst);
        }
    }
}

fn micros(random: &mut Random, most: u64) -> Duration {
    Duration::from_micros(random.below(most))
}

fn sleeps_at_least(time: Duration) {
    let start = Instant::now();
    runtime::sleep(time);
    assert!(start.elapsed() >= time, "a sleep of {time:?} took {:?}", start.elapsed());
}

/// Counts its end whatever comes.
fn counted(world: &Arc<World>) -> impl Send + use<> {
    world.started.fetch_add(1, SeqCst);
    let (ends, token) = (world.clone(), world.drops.token());
    OnDrop(move || {
        let _ = &token;
        ends.ended.fetch_add(1, SeqCst);
    })
}

/// Starts one more green thread, of either colour; it gives its seed back.
fn start(world: &Arc<World>, random: &mut Random, depth: u64) -> (u64, JoinHandle<u64>) {
    let (seed, ends, shared) = (random.below(1 << 50), counted(world), world.clone());
    let started = match random.below(3) {
        0 => world.handle.spawn(async move {
            let _ends = ends;
            acts_in_polls(&shared, &mut Random::new(seed), depth).await;
            seed
        }),
        _ => world.handle.spawn(move || {
            let _ends = ends;
            acts(&shared, &mut Random::new(seed), depth);
            seed
        }),
    };
    (seed, started)
}

fn join((seed, started): (u64, JoinHandle<u64>)) {
    assert_eq!(started.join().unwrap(), seed);
}

/// The life of one: some random steps, on a green thread or a plain one.
fn acts(world: &Arc<World>, random: &mut Random, depth: u64) {
    let mut children = VecDeque::new();
    for _ in 0..1 + random.below(12) {
        match random.below(20) {
            0..=3 if depth < 6 && world.live() < MOST => children.push_back(start(world, random, depth + 1)),
            4 => drop(children.pop_back()),
            5 | 6 => children.pop_front().into_iter().for_each(join),
            7..=9 => sleeps_at_least(micros(random, 400)),
            10 => thread::park_timeout(micros(random, 200)),
            11 | 12 => world.ask(random),
            13 => {
                let time = micros(random, 200);
                runtime::blocking(|| std::thread::sleep(time));
            }
            14 => drop(tests::spin(micros(random, 60))),
            15 => panics(world, random),
            16 => runtime::block_on(awaits(random.number())),
            17 if random.below(4) == 0 => world.echo(random),
            18 if random.below(20) == 0 => std::thread::sleep(micros(random, 3000)),
            _ => (0..random.below(4)).for_each(|_| thread::yield_now()),
        }
    }
    if random.below(2) == 0 {
        children.into_iter().for_each(join);
    }
}

/// The life of a future: awaiting, and now and then what blocks.
async fn acts_in_polls(world: &Arc<World>, random: &mut Random, depth: u64) {
    for _ in 0..1 + random.below(6) {
        match random.below(8) {
            0..=2 => awaits(random.number()).await,
            3 if depth < 6 && world.live() < MOST => {
                let (seed, child) = start(world, random, depth + 1);
                assert_eq!(child.await.unwrap(), seed);
            }
            4 => acts(world, random, depth + 1),
            5 => world.ask(random),
            6 => {
                let mut left = random.below(5);
                poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    left = left.saturating_sub(1);
                    if left == 0 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
            _ => sleep_async(micros(random, 300)).await,
        }
    }
}

async fn awaits(seed: u64) {
    let mut random = Random::new(seed);
    let (start, a, b) = (Instant::now(), micros(&mut random, 300), micros(&mut random, 300));
    let least = match random.below(4) {
        0 => {
            both(sleep_async(a), sleep_async(b)).await;
            a.max(b)
        }
        1 => {
            either(sleep_async(a), sleep_async(b)).await;
            a.min(b)
        }
        2 => {
            // A park in a poll, beside a sleep.
            let parks = poll_fn(|_| {
                thread::park_timeout(a);
                Poll::Ready(())
            });
            both(sleep_async(b), parks).await;
            b
        }
        _ => {
            sleep_async(a).await;
            a
        }
    };
    assert!(start.elapsed() >= least);
}

/// A child that panics, and perhaps waits while it unwinds.
fn panics(world: &Arc<World>, random: &mut Random) {
    let (ends, waits, time) = (counted(world), random.below(3) == 0, micros(random, 200));
    let child = world.handle.spawn(move || -> u64 {
        let _ends = ends;
        let _waits = waits.then(|| OnDrop(move || sleeps_at_least(time)));
        panic!("{ON_PURPOSE}")
    });
    assert!(child.join().is_err());
}

fn echo_server(world: &Arc<World>, listener: TcpListener) -> JoinHandle<()> {
    let shared = world.clone();
    world.handle.spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            if shared.stop.load(SeqCst) {
                return;
            }
            runtime::spawn(move || {
                let mut buffer = [0; 256];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    stream.write_all(&buffer[..n]).unwrap();
                }
            });
        }
    })
}

fn run_for(time: Duration, procs: usize, seed: u64) {
    let dog = Watchdog::after(time + Duration::from_secs(60));
    let runtime = Builder::new().procs(procs).build().unwrap();
    dog.show(runtime.handle());
    let listener = runtime.block_on(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let world = Arc::new(World {
        handle: runtime.handle(),
        stop: AtomicBool::new(false),
        drops: Drops::default(),
        started: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        asked: AtomicU64::new(0),
        answered: AtomicU64::new(0),
        echoed: AtomicU64::new(0),
        servers: (0..SERVERS).map(|_| Server::default()).collect(),
        echo: listener.local_addr().unwrap(),
    });
    let servers: Vec<_> = (0..SERVERS)
        .map(|i| {
            let shared = world.clone();
            let server = runtime.spawn(move || shared.serve(i));
            *world.servers[i].thread.lock().unwrap() = Some(server.thread().clone());
            server
        })
        .collect();
    let echo = echo_server(&world, listener);
    let end = Instant::now() + time;
    std::thread::scope(|scope| {
        // Green threads that start others without end, and plain ones that do and act themselves.
        for i in 0..4 {
            let world = &world;
            scope.spawn(move || {
                let mut random = Random::new(seed + i);
                while Instant::now() < end {
                    if i % 2 == 0 {
                        join(start(world, &mut random, 0));
                    } else {
                        acts(world, &mut random, 0);
                    }
                }
            });
        }
    });
    wait_until("all have ended", || world.live() == 0);
    world.stop.store(true, SeqCst);
    world.servers.iter().for_each(|server| server.thread.lock().unwrap().as_ref().unwrap().unpark());
    servers.into_iter().for_each(|server| server.join().unwrap());
    drop(std::net::TcpStream::connect(world.echo));
    echo.join().unwrap();
    let count = |n: &AtomicU64| n.load(SeqCst);
    assert_eq!(count(&world.asked), count(&world.answered));
    wait_until("all captures are dropped", || world.drops.alive() == 0);
    let metrics = runtime.handle().metrics();
    eprintln!(
        "{procs} Ps: {} green threads, {} questions, {} bytes echoed; {} parks, {} steals, {} timers, \
         {} hand-offs, {} rescues, {} threads",
        count(&world.started),
        count(&world.asked),
        count(&world.echoed),
        metrics.parks,
        metrics.steals,
        metrics.timers_fired,
        metrics.hand_offs,
        metrics.rescues_computing + metrics.rescues_blocked,
        metrics.threads,
    );
    assert!(count(&world.started) > 0);
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[test]
fn a_random_mix_of_everything_comes_out_even() {
    tests::quiet_panics_on_purpose();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = setting("STRESS_SEED").map_or(now.as_micros() as u64, |text| text.parse().unwrap());
    let secs: f64 = setting("STRESS_SECS").map_or(5.0, |text| text.parse().unwrap());
    let procs = setting("STRESS_PROCS").unwrap_or("1,2,8".into());
    let procs: Vec<usize> = procs.split(',').map(|text| text.trim().parse().unwrap()).collect();
    eprintln!("STRESS_SEED={seed} STRESS_SECS={secs} STRESS_PROCS={procs:?}");
    for &procs_now in &procs {
        run_for(Duration::from_secs_f64(secs / procs.len() as f64), procs_now, seed);
    }
}
