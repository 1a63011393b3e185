//! The limits of the system: a request beyond a limit gets an error, and no other thread is disturbed.
#![cfg(target_os = "linux")]

use std::io::{self, ErrorKind, Read, Write};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::Builder;
use runtime::trace::{Cause, Event, What};
use runtime::{Handle, JoinHandle, spawn, thread, yield_now};
use tests::system::{self, Limit};
use tests::{PROCS, child, runtime, wait_until};

const HOUR: Duration = Duration::from_secs(3600);
const MIB: usize = 1 << 20;

/// Runs `main` with a runtime of `procs` Ps. Its stacks have the size of those in release builds, also in
/// debug builds.
fn with(procs: usize, main: impl FnOnce(&runtime::Runtime)) {
    tests::with_built(runtime::Builder::new().procs(procs).stack_size(MIB / 4), main);
}

/// Green threads that must not be disturbed: a ticker, and a client with its echo server.
struct Bystanders {
    stop: Arc<AtomicBool>,
    rounds: Arc<[AtomicUsize; 2]>,
    threads: Vec<JoinHandle<()>>,
}

impl Bystanders {
    /// Starts the threads. The caller is a green thread.
    fn start() -> Bystanders {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new([const { AtomicUsize::new(0) }; 2]));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let echo = spawn(move || {
            let mut byte = [0];
            while server.read(&mut byte).unwrap() == 1 {
                server.write_all(&byte).unwrap();
            }
        });
        let (stops, counts) = (stop.clone(), rounds.clone());
        let asks = spawn(move || {
            while !stops.load(SeqCst) {
                client.write_all(&[7]).unwrap();
                client.read_exact(&mut [0]).unwrap();
                counts[0].fetch_add(1, SeqCst);
                yield_now();
            }
        });
        let (stops, counts) = (stop.clone(), rounds.clone());
        let ticks = spawn(move || {
            while !stops.load(SeqCst) {
                runtime::sleep(Duration::from_millis(1));
                counts[1].fetch_add(1, SeqCst);
            }
        });
        let others = Bystanders { stop, rounds, threads: vec![echo, asks, ticks] };
        // Waits until all threads have begun, and have their stacks.
        others.go_on();
        others
    }

    /// Waits until the ticker and the client have made progress.
    fn go_on(&self) {
        let before = [0, 1].map(|i| self.rounds[i].load(SeqCst));
        wait_until("the bystanders go on", || (0..2).all(|i| self.rounds[i].load(SeqCst) > before[i] + 2));
    }

    fn end(self) {
        self.stop.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Spawns sleepers with `spawn_one` until a spawn is refused. Returns the sleepers and the error.
fn until_refused(
    most: usize,
    mut spawn_one: impl FnMut() -> io::Result<JoinHandle<()>>,
) -> (Vec<JoinHandle<()>>, io::Error) {
    let mut threads = Vec::with_capacity(most);
    loop {
        match spawn_one() {
            Ok(thread) => threads.push(thread),
            Err(error) => return (threads, error),
        }
        assert!(threads.len() < most, "{most} were spawned, and no spawn was refused");
    }
}

/// Runs `f`, in which `number` green threads end, and waits until they have left their stacks, which is a
/// moment after their joins.
fn they_leave<T>(number: u64, f: impl FnOnce() -> T) -> T {
    let handle = Handle::current();
    let before = handle.metrics().ended;
    let value = f();
    wait_until("the threads have left their stacks", || handle.metrics().ended >= before + number);
    value
}

fn cancel_all(threads: Vec<JoinHandle<()>>) {
    they_leave(threads.len() as u64, || {
        threads.iter().for_each(JoinHandle::cancel);
        threads.into_iter().for_each(|thread| assert!(thread.join().unwrap_err().is::<thread::Cancelled>()));
    });
}

fn assert_says(error: &io::Error, words: &[&str]) {
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    words.iter().for_each(|words| assert!(error.to_string().contains(words), "{words:?} is not in {error}"));
}

/// Spawns a sleeper and waits until it has begun, so that a refusal comes when the last stack is in use.
fn spawn_gently() -> io::Result<JoinHandle<()>> {
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    let thread = Builder::new().spawn(move || {
        begins.store(true, SeqCst);
        runtime::sleep(HOUR);
    })?;
    wait_until("the sleeper begins", || begun.load(SeqCst));
    Ok(thread)
}

/// Runs into a limit of memory: spawns give errors or panics with the reason. There is room again when a
/// thread ends or the limit is lifted.
fn runs_out(procs: usize, limit: impl FnOnce() -> Limit + Send) {
    with(procs, |runtime| {
        runtime.block_on(|| {
            let others = Bystanders::start();
            let limit = limit();
            let (mut threads, error) = until_refused(5000, spawn_gently);
            assert_says(&error, &["cannot map a stack of", "RLIMIT_AS", "RLIMIT_DATA"]);
            // With 32 bits the stacks of the OS threads are a larger part.
            let least = if cfg!(target_pointer_width = "32") { 100 } else { 200 };
            assert!(threads.len() > least, "{} were spawned", threads.len());
            others.go_on();
            let panic = catch_unwind(|| spawn(|| ())).unwrap_err();
            let said = panic.downcast_ref::<String>().unwrap();
            assert!(said.contains("cannot spawn a green thread: cannot map a stack of"), "{said}");
            // A future needs a stack only while it is polled, and gets the stack of the cancelled thread.
            let future = spawn(async { 5 });
            they_leave(2, || {
                threads.pop().unwrap().cancel();
                assert_eq!(future.join().unwrap(), 5);
            });
            // The future's stack is available for the next closure.
            they_leave(1, || assert_eq!(Builder::new().spawn(|| 3).unwrap().join().unwrap(), 3));
            let last = spawn_gently().unwrap();
            assert!(Builder::new().spawn(|| ()).is_err());
            drop(limit);
            // Without the limit there is room, although no thread has ended.
            let more: Vec<_> = (0..1000).map(|_| spawn_gently().unwrap()).collect();
            others.go_on();
            cancel_all(threads.into_iter().chain(more).chain([last]).collect());
            let all: Vec<_> = (0..1000).map(|i| spawn(move || i)).collect();
            assert_eq!(all.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>(), 499_500);
            others.end();
        });
    });
}

#[test]
#[cfg_attr(
    portable,
    ignore = "the system does not say how much address space is in use, so malloc finds none"
)]
fn a_refusal_for_want_of_address_space_disturbs_no_other_thread() {
    for procs in PROCS {
        child::passes(
            "a_refusal_for_want_of_address_space_disturbs_no_other_thread",
            &procs.to_string(),
            || {
                runs_out(procs, || Limit::address_space(60 * MIB));
            },
        );
    }
}

