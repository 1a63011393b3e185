//! Scopes: what their threads borrow outlives the threads, also after panics, cancellations and forgotten
//! handles.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use runtime::thread::{Builder, Cancelled};
use runtime::time::sleep_async;
use runtime::{scope, spawn};
use tests::futures::both;
use tests::{
    Drops, ON_PURPOSE, OnDrop, Random, everywhere, on, on_each, quiet_panics_on_purpose, spin, wait_until,
    with,
};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

/// The panic message of a scope, as in std.
const SCOPE_PANIC: &str = "a scoped thread panicked";

/// Keeps panics on purpose, and panics of scopes that pass them on, off stderr.
fn quiet() {
    quiet_panics_on_purpose();
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload_as_str() != Some(SCOPE_PANIC) {
                before(info);
            }
        }));
    });
}

/// Returns how `f` ends, in words.
fn outcome<T: std::fmt::Debug>(f: impl FnOnce() -> T) -> String {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => format!("returns {value:?}"),
        Err(payload) => format!("panics: {}", words(&*payload)),
    }
}

fn words(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.or_else(|| payload.downcast_ref::<u32>().map(u32::to_string)).unwrap_or("something".into())
}

fn fails() {
    panic!("{ON_PURPOSE}");
}

/// Makes tests that run the same lines with std's threads and with green threads. Both must end as
/// `$expected` says.
macro_rules! as_std {
    ($($(#[$attr:meta])* $name:ident: $expected:expr, $body:block)*) => {
        $(
            #[test]
            $(#[$attr])*
            fn $name() {
                fn with_std() -> String {
                    #[allow(unused_imports)]
                    use std::thread;
                    outcome(|| $body)
                }
                fn with_green() -> String {
                    #[allow(unused_imports)]
                    use runtime::thread;
                    outcome(|| $body)
                }
                quiet();
                assert_eq!(with_std(), $expected, "with std's threads");
                everywhere(|| assert_eq!(with_green(), $expected));
            }
        )*
    };
}

as_std! {
    borrows_and_mutates_the_spawners_locals: "returns ([2, 3, 4], 9, \"ab\")", {
        let (mut numbers, mut sum, mut text) = ([1, 2, 3], 0, String::from("a"));
        thread::scope(|s| {
            for number in &mut numbers {
                s.spawn(|| *number += 1);
            }
            s.spawn(|| text.push('b'));
        });
        thread::scope(|s| {
            s.spawn(|| sum = numbers.iter().sum());
        });
        (numbers, sum, text)
    }
    results_may_borrow: "returns (\"green\", \"thread\")", {
        let text = String::from("green thread");
        thread::scope(|s| {
            let (a, b) = (s.spawn(|| &text[..5]), s.spawn(|| text.split(' ').nth(1).unwrap()));
            (a.join().unwrap().to_string(), b.join().unwrap().to_string())
        })
    }
    scopes_nest: "returns 1110", {
        let total = AtomicUsize::new(0);
        thread::scope(|s| {
            for _ in 0..10 {
                s.spawn(|| {
                    total.fetch_add(1, SeqCst);
                    thread::scope(|inner| {
                        for _ in 0..10 {
                            inner.spawn(|| {
                                total.fetch_add(1, SeqCst);
                                thread::scope(|innermost| {
                                    for _ in 0..10 {
                                        innermost.spawn(|| total.fetch_add(1, SeqCst));
                                    }
                                });
                            });
                        }
                    });
                });
            }
        });
        total.load(SeqCst)
    }
    threads_spawn_siblings: "returns 3", {
        let total = AtomicUsize::new(0);
        thread::scope(|s| {
            s.spawn(|| {
                total.fetch_add(1, SeqCst);
                s.spawn(|| {
                    thread::sleep(MILLI);
                    total.fetch_add(1, SeqCst);
                    s.spawn(|| {
                        thread::sleep(MILLI);
                        total.fetch_add(1, SeqCst)
                    });
                });
            });
        });
        total.load(SeqCst)
    }
    a_panic_of_f_unwinds_the_caller: "returns (\"panics: 7\", \"panics: 7\")", {
        let own = outcome(|| thread::scope(|_| resume_unwind(Box::new(7u32))));
        let text = String::new();
        let passed_on = outcome(|| {
            thread::scope(|s| {
                let thread = s.spawn(|| if text.is_empty() { resume_unwind(Box::new(7u32)) });
                if let Err(payload) = thread.join() {
                    resume_unwind(payload);
                }
            })
        });
        (own, passed_on)
    }
    a_panic_of_f_waits_for_the_threads: "returns (\"panics: 7\", true)", {
        let ended = AtomicBool::new(false);
        let how = outcome(|| {
            thread::scope(|s| {
                s.spawn(|| {
                    thread::sleep(5 * MILLI);
                    ended.store(true, SeqCst);
                });
                resume_unwind(Box::new(7u32))
            })
        });
        (how, ended.load(SeqCst))
    }
    a_panic_of_f_precedes_that_of_a_thread: "panics: 7", {
        thread::scope(|s| {
            s.spawn(fails);
            thread::sleep(MILLI);
            resume_unwind(Box::new(7u32))
        })
    }
    a_panic_of_an_unjoined_thread_panics_the_scope: format!("returns {:?}", vec![format!("panics: {SCOPE_PANIC}"); 2]), {
        // The handle is dropped at once, and after the panic.
        [false, true].map(|after| {
            outcome(|| {
                thread::scope(|s| {
                    let handle = s.spawn(fails);
                    while after && !handle.is_finished() {
                        thread::yield_now();
                    }
                    drop(handle);
                })
            })
        })
    }
    the_scope_panics_after_all_threads_have_ended: "returns (\"panics: a scoped thread panicked\", 3)", {
        let ended = AtomicUsize::new(0);
        let how = outcome(|| {
            thread::scope(|s| {
                s.spawn(fails);
                for i in 1..=3 {
                    let ended = &ended;
                    s.spawn(move || {
                        thread::sleep(MILLI * i);
                        ended.fetch_add(1, SeqCst);
                    });
                }
            })
        });
        (how, ended.load(SeqCst))
    }
    panics_of_joined_threads_reach_only_the_joiner: "returns (\"on purpose\", 7, 50)", {
        let text = thread::scope(|s| words(&*s.spawn(fails).join().unwrap_err()));
        let number = thread::scope(|s| {
            *s.spawn(|| resume_unwind(Box::new(7u32))).join().unwrap_err().downcast::<u32>().unwrap()
        });
        let many = thread::scope(|s| {
            let threads: Vec<_> = (0..50).map(|_| s.spawn(fails)).collect();
            threads.into_iter().map(|thread| thread.join()).filter(Result::is_err).count()
        });
        (text, number, many)
    }
    many_joined_panics_and_an_unjoined_one: "panics: a scoped thread panicked", {
        thread::scope(|s| {
            let mut threads: Vec<_> = (0..50).map(|_| s.spawn(fails)).collect();
            threads.swap_remove(20);
            threads.into_iter().map(|thread| thread.join()).filter(Result::is_err).count()
        })
    }
    a_sibling_may_join: "returns true", {
        thread::scope(|s| {
            let first = s.spawn(fails);
            s.spawn(move || first.join().is_err()).join().unwrap()
        })
    }
    a_sibling_may_join_after_f_has_returned: "returns 7", {
        thread::scope(|s| {
            let first = s.spawn(|| {
                thread::sleep(MILLI);
                fails();
            });
            s.spawn(move || assert!(first.join().is_err()));
            7
        })
    }
    the_panic_of_an_inner_scope_reaches_its_joiner: "returns \"a scoped thread panicked\"", {
        thread::scope(|s| {
            let thread = s.spawn(|| {
                thread::scope(|inner| {
                    inner.spawn(fails);
                });
            });
            words(&*thread.join().unwrap_err())
        })
    }
    a_scope_in_a_destructor_during_a_panic: "returns (\"panics: on purpose\", 20)", {
        let done = AtomicUsize::new(0);
        let how = outcome(|| {
            let _last = OnDrop(|| {
                thread::scope(|s| {
                    for _ in 0..10 {
                        s.spawn(|| {
                            assert!(!thread::panicking());
                            thread::sleep(MILLI);
                            done.fetch_add(1, SeqCst);
                        });
                    }
                    let joined = s.spawn(|| thread::sleep(MILLI));
                    joined.join().unwrap();
                    done.fetch_add(10, SeqCst);
                });
                assert!(thread::panicking());
            });
            fails();
        });
        (how, done.load(SeqCst))
    }
    names_and_stacks: "returns Some(\"counter\")", {
        let text = String::from("borrowed");
        thread::scope(|s| {
            let builder = thread::Builder::new().name("counter".into()).stack_size(300_001);
            let thread = builder.spawn_scoped(s, || {
                assert_eq!(text.len(), 8);
                let mut room = [1u8; 200_000];
                std::hint::black_box(&mut room);
                thread::current().name().map(String::from)
            });
            let thread = thread.unwrap();
            assert_eq!(thread.thread().name(), Some("counter"));
            thread.join().unwrap()
        })
    }
    an_empty_scope: "returns 5", {
        thread::scope(|_| 5)
    }
}

#[test]
fn futures_borrow_from_the_spawner() {
    everywhere(|| {
        let (mut numbers, word) = (vec![0; 100], String::from("word"));
        let sum = scope(|s| {
            for (i, number) in numbers.iter_mut().enumerate() {
                let word = &word;
                s.spawn(async move {
                    sleep_async(Duration::from_micros(i as u64 * 10)).await;
                    *number += word.len();
                });
            }
            let (a, b) = (s.spawn(async { word.as_str() }), s.spawn(|| 2));
            // A scoped handle is a future too.
            let (a, b) = runtime::block_on(both(a, b));
            a.unwrap().len() + b.unwrap()
        });
        assert_eq!((sum, numbers), (6, vec![4; 100]));
    });
}

#[test]
fn awaited_panics_do_not_panic_the_scope() {
    quiet();
    everywhere(|| {
        let how = outcome(|| {
            scope(|s| {
                let failed = s.spawn(async { fails() });
                runtime::block_on(failed).is_err()
            })
        });
        assert_eq!(how, "returns true");
        let how = outcome(|| {
            scope(|s| {
                s.spawn(async {
                    sleep_async(MILLI).await;
                    fails();
                });
            })
        });
        assert_eq!(how, format!("panics: {SCOPE_PANIC}"));
    });
}

#[test]
fn ten_thousand_threads_in_one_scope() {
    everywhere(|| {
        let (mut places, total) = (vec![0u32; 10_000], AtomicUsize::new(0));
        scope(|s| {
            for (i, place) in places.iter_mut().enumerate() {
                let total = &total;
                s.spawn(move || {
                    match i % 4 {
                        0 => runtime::sleep(Duration::from_micros(i as u64 % 3000)),
                        1 => runtime::yield_now(),
                        _ => {}
                    }
                    *place = i as u32 + 1;
                    total.fetch_add(1, SeqCst);
                });
            }
        });
        assert_eq!(total.load(SeqCst), 10_000);
        assert!(places.iter().enumerate().all(|(i, &place)| place == i as u32 + 1));
    });
}

#[test]
fn a_long_scope_of_short_threads_keeps_no_memory() {
    on(2, || {
        let drops = Drops::default();
        scope(|s| {
            for _ in 0..20_000 {
                let token = drops.token();
                s.spawn(move || drop(token)).join().unwrap();
            }
            assert_eq!(drops.alive(), 0);
            let stacks = runtime::metrics::snapshot().stack_bytes;
            assert!(stacks < 1 << 30, "{stacks} bytes of stacks for two threads at a time");
        });
    });
}

#[test]
fn captures_and_results_are_dropped_once() {
    quiet();
    everywhere(|| {
        let (drops, results) = (Drops::default(), Drops::default());
        let _ = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                for i in 0..60 {
                    let (token, result) = (drops.token(), results.token());
                    let thread = s.spawn(move || {
                        let _token = token;
                        match i % 4 {
                            0 => runtime::sleep(Duration::from_micros(i * 20)),
                            1 => runtime::yield_now(),
                            _ => {}
                        }
                        if i % 10 == 0 {
                            fails();
                        }
                        result
                    });
                    match i % 3 {
                        0 => drop(thread.join()),
                        1 => drop(thread),
                        _ => {
                            // The result is ready before its handle is dropped.
                            while !thread.is_finished() {
                                runtime::yield_now();
                            }
                        }
                    }
                }
            })
        }));
        assert_eq!((drops.count(), drops.alive()), (60, 0));
        assert_eq!((results.count(), results.alive()), (60, 0));
    });
}

