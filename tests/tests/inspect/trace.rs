//! `runtime::trace`: the events of known programs, their order, and what overwriting, stops and changes of
//! the number of Ps do. There is one recording in a process, of all its runtimes. So each test has a process
//! of its own.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::trace::{self, Cause, Event, Snapshot, What};
use runtime::{Builder, JoinHandle, Migration, channel, sleep, spawn, thread, yield_now};
use tests::{PROCS, on, runtime, with, with_built};

/// Runs `f` as a green thread of a new runtime during a recording, and returns what was recorded.
fn recorded(procs: usize, f: impl FnOnce() + Send) -> Snapshot {
    recorded_in(Builder::new().procs(procs), f)
}

/// As `recorded`, in a runtime that `builder` makes.
fn recorded_in(builder: Builder, f: impl FnOnce() + Send) -> Snapshot {
    let mut all = None;
    let main = || {
        assert!(trace::start_with(1 << 18).unwrap());
        f();
        // A joiner may run before the end of the joined green thread is written.
        let start = Instant::now();
        let recorded = loop {
            let recorded = trace::snapshot();
            if have_ended(&recorded) || start.elapsed() > Duration::from_secs(20) {
                break recorded;
            }
            sleep(Duration::from_millis(1));
        };
        all = Some(recorded);
        assert!(trace::stop());
    };
    with_built(builder, |runtime| runtime.block_on(main));
    let all = all.unwrap();
    check(&all);
    all
}

/// Returns `true` if each green thread that was spawned has ended.
fn have_ended(all: &Snapshot) -> bool {
    let count = |found: fn(&What) -> bool| all.events().iter().filter(|event| found(&event.what)).count();
    count(|what| matches!(what, What::Spawned { .. })) <= count(|what| matches!(what, What::Ends { .. }))
}

fn named<T: Send + 'static>(name: &str, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().name(name.into()).spawn(f).unwrap()
}

/// Returns the id of the green thread with this name.
fn id_of(all: &Snapshot, name: &str) -> u64 {
    let ids = all.events().iter().filter_map(|event| event.what.green_thread());
    ids.into_iter().find(|&id| all.name(id) == Some(name)).unwrap_or_else(|| panic!("no {name} in {all:?}"))
}

/// Returns the steps of the life of a green thread, as words.
fn life(all: &Snapshot, name: &str) -> Vec<String> {
    let id = id_of(all, name);
    let word = |event: &Event| match event.what {
        What::Spawned { .. } => Some("spawned".into()),
        What::Runs { .. } => Some("runs".into()),
        What::Parks { why, .. } => Some(format!("waits for {why}")),
        What::Yields { .. } => Some("yields".into()),
        What::Ends { .. } => Some("ends".into()),
        What::Ready { .. } => Some("ready".into()),
        _ => None,
    };
    let of_it = all.events().iter().filter(|event| event.what.green_thread() == Some(id));
    let mut steps: Vec<String> = of_it.filter_map(word).collect();
    // A green thread that has lost its P runs again with another.
    steps.dedup();
    steps
}

/// Checks that each OS thread lives as an OS thread can. It sleeps only without a P, wakes from the sleep in
/// which it is, and takes no P in its sleep.
#[track_caller]
fn check_os_threads(all: &Snapshot) {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Does {
        HasP,
        Looks,
        Parks,
        Polls,
    }
    let mut lives: HashMap<(usize, usize), Does> = HashMap::new();
    for event in all.events() {
        let Some(os_thread) = event.os_thread else { continue };
        let (before, after): (&[Does], _) = match event.what {
            What::ProcTaken => (&[Does::Looks], Does::HasP),
            What::ProcIdle | What::ProcRetired | What::Preempted { .. } => (&[Does::HasP], Does::Looks),
            // Sysmon may have asked for the P before.
            What::ProcHandedOff => (&[Does::HasP, Does::Looks], Does::Looks),
            What::ThreadParks => (&[Does::Looks], Does::Parks),
            What::ThreadWakes => (&[Does::Parks], Does::Looks),
            What::NetworkWaitBegins => (&[Does::Looks], Does::Polls),
            What::NetworkWaitEnds => (&[Does::Polls], Does::Looks),
            _ => continue,
        };
        let does = lives.insert((event.runtime, os_thread), after);
        let fits = does.is_none_or(|does| before.contains(&does));
        assert!(fits, "{event:?}, which {does:?}, in {:#?}", all.events());
    }
}

