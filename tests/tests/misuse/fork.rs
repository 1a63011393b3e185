//! Children of `fork` that do not exec: such a child has a single thread and no scheduler. Calls that need no
//! scheduler work. Calls that would start or await a green thread are refused, and none hangs. `Command`
//! works on every thread.
#![cfg(unix)]

use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::time::{sleep_async, timeout};
use runtime::{Handle, Runtime, spawn, thread};
use tests::{PROCS, calls, child, on, panics_with, runtime, wait_until};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const FORKED: &str = "this process was forked from one that runs green threads";

/// Forks and runs `main` in the child, which exits silently. Returns how the child ended.
fn fork_and(main: impl FnOnce()) -> ExitStatus {
    // SAFETY: the child uses only what a single thread may use after a fork, and ends with `_exit` or
    // `abort`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        let code = if catch_unwind(AssertUnwindSafe(main)).is_ok() { 0 } else { 1 };
        // SAFETY: `_exit` ends the process and takes no pointer.
        unsafe { libc::_exit(code) }
    }
    runtime::blocking(|| ends(pid))
}

/// Waits for the end of process `pid` and returns its status. Panics after 20 s.
fn ends(pid: libc::pid_t) -> ExitStatus {
    // Zero and negative numbers name groups of processes, which must not be killed.
    assert!(pid > 0, "the fork has failed");
    let start = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: `waitpid` writes to `status`, which is exclusively borrowed.
        if unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == pid {
            return ExitStatus::from_raw(status);
        }
        if start.elapsed() > Duration::from_secs(20) {
            // SAFETY: `kill` takes no pointer, and `pid` is a child of this process.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(MILLI);
    }
}

/// What the child inherits from a parent with green threads and sockets in use.
struct Parent {
    handle: Handle,
    runtime: RefCell<Option<Runtime>>,
    sleeper: RefCell<Option<thread::JoinHandle<()>>>,
    ended: RefCell<Option<thread::JoinHandle<u32>>>,
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

impl Parent {
    fn new(runtime: Runtime) -> Self {
        let handle = runtime.handle();
        let sleeper = handle.spawn(|| runtime::sleep(HOUR));
        let ended = handle.spawn(|| 7);
        wait_until("the thread has ended", || ended.is_finished());
        let (listener, client, server) = handle.block_on(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let server = listener.accept().unwrap().0;
            (listener, client, server)
        });
        let (sleeper, ended) = (RefCell::new(Some(sleeper)), RefCell::new(Some(ended)));
        Parent { handle, runtime: RefCell::new(Some(runtime)), sleeper, ended, listener, client, server }
    }

    /// Makes all calls that a child may try, on any kind of thread.
    fn meets_a_child(&self) {
        self.what_needs_nothing_works();
        self.what_would_start_or_wait_is_refused();
        self.a_refused_wait_is_in_no_queue();
        self.what_is_kept_is_let_go();
    }

    fn what_needs_nothing_works(&self) {
        assert_eq!(thread::current().id(), thread::current().id());
        let _ = thread::current().name();
        thread::yield_now();
        let start = Instant::now();
        runtime::sleep(MILLI);
        thread::park_timeout(MILLI);
        assert!(start.elapsed() >= MILLI);
        thread::current().unpark();
        thread::park();
        assert_eq!(runtime::blocking(|| 7), 7);
        drop(thread::pin());
        assert!(!thread::cancelled());
        assert_eq!(timeout(MILLI, || 7), Ok(7));
        assert!(timeout(MILLI, || runtime::sleep(HOUR)).is_err());
        runtime::thread_local!(static NUMBER: std::cell::Cell<u32> = const { std::cell::Cell::new(7) });
        assert_eq!(NUMBER.replace(8), 7);
        assert_eq!(runtime::scope(|_| 7), 7);
        assert!(Handle::try_current().is_none());
        assert!(self.handle.procs() >= 1);
        let sleeper = self.sleeper.borrow();
        let sleeper = sleeper.as_ref().unwrap();
        assert!(!sleeper.is_finished());
        sleeper.thread().unpark();
        sleeper.cancel();
        assert_eq!(self.ended.take().unwrap().join().unwrap(), 7);
        // A socket can be read and written as long as it need not wait.
        assert!((&self.client).read(&mut [0; 64]).unwrap() >= 1);
        (&self.client).write_all(b"y").unwrap();
        assert!(self.listener.local_addr().is_ok());
    }

