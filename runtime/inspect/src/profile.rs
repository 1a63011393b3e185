//! CPU profiles: what the process computes, by green thread and function. The page of `runtime::profile` says
//! what users see. The signal is in `profile/sampler.rs`; here the stacks get their names. Heap profiles are
//! in `profile/heap.rs`.

pub(crate) mod heap;
mod pprof;
mod sampler;

use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant};

#[doc(inline)]
pub use heap::{Heap, HeapSite, HeapSum, Profiled, heap, set_heap_rate};
use sampler::Sampler;
use sched::interrupted::Thread;

use crate::stacks::apart;
use crate::stacks::folded;
use crate::stacks::frame::Frame;
use crate::stacks::walk::Stacks;

/// The CPU time between two samples.
const INTERVAL: Duration = Duration::from_millis(10);
/// How often samples are unwound. The slots last for half a second of two CPUs.
const DRAIN: Duration = Duration::from_millis(50);

/// A CPU profile.
#[derive(Debug)]
pub struct Profile {
    taken: Duration,
    lost: u64,
    /// How many samples there are of each thread and stack, an index into `stacks`.
    counts: HashMap<(Thread, usize), u64>,
    stacks: Vec<Stack>,
}

/// A stack as addresses and as functions, innermost first.
#[derive(Debug)]
struct Stack {
    addresses: Vec<(u64, Vec<Function>)>,
}

/// A function and the line in it.
#[derive(Clone, Debug)]
struct Function {
    name: String,
    file: String,
    line: u32,
}

/// Takes a CPU profile of the process for `time`. Works as in [`blocking`](../../runtime/fn.blocking.html):
/// other green threads go on.
///
/// # Errors
///
/// Returns `ResourceBusy` if another profile is being taken, or the program has an action of its own for
/// SIGPROF. Returns `Unsupported` in a [forked child](../../runtime/docs/fork/index.html).
///
/// # Cancellation
///
/// A cancellation does not end it.
///
/// ```
/// use std::time::{Duration, Instant};
/// runtime::block_on(|| {
///     let hog = runtime::spawn(|| {
///         let start = Instant::now();
///         while start.elapsed() < Duration::from_millis(300) {}
///     });
///     let profile = runtime::profile::cpu(Duration::from_millis(200))?;
///     println!("{} samples\n{}", profile.samples(), profile.folded());
///     hog.join().unwrap();
///     std::io::Result::Ok(())
/// })?;
/// # std::io::Result::Ok(())
/// ```
pub fn cpu(time: Duration) -> io::Result<Profile> {
    let sleep = |time| {
        sched::at_rest(|| std::thread::sleep(time));
        true
    };
    apart::call("profile", || record(time, sleep))
}

/// Takes a profile; ends early if `wait` returns `false`.
#[doc(hidden)]
pub fn record(time: Duration, wait: impl Fn(Duration) -> bool) -> io::Result<Profile> {
    sched::fork::check()?;
    let (mut sampler, start) = (Sampler::start(INTERVAL)?, Instant::now());
    let mut kept = None;
    let unwinder = Stacks::of_now(&mut kept).ok_or(io::ErrorKind::Unsupported)?;
    let (mut counts, mut known, mut lists) = (HashMap::new(), HashMap::new(), Vec::new());
    let mut drain = |sampler: &mut Sampler, unwinder: &mut Stacks| {
        sampler.drain(|thread, copy| {
            let addresses = unwinder.addresses_of(copy, true);
            let stack = *known.entry(addresses).or_insert_with_key(|addresses| {
                lists.push(addresses.clone());
                lists.len() - 1
            });
            *counts.entry((thread, stack)).or_insert(0) += 1;
        });
    };
    loop {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() || !wait(left.min(DRAIN)) {
            break;
        }
        drain(&mut sampler, unwinder);
    }
    let taken = start.elapsed();
    sampler.stop();
    drain(&mut sampler, unwinder);
    let lost = sampler.take_lost();
    drop(sampler);
    let stacks = lists.iter().map(|addresses| Stack::of(addresses, unwinder)).collect();
    Ok(Profile { taken, lost, counts, stacks })
}

impl Profile {
    /// Returns how many samples it has.
    pub fn samples(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns how many samples were lost, because many OS threads computed at once.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the profile in the form that `go tool pprof`, speedscope and others read: `profile.proto`, not
    /// compressed. Each sample has the labels `green_thread`, `name` and `spawned_at`, and
    /// those of the program: see `labels`.
    pub fn to_pprof(&self) -> Vec<u8> {
        pprof::of(self)
    }

    /// Returns the lines that tools for flame graphs read: the frames, outermost first, and the number of
    /// samples. The first frame names the green thread, or says that none ran.
    pub fn folded(&self) -> String {
        let mut lines: HashMap<String, u64> = HashMap::new();
        for ((thread, stack), n) in &self.counts {
            let mut line = root(thread);
            for function in self.stacks[*stack].addresses.iter().flat_map(|(_, functions)| functions).rev() {
                line.push(';');
                line.push_str(&folded::frame(&function.name));
            }
            *lines.entry(line).or_insert(0) += n;
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_unstable();
        lines.iter().fold(String::new(), |mut text, (line, n)| {
            let _ = writeln!(text, "{line} {n}");
            text
        })
    }
}

/// Returns the first frame of a folded stack. Green threads of one place have the same one unless they have
/// names.
fn root(thread: &Thread) -> String {
    let place = thread
        .place
        .map(|place| format!(" spawned at {}:{}", place.file(), place.line()))
        .unwrap_or_default();
    let labels = thread.labels.iter().flat_map(|labels| labels.iter());
    let labels: String =
        labels.map(|(key, value)| format!(" {}={}", folded::escaped(key), folded::escaped(value))).collect();
    match &thread.name {
        _ if thread.id == 0 => "scheduler and plain OS threads".into(),
        Some(name) => format!("green thread '{}'{place}{labels}", folded::escaped(name)),
        None => format!("green threads{place}{labels}"),
    }
}

impl Stack {
    fn of(addresses: &[usize], unwinder: &mut Stacks) -> Stack {
        let mut list = Vec::new();
        for &address in addresses {
            let functions: Vec<_> = unwinder.frames(&[address]).iter().map(Function::of).collect();
            // The entry of a green thread, and of a plain thread of std: what calls it is the same for all.
            if functions.iter().any(|function| function.name.contains("__rust_begin_short_backtrace")) {
                break;
            }
            list.push((address as u64, functions));
        }
        Stack { addresses: list }
    }
}

impl Function {
    fn of(frame: &Frame) -> Function {
        let Frame { function, file, line, .. } = frame.clone();
        Function { name: function, file: file.unwrap_or_default(), line: line.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_line_has_one_stack() {
        let thread = Thread {
            id: 5,
            name: Some("a;b\nc\r\u{1b}[2Jd".into()),
            place: None,
            labels: Some(Arc::new(sched::Labels::nested(None, &[("k;", "v\n")]))),
        };
        let counts = HashMap::from([((thread, 0), 3)]);
        let stacks = vec![Stack { addresses: Vec::new() }];
        let profile = Profile { taken: Duration::from_secs(1), lost: 0, counts, stacks };
        assert_eq!(profile.folded(), "green thread 'a b\\nc\\r\\u{1b}[2Jd' k =v\\n 3\n");
    }
}
