//! `Descriptor`: a standard stream of the process, and the way to wait for it.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::Descriptor;
#[cfg(windows)]
pub(super) use windows::Descriptor;