    fn what_would_start_or_wait_is_refused(&self) {
        panics_with(FORKED, || spawn(|| ()));
        panics_with(FORKED, || spawn(async {}));
        panics_with(FORKED, || self.handle.spawn(|| ()));
        panics_with(FORKED, || runtime::block_on(|| ()));
        panics_with(FORKED, || runtime::block_on(async {}));
        panics_with(FORKED, || self.handle.block_on(|| ()));
        panics_with(FORKED, || runtime::scope(|s| s.spawn(|| ()).join().unwrap()));
        panics_with(FORKED, thread::park);
        panics_with(FORKED, || self.handle.metrics());
        panics_with(FORKED, runtime::metrics::snapshot);
        let is_forked = |error: std::io::Error| {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(FORKED));
        };
        is_forked(thread::Builder::new().spawn(|| ()).unwrap_err());
        is_forked(Runtime::new().unwrap_err());
        is_forked(self.handle.set_procs(2).unwrap_err());
        is_forked(TcpListener::bind("127.0.0.1:0").unwrap_err());
        is_forked(TcpStream::connect(self.listener.local_addr().unwrap()).unwrap_err());
        is_forked((&self.client).read(&mut [0]).unwrap_err());
        let mut cx = Context::from_waker(Waker::noop());
        let mut sleeper = self.sleeper.take().unwrap();
        panics_with(FORKED, || drop(Pin::new(&mut sleeper).poll(&mut cx)));
        panics_with(FORKED, || sleeper.join());
        let mut sleep = Box::pin(sleep_async(HOUR));
        panics_with(FORKED, || sleep.as_mut().poll(&mut cx).is_ready());
        assert!(Box::pin(sleep_async(Duration::ZERO)).as_mut().poll(&mut cx).is_ready());
    }

    /// A wait that is refused leaves its queue, also if its deadline is beyond the clock's range.
    fn a_refused_wait_is_in_no_queue(&self) {
        const NEVER: Duration = Duration::from_secs(1 << 40);
        let channels = [runtime::channel::bounded(1), runtime::channel::bounded(0)];
        for (sender, receiver) in &channels {
            panics_with(FORKED, || receiver.recv());
            panics_with(FORKED, || receiver.recv_timeout(NEVER));
            // A waiter that is still queued would be given the message.
            assert_eq!(sender.try_send(7).is_ok(), sender.capacity() == Some(1));
            assert_eq!(receiver.try_recv().is_ok(), sender.capacity() == Some(1));
        }
        let pair = (runtime::sync::Mutex::new(()), runtime::sync::Condvar::new());
        panics_with(FORKED, || pair.1.wait_for(&mut pair.0.lock(), NEVER));
        assert!(!pair.1.notify_one() && !pair.0.is_locked());
    }

    fn what_is_kept_is_let_go(&self) {
        let runtime = self.runtime.take().unwrap();
        let start = Instant::now();
        assert!(!runtime.shutdown_timeout(HOUR), "the child has no green threads to wait for");
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    /// Checks the parent after its children: it is not disturbed.
    fn goes_on(self) {
        self.handle.block_on(|| {
            let start = Instant::now();
            runtime::sleep(MILLI);
            assert!(start.elapsed() >= MILLI);
            // The first child has written a byte and read the byte that was there. Later children found the
            // byte that each round writes.
            let mut bytes = [0; 64];
            assert!((&self.server).read(&mut bytes).unwrap() >= 1);
            (&self.server).write_all(b"z").unwrap();
            assert!((&self.client).read(&mut bytes).unwrap() >= 1);
            assert_eq!(spawn(|| 7).join().unwrap(), 7);
        });
        let sleeper = self.sleeper.take().unwrap();
        assert!(!sleeper.is_finished());
        assert!(self.runtime.take().unwrap().shutdown_timeout(Duration::from_secs(20)));
        assert!(sleeper.join().unwrap_err().is::<thread::Cancelled>());
    }
}