#[test]
fn a_refusal_for_want_of_data_space_disturbs_no_other_thread() {
    for procs in PROCS {
        child::passes(
            "a_refusal_for_want_of_data_space_disturbs_no_other_thread",
            &procs.to_string(),
            || {
                runs_out(procs, || Limit::new(libc::RLIMIT_DATA, (system::data_space() + 60 * MIB) as u64));
            },
        );
    }
}

/// Threads are spawned faster than they begin. Threads that were accepted before the limit was noticed begin
/// when others end.
#[test]
#[cfg_attr(
    portable,
    ignore = "the system does not say how much address space is in use, so malloc finds none"
)]
fn a_burst_beyond_the_limit_is_refused_or_waits_for_stacks() {
    for procs in PROCS {
        child::passes("a_burst_beyond_the_limit_is_refused_or_waits_for_stacks", &procs.to_string(), || {
            with(procs, |runtime| {
                runtime.block_on(|| {
                    let others = Bystanders::start();
                    let limit = Limit::address_space(80 * MIB);
                    let (ended, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
                    let (mut spawned, mut refused) = (0, 0);
                    let mut threads = Vec::with_capacity(10_000);
                    while refused == 0 && spawned < 300_000 {
                        for _ in 0..2000 {
                            let (ends, opens) = (ended.clone(), open.clone());
                            let napper = move || {
                                while !opens.load(SeqCst) {
                                    runtime::sleep(Duration::from_millis(2));
                                }
                                ends.fetch_add(1, SeqCst);
                            };
                            match Builder::new().spawn(napper) {
                                Ok(thread) => threads.push(thread),
                                Err(_) => refused += 1,
                            }
                            spawned += 1;
                        }
                        others.go_on();
                    }
                    let taken = threads.len();
                    assert!(taken > 200 && refused > 0, "{taken} of {spawned}");
                    assert_eq!(ended.load(SeqCst), 0);
                    open.store(true, SeqCst);
                    threads.into_iter().for_each(|thread| thread.join().unwrap());
                    assert_eq!(ended.load(SeqCst), taken);
                    drop(limit);
                    spawn(|| ()).join().unwrap();
                    others.end();
                });
                assert_eq!(runtime.handle().metrics().stackless, 0);
            });
        });
    }
}

/// Green threads that wait for a stack, and green threads that have a stack, are cancelled and end.
#[test]
#[cfg_attr(
    portable,
    ignore = "the system does not say how much address space is in use, so std finds none for a thread"
)]
fn a_runtime_ends_while_green_threads_wait_for_stacks() {
    for procs in PROCS {
        child::passes("a_runtime_ends_while_green_threads_wait_for_stacks", &procs.to_string(), || {
            // Fills the table of green threads first, so that later only stacks are short.
            with(procs, |runtime| {
                let waits = || spawn(runtime::time::sleep_async(HOUR));
                runtime.block_on(|| cancel_all((0..2100).map(|_| waits()).collect()));
            });
            for _ in 0..3 {
                let runtime = runtime(procs);
                let limit = Limit::address_space(40 * MIB);
                let drops = tests::Drops::default();
                runtime.block_on(|| {
                    for i in 0..2000 {
                        let token = drops.token();
                        let sleep = move || {
                            let _token = token;
                            runtime::sleep(HOUR);
                        };
                        if i % 4 == 0 {
                            drop(spawn(async move { sleep() }));
                        } else {
                            drop(Builder::new().spawn(sleep));
                        }
                    }
                });
                wait_until("some threads wait for a stack", || runtime.handle().metrics().stackless > 100);
                drop(runtime);
                assert_eq!((drops.count(), drops.alive()), (2000, 0));
                drop(limit);
            }
        });
    }
}

