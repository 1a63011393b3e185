//! `std::os::unix::net` for green threads: sockets of the machine itself, at a path, at an abstract name (Linux), or at none.

mod datagram;
mod listener;
mod stream;

pub use std::os::unix::net::SocketAddr;

pub use datagram::UnixDatagram;
pub use listener::{Incoming, UnixListener};
pub use stream::UnixStream;

use std::io;
use std::time::{Duration, Instant};

use super::backoff::Backoff;

const FIRST: Duration = Duration::from_micros(20);
const MOST: Duration = Duration::from_millis(10);

/// Does `op` until it no longer would block, where the system gives no event for that: after pauses that grow from 20 us to
/// 10 ms. `limit`, asked when it first would block: when to give up, with the error.
fn after_pauses<T>(
    limit: impl Fn() -> Option<Instant>,
    mut op: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let (mut backoff, mut until) = (Backoff::new(FIRST, MOST), None);
    loop {
        match op() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let until = *until.get_or_insert_with(&limit);
                let left = until.map_or(MOST, |until| until.saturating_duration_since(Instant::now()));
                if left.is_zero() {
                    return Err(error);
                }
                crate::sleep(backoff.step().min(left));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
