//! Signals of Windows: events of the console.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sched::sync::Mutex;

use crate::channel::{Receiver, Sender, bounded};

/// Ctrl-c. The number is that of Windows' C library.
pub const SIGINT: i32 = 2;
/// The end of the console, of the session or of the system.
pub const SIGTERM: i32 = 15;
/// Ctrl-break.
pub const SIGBREAK: i32 = 21;

/// None: a number that is no signal is refused with its own message.
pub(super) const FORBIDDEN: &[i32] = &[];

/// The end at which the wake-ups of one user's handlers come.
pub(super) struct Wakes(Receiver<()>);

/// Returns both ends of a line of wake-ups. A wake-up that waits serves for those after it.
pub(super) fn new_wakes() -> io::Result<(Wakes, Sender<()>)> {
    let (wake, wakes) = bounded(1);
    Ok((Wakes(wakes), wake))
}

impl Wakes {
    /// Waits for a wake-up. Returns `false` if none can come any more.
    pub(super) fn come(&mut self) -> io::Result<bool> {
        Ok(self.0.recv().is_ok())
    }
}

/// One user's interest in one signal.
#[derive(Debug)]
pub(super) struct SignalInterest {
    pub(super) signal: i32,
    pub(super) came: Arc<AtomicBool>,
    id: u64,
}

struct User {
    signal: i32,
    came: Arc<AtomicBool>,
    wake: Sender<()>,
}

/// All users, by a number of their own.
static USERS: Mutex<BTreeMap<u64, User>> = Mutex::new(BTreeMap::new());

impl SignalInterest {
    pub(super) fn new(signal: i32, wake: &Sender<()>) -> io::Result<SignalInterest> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if ![SIGINT, SIGTERM, SIGBREAK].contains(&signal) {
            let message = format!("signal {signal}: Windows has SIGINT, SIGTERM and SIGBREAK");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        sched::console::on_events(handle)?;
        let came = Arc::new(AtomicBool::new(false));
        // Relaxed: only the number counts.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        USERS.lock().insert(id, User { signal, came: Arc::clone(&came), wake: wake.clone() });
        Ok(SignalInterest { signal, came, id })
    }
}

impl Drop for SignalInterest {
    fn drop(&mut self) {
        let user = USERS.lock().remove(&self.id);
        // Outside of the lock: the last sender wakes the receiver.
        drop(user);
    }
}

/// Passes an event on to its users. Returns `false` if there is none, and the event has its default effect.
/// *Runs on: a thread of the system's.*
fn handle(event: u32) -> bool {
    const CTRL_C: u32 = 0;
    const CTRL_BREAK: u32 = 1;
    let signal = match event {
        CTRL_C => SIGINT,
        CTRL_BREAK => SIGBREAK,
        _ => SIGTERM,
    };
    let mut wakes = Vec::new();
    for user in USERS.lock().values().filter(|user| user.signal == signal) {
        // SeqCst: before the wake-up. The partner is the swap in `deliver`.
        user.came.store(true, Ordering::SeqCst);
        wakes.push(user.wake.clone());
    }
    for wake in &wakes {
        // If it is full, a wake-up waits that comes after this flag was set.
        let _ = wake.try_send(());
    }
    if wakes.is_empty() {
        return false;
    }
    drop(wakes);
    if signal == SIGTERM {
        // The system ends the process when this thread returns, or some seconds later.
        loop {
            std::thread::park();
        }
    }
    true
}