/// Keeps the runtime busy, so that queues, timers and sockets are in use at the moment of a fork.
fn load(handle: &Handle) {
    for i in 0..8 {
        handle.spawn(move || {
            while !thread::cancelled() {
                match i % 4 {
                    0 => runtime::sleep(Duration::from_micros(50)),
                    1 => drop(spawn(|| ()).join()),
                    2 => drop(TcpListener::bind("127.0.0.1:0").unwrap()),
                    _ => thread::yield_now(),
                }
            }
        });
    }
}

#[test]
fn a_fork_from_a_plain_thread() {
    for procs in PROCS {
        child::passes("a_fork_from_a_plain_thread", &procs.to_string(), || {
            let parent = Parent::new(runtime(procs));
            load(&parent.handle);
            for _ in 0..5 {
                // The child takes nothing from the parent except bytes of the socket.
                (&parent.server).write_all(b"x").unwrap();
                assert_eq!(fork_and(|| parent.meets_a_child()).into_raw(), 0);
            }
            parent.goes_on();
        });
    }
}

#[test]
fn a_fork_from_a_green_thread() {
    for procs in PROCS {
        child::passes("a_fork_from_a_green_thread", &procs.to_string(), || {
            on(procs, || {
                let parent = Parent::new(runtime(procs));
                load(&parent.handle);
                load(&Handle::current());
                for _ in 0..5 {
                    (&parent.server).write_all(b"x").unwrap();
                    assert_eq!(fork_and(|| parent.meets_a_child()).into_raw(), 0);
                    thread::yield_now();
                }
                parent.goes_on();
            });
        });
    }
}

/// A fork inside a scope, a poll or `blocking`: in the child only the forking thread's code goes on.
#[test]
fn a_fork_inside_a_scope_a_poll_and_blocking() {
    child::passes("a_fork_inside_a_scope_a_poll_and_blocking", "", || {
        on(2, || {
            // The scope's threads do not exist in the child.
            let status = fork_in(|forks| {
                runtime::scope(|s| {
                    let other = s.spawn(thread::park);
                    runtime::sleep(MILLI);
                    forks();
                    other.thread().unpark();
                });
            });
            assert_eq!(status.code(), Some(1), "the child panics at the end of the scope");
            // A future that forks in its poll and waits afterwards.
            let status = fork_in(|forks| {
                runtime::block_on(async {
                    let time = if forks() { HOUR } else { MILLI };
                    sleep_async(time).await;
                });
            });
            assert_eq!(status.code(), Some(1));
            // Calls that need no other thread succeed.
            let status = fork_in(|forks| {
                let _pinned = thread::pin();
                let _ = runtime::blocking(|| timeout(HOUR, forks)).unwrap();
                runtime::sleep(MILLI);
            });
            assert!(status.success());
        });
    });
}

/// Runs `main`. Its argument forks and returns `true` in the child. Both processes go on. Returns how the
/// child ended.
fn fork_in(main: impl FnOnce(&(dyn Fn() -> bool + Sync))) -> ExitStatus {
    let pid = AtomicUsize::new(0);
    let forks = || {
        // SAFETY: see `fork_and`.
        pid.store(unsafe { libc::fork() } as usize, SeqCst);
        pid.load(SeqCst) == 0
    };
    let ended = catch_unwind(AssertUnwindSafe(|| main(&forks)));
    let pid = pid.load(SeqCst);
    if pid == 0 {
        // SAFETY: `_exit` ends the process and takes no pointer.
        unsafe { libc::_exit(if ended.is_ok() { 0 } else { 1 }) }
    }
    ended.unwrap();
    runtime::blocking(|| ends(pid as libc::pid_t))
}

