//! Timers, tickers, timer functions and contexts: each setting of a timer ends in exactly one way, and none
//! is early.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::context::Context;
use runtime::select;
use runtime::time::{Ticker, Timer, after_func, timeout_async};

use crate::actor::Actor;

/// Counts settings of a timer, and their ends. A setting ends when its value is received, or when a stop or a
/// reset finds it pending.
#[derive(Default)]
struct Sums {
    set: AtomicU64,
    ended: AtomicU64,
}

impl Sums {
    fn is_set(&self) {
        self.set.fetch_add(1, SeqCst);
    }

    fn ends_if(&self, so: bool) {
        self.ended.fetch_add(u64::from(so), SeqCst);
    }
}

/// Uses the timer in random ways. `alone`: no other thread uses the timer at the same time.
fn uses(a: &mut Actor, timer: &Timer, sums: &Sums, alone: bool) {
    for _ in 0..a.number(1..8) {
        match a.number(0..7) {
            0 => sums.ends_if(timer.stop()),
            1 | 2 => {
                let (time, start) = (a.micros(300), Instant::now());
                sums.is_set();
                sums.ends_if(timer.reset(time));
                if let Ok(due) = timer.channel().try_recv() {
                    // Another thread may have begun its reset before this thread's reset and finished after
                    // it.
                    assert!(!alone || due >= start, "received the value of an earlier setting");
                    sums.ends_if(true);
                }
            }
            3 => sums
                .ends_if(timer.channel().recv_timeout(a.micros(200)).is_ok_and(|due| due <= Instant::now())),
            4 => {
                let patience = a.micros(200);
                select! {
                    recv(timer.channel()) -> due => sums.ends_if(due.is_ok()),
                    default(patience) => {}
                }
            }
            5 => {
                let patience = a.micros(200);
                sums.ends_if(a.block_on(timeout_async(patience, timer.fired_async())).is_ok());
            }
            _ => a.pause(),
        }
    }
}

/// A timer that is used by a single thread, or by several threads at once.
pub(super) fn timer(a: &mut Actor) {
    let (timer, sums) = (Arc::new(Timer::new(a.micros(300))), Arc::new(Sums::default()));
    sums.is_set();
    let children: Vec<_> = (0..a.number(0..4))
        .map(|_| {
            let (timer, sums) = (timer.clone(), sums.clone());
            a.spawn(move |a| uses(a, &timer, &sums, false))
        })
        .collect();
    uses(a, &timer, &sums, children.is_empty());
    let ended = children.into_iter().all(|child| child.join().is_ok());
    sums.ends_if(timer.stop());
    // An interrupted child may have received a value without having counted it.
    let (set, ends) = (sums.set.load(SeqCst), sums.ended.load(SeqCst));
    a.check(!ended || set == ends, &format!("set {set} times, ended {ends} times"));
}

pub(super) fn ticker(a: &mut Actor) {
    let mut period = Duration::from_micros(1) + a.micros(200);
    let mut start = Instant::now();
    let ticker = Ticker::new(period);
    let mut first = None;
    for _ in 0..a.number(1..10) {
        match a.number(0..8) {
            0 => {
                ticker.stop();
                assert!(ticker.channel().try_recv().is_err(), "a tick after the stop");
                (period, start, first) = (Duration::from_micros(1) + a.micros(200), Instant::now(), None);
                ticker.reset(period);
            }
            1 => a.pause(),
            kind => {
                let tick = if kind == 2 {
                    a.block_on(ticker.tick_async())
                } else {
                    ticker.channel().recv().unwrap()
                };
                let first = *first.get_or_insert(tick);
                assert!(tick <= Instant::now() && tick >= start, "early");
                assert_eq!((tick - first).as_nanos() % period.as_nanos(), 0, "the ticks drift");
            }
        }
    }
}

/// The runs of a timer function equal its settings less the settings that a stop or a reset has ended.
pub(super) fn function(a: &mut Actor) {
    let (runs, token) = (Arc::new(AtomicU64::new(0)), a.token());
    let (its, mut earliest) = (runs.clone(), Instant::now());
    let first = a.micros(300);
    let timer = after_func(first, move || {
        _ = &token;
        its.fetch_add(1, SeqCst);
    });
    earliest += first;
    let (mut set, mut ended) = (1, 0);
    for _ in 0..a.number(0..6) {
        match a.number(0..3) {
            0 => ended += u64::from(timer.stop()),
            1 => {
                let time = a.micros(300);
                earliest = earliest.min(Instant::now() + time);
                set += 1;
                ended += u64::from(timer.reset(time));
            }
            _ => a.pause(),
        }
        assert!(runs.load(SeqCst) == 0 || Instant::now() >= earliest, "early");
    }
    if a.one_in(3) {
        // The timer is dropped while it is pending, or while its function runs.
        return;
    }
    ended += u64::from(timer.stop());
    while runs.load(SeqCst) < set - ended && !a.is_doomed() {
        runtime::sleep(Duration::from_micros(50));
    }
    let runs = runs.load(SeqCst);
    a.check(
        runs == set - ended,
        &format!("set {set} times, ended {ended} times, the function ran {runs} times"),
    );
}

/// A tree of contexts. Their green threads wait for their contexts' end.
pub(super) fn context(a: &mut Actor) {
    let (root, cancel) = match a.number(0..3) {
        0 => Context::background().with_timeout(a.micros(400)),
        1 => Context::background().with_value(7u8).with_timeout(Duration::from_secs(3600)),
        _ => Context::background().with_cancel(),
    };
    let children: Vec<_> = (0..a.number(1..4))
        .map(|_| {
            let parent = root.clone();
            a.spawn(move |a| below(a, &parent))
        })
        .collect();
    a.pause();
    cancel.cancel();
    let error = root.err().expect("a cancelled context has an error");
    for child in children {
        // The child's own context may have ended first, by its time-out or its own cancellation.
        let _ = child.join();
    }
    assert_eq!(root.err(), Some(error), "the first error stays");
}

fn below(a: &mut Actor, parent: &Context) {
    let (context, handle) = match a.number(0..3) {
        0 => parent.with_timeout(a.micros(400)),
        1 => parent.with_timeout(Duration::from_secs(3600)),
        _ => parent.with_cancel(),
    };
    a.pause();
    match a.number(0..3) {
        0 => drop(a.block_on(context.done().recv_async())),
        1 => drop(context.done().recv()),
        _ => {
            let _ = context.done().recv_timeout(a.micros(300));
            handle.cancel();
        }
    }
    assert!(context.err().is_some(), "the context has ended");
}
