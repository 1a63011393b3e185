//! Live timers that are reset to later and earlier times, such as the time-outs of active connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Moment, Start, on_tasks};
use crate::designs::Timers;
use crate::measure::Figures;
use peer_common::load::Random;

const HOUR: Duration = Duration::from_secs(3600);
/// The time after which all timers fire at the end.
const SOON: Duration = Duration::from_millis(30);
/// Time for timers to fire that the design removed to fire before their reset.
const SETTLE: Duration = Duration::from_millis(50);

/// The callback of a task's timers: counts the firings.
#[derive(Default)]
struct Fired(AtomicU64);

impl Wake for Fired {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// A task's timers.
struct Own<T: Timers> {
    timers: Vec<T::Timer>,
    fired: Arc<Fired>,
    callback: Waker,
}

pub(super) fn run<T: Timers>(timers: &Arc<T>, tasks: usize, live: usize, n: usize) -> Figures {
    let live = live / tasks;
    let start = Start::of(tasks);
    let all: Arc<Mutex<Vec<Own<T>>>> = Arc::default();
    let figures = on_tasks(tasks, n, |task| {
        let (timers, start, all) = (Arc::clone(timers), Arc::clone(&start), Arc::clone(&all));
        move || {
            let mut random = Random::of_task(task as u64);
            let fired = Arc::<Fired>::default();
            let callback = Waker::from(Arc::clone(&fired));
            let mut own: Vec<_> = (0..live).map(|_| timers.add(random.deadline(), &callback)).collect();
            start.wait();
            let begin = Moment::now();
            for _ in 0..n {
                let one = random.below(live);
                timers.reset(&mut own[one], random.deadline(), &callback);
            }
            let end = Moment::now();
            all.lock().push(Own { timers: own, fired, callback });
            (begin, end)
        }
    });

    let all = std::mem::take(&mut *all.lock());
    assert_eq!(all.len(), tasks);
    all.into_iter().for_each(|own| all_fire_once(&**timers, own));
    figures
}

/// Checks that each timer still fires exactly once after all resets: no timer is in two places, and no timer
/// is lost.
fn all_fire_once<T: Timers>(timers: &T, mut own: Own<T>) {
    for timer in &mut own.timers {
        timers.reset(timer, HOUR, &own.callback);
    }
    timers.sleep(SETTLE);
    let before = own.fired.0.load(Ordering::Acquire);
    let start = Instant::now();
    for timer in &mut own.timers {
        timers.reset(timer, SOON, &own.callback);
    }
    let fired = || own.fired.0.load(Ordering::Acquire) - before;
    // No timer is due yet, unless the resets took longer than `SOON`.
    let early = fired();
    assert!(early == 0 || start.elapsed() >= SOON, "{early} timers fired early");
    while fired() < own.timers.len() as u64 {
        assert!(start.elapsed() < Duration::from_secs(60), "only {} of {} fired", fired(), own.timers.len());
        timers.sleep(Duration::from_millis(1));
    }
    timers.sleep(SETTLE);
    assert_eq!(fired(), own.timers.len() as u64, "timers fired twice");
    own.timers.into_iter().for_each(|timer| timers.cancel(timer));
}
