//! `node`: the nodes of a simulation: machines with an address each, on which green threads run.

use std::fmt;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sched::park::yield_now;
use sched::sleep::sleep;
use sched::sync::Mutex;
use sched::{Cancelled, GHandle, Join, simulation};

use super::disk::{self, Disks};
use super::network::{self, MOST_PPM, Machine as _, Network, here};
use super::start::start;

/// Starts a node: a machine of the simulation, on which a green thread runs `main`.
///
/// `name` is an address such as `"10.0.0.1"` or `"fd00::1"`, or a host name such as `"db"`. A node with a
/// host name gets an address of its own, and `runtime::net::ToSocketAddrs` resolves the name.
/// The main function of a simulation runs on the node `main`, whose address is 192.168.0.1.
///
/// All green threads that `main` spawns, directly or not, belong to the node. Their sockets have its address;
/// 127.0.0.1 is the node itself, for each node. Nodes share the memory of the process, which is useful to
/// look at their state from a test.
///
/// # Panics
///
/// Panics outside of a simulation, and if the name or the address is taken or cannot be that of a node.
///
/// ```
/// # runtime::sim!();
/// use runtime::net::{TcpListener, TcpStream};
/// use std::io::{Read, Write};
///
/// runtime::sim::run(1, || {
///     let server = runtime::sim::node("server", || {
///         let listener = TcpListener::bind("0.0.0.0:80").unwrap();
///         let (mut stream, _peer) = listener.accept().unwrap();
///         stream.write_all(b"hello").unwrap();
///     });
///     let client = runtime::sim::node("10.0.0.1", || {
///         let mut stream = loop {
///             match TcpStream::connect("server:80") {
///                 Ok(stream) => break stream,
///                 Err(_not_yet) => runtime::sleep(std::time::Duration::from_millis(10)),
///             }
///         };
///         assert_eq!(stream.local_addr().unwrap().ip().to_string(), "10.0.0.1");
///         let mut text = String::new();
///         stream.read_to_string(&mut text).unwrap();
///         text
///     });
///     assert_eq!(client.join().unwrap(), "hello");
///     server.join().unwrap();
/// });
/// ```
#[track_caller]
pub fn node<T, F>(name: impl AsRef<str>, main: F) -> Node<T>
where
    T: Send + 'static,
    F: Fn() -> T + Send + Sync + 'static,
{
    let network =
        here().expect("sim::node must be called by the code of a simulation: see runtime::sim::run");
    let disks = disk::here().expect("a simulation has disks where it has a network");
    let added = network.with(|state| {
        if !network.clocks().have_room(state.nodes.count()) {
            return Err("no node beyond these can have a clock of its own".into());
        }
        let id = state.nodes.add(name.as_ref())?;
        Ok::<_, String>((id, state.nodes.get(id).ip()))
    });
    let (id, ip) = added.unwrap_or_else(|why| panic!("{why}"));
    network.give_clock(id);
    let machine = Arc::new(Machine { id, network, disks, main: Box::new(main), thread: Mutex::default() });
    machine.network.add_machine(Arc::new(Shared(machine.clone())));
    machine.start();
    Node { name: name.as_ref().into(), ip, machine, handles: Arc::new(()) }
}

/// A node of a simulation; see [`node`].
///
/// Clones stand for the same node. When all are dropped, the node goes on. A panic of its main function then
/// fails the simulation.
pub struct Node<T> {
    name: Box<str>,
    ip: IpAddr,
    machine: Arc<Machine<T>>,
    /// Counts the clones.
    handles: Arc<()>,
}

/// What runs on a node.
struct Machine<T> {
    id: u32,
    network: Arc<Network>,
    disks: Arc<Disks>,
    main: Box<dyn Fn() -> T + Send + Sync>,
    thread: Mutex<MainThread<T>>,
}

/// A node as the network knows it.
struct Shared<T>(Arc<Machine<T>>);

/// The green thread that runs the main function of a node.
struct MainThread<T> {
    /// The right to its result, until it is joined.
    join: Option<Join<T>>,
    handle: Option<GHandle>,
    /// True if no `Node` is left that could join it.
    detached: bool,
}

