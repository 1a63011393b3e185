//! `sync::Pool`: objects are used again, by one thread at a time, on all Ps and on plain OS threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::sync::{Pool, PoolGuard};
use runtime::thread::{self, Cancelled};
use runtime::{scope, spawn};
use tests::{Drops, Random, Token, everywhere, on, on_each, quiet_panics_on_purpose, until_it_waits};

const HOUR: Duration = Duration::from_secs(3600);

/// An object that tells if two threads use it at the same time.
struct Used {
    now: AtomicBool,
    times: usize,
    _token: Token,
}

impl Used {
    fn new(drops: &Drops) -> Used {
        Used { now: AtomicBool::new(false), times: 0, _token: drops.token() }
    }
}

fn use_it(object: &mut PoolGuard<'_, Used, impl Fn() -> Used>, meanwhile: impl FnOnce()) {
    assert!(!object.now.swap(true, SeqCst), "two threads use it");
    object.times += 1;
    meanwhile();
    object.now.store(false, SeqCst);
}

#[test]
fn an_object_is_used_again() {
    on_each(|| {
        let drops = Drops::default();
        {
            let pool = Pool::new(|| Used::new(&drops));
            for _ in 0..1000 {
                use_it(&mut pool.get(), || ());
            }
            let object = pool.get();
            // A green thread that was moved to another P finds the object there.
            assert!(object.times == 1000 && drops.alive() == 1, "{} {}", object.times, drops.alive());
        }
        assert_eq!(drops.alive(), 0);
    });
}

#[test]
fn no_object_is_used_twice_at_a_time_or_lost() {
    everywhere(|| {
        let (drops, made) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let pool = Arc::new(Pool::new({
            let (drops, made) = (drops.clone(), made.clone());
            move || {
                made.fetch_add(1, SeqCst);
                Used::new(&drops)
            }
        }));
        let plain = pool.clone();
        let plain = std::thread::spawn(move || works(&plain, 1));
        scope(|s| {
            let pool = &*pool;
            (2..20).for_each(|seed| drop(s.spawn(move || works(pool, seed))));
        });
        runtime::blocking(|| plain.join()).unwrap();
        let (made, kept) = (made.load(SeqCst), drops.alive().cast_unsigned());
        assert!(made < 19 * USES && (1..=made).contains(&kept), "{made} made, {kept} kept");
        pool.clear();
        assert_eq!((drops.alive(), drops.count()), (0, made));
    });
}

const USES: usize = 200;

fn works(pool: &Pool<Used, impl Fn() -> Used>, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..USES {
        let mut object = pool.get();
        use_it(&mut object, || match random.below(4) {
            0 => runtime::yield_now(),
            1 => runtime::sleep(Duration::from_micros(random.below(50))),
            _ => {}
        });
        if random.below(8) == 0 {
            pool.put(PoolGuard::into_inner(object));
        }
    }
}

#[test]
fn an_object_of_another_p_is_taken() {
    on(4, || {
        let drops = Drops::default();
        let pool = Pool::new(|| -> Used { panic!("an object is there") });
        for _ in 0..100 {
            pool.put(Used::new(&drops));
            scope(|s| {
                s.spawn(|| drop(PoolGuard::into_inner(pool.get()))).join().unwrap();
            });
        }
        // From a plain OS thread, too.
        pool.put(Used::new(&drops));
        let plain = std::thread::scope(|s| s.spawn(|| drop(PoolGuard::into_inner(pool.get()))).join());
        plain.unwrap();
        assert_eq!((drops.count(), drops.alive()), (101, 0));
    });
}

#[test]
fn a_guard_that_unwinds_drops_its_object() {
    quiet_panics_on_purpose();
    static POOL: Pool<Vec<u8>> = Pool::new(Vec::new);
    static WAITS: Pool<Vec<u8>> = Pool::new(Vec::new);
    on(2, || {
        let half = catch_unwind(|| {
            let mut object = POOL.get();
            object.push(1);
            panic!("on purpose");
        });
        assert!(half.is_err() && POOL.get().is_empty());
        let waits = spawn(|| {
            let mut object = WAITS.get();
            object.push(1);
            runtime::sleep(HOUR);
        });
        until_it_waits(&waits);
        waits.cancel();
        assert!(waits.join().unwrap_err().is::<Cancelled>() && WAITS.get().is_empty());
    });
}

#[test]
fn a_panic_of_make_or_of_a_destructor_leaves_the_pool_usable() {
    quiet_panics_on_purpose();
    struct Bad(bool);
    impl Drop for Bad {
        fn drop(&mut self) {
            assert!(!self.0, "on purpose");
        }
    }
    let fails = AtomicBool::new(true);
    let pool = Pool::new(|| {
        assert!(!fails.load(SeqCst), "on purpose");
        Bad(false)
    });
    assert!(catch_unwind(AssertUnwindSafe(|| drop(pool.get()))).is_err());
    pool.put(Bad(true));
    assert!(catch_unwind(AssertUnwindSafe(|| pool.clear())).is_err());
    fails.store(false, SeqCst);
    assert!(!pool.get().0);
}

#[test]
fn destructors_may_use_the_pool() {
    static POOL: Pool<Nested> = Pool::new(|| Nested(3));
    struct Nested(u8);
    impl Drop for Nested {
        fn drop(&mut self) {
            if self.0 > 0 {
                POOL.put(Nested(self.0 - 1));
            }
        }
    }
    on(2, || {
        drop(PoolGuard::into_inner(POOL.get()));
        for _ in 0..4 {
            POOL.clear();
        }
        let threads: Vec<_> = (0..100).map(|_| spawn(|| drop(POOL.get()))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        thread::yield_now();
        POOL.clear();
    });
}
