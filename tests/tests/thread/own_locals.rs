//! Thread-locals of its own for each closure: what a closure keeps of "its thread" over parks, on whatever OS
//! thread it goes on.
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runtime::thread::LocalSet;
use runtime::time::sleep_async;
use runtime::{Builder, Runtime, ThreadLocals, scope, sleep, spawn, yield_now};
use tests::{OnDrop, os_thread, with_built};

const MILLI: Duration = Duration::from_millis(1);

/// Runs `main` on runtimes with 1, 2 and 8 Ps. Their closures have thread-locals of their own.
fn on_all(main: impl Fn() + Send + Sync) {
    for procs in [1, 2, 8] {
        let builder = Builder::new().procs(procs).thread_locals(ThreadLocals::OfGreenThread);
        with_built(builder, |runtime: &Runtime| runtime.block_on(&main));
    }
}

/// Parks in one of several ways.
fn wait(n: usize) {
    match n % 4 {
        0 => sleep(Duration::from_micros(50)),
        1 => sleep(MILLI),
        2 => drop(spawn(yield_now).join()),
        _ => yield_now(),
    }
}

/// Parks in one of several ways, and goes on on another OS thread. Counts the moves in `MOVES`.
fn park(n: usize) {
    let before = os_thread();
    wait(n);
    // Another thread may block this OS thread too late, because it runs elsewhere.
    for _ in 0..20 {
        if os_thread() != before {
            MOVES.fetch_add(1, SeqCst);
            return;
        }
        leave_os_thread();
    }
}

/// Parks, and lets another green thread wake this one and then block the OS thread until this one runs,
/// elsewhere.
fn leave_os_thread() {
    let (first, caller) = (os_thread(), runtime::thread::current());
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let other = spawn(move || {
        caller.unpark();
        if os_thread() == first {
            runtime::blocking(|| goes_on.recv().unwrap());
        }
    });
    runtime::thread::park();
    // The other one may have ended.
    let _ = go_on.send(());
    other.join().unwrap();
}

static MOVES: AtomicUsize = AtomicUsize::new(0);

/// Runs `body` in 100 closures at once, each with its number and what parks it.
fn in_many(body: impl Fn(usize) + Send + Sync) {
    scope(|s| {
        for number in 0..100 {
            let body = &body;
            s.spawn(move || body(number));
        }
    });
}

#[test]
fn values_stay_with_the_green_thread() {
    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(7) };
        static TEXTS: RefCell<Vec<String>> = RefCell::default();
        static SHARED: Rc<Cell<usize>> = Rc::new(Cell::new(0));
    }
    MOVES.store(0, SeqCst);
    on_all(|| {
        in_many(|number| {
            assert_eq!(COUNT.get(), 7, "the values of another green thread");
            let shared = SHARED.with(Rc::clone);
            for n in 0..20 {
                COUNT.set(number * 1_000 + n);
                TEXTS.with_borrow_mut(|texts| {
                    texts.push(format!("{number} {n}"));
                    // A borrow over a park.
                    park(number + n);
                });
                shared.set(shared.get() + 1);
                assert_eq!(COUNT.get(), number * 1_000 + n);
                assert!(Rc::ptr_eq(&shared, &SHARED.with(Rc::clone)));
            }
            assert_eq!(TEXTS.with_borrow(Vec::len), 20);
            assert_eq!((shared.get(), Rc::strong_count(&shared)), (20, 2));
        });
    });
    assert!(MOVES.load(SeqCst) > 5_000, "of 6,000 parks {MOVES:?} were left on another OS thread");
}

#[test]
fn guards_of_std_are_kept_over_parks() {
    on_all(|| {
        let sum = Mutex::new(0);
        let depth = AtomicUsize::new(0);
        scope(|s| {
            for number in 0..4 {
                let (sum, depth) = (&sum, &depth);
                s.spawn(move || {
                    for n in 0..20 {
                        if let Ok(mut sum) = sum.try_lock() {
                            assert_eq!(depth.fetch_add(1, SeqCst), 0);
                            park(number + n);
                            *sum += 1;
                            depth.fetch_sub(1, SeqCst);
                        }
                        park(n);
                    }
                });
            }
        });
        assert!(*sum.lock().unwrap() > 0);
    });
}

