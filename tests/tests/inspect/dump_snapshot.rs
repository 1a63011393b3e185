//! `dump::Snapshot`: what each wait is for, which green thread holds it, parents and scopes, and the forms of
//! the text.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use runtime::channel::bounded;
use runtime::dump::{GreenThread, Object, Reason, Snapshot};
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::{Mutex, RwLock};
use runtime::{Builder, JoinHandle, select, spawn, thread};
use tests::{Watchdog, wait_until};

const HOUR: Duration = Duration::from_secs(3600);

fn named(name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.into()).spawn(f).unwrap()
}

/// Returns the green thread with this name, once it is parked and its wait is of this kind.
fn parked(name: &str, reason: Reason) -> GreenThread {
    let found = RefCell::new(None);
    wait_until("the thread is parked", || {
        let all = Snapshot::take().unwrap().green_threads;
        *found.borrow_mut() = all.into_iter().find(|thread| {
            let wait = thread.wait.as_ref();
            thread.name.as_deref() == Some(name)
                && wait.is_some_and(|wait| wait.reason == reason && wait.number.is_some())
        });
        found.borrow().is_some()
    });
    found.take().unwrap()
}

fn object(name: &str, reason: Reason) -> Object {
    parked(name, reason).wait.unwrap().object.expect("the object is known")
}

fn on_tracked(f: impl FnOnce() + Send) {
    let _dog = Watchdog::new();
    Builder::new().procs(2).track_locks(true).build().unwrap().block_on(f);
}

#[test]
fn locks_name_their_holders() {
    on_tracked(|| {
        let me = thread::current().id().as_u64().get();
        let mutex = Arc::new(Mutex::new(0));
        let rwlock = Arc::new(RwLock::new(0));
        let its_mutex = mutex.clone();
        let (locked, written) = (mutex.lock(), rwlock.write());
        let locks = named("locks", move || *its_mutex.lock() += 1);
        let Object::Mutex { locked: true, holder, address, .. } = object("locks", Reason::Mutex) else {
            panic!()
        };
        assert_eq!(holder, Some(me));
        // SAFETY: the raw lock is not unlocked by this reference.
        let raw = unsafe { mutex.raw() };
        assert_eq!(address, std::ptr::from_ref(raw).addr());
        let its_rwlock = rwlock.clone();
        let reads = named("reads", move || assert_eq!(*its_rwlock.read(), 0));
        let its_rwlock = rwlock.clone();
        let writes = named("writes", move || *its_rwlock.write() += 1);
        for (name, wants) in [("reads", false), ("writes", true)] {
            let Object::RwLock { writer, readers, holder, to_write, .. } = object(name, Reason::RwLock)
            else {
                panic!()
            };
            assert_eq!((writer, readers, holder, to_write), (true, 0, Some(me), wants));
        }
        drop((locked, written));
        [locks, reads, writes].into_iter().for_each(|thread| thread.join().unwrap());
        // A lock that was handed to its waiter names the waiter, and a free one names no thread.
        let its_mutex = mutex.clone();
        let guard = mutex.lock();
        let next = named("next", move || {
            let _guard = its_mutex.lock();
            thread::park();
        });
        parked("next", Reason::Mutex);
        runtime::sync::MutexGuard::unlock_fair(guard);
        let next_id = parked("next", Reason::Unpark).id;
        let its_mutex = mutex.clone();
        let last = named("last", move || *its_mutex.lock() += 1);
        let Object::Mutex { holder, .. } = object("last", Reason::Mutex) else { panic!() };
        assert_eq!(holder, Some(next_id));
        next.thread().unpark();
        next.join().unwrap();
        last.join().unwrap();
        // A reader has no record.
        let guard = rwlock.read();
        let its_rwlock = rwlock.clone();
        let writes = named("waits for readers", move || *its_rwlock.write() += 1);
        let Object::RwLock { writer, readers, holder, .. } = object("waits for readers", Reason::RwLock)
        else {
            panic!()
        };
        assert_eq!((writer, readers, holder), (false, 1, None));
        drop(guard);
        writes.join().unwrap();
    });
}

