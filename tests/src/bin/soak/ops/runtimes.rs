//! Runtimes of the operation's own: made, used and ended in every way. Threads of a runtime wait for threads
//! of another.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::thread::Cancelled;
use runtime::{Handle, Runtime};
use tests::futures::poll_once;

use super::{net, panicking, victims};
use crate::actor::{Actor, Child, described};
use crate::site::Site;

const HOUR: Duration = Duration::from_secs(3600);
const REFUSED: &str = "cannot spawn a green thread: its runtime has been shut down";

/// A runtime that ends with the operation, also when the operation is interrupted.
pub(super) struct Own {
    runtime: Option<Runtime>,
    pub(super) site: Arc<Site>,
}

impl Own {
    pub(super) fn start(a: &mut Actor, procs: usize) -> Own {
        let (runtime, site) = Site::start(procs, a.world.mode).expect("a runtime");
        Own { runtime: Some(runtime), site }
    }

    fn somehow(a: &mut Actor) -> Own {
        let procs = [1, 2, 3, 8][a.random.below(4) as usize];
        Own::start(a, procs)
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        a: &mut Actor,
        f: impl FnOnce(&mut Actor) -> T + Send + 'static,
    ) -> Child<T> {
        a.spawn_on(&self.site, f)
    }

    /// Returns the runtime, to be ended. Marks its site as closing: the green threads are cancelled from now
    /// on.
    fn close(&mut self) -> Runtime {
        self.site.closes();
        self.runtime.take().expect("the runtime is closed once")
    }

    /// Ends the runtime and checks that nothing is left. Its green threads have ended or will soon end.
    pub(super) fn ends(mut self) {
        drop(self.close());
        self.site.comes_out_even(true);
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.runtime.is_some() {
            drop(self.close());
        }
    }
}

/// A runtime that is dropped unused, or after its green threads have ended.
pub(super) fn made_and_dropped(a: &mut Actor) {
    let own = Own::somehow(a);
    assert_eq!(own.site.handle.metrics().ended, 0);
    let children: Vec<_> = (0..a.number(0..5)).map(|_| own.spawn(a, |b| b.anything())).collect();
    children.into_iter().for_each(|child| child.value());
    own.ends();
}

/// A runtime that ends while its threads wait in every way, perform operations, or keep their OS threads
/// busy.
pub(super) fn dropped_under_load(a: &mut Actor) {
    if a.one_in(3) {
        return dropped_with_hogs(a);
    }
    let mut own = Own::somehow(a);
    let site = own.site.clone();
    for _ in 0..a.number(0..10) {
        match a.random.below(4) {
            0 => own.spawn(a, |b| b.anything()).detach(),
            _ => victims::start(a, &site).detach(),
        }
    }
    a.pause();
    let runtime = own.close();
    if a.one_in(2) {
        drop(runtime);
    } else {
        let ended = runtime.shutdown_timeout(HOUR);
        assert!(
            ended || runtime::thread::cancelled(),
            "the shutdown ended in time, or its caller was cancelled"
        );
    }
    site.comes_out_even(true);
}

/// Threads keep their OS threads busy at shutdown, and the shutdown may time out. They then run on to their
/// end.
fn dropped_with_hogs(a: &mut Actor) {
    let mut own = Own::start(a, 4);
    let started = Arc::new(AtomicU64::new(0));
    let hogs = a.number(1..5);
    for _ in 0..hogs {
        let started = started.clone();
        let hog = own.spawn(a, move |b| {
            started.fetch_add(1, SeqCst);
            let time = b.micros(4000);
            if b.one_in(2) {
                tests::spin(time);
            } else {
                std::thread::sleep(time);
            }
        });
        hog.detach();
    }
    while started.load(SeqCst) < hogs {
        runtime::sleep(Duration::from_micros(50));
    }
    let (site, time) = (own.site.clone(), a.micros(3000));
    own.close().shutdown_timeout(time);
    site.comes_out_even(true);
}