#[test]
fn errno_belongs_to_the_green_thread() {
    fn errno() -> i32 {
        std::io::Error::last_os_error().raw_os_error().unwrap()
    }
    on_all(|| {
        in_many(|number| {
            for n in 0..20 {
                let own = number as i32 + 1_000;
                // SAFETY: the address is that of this thread's `errno`.
                unsafe { *libc::__errno_location() = own };
                park(n);
                // A park may leave an error of its own there, as any call may, but not what another green
                // thread has written.
                let now = errno();
                assert!(now == own || now < 200, "{now} instead of {own}");
            }
        });
    });
}

#[test]
fn a_panic_is_the_green_threads_own() {
    struct Parks(usize);
    impl Drop for Parks {
        fn drop(&mut self) {
            for n in 0..4 {
                assert!(std::thread::panicking());
                park(self.0 + n);
            }
        }
    }
    tests::quiet_panics_on_purpose();
    on_all(|| {
        in_many(|number| {
            if number % 2 == 0 {
                let caught = std::panic::catch_unwind(|| {
                    let _parks = Parks(number);
                    panic!("on purpose");
                });
                assert!(caught.is_err());
            }
            for n in 0..10 {
                assert!(!std::thread::panicking());
                park(number + n);
            }
        });
    });
}

#[test]
fn std_names_one_thread_for_each_green_thread() {
    on_all(|| {
        let ids = Mutex::new(HashSet::new());
        in_many(|number| {
            let own = std::thread::current();
            for n in 0..10 {
                park(number + n);
                assert_eq!(std::thread::current().id(), own.id());
            }
            assert!(ids.lock().unwrap().insert(own.id()), "two green threads are one to std");
            // std's token belongs to the green thread, too.
            own.unpark();
            park(number);
            std::thread::park();
        });
    });
}

/// Counts its drops, which park.
struct Ends(Arc<AtomicUsize>, fn(usize));

impl Drop for Ends {
    fn drop(&mut self) {
        self.1(0);
        self.0.fetch_add(1, SeqCst);
    }
}

thread_local! {
    static ENDS: RefCell<Option<Ends>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<Ends>> = const { RefCell::new(None) };
}

#[test]
fn destructors_run_before_the_join_returns() {
    tests::quiet_panics_on_purpose();
    on_all(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        for (round, how) in ["returns", "panics", "is cancelled"].into_iter().cycle().take(60).enumerate() {
            let own = ended.clone();
            let thread = spawn(move || {
                ENDS.set(Some(Ends(own, park)));
                park(round);
                match how {
                    "returns" => {}
                    "panics" => panic!("on purpose"),
                    _ => sleep(Duration::from_secs(3600)),
                }
            });
            if how == "is cancelled" {
                park(round);
                thread.cancel();
            }
            let before = if how == "is cancelled" { round } else { round + 1 };
            drop(thread.join());
            let count = ended.load(SeqCst);
            // A green thread that was cancelled before it began has made no value.
            assert!(count == round + 1 || count == before, "{how}: {count} in round {round}");
            ended.store(round + 1, SeqCst);
        }
    });
}

/// A destructor makes another value with a destructor, and so does the destructor of the result.
#[test]
fn destructors_that_make_values_are_followed_by_others() {
    struct MakesOne(Arc<AtomicUsize>);
    impl Drop for MakesOne {
        fn drop(&mut self) {
            LATE.set(Some(Ends(self.0.clone(), park)));
        }
    }
    on_all(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        for round in 1..50 {
            let own = ended.clone();
            // No join takes the result, so it is dropped on the green thread.
            let (dropped, is_dropped) = runtime::channel::bounded(1);
            drop(spawn(move || (is_dropped.recv().unwrap(), MakesOne(own)).1));
            dropped.send(()).unwrap();
            tests::wait_until("the value is dropped", || ended.load(SeqCst) == round);
        }
    });
}

