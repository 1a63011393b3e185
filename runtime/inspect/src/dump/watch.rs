//! The search for deadlocks on a timer: a plain OS thread looks, so it finds them even while green threads
//! keep every P.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use sched::sync::{Condvar, Mutex};
use sched::{ServiceThread, starting};

use super::{Deadlock, Snapshot};

/// What is called for each deadlock.
type Hook = Arc<dyn Fn(&Deadlock) + Send + Sync>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// Calls `hook` for each [`Deadlock`] that the search finds, instead of writing it to stderr. A second call
/// replaces the hook.
///
/// [`Builder::find_deadlocks`](../../runtime/struct.Builder.html#method.find_deadlocks) starts the search.
/// The hook runs on a plain OS thread, once for each deadlock. A leak for which further green threads come to
/// wait is the same deadlock. The hook may block, and the search waits for it. If it panics, the panic is
/// reported as usual and the search goes on.
///
/// The hook may cancel a green thread, so that the others go on. So
/// [`block_on`](../../runtime/fn.block_on.html) does not panic if all green threads are asleep, while the
/// search runs and has a hook.
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
    state: Mutex<WatchState>,
    changed: Condvar,
}

struct WatchState {
    /// The interval; there is one if the search has begun.
    interval: Option<Duration>,
    thread: ServiceThread,
}

static TIMER: Timer = Timer::new();

/// Begins the search, or changes its interval to the shorter of both.
pub fn find_deadlocks(interval: Duration) -> io::Result<()> {
    sched::fork::check()?;
    waits::locks::track();
    TIMER.begin(interval, || {
        starting::start(thread::Builder::new().name("deadlocks".into()), search).map(drop)
    })
}

impl Timer {
    const fn new() -> Timer {
        Timer {
            state: Mutex::new(WatchState { interval: None, thread: ServiceThread::new() }),
            changed: Condvar::new(),
        }
    }

    /// Calls `start` if the search has not begun, and sets the interval to the shorter of both. If `start`
    /// fails, the next call tries again.
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

    /// Counts a search that rests as awake, so that it hides a deadlock of all from now on. Call it after the
    /// hook is set.
    fn notice_hook(&self) {
        self.state.lock().thread.count_awake();
        self.changed.notify_all();
    }

    /// Waits until the interval since this call is over. Without a hook the thread wakes no other, so it
    /// hides no deadlock of all green threads. A hook may wake one after the next look.
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

fn search() {
    let (mut earlier, mut told) = (Snapshot::default(), ReportedDeadlocks::default());
    loop {
        TIMER.rest(|| HOOK.read().is_some());
        let Ok(now) = Snapshot::take_without_stacks() else { return };
        // A new one is looked at once more, with the stacks.
        let found = now.deadlocks_since(&earlier);
        told.forget_ended(&now);
        let has_news = found.iter().any(|it| !told.has(it));
        told.renew(found);
        if has_news {
            let Ok(stacks) = Snapshot::take_here() else { return };
            let deadlocks = stacks.deadlocks_since(&earlier);
            deadlocks.iter().filter(|new| !told.has(new)).for_each(tell);
            told.add(deadlocks);
        }
        earlier = now;
    }
}

/// The deadlocks that were reported and last.
#[derive(Default)]
struct ReportedDeadlocks(Vec<Deadlock>);

impl ReportedDeadlocks {
    fn forget_ended(&mut self, now: &Snapshot) {
        self.0.retain(|old| old.lasts_in(now));
    }

    fn has(&self, new: &Deadlock) -> bool {
        self.0.iter().any(|old| old.same(new))
    }

    /// Replaces each of those by what is found now: a leak may have further members, and lasts as long as
    /// they do.
    fn renew(&mut self, found: Vec<Deadlock>) {
        for new in found {
            if let Some(old) = self.0.iter_mut().find(|old| old.same(&new)) {
                *old = new;
            }
        }
    }

    /// Adds what was reported or renewed just now.
    fn add(&mut self, found: Vec<Deadlock>) {
        self.0.retain(|old| !found.iter().any(|new| new.same(old)));
        self.0.extend(found);
    }
}

fn tell(deadlock: &Deadlock) {
    let hook = HOOK.read().clone();
    match hook {
        Some(hook) => _ = sched::contain(|| hook(deadlock)),
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
}
