//! Circles over channels are suspected, and only these: a channel with a handle that another thread has, or that lies in the heap, gives
//! none.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, Once};
use std::time::Duration;

use runtime::channel::{Receiver, Sender, bounded, unbounded};
use runtime::dump::{Deadlock, DeadlockKind, Snapshot, on_deadlock};
use runtime::sync::Mutex;
use runtime::{Builder, JoinHandle, Runtime, spawn, thread};
use tests::{Watchdog, wait_until};

static TOLD: StdMutex<Vec<Deadlock>> = StdMutex::new(Vec::new());
const INTERVAL: Duration = Duration::from_millis(20);

/// Returns a runtime with a search for deadlocks, which puts what it finds into `TOLD`.
fn searched() -> Runtime {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| on_deadlock(|deadlock| TOLD.lock().unwrap().push(deadlock.clone())));
    Builder::new().procs(2).find_deadlocks(INTERVAL).build().unwrap()
}

fn named(name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.into()).spawn(f).unwrap()
}

fn names_of(deadlock: &Deadlock) -> HashSet<String> {
    deadlock.members.iter().filter_map(|member| member.name.clone()).collect()
}

/// Runs `body` alone: what other tests have left in freed memory may look like a handle, and then nothing is told.
fn in_a_process_of_its_own(test: &str, body: fn()) {
    tests::child::passes(test, "alone", || searched().block_on(body));
}

/// Waits until a circle of just these threads was told and a dump shows it, and ends them.
fn is_suspected(names: &[&str], threads: Vec<JoinHandle<()>>) {
    let all: HashSet<String> = names.iter().map(|&name| name.to_owned()).collect();
    let is_it = |deadlock: &Deadlock| names_of(deadlock) == all;
    wait_until("the circle is told", || TOLD.lock().unwrap().iter().any(is_it));
    let told: Vec<Deadlock> = TOLD.lock().unwrap().iter().filter(|it| is_it(it)).cloned().collect();
    assert_eq!((told.len(), told[0].certain, told[0].kind), (1, false, DeadlockKind::Circle), "{told:?}");
    assert!(told[0].to_string().starts_with("suspected deadlock: "), "{}", told[0]);
    wait_until("a dump tells it", || Snapshot::take_with_deadlocks().unwrap().deadlocks.iter().any(is_it));
    threads.iter().for_each(JoinHandle::cancel);
    threads.into_iter().for_each(|thread| _ = thread.join());
}

#[test]
fn two_receive_from_each_other() {
    in_a_process_of_its_own("two_receive_from_each_other", || {
        let ((to_one, one), (to_two, two)) = (unbounded::<u32>(), bounded::<u32>(0));
        let first = named("one", move || _ = one.recv().map(|n| to_two.send(n)));
        let second = named("two", move || _ = two.recv().map(|n| to_one.send(n)));
        is_suspected(&["one", "two"], vec![first, second]);
    });
}

#[test]
fn two_send_to_each_other() {
    in_a_process_of_its_own("two_send_to_each_other", || {
        let ((to_one, one), (to_two, two)) = (bounded::<u32>(1), bounded::<u32>(1));
        let sends = |to: Sender<u32>, from: Receiver<u32>| {
            move || {
                (0..5).for_each(|n| to.send(n).unwrap());
                from.iter().for_each(drop);
            }
        };
        let threads = vec![named("sends 1", sends(to_two, one)), named("sends 2", sends(to_one, two))];
        is_suspected(&["sends 1", "sends 2"], threads);
    });
}

#[test]
fn a_receiver_has_the_last_sender_itself() {
    in_a_process_of_its_own("a_receiver_has_the_last_sender_itself", || {
        let (sender, receiver) = unbounded::<u32>();
        let own = named("own", move || {
            sender.send(1).unwrap();
            receiver.iter().for_each(drop);
        });
        is_suspected(&["own"], vec![own]);
    });
}

