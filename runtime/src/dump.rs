//! `dump`: a report of what each green thread does.

use std::io::{self, Write};

/// Writes one line to `w` for each green thread of the process, and a last line with their number.
///
/// A line has the green thread's id, its name if it has one, and where it was spawned. It says whether the green
/// thread runs or is ready to run, or what it waits for and for how long, to within some milliseconds.
///
/// The green threads of all runtimes are listed. They go on meanwhile, so the lines show slightly different moments.
/// The time it takes grows with the largest number of green threads that were alive at once.
///
/// Stacks are not shown, because the stack of a parked green thread cannot be unwound from outside. Attach a debugger
/// for those, or name green threads by [`thread::Builder`](crate::thread::Builder).
///
/// It may be called on any thread.
///
/// # Errors
///
/// Returns the errors of `w`, and an error of kind `Unsupported` in a [forked child](crate::docs::fork).
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
    w.write_all(sched::dump()?.as_bytes())
}
