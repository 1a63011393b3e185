//! What each system needs beside mio: time-outs finer than a millisecond, clear errors, a look at
//! readiness, and events that the system does not report.

#[cfg(all(target_os = "linux", not(portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(portable)))]
pub(crate) use linux::{Alarm, explain};

#[cfg(not(all(target_os = "linux", not(portable))))]
mod other;
#[cfg(not(all(target_os = "linux", not(portable))))]
pub(crate) use other::{Alarm, explain};

#[cfg(any(windows, portable))]
mod untold;
#[cfg(any(windows, portable))]
pub(crate) use untold::Untold;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::is_ready;