/// A future that was woken and then waits for a stack has been ready all along.
#[test]
#[cfg_attr(
    portable,
    ignore = "the system does not say how much address space is in use, so malloc finds none"
)]
fn a_trace_has_no_wake_up_for_a_stack() {
    const FUTURES: usize = 20;
    let body = || {
        with(1, |runtime| {
            runtime.block_on(|| {
                assert!(runtime::trace::start_with(1 << 16).unwrap());
                let (tells, futures): (Vec<_>, Vec<_>) = (0..FUTURES)
                    .map(|_| {
                        let (tell, told) = runtime::sync::oneshot::channel::<()>();
                        let future = async move { told.await.unwrap() };
                        (tell, Builder::new().name("future".into()).spawn(future).unwrap())
                    })
                    .unzip();
                let parked =
                    |event: &&Event| matches!(event.what, What::Parks { why: "a wake-up of its future", .. });
                wait_until("the futures wait", || {
                    runtime::trace::snapshot().events().iter().filter(parked).count() == FUTURES
                });
                let limit = Limit::address_space(40 * MIB);
                let (sleepers, _) = until_refused(5000, spawn_gently);
                tells.into_iter().for_each(|tell| tell.send(()).unwrap());
                wait_until("futures wait for stacks", || runtime.handle().metrics().stackless > 5);
                cancel_all(sleepers);
                futures.into_iter().for_each(|future| future.join().unwrap());
                drop(limit);
                let all = runtime::trace::snapshot();
                let mut wake_ups = std::collections::HashMap::new();
                for event in all.events() {
                    if let What::Ready { id, by } = event.what
                        && all.name(id) == Some("future")
                    {
                        assert!(matches!(by, Cause::GreenThread(_)), "{by:?}");
                        *wake_ups.entry(id).or_insert(0) += 1;
                    }
                }
                assert_eq!((wake_ups.len(), wake_ups.into_values().max()), (FUTURES, Some(1)));
            });
        });
    };
    child::passes("a_trace_has_no_wake_up_for_a_stack", "", body);
}

/// Stacks in the warm lists of idle Ps, and of Ps with green threads that compute, must serve the threads
/// that wait for a stack.
#[test]
#[cfg_attr(
    portable,
    ignore = "the system does not say how much address space is in use, so malloc finds none"
)]
fn no_stack_is_idle_while_a_thread_waits_for_a_stack() {
    child::passes("no_stack_is_idle_while_a_thread_waits_for_a_stack", "", || {
        with(4, |runtime| {
            runtime.block_on(|| {
                // Fills the warm lists of all Ps.
                let warm: Vec<_> =
                    (0..800).map(|_| spawn(|| runtime::sleep(Duration::from_millis(5)))).collect();
                warm.into_iter().for_each(|thread| thread.join().unwrap());
                let stop = Arc::new(AtomicBool::new(false));
                let stops = stop.clone();
                let _stops = tests::OnDrop(move || stops.store(true, SeqCst));
                let hogs: Vec<_> = (0..2)
                    .map(|_| {
                        let stop = stop.clone();
                        spawn(move || {
                            while !stop.load(SeqCst) {
                                std::hint::spin_loop();
                            }
                        })
                    })
                    .collect();
                let _limit = Limit::address_space(15 * MIB);
                let each = match (tests::has_own_locals(), cfg!(debug_assertions)) {
                    (false, _) => 276,
                    (true, false) => 296,
                    (true, true) => 312,
                };
                let room = runtime.handle().metrics().stack_bytes / (each << 10);
                // Nearly as many threads as there are stacks: each must get a stack.
                let begun = Arc::new(AtomicUsize::new(0));
                let number = room - 10;
                let threads: Vec<_> = (0..number)
                    .map(|_| {
                        let begun = begun.clone();
                        spawn(move || {
                            begun.fetch_add(1, SeqCst);
                            runtime::sleep(HOUR);
                        })
                    })
                    .collect();
                wait_until("all threads have begun", || begun.load(SeqCst) == number);
                stop.store(true, SeqCst);
                hogs.into_iter().for_each(|hog| hog.join().unwrap());
                cancel_all(threads);
            });
        });
    });
}

