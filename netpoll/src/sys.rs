//! What each system needs beside mio: time-outs finer than a millisecond, clear errors, a look at
//! readiness, and events that the system does not report. With `--cfg kqueue_model` also what is in the place
//! of mio's selector.

/// The selector under the poller.
pub(crate) mod selector {
    #[cfg(kqueue_model)]
    pub(crate) use super::kqueue_model::{Event, Events, Poll, Registry, Waker};
    #[cfg(not(kqueue_model))]
    pub(crate) use mio::{Events, Poll, Registry, Waker, event::Event};
}
#[cfg(kqueue_model)]
mod kqueue_model;

#[cfg(all(target_os = "linux", not(portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(portable)))]
pub(crate) use linux::{Alarm, explain};

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::Reporter;
#[cfg(windows)]
pub(crate) use windows::{Alarm, exit, explain, pipe};

#[cfg(not(any(all(target_os = "linux", not(portable)), windows)))]
mod other;
#[cfg(not(any(all(target_os = "linux", not(portable)), windows)))]
pub(crate) use other::{Alarm, explain};

#[cfg(any(all(target_os = "linux", not(portable)), windows))]
mod due;

#[cfg(any(windows, all(portable, not(kqueue_model))))]
mod untold;
#[cfg(any(windows, all(portable, not(kqueue_model))))]
pub(crate) use untold::Untold;

mod numbers;
pub(crate) use numbers::{Number, Numbers};

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{Look, is_ready, look};

/// What a source is registered for. `PRIORITY` tells of urgent bytes, and makes no event of its own where
/// there are none.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
pub(crate) const INTERESTS: mio::Interest =
    mio::Interest::READABLE.add(mio::Interest::WRITABLE).add(mio::Interest::PRIORITY);
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
pub(crate) const INTERESTS: mio::Interest = mio::Interest::READABLE.add(mio::Interest::WRITABLE);

/// Returns `true` for the error of a non-blocking connect that has begun, and goes on.
pub fn connect_goes_on(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(libc::EINPROGRESS);
    #[cfg(not(unix))]
    return error.kind() == std::io::ErrorKind::WouldBlock;
}