#[test]
fn keys_of_pthread_belong_to_the_green_thread() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn ends(value: *mut libc::c_void) {
        park(value.addr());
        ENDED.fetch_add(1, SeqCst);
    }
    let keys: Vec<libc::pthread_key_t> = (0..40)
        .map(|_| {
            let mut key = 0;
            // SAFETY: the function is a destructor of any value.
            assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(ends)) }, 0);
            key
        })
        .collect();
    on_all(|| {
        ENDED.store(0, SeqCst);
        in_many(|number| {
            for (n, &key) in keys.iter().enumerate() {
                // SAFETY: the key exists.
                let set = unsafe {
                    assert!(libc::pthread_getspecific(key).is_null(), "a value of another green thread");
                    libc::pthread_setspecific(key, std::ptr::without_provenance(number * 100 + n + 1))
                };
                assert_eq!(set, 0);
            }
            park(number);
            for (n, &key) in keys.iter().enumerate() {
                // SAFETY: the key exists.
                assert_eq!(unsafe { libc::pthread_getspecific(key) }.addr(), number * 100 + n + 1);
            }
        });
        assert_eq!(ENDED.load(SeqCst), 4_000);
    });
}

/// As at the end of an OS thread, destructors run a few times, and what they set last is lost. The next
/// closure finds no value.
#[test]
fn a_key_that_its_destructor_sets_again_has_no_value_in_the_next_closure() {
    static KEYS: Mutex<Vec<libc::pthread_key_t>> = Mutex::new(Vec::new());
    extern "C" fn sets_again(value: *mut libc::c_void) {
        let keys = KEYS.lock().unwrap();
        for &key in &*keys {
            // SAFETY: the key exists.
            assert_eq!(unsafe { libc::pthread_setspecific(key, value) }, 0);
        }
    }
    // Some lie in the table that is part of each thread's record, the others in one that is allocated.
    for _ in 0..40 {
        let mut key = 0;
        // SAFETY: the function is a destructor of any value.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(sets_again)) }, 0);
        KEYS.lock().unwrap().push(key);
    }
    let keys = KEYS.lock().unwrap().clone();
    on_all(|| {
        for round in 0..20 {
            let keys = keys.clone();
            spawn(move || {
                for (n, &key) in keys.iter().enumerate() {
                    // SAFETY: the key exists.
                    let before = unsafe { libc::pthread_getspecific(key) };
                    assert!(before.is_null(), "key {n} has the value {before:?} in closure {round}");
                }
                // SAFETY: the key exists.
                unsafe { libc::pthread_setspecific(keys[round], std::ptr::without_provenance(1)) };
            })
            .join()
            .unwrap();
        }
    });
}

/// What libc keeps for a thread, but no destructor ends: the last error of `dlopen`, the state of the
/// resolver, the locale.
#[test]
fn what_libc_keeps_is_not_seen_by_the_next_green_thread() {
    unsafe extern "C" {
        fn __res_state() -> *mut [u64; 2];
        fn __res_init() -> i32;
    }
    on_all(|| {
        for number in 0..20 {
            let body = move || {
                // SAFETY: these functions work on what belongs to the calling thread; the second word of the
                // state is its options.
                unsafe {
                    assert!(libc::dlerror().is_null());
                    assert_eq!((*__res_state())[1], 0, "the resolver's state is set up already");
                    assert_eq!(
                        libc::uselocale(std::ptr::null_mut()),
                        std::ptr::without_provenance_mut(usize::MAX)
                    );
                    assert!(libc::dlopen(c"/no/such/library".as_ptr(), libc::RTLD_NOW).is_null());
                    wait(number);
                    if number % 2 == 0 {
                        assert!(!libc::dlerror().is_null());
                    }
                    assert_eq!(__res_init(), 0);
                    assert_ne!((*__res_state())[1], 0);
                    let locale = libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), std::ptr::null_mut());
                    assert!(!libc::uselocale(locale).is_null());
                    wait(number);
                }
            };
            spawn(body).join().unwrap();
        }
    });
}

/// Memory that one green thread has freed serves the others, and nothing is lost with a block.
#[test]
fn memory_is_not_kept_by_each_green_thread() {
    tests::alone!();
    on_all(|| {
        let churn = || {
            in_many(|number| {
                let mut all = Vec::new();
                for n in 0..50 {
                    all.push(vec![number as u8; 10 + n * 20]);
                    if n % 10 == 0 {
                        wait(n);
                    }
                }
                drop(all);
                wait(number);
            });
        };
        // malloc has arenas for the OS threads that allocate at the same time, and fills them first.
        (0..40).for_each(|_| churn());
        let before = tests::system::resident_bytes();
        (0..60).for_each(|_| churn());
        let more = tests::system::resident_bytes().saturating_sub(before);
        // A store of freed memory for each green thread takes 11 KB.
        assert!(more < 6_000 * 3_000, "{more} bytes more");
    });
}

