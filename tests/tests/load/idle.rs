//! Idleness: thousands of sleeping or waiting green threads cost no CPU time, and no OS thread wakes without
//! a reason.
#![cfg(target_os = "linux")]

use std::io::Read;
use std::time::Duration;

use runtime::net::{TcpListener, TcpStream};
use runtime::spawn;
use tests::{child, system, with};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn ten_thousand_sleepers_cost_nothing() {
    child::passes("ten_thousand_sleepers_cost_nothing", "", || {
        with(2, |runtime| {
            runtime.block_on(|| {
                for i in 0..10_000 {
                    if i % 2 == 0 {
                        spawn(|| runtime::sleep(HOUR));
                    } else {
                        spawn(runtime::time::sleep_async(HOUR));
                    }
                }
            });
            is_quiet_for(runtime, Duration::from_secs(3));
        });
    });
}

#[test]
fn open_connections_cost_nothing() {
    child::passes("open_connections_cost_nothing", "", || {
        with(2, |runtime| {
            let _clients = runtime.block_on(|| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let addr = listener.local_addr().unwrap();
                let clients: Vec<_> = (0..200)
                    .map(|_| {
                        let client = TcpStream::connect(addr).unwrap();
                        let (mut server, _) = listener.accept().unwrap();
                        spawn(move || server.read(&mut [0; 8]).map(drop));
                        client
                    })
                    .collect();
                clients
            });
            is_quiet_for(runtime, Duration::from_secs(2));
        });
    });
}

#[test]
fn a_green_thread_that_blocks_for_long_costs_nothing() {
    child::passes("a_green_thread_that_blocks_for_long_costs_nothing", "", || {
        with(2, |runtime| {
            let (end, ends) = std::sync::mpsc::channel::<()>();
            let blocked = runtime.spawn(move || runtime::blocking(|| ends.recv().is_err()));
            is_quiet_for(runtime, Duration::from_secs(2));
            drop(end);
            assert!(blocked.join().unwrap());
        });
    });
}

/// Code of the user may have the handle that std has for the OS thread of an M. An `unpark` by it once woke
/// the M.
#[test]
fn unparks_of_users_wake_no_os_thread_of_the_runtime() {
    child::passes("unparks_of_users_wake_no_os_thread_of_the_runtime", "", || {
        with(2, |runtime| {
            let names = || (std::thread::sleep(Duration::from_micros(100)), std::thread::current()).1;
            let threads: Vec<_> = (0..100).map(|_| runtime.spawn(names)).collect();
            let threads: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            settles(runtime);
            let before = system::sleeps("green-");
            for _ in 0..100 {
                threads.iter().for_each(std::thread::Thread::unpark);
                std::thread::sleep(Duration::from_millis(1));
            }
            let more = system::sleeps("green-") - before;
            assert!(more <= 10, "OS threads of the runtime went to sleep {more} times");
        });
    });
}

fn is_quiet_for(runtime: &runtime::Runtime, time: Duration) {
    settles(runtime);
    let (cpu, before) = (system::cpu_time(), runtime.handle().metrics());
    std::thread::sleep(time);
    let cpu = system::cpu_time() - cpu;
    let after = runtime.handle().metrics();
    let wakes = after.sysmon_wakeups - before.sysmon_wakeups;
    let polls = after.net_polls - before.net_polls;
    eprintln!("is_quiet_for {time:?}: {cpu:?} of CPU, {wakes} wake-ups of sysmon, {polls} polls");
    assert!(cpu < Duration::from_millis(5), "{cpu:?} of CPU");
    assert!(wakes <= 3 && polls <= 3, "{wakes} wake-ups of sysmon, {polls} polls");
}

/// Waits until spawned threads have begun, the poller blocks, and sysmon sleeps. A busy machine delays that.
fn settles(runtime: &runtime::Runtime) {
    let wakes = || runtime.handle().metrics().sysmon_wakeups;
    let asleep = || {
        let before = wakes();
        std::thread::sleep(Duration::from_millis(300));
        wakes() == before
    };
    assert!((0..100).any(|_| asleep()), "sysmon does not go to sleep");
}