impl<T> Default for MainThread<T> {
    fn default() -> Self {
        MainThread { join: None, handle: None, detached: false }
    }
}

impl<T: Send + 'static> Machine<T> {
    /// Starts the main function.
    fn start(self: &Arc<Self>) {
        let machine = self.clone();
        let name = self.network.with(|state| state.nodes.get(self.id).name.clone());
        let join = start(Some(name), move || {
            simulation::set_node(machine.id);
            // The node may have been killed before its first step.
            sched::park::unwind_if_cancelled();
            // Calls of std cannot unwind, and return errors when the node is killed. So a panic may follow.
            catch_unwind(AssertUnwindSafe(|| (machine.main)())).unwrap_or_else(|panic| {
                if !sched::park::is_cancelled() {
                    resume_unwind(panic);
                }
                sched::drop_contained(panic);
                resume_unwind(Box::new(Cancelled))
            })
        });
        let mut thread = self.thread.lock();
        thread.handle = Some(join.thread().clone());
        let earlier = if thread.detached { Some(join) } else { thread.join.replace(join) };
        drop(thread);
        drop(earlier);
    }

    /// Ends what runs, and what it has open. `ends` says what becomes of the disk.
    fn stop(self: &Arc<Self>, ends: impl FnOnce(&Disks, u32)) {
        let Machine { id, network, disks, .. } = &**self;
        network.with(|state| state.kill(*id));
        ends(disks, *id);
        // Before any other green thread runs: none sees its own sockets gone.
        simulation::gs_of(*id).iter().for_each(GHandle::cancel);
        let handle = self.thread.lock().handle.clone();
        handle.iter().for_each(GHandle::cancel);
        end_all(*id);
        while !self.is_finished() {
            yield_now();
        }
    }

    fn is_finished(&self) -> bool {
        let is_over = |handle: &GHandle| handle.is_done() || simulation::is_left(handle);
        self.thread.lock().handle.as_ref().is_none_or(is_over)
    }
}

/// What `Node` and the faults do to a node.
impl<T: Send + 'static> network::Machine for Shared<T> {
    fn kill(&self) {
        self.0.stop(|disks, id| disks.close_all(id));
    }

    fn cut_power(&self) {
        self.0.stop(Disks::cut_power);
    }

    fn restart(&self) {
        self.kill();
        self.0.network.with(|state| state.start(self.0.id));
        self.0.start();
    }
}

