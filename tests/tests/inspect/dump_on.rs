//! Dumps on a signal: they come while green threads keep every P, and hide no deadlock.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use runtime::{Builder, thread};
use tests::{Watchdog, child, wait_until};

const CHILD: &str = "TESTS_DUMP_ON";

/// Runs this test once more in a child, with `RUNTIME_DUMP=QUIT`. Returns the child. Its stderr is a pipe.
fn child_of(test: &str) -> Child {
    let mut command = child::command(test);
    command.env(CHILD, "1").env("RUNTIME_DUMP", "QUIT").stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

fn send_quit(child: &Child) {
    let kill = format!("kill -QUIT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[inline(never)]
fn parks_for_ever() {
    thread::park();
}

/// Parks a green thread, and lets others keep both Ps.
fn hogs_all() {
    let runtime = Builder::new().procs(2).build().unwrap();
    let parked = runtime.spawn(parks_for_ever);
    wait_until("the thread is parked", || {
        let mut text = Vec::new();
        runtime::dump(&mut text).unwrap();
        String::from_utf8(text).unwrap().contains("waits for an unpark")
    });
    let started = std::sync::atomic::AtomicUsize::new(0);
    let started: &'static _ = Box::leak(Box::new(started));
    for _ in 0..2 {
        runtime.spawn(|| {
            started.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            loop {
                std::hint::spin_loop();
            }
        });
    }
    wait_until("both Ps are kept", || started.load(std::sync::atomic::Ordering::SeqCst) == 2);
    eprintln!("all Ps are kept");
    let _ = parked.join();
}

/// Overflows its stack.
#[inline(never)]
#[allow(unconditional_recursion, reason = "it overflows its stack")]
fn endless(n: u64) -> u64 {
    let frame = std::hint::black_box([n; 64]);
    endless(n + 1) + std::hint::black_box(frame[(n % 64) as usize])
}

#[test]
fn a_fatal_overflow_writes_a_dump_if_one_was_asked_for() {
    for asked in [true, false] {
        child::run(
            "a_fatal_overflow_writes_a_dump_if_one_was_asked_for",
            if asked { "asked" } else { "not asked" },
            || {
                let mut builder = Builder::new().procs(2);
                if asked {
                    builder = builder.dump_on(runtime::signal::SIGQUIT);
                }
                builder.build().unwrap().block_on(|| {
                    let parked = thread::Builder::new().name("parked".into()).spawn(parks_for_ever).unwrap();
                    runtime::sleep(std::time::Duration::from_millis(50));
                    let deep = thread::Builder::new().name("deep".into()).spawn(|| endless(0)).unwrap();
                    let _ = (deep.join(), parked.join());
                });
            },
            |output| {
                let said = child::stderr(output);
                let overflow = said.find("has overflowed its stack").unwrap();
                let dump = said.find("'parked': waits for an unpark");
                assert_eq!(dump.is_some_and(|dump| dump > overflow), asked, "{said}");
                assert_eq!(said.contains("'deep': running, spawned at "), asked, "{said}");
                assert_eq!(said.trim_end().ends_with("3 green threads"), asked, "{said}");
                assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(6), "{said}");
            },
        );
    }
}

#[test]
fn a_signal_writes_a_dump_while_all_ps_are_kept() {
    const TEST: &str = "a_signal_writes_a_dump_while_all_ps_are_kept";
    let _dog = Watchdog::new();
    if std::env::var_os(CHILD).is_some() {
        return hogs_all();
    }
    let mut child = child_of(TEST);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "all Ps are kept"));
    // The process goes on: a second signal gives a second dump.
    for _ in 0..2 {
        send_quit(&child);
        let dump: Vec<_> = lines.by_ref().take_while(|line| line != "3 green threads").collect();
        assert_eq!(
            dump.iter().filter(|line| line.contains(": running, spawned at ")).count(),
            2,
            "{dump:#?}"
        );
        assert_eq!(dump.iter().filter(|line| line.contains(": waits for an unpark")).count(), 1, "{dump:#?}");
        let stacks = cfg!(all(feature = "dump-stacks", target_os = "linux", target_arch = "x86_64"));
        assert_eq!(dump.iter().any(|line| line.ends_with("parks_for_ever")), stacks, "{dump:#?}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn waiting_for_the_signal_hides_no_deadlock() {
    let _dog = Watchdog::new();
    let mut program = child::program(env!("CARGO_BIN_EXE_deadlock"));
    program.arg("own-mutex").env("RUNTIME_DUMP", "QUIT").env("RUST_BACKTRACE", "0");
    let text = child::text(&program.output().unwrap());
    assert!(
        text.contains("all green threads are asleep - deadlock!") && text.contains("waits for a mutex"),
        "{text}"
    );
}

#[test]
fn the_program_may_choose_the_signal() {
    use runtime::signal::{SIGKILL, SIGUSR1};
    let error = Builder::new().dump_on(SIGKILL).build().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    drop(Builder::new().dump_on(SIGUSR1).build().unwrap());
}

/// If the messages of a service thread cannot be written, it goes on: later messages are written once stderr
/// takes them.
#[test]
#[cfg(target_os = "linux")]
fn a_stderr_that_is_full_ends_no_thread() {
    use runtime::sync::Mutex;
    use std::io::Read;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// Lets stderr be `fd`.
    fn turn_stderr_to(fd: &impl AsRawFd) {
        // SAFETY: both descriptors are open.
        assert_eq!(unsafe { libc::dup2(fd.as_raw_fd(), 2) }, 2);
    }

    /// Returns a green thread that waits for itself. The search reports that.
    fn waits_for_itself(name: &str) -> runtime::JoinHandle<()> {
        let waits = || {
            let mutex = Mutex::new(());
            let _guard = mutex.lock();
            drop(mutex.lock());
        };
        thread::Builder::new().name(name.into()).spawn(waits).unwrap()
    }

    fn asks_for_dump() {
        // SAFETY: a thread of the runtime handles this signal.
        assert_eq!(unsafe { libc::raise(libc::SIGQUIT) }, 0);
    }

    child::passes("a_stderr_that_is_full_ends_no_thread", "full", || {
        let mut builder = Builder::new().procs(2).dump_on(runtime::signal::SIGQUIT);
        builder = builder.find_deadlocks(Duration::from_millis(20));
        builder.build().unwrap().block_on(|| {
            let before = std::io::stderr().as_raw_fd();
            // SAFETY: stderr is open.
            let before = unsafe { OwnedFd::from_raw_fd(libc::dup(before)) };
            turn_stderr_to(&std::fs::File::options().write(true).open("/dev/full").unwrap());
            let first = waits_for_itself("in vain");
            for _ in 0..2 {
                asks_for_dump();
                runtime::sleep(Duration::from_millis(200));
            }
            let (mut text, written) = UnixStream::pair().unwrap();
            turn_stderr_to(&written);
            let second = waits_for_itself("is told");
            asks_for_dump();
            let (mut told, mut bytes) = (String::new(), [0; 4096]);
            while !(told.contains("runtime: deadlock: ") && told.contains("3 green threads")) {
                let n = runtime::blocking(|| text.read(&mut bytes)).unwrap();
                told.push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
            turn_stderr_to(&before);
            [first, second].into_iter().for_each(|thread| {
                thread.cancel();
                assert!(thread.join().is_err());
            });
        });
    });
}
