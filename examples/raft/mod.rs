//! A key-value store that Raft replicates: a majority of the nodes keeps each change on disk before the
//! change is acknowledged.
//!
//! ```text
//!   client.rs     finds the leader, repeats requests; a repeated change is applied once
//!      |  TCP
//!   node.rs       one green thread owns all state: it takes events, syncs the disk, sends, applies, answers
//!      |  `---> peers.rs      a green thread for each other node, which connects and sends
//!      |  `---> storage.rs    the log and the vote on disk, with checksums
//!      |  `---> store.rs      the keys, and the answer to the last request of each client
//!   consensus.rs  Raft itself: elections, the log, what is committed. It reads no clock, disk or socket
//!      `------- log.rs, progress.rs, message.rs
//! ```
//!
//! "In Search of an Understandable Consensus Algorithm" (Ongaro and Ousterhout, 2014) has the rules that the
//! comments name by section. Two parts of a larger store are left out: snapshots, so that the log grows for
//! ever, and changes of the cluster.

// A program or a test uses only some of these parts.
#![allow(dead_code)]

pub(crate) mod client;
pub(crate) mod consensus;
pub(crate) mod log;
pub(crate) mod message;
pub(crate) mod node;
pub(crate) mod peers;
pub(crate) mod progress;
pub(crate) mod storage;
pub(crate) mod store;