impl<T: Send + 'static> Node<T> {
    /// Returns the name that was given to [`node`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address.
    ///
    /// ```
    /// # runtime::sim!();
    /// runtime::sim::run(1, || {
    ///     assert_eq!(runtime::sim::node("10.0.0.1", || ()).ip().to_string(), "10.0.0.1");
    ///     assert_eq!(runtime::sim::node("db", || ()).ip().to_string(), "192.168.0.2");
    /// });
    /// ```
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Waits until the main function has ended, and returns its value. Other green threads of the node may go
    /// on.
    ///
    /// # Errors
    ///
    /// Returns the panic of the main function, or [`Cancelled`] if the node was
    /// killed.
    ///
    /// # Panics
    ///
    /// Panics if the value was returned already.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread unwinds from here.
    ///
    /// ```
    /// # runtime::sim!();
    /// runtime::sim::run(1, || assert_eq!(runtime::sim::node("db", || 7).join().unwrap(), 7));
    /// ```
    #[track_caller]
    pub fn join(&self) -> thread::Result<T> {
        let thread = self.machine.thread.lock().join.take();
        let thread = thread.expect("the node was joined already");
        if simulation::is_left(thread.thread()) {
            return Err(Box::new(Cancelled));
        }
        thread.join()
    }

    /// Returns `true` if the main function has ended.
    ///
    /// ```
    /// # runtime::sim!();
    /// runtime::sim::run(1, || {
    ///     let node = runtime::sim::node("db", runtime::thread::park);
    ///     assert!(!node.is_finished());
    ///     node.kill();
    ///     assert!(node.is_finished());
    /// });
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.machine.is_finished()
    }

    /// Ends the node at once, as the end of a process does. Its connections are reset, its ports and files
    /// are closed, and its green threads unwind. Returns when they have ended. What their destructors send or
    /// write has no effect. What was written before stays on the disk, synced or not. Does nothing if the
    /// node is down.
    ///
    /// A peer is told of the reset by a packet. If the link to the peer is broken, it keeps a half-open
    /// connection.
    ///
    /// # Cancellation
    ///
    /// A green thread of this node unwinds from here.
    ///
    /// ```
    /// # runtime::sim!();
    /// use std::time::Duration;
    /// runtime::sim::run(1, || {
    ///     let node = runtime::sim::node("db", || runtime::sleep(Duration::from_secs(3600)));
    ///     runtime::sleep(Duration::from_secs(1));
    ///     node.kill();
    ///     assert!(node.join().unwrap_err().is::<runtime::thread::Cancelled>());
    /// });
    /// ```
    pub fn kill(&self) {
        Shared(self.machine.clone()).kill();
    }

    /// Cuts the power of the node: ends it as [`kill`](Node::kill) does, and loses what is not sure on its
    /// [disk](super::fs), as the seed decides.
    ///
    /// # Cancellation
    ///
    /// A green thread of this node unwinds from here.
    ///
    /// ```
    /// # runtime::sim!();
    /// use runtime::{fs, sim};
    /// use std::time::Duration;
    /// let lost = (0..20).filter(|&seed| sim::run(seed, || {
    ///     let node = sim::node("db", || {
    ///         let found = fs::read_to_string("/note").unwrap_or_default();
    ///         fs::write("/note", "remember").unwrap(); // Without a sync of the file and of its directory.
    ///         runtime::sleep(Duration::from_secs(1));
    ///         found
    ///     });
    ///     runtime::sleep(Duration::from_millis(1));
    ///     node.cut_power();
    ///     node.restart();
    ///     node.join().unwrap() != "remember"
    /// }));
    /// assert!((1..20).contains(&lost.count()));
    /// ```
    pub fn cut_power(&self) {
        Shared(self.machine.clone()).cut_power();
    }

    /// Kills the node if it is up, and starts its main function again. Its name, its address and its disk
    /// stay.
    ///
    /// ```
    /// # runtime::sim!();
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::sync::Arc;
    /// runtime::sim::run(1, || {
    ///     let starts = Arc::new(AtomicU32::new(0));
    ///     let count = starts.clone();
    ///     let node = runtime::sim::node("db", move || count.fetch_add(1, Ordering::Relaxed));
    ///     runtime::sleep(std::time::Duration::from_secs(1));
    ///     node.restart();
    ///     assert_eq!(node.join().unwrap(), 1);
    /// });
    /// ```
    pub fn restart(&self) {
        Shared(self.machine.clone()).restart();
    }

    /// Sets the clock of the node ahead: what `SystemTime::now` returns there. `Instant` and timers stay, as
    /// they do where the date of a machine is changed. A timerfd that expires at a date moves with the date.
    ///
    /// ```
    /// # runtime::sim!();
    /// use std::time::{Duration, SystemTime};
    /// runtime::sim::run(1, || {
    ///     let node = runtime::sim::node("db", || {
    ///         runtime::sleep(Duration::from_secs(1));
    ///         SystemTime::now()
    ///     });
    ///     node.advance_clock(Duration::from_secs(60));
    ///     assert!(node.join().unwrap() > SystemTime::now() + Duration::from_secs(50));
    /// });
    /// ```
    pub fn advance_clock(&self, by: Duration) {
        self.machine.network.advance_clock(self.machine.id, i64::try_from(by.as_nanos()).unwrap_or(i64::MAX));
    }

    /// Sets the clock of the node back, as [`advance_clock`](Node::advance_clock) sets it ahead.
    ///
    /// ```
    /// # runtime::sim!();
    /// runtime::sim::run(1, || {
    ///     runtime::sim::node("db", || ()).delay_clock(std::time::Duration::from_secs(60));
    /// });
    /// ```
    pub fn delay_clock(&self, by: Duration) {
        self.machine
            .network
            .advance_clock(self.machine.id, -i64::try_from(by.as_nanos()).unwrap_or(i64::MAX));
    }

    /// Makes the clock of the node fast by `ppm` parts per million from now on, or slow if `ppm` is negative:
    /// 100 gain 100 us in each second. A new clock has the rate 0, or what
    /// [`Faults::clock_drift`](super::Faults::clock_drift) decides.
    ///
    /// `Instant::now`, `SystemTime::now`, sleeps, time-outs, tickers and timerfds of the node go by its
    /// clock, and so do waits that have begun. The clock never goes back. It goes on while the node is down,
    /// and a restart changes neither the clock nor its rate. Packets take their time by the clock of the
    /// main node, which is that of the simulation. An `Instant` of a node means another moment on other
    /// nodes, as it does on other machines.
    ///
    /// # Panics
    ///
    /// Panics if the nodes have no clocks of their own: `runtime::sim::Builder::node_clocks` gives them some.
    /// Also panics if `ppm` is below -500,000 or above 500,000.
    ///
    /// ```
    /// # runtime::sim!();
    /// use std::time::{Duration, Instant};
    /// runtime::sim::Builder::new().node_clocks(true).run(1, || {
    ///     let start = Instant::now();
    ///     let node = runtime::sim::node("db", || {
    ///         let start = Instant::now();
    ///         runtime::sleep(Duration::from_secs(1000));
    ///         start.elapsed()
    ///     });
    ///     node.set_clock_rate(-200);
    ///     assert_eq!(node.join().unwrap(), Duration::from_secs(1000));
    ///     assert!(start.elapsed() >= Duration::from_millis(1_000_200));
    /// });
    /// ```
    #[track_caller]
    pub fn set_clock_rate(&self, ppm: i32) {
        assert!(
            ppm.unsigned_abs() <= MOST_PPM,
            "a clock that is wrong by more than {MOST_PPM} ppm is no clock"
        );
        let is_set = self.machine.network.set_clock_rate(self.machine.id, ppm);
        assert!(is_set, "the nodes have no clocks of their own: see `runtime::sim::Builder::node_clocks`");
    }
}