/// After the end of a runtime, spawns are refused with a reason. Results of ended threads stay available.
pub(super) fn late(a: &mut Actor) {
    let own = Own::somehow(a);
    let (handle, value) = (own.site.handle.clone(), a.random.number());
    let (early, never) = (own.spawn(a, move |_| value), own.spawn(a, |_| runtime::sleep(HOUR)));
    while !early.handle().is_finished() {
        runtime::sleep(Duration::from_micros(50));
    }
    own.ends();
    assert_eq!(early.value(), value);
    never.was_cancelled();
    let spawned = panicking::catch(|| handle.spawn(|| ()));
    assert!(spawned.is_err_and(|text| text.starts_with(REFUSED)));
    let ran = panicking::catch(|| handle.block_on(|| ()));
    assert!(ran.is_err_and(|text| text.starts_with(REFUSED)));
}

/// Spawns from outside race with the end of the runtime. Each gives a thread that ends, or an error.
pub(super) fn spawns_race_with_the_end(a: &mut Actor) {
    let mut own = Own::somehow(a);
    let site = own.site.clone();
    let spawner = a.spawn(move |b| {
        loop {
            match panicking::catch(|| b.spawn_on(&site, |_| runtime::sleep(HOUR))) {
                Ok(child) if b.one_in(3) => {
                    // The child sleeps until the runtime ends and cancels it.
                    return if b.site.is_closing() { child.detach() } else { child.was_cancelled() };
                }
                Ok(child) => child.detach(),
                Err(text) => return assert!(text.starts_with(REFUSED), "{text}"),
            }
        }
    });
    a.pause();
    drop(own.close());
    own.site.comes_out_even(false);
    spawner.value();
}

/// A wait for a socket ends with an error when the socket's runtime ends.
pub(super) fn a_socket_outlives_it(a: &mut Actor) {
    let mut own = Own::start(a, 1);
    let site = own.site.clone();
    let (listener, _) = a.block_on_at(&site, net::listen);
    let waiter = a.spawn(move |_| listener.accept().map(drop).expect_err("no client connects").kind());
    a.pause();
    drop(own.close());
    assert_eq!(waiter.value(), ErrorKind::NotConnected);
    site.comes_out_even(true);
}

/// A sleep that was begun in a runtime goes on elsewhere after that runtime has ended.
pub(super) fn a_sleep_outlives_it(a: &mut Actor) {
    let own = Own::start(a, 1);
    let (site, time, start) = (own.site.clone(), Duration::from_micros(200) + a.micros(800), Instant::now());
    let sleep = a.block_on_at(&site, move |b| {
        let mut sleep = runtime::time::sleep_async(time);
        let _ = b.block_on(poll_once(&mut sleep));
        sleep
    });
    let goes_on = a.spawn_async(move |_b| sleep);
    a.pause();
    own.ends();
    goes_on.value();
    assert!(start.elapsed() >= time);
}

/// A thread inside `block_on` of a runtime that ends is cancelled, or the call is refused as too late.
pub(super) fn a_caller_waits_in_it(a: &mut Actor) {
    let mut own = Own::somehow(a);
    let site = own.site.clone();
    let caller = a.spawn(move |b| {
        let refused = panicking::catch(|| b.block_on_at(&site, |_| runtime::sleep(HOUR)));
        refused.expect_err("the sleep lasts an hour")
    });
    a.pause();
    drop(own.close());
    match caller.ended() {
        Ok(text) => assert!(text.starts_with(REFUSED), "{text}"),
        Err(end) => assert!(end.is::<Cancelled>(), "not with {}", described(&*end)),
    }
    own.site.comes_out_even(false);
}

/// Nested `block_on` calls from runtime to runtime, and joins across runtimes.
pub(super) fn across(a: &mut Actor) {
    let own = Own::somehow(a);
    let (site, home, procs) = (own.site.clone(), a.world.home.clone(), own.site.handle.procs());
    let value = a.random.number();
    let got = a.block_on_at(&site, |b| {
        assert_eq!(Handle::current().procs(), procs);
        let there = b.block_on_at(&home, |c| {
            c.anything();
            value
        });
        assert_eq!(Handle::current().procs(), procs, "the caller resumes in its own runtime");
        b.pause();
        there
    });
    assert_eq!(got, value);
    let far = own.spawn(a, move |b| {
        let near = b.spawn_on(&home, move |c| {
            c.pause();
            value
        });
        b.pause();
        near.value()
    });
    let got = if a.one_in(2) { a.block_on(far.awaited()) } else { far.value() };
    assert_eq!(got, value);
    own.ends();
}
