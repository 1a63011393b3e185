//! Connects and datagrams to a full peer are tried again after pauses, because the system reports no event
//! when there is room.

use std::io;
use std::time::{Duration, Instant};

use crate::net::Backoff;
use crate::time::sleep_async;

const FIRST: Duration = Duration::from_micros(20);
const MOST: Duration = Duration::from_millis(10);

/// Runs `op` as [`after_pauses`] does, in a future without a deadline.
pub(super) async fn after_pauses_async<T>(mut op: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut backoff = Backoff::new(FIRST, MOST);
    sched::budget::consume().await;
    loop {
        match op() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep_async(backoff.step()).await,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Runs `op` until it would no longer block, where the system reports no event for that. Pauses in between,
/// from 20 us to 10 ms. `limit` is called when `op` first would block; it returns the deadline and its error.
pub(super) fn after_pauses<T>(
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
