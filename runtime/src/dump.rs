//! What every green thread is doing.

use std::io::{self, Write};

/// Writes what every green thread of the process is doing, a line each: its id, its name if it has one, whether it runs, is
/// ready to run, or what it waits for and for how long (to within some milliseconds), and where it was spawned. The last
/// line says how many there are.
///
/// All runtimes' are shown, on whatever thread this is called. They go on meanwhile, so the lines are not all of one moment. It
/// looks at every green thread there has been at once.
///
/// Stacks are not shown: what a parked green thread has on its stack cannot be unwound from outside. For those, a
/// debugger can be attached, or each may be named by [`thread::Builder`](crate::thread::Builder) for what it does.
///
/// # Errors
///
/// What `w` gives; of kind `Unsupported` in a [forked child](crate#after-fork).
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
///     // It may not have begun yet.
///     while !dumped().contains(": waits for the end of a sleep, for ") {
///         runtime::yield_now();
///     }
///     sleeper.cancel();
/// });
/// ```
pub fn dump(w: &mut impl Write) -> io::Result<()> {
    w.write_all(sched::dump()?.as_bytes())
}