#[test]
fn blocks_end_with_their_runtime() {
    tests::alone!();
    let churn = |rounds| (0..rounds).for_each(|_| on_all(|| in_many(wait)));
    churn(10);
    let before = tests::system::resident_bytes();
    churn(40);
    let more = tests::system::resident_bytes().saturating_sub(before);
    // 120 runtimes, each with a hundred blocks of 5 KB.
    assert!(more < 120 * 100 * 1_500, "{more} bytes more");
}

/// A scope that keeps a reference in a thread-local, as `scoped-tls` does: it relies on scopes that end in
/// the order in which they began.
mod scoped {
    use std::cell::Cell;

    thread_local! { static SCOPE: Cell<Option<*const String>> = const { Cell::new(None) } }

    struct Reset(Option<*const String>);

    impl Drop for Reset {
        fn drop(&mut self) {
            SCOPE.set(self.0);
        }
    }

    pub(super) fn set<R>(value: &String, f: impl FnOnce() -> R) -> R {
        let _reset = Reset(SCOPE.replace(Some(value)));
        f()
    }

    pub(super) fn get() -> Option<String> {
        // SAFETY: `set` keeps the value until the scope is over, on a thread where scopes end in order.
        SCOPE.get().map(|value| unsafe { (*value).clone() })
    }

    /// Nests two scopes, and parks in each.
    pub(super) fn nest(number: usize, park: impl Fn(usize)) {
        assert_eq!(get(), None);
        let (outer, inner) = (format!("outer {number}"), format!("inner {number}"));
        set(&outer, || {
            park(number);
            set(&inner, || {
                park(number + 1);
                assert_eq!(get().as_ref(), Some(&inner));
            });
            park(number + 2);
            assert_eq!(get().as_ref(), Some(&outer));
        });
        assert_eq!(get(), None);
    }
}

/// A poll has the thread-locals of its OS thread, unless they are those of another poll, which is parked.
#[test]
fn scopes_that_keep_references_are_not_mixed_up() {
    on_all(|| in_many(|number| scoped::nest(number, park)));
    // Beside polls.
    on_all(|| {
        let polls: Vec<_> = (0..100)
            .map(|number| {
                spawn(async move {
                    for n in 0..5 {
                        scoped::nest(number + n, wait);
                        runtime::time::sleep_async(Duration::from_micros(20)).await;
                        assert_eq!(scoped::get(), None);
                    }
                })
            })
            .collect();
        in_many(|number| scoped::nest(number, park));
        polls.into_iter().for_each(|poll| poll.join().unwrap());
    });
}

/// The end of a poll with thread-locals of its own is not the end of its future, which keeps its values.
#[test]
fn a_future_keeps_its_values_between_polls_beside_a_parked_one() {
    runtime::thread_local!(static VALUE: Cell<u64> = const { Cell::new(0) });
    on_all(|| {
        let (go_on, goes_on) = runtime::channel::bounded::<()>(0);
        // Each parks in a poll on some OS thread. So later polls there have thread-locals of their own.
        let parked: Vec<_> = (0..20)
            .map(|_| {
                let goes_on = goes_on.clone();
                spawn(async move { goes_on.recv().unwrap_err() })
            })
            .collect();
        let futures: Vec<_> = (0..100)
            .map(|number| {
                spawn(async move {
                    VALUE.set(number);
                    for round in 0..5 {
                        sleep_async(Duration::from_micros(50 * round)).await;
                        assert_eq!(VALUE.get(), number + round, "the value of a future that goes on");
                        VALUE.set(number + round + 1);
                    }
                })
            })
            .collect();
        futures.into_iter().for_each(|future| future.join().unwrap());
        drop(go_on);
        parked.into_iter().for_each(|poll| _ = poll.join().unwrap());
    });
}

/// What a poll leaves in thread-locals of its own ends with that poll.
#[test]
fn values_of_a_poll_beside_a_parked_one_end_with_it() {
    let builder = Builder::new().procs(1).thread_locals(ThreadLocals::OfGreenThread);
    with_built(builder, |runtime: &Runtime| {
        runtime.block_on(|| {
            let rounds: usize = (0..100).map(|_| rounds_beside_a_parked_poll()).sum();
            assert!(rounds > 0, "no poll was on the OS thread of a parked one");
        });
    });
}