/// Checks that the times do not go back, and that each green thread lives as a green thread can. It runs only
/// if it is ready, and is made ready only if it waits. Nothing must have been overwritten.
#[track_caller]
fn check(all: &Snapshot) {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Does {
        Ready,
        Runs,
        Waits,
        Ended,
    }
    assert_eq!(all.lost(), 0);
    check_os_threads(all);
    let mut lives: HashMap<u64, Does> = HashMap::new();
    let mut last = Duration::ZERO;
    for (i, event) in all.events().iter().enumerate() {
        assert!(event.at >= last && event.at <= all.duration(), "{event:?} after {last:?}");
        last = event.at;
        let Some(id) = event.what.green_thread() else { continue };
        let does = lives.get(&id).copied();
        let (before, after) = match event.what {
            What::Spawned { .. } => (vec![None], Does::Ready),
            // A green thread that has lost its P runs, and gets another.
            What::Runs { .. } => (vec![Some(Does::Ready), Some(Does::Runs)], Does::Runs),
            What::Parks { .. } => (vec![Some(Does::Runs)], Does::Waits),
            What::Yields { .. } => (vec![Some(Does::Runs)], Does::Ready),
            // A green thread that waited in place is ready before it has a P.
            What::WaitsForProc { .. } => (vec![Some(Does::Runs), Some(Does::Ready)], Does::Ready),
            What::Ready { .. } => (vec![Some(Does::Waits)], Does::Ready),
            What::Ends { .. } => (vec![Some(Does::Runs)], Does::Ended),
            _ => continue,
        };
        // Of a green thread that is older than the recording, the first event may be any.
        let known = does.is_some() || matches!(event.what, What::Spawned { .. });
        if known && !before.contains(&does) {
            let of_it = |e: &&Event| e.what.green_thread() == Some(id);
            let history: Vec<_> = all.events()[..=i].iter().filter(of_it).rev().take(12).collect();
            panic!("{does:?}, and then {event:?}; the newest first: {history:#?}");
        }
        lives.insert(id, after);
    }
}

