//! What each system needs beside mio: time-outs finer than a millisecond, clear errors, and a look at
//! readiness.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{Alarm, explain};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{Alarm, explain};

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::is_ready;
