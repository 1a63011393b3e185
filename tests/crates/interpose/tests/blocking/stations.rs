//! An M that sleeps where the descriptors of its green threads are: whatever it is needed for wakes it,
//! without a sysmon that would look after it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;
use runtime::{Builder, Migration, Runtime, channel};

const ROUNDS: usize = 2_000;

fn runtime_of(procs: usize, migration: Migration) -> Runtime {
    Builder::new().procs(procs).migration(migration).sysmon(false).build().unwrap()
}

fn here() -> ThreadId {
    std::thread::current().id()
}

/// Echoes bytes until the end.
fn echo(mut stream: UnixStream) {
    let mut byte = [0];
    while stream.read(&mut byte).unwrap() == 1 {
        stream.write_all(&byte).unwrap();
    }
}

fn ask(stream: &mut UnixStream) {
    stream.write_all(&[7]).unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

/// Green threads on one or several OS threads, and a plain OS thread, answer each other.
#[test]
fn each_byte_wakes_its_reader() {
    let _watchdog = Watchdog::new();
    for (procs, migration) in [
        (1, Migration::Anytime),
        (2, Migration::Anytime),
        (2, Migration::BeforeStart),
        (8, Migration::BeforeStart),
    ] {
        let runtime = runtime_of(procs, migration);
        let mut threads = Vec::new();
        for _ in 0..4 {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            threads.push(runtime.spawn(move || echo(theirs)));
            threads.push(runtime.spawn(move || (0..ROUNDS).for_each(|_| ask(&mut ours))));
        }
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        threads.push(runtime.spawn(move || echo(theirs)));
        (0..ROUNDS).for_each(|_| ask(&mut ours));
        drop(ours);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Two green threads of one OS thread: one waits for a descriptor, and the other for a message, which comes
/// from outside.
#[test]
fn a_message_wakes_an_os_thread_that_waits_for_a_descriptor() {
    let _watchdog = Watchdog::new();
    // With 2 Ps one OS thread also waits for the timers and sockets of the runtime, and the other does not.
    for procs in [1, 2] {
        let runtime = runtime_of(procs, Migration::BeforeStart);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let reader = runtime.spawn(move || echo(theirs));
        let (to_adder, numbers) = channel::bounded::<usize>(0);
        let (to_us, sums) = channel::bounded::<usize>(0);
        let adder = runtime.spawn(move || numbers.iter().for_each(|number| to_us.send(number + 1).unwrap()));
        for round in 0..ROUNDS {
            to_adder.send(round).unwrap();
            assert_eq!(sums.recv(), Ok(round + 1));
            if round % 3 == 0 {
                ask(&mut ours);
            }
        }
        drop((ours, to_adder));
        reader.join().unwrap();
        adder.join().unwrap();
    }
}

/// A timer of the runtime fires while its OS threads wait for descriptors, and a time-out and a cancellation
/// end such a wait.
#[test]
fn timers_fire_while_all_wait_for_descriptors() {
    let _watchdog = Watchdog::new();
    for procs in [1, 2] {
        let runtime = runtime_of(procs, Migration::BeforeStart);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let silent = theirs.try_clone().unwrap();
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let mut stream = silent.try_clone().unwrap();
                runtime.spawn(move || stream.read(&mut [0]))
            })
            .collect();
        runtime
            .spawn(move || {
                for _ in 0..200 {
                    let start = Instant::now();
                    runtime::sleep(Duration::from_millis(1));
                    assert!(start.elapsed() >= Duration::from_millis(1));
                    theirs.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                    assert_eq!((&theirs).read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
                }
                theirs.set_read_timeout(None).unwrap();
            })
            .join()
            .unwrap();
        readers[3].cancel();
        ours.write_all(&[1, 2, 3]).unwrap();
        let results: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        assert_eq!(results.iter().filter(|result| matches!(result, Ok(Ok(1)))).count(), 3, "{results:?}");
    }
}

/// A pinned green thread sleeps with its OS thread.
#[test]
fn a_pinned_reader_is_woken() {
    let _watchdog = Watchdog::new();
    let runtime = runtime_of(2, Migration::Anytime);
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let reader = runtime.spawn(move || {
        let _pinned = runtime::thread::pin();
        echo(theirs);
    });
    (0..ROUNDS).for_each(|_| ask(&mut ours));
    drop(ours);
    reader.join().unwrap();
}

/// The time of a call is up while another green thread computes on its OS thread. The byte came in time, so
/// the call returns it.
#[test]
fn a_byte_that_came_in_time_is_received_late() {
    let _watchdog = Watchdog::new();
    // Which OS thread a green thread starts on depends on the load of the machine.
    let late = (0..400).filter(|_| is_received_late()).take(8).count();
    assert_eq!(late, 8, "so few of 400 green threads computed on the OS thread of the reader");
}

/// Returns `true` if a green thread computed on the reader's OS thread until after its time.
fn is_received_late() -> bool {
    const LIMIT: Duration = Duration::from_millis(30);
    let builder = Builder::new().procs(1).migration(Migration::BeforeStart);
    let runtime = builder.thread_locals(runtime::ThreadLocals::OfOsThread).build().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(LIMIT)).unwrap();
    let (begin, begun) = channel::bounded(1);
    let reader = runtime.spawn(move || {
        begin.send((here(), Instant::now())).unwrap();
        theirs.read(&mut [0]).map_err(|error| error.kind())
    });
    let (reads_on, start) = begun.recv().unwrap();
    let ours = Arc::new(ours);
    let computes = || {
        let ours = ours.clone();
        let hog = move || {
            let mine = here() == reads_on && start.elapsed() < LIMIT / 2;
            if mine {
                (&*ours).write_all(&[1]).unwrap();
                while start.elapsed() < 2 * LIMIT {}
            }
            mine
        };
        runtime.spawn(hog).join().unwrap()
    };
    let computed = (0..20).any(|_| computes());
    let read = reader.join().unwrap();
    assert!(!computed || read == Ok(1), "{read:?}");
    computed
}
