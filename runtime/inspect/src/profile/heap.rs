//! Heap profiles: which code has allocated how much, and how much of that is in use. The page of
//! `runtime::profile` says what users see.
//!
//! The allocator (`heap/allocator.rs`) takes samples by a countdown of bytes (`countdown.rs`). A sample
//! counts for its origin (`sums.rs`), by a weight (`weight.rs`), and is found again when it is freed
//! (`live.rs`). All of that allocates nothing and takes no lock: it may happen anywhere in the runtime.

mod allocator;
mod countdown;
mod live;
mod pprof;
mod sums;
mod weight;

use std::collections::HashMap;
use std::fmt::Write;
use std::io;

pub use allocator::Profiled;
use sums::Seen;

use crate::dump::{Frame, Place};
use crate::stacks::apart;
use crate::stacks::folded;
use crate::stacks::kept::KEPT;
use crate::stacks::walk::Stacks;

/// A heap profile: what was allocated since the process began, by stack.
#[derive(Clone, Debug)]
pub struct Heap {
    rate: usize,
    lost: u64,
    sites: Vec<HeapSite>,
}

/// What one stack has allocated, with its spawn place and its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapSite {
    /// Where the green thread was spawned; `None` for the scheduler and plain OS threads.
    pub spawned_at: Option<Place>,
    /// The labels of the green thread, by key.
    pub labels: Vec<(String, String)>,
    /// The stack, the innermost frame first. The stack of a green thread ends at its entry.
    pub stack: Vec<Frame>,
    /// What was allocated since the process began.
    pub allocated: HeapSum,
    /// What of it is not freed.
    pub in_use: HeapSum,
}

/// Allocations and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapSum {
    /// How many allocations.
    pub objects: u64,
    /// How many bytes the program asked for in them.
    pub bytes: u64,
}

/// Sets how many bytes are allocated for each sample of the heap profile, on average: 524,288 at first, as
/// Go's `MemProfileRate`. With 1 each allocation is a sample, and the figures are exact. With 0 none is.
///
/// Each thread that allocates begins anew with the next rate. Samples keep the weight of theirs, so set the
/// rate once, at the beginning of `main`. May be called on any thread.
///
/// ```
/// runtime::profile::set_heap_rate(64 << 10);
/// ```
pub fn set_heap_rate(bytes: usize) {
    countdown::set_rate(bytes);
}

/// Takes a heap profile: which stacks have allocated how much since the process began, and how much of it is
/// in use. Finds the names of the functions as in [`blocking`](../../runtime/fn.blocking.html): other green
/// threads go on. What it allocates for that is not in the figures.
///
/// # Errors
///
/// Returns `Unsupported` in a [forked child](../../runtime/docs/fork/index.html), and if the global allocator
/// is no [`Profiled`](../../runtime/profile/struct.Profiled.html).
///
/// # Cancellation
///
/// A cancellation does not end it.
///
/// ```
/// use runtime::profile::Profiled;
/// use std::alloc::System;
///
/// #[global_allocator]
/// static ALLOCATOR: Profiled<System> = Profiled::new(System);
///
/// runtime::block_on(|| {
///     let heap = runtime::profile::heap()?;
///     println!("{} bytes in use\n{}", heap.in_use().bytes, heap.folded());
///     std::io::Result::Ok(())
/// })?;
/// # std::io::Result::Ok(())
/// ```
pub fn heap() -> io::Result<Heap> {
    apart::call("heap profile", record)
}

