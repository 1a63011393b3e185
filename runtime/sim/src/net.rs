//! The simulated network: what a test does to its links.
//!
//! In a simulation `runtime::net` works between the [nodes](super::node()), with the same types
//! and methods. Nodes are named by their names or addresses, also by a reference to a [`Node`](super::Node).
//! The main function runs on the node `main`.
//!
//! - A packet takes 1 to 10 ms from node to node, and no time within a node. The seed decides.
//! - TCP keeps its order. What a broken link holds up is sent again when the link is repaired. A connection
//!   whose bytes have not arrived for 924 s ends with `TimedOut`, and a connect without an answer after 127
//!   s, as on Linux.
//! - A connection has room for 256 KiB in each direction: bytes on the way, and those that were not read yet.
//!   Further writes wait.
//! - A packet to an address without a node is lost. A name without a node is an error of kind `NotFound`.
//! - [`set_quality`] sets latency, bandwidth and the probabilities of loss, doubling and reordering.
//!   [`Faults`](super::Faults) happen by themselves.
//! - Unix sockets work within a node, and take no time. No fault concerns them, and no function of this
//!   module. A path is on the node's [disk](super::fs), and stays after a kill; an abstract name ends with
//!   its socket. Errors are those of Linux, but nothing checks permissions.
//! - There are no descriptors: `as_fd`, `as_raw_fd` and `From` conversions to types of std panic, and
//!   `into_std` returns an error of kind `Unsupported`. Sockets of std that are converted into those of this
//!   crate stay real, and waiting for one fails the simulation. (With `runtime::interpose!(sim)` sockets that
//!   code of std makes are in the same network: the page of `runtime::sim` ends with them.)
//!
//! ```
//! # runtime::sim!();
//! use runtime::net::{TcpListener, TcpStream};
//! use runtime::sim::{self, net};
//! use std::time::Duration;
//!
//! sim::run(1, || {
//!     let server = sim::node("server", || TcpListener::bind("0.0.0.0:80").unwrap().accept().map(drop));
//!     runtime::sleep(Duration::from_secs(1));
//!     net::partition("main", &server);
//!     let error = TcpStream::connect("server:80").unwrap_err();
//!     assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
//!     net::repair("main", &server);
//!     TcpStream::connect("server:80").unwrap();
//! });
//! ```

use super::network::{NetworkState, Works, here};
pub use super::quality::Quality;

