//! Context slots: what code keeps in its OS thread follows the green thread, and nothing of it stays behind.

use std::cell::{Cell, RefCell};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::channel::bounded;
use runtime::context_slot::{Slot, ThreadContext};
use runtime::sync::{Barrier, Mutex};
use runtime::thread::{Cancelled, pin};
use runtime::time::{sleep_async, timeout};
use runtime::{Builder, Migration, scope, spawn};
use tests::{Drops, OnDrop, Token, calls, on, on_each, quiet_panics_on_purpose, wait_until, with_built};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Code that keeps a stack of numbers in its OS thread, as a tracing subscriber keeps its spans.
mod library {
    use std::cell::RefCell;

    std::thread_local!(static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) });

    #[inline(never)]
    pub(crate) fn push(number: u64) {
        STACK.with_borrow_mut(|stack| stack.push(number));
    }

    #[inline(never)]
    pub(crate) fn pop() -> Option<u64> {
        STACK.with_borrow_mut(Vec::pop)
    }

    #[inline(never)]
    pub(crate) fn stack() -> Vec<u64> {
        STACK.with_borrow(Vec::clone)
    }

    #[inline(never)]
    pub(crate) fn replace(stack: Vec<u64>) -> Vec<u64> {
        STACK.replace(stack)
    }
}

/// The context of `library`.
struct Numbers;

impl ThreadContext for Numbers {
    type Saved = Vec<u64>;

    fn save(&self) -> Vec<u64> {
        library::replace(Vec::new())
    }

    fn restore(&self, saved: Vec<u64>) {
        assert_eq!(library::replace(saved), [0u64; 0], "another green thread has left its context behind");
    }

    fn inherit(&self) -> Option<Vec<u64>> {
        Some(library::stack()).filter(|stack| stack.first() == Some(&INHERITED))
    }
}

/// Children inherit a stack that begins with this number.
const INHERITED: u64 = 1 << 32;

static NUMBERS: Slot<Numbers> = Slot::new(Numbers);

/// Runs `main` as a green thread of a runtime, for 1, 2 and 8 Ps and for both kinds of migration.
fn on_each_kind(main: impl Fn() + Send + Sync) {
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        for procs in [1, 2, 8] {
            with_built(Builder::new().procs(procs).migration(migration), |runtime| runtime.block_on(&main));
        }
    }
}

/// Parks in one way after the other while its number is on the stack. Returns how often it saw another stack
/// than its own.
fn strangers_seen_by(id: u64, lock: &Mutex<()>) -> usize {
    let mut strangers = 0;
    let (sender, receiver) = bounded(1);
    for round in 0..20 {
        library::push(id + round);
        let before = library::stack();
        match round % 5 {
            0 => runtime::sleep(Duration::from_micros(id * 37 % 900)),
            1 => runtime::yield_now(),
            2 => {
                let sender = sender.clone();
                spawn(move || sender.send(()).unwrap());
                receiver.recv().unwrap();
            }
            3 => drop(lock.lock()),
            _ => spawn(runtime::yield_now).join().unwrap(),
        }
        strangers += usize::from(library::stack() != before);
        if round % 3 == 2 {
            let own = (library::pop(), library::pop());
            strangers += usize::from(own != (Some(id + round), Some(id + round - 1)));
        }
    }
    strangers
}

/// Returns how many of 100 green threads saw a stranger's context.
fn count_strangers(attach: bool) -> usize {
    let (strangers, lock) = (AtomicUsize::new(0), Mutex::new(()));
    scope(|s| {
        for id in 0..100 {
            let (strangers, lock) = (&strangers, &lock);
            s.spawn(move || {
                if attach {
                    NUMBERS.attach();
                }
                strangers.fetch_add(strangers_seen_by(id * 1000, lock), SeqCst);
            });
        }
    });
    strangers.into_inner()
}

#[test]
fn a_context_follows_its_green_thread() {
    on_each_kind(|| {
        assert_eq!(count_strangers(true), 0);
        assert_eq!(library::stack(), [0u64; 0]);
    });
}