/// Parks a poll, and ends others on its OS thread. Returns how many there were: on a slow machine sysmon
/// takes the P from one, and the next is polled elsewhere.
fn rounds_beside_a_parked_poll() -> usize {
    let (tell, told) = runtime::channel::bounded(1);
    let (go_on, goes_on) = runtime::channel::bounded::<()>(0);
    let parked = spawn(async move {
        tell.send(os_thread()).unwrap();
        goes_on.recv()
    });
    let beside = told.recv().unwrap();
    yield_now();
    let (ended, mut rounds) = (Arc::new(AtomicUsize::new(0)), 0);
    for _ in 0..5 {
        let own = ended.clone();
        let poll = spawn(async move {
            if os_thread() != beside {
                return false;
            }
            assert!(ENDS.with_borrow(Option::is_none), "a value of another poll");
            ENDS.set(Some(Ends(own, wait)));
            true
        });
        rounds += usize::from(poll.join().unwrap());
        assert_eq!(ended.load(SeqCst), rounds);
    }
    go_on.send(()).unwrap();
    parked.join().unwrap().unwrap();
    rounds
}

/// Returns what libc says of the stack of this thread.
fn bounds_of_stack() -> std::ops::Range<usize> {
    let mut attr = std::mem::MaybeUninit::uninit();
    let (mut lowest, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the first call makes the attributes, which the others read and free.
    unsafe {
        assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), attr.as_mut_ptr()), 0);
        libc::pthread_attr_getstack(attr.as_ptr(), &raw mut lowest, &raw mut bytes);
        libc::pthread_attr_destroy(attr.as_mut_ptr());
    }
    lowest.addr()..lowest.addr() + bytes
}

#[test]
fn the_bounds_of_the_stack_are_the_green_threads() {
    fn check(at_most: usize) {
        let local = 0_u8;
        let bounds = bounds_of_stack();
        assert!(bounds.contains(&(&raw const local).addr()), "{bounds:x?}");
        assert!(bounds.len() <= at_most, "{} bytes", bounds.len());
    }
    on_all(|| {
        in_many(|number| {
            for n in 0..4 {
                // Whole pages, the record of the coroutine, and room for destructors.
                check((1 << 20) + (1 << 16));
                park(number + n);
            }
        });
        let deep = runtime::thread::Builder::new()
            .stack_size(1 << 23)
            .spawn(|| assert!(bounds_of_stack().len() > 1 << 22));
        deep.unwrap().join().unwrap();
    });
    std::thread::Builder::new()
        .stack_size(1 << 21)
        .spawn(|| check((1 << 21) + (1 << 16)))
        .unwrap()
        .join()
        .unwrap();
}

/// The child has the block and the stack of the green thread, and no other thread.
#[test]
fn a_child_of_fork_goes_on() {
    thread_local! { static TEXT: RefCell<String> = RefCell::new("new".into()) }
    extern "C" fn has_new_text(_: *mut c_void) -> *mut c_void {
        ptr::without_provenance_mut(usize::from(TEXT.take() == "new"))
    }
    tests::alone!();
    on_all(|| {
        in_many(|number| {
            TEXT.set(format!("of {number}"));
            park(number);
            if number % 10 != 0 {
                return;
            }
            // SAFETY: the child uses no lock of another thread but malloc's, which libc unlocks in it.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let is_own = TEXT.take() == format!("of {number}");
                // SAFETY: the call does not return.
                unsafe { libc::_exit(i32::from(!(is_own && a_thread_of_libc(has_new_text) == 1))) };
            }
            assert!(child > 0);
            let mut status = 0;
            // SAFETY: the call writes the status.
            let ended = runtime::blocking(|| unsafe { libc::waitpid(child, &raw mut status, 0) });
            assert_eq!((ended, status), (child, 0));
            assert_eq!(TEXT.take(), format!("of {number}"));
        });
    });
}

