//! Dumps: what each green thread does, and the stacks of those that are parked.

mod frame;
#[cfg(all(
    feature = "dump-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod stacks;
#[cfg(not(all(
    feature = "dump-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "dump/no_stacks.rs"]
mod stacks;
mod text;
#[cfg(unix)]
pub(crate) mod trigger;

use std::collections::HashMap;
use std::io::{self, Write};

use frame::Frame;
use parking_lot::Mutex;
use sched::{SeenThread, StackCopy};
use stacks::Stacks;

/// Writes one line to `w` for each green thread of the process, and a last line with their number.
///
/// A line has the green thread's id, its name if it has one, and where it was spawned. It says whether the green
/// thread runs or is ready to run, or what it waits for and for how long, to within some milliseconds.
///
/// With the feature `dump-stacks`, on Linux on x86-64 and 64-bit Arm, the stack of each parked closure follows its line. A frame
/// has two lines: the function, and the place in the source. The innermost frame comes first, and inlined functions have frames
/// too. Frames of this crate, and those of std around them, are left out. A function without debug information shows as its
/// symbol or its address. The page about [dumps](crate::docs::dumps) shows an example.
///
/// The green threads of all runtimes are listed. They go on meanwhile, so the lines show slightly different moments. If a green
/// thread is woken while its stack is copied, it waits until the copy is done, which takes about a microsecond for each 8 KiB.
/// The time a dump takes grows with the largest number of green threads that were alive at once.
///
/// A future shows no stack, because it has none while it waits. A green thread that runs, is ready to run, or is
/// [pinned](crate::thread::pin) shows none either.
///
/// It may be called on any thread. It does not park its caller.
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
    let dump = crate::blocking(Dump::take)?;
    w.write_all(text::of(&dump).as_bytes())
}

/// Returns the dump for the report of a deadlock; empty in a forked child.
pub(crate) fn report() -> String {
    Dump::take().map(|dump| text::of(&dump)).unwrap_or_default()
}

/// What one dump has found.
struct Dump {
    /// In the order of their ids.
    threads: Vec<Thread>,
    /// The stacks that differ.
    stacks: Vec<Vec<Frame>>,
}

/// One green thread.
struct Thread {
    seen: SeenThread,
    /// Its stack, an index into `Dump::stacks`.
    stack: Option<usize>,
}

impl Dump {
    fn take() -> io::Result<Dump> {
        // Locked during a dump: a second dump would miss the stacks that the first one copies at that moment.
        static KEPT: Mutex<Option<Stacks>> = Mutex::new(None);
        sched::fork::check()?;
        let mut kept = KEPT.lock();
        let mut unwinder = Stacks::of_now(&mut kept);
        let mut copy = unwinder.as_ref().map(|_| StackCopy::default());
        let (mut threads, mut known, mut stacks) = (Vec::new(), HashMap::new(), Vec::new());
        sched::look_at_all(copy.as_mut(), |seen, copy| {
            let addresses = unwinder.as_mut().zip(copy).map(|(unwinder, copy)| unwinder.addresses(copy));
            let stack = addresses.filter(|addresses| !addresses.is_empty()).map(|addresses| {
                *known.entry(addresses).or_insert_with_key(|addresses| {
                    stacks.push(addresses.clone());
                    stacks.len() - 1
                })
            });
            threads.push(Thread { seen, stack });
        })?;
        threads.sort_unstable_by_key(|thread| thread.seen.id);
        let frames = |addresses: Box<[usize]>| {
            let frames = unwinder.as_mut().map(|unwinder| unwinder.frames(&addresses));
            frame::without_ours(frames.unwrap_or_default())
        };
        Ok(Dump { threads, stacks: stacks.into_iter().map(frames).collect() })
    }
}
