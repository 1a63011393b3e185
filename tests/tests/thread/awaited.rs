//! Futures that are not `Send`, and awaited variants of calls that block: other branches of the task go on
//! during the wait.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{Either, select};
use futures::join;
use runtime::channel::{bounded, unbounded};
use runtime::sync::WaitGroup;
use runtime::thread::Cancelled;
use runtime::time::{sleep_async, timeout};
use runtime::{Handle, block_on_local, blocking_async, spawn};
use tests::crowd::{in_each, with_each};
use tests::{Drops, OsThread, Watchdog, os_thread, panics_with, quiet_panics_on_purpose, wait_until};

const MILLI: Duration = Duration::from_millis(1);

/// What must not leave its OS thread. Its use and its drop check that.
struct Bound {
    home: OsThread,
    _not_send: Rc<()>,
}

impl Bound {
    fn here() -> Bound {
        Bound { home: os_thread(), _not_send: Rc::default() }
    }

    fn check(&self) {
        assert_eq!(self.home, os_thread(), "the future has left its OS thread");
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.check();
    }
}

/// Awaits waits of several kinds, between which a green thread would move.
async fn wander(rounds: usize) -> usize {
    let bound = Bound::here();
    let count = Rc::new(Cell::new(0));
    for round in 0..rounds {
        match round % 4 {
            0 => sleep_async(MILLI / 20).await,
            1 => spawn(async { sleep_async(MILLI / 50).await }).await.unwrap(),
            2 => {
                let (s, r) = bounded(0);
                drop(spawn(move || s.send(7).unwrap()));
                assert_eq!(r.recv_async().await, Ok(7));
            }
            // A call that parks inside a poll.
            _ => runtime::sleep(MILLI / 50),
        }
        bound.check();
        count.set(count.get() + 1);
    }
    count.get()
}

#[test]
fn a_future_that_is_not_send_stays_on_its_os_thread() {
    in_each(|| {
        runtime::scope(|s| {
            for _ in 0..12 {
                s.spawn(|| assert_eq!(block_on_local(wander(40)), 40));
            }
            assert_eq!(block_on_local(wander(40)), 40);
        });
    });
}

#[test]
#[allow(clippy::await_holding_lock)]
fn the_guard_of_a_lock_of_std_is_kept_across_awaits() {
    in_each(|| {
        let lock = Mutex::new(0);
        block_on_local(async {
            let mut guard = lock.lock().unwrap();
            for _ in 0..10 {
                sleep_async(MILLI / 20).await;
                *guard += 1;
            }
        });
        assert_eq!(lock.into_inner().unwrap(), 10);
    });
}

#[test]
fn futures_that_are_not_send_nest() {
    in_each(|| {
        let bound = Bound::here();
        let sum = block_on_local(async {
            let inner = Rc::new(block_on_local(wander(4)));
            sleep_async(MILLI / 10).await;
            bound.check();
            *inner + runtime::block_on(async { 1 })
        });
        bound.check();
        assert_eq!(sum, 5);
    });
}

#[test]
fn a_cancellation_and_a_time_out_drop_the_future_on_its_os_thread() {
    with_each(|runtime| {
        let drops = Drops::default();
        let token = drops.token();
        let waits = runtime.spawn(move || {
            block_on_local(async {
                let (_token, _bound) = (token, Bound::here());
                std::future::pending::<()>().await;
            })
        });
        tests::until_it_waits(&waits);
        waits.cancel();
        assert!(waits.join().unwrap_err().is::<Cancelled>());
        assert_eq!(drops.alive(), 0);
    });
    in_each(|| {
        let late = timeout(MILLI, || {
            block_on_local(async {
                let _bound = Bound::here();
                std::future::pending::<()>().await;
            })
        });
        assert!(late.is_err());
    });
}

/// Counts, as a branch of a task, until `future` is ready. Returns the count and the output.
async fn counting<T>(future: impl Future<Output = T>) -> (usize, T) {
    let (count, mut future) = (AtomicUsize::new(0), Box::pin(future));
    loop {
        match select(&mut future, sleep_async(MILLI / 5)).await {
            Either::Left((value, _)) => return (count.into_inner(), value),
            Either::Right(_) => count.fetch_add(1, SeqCst),
        };
    }
}

#[test]
fn other_branches_go_on_while_a_call_blocks_or_parks_aside() {
    with_each(|runtime| {
        runtime.block_on(async {
            let (go, gone) = std::sync::mpsc::channel();
            let (send, parked) = unbounded();
            let both = async {
                join!(
                    blocking_async(move || gone.recv().unwrap()),
                    blocking_async(move || parked.recv().unwrap())
                )
            };
            // The branch that ends both waits is in the same task.
            let ends = async {
                for _ in 0..5 {
                    sleep_async(MILLI / 5).await;
                }
                go.send(1).unwrap();
                send.send(2).unwrap();
            };
            assert_eq!(join!(both, ends).0, (1, 2));
            let missing = blocking_async(|| runtime::fs::read("/no/such/file")).await;
            assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
        });
    });
}

