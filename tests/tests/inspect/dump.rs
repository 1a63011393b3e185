//! `runtime::dump`: each green thread, and what each waits for.

use std::sync::Arc;
use std::time::Duration;

use runtime::channel::{bounded, never};
use runtime::sync::{Barrier, Condvar, Mutex, Notify, RwLock, Semaphore, WaitGroup};
use runtime::time::Timer;
use runtime::{JoinHandle, select, spawn, thread};
use tests::{on, runtime, wait_until};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns a dump without the frames of stacks, which `dump_stacks` tests.
fn dumped() -> String {
    let mut text = Vec::new();
    runtime::dump(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    // Frames are left out, and so are the hogs, of which a loaded machine makes some.
    let lines = text.lines().filter(|line| !line.starts_with(' ') && !line.starts_with("hogs "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the dump's line of the thread with this name.
fn line(name: &str) -> Option<String> {
    dumped().lines().find(|line| line.contains(&format!("'{name}'"))).map(str::to_owned)
}

fn named(name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.into()).spawn(f).unwrap()
}

#[test]
fn a_name_cannot_forge_a_line() {
    on(2, || {
        let parked = named("a'\n1 green thread\u{1b}[2J\u{9b}2J", thread::park);
        let text = dumped();
        let escaped = r"'a\'\n1 green thread\u{1b}[2J\u{9b}2J'";
        assert!(text.contains(escaped), "{text}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        assert_eq!(parked.thread().to_string(), escaped);
        parked.thread().unpark();
        parked.join().unwrap();
    });
}

#[test]
fn each_kind_of_wait_is_named() {
    on(2, || {
        let mutex = Arc::new((Mutex::new(()), Condvar::new()));
        let held = mutex.0.lock();
        let rwlock = Arc::new(RwLock::new(()));
        let read = rwlock.read();
        let (full, _r) = bounded(1);
        full.send(0).unwrap();
        let (_s, empty) = bounded::<u8>(1);
        let (_s, other) = bounded::<u8>(1);
        let timer = Timer::new(HOUR);
        let (due, group) = (timer.channel().clone(), WaitGroup::new());
        let (its_mutex, its_rwlock, its_group) = (mutex.clone(), rwlock.clone(), group.clone());
        let cond = Arc::new((Mutex::new(()), Condvar::new()));
        let its_cond = cond.clone();
        let (sent, received) = (full.clone(), empty.clone());
        let mut all = vec![
            ("a mutex", named("mutex", move || drop(its_mutex.0.lock()))),
            ("a read-write lock", named("rwlock", move || drop(its_rwlock.write()))),
            ("a condition variable", named("condvar", move || its_cond.1.wait(&mut its_cond.0.lock()))),
            ("a semaphore", named("semaphore", || drop(Semaphore::new(0).acquire()))),
            ("a notification", named("notify", || Notify::new().notified())),
            ("a barrier", named("barrier", || _ = Barrier::new(2).wait())),
            ("a wait group", named("group", move || its_group.wait())),
            ("the end of a sleep", named("sleep", || runtime::sleep(HOUR))),
            ("an unpark", named("park", thread::park)),
            ("a channel of time", named("timer", move || _ = due.recv())),
            ("the end of a sleep", named("never", || _ = never::<u8>().recv())),
            ("the end of a green thread", named("join", || _ = spawn(|| runtime::sleep(HOUR)).join())),
            (
                "the end of its scope",
                named("scope", || thread::scope(|s| _ = s.spawn(|| runtime::sleep(HOUR)))),
            ),
            ("a wake-up of its future", named("block_on", || runtime::block_on(std::future::pending()))),
        ];
        all.push(("a channel to send", named("send", move || _ = sent.send(1))));
        all.push(("a channel to receive", named("receive", move || _ = received.recv())));
        all.push((
            "a case of a select",
            named("select", move || {
                select! {
                    recv(empty) -> _ => {}
                    recv(other) -> _ => {}
                }
            }),
        ));
        for (what, thread) in &all {
            let name = thread.thread().name().unwrap().to_owned();
            wait_until("the thread waits", || line(&name).is_some_and(|line| line.contains(": waits for ")));
            let line = line(&name).unwrap();
            assert!(line.contains(&format!(": waits for {what}")), "{line}");
            assert!(line.contains("spawned at "), "{line}");
        }
        all.iter().for_each(|(_, thread)| thread.cancel());
        drop((held, read));
        for (_, thread) in all {
            let _ = thread.join();
        }
    });
}

#[test]
fn a_wait_has_its_duration() {
    on(2, || {
        let parked = named("since", thread::park);
        runtime::sleep(Duration::from_millis(60));
        // Sysmon's clock may be some milliseconds late.
        wait_until("the dump shows the duration", || {
            line("since").is_some_and(|line| {
                let mut words = line.split(", for ").nth(1).unwrap_or("0").split([' ', ',']);
                let (number, unit) = (words.next().unwrap_or("0"), words.next());
                unit == Some("s") || number.parse().is_ok_and(|ms: u64| ms >= 30)
            })
        });
        parked.thread().unpark();
        parked.join().unwrap();
        // The thread's result is available a moment before the thread leaves the table.
        wait_until("the thread has left the table", || line("since").is_none());
    });
}

#[test]
fn running_and_ready_threads_of_all_runtimes() {
    let (one, other) = (runtime(1), runtime(1));
    one.block_on(|| {
        let ready = named("ready", || ());
        let there = other.spawn(thread::park);
        let text = dumped();
        assert!(text.lines().any(|line| line.contains(": running, spawned at ")), "{text}");
        // On a busy machine sysmon may have taken this P, and another OS thread runs it.
        let is_there =
            |line: &str| line.contains("'ready': ready to run") || line.contains("'ready': running");
        assert!(text.lines().any(is_there) || ready.is_finished(), "{text}");
        wait_until("the thread of the other runtime is in the dump", || {
            dumped().lines().any(|line| line.contains("an unpark") && line.contains(file!()))
        });
        there.thread().unpark();
        there.join().unwrap();
        ready.join().unwrap();
        let text = dumped();
        let last = text.lines().last().unwrap();
        assert_eq!(text.lines().count() - 1, last.split(' ').next().unwrap().parse::<usize>().unwrap());
    });
}

/// Dumps are taken while threads are spawned and end all the time.
#[test]
fn dumps_under_load() {
    on(4, || {
        let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let over = over.clone();
                spawn(move || {
                    while !over.load(std::sync::atomic::Ordering::Relaxed) {
                        named(&format!("child of {i}"), runtime::yield_now).join().unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..200 {
            for line in dumped().lines() {
                assert!(line.starts_with("green thread ") || line.contains(" green thread"), "{line}");
            }
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
