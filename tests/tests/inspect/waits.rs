//! `profile::waits`: what green threads wait for, and how long.

use std::sync::Arc;
use std::time::Duration;

use runtime::dump::Reason;
use runtime::profile::{self, Waits};
use runtime::sync::Mutex;
use runtime::{channel, spawn, thread};
use tests::{on, wait_until};

/// Returns the ms of the line of the label `key=waits`, as far as it ends with `end`.
fn ms(waits: &Waits, key: &str, end: &str) -> u64 {
    let folded = waits.folded();
    let of = |line: &str| {
        let (stack, ms) = line.rsplit_once(' ')?;
        (stack.contains(&format!(" {key}=waits")) && stack.ends_with(end)).then(|| ms.parse::<u64>().unwrap())
    };
    folded.lines().filter_map(of).sum()
}

#[test]
fn each_kind_of_wait_has_its_time() {
    on(2, || {
        let (send, receive) = channel::bounded::<()>(0);
        let mutex = Arc::new(Mutex::new(()));
        let held = mutex.lock();
        let its_mutex = mutex.clone();
        let waiters = [
            profile::labels(&[("a", "waits")], || spawn(move || drop(its_mutex.lock()))),
            profile::labels(&[("b", "waits")], || spawn(move || _ = receive.recv())),
            profile::labels(&[("c", "waits")], || spawn(thread::park)),
        ];
        let ends = [
            ("a", "waits for a mutex"),
            ("b", "waits for a channel to receive"),
            ("c", "waits for an unpark"),
        ];
        wait_until("each wait is in a profile", || {
            let waits = profile::waits(Duration::from_millis(100)).unwrap();
            let all = ends.iter().all(|(key, end)| ms(&waits, key, &format!(";{end}")) > 0);
            let locks = waits.only(&[Reason::Mutex, Reason::RwLock]);
            assert_eq!(ms(&locks, "a", ""), ms(&waits, "a", ";waits for a mutex"));
            assert_eq!((ms(&locks, "b", ""), ms(&locks, "c", "")), (0, 0));
            assert!(waits.looks() > 0 || !all);
            // Each of these waits for the whole profile. No wait lasts longer than that.
            let longest = ends.iter().map(|(key, _)| ms(&waits, key, "")).max().unwrap();
            assert!(longest as u128 <= waits.time().as_millis(), "{}", waits.folded());
            #[cfg(feature = "debug")]
            {
                let pprof = waits.to_pprof();
                let has = |text: &str| pprof.windows(text.len()).any(|bytes| bytes == text.as_bytes());
                assert!(has("contentions") && has("delay"));
                assert_eq!(has("waits for a mutex"), waits.folded().contains("waits for a mutex"));
            }
            all
        });
        drop(held);
        drop(send);
        waiters[2].thread().unpark();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}
