//! References to runtimes and threads: `Handle`, `Thread`, `JoinHandle`, `AbortHandle`, and the errors of a
//! join. What starts threads lies above, in `spawn`, `scope` and `thread`, which shows these types to users.

pub(crate) mod abort_handle;
pub(crate) mod handle;
pub(crate) mod join_error;
pub(crate) mod join_handle;
pub(crate) mod thread;

pub use handle::Handle;
pub(crate) use thread::{Thread, ThreadId};