/// A child that reaches the end of its green thread cannot go on: it prints a message and aborts.
#[test]
fn a_child_that_returns_from_its_green_thread() {
    struct Forks(usize);
    impl Future for Forks {
        type Output = usize;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<usize> {
            // SAFETY: see `fork_and`.
            match unsafe { libc::fork() } {
                0 if self.0 == 0 => Poll::Pending,
                pid => Poll::Ready(pid as usize),
            }
        }
    }
    for case in ["returns", "panics", "pends", "is ready"] {
        let body = || {
            let _dog = tests::Watchdog::new();
            tests::quiet_panics_on_purpose();
            let pid = on_two(move || {
                // SAFETY: see `fork_and`.
                let fork = || unsafe { libc::fork() } as usize;
                let thread = match case {
                    "returns" => spawn(fork),
                    "panics" => spawn(move || match fork() {
                        0 => panic!("{}", tests::ON_PURPOSE),
                        pid => pid,
                    }),
                    "pends" => spawn(Forks(0)),
                    _ => spawn(Forks(1)),
                };
                load(&Handle::current());
                thread.join().unwrap()
            });
            assert_eq!(ends(pid as libc::pid_t).signal(), Some(libc::SIGABRT), "{case}");
        };
        child::run("a_child_that_returns_from_its_green_thread", case, body, |output| {
            assert!(output.status.success(), "{case}: {}", child::text(output));
            let said = child::stderr(output);
            assert!(said.contains("forked") && said.contains("exec or _exit"), "{case}: {said}");
        });
    }
}

fn on_two<T: Send>(main: impl FnOnce() -> T + Send) -> T {
    runtime(2).block_on(main)
}

/// A process that has never had a runtime may fork. Parent and child can then start runtimes.
#[test]
fn a_fork_before_the_first_runtime() {
    child::passes("a_fork_before_the_first_runtime", "", || {
        thread::park_timeout(MILLI);
        let works = || calls::everything().for_each(|(_, call)| call());
        assert!(fork_and(works).success());
        works();
        // With a runtime, a child of a fork is refused.
        assert!(fork_and(|| panics_with(FORKED, || spawn(|| ()))).success());
    });
}

#[test]
fn commands_from_green_threads() {
    child::passes("commands_from_green_threads", "", || {
        for procs in PROCS {
            on(procs, || {
                load(&Handle::current());
                let ran = Arc::new(AtomicUsize::new(0));
                let threads: Vec<_> = (0..20u32)
                    .map(|i| {
                        let ran = ran.clone();
                        spawn(move || {
                            let mut command = Command::new("/bin/sh");
                            command.args(["-c", &format!("cat; exit {i}")]);
                            command.stdin(Stdio::piped()).stdout(Stdio::piped());
                            if i % 2 == 0 {
                                // With `pre_exec`, `Command` forks, and the child makes some calls before
                                // exec.
                                let before_exec = || {
                                    thread::yield_now();
                                    assert!(!thread::cancelled());
                                    Ok(())
                                };
                                // SAFETY: the closure neither allocates nor takes a lock.
                                unsafe { command.pre_exec(before_exec) };
                            }
                            let mut process = command.spawn().unwrap();
                            process.stdin.take().unwrap().write_all(b"hello").unwrap();
                            let output = process.wait_with_output().unwrap();
                            assert_eq!(
                                (output.stdout, output.status.code()),
                                (b"hello".to_vec(), Some(i as i32))
                            );
                            ran.fetch_add(1, SeqCst);
                        })
                    })
                    .collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                assert_eq!(ran.load(SeqCst), 20);
            });
        }
    });
}
