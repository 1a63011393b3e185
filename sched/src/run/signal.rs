//! The signal that interrupts an M. Its handler copies the stack of the M's G for a reader
//! (`notes/hogs.rs`), and pauses a hog of a large crowd (`m/crowd.rs`).

use crate::m::current::on_m;
use crate::sys::preempt;

/// *Runs on: any thread, in the handler: it allocates nothing and takes no lock.*
fn on_signal(locked: bool, registers: &preempt::Registers) {
    on_m(|m| {
        m.sched().events.on_signal(m.shared(), registers);
        m.sched().crowd.pause(m, locked);
    });
}

/// Installs the handler, unless the program has an action of its own for the signal. Returns `true` if the
/// handler is installed. *Runs on: any thread.*
pub(crate) fn install() -> bool {
    preempt::is_installed(on_signal)
}

/// As `install`. Also returns `false` unless the handler knows the code of the C library and of `malloc`.
/// *Runs on: sysmon.*
pub(crate) fn install_to_pause() -> bool {
    preempt::knows_locks(on_signal)
}