/// One has a mutex and waits for a message of another, which waits for the mutex. A third one has a sender too, and waits for the
/// end of the first. The first waits in a select.
#[test]
fn a_channel_a_mutex_and_a_join() {
    in_a_process_of_its_own("a_channel_a_mutex_and_a_join", || {
        let mutex = Arc::new(Mutex::new(0));
        let its = mutex.clone();
        let ((sender, receiver), (stop, stops)) = (unbounded::<u32>(), unbounded::<u32>());
        let stop_too = stop.clone();
        let also = sender.clone();
        let has_mutex = named("has a mutex", move || {
            let _guard = its.lock();
            runtime::select! {
                recv(receiver) -> _ => {}
                recv(stops) -> _ => {}
            }
        });
        wait_until("the mutex is taken", || mutex.is_locked());
        let ends = has_mutex.abort_handle();
        let wants_mutex = named("wants a mutex", move || {
            *mutex.lock() += 1;
            let _ = (sender.send(1), stop.send(1));
        });
        let joins = named("joins", move || {
            let _ = has_mutex.join();
            let _ = (also.send(1), stop_too.send(1));
        });
        is_suspected(&["has a mutex", "wants a mutex"], vec![]);
        ends.cancel();
        [wants_mutex, joins].into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Runs `make` in a green thread and overwrites what it has left on that stack, which the next green thread may have.
fn made<T: Send + 'static>(make: fn() -> T) -> T {
    #[inline(never)]
    fn overwrite() {
        std::hint::black_box(&mut [0_u8; 16 << 10]);
    }
    let made = spawn(move || {
        let made = std::hint::black_box(make)();
        overwrite();
        made
    });
    made.join().unwrap()
}

/// Waits until a leak with just these threads was told and a dump shows it, and ends them.
fn is_leaked(names: &[&str], behind: usize, threads: Vec<JoinHandle<()>>) {
    let all: HashSet<String> = names.iter().map(|&name| name.to_owned()).collect();
    let is_it = |deadlock: &Deadlock| names_of(deadlock) == all && deadlock.behind == behind;
    // A leak is told once, with those that wait then.
    let is_told = |deadlock: &&Deadlock| {
        let names = names_of(deadlock);
        !names.is_empty() && names.is_subset(&all)
    };
    wait_until("the leak is told", || TOLD.lock().unwrap().iter().any(|it| is_told(&it)));
    let told: Vec<Deadlock> = TOLD.lock().unwrap().iter().filter(is_told).cloned().collect();
    assert_eq!((told.len(), told[0].certain, told[0].kind), (1, false, DeadlockKind::Leak), "{told:?}");
    let text = told[0].to_string();
    assert!(text.contains(" for a channel of which the other ends were forgotten"), "{text}");
    wait_until("a dump tells it", || Snapshot::take_with_deadlocks().unwrap().deadlocks.iter().any(is_it));
    threads.iter().for_each(JoinHandle::cancel);
    threads.into_iter().for_each(|thread| _ = thread.join());
}

#[test]
fn a_sender_that_was_forgotten() {
    in_a_process_of_its_own("a_sender_that_was_forgotten", || {
        let waits = made(|| {
            let (sender, receiver) = unbounded::<u32>();
            let waits = named("waits", move || _ = receiver.recv());
            std::mem::forget(sender);
            waits
        });
        let ends = waits.abort_handle();
        let behind = spawn(move || _ = waits.join());
        is_leaked(&["waits"], 1, vec![]);
        ends.cancel();
        behind.join().unwrap();
    });
}

#[test]
fn a_receiver_that_was_forgotten() {
    in_a_process_of_its_own("a_receiver_that_was_forgotten", || {
        let threads = made(|| {
            let (sender, receiver) = bounded::<u32>(2);
            let sends = |sender: Sender<u32>| move || (0..9).for_each(|n| sender.send(n).unwrap());
            let threads = vec![named("first", sends(sender.clone())), named("second", sends(sender))];
            std::mem::forget(receiver);
            threads
        });
        is_leaked(&["first", "second"], 0, threads);
    });
}

/// Both ends are variables of the green thread, which no closure captured.
#[test]
fn a_receiver_has_made_the_channel_itself() {
    in_a_process_of_its_own("a_receiver_has_made_the_channel_itself", || {
        let own = named("own", || {
            let (sender, receiver) = unbounded::<u32>();
            sender.send(1).unwrap();
            receiver.iter().for_each(drop);
            drop(sender);
        });
        is_suspected(&["own"], vec![own]);
    });
}

/// Makes each call of `process_vm_readv` by this thread, and by those that it starts, fail with `EPERM`.
fn refuse_copies_of_memory() {
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    // The number of the call is the first word of what the filter looks at.
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_process_vm_readv as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter outlive the call, which copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// Where the system refuses to copy memory, no search finds a handle. That is no leak.
#[test]
fn a_sandbox_that_refuses_to_copy_memory() {
    tests::child::passes("a_sandbox_that_refuses_to_copy_memory", "alone", || {
        refuse_copies_of_memory();
        searched().block_on(|| {
            let (sender, receiver) = unbounded::<u32>();
            let heap = Box::new(sender);
            nothing_is_told(vec![spawn(move || receiver.iter().for_each(drop))]);
            drop(heap);
        });
    });
}

/// Looks many times, and checks that no deadlock with one of `threads` is told. Then ends them.
fn nothing_is_told(threads: Vec<JoinHandle<()>>) {
    let ids: HashSet<u64> = threads.iter().map(|thread| thread.thread().id().as_u64().get()).collect();
    let has_one = |it: &Deadlock| it.members.iter().any(|member| ids.contains(&member.id));
    for _ in 0..5 {
        runtime::sleep(2 * INTERVAL);
        let dump = Snapshot::take_with_deadlocks().unwrap();
        assert!(!dump.deadlocks.iter().any(has_one), "{dump}");
    }
    let told = TOLD.lock().unwrap();
    let wrong = told.iter().find(|it| has_one(it));
    assert!(wrong.is_none(), "{wrong:?}");
    drop(told);
    threads.iter().for_each(JoinHandle::cancel);
    threads.into_iter().for_each(|thread| _ = thread.join());
}

#[test]
fn idle_workers_whose_sender_lies_elsewhere() {
    static IN_STATIC: StdMutex<Vec<Sender<u32>>> = StdMutex::new(Vec::new());
    let _dog = Watchdog::new();
    searched().block_on(|| {
        let mut threads = Vec::new();
        let mut idle = |receiver: Receiver<u32>| threads.push(spawn(move || receiver.iter().for_each(drop)));
        // On the stack of the caller, in the heap, in a static, and on the stack of a plain OS thread.
        let (here, receiver) = unbounded();
        (0..4).for_each(|_| idle(receiver.clone()));
        let (sender, receiver) = bounded(1);
        let heap = Arc::new(vec![sender]);
        idle(receiver);
        let (sender, receiver) = bounded(0);
        IN_STATIC.lock().unwrap().push(sender);
        idle(receiver);
        let (sender, receiver) = unbounded();
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let plain = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(sender);
        });
        idle(receiver);
        // One that waits for a while, and one that a ticker wakes.
        let (sender, receiver) = unbounded::<u32>();
        threads.push(spawn(move || {
            let _ = receiver.recv_timeout(20 * INTERVAL);
            drop(sender);
        }));
        threads.push(spawn(|| {
            let ticker = runtime::time::Ticker::new(Duration::from_millis(5));
            ticker.channel().iter().for_each(drop);
        }));
        nothing_is_told(threads);
        over.store(true, Ordering::Relaxed);
        plain.join().unwrap();
        IN_STATIC.lock().unwrap().clear();
        drop((here, heap));
    });
}

/// Each of these has captured the only sender to itself, and given it away. Its stack may still have the word.
#[test]
fn a_sender_that_was_given_away() {
    static REGISTERED: StdMutex<Vec<Sender<u32>>> = StdMutex::new(Vec::new());
    let _dog = Watchdog::new();
    searched().block_on(|| {
        let mut threads = Vec::new();
        let mut gives = |give: Box<dyn FnOnce(Sender<u32>) + Send>| {
            let (sender, receiver) = unbounded();
            threads.push(spawn(move || {
                give(sender);
                receiver.iter().for_each(drop);
            }));
        };
        // To a registry, to a message that lies in a channel, to a child that sleeps, to a future, and to one that computes.
        gives(Box::new(|sender| REGISTERED.lock().unwrap().push(sender)));
        let (letters, letter_box) = unbounded();
        gives(Box::new(move |sender| letters.send(sender).unwrap()));
        gives(Box::new(|sender| {
            spawn(move || {
                runtime::sleep(Duration::from_secs(1000));
                drop(sender);
            });
        }));
        gives(Box::new(|sender| {
            spawn(async move {
                std::future::pending::<()>().await;
                drop(sender);
            });
        }));
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        gives(Box::new(move |sender| {
            spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                drop(sender);
            });
        }));
        // To a server that answers late, by way of a dispatcher.
        let (requests, dispatched) = unbounded::<Sender<u32>>();
        let (to_server, served) = unbounded::<Sender<u32>>();
        threads.push(spawn(move || dispatched.iter().for_each(|answer| to_server.send(answer).unwrap())));
        threads.push(spawn(move || {
            for answer in served.iter() {
                runtime::sleep(Duration::from_secs(1000));
                let _ = answer.send(1);
            }
        }));
        let (answer, answered) = bounded(1);
        threads.push(spawn(move || {
            requests.send(answer).unwrap();
            let _ = answered.recv();
            drop(requests);
        }));
        nothing_is_told(threads);
        over.store(true, Ordering::Relaxed);
        REGISTERED.lock().unwrap().clear();
        drop(letter_box);
    });
}