#[test]
fn channels_have_their_ends_and_their_fill() {
    on_tracked(|| {
        let (full, rest) = bounded(2);
        let full2 = full.clone();
        (0..2).for_each(|i| full.send(i).unwrap());
        let (sender, empty) = bounded::<u8>(0);
        let sends = named("sends", move || full2.send(2).unwrap());
        let receives = named("receives", move || assert_eq!(empty.recv(), Ok(1)));
        let Object::Channel { senders, receivers, messages, capacity, .. } = object("sends", Reason::Send)
        else {
            panic!()
        };
        assert_eq!((senders, receivers, messages, capacity), (2, 1, 2, Some(2)));
        let Object::Channel { senders, receivers, messages, capacity, .. } =
            object("receives", Reason::Receive)
        else {
            panic!()
        };
        assert_eq!((senders, receivers, messages, capacity), (1, 1, 0, Some(0)));
        let (other, unlimited) = runtime::channel::unbounded::<u8>();
        let selects = named("selects", move || {
            select! {
                recv(unlimited) -> message => assert_eq!(message, Ok(7)),
                join(spawn(|| runtime::sleep(HOUR))) -> _ => {},
            }
        });
        let Object::Select { cases, .. } = object("selects", Reason::Select) else { panic!() };
        let channels =
            cases.iter().flatten().filter(|case| matches!(case, Object::Channel { capacity: None, .. }));
        assert_eq!((cases.len(), channels.count()), (2, 1), "{cases:?}");
        other.send(7).unwrap();
        sender.send(1).unwrap();
        assert_eq!(rest.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
        [sends, receives, selects].into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn joins_scopes_parents_and_timers() {
    on_tracked(|| {
        let me = thread::current().id().as_u64().get();
        let sleeps = named("sleeps", || runtime::sleep(HOUR));
        let sleeper = parked("sleeps", Reason::Sleep);
        let due = sleeper.wait.as_ref().unwrap().due_in.expect("a sleep has a timer");
        assert!(due <= HOUR && due > HOUR / 2 && sleeper.wait.as_ref().unwrap().may_end);
        assert_eq!((sleeper.parent, sleeper.scope, sleeper.future), (Some(me), None, None));
        let handle = sleeps.thread().clone();
        let cancel = sleeps.abort_handle();
        let joins = named("joins", move || _ = sleeps.join());
        assert_eq!(
            format!("{:?}", object("joins", Reason::End)),
            format!("GreenThread {{ id: {} }}", handle.id().as_u64())
        );
        assert!(!parked("joins", Reason::End).wait.unwrap().may_end);
        let scopes = named("scopes", || {
            runtime::scope(|s| {
                s.spawn(thread::park);
                s.spawn(async { std::future::pending::<()>().await });
            });
        });
        let scope = parked("scopes", Reason::Scope);
        let Some(Object::Scope { green_threads, .. }) = &scope.wait.as_ref().unwrap().object else {
            panic!()
        };
        assert_eq!(green_threads.len(), 2);
        let snapshot = RefCell::new(Snapshot::take().unwrap());
        wait_until("the future waits", || {
            *snapshot.borrow_mut() = Snapshot::take().unwrap();
            let snapshot = snapshot.borrow();
            green_threads
                .iter()
                .all(|&id| snapshot.get(id).unwrap().wait.as_ref().is_some_and(|it| it.number.is_some()))
        });
        let snapshot = snapshot.into_inner();
        for id in green_threads {
            let member = snapshot.get(*id).unwrap();
            assert_eq!((member.parent, member.scope), (Some(scope.id), Some(scope.id)));
        }
        let future = snapshot.get(green_threads[1]).unwrap().future.as_deref();
        assert!(future.unwrap().contains("joins_scopes_parents_and_timers"), "{future:?}");
        // The tree has the members below the owner of the scope, and that below this thread.
        let tree = snapshot.tree();
        let depth = |id: u64| {
            let line = tree.lines().find(|line| line.trim_start().starts_with(&format!("green thread {id}")));
            let line = line.unwrap_or_else(|| panic!("{id} is not in the tree: {tree}"));
            line.len() - line.trim_start().len()
        };
        assert_eq!((depth(me), depth(scope.id), depth(green_threads[0])), (0, 2, 4), "{tree}");
        assert_eq!(tree.matches("(in its scope)").count(), 2, "{tree}");
        cancel.cancel();
        joins.join().unwrap();
        scopes.cancel();
        let _ = scopes.join();
    });
}

#[test]
fn a_wait_that_time_may_end_says_so() {
    on_tracked(|| {
        let timed = named("timed", || {
            let _ = runtime::time::timeout(HOUR, thread::park);
        });
        let wait = parked("timed", Reason::Unpark).wait.unwrap();
        assert!(wait.may_end && wait.due_in.is_some_and(|due| due > HOUR / 2), "{wait:?}");
        let (context, cancel) = runtime::context::Context::background().with_cancel();
        let in_context = named("in a context", move || _ = context.run(thread::park));
        let wait = parked("in a context", Reason::Unpark).wait.unwrap();
        assert!(wait.may_end && wait.due_in.is_none(), "{wait:?}");
        cancel.cancel();
        in_context.join().unwrap();
        // Two waits have two numbers; one wait keeps its number.
        let parks = named("parks", || (0..2).for_each(|_| thread::park()));
        let first = parked("parks", Reason::Unpark).wait.unwrap().number;
        assert_eq!(first, parked("parks", Reason::Unpark).wait.unwrap().number);
        parks.thread().unpark();
        wait_until("the second wait", || parked("parks", Reason::Unpark).wait.unwrap().number != first);
        parks.thread().unpark();
        parks.join().unwrap();
        timed.cancel();
        let _ = timed.join();
    });
}

#[test]
fn sockets_have_their_addresses() {
    on_tracked(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = named("accepts", move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0]);
        });
        #[cfg(unix)]
        {
            let Object::Descriptor { local, peer, to_write, .. } = object("accepts", Reason::Socket) else {
                panic!()
            };
            assert_eq!((local, peer, to_write), (Some(address.to_string()), None, false));
        }
        let client = TcpStream::connect(address).unwrap();
        #[cfg(unix)]
        {
            let peer = client.local_addr().unwrap().to_string();
            wait_until("the server reads", || {
                object("accepts", Reason::Socket) == object("accepts", Reason::Socket)
                    && matches!(object("accepts", Reason::Socket), Object::Descriptor { peer: Some(p), .. } if p == peer)
            });
        }
        drop(client);
        server.join().unwrap();
        let (full, deaf) = tests::sockets::full();
        let writer = named("writes", move || while (&full).write_all(&[0; 100]).is_ok() {});
        #[cfg(unix)]
        {
            let object = object("writes", Reason::Socket);
            assert!(matches!(object, Object::Descriptor { to_write: true, .. }), "{object:?}");
        }
        drop(deaf);
        writer.join().unwrap();
    });
}

