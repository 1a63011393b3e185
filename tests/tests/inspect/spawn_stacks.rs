//! The stacks on which green threads were spawned, in dumps.

use runtime::dump::{GreenThread, Snapshot};
use runtime::{Builder, JoinHandle, Runtime, spawn, thread};
use tests::{Watchdog, wait_until};

fn runtime(every: u32) -> Runtime {
    Builder::new().procs(2).spawn_stacks(every).build().unwrap()
}

/// The one place of all spawns.
fn worker(name: Option<&str>) -> JoinHandle<()> {
    match name {
        Some(name) => thread::Builder::new().name(name.into()).spawn(thread::park).unwrap(),
        None => spawn(thread::park),
    }
}

#[inline(never)]
fn spawns_for_orders(name: Option<&str>) -> JoinHandle<()> {
    std::hint::black_box(worker(name))
}

#[inline(never)]
fn spawns_for_bills(name: Option<&str>) -> JoinHandle<()> {
    // Else an optimised build has one function for both.
    std::hint::black_box("bills");
    std::hint::black_box(worker(name))
}

fn end(workers: Vec<JoinHandle<()>>) {
    workers.iter().for_each(|worker| worker.thread().unpark());
    workers.into_iter().for_each(|worker| worker.join().unwrap());
}

fn snapshot_of<'s>(snapshot: &'s Snapshot, workers: &[JoinHandle<()>]) -> Vec<&'s GreenThread> {
    workers.iter().map(|worker| snapshot.get(worker.thread().id().as_u64().get()).unwrap()).collect()
}

/// Returns the functions on the stack of the spawn.
fn functions<'s>(snapshot: &'s Snapshot, thread: &GreenThread) -> Vec<&'s str> {
    snapshot.spawn_stack(thread).iter().map(|frame| frame.function.as_str()).collect()
}

#[test]
fn a_dump_tells_the_callers_of_the_function_that_spawned() {
    let _watchdog = Watchdog::new();
    runtime(1).block_on(|| {
        let workers = vec![
            spawns_for_orders(None),
            spawns_for_bills(None),
            spawns_for_orders(Some("named")),
            spawns_for_bills(Some("other")),
        ];
        let snapshot = Snapshot::take().unwrap();
        for (at, thread) in snapshot_of(&snapshot, &workers).into_iter().enumerate() {
            let functions = functions(&snapshot, thread);
            let (callers, others) = if at % 2 == 0 {
                ("::spawns_for_orders", "::spawns_for_bills")
            } else {
                ("::spawns_for_bills", "::spawns_for_orders")
            };
            // The innermost is the user's that spawned: nothing of the runtime stands before it.
            assert!(functions[0].ends_with("worker") || functions[0].ends_with(callers), "{functions:?}");
            assert!(functions.iter().any(|function| function.ends_with(callers)), "{functions:?}");
            assert!(!functions.iter().any(|function| function.ends_with(others)), "{functions:?}");
        }
        assert_eq!(snapshot_of(&snapshot, &workers)[2].name.as_deref(), Some("named"));
        // Other tests' green threads are in the snapshot, too.
        let told = snapshot.green_threads.iter().filter(|thread| !snapshot.spawn_stack(thread).is_empty());
        let text = snapshot.to_string();
        assert_eq!(text.matches("\n  spawned by\n").count(), told.count(), "{text}");
        end(workers);
    });
}

#[test]
fn a_spawner_on_a_plain_os_thread_and_that_of_a_future_are_told() {
    let _watchdog = Watchdog::new();
    let runtime = runtime(1);
    let (ends, end) = runtime::sync::oneshot::channel::<()>();
    let future = runtime.spawn(async move { end.await.unwrap() });
    let id = future.thread().id().as_u64().get();
    wait_until("the future waits", || {
        let snapshot = Snapshot::take().unwrap();
        snapshot.get(id).is_some_and(|thread| thread.wait.is_some())
    });
    let snapshot = Snapshot::take().unwrap();
    let functions = functions(&snapshot, snapshot.get(id).unwrap());
    assert!(
        functions.iter().any(|function| function.contains("a_spawner_on_a_plain_os_thread")),
        "{functions:?}"
    );
    ends.send(()).unwrap();
    future.join().unwrap();
}

#[test]
fn one_in_so_many_is_kept() {
    let _watchdog = Watchdog::new();
    for (every, kept) in [(0, 0), (1, 30), (10, 3)] {
        runtime(every).block_on(|| {
            // `block_on` has spawned one, and its stack is the first that is kept.
            let workers: Vec<_> = (0..30).map(|_| worker(None)).collect();
            let snapshot = Snapshot::take().unwrap();
            let threads = snapshot_of(&snapshot, &workers);
            let found = threads.iter().filter(|thread| thread.spawn_stack.is_some()).count();
            assert_eq!(found, kept, "one in {every}");
            end(workers);
        });
    }
}

#[test]
fn dumps_while_others_spawn_and_end() {
    let _watchdog = Watchdog::new();
    runtime(3).block_on(|| {
        let spawners: Vec<_> = (0..4)
            .map(|_| {
                spawn(|| {
                    for n in 0..2000 {
                        let name = (n % 2 == 0).then_some("short");
                        end(vec![spawns_for_orders(name)]);
                    }
                })
            })
            .collect();
        let mut seen = 0;
        while spawners.iter().any(|spawner| !spawner.is_finished()) {
            let snapshot = Snapshot::take().unwrap();
            for thread in snapshot.green_threads.iter().filter(|thread| thread.spawn_stack.is_some()) {
                let functions = functions(&snapshot, thread);
                assert!(
                    functions.iter().any(|function| function.contains("spawn_stacks::")),
                    "{functions:?}"
                );
                seen += 1;
            }
        }
        assert!(seen > 0);
        spawners.into_iter().for_each(|spawner| spawner.join().unwrap());
    });
}
