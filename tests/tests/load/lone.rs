//! A green thread that is made runnable by one that then computes, after the two have taken turns quickly on
//! one P. An M watches over it then, instead of being woken for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use runtime::channel::{Receiver, Sender, bounded};
use runtime::{Builder, spawn};
use tests::{Random, with_built};

const ROUNDS: usize = 60;
/// The most turns before the waker computes: some of them take longer than an M looks for work, others do
/// not.
const TURNS: u64 = 3000;

/// Sends back what it receives, and sets the flag that it is sent.
fn echo(from: Receiver<Option<Arc<AtomicBool>>>, to: Sender<()>) {
    for flag in from.iter() {
        match flag {
            Some(flag) => flag.store(true, SeqCst),
            None => to.send(()).unwrap(),
        }
    }
}

/// Runs rounds on several Ps, by the two functions that `begin` makes: quick turns, and then a call that
/// makes a green thread runnable, which sets the flag. The caller computes until the flag is set. There is no
/// sysmon, so a green thread that is forgotten hangs the test.
fn is_not_forgotten<Q: Fn(u64), W: Fn(Arc<AtomicBool>)>(begin: impl Fn() -> (Q, W) + Send + Sync) {
    for procs in [2, 8] {
        with_built(Builder::new().procs(procs).sysmon(false), |runtime| {
            runtime.block_on(|| {
                let (quick, wakes) = begin();
                let mut random = Random::new(procs as u64);
                for _ in 0..ROUNDS {
                    quick(random.below(TURNS));
                    let flag = Arc::new(AtomicBool::new(false));
                    wakes(flag.clone());
                    while !flag.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                }
            });
        });
    }
}

#[test]
fn a_woken_green_thread_runs_while_its_waker_computes() {
    is_not_forgotten(|| {
        let ((to, from), (back, answers)) = (bounded(1), bounded(1));
        spawn(move || echo(from, back));
        let to = Arc::new(to);
        let sends = to.clone();
        let quick = move |turns| {
            for _ in 0..turns {
                sends.send(None).unwrap();
                answers.recv().unwrap();
            }
        };
        (quick, move |flag| to.send(Some(flag)).unwrap())
    });
}

#[test]
fn a_new_green_thread_runs_while_its_spawner_computes() {
    is_not_forgotten(|| {
        let quick = |turns| (0..turns).for_each(|_| spawn(|| ()).join().unwrap());
        (quick, |flag: Arc<AtomicBool>| drop(spawn(move || flag.store(true, SeqCst))))
    });
}
