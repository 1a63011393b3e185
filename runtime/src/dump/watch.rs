//! The search for deadlocks on a timer: a plain OS thread looks, so it finds them even while green threads keep every P.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use sched::ServiceThread;
use sched::sync::{Condvar, Mutex};

use super::snapshot::Memory;
use super::{Deadlock, Snapshot};

/// What is called for each deadlock.
type Hook = Arc<dyn Fn(&Deadlock) + Send + Sync>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// Calls `hook` for each [`Deadlock`] that the search finds, instead of writing it to stderr. A second call replaces the hook.
///
/// [`Builder::find_deadlocks`](crate::Builder::find_deadlocks) starts the search. The hook runs on a plain OS thread, once for
/// each deadlock. A leak for which further green threads come to wait is the same deadlock. The hook may block, and the search waits for
/// it. If it panics, the panic is reported as usual and the search goes on.
///
/// The hook may cancel a green thread, so that the others go on. So [`block_on`](crate::block_on) does not panic if all green threads
/// are asleep, while the search runs and has a hook.
///
/// ```
/// runtime::dump::on_deadlock(|deadlock| {
///     for member in &deadlock.members {
///         eprintln!("green thread {} waits for {}", member.id, member.waits_for);
///     }
/// });
/// ```
pub fn on_deadlock(hook: impl Fn(&Deadlock) + Send + Sync + 'static) {
    *HOOK.write() = Some(Arc::new(hook));
    TIMER.notice_hook();
}

/// When the search looks.
struct Timer {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The interval; there is one if the search has begun.
    interval: Option<Duration>,
    thread: ServiceThread,
}

static TIMER: Timer = Timer::new();

/// Begins the search, or changes its interval to the shorter of both.
pub(crate) fn find_deadlocks(interval: Duration) -> io::Result<()> {
    sched::fork::check()?;
    sched::locks::track();
    TIMER.begin(interval, || thread::Builder::new().name("deadlocks".into()).spawn(search).map(drop))
}

impl Timer {
    const fn new() -> Timer {
        Timer {
            state: Mutex::new(State { interval: None, thread: ServiceThread::new() }),
            changed: Condvar::new(),
        }
    }

    /// Calls `start` if the search has not begun, and sets the interval to the shorter of both. If `start` fails, the next call tries
    /// again.
    fn begin(&self, interval: Duration, start: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        // Under the lock: the search reads the interval only after it is set.
        let mut state = self.state.lock();
        if state.interval.is_none() {
            start()?;
        }
        state.interval = Some(state.interval.map_or(interval, |now| now.min(interval)));
        self.changed.notify_all();
        Ok(())
    }

    /// Counts a search that rests as awake, so that it hides a deadlock of all from now on. Call it after the hook is set.
    fn notice_hook(&self) {
        self.state.lock().thread.count_awake();
        self.changed.notify_all();
    }

    /// Waits until the interval since this call is over. Without a hook the thread wakes no other, so it hides no deadlock of all green
    /// threads. A hook may wake one after the next look.
    fn rest(&self, has_hook: impl Fn() -> bool) {
        let begun = Instant::now();
        let mut state = self.state.lock();
        loop {
            if !has_hook() {
                state.thread.count_asleep();
            }
            let is_over = match state.interval.and_then(|interval| begun.checked_add(interval)) {
                Some(end) => self.changed.wait_until(&mut state, end).timed_out(),
                None => {
                    self.changed.wait(&mut state);
                    false
                }
            };
            if is_over {
                return state.thread.count_awake();
            }
        }
    }
}

/// How long the search rests for each ms of a search of the memory.
const REST: Duration = Duration::from_millis(10);