#[test]
fn equal_green_threads_stand_in_one_group() {
    on_tracked(|| {
        let all: Vec<_> = (0..20).map(|i| named(&format!("twin {i}"), thread::park)).collect();
        for i in 0..20 {
            parked(&format!("twin {i}"), Reason::Unpark);
        }
        let text = Snapshot::take().unwrap().grouped();
        let group = text.lines().find(|line| line.starts_with("20 green threads: waits for an unpark, for "));
        assert!(group.is_some_and(|line| line.contains(&format!(", spawned at {}:", file!()))), "{text}");
        // Sixteen ids are enough.
        let ids = text.lines().find(|line| line.contains("ids: ")).unwrap();
        assert!(ids.ends_with(", ..") && ids.matches(", ").count() == 16, "{ids}");
        all.iter().for_each(|thread| thread.thread().unpark());
        all.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_comparison_has_only_what_was_not_there() {
    // Snapshots show the green threads of other tests, too.
    tests::alone!();
    on_tracked(|| {
        #[inline(never)]
        fn parks_here() {
            thread::park();
        }
        let old = named("old", thread::park);
        parked("old", Reason::Unpark);
        let before = Snapshot::take().unwrap();
        let new = [(); 2].map(|()| named("new", parks_here));
        let are_parked = |snapshot: &Snapshot| {
            let waits =
                |thread: &&GreenThread| thread.wait.as_ref().is_some_and(|wait| wait.number.is_some());
            snapshot.green_threads.iter().filter(waits).count() == 2
        };
        let found = RefCell::new(Snapshot::default());
        wait_until("both are parked", || {
            *found.borrow_mut() = Snapshot::take().unwrap().since(&before);
            are_parked(&found.borrow())
        });
        let found = found.take();
        let names: Vec<_> = found.green_threads.iter().map(|thread| thread.name.as_deref()).collect();
        assert_eq!(names, [Some("new"); 2]);
        assert!(found.to_string().ends_with("2 green threads\n"));
        assert!(found.grouped().starts_with("2 green threads: waits for an unpark"), "{}", found.grouped());
        // Only their stack is left, and they still have it.
        if cfg!(feature = "dump-stacks") {
            assert_eq!(found.stacks.len(), 1, "{:?}", found.stacks);
            for thread in &found.green_threads {
                let has = found.stack(thread).iter().any(|frame| frame.function.contains("parks_here"));
                assert!(has, "{:?}", found.stack(thread));
            }
        }
        assert!(before.since(&Snapshot::take().unwrap()).green_threads.is_empty(), "all of them live");
        let later = Snapshot::take().unwrap();
        assert!(later.since(&later).green_threads.is_empty());
        for thread in new.into_iter().chain([old]) {
            thread.cancel();
            assert!(thread.join().is_err());
        }
        assert_eq!(later.since(&before).green_threads.len(), 2, "a snapshot stays as it is");
    });
}