/// Stacks of hundreds of MiB use up the address space. When their threads have ended, there is room for
/// stacks of other sizes.
#[test]
#[cfg_attr(
    portable,
    ignore = "the system does not say how much address space is in use, so malloc finds none"
)]
fn large_stacks_are_refused_without_room_and_give_their_memory_back() {
    child::passes("large_stacks_are_refused_without_room_and_give_their_memory_back", "", || {
        with(2, |runtime| {
            runtime.block_on(|| {
                let others = Bystanders::start();
                let _limit = Limit::address_space(1500 * MIB);
                let large = |mib: usize| {
                    Builder::new().stack_size(mib * MIB).spawn(|| {
                        let deep = std::hint::black_box([1u8; 100_000]);
                        runtime::sleep(HOUR);
                        assert_eq!(std::hint::black_box(deep)[99_999], 1);
                    })
                };
                // With 32 bits no stack may be larger than 512 MiB.
                let largest = if cfg!(target_pointer_width = "32") { 400 } else { 700 };
                for mib in [300, 200, largest, 300] {
                    let (threads, error) = until_refused(10, || large(mib));
                    // The runtime's own stacks and OS threads, and the reserve for other code, take a part.
                    assert!(
                        (1200 / mib..=1500 / mib).contains(&threads.len()),
                        "{} of {mib} MiB",
                        threads.len()
                    );
                    assert_says(&error, &["cannot map a stack of", "RLIMIT_AS"]);
                    others.go_on();
                    // Threads with stacks of the usual size still get them.
                    they_leave(100, || {
                        (0..100).for_each(|i| assert_eq!(spawn(move || i).join().unwrap(), i))
                    });
                    cancel_all(threads);
                }
                // The memory of the large stacks also serves stacks of the usual size.
                let (threads, error) = until_refused(10_000, spawn_gently);
                assert!(threads.len() > 4000, "{} after {error}", threads.len());
                cancel_all(threads);
                others.end();
            });
        });
    });
}

#[test]
fn a_future_has_a_stack_of_its_requested_size_in_every_poll() {
    #[inline(never)]
    fn deep(left: usize) -> usize {
        let block = std::hint::black_box([1u8; 1024]);
        if left == 0 { 0 } else { deep(left - 1) + usize::from(block[left % 1024]) }
    }
    for procs in PROCS {
        with(procs, |runtime| {
            runtime.block_on(|| {
                let futures: Vec<_> = (0..20)
                    .map(|_| {
                        let future = async {
                            let mut sum = 0;
                            for _ in 0..5 {
                                runtime::time::sleep_async(Duration::from_micros(100)).await;
                                // The recursion needs twice the usual stack size.
                                sum += deep(500);
                            }
                            sum
                        };
                        Builder::new().stack_size(8 * MIB).spawn(future).unwrap()
                    })
                    .collect();
                futures.into_iter().for_each(|future| assert_eq!(future.join().unwrap(), 2500));
            });
        });
    }
}

/// Futures have no stacks, so memory for the green threads themselves is short.
#[test]
fn no_memory_for_another_green_thread_is_an_error() {
    child::passes("no_memory_for_another_green_thread_is_an_error", "", || {
        with(2, |runtime| {
            runtime.block_on(|| {
                let others = Bystanders::start();
                let limit = Limit::address_space(180 * MIB);
                let (threads, error) =
                    until_refused(2_000_000, || Builder::new().spawn(std::future::pending::<()>()));
                assert_says(&error, &["no memory for another green thread", "RLIMIT_AS"]);
                assert!(threads.len() > 100_000, "{}", threads.len());
                let panic = catch_unwind(|| spawn(|| ())).unwrap_err();
                assert!(
                    panic.downcast_ref::<String>().unwrap().contains("no memory for another green thread")
                );
                others.go_on();
                cancel_all(threads);
                spawn(async {}).join().unwrap();
                spawn(|| ()).join().unwrap();
                drop(limit);
                others.end();
            });
        });
    });
}

fn most_mappings() -> usize {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    assert!(most <= 1 << 20, "{most} mappings are too many to use up");
    most
}

/// A large mapping, split page by page until the kernel allows this process no more mappings.
struct Fillers {
    start: usize,
    pages: usize,
    parted: std::cell::Cell<usize>,
}

impl Fillers {
    fn new(most: usize) -> Fillers {
        let pages = 2 * most;
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), pages * 4096, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        Fillers { start: start.expose_provenance(), pages, parted: std::cell::Cell::new(0) }
    }

    /// Splits the mapping until no further mapping is allowed.
    fn part(&self) {
        loop {
            let page = self.parted.get();
            assert!(page < self.pages);
            let place = std::ptr::with_exposed_provenance_mut(self.start + page * 4096);
            // SAFETY: the page belongs to the mapping of `new`, which no other code uses.
            if unsafe { libc::mprotect(place, 4096, libc::PROT_READ) } != 0 {
                return;
            }
            self.parted.set(page + 2);
        }
    }
}