fn search() {
    let (mut earlier, mut told) = (Snapshot::default(), Told::default());
    let mut ages = Ages::default();
    // A candidate over channels may be none. The next search of the memory waits for a multiple of the time of the last one.
    let mut rests_until = Instant::now();
    loop {
        TIMER.rest(|| HOOK.read().is_some());
        let Ok(now) = Snapshot::take_without_stacks() else { return };
        // A new one is looked at once more, with the stacks.
        let found = now.candidates_since(&earlier);
        told.forget_ended(&now);
        ages.count(found.waiting);
        let may_search = Instant::now() >= rests_until;
        let memory = match may_search {
            true if ages.is_due() => Memory::All,
            true => Memory::OfCircles,
            false => Memory::None,
        };
        let is_news = |it: &Deadlock| !told.has(it) && (may_search || !it.over_channels);
        let looks_again = memory == Memory::All || found.deadlocks.iter().any(is_news);
        told.renew(found.deadlocks);
        if looks_again {
            let Ok(stacks) = Snapshot::take_here() else { return };
            let begun = Instant::now();
            let Ok(deadlocks) = stacks.deadlocks_since(&earlier, memory) else { return };
            if memory != Memory::None {
                rests_until = Instant::now() + REST * begun.elapsed().as_millis() as u32;
            }
            deadlocks.iter().filter(|new| !told.has(new)).for_each(tell);
            told.add(deadlocks);
        }
        earlier = now;
    }
}

/// The deadlocks that were told and last.
#[derive(Default)]
struct Told(Vec<Deadlock>);

impl Told {
    fn forget_ended(&mut self, now: &Snapshot) {
        self.0.retain(|old| old.lasts_in(now));
    }

    fn has(&self, new: &Deadlock) -> bool {
        self.0.iter().any(|old| old.same(new))
    }

    /// Replaces each of those by what is found now: a leak may have further members, and lasts as long as they do.
    fn renew(&mut self, found: Vec<Deadlock>) {
        for new in found {
            if let Some(old) = self.0.iter_mut().find(|old| old.same(&new)) {
                *old = new;
            }
        }
    }

    /// Adds what was told or renewed just now.
    fn add(&mut self, found: Vec<Deadlock>) {
        self.0.retain(|old| !found.iter().any(|new| new.same(old)));
        self.0.extend(found);
    }
}

/// How many looks have seen a wait before the memory is searched for handles that leaked. It is searched again when that number has
/// doubled. So a worker that waits for its next job for a while costs no search.
const FIRST_LOOKS: u32 = 4;

/// How many looks have seen each wait for a channel whose handles are not known: the green thread, and the number of its wait.
#[derive(Default)]
struct Ages {
    looks: HashMap<(u64, u32), u32>,
    is_due: bool,
}

impl Ages {
    /// Counts one more look, which has seen these waits.
    fn count(&mut self, waiting: Vec<(u64, u32)>) {
        let before = std::mem::take(&mut self.looks);
        self.looks =
            waiting.into_iter().map(|it| (it, before.get(&it).map_or(1, |looks| looks + 1))).collect();
        self.is_due |= self.looks.values().any(|&looks| looks >= FIRST_LOOKS && looks.is_power_of_two());
    }

    /// Returns `true` if a search is due, which the caller then makes.
    fn is_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }
}

fn tell(deadlock: &Deadlock) {
    let hook = HOOK.read().clone();
    match hook {
        Some(hook) => _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hook(deadlock))),
        None => sched::write_message(format_args!("runtime: {deadlock}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_could_not_start_is_started_by_the_next_call() {
        let timer = Timer::new();
        let (long, short) = (Duration::from_secs(2), Duration::from_secs(1));
        let refused = || Err(io::ErrorKind::WouldBlock.into());
        assert!(timer.begin(short, refused).is_err());
        let mut started = 0;
        for (interval, then) in [(long, long), (short, short), (long, short)] {
            let start = || {
                started += 1;
                Ok(())
            };
            timer.begin(interval, start).unwrap();
            assert_eq!(timer.state.lock().interval, Some(then));
        }
        assert_eq!(started, 1);
    }

    #[test]
    fn a_search_for_leaks_is_due_when_the_age_of_a_wait_has_doubled() {
        let mut ages = Ages::default();
        let due: Vec<u32> = (1..=40)
            .filter(|_| {
                ages.count(vec![(1, 7)]);
                ages.is_due()
            })
            .collect();
        assert_eq!(due, [4, 8, 16, 32]);
        // Another wait begins anew, and one that is over is forgotten.
        ages.count(vec![(1, 8)]);
        assert!(!ages.is_due() && ages.looks.len() == 1);
    }
}
