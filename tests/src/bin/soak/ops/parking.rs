//! `park` and `unpark`: no wake-up is lost, on green and plain threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use runtime::thread;
use tests::{OnDrop, Random, Token};

use crate::actor::{Actor, set};
use crate::mailbox::Mailbox;

pub(super) fn ask(a: &mut Actor) {
    a.world.clone().desk.ask(a);
}

/// `park_timeout` must return, and may return early.
pub(super) fn park_timeout(a: &mut Actor) {
    thread::park_timeout(a.micros(400));
}

/// An `unpark` before the park makes the park return, also after several calls.
pub(super) fn token_first(a: &mut Actor) {
    let me = thread::current();
    match a.number(0..3) {
        0 => me.unpark(),
        1 => (0..3).for_each(|_| me.unpark()),
        _ => a.spawn(move |_| me.unpark()).value(),
    }
    thread::park();
}

/// Unparks threads that may have ended. Other threads must not be affected.
pub(super) fn stale(a: &mut Actor) {
    let child = a.spawn(|b| b.pause());
    a.world.stale.keep(child.handle().thread().clone());
    a.world.stale.keep(thread::current());
    for _ in 0..a.number(1..5) {
        a.world.clone().stale.wake_some(&mut a.random);
    }
    child.value();
}

/// A thread parks until several children have counted themselves. Each child unparks it.
pub(super) fn crowd(a: &mut Actor) {
    let (me, here) = (thread::current(), Arc::new(AtomicU64::new(0)));
    let number = a.number(1..12);
    let children: Vec<_> = (0..number)
        .map(|_| {
            let (me, here) = (me.clone(), here.clone());
            a.spawn(move |b| {
                b.pause();
                here.fetch_add(1, SeqCst);
                me.unpark();
            })
        })
        .collect();
    while here.load(SeqCst) < number {
        thread::park();
    }
    // The children have counted themselves, and need not have ended.
    children.into_iter().for_each(|child| child.detach());
}

struct Circle {
    boxes: Vec<Mailbox<Token>>,
    stop: AtomicBool,
    passed: AtomicU64,
    enough: u64,
}

impl Circle {
    fn stop(&self) {
        set(&self.stop);
        self.boxes.iter().for_each(Mailbox::wake);
    }

    fn pass_on(&self, i: usize, seed: u64) {
        let mut random = Random::new(seed);
        self.boxes[i].open();
        while let Some(token) = self.boxes[i].take(&self.stop, &mut random) {
            self.boxes[(i + 1) % self.boxes.len()].put(token);
            if self.passed.fetch_add(1, SeqCst) + 1 >= self.enough {
                return self.stop();
            }
            if self.stop.load(SeqCst) {
                return;
            }
        }
    }
}

/// New threads pass tokens round until `enough` passes are counted.
pub(super) fn circle(a: &mut Actor) {
    let (members, tokens, enough) = (a.number(2..7), a.number(1..4), a.number(10..200));
    let boxes: Vec<_> = (0..members).map(|_| Mailbox::new()).collect();
    (0..tokens).for_each(|i| boxes[(i % members) as usize].put(a.token()));
    let circle = Arc::new(Circle { boxes, stop: AtomicBool::new(false), passed: AtomicU64::new(0), enough });
    // Stops the circle also if this operation is interrupted.
    let _stop = OnDrop({
        let circle = circle.clone();
        move || circle.stop()
    });
    let children: Vec<_> = (0..members as usize)
        .map(|i| {
            let circle = circle.clone();
            a.spawn(move |b| circle.pass_on(i, b.random.number()))
        })
        .collect();
    children.into_iter().for_each(|child| child.value());
    let left =
        circle.boxes.iter().map(|letters| std::iter::from_fn(|| letters.try_take()).count()).sum::<usize>();
    assert_eq!(left as u64, tokens, "number of tokens");
    assert!(circle.passed.load(SeqCst) >= enough);
}
