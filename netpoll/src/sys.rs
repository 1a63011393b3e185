//! What each system needs beside mio: time-outs finer than a millisecond, and plain words for its refusals.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{Alarm, explain};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{Alarm, explain};
