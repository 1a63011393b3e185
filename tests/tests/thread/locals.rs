//! `thread_local!` of the runtime: each green thread has its own value, on any OS thread, dropped when the
//! thread ends.

use std::cell::{Cell, RefCell};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::thread::{AccessError, Cancelled, LocalKey};
use runtime::time::sleep_async;
use runtime::{scope, spawn, thread_local};
use tests::{Drops, Random, Token, everywhere, on, on_each, quiet_panics_on_purpose, wait_until};

const HOUR: Duration = Duration::from_secs(3600);

thread_local! {
    /// A key with a doc comment and a visibility; the keys have both kinds of initial value.
    pub static NUMBER: Cell<u64> = const { Cell::new(5) };
    static WORDS: RefCell<Vec<u64>> = RefCell::new(vec![1, 2]);
    pub(crate) static NAME: String = format!("{:?}", runtime::thread::current().id());
    #[allow(unused)]
    static NO_SEMICOLON: u8 = const {
        let one = 1;
        one + 1
    }
}
thread_local!(static SINGLE: Cell<Option<&'static str>> = Cell::default());
thread_local!();

fn fresh() -> bool {
    NUMBER.get() == 5 && WORDS.with_borrow(|words| *words == [1, 2])
}

#[test]
fn every_thread_has_its_own_values() {
    everywhere(|| {
        scope(|s| {
            for i in 10..40 {
                s.spawn(move || {
                    assert!(fresh());
                    NUMBER.set(i);
                    WORDS.with_borrow_mut(|words| words.push(i));
                    SINGLE.set(Some("set"));
                    for _ in 0..10 {
                        runtime::yield_now();
                        runtime::sleep(Duration::from_micros(i * 3));
                        assert_eq!((NUMBER.get(), SINGLE.get()), (i, Some("set")));
                        assert_eq!(WORDS.with_borrow(Vec::clone), [1, 2, i]);
                    }
                    spawn(|| assert!(fresh())).join().unwrap();
                });
            }
        });
        assert_eq!(NO_SEMICOLON.with(|number| *number), 2);
    });
    // Stacks and Gs are reused, and values are not.
    on(1, || {
        for i in 0..1000 {
            let thread = spawn(move || {
                assert!(fresh());
                NUMBER.set(i);
                WORDS.take();
            });
            thread.join().unwrap();
        }
    });
}

#[test]
fn initial_values_are_made_by_the_thread_itself() {
    everywhere(|| {
        let made = |name: &String| *name == format!("{:?}", runtime::thread::current().id());
        scope(|s| {
            for _ in 0..20 {
                s.spawn(|| {
                    runtime::yield_now();
                    assert!(NAME.with(made));
                    runtime::sleep(Duration::from_micros(50));
                    assert!(NAME.with(made));
                });
            }
        });
    });
}

#[test]
fn methods_of_cell_and_refcell_keys() {
    thread_local! {
        static CELL: Cell<u32> = const { Cell::new(1) };
        static REF: RefCell<String> = RefCell::new("a".into());
    }
    on_each(|| {
        assert_eq!((CELL.get(), CELL.replace(2), CELL.take(), CELL.get()), (1, 1, 2, 0));
        CELL.set(4);
        CELL.with(|cell| assert_eq!(cell.get(), 4));
        assert_eq!(REF.replace("b".into()), "a");
        REF.with_borrow_mut(|text| text.push('c'));
        assert_eq!(REF.with_borrow(String::len), 2);
        assert_eq!((REF.take(), REF.take()), ("bc".into(), String::new()));
        REF.set("d".into());
        REF.with(|text| assert_eq!(*text.borrow(), "d"));
        // Borrows conflict as they do in std.
        assert!(REF.with_borrow(|_| catch_unwind(|| REF.set("e".into()))).is_err());
        assert!(REF.with_borrow_mut(|_| catch_unwind(|| REF.with_borrow(|_| ()))).is_err());
        assert_eq!(REF.with_borrow(String::clone), "d");
        assert_eq!(CELL.try_with(Cell::get), Ok(4));
    });
}

#[test]
fn a_value_stays_with_its_thread_across_os_threads() {
    on(8, || {
        let moved = AtomicUsize::new(0);
        scope(|s| {
            for seed in 0..200 {
                let moved = &moved;
                s.spawn(move || {
                    let mut random = Random::new(seed);
                    let address = NUMBER.with(|number| {
                        number.set(seed);
                        std::ptr::from_ref(number).addr()
                    });
                    let mut os = tests::os_thread();
                    for i in 0..100 {
                        match random.below(4) {
                            0 => runtime::yield_now(),
                            1 => runtime::blocking(std::thread::yield_now),
                            _ => runtime::sleep(Duration::from_micros(random.below(100))),
                        }
                        NUMBER.with(|number| {
                            assert_eq!(
                                (number.get(), std::ptr::from_ref(number).addr()),
                                (seed + i, address)
                            );
                            // A reference to the value stays valid across a park.
                            runtime::yield_now();
                            number.set(seed + i + 1);
                        });
                        let now = tests::os_thread();
                        moved.fetch_add(usize::from(now != os), SeqCst);
                        os = now;
                    }
                });
            }
        });
        assert!(moved.load(SeqCst) > 100, "too few moves to other OS threads: {}", moved.load(SeqCst));
    });
}

struct Tokens(RefCell<Vec<Token>>);

thread_local!(static TOKENS: Tokens = Tokens(RefCell::new(Vec::new())));

fn keep(token: Token) {
    TOKENS.with(|tokens| tokens.0.borrow_mut().push(token));
}

#[test]
fn ten_thousand_threads_drop_their_values() {
    everywhere(|| {
        let drops = Drops::default();
        scope(|s| {
            for i in 0..10_000u64 {
                let (token, other) = (drops.token(), drops.token());
                s.spawn(move || {
                    keep(token);
                    if i % 3 == 0 {
                        runtime::sleep(Duration::from_micros(i % 1000));
                    }
                    keep(other);
                });
            }
        });
        // A scope ends after its threads' values are dropped, because destructors may take time.
        assert_eq!((drops.count(), drops.alive()), (20_000, 0));
    });
}

#[test]
fn values_are_dropped_before_a_join_returns() {
    on_each(|| {
        let drops = Drops::default();
        for _ in 0..200 {
            let token = drops.token();
            spawn(|| keep(token)).join().unwrap();
            assert_eq!(drops.alive(), 0);
        }
        // A green thread that panics or is cancelled drops its values too.
        quiet_panics_on_purpose();
        let token = drops.token();
        let failed = spawn(|| {
            keep(token);
            panic!("{}", tests::ON_PURPOSE);
        });
        assert!(failed.join().is_err());
        let (token, begun) = (drops.token(), Arc::new(AtomicUsize::new(0)));
        let begins = begun.clone();
        let cancelled = spawn(move || {
            keep(token);
            begins.store(1, SeqCst);
            runtime::sleep(HOUR);
        });
        wait_until("the thread runs", || begun.load(SeqCst) == 1);
        cancelled.cancel();
        assert!(cancelled.join().unwrap_err().is::<Cancelled>());
        assert_eq!((drops.count(), drops.alive()), (202, 0));
    });
}

/// Runs `main` on a thread of each kind, which ends afterwards and drops its values.
fn in_a_thread(main: fn()) {
    on_each(|| spawn(main).join().unwrap());
    on_each(|| spawn(async move { main() }).join().unwrap());
    std::thread::spawn(main).join().unwrap();
}

/// A value with a destructor that runs a function and adds its result to `FOUND`.
#[derive(Default)]
struct Found(RefCell<Option<fn() -> usize>>);

static FOUND: AtomicUsize = AtomicUsize::new(0);

impl Drop for Found {
    fn drop(&mut self) {
        if let Some(look) = self.0.take() {
            FOUND.fetch_add(look(), SeqCst);
        }
    }
}

fn finds(expected: usize, main: fn()) {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    FOUND.store(0, SeqCst);
    in_a_thread(main);
    // Seven threads: a closure and a future on 1, 2 and 8 Ps, and a plain thread.
    assert_eq!(FOUND.load(SeqCst), 7 * expected);
}

#[test]
fn a_destructor_may_spawn_and_sleep() {
    thread_local!(static LAST: Found = Found::default());
    finds(42, || {
        LAST.with(|last| {
            *last.0.borrow_mut() = Some(|| {
                let start = std::time::Instant::now();
                runtime::sleep(Duration::from_millis(2));
                assert!(start.elapsed() >= Duration::from_millis(2));
                runtime::yield_now();
                spawn(|| 42).join().unwrap()
            });
        });
    });
}

#[test]
fn a_value_in_its_destructor_is_inaccessible() {
    thread_local!(static LAST: Found = Found::default());
    finds(1, || {
        LAST.with(|last| {
            *last.0.borrow_mut() = Some(|| {
                let answer: Result<(), AccessError> = LAST.try_with(|_| ());
                usize::from(answer.is_err_and(|error| !error.to_string().is_empty()))
            });
        });
    });
}

#[test]
fn a_destructor_may_use_other_keys() {
    thread_local! {
        static FIRST: Cell<usize> = const { Cell::new(1) };
        static LAST: Found = Found::default();
        static LATER: Cell<usize> = const { Cell::new(30) };
    }
    // FIRST is still alive: it was made first, so it is dropped last. LATER is made by the destructor.
    finds(230, || {
        FIRST.set(200);
        LAST.with(|last| {
            *last.0.borrow_mut() = Some(|| FIRST.get() + LATER.get());
        });
    });
}

#[test]
fn values_made_by_destructors_are_dropped() {
    static TOKEN: std::sync::Mutex<Option<Token>> = std::sync::Mutex::new(None);
    struct Makes;
    impl Drop for Makes {
        fn drop(&mut self) {
            // The value goes into another key, which may be new.
            keep(TOKEN.lock().unwrap().take().unwrap());
        }
    }
    thread_local!(static MAKES: Makes = const { Makes });
    let drops = Drops::default();
    let round = |run: &dyn Fn()| {
        *TOKEN.lock().unwrap() = Some(drops.token());
        run();
    };
    on(2, || spawn(|| ()).join().unwrap());
    round(&|| on_each_once(|| MAKES.with(|_| ())));
    assert_eq!((drops.count(), drops.alive()), (1, 0), "on a green thread");
    round(&|| std::thread::spawn(|| MAKES.with(|_| ())).join().unwrap());
    assert_eq!((drops.count(), drops.alive()), (2, 0), "on a plain thread");
}

fn on_each_once(main: fn()) {
    on(2, || spawn(main).join().unwrap());
}

#[test]
fn plain_threads_drop_their_values_at_their_end() {
    let drops = Drops::default();
    for _ in 0..100 {
        let token = drops.token();
        let thread = std::thread::spawn(|| {
            keep(token);
            runtime::sleep(Duration::from_micros(100));
            assert_eq!(TOKENS.with(|tokens| tokens.0.borrow().len()), 1);
        });
        thread.join().unwrap();
        assert_eq!(drops.alive(), 0);
    }
}

#[test]
fn a_panic_in_a_destructor_spares_other_values() {
    quiet_panics_on_purpose();
    struct Fails;
    impl Drop for Fails {
        fn drop(&mut self) {
            panic!("{}", tests::ON_PURPOSE);
        }
    }
    thread_local!(static FAILS: Fails = const { Fails });
    on_each(|| {
        let drops = Drops::default();
        let token = drops.token();
        let thread = spawn(|| {
            keep(token);
            FAILS.with(|_| ());
            5
        });
        assert_eq!(thread.join().unwrap(), 5);
        assert_eq!((drops.count(), drops.alive()), (1, 0));
    });
}

#[test]
fn initial_values_may_use_other_keys_and_park() {
    thread_local! {
        static BASE: Cell<u64> = Cell::new(spawn(|| 20).join().unwrap());
        static SUM: u64 = {
            runtime::sleep(Duration::from_micros(100));
            BASE.get() + 1 + OTHER.with(|other| *other)
        };
        static OTHER: u64 = BASE.replace(7);
    }
    everywhere(|| {
        scope(|s| {
            for _ in 0..20 {
                s.spawn(|| {
                    assert_eq!(SUM.with(|sum| *sum), 41);
                    assert_eq!((BASE.get(), OTHER.with(|other| *other)), (7, 20));
                });
            }
        });
    });
}

#[test]
fn a_recursive_initial_value() {
    thread_local! {
        static DEPTH: Cell<u32> = const { Cell::new(0) };
        static ROUND: u32 = {
            let depth = DEPTH.get();
            DEPTH.set(depth + 1);
            if depth < 3 { ROUND.with(|inner| *inner) } else { 9 }
        };
    }
    on_each(|| {
        spawn(|| {
            assert_eq!(ROUND.with(|round| *round), 9);
            assert_eq!(
                (ROUND.with(|round| *round), DEPTH.get()),
                (9, 4),
                "the initial value is made four times"
            );
        })
        .join()
        .unwrap();
    });
}

#[test]
fn an_initial_value_that_panics_is_made_again() {
    quiet_panics_on_purpose();
    thread_local! {
        static TRIES: Cell<u32> = const { Cell::new(0) };
        static LATE: u32 = {
            TRIES.set(TRIES.get() + 1);
            if TRIES.get() < 3 {
                panic!("{}", tests::ON_PURPOSE);
            }
            TRIES.get()
        };
    }
    on_each(|| {
        let thread = spawn(|| {
            let tries = [(); 4].map(|()| catch_unwind(|| LATE.with(|late| *late)).ok());
            assert_eq!(tries, [None, None, Some(3), Some(3)]);
        });
        thread.join().unwrap();
    });
}

#[test]
fn a_future_keeps_its_value_across_polls() {
    on_each(|| {
        let drops = Drops::default();
        let tasks: Vec<_> = (0..500u64)
            .map(|i| {
                let token = drops.token();
                spawn(async move {
                    assert!(fresh());
                    NUMBER.set(i);
                    keep(token);
                    for round in 0..10 {
                        sleep_async(Duration::from_micros((i + round) % 50)).await;
                        assert_eq!(NUMBER.get(), i + round);
                        NUMBER.set(i + round + 1);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!((drops.count(), drops.alive()), (500, 0));
        // A future in `block_on` shares the values of the thread that drives it.
        NUMBER.set(77);
        runtime::block_on(async {
            sleep_async(Duration::from_micros(50)).await;
            assert_eq!(NUMBER.get(), 77);
        });
    });
}

#[test]
fn a_key_can_be_passed_as_a_value() {
    fn add(key: &'static LocalKey<Cell<u64>>) -> u64 {
        key.set(key.get() + 1);
        key.get()
    }
    thread_local!(static OTHER: Cell<u64> = const { Cell::new(5) });
    on_each(|| {
        spawn(|| assert_eq!((add(&NUMBER), add(&NUMBER), add(&OTHER)), (6, 7, 6))).join().unwrap();
    });
    // Many keys of the same type with the same initial value are distinct.
    macro_rules! keys {
        ($($name:ident)*) => {
            thread_local!($(static $name: Cell<u64> = const { Cell::new(0) };)*);
            on_each(|| {
                let mut n = 0;
                $(
                    n += 1;
                    $name.set(n);
                )*
                runtime::sleep(Duration::from_micros(10));
                let sum = [$($name.get()),*];
                assert_eq!(sum.iter().sum::<u64>(), n * (n + 1) / 2);
            });
        };
    }
    keys!(A B C D E F G H I J K L M N O P Q R S T);
}
