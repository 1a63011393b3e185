//! A profile of waiting: for what and on which stacks green threads wait, by looks at all of them.
//!
//! Each look adds the time since the last look to what it finds waiting. So a stack gets its share of the
//! time also if each of its waits is shorter than the time between two looks. Nothing is recorded where a
//! green thread parks, so the profile costs nothing while none is taken.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant};

use super::{Frame, GreenThread, Place, Reason, Snapshot};
use crate::stacks::folded;

/// The least time between two looks.
const INTERVAL: Duration = Duration::from_millis(10);
/// Looks take one part in so many of the time, so of one CPU.
const SHARE: u32 = 20;
/// A profile of waiting.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    pub(super) taken: Duration,
    looks: u64,
    pub(super) sums: HashMap<Waiting, Sum>,
}

/// What waits have in common that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiting {
    pub(super) reason: Reason,
    pub(super) spawned_at: Option<Place>,
    pub(super) labels: Vec<(String, String)>,
    /// The innermost first.
    pub(super) stack: Vec<Frame>,
}

/// What was seen of such waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// How many waits.
    pub(super) waits: u64,
    /// How long they lasted.
    pub(super) time: Duration,
}

/// Takes a profile of waiting for `time`: looks at all green threads of the process again and again, and sums
/// up for what they wait, where, and how long. Works as in
/// [`blocking`](../../runtime/fn.blocking.html): other green threads go on.
///
/// It looks every 10 ms, or less often if there are many green threads: looks take a twentieth of one CPU at
/// most, so that a program may take one profile after the other. Stacks need the feature `dump-stacks`, as in
/// a [dump](crate::dump::dump()).
///
/// # Errors
///
/// Returns an error of kind `Unsupported` in a [forked child](../../runtime/docs/fork/index.html).
///
/// # Cancellation
///
/// A cancellation does not end it.
///
/// ```
/// use std::time::Duration;
/// runtime::block_on(|| {
///     let sleeper = runtime::spawn(|| runtime::sleep(Duration::from_secs(3600)));
///     let waits = runtime::profile::waits(Duration::from_millis(100))?;
///     println!("{}", waits.folded());
///     sleeper.cancel();
///     std::io::Result::Ok(())
/// })?;
/// # std::io::Result::Ok(())
/// ```
pub fn waits(time: Duration) -> io::Result<Waits> {
    sched::park::blocking(|| {
        record(time, |time| {
            sched::at_rest(|| std::thread::sleep(time));
            true
        })
    })
}

/// As `waits`, on the calling OS thread. Ends early if `wait` returns `false`.
#[doc(hidden)]
pub fn record(time: Duration, wait: impl Fn(Duration) -> bool) -> io::Result<Waits> {
    let (start, mut last) = (Instant::now(), Instant::now());
    let (mut profile, mut before) = (Waits::default(), HashSet::new());
    let mut pause = INTERVAL;
    loop {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() || !wait(left.min(pause)) {
            break;
        }
        let now = Instant::now();
        before = profile.add(&Snapshot::take_here()?, now - last, &before);
        (last, pause) = (now, INTERVAL.max(now.elapsed() * SHARE));
    }
    profile.taken = start.elapsed();
    Ok(profile)
}

/// A green thread and the number of its wait.
type Numbers = HashSet<(u64, Option<u32>)>;

impl Waits {
    /// Adds a look. `since` is the time since the last one, which has seen the waits `before`. Returns the
    /// waits that this one has seen.
    fn add(&mut self, look: &Snapshot, since: Duration, before: &Numbers) -> Numbers {
        self.looks += 1;
        let mut seen = Numbers::new();
        for thread in &look.green_threads {
            let Some(wait) = &thread.wait else { continue };
            let number = (thread.id, wait.number);
            let sum = self.sums.entry(Waiting::of(look, thread, wait.reason)).or_default();
            sum.waits += u64::from(!before.contains(&number));
            sum.time += since;
            seen.insert(number);
        }
        seen
    }