#[test]
fn a_scope_waits_for_threads_with_forgotten_handles() {
    quiet();
    everywhere(|| {
        let (drops, ended) = (Drops::default(), AtomicUsize::new(0));
        scope(|s| {
            for i in 0..20 {
                let (token, ended) = (drops.token(), &ended);
                std::mem::forget(s.spawn(move || {
                    runtime::sleep(MILLI * (i % 3));
                    drop(token);
                    ended.fetch_add(1, SeqCst);
                }));
            }
        });
        assert_eq!((ended.load(SeqCst), drops.alive()), (20, 0));
        let how = outcome(|| scope(|s| std::mem::forget(s.spawn(fails))));
        assert_eq!(how, format!("panics: {SCOPE_PANIC}"), "the thread was not joined");
    });
}

/// A count on the spawner's stack of the threads that use it. A use after the scope's end finds the count
/// overwritten and ends the process.
struct Used(AtomicU64);

struct User<'a>(&'a Used);

const ALIVE: u64 = 0xA11E << 32;
const OVER: u64 = 0xDEAD << 32;

impl Used {
    fn user(&self) -> User<'_> {
        self.check(self.0.fetch_add(1, SeqCst));
        User(self)
    }

    fn check(&self, value: u64) {
        if value >> 32 != ALIVE >> 32 {
            eprintln!("a scoped thread uses what it borrowed after the end of its scope: {value:x}");
            std::process::abort();
        }
    }

    fn is_over(&self) {
        assert_eq!(self.0.swap(OVER, SeqCst), ALIVE, "the scope has ended before its threads");
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        // Slow, so that a scope that returns without waiting fails the test.
        self.0.check(self.0.0.load(SeqCst));
        runtime::yield_now();
        spin(Duration::from_micros(5));
        self.0.check(self.0.0.fetch_sub(1, SeqCst));
    }
}