impl Drop for Fillers {
    fn drop(&mut self) {
        let start = std::ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: the range is the whole mapping of `new`, which no other code uses.
        unsafe { libc::munmap(start, self.pages * 4096) };
    }
}

fn blocked_together(number: usize, f: impl Fn() + Clone + Send + 'static) {
    let blocked: Vec<_> = (0..number)
        .map(|_| {
            let f = f.clone();
            spawn(move || runtime::blocking(f))
        })
        .collect();
    blocked.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Makes `number` OS threads block at the same time. Some stay parked afterwards, so that no OS thread is
/// just starting when the last mapping is used up: std would end the process.
fn have_threads(number: usize) {
    let all = Arc::new(std::sync::Barrier::new(number));
    blocked_together(number, move || _ = all.wait());
}

/// Makes `number` stacks, which stay with the runtime. So green threads can start when there is no mapping
/// left: where guards are not marks, each new stack needs one. A green thread still has its stack for a
/// moment after its end, so there must be more stacks than green threads.
fn have_stacks(number: usize) {
    let begun = Arc::new(AtomicUsize::new(0));
    let threads = (0..number).map(|_| {
        let begun = begun.clone();
        spawn(move || {
            begun.fetch_add(1, SeqCst);
            runtime::sleep(HOUR);
        })
    });
    let threads: Vec<_> = threads.collect();
    wait_until("all have stacks", || begun.load(SeqCst) == number);
    cancel_all(threads);
}

/// Returns `true` if the kernel gives `malloc` more memory where the heap ends. The kernel refuses that to a
/// process with one mapping too many, which `mmap` allows.
fn heap_can_grow() -> bool {
    // SAFETY: only the main thread allocates where this memory ends, and it waits for this test. libc does
    // not know of the new page, and may take it as its next.
    unsafe {
        let end = libc::syscall(libc::SYS_brk, 0);
        libc::syscall(libc::SYS_brk, end + 4096) == end + 4096
    }
}

/// How many green threads block together while there is no mapping.
const BLOCKED: usize = 32;

/// A process without a free mapping gets no stack and no OS thread, and running green threads go on.
#[test]
#[cfg_attr(asan, ignore = "AddressSanitizer itself dies without a mapping")]
#[cfg_attr(
    target_env = "musl",
    ignore = "musl's malloc takes mappings for small blocks, so the process ends"
)]
#[cfg_attr(portable, ignore = "the system does not say that no mapping is left, so std ends the process")]
fn a_refusal_for_want_of_mappings_disturbs_no_other_thread() {
    if tests::has_own_locals() {
        // Each block of thread-locals takes memory of malloc, which may need a mapping.
        return;
    }
    child::passes("a_refusal_for_want_of_mappings_disturbs_no_other_thread", "", || {
        with(2, |runtime| {
            runtime.block_on(|| {
                let others = Bystanders::start();
                have_threads(8);
                have_stacks(2 * BLOCKED);
                // Asked while there is a mapping for the question.
                let guards_are_marks = system::has_guard_marks();
                let refused =
                    if guards_are_marks { "cannot map a stack of" } else { "cannot install a stack's guard" };
                let fillers = Fillers::new(most_mappings());
                fillers.part();
                // Each new size needs a mapping of its own.
                let mut bytes = 64 * MIB;
                let (threads, error) = until_refused(1000, || {
                    fillers.part();
                    bytes += 4096;
                    Builder::new().stack_size(bytes).spawn(|| runtime::sleep(HOUR))
                });
                assert_says(&error, &[refused, "vm.max_map_count"]);
                if !guards_are_marks {
                    assert!(heap_can_grow(), "the refused stack has taken the last mapping");
                }
                // No OS thread can start either: green threads that block delay others, and no call fails.
                blocked_together(BLOCKED, || std::thread::sleep(Duration::from_millis(5)));
                others.go_on();
                drop(fillers);
                let thread = Builder::new().stack_size(65 * MIB).spawn(|| 4).unwrap();
                assert_eq!(thread.join().unwrap(), 4);
                cancel_all(threads);
                others.end();
            });
        });
    });
}

/// The C library keeps stacks of ended threads, and could start OS threads on them. Those threads would find
/// no mapping for their other needs.
#[test]
#[cfg_attr(asan, ignore = "AddressSanitizer itself dies without a mapping")]
#[cfg_attr(portable, ignore = "the system does not say that no mapping is left, so std ends the process")]
fn no_os_thread_starts_on_a_kept_stack_without_mappings() {
    child::passes("no_os_thread_starts_on_a_kept_stack_without_mappings", "", || {
        let all = Arc::new(std::sync::Barrier::new(16));
        std::thread::scope(|scope| (0..16).for_each(|_| drop(scope.spawn(|| all.wait()))));
        with(2, |runtime| {
            runtime.block_on(|| {
                have_threads(8);
                have_stacks(2 * BLOCKED);
                let fillers = Fillers::new(most_mappings());
                fillers.part();
                blocked_together(BLOCKED, || std::thread::sleep(Duration::from_millis(5)));
                let before = Handle::current().metrics().threads;
                drop(fillers);
                have_threads(before + 8);
            });
        });
    });
}

