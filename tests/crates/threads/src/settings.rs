//! Names, ids and sizes of threads.

use std::collections::HashSet;
use std::sync::mpsc;
use std::thread;

pub fn run() {
    println!("{:?}", thread::current().name());
    let with_name = |name: &str| {
        let builder = thread::Builder::new().name(name.into()).stack_size(64 << 10);
        builder.spawn(|| thread::current().name().map(str::to_string)).unwrap()
    };
    for name in ["short", "a name of more than fifteen bytes"] {
        let thread = with_name(name);
        println!("{:?}", thread.thread().name());
        println!("{:?}", thread.join().unwrap());
    }
    println!("{:?}", thread::spawn(|| thread::current().name().is_none()).join().unwrap());
    ids();
    let (sender, receiver) = mpsc::channel();
    let parks = thread::spawn(move || {
        sender.send(thread::current()).unwrap();
        thread::park();
    });
    let handle = receiver.recv().unwrap();
    println!("{}", handle.id() == parks.thread().id());
    println!("{}", parks.is_finished());
    handle.unpark();
    parks.join().unwrap();
}

/// The runtime knows the name of a thread that has begun. Its starter may have been preempted before.
pub fn named_at_once() {
    let is_named = || runtime::thread::current().name() == Some("named");
    let mut named = 0;
    for _ in 0..100 {
        let begin = |_| thread::Builder::new().name("named".into()).spawn(is_named).unwrap();
        let threads: Vec<_> = (0..50).map(begin).collect();
        named += threads.into_iter().filter_map(|thread| thread.join().unwrap().then_some(())).count();
    }
    println!("{named}");
}

/// Each thread has an id of its own, which its handle knows, too.
fn ids() {
    let threads: Vec<_> = (0..100).map(|_| thread::spawn(|| thread::current().id())).collect();
    let ids: HashSet<_> = threads
        .into_iter()
        .map(|thread| {
            let id = thread.thread().id();
            assert_eq!(thread.join().unwrap(), id);
            id
        })
        .collect();
    println!("{} ids, with main's {}", ids.len(), ids.contains(&thread::current().id()));
}