/// Two green threads send the only sender to each other all the time.
#[test]
fn a_sender_that_moves() {
    let _dog = Watchdog::new();
    searched().block_on(|| {
        let (sender, receiver) = unbounded::<u32>();
        let ((to_one, one), (to_two, two)) = (bounded(1), bounded::<Sender<u32>>(1));
        to_one.send(sender).unwrap();
        let passes = |from: Receiver<Sender<u32>>, to: Sender<Sender<u32>>| {
            move || from.iter().try_for_each(|sender| to.send(sender)).unwrap_or_default()
        };
        let movers = [spawn(passes(one, to_two)), spawn(passes(two, to_one))];
        nothing_is_told(vec![spawn(move || _ = receiver.recv())]);
        movers.iter().for_each(JoinHandle::cancel);
        movers.into_iter().for_each(|mover| _ = mover.join());
    });
}

/// The only sender is a variable of a green thread that has made the channel, and that computes and sleeps by turns.
#[test]
fn a_sender_of_one_that_goes_on() {
    let _dog = Watchdog::new();
    searched().block_on(|| {
        static OVER: AtomicBool = AtomicBool::new(false);
        let (tell, told) = bounded(1);
        let goes_on = spawn(move || {
            let (sender, receiver) = unbounded::<u32>();
            tell.send(spawn(move || receiver.iter().for_each(drop))).unwrap();
            while !OVER.load(Ordering::Relaxed) {
                (0..100_000).for_each(|_| std::hint::spin_loop());
                runtime::sleep(Duration::from_micros(100));
            }
            drop(sender);
        });
        nothing_is_told(vec![told.recv().unwrap()]);
        OVER.store(true, Ordering::Relaxed);
        goes_on.join().unwrap();
    });
}

/// A scoped green thread uses the sender that its spawner has captured.
#[test]
fn a_sender_that_is_lent_in_a_scope() {
    let _dog = Watchdog::new();
    searched().block_on(|| {
        let (sender, receiver) = unbounded::<u32>();
        let lends = spawn(move || {
            runtime::scope(|s| {
                s.spawn(|| {
                    runtime::sleep(Duration::from_secs(1000));
                    let _ = sender.send(1);
                });
                let _ = receiver.recv();
            });
        });
        nothing_is_told(vec![lends]);
    });
}