/// A page that is mapped again in its own place. The kernel refuses that to a process with one mapping too
/// many, and it needs no further mapping.
struct MappedAgain(usize);

impl MappedAgain {
    const PROTECTION: i32 = libc::PROT_READ;
    const FLAGS: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;

    fn new() -> MappedAgain {
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, Self::PROTECTION, Self::FLAGS, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        MappedAgain(at.expose_provenance())
    }

    fn map(&self) -> bool {
        let (at, flags) = (std::ptr::with_exposed_provenance_mut(self.0), Self::FLAGS | libc::MAP_FIXED);
        // SAFETY: only the page of `new` is replaced, which no other code uses.
        unsafe { libc::mmap(at, 4096, Self::PROTECTION, flags, -1, 0) != libc::MAP_FAILED }
    }
}

impl Drop for MappedAgain {
    fn drop(&mut self) {
        // SAFETY: this is the page of `new`, which no other code uses.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.0), 4096) };
    }
}

/// The runtime asks whether there are mappings for an OS thread. At the limit that question takes none, not
/// even for a moment: `malloc` could get no page in another thread.
#[test]
#[cfg_attr(asan, ignore = "AddressSanitizer itself dies without a mapping")]
#[cfg_attr(
    target_env = "musl",
    ignore = "musl's malloc takes mappings for small blocks, so the process ends"
)]
#[cfg_attr(portable, ignore = "the system does not say that no mapping is left, so std ends the process")]
fn the_question_for_mappings_takes_none_at_the_limit() {
    if tests::has_own_locals() {
        // Each block of thread-locals takes memory of malloc, which may need a mapping.
        return;
    }
    child::passes("the_question_for_mappings_takes_none_at_the_limit", "", || {
        with(2, |runtime| {
            runtime.block_on(|| {
                have_threads(8);
                have_stacks(2 * BLOCKED);
                let (begun, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
                let fillers = Fillers::new(most_mappings());
                let looker = std::thread::spawn({
                    let (begun, done) = (begun.clone(), done.clone());
                    let page = MappedAgain::new();
                    move || {
                        let mut refused = 0;
                        begun.store(true, SeqCst);
                        while !done.load(SeqCst) {
                            refused += u32::from(!page.map());
                        }
                        refused
                    }
                });
                wait_until("the thread looks", || begun.load(SeqCst));
                fillers.part();
                (0..100)
                    .for_each(|_| blocked_together(BLOCKED, || std::thread::sleep(Duration::from_millis(1))));
                done.store(true, SeqCst);
                assert_eq!(looker.join().unwrap(), 0, "refused for one mapping too many");
                drop(fillers);
            });
        });
    });
}

/// Changes to a user without processes, because the limit does not apply to root.
fn become_nobody() {
    // SAFETY: these calls take only numbers.
    unsafe {
        if libc::geteuid() == 0 {
            let id = 50_000 + libc::getpid() as u32 % 10_000;
            assert_eq!((libc::setgid(id), libc::setuid(id)), (0, 0), "{}", io::Error::last_os_error());
        }
        // The process must still be able to read its own /proc.
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
    }
}

/// Allows `more` OS threads beyond the existing ones.
fn limit_threads(more: usize) -> Limit {
    Limit::new(libc::RLIMIT_NPROC, (system::threads() + more) as u64)
}

fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    panic.downcast_ref::<String>().expect("a panic with a message").clone()
}

#[test]
fn a_runtime_without_os_threads_is_an_error() {
    child::passes("a_runtime_without_os_threads_is_an_error", "", || {
        become_nobody();
        drop(runtime(1));
        let before = (system::threads(), system::descriptors(), system::mappings());
        // The limit prevents the first OS thread, and then the second.
        for more in [0, 1] {
            let limit = limit_threads(more);
            let error = runtime::Builder::new().build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
            let words = ["cannot start an OS thread", "RLIMIT_NPROC"];
            words.iter().for_each(|words| assert!(error.to_string().contains(words), "{error}"));
            drop(limit);
            let after = (system::threads(), system::descriptors(), system::mappings());
            assert_eq!((after.0, after.1), (before.0, before.1), "threads, descriptors");
            assert!(after.2 <= before.2 + 4, "mappings: {} -> {}", before.2, after.2);
        }
        {
            let _limit = limit_threads(0);
            let error = Builder::new().spawn(|| ()).unwrap_err();
            assert!(
                error.to_string().contains("cannot start the default runtime: cannot start an OS"),
                "{error}"
            );
            let because = "cannot start the default runtime";
            assert!(said(catch_unwind(|| spawn(|| ())).unwrap_err()).contains(because));
            assert!(said(catch_unwind(|| runtime::block_on(|| ())).unwrap_err()).contains(because));
            assert!(said(catch_unwind(runtime::Handle::current).unwrap_err()).contains(because));
            let scoped = catch_unwind(|| runtime::scope(|s| s.spawn(|| ()).join().unwrap()));
            assert!(said(scoped.unwrap_err()).contains(because));
            assert!(TcpListener::bind("127.0.0.1:0").unwrap_err().to_string().contains(because));
        }
        // The failures leave nothing behind.
        spawn(|| ()).join().unwrap();
        assert_eq!(runtime::block_on(|| 5), 5);
    });
}