/// The control: what the test above counts does happen.
#[test]
fn without_a_slot_contexts_are_mixed_up() {
    if tests::has_own_locals() {
        return;
    }
    on_each_kind(|| assert!(count_strangers(false) > 0));
}

#[test]
fn a_context_follows_a_future_from_poll_to_poll() {
    on_each_kind(|| {
        let tasks: Vec<_> = (0..200u64)
            .map(|id| {
                spawn(async move {
                    NUMBERS.attach();
                    for round in 0..10 {
                        library::push(id * 10 + round);
                        let before = library::stack();
                        sleep_async(Duration::from_micros((id + round) % 50)).await;
                        assert_eq!(library::stack(), before);
                        // Parks inside the poll.
                        runtime::sleep(Duration::from_micros((id + round) % 30));
                        assert_eq!(library::stack(), before);
                    }
                    runtime::block_on(async {
                        sleep_async(Duration::from_micros(id % 50)).await;
                        assert_eq!(library::stack().len(), 10);
                    });
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        // A future that a green thread drives.
        NUMBERS.attach();
        library::push(1);
        runtime::block_on(async {
            sleep_async(MILLI).await;
            assert_eq!(library::stack(), [1]);
        });
        assert_eq!(library::stack(), [1]);
    });
}

#[test]
fn the_end_of_a_green_thread_leaves_nothing_behind() {
    quiet_panics_on_purpose();
    on_each_kind(|| {
        for round in 0..50 {
            let ends = |how: u64| {
                spawn(move || {
                    assert_eq!(library::stack(), [0u64; 0]);
                    NUMBERS.attach();
                    library::push(how);
                    match how % 3 {
                        0 => {}
                        1 => panic!("{}", tests::ON_PURPOSE),
                        _ => runtime::sleep(HOUR),
                    }
                })
            };
            let [done, panics, sleeps] = [ends(round * 3), ends(round * 3 + 1), ends(round * 3 + 2)];
            sleeps.cancel();
            done.join().unwrap();
            assert!(panics.join().is_err());
            assert!(sleeps.join().unwrap_err().is::<Cancelled>());
        }
        assert_eq!(library::stack(), [0u64; 0]);
    });
}

/// A context with a value that counts its drops.
struct Counted;

std::thread_local!(static TOKEN: RefCell<Option<Token>> = const { RefCell::new(None) });

#[inline(never)]
fn replace_token(token: Option<Token>) -> Option<Token> {
    TOKEN.replace(token)
}

impl ThreadContext for Counted {
    type Saved = Option<Token>;

    fn save(&self) -> Option<Token> {
        replace_token(None)
    }

    fn restore(&self, saved: Option<Token>) {
        replace_token(saved);
    }
}

#[test]
fn what_is_saved_is_dropped_once_and_before_a_join_returns() {
    static COUNTED: Slot<Counted> = Slot::new(Counted);
    on_each_kind(|| {
        let drops = Drops::default();
        for round in 0..100 {
            let token = drops.token();
            let thread = spawn(move || {
                COUNTED.attach();
                replace_token(Some(token));
                (0..round % 3).for_each(|_| runtime::yield_now());
            });
            thread.join().unwrap();
            assert_eq!((drops.count(), drops.alive()), (round + 1, 0));
        }
    });
}

/// Destructors of the last kind: they run when the result, the values and the contexts of a green thread are
/// dropped.
#[test]
fn destructors_at_the_end_have_the_context_and_may_attach_again() {
    runtime::thread_local!(static LAST: RefCell<Option<OnDrop<fn()>>> = const { RefCell::new(None) });
    struct Again;
    struct Saved(bool);
    impl Drop for Saved {
        fn drop(&mut self) {
            if self.0 {
                // In a dropped context. The slot follows the green thread once more.
                AGAIN.attach();
                library::push(7);
                NUMBERS.attach();
                runtime::sleep(MILLI);
                assert_eq!(library::stack(), [7]);
                SEEN.fetch_add(1, SeqCst);
            }
        }
    }
    impl ThreadContext for Again {
        type Saved = Saved;
        fn save(&self) -> Saved {
            Saved(FIRST.swap(false, SeqCst))
        }
        fn restore(&self, mut saved: Saved) {
            FIRST.store(std::mem::take(&mut saved.0), SeqCst);
        }
    }
    static AGAIN: Slot<Again> = Slot::new(Again);
    static FIRST: AtomicBool = AtomicBool::new(false);
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    on_each_kind(|| {
        SEEN.store(0, SeqCst);
        FIRST.store(true, SeqCst);
        let thread = spawn(|| {
            AGAIN.attach();
            NUMBERS.attach();
            library::push(3);
            let look = || {
                runtime::sleep(MILLI);
                assert_eq!(library::stack(), [3]);
                SEEN.fetch_add(1, SeqCst);
            };
            LAST.set(Some(OnDrop(look)));
            OnDrop(look)
        });
        drop(thread.join().map(std::mem::forget));
        wait_until("the values are dropped", || SEEN.load(SeqCst) == 2);
        assert_eq!(library::stack(), [0u64; 0]);
    });
}

#[test]
fn unwinding_green_threads_keep_their_context() {
    on_each_kind(|| {
        scope(|s| {
            for id in 1..50 {
                s.spawn(move || {
                    NUMBERS.attach();
                    library::push(id);
                    let unwound = timeout(MILLI, || {
                        let _parks = OnDrop(|| {
                            assert_eq!(library::stack(), [id]);
                            runtime::sleep(Duration::from_micros(id * 20));
                            assert_eq!(library::stack(), [id]);
                        });
                        runtime::sleep(HOUR);
                    });
                    assert!(unwound.is_err());
                    assert_eq!(library::stack(), [id]);
                    let cancelled = spawn(move || {
                        NUMBERS.attach();
                        library::push(id + 1000);
                        let _parks = OnDrop(|| {
                            runtime::yield_now();
                            assert_eq!(library::stack(), [id + 1000]);
                        });
                        runtime::sleep(HOUR);
                    });
                    runtime::yield_now();
                    cancelled.cancel();
                    assert!(cancelled.join().is_err());
                    assert_eq!(library::stack(), [id]);
                });
            }
        });
    });
}

/// Counts its calls.
struct Calls {
    saves: AtomicUsize,
    restores: AtomicUsize,
}

impl Calls {
    const fn new() -> Self {
        Calls { saves: AtomicUsize::new(0), restores: AtomicUsize::new(0) }
    }

    /// Returns the numbers of calls of `save` and `restore` since the last call.
    fn take(&self) -> (usize, usize) {
        (self.saves.swap(0, SeqCst), self.restores.swap(0, SeqCst))
    }
}

impl ThreadContext for &'static Calls {
    type Saved = ();

    fn save(&self) {
        self.saves.fetch_add(1, SeqCst);
    }

    fn restore(&self, (): ()) {
        self.restores.fetch_add(1, SeqCst);
    }
}

#[test]
fn the_functions_run_where_the_docs_say() {
    static CALLS: Calls = Calls::new();
    static SLOT: Slot<&Calls> = Slot::new(&CALLS);
    // On a plain OS thread.
    SLOT.attach();
    assert!(SLOT.is_attached());
    runtime::sleep(MILLI);
    runtime::yield_now();
    assert_eq!(CALLS.take(), (0, 0));
    SLOT.detach();
    on(2, || {
        spawn(|| {
            runtime::sleep(MILLI);
            assert_eq!(CALLS.take(), (0, 0), "not attached yet");
            SLOT.attach();
            SLOT.attach();
            runtime::sleep(MILLI);
            runtime::yield_now();
            assert_eq!(CALLS.take(), (2, 2));
            runtime::blocking(|| std::thread::sleep(MILLI));
            tests::spin(15 * MILLI);
            spawn(|| ()).thread().unpark();
            assert_eq!(CALLS.take(), (0, 0), "these do not leave the OS thread");
            {
                let _pinned = pin();
                runtime::sleep(MILLI);
                runtime::yield_now();
                assert_eq!(CALLS.take(), (0, 0), "no other green thread runs on a pinned OS thread");
            }
            SLOT.detach();
            assert!(!SLOT.is_attached());
            runtime::sleep(MILLI);
            assert_eq!(CALLS.take(), (0, 0), "detached");
            SLOT.attach();
        })
        .join()
        .unwrap();
        assert_eq!(CALLS.take(), (1, 0), "the end");
        let future = spawn(async {
            SLOT.attach();
            sleep_async(MILLI).await;
            assert_eq!(CALLS.take(), (1, 1));
        });
        future.join().unwrap();
        assert_eq!(CALLS.take(), (1, 0));
    });
}

/// A pinned green thread, and a future that is bound to the same OS thread.
#[test]
fn a_pinned_green_thread_makes_room_for_bound_ones() {
    on_each_kind(|| {
        let both = Arc::new(Barrier::new(2));
        let (first, second) = (both.clone(), both);
        let threads = [
            spawn(async move {
                NUMBERS.attach();
                library::push(1);
                first.wait();
                for _ in 0..20 {
                    runtime::sleep(Duration::from_micros(200));
                    assert_eq!(library::stack(), [1]);
                }
            }),
            spawn(async move {
                NUMBERS.attach();
                library::push(2);
                second.wait();
                let _pinned = pin();
                for _ in 0..20 {
                    runtime::sleep(Duration::from_micros(300));
                    assert_eq!(library::stack(), [2]);
                }
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn several_slots_nest() {
    static ORDER: std::sync::Mutex<Vec<&str>> = std::sync::Mutex::new(Vec::new());
    struct Named(&'static str, &'static str);
    impl ThreadContext for Named {
        type Saved = ();
        fn save(&self) {
            ORDER.lock().unwrap().push(self.0);
        }
        fn restore(&self, (): ()) {
            ORDER.lock().unwrap().push(self.1);
        }
    }
    static A: Slot<Named> = Slot::new(Named("save a", "restore a"));
    static B: Slot<Named> = Slot::new(Named("save b", "restore b"));
    let order = || std::mem::take(&mut *ORDER.lock().unwrap());
    on_each(|| {
        A.attach();
        B.attach();
        runtime::yield_now();
        assert_eq!(order(), ["save b", "save a", "restore a", "restore b"]);
        A.detach();
        runtime::yield_now();
        assert_eq!(order(), ["save b", "restore b"]);
        A.attach();
        runtime::yield_now();
        assert_eq!(order(), ["save a", "save b", "restore b", "restore a"]);
        A.detach();
        B.detach();
    });
}

#[test]
fn a_panic_in_a_hook_spares_everything_else() {
    struct Panics;
    static HOW: AtomicUsize = AtomicUsize::new(0);
    impl ThreadContext for Panics {
        type Saved = ();
        fn save(&self) {
            assert!(HOW.load(SeqCst) != 1, "{}", tests::ON_PURPOSE);
        }
        fn restore(&self, (): ()) {
            assert!(HOW.load(SeqCst) != 2, "{}", tests::ON_PURPOSE);
        }
        fn inherit(&self) -> Option<()> {
            assert!(HOW.load(SeqCst) != 3, "{}", tests::ON_PURPOSE);
            Some(())
        }
    }
    static PANICS: Slot<Panics> = Slot::new(Panics);
    quiet_panics_on_purpose();
    on_each_kind(|| {
        for how in 0..4 {
            HOW.store(how, SeqCst);
            let thread = spawn(move || {
                NUMBERS.attach();
                PANICS.attach();
                library::push(5);
                runtime::sleep(MILLI);
                runtime::yield_now();
                let child = spawn(|| PANICS.is_attached());
                assert_eq!(child.join().unwrap(), how != 3);
                assert_eq!(library::stack(), [5]);
                // In the middle of an unwind, too.
                let caught = catch_unwind(|| {
                    let _parks = OnDrop(|| runtime::sleep(MILLI));
                    panic!("{}", tests::ON_PURPOSE);
                });
                assert!(caught.is_err());
                library::pop()
            });
            assert_eq!(thread.join().unwrap(), Some(5));
        }
    });
}

/// The end of a green thread drops what its slots have saved. A second panic during the unwind of the first
/// would end the process.
#[test]
fn panics_of_what_slots_have_saved_are_contained() {
    struct Bombs;
    impl ThreadContext for Bombs {
        type Saved = OnDrop<fn()>;
        fn save(&self) -> OnDrop<fn()> {
            OnDrop(|| panic!("{}", tests::ON_PURPOSE))
        }
        fn restore(&self, saved: OnDrop<fn()>) {
            std::mem::forget(saved);
        }
    }
    static BOMBS: [Slot<Bombs>; 2] = [Slot::new(Bombs), Slot::new(Bombs)];
    quiet_panics_on_purpose();
    on_each_kind(|| assert!(spawn(|| BOMBS.iter().for_each(Slot::attach)).join().is_ok()));
}

/// A hook that waits keeps its P until sysmon takes it.
#[test]
fn hooks_may_call_any_function() {
    struct CallsAll;
    std::thread_local!(static NEXT: Cell<usize> = const { Cell::new(0) });
    static MADE: AtomicUsize = AtomicUsize::new(0);
    fn make_calls() {
        let outer = runtime::thread::current().id();
        NUMBERS.attach();
        assert!(!NUMBERS.is_attached(), "attaching does nothing in a hook");
        let (name, call) = calls::ANYWHERE[MADE.fetch_add(1, SeqCst) % calls::ANYWHERE.len()];
        let done = catch_unwind(call);
        assert!(done.is_ok(), "{name} failed in a hook");
        assert_eq!(runtime::blocking(|| 7), 7);
        assert_eq!(runtime::thread::current().id(), outer);
    }
    /// The hooks that have begun and not returned: a hook that panics stays counted.
    static FAILED: AtomicUsize = AtomicUsize::new(0);
    impl ThreadContext for CallsAll {
        type Saved = ();
        fn save(&self) {
            FAILED.fetch_add(1, SeqCst);
            make_calls();
            FAILED.fetch_sub(1, SeqCst);
        }
        fn restore(&self, (): ()) {
            FAILED.fetch_add(1, SeqCst);
            make_calls();
            FAILED.fetch_sub(1, SeqCst);
        }
    }
    static SLOT: Slot<CallsAll> = Slot::new(CallsAll);
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        with_built(Builder::new().procs(2).migration(migration), |runtime| {
            runtime.block_on(|| {
                let threads: Vec<_> = (0..calls::ANYWHERE.len())
                    .map(|_| {
                        spawn(|| {
                            let me = runtime::thread::current().id();
                            SLOT.attach();
                            runtime::sleep(MILLI);
                            runtime::yield_now();
                            assert_eq!(runtime::thread::current().id(), me);
                        })
                    })
                    .collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
        });
    }
    assert_eq!(FAILED.load(SeqCst), 0);
    assert!(MADE.load(SeqCst) >= 2 * calls::ANYWHERE.len());
}

#[test]
fn children_inherit_where_the_slot_says_so() {
    on_each_kind(|| {
        NUMBERS.attach();
        library::push(3);
        spawn(|| assert!(library::stack().is_empty() && !NUMBERS.is_attached())).join().unwrap();
        library::pop();
        library::push(INHERITED);
        let closure = spawn(|| {
            library::push(8);
            runtime::sleep(MILLI);
            let grandchild = spawn(async {
                sleep_async(MILLI).await;
                library::push(9);
                runtime::sleep(MILLI);
                library::stack()
            });
            (library::stack(), grandchild.join().unwrap())
        });
        assert_eq!(closure.join().unwrap(), (vec![INHERITED, 8], vec![INHERITED, 8, 9]));
        scope(|s| {
            let scoped = s.spawn(library::stack);
            assert_eq!(scoped.join().unwrap(), [INHERITED]);
        });
        // A child that is cancelled before it begins.
        let never = spawn(|| ());
        never.cancel();
        let _ = never.join();
        assert_eq!(library::stack(), [INHERITED], "the parent keeps its context");
        library::pop();
        // Detached.
        NUMBERS.detach();
        spawn(|| assert!(!NUMBERS.is_attached())).join().unwrap();
    });
    // From a plain OS thread, and into another runtime.
    NUMBERS.attach();
    library::push(INHERITED);
    let (one, other) = (tests::runtime(1), tests::runtime(2));
    one.block_on(|| {
        library::push(4);
        let thread = other.spawn(library::stack);
        assert_eq!(thread.join().unwrap(), [INHERITED, 4]);
    });
    assert_eq!(library::pop(), Some(INHERITED));
    NUMBERS.detach();
}

runtime::thread_local! {
    #[inherit]
    /// With a doc comment.
    static TENANT: Cell<u64> = const { Cell::new(1) };
    static PRIVATE: Cell<u64> = const { Cell::new(1) };
    #[inherit]
    static WORDS: RefCell<Vec<u64>> = RefCell::new(Vec::new());
}
runtime::thread_local!(#[inherit] static SINGLE: Option<u8> = None);

#[test]
fn children_inherit_values_that_ask_for_it() {
    tests::everywhere(|| {
        spawn(|| assert_eq!((TENANT.get(), PRIVATE.get(), WORDS.take()), (1, 1, vec![]))).join().unwrap();
        TENANT.set(5);
        PRIVATE.set(5);
        WORDS.set(vec![6]);
        SINGLE.with(|_| ());
        let child = spawn(|| {
            assert_eq!((TENANT.get(), PRIVATE.get()), (5, 1));
            WORDS.with_borrow_mut(|words| words.push(7));
            TENANT.set(8);
            let grandchild = spawn(async { (TENANT.get(), WORDS.take()) });
            assert_eq!(grandchild.join().unwrap(), (8, vec![6, 7]));
        });
        child.join().unwrap();
        assert_eq!((TENANT.get(), WORDS.take()), (5, vec![6]));
        // Back to the initial values, for the next runtime that this plain thread uses.
        TENANT.set(1);
    });
}

#[test]
fn a_value_whose_clone_panics_fails_the_spawn_alone() {
    on_each_kind(|| {
        let drops = Drops::default();
        let token = drops.token();
        let spawned = catch_unwind(std::panic::AssertUnwindSafe(|| {
            WORDS.with_borrow_mut(|_| drop(spawn(move || drop(token))));
        }));
        assert!(spawned.is_err());
        assert_eq!(drops.alive(), 0);
        scope(|s| {
            let refused = catch_unwind(std::panic::AssertUnwindSafe(|| {
                WORDS.with_borrow_mut(|_| drop(s.spawn(|| ())));
            }));
            assert!(refused.is_err());
            s.spawn(|| ()).join().unwrap();
        });
        assert_eq!(spawn(|| 7).join().unwrap(), 7);
    });
}

#[test]
fn many_green_threads_attach_and_detach() {
    static CALLS: Calls = Calls::new();
    static SLOT: Slot<&Calls> = Slot::new(&CALLS);
    on_each_kind(|| {
        scope(|s| {
            for id in 0..1000u64 {
                s.spawn(move || {
                    for round in 0..10 {
                        if (id + round) % 3 == 0 {
                            SLOT.attach()
                        } else {
                            SLOT.detach()
                        }
                        NUMBERS.attach();
                        library::push(id);
                        runtime::sleep(Duration::from_micros((id * 7 + round) % 100));
                        assert_eq!(library::pop(), Some(id));
                        NUMBERS.detach();
                        runtime::yield_now();
                    }
                });
            }
        });
        let (saves, restores) = CALLS.take();
        assert!(restores >= 1000 && saves > restores, "{saves} saves and {restores} restores");
    });
}
