//! How long the line of a listener is.

/// The number of connections that may wait to be accepted, if the system allows as many.
pub(super) const BACKLOG: i32 = 4096;
