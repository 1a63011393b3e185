//! Thread-locals of its own for each closure: robust mutexes of pthread that have lost their owner.
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use runtime::{Builder, ThreadLocals, sleep, spawn, yield_now};
use tests::with_built;

/// A robust mutex.
struct Robust(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: pthread's functions alone use the mutex.
unsafe impl Sync for Robust {}
// SAFETY: no thread has it while it moves.
unsafe impl Send for Robust {}

impl Robust {
    fn new() -> Arc<Robust> {
        let robust = Arc::new(Robust(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        let mut kind = MaybeUninit::uninit();
        // SAFETY: the calls fill what they are given.
        unsafe {
            libc::pthread_mutexattr_init(kind.as_mut_ptr());
            libc::pthread_mutexattr_setrobust(kind.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            assert_eq!(libc::pthread_mutex_init(robust.0.get(), kind.as_ptr()), 0);
        }
        robust
    }

    fn lock(&self) -> i32 {
        // SAFETY: the mutex is one.
        unsafe { libc::pthread_mutex_lock(self.0.get()) }
    }

    /// Repairs the mutex after the end of its owner.
    fn repair(&self) {
        // SAFETY: the caller has the mutex.
        assert_eq!(unsafe { libc::pthread_mutex_consistent(self.0.get()) }, 0);
    }

    fn unlock(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }
}

fn on_all(main: impl Fn() + Send + Sync) {
    for procs in [1, 2, 8] {
        let builder = Builder::new().procs(procs).thread_locals(ThreadLocals::OfGreenThread);
        with_built(builder, |runtime| runtime.block_on(&main));
    }
}

#[test]
fn the_next_owner_hears_of_the_end() {
    on_all(|| {
        for round in 0..50 {
            let mutexes: Arc<[_]> = (0..3).map(|_| Robust::new()).collect();
            let owners = mutexes.clone();
            let owner = spawn(move || {
                owners.iter().for_each(|mutex| assert_eq!(mutex.lock(), 0));
                yield_now();
                // It is given back, and is not in the list any more.
                owners[1].unlock();
                assert!(round % 2 == 0, "on purpose");
            });
            assert_eq!(owner.join().is_ok(), round % 2 == 0);
            // These closures run on the stack of the first.
            for (at, mutex) in mutexes.iter().enumerate() {
                let mutex = mutex.clone();
                let next = move || {
                    let found = mutex.lock();
                    if found == libc::EOWNERDEAD {
                        mutex.repair();
                    }
                    yield_now();
                    mutex.unlock();
                    found
                };
                let expected = if at == 1 { 0 } else { libc::EOWNERDEAD };
                assert_eq!(spawn(next.clone()).join().unwrap(), expected, "of {at}");
                assert_eq!(spawn(next).join().unwrap(), 0);
            }
        }
    });
}

#[test]
fn owners_of_all_kinds_that_wait_hear_of_the_end() {
    on_all(|| {
        for _ in 0..10 {
            let mutex = Robust::new();
            let (locked, is_locked) = runtime::sync::oneshot::channel();
            let owner = spawn({
                let mutex = mutex.clone();
                move || {
                    assert_eq!(mutex.lock(), 0);
                    locked.send(()).unwrap();
                    sleep(Duration::from_millis(3));
                }
            });
            is_locked.recv().unwrap();
            let waits = |mutex: Arc<Robust>| {
                move || {
                    let found = mutex.lock();
                    if found == libc::EOWNERDEAD {
                        mutex.repair();
                    }
                    mutex.unlock();
                    found
                }
            };
            let plain = std::thread::spawn(waits(mutex.clone()));
            let green = runtime::blocking(waits(mutex.clone()));
            owner.join().unwrap();
            let found = [plain.join().unwrap(), green];
            assert!(found.iter().filter(|&&error| error == libc::EOWNERDEAD).count() == 1, "{found:?}");
        }
    });
}