/// Cancels the green threads of a node, and waits until they have ended. Unwinds if the caller is one of
/// them.
///
/// A thread of std that waits for a lock cannot unwind. What has not ended after a while is left behind, in a
/// program in which such threads are green threads.
fn end_all(node: u32) {
    const YIELDS: usize = 1000;
    const SLEEPS: usize = 1000;
    // While a thread panics and waits for an OS thread outside. Each takes at least two milliseconds of real
    // time.
    const SLEEPS_IN_A_PANIC: usize = 10_000;
    // A look at all green threads of the process takes long where many were left behind.
    const ROUNDS_OF_A_LOOK: usize = 50;
    let mut threads = Vec::new();
    for round in 0.. {
        threads.retain(|thread: &GHandle| !thread.is_done() && !simulation::is_left(thread));
        if threads.is_empty() || round % ROUNDS_OF_A_LOOK == 0 {
            threads = simulation::gs_of(node);
        }
        if threads.is_empty() {
            return;
        }
        threads.iter().for_each(GHandle::cancel);
        if simulation::node() == node {
            sched::park::unwind_if_cancelled();
        }
        let patience = if simulation::panics_outside() { SLEEPS_IN_A_PANIC } else { SLEEPS };
        if round >= YIELDS + patience && simulation::threads_are_caught(thread::yield_now) {
            return threads.iter().for_each(simulation::leave);
        }
        // Destructors may wait for a while.
        if round < YIELDS { yield_now() } else { sleep(Duration::from_millis(1)) }
    }
}

/// The name, by which functions of [`net`](super::net) know the node.
impl<T> AsRef<str> for Node<T> {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl<T> Drop for Node<T> {
    fn drop(&mut self) {
        if Arc::strong_count(&self.handles) == 1 {
            let mut thread = self.machine.thread.lock();
            thread.detached = true;
            let join = thread.join.take();
            drop(thread);
            drop(join);
        }
    }
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        Node {
            name: self.name.clone(),
            ip: self.ip,
            machine: self.machine.clone(),
            handles: self.handles.clone(),
        }
    }
}

// A panic leaves no half-done change: no code of the user runs under its locks.
impl<T> UnwindSafe for Node<T> {}
impl<T> RefUnwindSafe for Node<T> {}

impl<T> fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name).field("ip", &self.ip).finish_non_exhaustive()
    }
}