/// Runs `main` on a thread that libc makes, and returns its result as a number. A thread of std would take a
/// lock of std, which another thread may have held when the process was forked.
fn a_thread_of_libc(main: extern "C" fn(*mut c_void) -> *mut c_void) -> usize {
    let (mut thread, mut result) = (0, ptr::null_mut());
    // SAFETY: the calls write to these two variables, and `main` does not use what it is given.
    unsafe {
        assert_eq!(libc::pthread_create(&raw mut thread, ptr::null(), main, ptr::null_mut()), 0);
        assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
    }
    result.addr()
}

/// std wakes the thread on which the scope began: the end of the scope once waited for ever.
#[test]
fn a_scope_of_std_whose_body_parks_ends() {
    on_all(|| {
        scope(|s| {
            for number in 0..8 {
                s.spawn(move || {
                    let done = AtomicUsize::new(0);
                    std::thread::scope(|std| {
                        for _ in 0..2 {
                            std.spawn(|| {
                                std::thread::sleep(2 * MILLI);
                                done.fetch_add(1, SeqCst);
                            });
                        }
                        (0..4).for_each(|n| park(number + n));
                    });
                    assert_eq!(done.load(SeqCst), 2);
                });
            }
        });
    });
}

/// glibc changes the group of each thread by a signal, and waits until the handler has marked each thread in
/// its block.
#[test]
fn the_group_of_the_process_changes_while_green_threads_run() {
    tests::alone!();
    // SAFETY: the calls have no requirements.
    let change = || assert_eq!(unsafe { libc::setgid(libc::getgid()) }, 0);
    on_all(|| {
        let over = std::sync::atomic::AtomicBool::new(false);
        scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while !over.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                });
            }
            for n in 0..50 {
                change();
                park(n);
            }
            let plain = std::thread::spawn(move || (0..50).for_each(|_| change()));
            runtime::blocking(|| plain.join().unwrap());
            over.store(true, SeqCst);
        });
    });
}

/// Futures keep the thread-locals of the OS thread, as in the other mode.
#[test]
fn closures_and_futures_share_stacks() {
    thread_local! { static VALUE: Cell<usize> = const { Cell::new(0) } }
    on_all(|| {
        let polls: Vec<_> = (0..50)
            .map(|n| {
                spawn(async move {
                    for _ in 0..10 {
                        VALUE.set(VALUE.get() + 1);
                        runtime::time::sleep_async(Duration::from_micros(50 * n)).await;
                    }
                })
            })
            .collect();
        for _ in 0..10 {
            in_many(|number| {
                assert_eq!(VALUE.replace(number + 1), 0);
                park(number);
                assert_eq!(VALUE.get(), number + 1);
            });
        }
        polls.into_iter().for_each(|poll| poll.join().unwrap());
    });
}

/// A green thread with thread-locals of its own may choose once in its life: the first choices of many are
/// spread.
#[test]
fn first_choices_of_select_differ() {
    on_all(|| {
        let ((fill_a, a), (fill_b, b)) = (runtime::channel::bounded(400), runtime::channel::bounded(400));
        (0..400).for_each(|n| (fill_a.send(n).unwrap(), fill_b.send(n).unwrap()).0);
        let of_a = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..400 {
                s.spawn(|| {
                    runtime::channel::select! {
                        recv(a) -> _ => _ = of_a.fetch_add(1, SeqCst),
                        recv(b) -> _ => {}
                    }
                });
            }
        });
        let of_a = of_a.into_inner();
        assert!((100..300).contains(&of_a), "{of_a} of 400 have chosen the first case");
    });
}

#[test]
fn a_local_set_in_a_thread_local_ends_with_its_green_thread() {
    thread_local!(static SET: LocalSet = LocalSet::new());
    on_all(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        for round in 1..=200 {
            // The labels are inherited: the green thread begins with fields that an earlier life has left empty.
            let in_thread = ended.clone();
            let own = runtime::profile::labels(&[("round", "x")], || {
                spawn(move || {
                    let held = OnDrop(move || _ = in_thread.fetch_add(1, SeqCst));
                    SET.with(|set| {
                        let task = set.spawn_local(async move {
                            let _held = held;
                            std::future::pending::<()>().await;
                        });
                        runtime::block_on_local(set.run_until(runtime::yield_now_async()));
                        assert!(!task.is_finished());
                    });
                    sleep(Duration::from_micros(50));
                })
            });
            own.join().unwrap();
            assert_eq!(ended.load(SeqCst), round, "the set did not drop its task");
        }
    });
}
