//! The user's own events: tasks, regions and messages, as Go's `runtime/trace` has them.

use std::fmt::Display;

use sched::user_events::{self, Stretch};

/// Records the end of a stretch, also if its code unwinds.
struct Open(Option<Stretch>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.into_iter().for_each(Stretch::end);
    }
}

/// Runs `f` and returns its result. A recording shows the call as a region of this name: Go's `WithRegion`.
///
/// Regions may lie in regions. While no recording is on, only `f` runs. May be called on any thread; regions
/// of plain OS threads are not recorded. A process has 4,096 names at most, of which the first 1,024 bytes
/// count. Later names are shown as `(another)`.
///
/// # Panics
///
/// Passes a panic of `f` on. The region ends there. So it does if a cancellation unwinds.
///
/// ```
/// let rows = runtime::trace::region("db", || 3);
/// assert_eq!(rows, 3);
/// ```
pub fn region<T>(name: &str, f: impl FnOnce() -> T) -> T {
    let _open = Open(Stretch::region(name));
    f()
}

/// Runs `f` and returns its result. A recording shows the call as a task of this name: Go's `NewTask`.
///
/// A task is one piece of work, such as a request. The green threads that it spawns belong to it until they
/// end, also if the task has ended before. [`Event::task`](super::Event::task) has the number of the
/// innermost task. Else it is as [`region`].
///
/// # Panics
///
/// Passes a panic of `f` on. The task ends there. So it does if a cancellation unwinds.
///
/// ```
/// runtime::trace::task("order", || runtime::trace::region("db", || ()));
/// ```
pub fn task<T>(name: &str, f: impl FnOnce() -> T) -> T {
    let _open = Open(Stretch::task(name));
    f()
}

/// Records a message of the calling green thread: Go's `Log`. While no recording is on, the message is not
/// formatted.
///
/// The newest 4,096 messages of the process are kept, each with its first 1,024 bytes. Categories count among
/// the names of [`region`]. May be called on any thread; messages of plain OS threads are not recorded.
///
/// ```
/// runtime::trace::log("cache", "miss");
/// runtime::trace::log("rows", format_args!("{} of {}", 3, 7));
/// ```
pub fn log(category: &str, message: impl Display) {
    user_events::log(category, || message.to_string());
}