/// As `heap`, on the calling OS thread.
pub(crate) fn record() -> io::Result<Heap> {
    sched::fork::check()?;
    if !countdown::is_used() {
        let text = "no heap profile: the global allocator is no `runtime::profile::Profiled`";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    // To find the names takes many allocations.
    countdown::unsampled(take)
}

fn take() -> io::Result<Heap> {
    let (rate, lost, seen) = (countdown::rate(), allocator::lost(), allocator::seen().collect::<Vec<_>>());
    let mut kept = KEPT.lock();
    let stacks = Stacks::of_now(&mut kept).ok_or(io::ErrorKind::Unsupported)?;
    Ok(Heap { rate, lost, sites: sites(seen, stacks) })
}

impl Heap {
    /// Returns what each stack has allocated.
    pub fn sites(&self) -> &[HeapSite] {
        &self.sites
    }

    /// Returns the sum of what is in use, of all stacks.
    pub fn in_use(&self) -> HeapSum {
        self.sites.iter().fold(HeapSum::default(), |sum, site| sum.plus(site.in_use))
    }

    /// Returns the sum of what was allocated, of all stacks.
    pub fn allocated(&self) -> HeapSum {
        self.sites.iter().fold(HeapSum::default(), |sum, site| sum.plus(site.allocated))
    }

    /// Returns how many samples are in no figure, because a table was full. It has room for 65,536 samples
    /// that are in use, and for 4,096 stacks.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the lines that tools for flame graphs read: the frames, outermost first, and the bytes in use.
    /// The first frame has the place of the spawn and the labels. A line says how many samples were lost, if
    /// any were.
    pub fn folded(&self) -> String {
        let mut lines: Vec<_> = self.sites.iter().map(|site| (site.line(), site.in_use.bytes)).collect();
        lines.retain(|&(_, bytes)| bytes > 0);
        lines.sort_unstable();
        let mut text = String::new();
        for (line, bytes) in lines {
            let _ = writeln!(text, "{line} {bytes}");
        }
        if let Some(lost) = self.lost_in_words() {
            let _ = writeln!(text, "{lost} 0");
        }
        text
    }

    fn lost_in_words(&self) -> Option<String> {
        (self.lost > 0).then(|| format!("{} samples lost: the table was full", self.lost))
    }
}

impl HeapSum {
    fn plus(self, other: HeapSum) -> HeapSum {
        HeapSum { objects: self.objects + other.objects, bytes: self.bytes + other.bytes }
    }
}

impl HeapSite {
    fn line(&self) -> String {
        let mut line = match self.spawned_at {
            Some(place) => format!("green threads spawned at {}:{}", place.file, place.line),
            None => "scheduler and plain OS threads".into(),
        };
        for (key, value) in &self.labels {
            let _ = write!(line, " {}={}", folded::escaped(key), folded::escaped(value));
        }
        for frame in self.stack.iter().rev() {
            line.push(';');
            line.push_str(&folded::frame(&frame.function));
        }
        line
    }
}

/// Returns what was seen with the names of the functions. Stacks that differ only outside of what is shown
/// are one.
fn sites(seen: Vec<Seen>, stacks: &mut Stacks) -> Vec<HeapSite> {
    type Key = (Option<Place>, Vec<(String, String)>, Vec<Frame>);
    let mut sums: HashMap<Key, (HeapSum, HeapSum)> = HashMap::new();
    for seen in seen {
        let labels = seen.labels.iter().flat_map(|labels| labels.iter());
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let key = (seen.place.map(Place::of), labels, shown(&seen.frames, stacks));
        let (allocated, in_use) = sums.entry(key).or_default();
        *allocated = allocated.plus(sum(seen.allocated));
        let left = |all: u64, freed| all.saturating_sub(freed);
        let (all, freed) = (seen.allocated, seen.freed);
        *in_use = in_use.plus(sum((left(all.0, freed.0), left(all.1, freed.1))));
    }
    sums.into_iter()
        .map(|((spawned_at, labels, stack), (allocated, in_use))| HeapSite {
            spawned_at,
            labels,
            stack,
            allocated,
            in_use,
        })
        .collect()
}

fn sum((objects, bytes): (u64, u64)) -> HeapSum {
    HeapSum { objects, bytes }
}

/// Returns the frames at `addresses`, without those of the allocator, up to the entry of the thread.
fn shown(addresses: &[usize], stacks: &mut Stacks) -> Vec<Frame> {
    let mut frames = Vec::new();
    for &address in addresses {
        let of_address = stacks.frames(&[address]);
        if of_address.iter().any(|frame| frame.function.contains(ENTRY)) {
            break;
        }
        frames.extend(of_address);
    }
    // A name may lack its path, and a program that was stripped has no files.
    let is_allocators = |frame: &Frame| {
        frame.file.as_ref().is_some_and(|file| file.ends_with("/profile/heap/allocator.rs"))
            || frame.function.contains("profile::heap::allocator::")
    };
    let is_call = |frame: &&Frame| CALLS.iter().any(|call| frame.function.contains(call));
    let inner = frames.iter().rposition(is_allocators).map_or(0, |last| last + 1);
    let calls = frames[inner..].iter().take_while(is_call).count();
    frames.split_off(inner + calls)
}

/// What calls the global allocator.
const CALLS: [&str; 2] = ["__rust_", "__rg_"];
/// The entry of a green thread, and of a plain thread of std: what calls it is the same for all.
const ENTRY: &str = "__rust_begin_short_backtrace";

#[cfg(test)]
mod tests {
    use super::*;

    /// The global allocator of this program is std's.
    #[test]
    fn without_the_allocator_there_is_no_profile() {
        let error = record().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("runtime::profile::Profiled"), "{error}");
    }
}