/// Parks the caller until a dump shows that the green thread of this name waits.
fn until_it_parks(name: &str) {
    let waits = || {
        let mut text = Vec::new();
        runtime::dump(&mut text).unwrap();
        String::from_utf8(text).unwrap().lines().any(|line| line.contains(name) && line.contains("waits for"))
    };
    while !waits() {
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_events_of_a_known_program() {
    tests::alone!();
    for procs in PROCS {
        let all = recorded(procs, || {
            let (s, r) = channel::bounded(0);
            let receiver = named("receiver", move || r.recv().unwrap());
            let yielder = named("yielder", yield_now);
            let (tell, told) = runtime::sync::oneshot::channel();
            let future = thread::Builder::new().name("future".into()).spawn(async { told.await.unwrap() });
            until_it_parks("'receiver'");
            s.send(7).unwrap();
            until_it_parks("'future'");
            tell.send(()).unwrap();
            // After the dumps: one that holds a green thread while its timer fires makes it ready in the
            // timer's place.
            let sleeper = named("sleeper", || sleep(Duration::from_millis(2)));
            sleeper.join().unwrap();
            receiver.join().unwrap();
            yielder.join().unwrap();
            future.unwrap().join().unwrap();
        });
        assert_eq!(
            life(&all, "sleeper"),
            ["spawned", "runs", "waits for the end of a sleep", "ready", "runs", "ends"]
        );
        let receives = life(&all, "receiver");
        assert_eq!(receives, ["spawned", "runs", "waits for a channel to receive", "ready", "runs", "ends"]);
        assert_eq!(life(&all, "yielder"), ["spawned", "runs", "yields", "runs", "ends"]);
        let polled = life(&all, "future");
        assert_eq!(polled, ["spawned", "runs", "waits for a wake-up of its future", "ready", "runs", "ends"]);
        // Who woke whom, and where each was spawned.
        let (sleeper, receiver) = (id_of(&all, "sleeper"), id_of(&all, "receiver"));
        let cause = |thread| {
            let cause = |event: &Event| match event.what {
                What::Ready { id, by } if id == thread => Some(by),
                _ => None,
            };
            all.events().iter().find_map(cause).unwrap()
        };
        assert_eq!(cause(sleeper), Cause::Timer);
        let Cause::GreenThread(sender) = cause(receiver) else { panic!("{:?}", cause(receiver)) };
        let spawner = |event: &Event| matches!(event.what, What::Spawned { id, by, .. } if id == receiver && by == Some(sender));
        assert!(all.events().iter().any(spawner));
        assert!(all.spawned_at(sleeper).unwrap().file().ends_with("trace.rs"));
        let poll = |event: &Event| matches!(event.what, What::Runs { id, poll } if poll && id == id_of(&all, "future"));
        assert_eq!(all.events().iter().filter(|event| poll(event)).count(), 2);
    }
}

#[test]
fn timers_and_the_network() {
    tests::alone!();
    for procs in PROCS {
        let all = recorded(procs, || {
            sleep(Duration::from_millis(1));
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            let server = named("server", move || stream.read_exact(&mut [0]).unwrap());
            until_it_parks("'server'");
            client.write_all(&[1]).unwrap();
            server.join().unwrap();
        });
        let has = |found: &dyn Fn(&What) -> bool| all.events().iter().any(|event| found(&event.what));
        assert!(has(&|what| matches!(what, What::TimerArmed { .. })));
        assert!(has(&|what| matches!(what, What::TimersFired { count: 1.., .. })));
        let server = id_of(&all, "server");
        assert!(
            has(&|what| matches!(what, What::Ready { id, by: Cause::Network } if *id == server)),
            "{:#?}",
            all.events()
        );
        // On a busy machine a short sleep is over before the green thread has parked, or the OS thread waits.
        let slept = || sleep(Duration::from_millis(20));
        until(procs, slept, |what| matches!(what, What::Ready { by: Cause::Timer, .. }));
        until(procs, slept, |what| matches!(what, What::NetworkWaitBegins));
        until(procs, slept, |what| matches!(what, What::NetworkWaitEnds));
    }
}

/// One P, so that nothing comes between. The end of a moment is tested by the green thread that wakes others
/// and then computes.
#[test]
fn what_follows_at_once_has_one_time() {
    tests::alone!();
    let computes = Duration::from_millis(2);
    let all = recorded(1, || {
        (0..100).for_each(|_| sleep(Duration::from_micros(100)));
        let (start, waiters) = (Arc::new(runtime::sync::Barrier::new(3)), ["a", "b"]);
        let waiters = waiters.map(|name| {
            let start = start.clone();
            named(name, move || _ = start.wait())
        });
        waiters.iter().for_each(|_| yield_now());
        let last = named("last", move || {
            start.wait();
            let begin = Instant::now();
            while begin.elapsed() < computes {}
            yield_now();
        });
        last.join().unwrap();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
    let pairs = |first: fn(&What) -> bool, second: fn(&What) -> bool| {
        let follows = all.events().windows(2).filter(|two| first(&two[0].what) && second(&two[1].what));
        let (same, other): (Vec<_>, Vec<_>) = follows.partition(|two| two[0].at == two[1].at);
        (same.len(), other.len())
    };
    let at_once = [
        pairs(|what| matches!(what, What::TimerArmed { .. }), |what| matches!(what, What::Parks { .. })),
        pairs(|what| matches!(what, What::TimersFired { .. }), |what| matches!(what, What::Ready { .. })),
        pairs(
            |what| matches!(what, What::Ready { by: Cause::Timer, .. }),
            |what| matches!(what, What::Runs { .. }),
        ),
    ];
    for (same, other) in at_once {
        // Other threads of the machine come between now and then, and so does a look at the global queue.
        assert!(same >= 80 && other <= 20, "{at_once:?} of {:#?}", all.events());
    }
    let last = id_of(&all, "last");
    let time =
        |found: &dyn Fn(&What) -> bool| all.events().iter().find(|event| found(&event.what)).unwrap().at;
    let stops = time(&|what| matches!(what, What::Yields { id, .. } if *id == last));
    let woken = time(&|what| matches!(what, What::Ready { by: Cause::GreenThread(id), .. } if *id == last));
    assert!(stops - woken >= computes, "{woken:?} to {stops:?}");
}

/// The timers of functions are armed by `after_func` and by `reset`; that of a message or a tick by its
/// receiver.
#[test]
fn timers_of_functions_messages_and_ticks_are_recorded() {
    tests::alone!();
    for procs in PROCS {
        let all = recorded(procs, || {
            let hour = Duration::from_secs(3600);
            let functions = named("functions", move || {
                let timer = runtime::time::after_func(hour, || ());
                assert!(timer.reset(hour));
                timer.reset(Duration::ZERO);
                yield_now();
            });
            // Long enough that each receiver parks before its timer is due.
            let later = Duration::from_millis(200);
            let message = named("message", move || {
                runtime::time::Timer::new(later).channel().recv().unwrap();
            });
            let ticks = named("ticks", move || {
                let ticker = runtime::time::Ticker::new(later);
                (0..2).for_each(|_| _ = ticker.channel().recv().unwrap());
            });
            [functions, message, ticks].into_iter().for_each(|thread| thread.join().unwrap());
        });
        let armed = |name: &str| {
            let id = id_of(&all, name);
            let is_armed = |event: &&Event| event.what == What::TimerArmed { id };
            all.events().iter().filter(is_armed).count()
        };
        assert_eq!(armed("functions"), 3, "{:#?}", all.events());
        // A tick that is due already arms no timer.
        assert_eq!((armed("message"), armed("ticks").min(1)), (1, 1), "{:#?}", all.events());
    }
}

/// A green thread that has lost its P arms a timer too.
#[test]
fn a_timer_that_is_armed_without_a_p_is_recorded() {
    tests::alone!();
    let start = Instant::now();
    loop {
        let all = recorded(1, || {
            let hog = named("hog", || {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(40) {}
                sleep(Duration::from_millis(1));
            });
            // Sysmon takes the P for this one.
            spawn(|| ()).join().unwrap();
            hog.join().unwrap();
        });
        let hog = id_of(&all, "hog");
        let mut of_it = all.events().iter().filter(|event| event.what.green_thread() == Some(hog));
        if of_it.any(|event| matches!(event.what, What::Preempted { .. })) {
            let next = of_it.next().map(|event| event.what);
            return assert_eq!(next, Some(What::TimerArmed { id: hog }), "{:#?}", all.events());
        }
        assert!(start.elapsed() < Duration::from_secs(40), "the P was never taken");
    }
}

/// Repeats `f` during recordings until one of them has such an event.
fn until(procs: usize, f: impl Fn() + Send + Sync, found: impl Fn(&What) -> bool) {
    let start = Instant::now();
    while !recorded(procs, &f).events().iter().any(|event| found(&event.what)) {
        assert!(start.elapsed() < Duration::from_secs(40), "no such event");
    }
}

#[test]
fn thefts_are_recorded() {
    tests::alone!();
    let crowd = || {
        let spin = || (0..200_u64).fold(0, |sum, i| std::hint::black_box(sum + i));
        let threads: Vec<_> =
            (0..200).map(|_| spawn(move || (0..50).for_each(|_| _ = (spin(), yield_now())))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    until(2, crowd, |what| matches!(what, What::Stolen { .. }));
}

#[test]
fn hand_offs_and_preemptions_are_recorded() {
    tests::alone!();
    let block = || runtime::blocking(|| std::thread::sleep(Duration::from_millis(50)));
    let blocks_while_another_waits = || {
        let other = spawn(|| ());
        block();
        other.join().unwrap();
    };
    until(1, blocks_while_another_waits, |what| *what == What::ProcHandedOff);
    let blocks_before_another_comes = || {
        let handle = runtime::Handle::current();
        let outside = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            handle.spawn(|| ()).join().unwrap();
        });
        block();
        runtime::blocking(|| outside.join().unwrap());
    };
    until(1, blocks_before_another_comes, |what| matches!(what, What::Preempted { declared: true, .. }));
    let computes = || {
        let other = spawn(|| ());
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {}
        other.join().unwrap();
    };
    until(1, computes, |what| matches!(what, What::Preempted { declared: false, .. }));
}

#[test]
fn the_newest_events_stay() {
    tests::alone!();
    on(1, || {
        assert!(trace::start_with(64).unwrap());
        let other = spawn(|| (0..1000).for_each(|_| yield_now()));
        (0..1000).for_each(|_| yield_now());
        other.join().unwrap();
        named("last", || ()).join().unwrap();
        let all = trace::snapshot();
        trace::stop();
        assert!(all.lost() > 1000, "{all:?}");
        let yields = all.events().iter().filter(|event| matches!(event.what, What::Yields { .. })).count();
        assert!(yields < 64, "{yields} yields");
        assert_eq!(life(&all, "last"), ["spawned", "runs", "ends"]);
        // What was recorded stays after the stop.
        assert_eq!(life(&trace::snapshot(), "last"), ["spawned", "runs", "ends"]);
    });
}

/// Many green threads do everything; each of their lives is recorded in order.
#[test]
fn a_busy_program_is_told_in_order() {
    tests::alone!();
    let rounds = if cfg!(debug_assertions) { 10 } else { 40 };
    for round in 0..rounds {
        let procs = PROCS[round % PROCS.len()];
        let all = recorded(procs, || {
            let (s, r) = channel::bounded(2);
            let mutex = Arc::new(runtime::sync::Mutex::new(0));
            let threads: Vec<_> = (0..40_u64)
                .map(|i| {
                    let (s, r, mutex) = (s.clone(), r.clone(), mutex.clone());
                    spawn(move || {
                        for j in 0..20_u64 {
                            match (i + j) % 5 {
                                0 => sleep(Duration::from_micros(50 * (j % 4))),
                                1 => yield_now(),
                                2 => {
                                    let mut guard = mutex.lock();
                                    *guard += 1;
                                    yield_now();
                                }
                                3 => spawn(async { runtime::yield_now() }).join().unwrap(),
                                _ if i % 2 == 0 => s.send(j).unwrap(),
                                _ => _ = r.recv_timeout(Duration::from_micros(300)),
                            }
                        }
                        drop(r);
                    })
                })
                .collect();
            drop(s);
            let drain = spawn(move || r.iter().count());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            drain.join().unwrap();
        });
        assert!(all.events().len() > 1000);
    }
}

#[test]
fn wake_ups_from_plain_threads_and_bound_threads() {
    tests::alone!();
    let all = recorded(2, || {
        let parked = named("parked", thread::park);
        let pinned = named("pinned", || {
            let _pin = thread::pin();
            sleep(Duration::from_millis(1));
        });
        let in_poll = named("spawner", || spawn(async { sleep(Duration::from_millis(1)) }).join().unwrap());
        until_it_parks("'parked'");
        let unparks = parked.thread().clone();
        std::thread::spawn(move || unparks.unpark()).join().unwrap();
        parked.join().unwrap();
        pinned.join().unwrap();
        in_poll.join().unwrap();
    });
    assert_eq!(life(&all, "parked"), ["spawned", "runs", "waits for an unpark", "ready", "runs", "ends"]);
    let pinned = life(&all, "pinned");
    assert!(pinned.contains(&"waits for the end of a sleep".to_string()), "{pinned:?}");
    let id = id_of(&all, "parked");
    let ready =
        all.events().iter().find(|event| matches!(event.what, What::Ready { id: woken, .. } if woken == id));
    assert!(matches!(ready.unwrap(), Event { proc: None, what: What::Ready { by: Cause::Other, .. }, .. }));
}

/// Green threads that are free, pinned, strict, in a poll, or futures. Each sleeps, and then waits for a
/// socket.
#[test]
fn timers_and_the_network_are_the_causes_of_what_they_wake() {
    tests::alone!();
    let both = [Migration::Anytime, Migration::BeforeStart];
    let start = Instant::now();
    let mut all_kinds: Vec<_> = PROCS.into_iter().flat_map(|procs| both.map(|how| (procs, how))).collect();
    while let Some((procs, migration)) = all_kinds.pop() {
        let names = ["free", "pinned", "in a poll", "future"];
        let all = recorded_in(Builder::new().procs(procs).migration(migration), || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut clients = Vec::new();
            let mut stream = || {
                clients.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
                listener.accept().unwrap().0
            };
            let waits = |mut stream: TcpStream| {
                sleep(Duration::from_millis(1));
                stream.read_exact(&mut [0]).unwrap();
            };
            let [free, pinned, in_poll, future] = std::array::from_fn(|_| stream());
            let free = named("free", move || waits(free));
            let pinned = named("pinned", move || {
                let _pin = thread::pin();
                waits(pinned);
            });
            let of_future = |name: &str| thread::Builder::new().name(name.into());
            let in_poll = of_future("in a poll").spawn(async move { waits(in_poll) }).unwrap();
            let future = of_future("future").spawn(async move {
                runtime::time::sleep_async(Duration::from_millis(1)).await;
                future.peek_async(&mut [0]).await.unwrap();
            });
            sleep(Duration::from_millis(20));
            clients.iter_mut().for_each(|client| client.write_all(&[1]).unwrap());
            [free, pinned, in_poll, future.unwrap()].into_iter().for_each(|thread| thread.join().unwrap());
        });
        let causes = names.map(|name| {
            let id = id_of(&all, name);
            let cause = |event: &Event| match event.what {
                What::Ready { id: woken, by } if woken == id => Some(by),
                _ => None,
            };
            all.events().iter().filter_map(cause).collect::<Vec<Cause>>()
        });
        // A wait that is over before its green thread has parked has another cause or none. That is rare, so
        // another run has them all.
        if causes.iter().any(|causes| causes != &[Cause::Timer, Cause::Network]) {
            assert!(
                start.elapsed() < Duration::from_secs(40),
                "{names:?}: {causes:?}; {procs} Ps, {migration:?}"
            );
            all_kinds.push((procs, migration));
        }
    }
}

/// The number of an OS thread is that in its own runtime.
#[test]
fn a_green_thread_of_another_runtime_is_no_os_thread_of_this_one() {
    tests::alone!();
    let mut woken = 0;
    let all = recorded(2, || {
        let other = runtime(1);
        let parked = other.handle().spawn(thread::park);
        tests::until_it_waits(&parked);
        let id = format!("{:?}", parked.thread().id());
        woken = id.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        parked.thread().unpark();
        parked.join().unwrap();
    });
    let is_it = |event: &&Event| matches!(event.what, What::Ready { id, .. } if id == woken);
    let event = all.events().iter().find(is_it).unwrap();
    assert_eq!((event.proc, event.os_thread), (None, None));
    assert!(matches!(event.what, What::Ready { by: Cause::GreenThread(_), .. }), "{event:?}");
}

/// The begin of a sleep is no event of its own if its OS thread has just given up its P. The reader takes it
/// from the OS thread.
#[test]
fn a_stop_keeps_the_sleeps_that_have_not_ended() {
    tests::alone!();
    let work = || (0..100).map(|_| spawn(yield_now)).for_each(|thread| thread.join().unwrap());
    let works = |time| {
        let start = Instant::now();
        while start.elapsed() < time {
            work();
        }
    };
    let time = Duration::from_millis(20);
    let is_told = || {
        assert!(trace::start());
        // Both OS threads take Ps, and then one sleeps, because this green thread is the only one. On a busy
        // machine it may be late.
        works(time);
        tests::spin(time);
        assert!(trace::stop());
        works(time);
        let mut last = HashMap::new();
        for event in trace::snapshot().events() {
            last.extend(event.os_thread.map(|m| (m, event.what)));
        }
        last.values().any(|what| matches!(what, What::ThreadParks | What::NetworkWaitBegins))
    };
    on(2, || assert!((0..20).any(|_| is_told())));
}

/// A dump makes ready what was woken while the dump held it.
#[test]
fn a_dump_is_not_shown_as_a_waker() {
    tests::alone!();
    let start = Instant::now();
    loop {
        let all = recorded(2, || {
            let stop = Arc::new(AtomicBool::new(false));
            let sleepers = ["a", "b", "c", "d"].map(|name| {
                let stop = stop.clone();
                // Not for ever: the dumps may take so long that the trace has no room.
                let goes_on = move |_: &_| !stop.load(Ordering::Relaxed);
                named(name, || (0..8000).take_while(goes_on).for_each(|_| sleep(Duration::from_micros(20))))
            });
            let dumper =
                named("dumper", || (0..300).for_each(|_| runtime::dump(&mut std::io::sink()).unwrap()));
            dumper.join().unwrap();
            stop.store(true, Ordering::Relaxed);
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
        let sleepers = ["a", "b", "c", "d"].map(|name| id_of(&all, name));
        let by = |event: &Event| match event.what {
            What::Ready { id, by } if sleepers.contains(&id) => Some(by),
            _ => None,
        };
        let causes: Vec<Cause> = all.events().iter().filter_map(by).collect();
        assert!(!causes.contains(&Cause::GreenThread(id_of(&all, "dumper"))));
        if causes.contains(&Cause::Other) {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(40),
            "no wake-up came while a dump held its green thread"
        );
    }
}

#[test]
fn starts_stops_and_snapshots_race_with_running_threads() {
    tests::alone!();
    with(4, |runtime| {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads: Vec<_> = (0..16)
            .map(|i| {
                let (stop, count) = (stop.clone(), count.clone());
                runtime.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        count.fetch_add(1, Ordering::Relaxed);
                        match i % 4 {
                            0 => sleep(Duration::from_micros(20)),
                            1 => spawn(|| ()).join().unwrap(),
                            _ => yield_now(),
                        }
                    }
                })
            })
            .collect();
        let start = Instant::now();
        // On a busy machine fewer rounds.
        for round in (0..300).take_while(|&round| round < 20 || start.elapsed() < Duration::from_secs(10)) {
            // Rings of three sizes, used again and again, and too small for a recording.
            assert!(trace::start_with(256 << (round % 3)).unwrap());
            let before = count.load(Ordering::Relaxed);
            while count.load(Ordering::Relaxed) < before + 20 {
                std::thread::yield_now();
            }
            let all = trace::snapshot();
            let mut last = Duration::ZERO;
            for event in all.events() {
                assert!(event.at >= last && event.at <= all.duration(), "{event:?} after {last:?}");
                last = event.at;
            }
            if round % 2 == 0 {
                all.write_html(&mut std::io::sink()).unwrap();
            }
            assert!(trace::stop());
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn ps_that_come_and_go_record_too() {
    tests::alone!();
    with(1, |runtime| {
        assert!(trace::start_with(1 << 18).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let stop = stop.clone();
                runtime.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        sleep(Duration::from_millis(1));
                    }
                })
            })
            .collect();
        let start = Instant::now();
        let mut all = trace::snapshot();
        let mut procs = [1, 4, 2, 8, 3].into_iter().cycle();
        let has_retired = |all: &Snapshot| all.events().iter().any(|event| event.what == What::ProcRetired);
        let new = |all: &Snapshot| all.events().iter().any(|event| event.proc >= Some(2));
        while !(has_retired(&all) && new(&all)) {
            assert!(start.elapsed() < Duration::from_secs(30), "{all:?}");
            runtime.handle().set_procs(procs.next().unwrap()).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            all = trace::snapshot();
        }
        if all.lost() == 0 {
            check(&all);
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        trace::stop();
    });
}

#[test]
fn a_runtime_that_starts_or_ends_meanwhile() {
    tests::alone!();
    assert!(trace::start());
    let other = runtime::Builder::new().procs(1).thread_name("other").build().unwrap();
    other.block_on(|| named("there", || ()).join().unwrap());
    drop(other);
    let all = trace::snapshot();
    trace::stop();
    assert_eq!(life(&all, "there"), ["spawned", "runs", "ends"]);
    assert!(all.runtimes().contains(&"other".to_string()));
    let second = runtime(1);
    second.block_on(|| assert!(trace::start()));
    assert!(!trace::snapshot().runtimes().contains(&"other".to_string()), "a new recording forgets the last");
    trace::stop();
}

#[test]
fn a_page_has_the_rows_slices_and_arrows() {
    tests::alone!();
    let all = recorded(2, || {
        named("a </script>\u{1b} name", || sleep(Duration::from_millis(1))).join().unwrap();
    });
    let mut page = Vec::new();
    all.write_html(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("\"P 0\"") || page.contains("\"P 1\""));
    assert!(page.contains(r"a \u003c/script>\\u{1b} name"), "names stand in the page as escaped text");
    assert!(!page.contains("a </script>"));
    assert!(
        !page.contains("http://") && !page.contains("https://") && !page.contains(" src="),
        "the page needs nothing else"
    );
}

#[test]
fn a_runtimes_name_stands_in_pages_as_escaped_text() {
    tests::alone!();
    assert!(trace::start());
    let runtime = runtime::Builder::new().procs(1).thread_name("a </script>\u{1b}\n").build().unwrap();
    runtime.block_on(|| named("there", || ()).join().unwrap());
    let all = trace::snapshot();
    trace::stop();
    let mut page = Vec::new();
    all.write_html(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains(r"a \u003c/script>\\u{1b}\\n-0"), "an OS thread of the runtime");
    assert!(!page.contains("a </script>") && !page.contains('\u{1b}'));
}
