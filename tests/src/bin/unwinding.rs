//! Programs that unwind green threads, for `ci/panic-abort.sh`. Built with `panic = "abort"`, each ends its
//! process.
//!
//! `unwinding CASE` runs a case. A case that returns prints `ok`.

use std::time::Duration;

use runtime::{Builder, block_on, channel, scope, spawn, thread, time};

const LONG: Duration = Duration::from_secs(3600);

const CASES: &[(&str, fn())] = &[
    ("nothing-unwinds", nothing_unwinds),
    ("cancel", cancel),
    ("timeout", timeout),
    ("scope", cancelled_scope),
    ("drop-runtime", drop_runtime),
];

fn main() {
    tests::child::run_case(CASES);
}

/// A program without cancelled closures. Its future is cancelled, which drops the future without unwinding.
fn nothing_unwinds() {
    let runtime = Builder::new().procs(2).build().expect("a runtime");
    runtime.block_on(|| {
        let (sender, receiver) = channel::bounded(1);
        let adds = spawn(move || receiver.iter().sum::<u32>());
        scope(|s| {
            for i in 0..100 {
                let sender = &sender;
                s.spawn(move || sender.send(i).unwrap());
            }
        });
        drop(sender);
        assert_eq!(adds.join().unwrap(), 4950);
        assert_eq!(time::timeout(LONG, || 1), Ok(1));
        let future = spawn(std::future::pending::<()>());
        runtime::sleep(Duration::from_millis(1));
        future.cancel();
        assert!(future.join().is_err());
    });
}

fn cancel() {
    block_on(|| {
        let sleeps = spawn(|| runtime::sleep(LONG));
        runtime::sleep(Duration::from_millis(10));
        sleeps.cancel();
        assert!(sleeps.join().is_err());
    });
}

fn timeout() {
    block_on(|| assert!(time::timeout(Duration::from_millis(10), thread::park).is_err()));
}

fn cancelled_scope() {
    block_on(|| {
        let spawner = spawn(|| scope(|s| _ = s.spawn(thread::park)));
        runtime::sleep(Duration::from_millis(10));
        spawner.cancel();
        assert!(spawner.join().is_err());
    });
}

fn drop_runtime() {
    let runtime = Builder::new().procs(2).build().expect("a runtime");
    runtime.spawn(thread::park);
    runtime.block_on(|| runtime::sleep(Duration::from_millis(10)));
}
