//! Loops of awaited operations that are always ready, and whether they give others of their task a turn.

use std::pin::Pin;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use runtime::time::{sleep_async, timeout_async};
use runtime::{block_on, block_on_local};

use crate::futures::{Flag, both, either};
use crate::runtime;

/// A future that never ends: a loop of one awaited operation that is always ready.
pub type Hog = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Longer than a test of turns takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
const MILLI: Duration = Duration::from_millis(1);

/// Runs `f` on an OS thread of its own. Panics if it does not end within `PATIENCE`.
pub fn ends(what: &str, f: impl FnOnce() + Send + 'static) {
    let (over, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        f();
        let _ = over.send(());
    });
    if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{what} has not ended within {PATIENCE:?}");
    }
    thread.join().expect("the thread has not panicked");
}

/// Checks that the loop which `hog` makes gives a time-out around it, and the other branches of its task, a
/// turn. A spawned task, a green thread, a poll of another future and a plain OS thread drive it.
pub fn gives_turns(hog: fn() -> Hog) {
    ends("a spawned task", move || runtime(2).block_on(turns(hog)));
    ends("block_on of a green thread", move || runtime(1).block_on(move || block_on(turns(hog))));
    ends("block_on in a poll", move || runtime(1).block_on(async move { block_on(turns(hog)) }));
    ends("block_on_local of a plain OS thread", move || block_on_local(turns(hog)));
}

/// Ends if the loop gives turns, where only the awaiting task polls.
async fn turns(hog: fn() -> Hog) {
    assert!(timeout_async(2 * MILLI, hog()).await.is_err());
    // The branch that ends the loop is polled after it, and awaits several operations itself.
    either(hog(), async {
        for _ in 0..3 {
            sleep_async(MILLI / 4).await;
        }
    })
    .await;
    // Two loops, and a branch behind both.
    let over = Flag::default();
    let ends = |hog: Hog| {
        let over = over.clone();
        either(hog, async move { over.wait().await })
    };
    both(both(ends(hog()), ends(hog())), async {
        sleep_async(MILLI).await;
        over.set();
    })
    .await;
}