/// Marks `used` as over when the frame that owns it ends, by return or by unwinding.
struct Ends<'a>(&'a Used);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.is_over();
    }
}

fn uses_its_stack(seed: u64) {
    let mut random = Random::new(seed);
    let used = Used(AtomicU64::new(ALIVE));
    let _ends = Ends(&used);
    let numbers = [seed; 8];
    scope(|s| {
        for _ in 0..random.below(12) {
            let (user, kind, time) = (used.user(), random.below(6), random.below(300));
            let (used, numbers) = (&used, &numbers);
            let work = move || {
                match kind {
                    0 => runtime::sleep(Duration::from_micros(time)),
                    1 => runtime::yield_now(),
                    2 => _ = spin(Duration::from_micros(time / 4)),
                    3 => runtime::blocking(|| std::thread::sleep(Duration::from_micros(time))),
                    4 => resume_unwind(Box::new(7u32)),
                    _ => {}
                }
                assert!(numbers.iter().all(|&number| number == seed));
                drop(user);
                // The result borrows too. The last owner of the result drops it.
                used.user()
            };
            match random.below(5) {
                0 => drop(s.spawn(work)),
                1 => drop(s.spawn(work).join()),
                2 => drop(s.spawn(async move {
                    sleep_async(Duration::from_micros(time)).await;
                    work()
                })),
                3 => drop(Builder::new().stack_size(100_000).spawn_scoped(s, work).unwrap()),
                _ => {
                    let thread = s.spawn(work);
                    s.spawn(move || drop(thread.join()));
                }
            }
            if random.below(30) == 0 {
                resume_unwind(Box::new(7u32));
            }
        }
    });
}

