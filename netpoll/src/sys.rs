//! What each system needs beside mio: time-outs finer than a millisecond, clear errors, and a look at
//! readiness.

#[cfg(all(target_os = "linux", not(portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(portable)))]
pub(crate) use linux::{Alarm, explain};

#[cfg(not(all(target_os = "linux", not(portable))))]
mod other;
#[cfg(not(all(target_os = "linux", not(portable))))]
pub(crate) use other::{Alarm, explain};

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::is_ready;