#[test]
fn a_runtime_without_descriptors_or_stacks_is_an_error() {
    child::passes("a_runtime_without_descriptors_or_stacks_is_an_error", "", || {
        drop(runtime(1));
        let before = (system::threads(), system::descriptors());
        // Allows a descriptor more each time, until they suffice. A failed start gives its descriptors back.
        let mut refused = 0;
        loop {
            let limit = Limit::new(libc::RLIMIT_NOFILE, refused);
            let built = runtime::Builder::new().build();
            drop(limit);
            let Err(error) = built else { break };
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
            assert_eq!((system::threads(), system::descriptors()), before);
            refused += 1;
        }
        // The three standard streams at least are open. Inherited descriptors with high numbers do not count
        // against the limit.
        assert!((3..before.1 as u64 + 8).contains(&refused), "{refused}, {before:?}");
        let limit = Limit::address_space(MIB);
        let error = runtime::Builder::new().build().unwrap_err();
        assert_says(&error, &["cannot map a stack of", "RLIMIT_AS"]);
        drop(limit);
        assert_eq!((system::threads(), system::descriptors()), before);
        runtime(2).block_on(|| spawn(|| ()).join().unwrap());
    });
}

/// While no OS thread can start, green threads that block delay others, and no call fails. Without the limit,
/// all is as before.
#[test]
fn the_limit_of_os_threads_disturbs_no_running_thread() {
    let body = || {
        become_nobody();
        let _dog = tests::Watchdog::new();
        for procs in PROCS {
            let runtime = runtime(procs);
            runtime.block_on(|| {
                let others = Bystanders::start();
                let block = || {
                    let blocked: Vec<_> = (0..24)
                        .map(|i| {
                            spawn(move || {
                                match i % 3 {
                                    0 => runtime::blocking(|| std::thread::sleep(Duration::from_millis(5))),
                                    1 => std::thread::sleep(Duration::from_millis(5)),
                                    _ => drop(tests::spin(Duration::from_millis(5))),
                                }
                                runtime::sleep(Duration::from_micros(100));
                            })
                        })
                        .collect();
                    others.go_on();
                    blocked.into_iter().for_each(|thread| thread.join().unwrap());
                };
                let limit = limit_threads(0);
                let most = system::threads() + 2;
                (0..5).for_each(|_| block());
                assert!(system::threads() <= most, "{} threads, {most} at most", system::threads());
                drop(limit);
                (0..5).for_each(|_| block());
                others.end();
            });
        }
    };
    child::run("the_limit_of_os_threads_disturbs_no_running_thread", "", body, |output| {
        assert!(output.status.success(), "{}", child::text(output));
        // A runtime reports the failure once.
        let reports = child::stderr(output).matches("no further thread").count();
        assert!((1..=3).contains(&reports), "{}", child::text(output));
    });
}

/// All OS threads block, and the green threads that would wake them are queued. These must run as soon as the
/// system allows an OS thread, without another event in the runtime.
#[test]
fn a_failed_start_of_an_os_thread_is_tried_again() {
    child::passes("a_failed_start_of_an_os_thread_is_tried_again", "", || {
        become_nobody();
        for procs in [1, 2] {
            let runtime = runtime(procs);
            runtime.spawn(|| ()).join().unwrap();
            let limit = limit_threads(0);
            let (gate, begun) = (Arc::new(std::sync::RwLock::new(())), Arc::new(AtomicUsize::new(0)));
            let closed = gate.write().unwrap();
            let blocked: Vec<_> = (0..20)
                .map(|_| {
                    let (gate, begun) = (gate.clone(), begun.clone());
                    runtime.spawn(move || {
                        begun.fetch_add(1, SeqCst);
                        drop(gate.read().unwrap());
                    })
                })
                .collect();
            let last = runtime.spawn(|| ());
            std::thread::sleep(Duration::from_millis(300));
            let before = begun.load(SeqCst);
            assert!(before > 0 && before < 20, "{before} have begun");
            drop(limit);
            wait_until("the other green threads get OS threads", || {
                begun.load(SeqCst) == 20 && last.is_finished()
            });
            drop(closed);
            blocked.into_iter().chain([last]).for_each(|thread| thread.join().unwrap());
        }
    });
}