#[test]
fn a_scope_never_returns_while_a_thread_uses_its_borrows() {
    quiet();
    everywhere(|| {
        for seed in 0..400 {
            let _ = catch_unwind(|| uses_its_stack(seed));
        }
    });
}

#[test]
fn a_cancelled_scope_never_unwinds_while_a_thread_uses_its_borrows() {
    quiet();
    on_each(|| {
        let mut random = Random::new(9);
        let threads: Vec<_> = (0..300u64)
            .map(|seed| {
                let thread = spawn(move || {
                    (0..20).for_each(|round| drop(catch_unwind(|| uses_its_stack(seed * 20 + round))));
                });
                if random.below(3) == 0 {
                    runtime::sleep(Duration::from_micros(random.below(300)));
                }
                thread
            })
            .collect();
        for thread in threads {
            thread.cancel();
            let _ = thread.join();
        }
    });
}

fn ends_cancelled(main: impl FnOnce() + Send + 'static, wait: impl FnOnce()) {
    let thread = spawn(main);
    wait();
    thread.cancel();
    assert!(thread.join().unwrap_err().is::<Cancelled>());
}

#[test]
fn cancelling_a_waiting_scope_cancels_its_threads() {
    on_each(|| {
        let (drops, begun) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let (tokens, counter) = (drops.clone(), begun.clone());
        let main = move || {
            let _mine = tokens.token();
            scope(|s| {
                for i in 0..20 {
                    let (token, counter) = (tokens.token(), &counter);
                    let work = move || {
                        let _token = token;
                        counter.fetch_add(1, SeqCst);
                        match i % 4 {
                            0 => runtime::sleep(HOUR),
                            1 => scope(|inner| {
                                inner.spawn(|| runtime::sleep(HOUR));
                            }),
                            2 => runtime::thread::park(),
                            _ => runtime::block_on(sleep_async(HOUR)),
                        }
                        panic!("the closure was not cancelled");
                    };
                    s.spawn(work);
                    let (token, counter) = (tokens.token(), counter);
                    s.spawn(async move {
                        let _token = token;
                        counter.fetch_add(1, SeqCst);
                        sleep_async(HOUR).await;
                        panic!("the future was not cancelled");
                    });
                }
            });
            panic!("the spawner was not cancelled");
        };
        ends_cancelled(main, || wait_until("all threads run", || begun.load(SeqCst) == 40));
        assert_eq!((drops.count(), drops.alive()), (41, 0));
    });
}