    /// Returns how often it has looked at all green threads.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Returns the part of which the waits are for one of `reasons`: Go's *mutex profile* is the part of
    /// [`Reason::Mutex`] and [`Reason::RwLock`]. Here the stacks are those of the waiters.
    ///
    /// ```
    /// use runtime::dump::Reason;
    /// # let waits = runtime::profile::waits(std::time::Duration::ZERO)?;
    /// let mutex_profile = waits.only(&[Reason::Mutex, Reason::RwLock]);
    /// # std::io::Result::Ok(())
    /// ```
    #[must_use]
    pub fn only(&self, reasons: &[Reason]) -> Waits {
        let mut part = self.clone();
        part.sums.retain(|waiting, _| reasons.contains(&waiting.reason));
        part
    }

    /// Returns how long all waits that it has seen lasted during the profile.
    pub fn time(&self) -> Duration {
        self.sums.values().map(|sum| sum.time).sum()
    }

    /// Returns the lines that tools for flame graphs read: the frames, outermost first, and the time in ms.
    /// The first frame names the place of the spawn and the labels, the last one says what the wait is for.
    pub fn folded(&self) -> String {
        let mut lines: Vec<_> = self.sums.iter().map(|(waiting, sum)| (waiting.line(), sum.time)).collect();
        lines.sort_unstable();
        lines.iter().fold(String::new(), |mut text, (line, time)| {
            let _ = writeln!(text, "{line} {}", time.as_millis());
            text
        })
    }
}

impl Waiting {
    fn of(look: &Snapshot, thread: &GreenThread, reason: Reason) -> Waiting {
        let (spawned_at, labels) = (thread.spawned_at, thread.labels.clone());
        Waiting { reason, spawned_at, labels, stack: look.stack(thread).to_vec() }
    }

    fn line(&self) -> String {
        let mut line = String::from("green threads");
        if let Some(place) = self.spawned_at {
            let _ = write!(line, " spawned at {}:{}", place.file, place.line);
        }
        for (key, value) in &self.labels {
            let _ = write!(line, " {}={}", folded::escaped(key), folded::escaped(value));
        }
        for frame in self.stack.iter().rev() {
            line.push(';');
            line.push_str(&folded::frame(&frame.function));
        }
        let _ = write!(line, ";waits for {}", self.reason);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two looks, of which the second sees one wait for a second time and one for the first time.
    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no runtime")]
    fn a_wait_counts_once_and_its_time_at_each_look() {
        let runtime = runtime::Builder::new().procs(1).build().unwrap();
        let mut looks = runtime.block_on(|| {
            let parked = runtime::spawn(runtime::thread::park);
            let look = loop {
                runtime::yield_now();
                let look = Snapshot::take().unwrap();
                if look.get(parked.thread().id().as_u64().get()).unwrap().wait.is_some() {
                    break look;
                }
            };
            parked.thread().unpark();
            let id = parked.thread().id().as_u64().get();
            parked.join().unwrap();
            // Other tests of this process have green threads, too.
            let mut one = look;
            one.green_threads.retain(|thread| thread.id == id);
            [one.clone(), one.clone(), one]
        });
        let next = looks[2].green_threads[0].wait.as_mut().unwrap();
        next.number = next.number.map(|number| number + 1);
        let (mut profile, mut before) = (Waits::default(), Numbers::new());
        for (look, ms) in looks.iter().zip([10, 20, 30]) {
            before = profile.add(look, Duration::from_millis(ms), &before);
        }
        let sums: Vec<_> = profile.sums.values().map(|sum| (sum.waits, sum.time.as_millis())).collect();
        assert_eq!((sums, profile.looks()), (vec![(2, 60)], 3));
        assert!(profile.folded().ends_with(";waits for an unpark 60\n"), "{}", profile.folded());
        assert_eq!(profile.only(&[Reason::Mutex]).time(), Duration::ZERO);
        assert_eq!(profile.only(&[Reason::Unpark]).time(), Duration::from_millis(60));
    }
}