#[test]
fn a_panic_aside_is_passed_on() {
    tests::on_each(|| {
        panics_with("aside, on purpose", || {
            runtime::block_on(async { blocking_async(|| panic!("aside, on purpose")).await })
        });
    });
}

#[test]
fn a_dropped_call_aside_is_cancelled_where_it_parks() {
    tests::on_each(|| {
        let drops = Drops::default();
        let token = drops.token();
        let (began, begins) = bounded(1);
        let abandoned = spawn(async move {
            let aside = blocking_async(move || {
                let _token = token;
                began.send(()).unwrap();
                runtime::thread::park();
            });
            let begun = Box::pin(begins.recv_async());
            assert!(matches!(select(Box::pin(aside), begun).await, Either::Right(_)));
        });
        abandoned.join().unwrap();
        wait_until("the call has ended", || drops.alive() == 0);
    });
}

#[test]
fn a_group_is_awaited_beside_other_branches() {
    in_each(|| {
        let group = WaitGroup::new();
        let members: Vec<_> = (0..10).map(|_| group.clone()).collect();
        let done = Arc::new(AtomicUsize::new(0));
        let ends = async {
            for member in members {
                sleep_async(MILLI / 20).await;
                done.fetch_add(1, SeqCst);
                drop(member);
            }
        };
        let waits = group.wait_async();
        block_on_local(async {
            join!(
                async {
                    waits.await;
                    assert_eq!(done.load(SeqCst), 10)
                },
                ends
            )
        });
        futures::executor::block_on(WaitGroup::new().wait_async());
    });
}

/// A command of the program `child`.
fn child(words: &[&str]) -> runtime::process::Command {
    tests::child::child(env!("CARGO_BIN_EXE_child"), words)
}

#[test]
fn a_child_is_awaited_beside_other_branches() {
    use runtime::process::Stdio;
    in_each(|| {
        block_on_local(async {
            let mut child = child(&["cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let mut buf = [0; 16];
            // The branch that ends the child is in the same task.
            let talks = async {
                let (written, read) = join!(stdin.write_async(b"hello"), stdout.read_async(&mut buf));
                assert_eq!((written.unwrap(), read.unwrap()), (5, 5));
                sleep_async(MILLI).await;
                drop(stdin);
            };
            let ((count, status), ()) = join!(counting(child.wait_async()), talks);
            assert!(status.unwrap().success() && count > 0);
        });
    });
}

/// The child fills one pipe while it writes to the other.
#[test]
fn the_output_of_a_child_is_awaited_beside_other_branches() {
    use runtime::process::Stdio;
    in_each(|| {
        let begun = child(&["fill", "300000", "3"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (count, output) = block_on_local(counting(begun.wait_with_output_async()));
        let output = output.unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 300_000));
        assert_eq!(output.status.code(), Some(3));
        assert!(count > 0, "the other branch went on");
        let begun = child(&["exit", "0"]).stdout(Stdio::null()).spawn().unwrap();
        let output = futures::executor::block_on(begun.wait_with_output_async()).unwrap();
        assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
    });
}

#[test]
fn a_local_future_belongs_to_the_runtime_that_runs_it() {
    let _dog = Watchdog::new();
    quiet_panics_on_purpose();
    let default = Handle::current().procs();
    let (one, other) = (tests::runtime(default + 1), tests::runtime(default + 2));
    let belongs_to = async |procs: usize| {
        let mine = Rc::new(procs);
        let child = || Handle::current().procs();
        sleep_async(Duration::from_millis(1)).await;
        assert_eq!((child(), spawn(child).await.unwrap()), (*mine, *mine));
        assert_eq!(runtime::scope(|s| s.spawn(child).join().unwrap()), procs);
        assert_eq!(runtime::block_on(child), procs);
        let (fired, fires) = runtime::channel::bounded(1);
        let _timer = runtime::time::after_func(Duration::ZERO, move || fired.send(child()).unwrap());
        assert_eq!(fires.recv_async().await, Ok(procs));
    };
    one.block_on_local(async {
        belongs_to(default + 1).await;
        other.handle().block_on_local(belongs_to(default + 2));
        let panics = || other.block_on_local(async { panic!("on purpose") });
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        belongs_to(default + 1).await;
    });
    block_on_local(belongs_to(default));
    let handle = one.handle();
    one.block_on(|| handle.block_on_local(belongs_to(default + 1)));
    other.block_on(|| {
        panics_with("on a green thread of another runtime", || handle.block_on_local(async {}));
    });
}
