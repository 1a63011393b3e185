//! The planted bugs in simulations of this runtime: the programs of `tests/tests/sim/bugs.rs` and
//! `net_bugs.rs`.

// Each of the files runs other tests, too.
#![allow(dead_code, unused_imports, unused_macros)]

#[path = "../../../../../tests/tests/sim/bugs.rs"]
mod bugs;
#[path = "../../../../../tests/tests/sim/experiment.rs"]
mod experiment;
#[path = "../../../../../tests/tests/sim/net_bugs.rs"]
mod net_bugs;
#[path = "../share.rs"]
mod share;

use std::sync::atomic::Ordering::Relaxed;

use runtime::sim::net::Quality;
use runtime::sim::{Builder, Faults, Strategy};

use share::{TASKS, YIELDS};

const BUGS: [(&str, fn(bool)); 7] = [
    ("lost wake-up", bugs::lost_wake_up),
    ("ABA", bugs::aba),
    ("lock order", bugs::lock_order),
    ("check then act", bugs::check_then_act),
    ("close race", bugs::close_loses_messages),
    ("time-out race", bugs::time_out_race),
    ("double delivery", bugs::double_delivery),
];

fn main() {
    let builder = Builder::new().threads(1).shrink(false);
    for (name, bug) in BUGS {
        share::print("ours random", name, 1000, |seed| builder.run(seed, || bug(false)));
        share::print_first("ours PCT(3)", name, |most, count| {
            let by_priority = builder.clone().strategy(Strategy::Pct { depth: 3 });
            if let Err(failure) = by_priority.try_explore(most, || bug(false)) {
                count.store(failure.runs(), Relaxed);
                panic!("{failure}");
            }
            count.store(most, Relaxed);
        });
    }
    let lossy = builder.clone().faults(Faults::new().quality(Quality::new().loss(0.05)));
    share::print("ours random", "lost ack", 1000, |seed| lossy.run(seed, || net_bugs::lost_ack(false)));
    let report = builder.clone().explore(2000, || bugs::lost_wake_up(true));
    println!("{report:?}");
    share::print_yields("ours", || {
        builder.run(1, || {
            let yields = || (0..YIELDS).for_each(|_| runtime::yield_now());
            let threads: Vec<_> = (0..TASKS).map(|_| runtime::spawn(yields)).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    });
}
