//! The dump before a fatal stack overflow ends the process. A fault handler cannot write a dump: it may not
//! allocate. So it asks a plain OS thread that waits for such requests, and waits until that thread has
//! written the dump.
//!
//! ```text
//!   the fault handler                     the thread that writes dumps
//!   n = WRITTEN
//!   a byte into the socket of the thread  reads the byte, and writes the dump
//!   until WRITTEN != n, 30 s at most:     WRITTEN += 1
//!     sleep
//!   abort
//! ```
//!
//! The wait has a bound, because the code that overflowed may have a lock that the dump needs, such as that
//! of the allocator. The dump of a debug build takes ten seconds on a loaded machine.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use crate::sys;

/// How often, and for how long each time, the handler sleeps.
const SLEEPS: u32 = 3000;
const SLEEP: Duration = Duration::from_millis(10);

/// The descriptor to which the handler writes; -1 if no thread writes dumps.
static ASKS: AtomicI32 = AtomicI32::new(-1);
/// How many dumps that thread has written.
static WRITTEN: AtomicU32 = AtomicU32::new(0);

/// Sets where a thread that writes dumps reads its requests. The first call counts. The descriptor stays open
/// for ever.
pub fn set_writer(asks: OwnedFd) {
    // Relaxed: a descriptor is its number.
    if ASKS.compare_exchange(-1, asks.as_raw_fd(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        std::mem::forget(asks);
    }
}

/// Notes that the thread of `set_writer` has written a dump. *Runs on: that thread.*
pub fn dump_is_written() {
    // Release: pairs with the Acquire in `ask_and_wait`.
    WRITTEN.fetch_add(1, Ordering::Release);
}

/// Asks for a dump, and waits for 30 s at most until it is written. Returns at once if no thread writes
/// dumps. *Runs on: a fault handler.*
pub(crate) fn ask_and_wait() {
    let fd = ASKS.load(Ordering::Relaxed);
    if fd == -1 {
        return;
    }
    let before = WRITTEN.load(Ordering::Relaxed);
    if sys::write(fd, b"!") != Ok(1) {
        return;
    }
    for _ in 0..SLEEPS {
        // Acquire: pairs with the Release in `dump_is_written`.
        if WRITTEN.load(Ordering::Acquire) != before {
            return;
        }
        sys::sleep_thread(SLEEP);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot read one byte of a pair of sockets here")]
    fn the_handler_waits_for_the_dump() {
        let (mut reads, writes) = UnixStream::pair().unwrap();
        set_writer(writes.into());
        let writer = thread::spawn(move || {
            let mut byte = [0];
            reads.read_exact(&mut byte).unwrap();
            dump_is_written();
            byte
        });
        ask_and_wait();
        assert_eq!(WRITTEN.load(Ordering::Relaxed), 1);
        assert_eq!(&writer.join().unwrap(), b"!");
    }
}
