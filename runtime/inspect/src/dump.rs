//! Dumps: what each green thread does, what it waits for, and its stack if it is parked.
//!
//! [`dump()`] writes the text. A [`Snapshot`] has the same as values, and other forms of it.

mod deadlock;
mod groups;
#[cfg(feature = "dump-json")]
mod json;
#[cfg(feature = "dump-pprof")]
pub(crate) mod pprof;
mod shown;
mod since;
mod snapshot;
mod text;
mod tree;
#[cfg(unix)]
#[doc(hidden)]
pub mod trigger;
#[doc(hidden)]
pub mod waits;
mod watch;

use std::io::{self, Write};

pub use deadlock::{Deadlock, DeadlockKind, DeadlockMember};
pub use snapshot::{GreenThread, Object, Reason, Snapshot, State, Wait};
#[doc(hidden)]
pub use watch::find_deadlocks;
pub use watch::on_deadlock;

pub use crate::stacks::frame::Frame;
pub use crate::stacks::place::Place;

/// Writes one line to `w` for each green thread of the process, and a last line with their number.
///
/// A line has the green thread's id, its name if it has one, where it was spawned, and the id of its parent.
/// It says whether the green thread runs or is ready to run, or what it waits for and for how long, to within
/// some milliseconds. What is known of the object of the wait follows: the holder of a lock, the ends of a
/// channel, the addresses of a socket. Green threads that wait [for each
/// other](../../runtime/docs/deadlock/index.html#of-some) come at the end. If there may be some, the dump
/// takes some milliseconds more. Before these, lines that begin with `hogs` say at which spawn places green
/// threads have kept a P too long, and how often. A [`dump::Snapshot`](crate::dump::Snapshot) has the same as
/// values and in other forms.
///
/// With the feature `dump-stacks`, on Linux on x86-64 and 64-bit Arm, the stack of each closure that is
/// parked or ready follows its line. A frame has two lines: the function, and the place in the source. The
/// innermost frame comes first, and inlined functions have frames too. Frames of the runtime, and those of
/// std around them, are left out. A function without debug information shows as its symbol or its address.
/// The page about [dumps](../../runtime/docs/dumps/index.html) shows an example.
///
/// The green threads of all runtimes are listed; in a simulation, those of that simulation. They go on during
/// the dump, so the lines show slightly different moments. If a green thread is woken while its stack is
/// copied, it waits until the copy is done. A copy takes about a microsecond for each 8 KiB. While a
/// simulation runs in the process, dumps outside of it show no stacks of waits, so that they do not change
/// it. The time a dump takes grows with the largest number of green threads that were alive at once.
///
/// Green threads that compute, in a closure or in the poll of a future, show their stacks too. So do green
/// threads that wait [pinned](../../runtime/thread/fn.pin.html). A signal, SIGURG, interrupts each for the
/// time of the copy. A green thread that is blocked in a system call gets no signal; it shows its stack on
/// x86-64. A call that begins at that very moment may fail with EINTR, as at any signal; std repeats such
/// calls. A program that handles SIGURG itself keeps its own action, and then these stacks are missing. A
/// future that waits has no stack.
///
/// It may be called on any thread. It does not park its caller.
///
/// # Errors
///
/// Returns the errors of `w`, and an error of kind `Unsupported` in a [forked
/// child](../../runtime/docs/fork/index.html).
///
/// ```
/// runtime::block_on(|| {
///     let sleeper = runtime::spawn(|| runtime::sleep(std::time::Duration::from_secs(3600)));
///     let dumped = || {
///         let mut text = Vec::new();
///         runtime::dump(&mut text).unwrap();
///         String::from_utf8(text).unwrap()
///     };
///     assert!(dumped().contains(": running, spawned at "));
///     // The sleeper may not have begun yet.
///     while !dumped().contains(": waits for the end of a sleep, for ") {
///         runtime::yield_now();
///     }
///     sleeper.cancel();
/// });
/// ```
pub fn dump(w: &mut impl Write) -> io::Result<()> {
    Snapshot::take_with_deadlocks()?.write(w)
}

/// Returns the dump for the report of a deadlock of all; empty in a forked child. No green thread runs during
/// the call.
#[doc(hidden)]
pub fn report() -> String {
    Snapshot::take_with_deadlocks_here().map(|snapshot| snapshot.to_string()).unwrap_or_default()
}