/// Makes every kind of timed wait, each of a few milliseconds.
fn timed_waits(in_timeout: bool) {
    use runtime::channel::{after, unbounded};
    use runtime::sync::{Condvar, Mutex};
    use runtime::time::{Timer, sleep_async, timeout};
    let ms = Duration::from_millis;
    let at_least_2_ms = |what: &str, wait: &dyn Fn()| {
        let start = std::time::Instant::now();
        wait();
        assert!(start.elapsed() >= ms(2), "{what} ended after {:?}", start.elapsed());
    };
    let (_sender, receiver) = unbounded::<()>();
    at_least_2_ms("sleep", &|| runtime::sleep(ms(2)));
    at_least_2_ms("park_timeout", &|| thread::park_timeout(ms(2)));
    at_least_2_ms("recv_timeout", &|| assert!(receiver.recv_timeout(ms(2)).is_err()));
    at_least_2_ms("Timer", &|| _ = Timer::new(ms(2)).channel().recv().unwrap());
    at_least_2_ms("select", &|| {
        runtime::select! {
            recv(receiver) -> _ => panic!("there is no message"),
            recv(after(ms(2))) -> _ => {}
        }
    });
    at_least_2_ms("Condvar", &|| {
        let mutex = Mutex::new(());
        assert!(Condvar::new().wait_for(&mut mutex.lock(), ms(2)).timed_out());
    });
    // The future uses the timer of this green thread, so the next wait needs another timer.
    let mut future = std::pin::pin!(sleep_async(HOUR));
    runtime::block_on(async {
        std::future::poll_fn(|cx| {
            assert!(future.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    });
    at_least_2_ms("sleep beside a future", &|| runtime::sleep(ms(2)));
    if in_timeout {
        at_least_2_ms("park in a timeout", &|| assert!(timeout(ms(2), thread::park).is_err()));
        at_least_2_ms("recv in a timeout", &|| assert!(timeout(ms(2), || receiver.recv()).is_err()));
        at_least_2_ms("sleep in a timeout", &|| assert!(timeout(ms(2), || runtime::sleep(HOUR)).is_err()));
    }
}

/// Makes the timed waits in green threads that stay on their OS thread, while no other OS thread can start.
fn timed_waits_in_place() {
    spawn(|| {
        let _pinned = thread::pin();
        timed_waits(true);
    })
    .join()
    .unwrap();
    let unwound = spawn(|| {
        let _last = tests::OnDrop(|| timed_waits(false));
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(unwound.join().is_err());
}

#[test]
fn timed_waits_in_place_end_with_a_single_os_thread() {
    for sysmon in [false, true] {
        tests::with_built(runtime::Builder::new().procs(1).max_threads(1).sysmon(sysmon), |runtime| {
            runtime.block_on(timed_waits_in_place);
        });
    }
}

#[test]
fn timed_waits_in_place_end_when_no_os_thread_can_start() {
    child::passes("timed_waits_in_place_end_when_no_os_thread_can_start", "", || {
        become_nobody();
        let _dog = tests::Watchdog::new();
        for sysmon in [false, true] {
            let runtime = runtime::Builder::new().procs(1).sysmon(sysmon).build().unwrap();
            let limit = limit_threads(0);
            runtime.block_on(timed_waits_in_place);
            drop(limit);
        }
    });
}

/// A plain thread wakes the waiter at about its deadline. The wait must end once, and the next wait must not
/// be affected.
#[test]
fn a_wait_in_place_that_is_woken_at_its_deadline_ends_once() {
    tests::with_built(runtime::Builder::new().procs(1).max_threads(1), |runtime| {
        let (waiter, the_waiter) = std::sync::mpsc::channel::<thread::Thread>();
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let waker = std::thread::spawn(move || {
            let waiter = the_waiter.recv().unwrap();
            let mut random = tests::Random::new(11);
            while !ends.load(SeqCst) {
                tests::spin(Duration::from_micros(random.below(400)));
                waiter.unpark();
            }
        });
        runtime.block_on(|| {
            spawn(move || {
                let _pinned = thread::pin();
                waiter.send(thread::current()).unwrap();
                for _ in 0..2_000 {
                    thread::park_timeout(Duration::from_micros(200));
                    let start = std::time::Instant::now();
                    runtime::sleep(Duration::from_micros(20));
                    assert!(
                        start.elapsed() >= Duration::from_micros(20),
                        "a late wake-up ended another wait"
                    );
                }
            })
            .join()
            .unwrap();
        });
        over.store(true, SeqCst);
        waker.join().unwrap();
    });
}