/// Breaks the links between two nodes, in both directions: no packet arrives. Connections stay, and go on
/// after [`repair`].
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::run(1, || {
///     let (a, b) = (runtime::sim::node("a", || ()), runtime::sim::node("b", || ()));
///     runtime::sim::net::partition(&a, &b);
/// });
/// ```
#[track_caller]
pub fn partition(a: impl AsRef<str>, b: impl AsRef<str>) {
    set_works(a.as_ref(), b.as_ref(), Works::Broken);
    set_works(b.as_ref(), a.as_ref(), Works::Broken);
}

/// Breaks the link from one node to another: no packet arrives. The other direction stays.
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::run(1, || {
///     let node = runtime::sim::node("10.0.0.1", || ());
///     runtime::sim::net::partition_oneway("10.0.0.1", "main");
/// });
/// ```
#[track_caller]
pub fn partition_oneway(from: impl AsRef<str>, to: impl AsRef<str>) {
    set_works(from.as_ref(), to.as_ref(), Works::Broken);
}

/// Repairs the links between two nodes, in both directions. What TCP has to send again is sent.
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::run(1, || {
///     let node = runtime::sim::node("a", || ());
///     runtime::sim::net::partition("main", "a");
///     runtime::sim::net::repair("main", "a");
/// });
/// ```
#[track_caller]
pub fn repair(a: impl AsRef<str>, b: impl AsRef<str>) {
    set_works(a.as_ref(), b.as_ref(), Works::Yes);
    set_works(b.as_ref(), a.as_ref(), Works::Yes);
}

/// Repairs the link from one node to another.
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::run(1, || {
///     let node = runtime::sim::node("a", || ());
///     runtime::sim::net::partition("main", "a");
///     runtime::sim::net::repair_oneway("main", "a");
/// });
/// ```
#[track_caller]
pub fn repair_oneway(from: impl AsRef<str>, to: impl AsRef<str>) {
    set_works(from.as_ref(), to.as_ref(), Works::Yes);
}

/// Holds all packets between two nodes, in both directions, until [`release`]. None is lost.
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::run(1, || {
///     let node = runtime::sim::node("a", || ());
///     runtime::sim::net::hold("main", "a");
///     runtime::sim::net::release("main", "a");
/// });
/// ```
#[track_caller]
pub fn hold(a: impl AsRef<str>, b: impl AsRef<str>) {
    set_works(a.as_ref(), b.as_ref(), Works::Held);
    set_works(b.as_ref(), a.as_ref(), Works::Held);
}

/// Sends the packets between two nodes that are [held](hold).
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::run(1, || runtime::sim::net::release("main", "main"));
/// ```
#[track_caller]
pub fn release(a: impl AsRef<str>, b: impl AsRef<str>) {
    repair(a, b);
}

/// Holds all packets from and to a node, until [`unclog_node`].
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::run(1, || runtime::sim::net::clog_node("main"));
/// ```
#[track_caller]
pub fn clog_node(node: impl AsRef<str>) {
    set_works_of_node(node.as_ref(), Works::Held);
}

/// Sends the packets from and to a node that are held.
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::run(1, || runtime::sim::net::unclog_node("main"));
/// ```
#[track_caller]
pub fn unclog_node(node: impl AsRef<str>) {
    set_works_of_node(node.as_ref(), Works::Yes);
}

/// Resets all connections between two nodes, at both ends, at once.
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::run(1, || runtime::sim::net::reset("main", "main"));
/// ```
#[track_caller]
pub fn reset(a: impl AsRef<str>, b: impl AsRef<str>) {
    with_nodes([a.as_ref(), b.as_ref()], |state, [a, b]| state.reset_all(a, b));
}

/// Sets the quality of the links between two nodes, in both directions, for packets that are sent from now
/// on.
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// use runtime::sim::net::{Quality, set_quality};
/// runtime::sim::run(1, || {
///     let node = runtime::sim::node("a", || ());
///     set_quality("main", "a", Quality::new().bandwidth(1_000_000));
/// });
/// ```
#[track_caller]
pub fn set_quality(a: impl AsRef<str>, b: impl AsRef<str>, quality: Quality) {
    with_nodes([a.as_ref(), b.as_ref()], |state, [a, b]| {
        state.links.set_quality((a, b), quality.clone());
        state.links.set_quality((b, a), quality);
    });
}

#[track_caller]
fn set_works(from: &str, to: &str, works: Works) {
    with_nodes([from, to], |state, [from, to]| state.set_works((from, to), works));
}

#[track_caller]
fn set_works_of_node(node: &str, works: Works) {
    with_nodes([node], |state, [node]| {
        for other in (0..state.nodes.count()).filter(|&other| other != node) {
            state.set_works((node, other), works);
            state.set_works((other, node), works);
        }
    });
}

/// Calls `f` with the numbers of nodes.
#[track_caller]
fn with_nodes<const N: usize, T>(names: [&str; N], f: impl FnOnce(&mut NetworkState, [u32; N]) -> T) -> T {
    let network = here().expect("this must be called by the code of a simulation: see runtime::sim::run");
    sched::simulation::point();
    let done = network.with(|state| {
        let unknown = names.iter().find(|name| state.nodes.named(name).is_none());
        if let Some(name) = unknown {
            return Err(format!("there is no node `{name}` in this simulation"));
        }
        let ids = names.map(|name| state.nodes.named(name).unwrap_or_default());
        Ok(f(state, ids))
    });
    done.unwrap_or_else(|why| panic!("{why}"))
}