#[test]
fn a_cancellation_inside_f_cancels_the_threads() {
    on_each(|| {
        let (drops, begun) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        for joins in [false, true] {
            let (tokens, counter) = (drops.clone(), begun.clone());
            let main = move || {
                scope(|s| {
                    let token = tokens.token();
                    let thread = s.spawn(move || {
                        let _token = token;
                        runtime::sleep(HOUR);
                    });
                    counter.fetch_add(1, SeqCst);
                    if joins {
                        let _ = thread.join();
                    }
                    runtime::sleep(HOUR);
                });
            };
            let before = begun.load(SeqCst);
            ends_cancelled(main, || wait_until("the spawner runs", || begun.load(SeqCst) > before));
        }
        assert_eq!((drops.count(), drops.alive()), (2, 0));
    });
}

#[test]
fn a_scope_waits_for_a_thread_that_catches_its_cancellation() {
    on_each(|| {
        let (begun, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (begins, ends) = (begun.clone(), ended.clone());
        let main = move || {
            scope(|s| {
                s.spawn(|| {
                    begins.store(true, SeqCst);
                    let cancelled = catch_unwind(|| runtime::sleep(HOUR)).unwrap_err();
                    assert!(cancelled.is::<Cancelled>());
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_millis(30) {
                        runtime::yield_now();
                    }
                    ends.store(true, SeqCst);
                });
            });
            panic!("the spawner was not cancelled");
        };
        ends_cancelled(main, || wait_until("the thread runs", || begun.load(SeqCst)));
        assert!(ended.load(SeqCst), "the scope has ended before its thread");
    });
}

#[test]
fn a_cancelled_thread_does_not_panic_the_scope() {
    everywhere(|| {
        let value = scope(|s| {
            let thread = s.spawn(runtime::thread::park);
            thread.cancel();
            s.spawn(|| runtime::sleep(HOUR)).cancel();
            assert!(thread.join().unwrap_err().is::<Cancelled>());
            5
        });
        assert_eq!(value, 5);
    });
}

/// A cancelled thread spawns another thread before its own next wait.
#[test]
fn a_thread_spawned_in_a_cancelled_scope_is_cancelled() {
    on_each(|| {
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        let main = move || {
            scope(|s| {
                s.spawn(|| {
                    begins.store(true, SeqCst);
                    while !runtime::thread::cancelled() {
                        runtime::yield_now();
                    }
                    s.spawn(|| runtime::sleep(HOUR));
                });
            });
        };
        ends_cancelled(main, || wait_until("the thread runs", || begun.load(SeqCst)));
    });
}

#[test]
fn a_scope_in_a_destructor_during_a_cancellation() {
    on_each(|| {
        let (drops, over) = (Drops::default(), Arc::new(AtomicBool::new(false)));
        let (tokens, ends) = (drops.clone(), over.clone());
        let main = move || {
            let mut number = 0;
            let _last = OnDrop(|| {
                scope(|s| {
                    for _ in 0..5 {
                        let token = tokens.token();
                        s.spawn(move || {
                            let _token = token;
                            runtime::sleep(MILLI);
                        });
                    }
                    number += 1;
                });
                ends.store(number == 1, SeqCst);
            });
            runtime::sleep(HOUR);
        };
        ends_cancelled(main, || runtime::sleep(MILLI));
        let begun = over.load(SeqCst);
        assert_eq!((drops.count(), drops.alive()), (if begun { 5 } else { 0 }, 0));
    });
}

#[test]
fn scoped_threads_run_in_the_spawners_runtime() {
    with(2, |runtime| {
        let spawned = runtime.handle().metrics().spawned;
        let sum = runtime.block_on(|| {
            let numbers = [1, 2, 3];
            scope(|s| {
                let threads = numbers.each_ref().map(|number| s.spawn(move || *number));
                threads.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>()
            })
        });
        assert_eq!(sum, 6);
        assert_eq!(runtime.handle().metrics().spawned - spawned, 4);
    });
}

#[test]
fn a_dropped_runtime_ends_the_scopes_in_it() {
    let drops = Drops::default();
    for round in 0..20 {
        with(2, |runtime| {
            for _ in 0..10 {
                let tokens = drops.clone();
                runtime.spawn(move || {
                    let _mine = tokens.token();
                    scope(|s| {
                        for _ in 0..5 {
                            let token = tokens.token();
                            s.spawn(move || {
                                let _token = token;
                                runtime::sleep(HOUR);
                            });
                        }
                    });
                });
            }
            if round % 2 == 0 {
                wait_until("all threads run", || drops.alive() == 60);
            }
        });
        assert_eq!(drops.alive(), 0);
    }
}

#[test]
fn a_scoped_handle_shows_its_thread() {
    everywhere(|| {
        let seen = Mutex::new(None);
        scope(|s| {
            let thread = s.spawn(|| {
                *seen.lock().unwrap() = Some(runtime::thread::current().id());
                runtime::thread::park();
            });
            assert!(!thread.is_finished());
            let id = thread.thread().id();
            thread.thread().unpark();
            thread.join().unwrap();
            assert_eq!(seen.lock().unwrap().take(), Some(id));
        });
    });
}

#[test]
fn at_most_as_many_run_as_the_limit_allows() {
    everywhere(|| {
        quiet();
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = async |i| {
            most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
            let _less = OnDrop(|| _ = running.fetch_sub(1, SeqCst));
            sleep_async(MILLI / 10).await;
            // A panic and a cancellation give the place back, too.
            assert!(i % 7 != 1, "{ON_PURPOSE}");
        };
        scope(|s| {
            s.set_limit(3);
            for i in 0..40 {
                let member = s.spawn(work(i));
                if i % 7 == 2 {
                    member.abort_handle().cancel();
                }
                // A member that panics is joined, so the scope does not panic.
                if i % 7 == 1 {
                    member.join().unwrap_err();
                }
            }
        });
        assert!((2..=3).contains(&most.load(SeqCst)), "{most:?}");
    });
}

#[test]
fn a_cancelled_spawner_that_waits_for_the_limit_unwinds_and_frees_it() {
    on_each(|| {
        let drops = Drops::default();
        let (token, never_runs) = (drops.token(), drops.token());
        let spawner = spawn(move || {
            scope(|s| {
                s.set_limit(1);
                s.spawn(move || {
                    let _token = token;
                    runtime::sleep(HOUR);
                });
                s.spawn(move || {
                    let _token = never_runs;
                    unreachable!("the place is never free before the cancellation");
                });
            });
        });
        tests::until_it_waits(&spawner);
        spawner.cancel();
        assert!(spawner.join().unwrap_err().is::<Cancelled>());
        assert_eq!(drops.alive(), 0);
    });
}

#[test]
fn a_limit_is_set_once_and_before_the_first_spawn() {
    quiet();
    let refused = |f: fn()| outcome(f);
    assert!(refused(|| scope(|s| s.set_limit(0))).contains("could never spawn"));
    let twice = || {
        scope(|s| {
            s.set_limit(2);
            s.set_limit(3);
        })
    };
    assert!(refused(twice).contains("set once"));
    let late = || {
        scope(|s| {
            let member = s.spawn(runtime::thread::park);
            let late = outcome(|| s.set_limit(2));
            member.thread().unpark();
            assert!(late.contains("set once"), "{late}");
        });
    };
    assert_eq!(refused(late), "returns ()");
}
