//! CPU profiles, heap profiles, profiles of waiting, and labels: what the process computes, what it has
//! allocated, and for what it waits, by green thread, label and function.
//!
//! # Labels
//!
//! [`labels`] gives the calling thread labels while it runs a closure, as Go's `pprof.Do` does. The green
//! threads that the closure spawns begin with the same labels. Dumps, profiles and traces show them. So a
//! profile of a server says which route costs the time, and a dump says which customer waits.
//!
//! ```
//! use runtime::profile;
//!
//! fn handle(route: &str) {
//!     profile::labels(&[("route", route)], || {
//!         let part = runtime::spawn(|| {
//!             let snapshot = runtime::dump::Snapshot::take().unwrap();
//!             let me = runtime::thread::current().id().as_u64().get();
//!             assert_eq!(snapshot.get(me).unwrap().labels, [("route".into(), "/x".into())]);
//!         });
//!         part.join().unwrap();
//!     });
//! }
//!
//! runtime::block_on(|| handle("/x"));
//! ```
//!
//! | what | where the labels are |
//! | --- | --- |
//! | [dump](crate::dump::dump()) as text, grouped | `labels: {"route": "/x"}` at the end of the line |
//! | dump as JSON | `"labels":{"route":"/x"}` |
//! | dump and profile for pprof | labels of the samples: `go tool pprof -tagfocus=route=/x` |
//! | `Profile::folded`, `Heap::folded` | ` route=/x` at the end of the first frame |
//! | [trace](crate::trace) | [`Event::labels`](crate::trace::Event::labels); with slices of timelines |
//!
//! Labels are for texts that many green threads share, such as a route. Each set of labels lives as long as a
//! thread or a result that has it. A thread without labels pays nothing, also when it spawns. A call of
//! [`labels`] makes some allocations, and so does each spawn by a thread with labels. While a trace is
//! recorded, each set of labels is one of the 4,096 names of [regions](crate::trace::region).
//!
//! Functions of timers, and wakers, have no labels. A future inherits the labels of its spawner. Plain OS
//! threads pass their labels on to green threads and have none in profiles.
//!
//! # Profiles of waiting
//!
//! [`waits()`] looks at all green threads again and again, and sums up for what they wait, on which stacks,
//! and how long. Go's block and mutex profiles are parts of it: [`Waits::only`]. `Waits::to_pprof` has their
//! values, `contentions/count` and `delay/nanoseconds`. These differ from Go's:
//!
//! - The time is sampled, so it is right on average also for waits that are shorter than the time between two
//!   looks. The count is that of the waits that were seen; it leaves out most of such short ones.
//! - The stack of a wait for a lock is that of the waiter. A [dump](crate::dump::dump()) names the holder.
//! - Sleeps and sockets are in the profile, too, unless `only` leaves them out.
//!
//! # CPU profiles
//!
//! They need the feature `debug`, on Linux on x86-64 and 64-bit Arm.
//!
//! `cpu` takes 100 samples for each second of CPU time. A sample has the stack of the OS thread that runs
//! at that moment. It also has the id, name, labels and spawn place of the green thread on it. The stack of a
//! green thread ends at its entry.
//!
//! The samples come by the signal SIGPROF. Its handler stays installed from the first profile on. System
//! calls that the signal interrupts are restarted, except for calls that always return early, such as
//! `nanosleep`.
//!
//! The timer of a profile outlives an `exec`, and the handler does not. A process that replaces itself by
//! another program during a profile is ended by SIGPROF, so it waits for the end of the profile first.
//! Children are not affected: a fork has no timer.
//!
//! # Heap profiles
//!
//! They need the feature `debug`, on Linux on x86-64 and 64-bit Arm, and the global allocator in
//! `profile::Profiled`:
//!
//! ```ignore
//! use runtime::profile::Profiled;
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static ALLOCATOR: Profiled<System> = Profiled::new(System);
//!
//! fn main() -> std::io::Result<()> {
//!     std::fs::write("heap.pb", runtime::profile::heap()?.to_pprof()) // go tool pprof heap.pb
//! }
//! ```
//!
//! `heap` returns which stacks have allocated how much since the process began, and how much of it is in
//! use, as Go's `/debug/pprof/heap`. What a stack has in use and never frees is a leak. The samples also have
//! the spawn place and the labels of the green thread.
//!
//! - One allocation is a sample for each 512 KiB, on average, and stands for the others. So the
//!   figures are right on average, and those of a stack with few samples are rough. `set_heap_rate` sets
//!   another rate.
//! - A reallocation counts as a free and an allocation of the whole new size, as an `append` in Go.
//! - Memory that C libraries allocate, stacks, and what the allocator keeps are not in the profile.
//! - The tables have a fixed size. What has no room in them is counted, and the profile says so. Beyond 2,048
//!   stacks with their labels, further stacks are without labels.
//! - A figure of what is in use may be off by what other threads free during the look.

#[cfg(all(
    feature = "debug",
    not(any(asan, portable)),
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[doc(inline)]
pub use inspect::profile::{Heap, HeapSite, HeapSum, Profile, Profiled, cpu, heap, set_heap_rate};

#[doc(inline)]
pub use inspect::dump::waits::{Waits, waits};

/// Runs `f` and returns its result. During `f` the calling thread has `labels`, beside its
/// own. A label with the key of an outer one takes its place, a later one that of an earlier one.
///
/// Green threads that `f` spawns begin with the labels of the calling thread and keep them, also after `f`
/// has returned. [What labels are for](self#labels). May be called on any thread. It parks only where `f`
/// parks.
///
/// # Panics
///
/// Passes a panic of `f` on. The labels of before are back then.
///
/// # Cancellation
///
/// As for a panic: a cancellation in `f` unwinds through the call.
///
/// ```
/// use runtime::profile;
///
/// let inner = profile::labels(&[("route", "/x"), ("user", "7")], || {
///     profile::labels(&[("user", "8")], || runtime::spawn(|| profile::label("user")))
/// });
/// assert_eq!(inner.join().unwrap().as_deref(), Some("8"));
/// assert_eq!(profile::label("user"), None);
/// ```
pub fn labels<T>(labels: &[(&str, &str)], f: impl FnOnce() -> T) -> T {
    sched::labels::with(labels, f)
}

/// Returns the value of the label `key` of the calling thread; `None` if it has no such label. May be called
/// on any thread.
///
/// ```
/// use runtime::profile;
///
/// let route = profile::labels(&[("route", "/x")], || profile::label("route"));
/// assert_eq!(route.as_deref(), Some("/x"));
/// ```
pub fn label(key: &str) -> Option<String> {
    sched::labels::current()?.get(key).map(str::to_owned)
}
