//! The simulated disks: what is sure after a power cut, and what goes wrong.
//!
//! In a simulation `runtime::fs` works on a disk of the caller's [node](super::node()), with the
//! same types and functions. The disk is there before the node starts, and outlives
//! [`kill`](super::Node::kill), [`cut_power`](super::Node::cut_power) and [`restart`](super::Node::restart).
//! A new disk has `/tmp` and the directory of [`std::env::temp_dir`] only. Relative paths begin at `/`.
//!
//! # A power cut
//!
//! After [`kill`](super::Node::kill) all that was written is there. After
//! [`cut_power`](super::Node::cut_power), and after [that fault](super::Faults::cut_power), only this is
//! sure:
//!
//! - The bytes and the length of a file at its last `sync_all` or `sync_data`. Each sector of 512 bytes that
//!   was written later is kept or lost, as the seed decides. The length is an old or a new one; bytes that
//!   were lost in between are zeros.
//! - The entries of a directory at its last sync, which is that of `File::open(directory)`. The sync of a
//!   file does not make its entry sure, as POSIX has it. The sync of a directory makes sure how the directory
//!   itself is reached.
//! - Each later change of an entry is kept or lost as a whole: a rename never loses both names. If it is
//!   lost, so are those that build on it.
//!
//! So a file is replaced safely in these steps: write the new one beside it, sync it, rename it, sync the
//! directory.
//!
//! ```
//! # runtime::sim!();
//! use runtime::fs::{self, File};
//! use runtime::sim;
//! use std::io::Write;
//!
//! fn replace(text: &str) -> std::io::Result<()> {
//!     let mut file = File::create("/data/new")?;
//!     file.write_all(text.as_bytes())?;
//!     file.sync_all()?;
//!     fs::rename("/data/new", "/data/text")?;
//!     File::open("/data")?.sync_all()
//! }
//!
//! sim::explore(50, || {
//!     let node = sim::node("db", || {
//!         if !fs::exists("/data/text").unwrap() {
//!             fs::create_dir_all("/data").unwrap();
//!             replace("old").unwrap();
//!         } else {
//!             assert!(["old", "new"].contains(&&*fs::read_to_string("/data/text").unwrap()));
//!         }
//!         replace("new").unwrap();
//!     });
//!     runtime::sleep(std::time::Duration::from_micros(sim::random() % 500));
//!     node.cut_power();
//!     node.restart();
//!     node.join().unwrap();
//! });
//! ```
//!
//! # Faults
//!
//! [`set_quality`] and [`Faults::disk`](super::Faults::disk) let a disk read and write a part only, fail with
//! `EIO`, lose a sync, and be full. Bytes rot, sectors become bad, writes are lost or land at another place,
//! and calls are slow: see [`Quality`].
//!
//! # Time
//!
//! A call takes simulated time, 1 to 50 µs unless its disk has another [latency](Quality::latency). The seed
//! decides how long, and other green threads run meanwhile.
//!
//! # What differs from a disk of the system
//!
//! - The permissions of files are kept, and forbid nothing. `FileTimes` cannot be set; the time of the last
//!   access is that of the last change.
//! - Permissions and times are sure at once.
//! - A file has at most 1 GiB.
//! - There are no descriptors: `as_fd`, `as_raw_fd` and `From` conversions to types of std panic.
//! - `std::fs` reaches no simulated disk, and fails the run. [`sim::real`](super::real()) reads files of the
//!   system. A file of std that is made one of `runtime::fs` stays real.

pub use super::disk_quality::Quality;

use super::{disk, network};

/// Sets what the disk of a node does wrong, how long its calls take, and how much it holds.
///
/// # Panics
///
/// Panics outside of a simulation, and if there is no such node.
///
/// ```
/// # runtime::sim!();
/// use runtime::sim::fs::{Quality, set_quality};
/// use std::io::ErrorKind;
///
/// runtime::sim::run(1, || {
///     set_quality("main", Quality::new().capacity(100));
///     runtime::fs::write("/a", [0; 60]).unwrap();
///     let error = runtime::fs::write("/b", [0; 60]).unwrap_err();
///     assert_eq!(error.kind(), ErrorKind::StorageFull);
/// });
/// ```
#[track_caller]
pub fn set_quality(node: impl AsRef<str>, quality: Quality) {
    let network =
        network::here().expect("sim::fs must be called by the code of a simulation: see runtime::sim::run");
    let name = node.as_ref();
    let found = network.with(|state| state.nodes.named(name));
    let node = found.unwrap_or_else(|| panic!("there is no node `{name}` in this simulation"));
    disk::here().expect("a simulation has disks where it has a network").set_quality(node, quality);
}
