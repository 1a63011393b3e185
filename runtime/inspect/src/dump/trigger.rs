//! Dumps on a signal: a plain OS thread waits for the signal, so a dump is written even while green threads
//! keep every P. The same thread writes the dump before a stack overflow ends the process.

use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::thread;

use sched::starting;
use sched::sync::Mutex;
use signal_hook::consts::FORBIDDEN;
use signal_hook::consts::signal::{SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/// The signals for which a thread waits already.
static SIGNALS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// The values of `RUNTIME_DUMP`.
pub const EXPECTED: &str = "QUIT, HUP, USR1 or USR2";

/// Returns the signal of this name.
pub fn signal_of(name: &str) -> Option<i32> {
    match name {
        "QUIT" => Some(SIGQUIT),
        "HUP" => Some(SIGHUP),
        "USR1" => Some(SIGUSR1),
        "USR2" => Some(SIGUSR2),
        _ => None,
    }
}

/// Lets each `signal` from now on write a dump to stderr. `wake_at` makes a signal write a byte to a stream.
/// A second call for the same signal has no effect.
pub fn dump_on(signal: i32, wake_at: fn(i32, UnixStream) -> io::Result<()>) -> io::Result<()> {
    if FORBIDDEN.contains(&signal) {
        let text =
            format!("a dump on signal {signal}: it is reserved by the system or the language; use SIGQUIT");
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    sched::fork::check()?;
    // The dump is to say which green thread has a lock.
    waits::locks::track();
    let mut signals = SIGNALS.lock();
    if !signals.contains(&signal) {
        let (wakes, wake) = UnixStream::pair()?;
        let asks = wake.try_clone()?;
        // If the registration fails, the drop of `wake` ends the thread.
        starting::start(thread::Builder::new().name("dumps".into()), move || write_dumps(&wakes))?;
        wake_at(signal, wake)?;
        // A fatal overflow asks the same thread.
        sched::last_dump::set_writer(asks.into());
        signals.push(signal);
    }
    Ok(())
}

fn write_dumps(mut wakes: &UnixStream) {
    // Several signals that came since the last read give one dump.
    let mut bytes = [0; 64];
    loop {
        match sched::at_rest(|| wakes.read(&mut bytes)) {
            Ok(1..) => {
                if let Err(error) = super::dump(&mut io::stderr()) {
                    sched::write_message(format_args!("runtime: no dump: {error}"));
                }
                sched::last_dump::dump_is_written();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}
