//! Models of the read-write locks, with a stand-in of glibc's functions that do not wait.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use libc::pthread_rwlock_t;
use loom::thread;

use super::{Words, clock, lock_or, own_number, pthread_rwlock_trywrlock, read, unlock_rwlock, write};
use crate::models::helpers::{Guarded, Reached, explore, explore_lives};
use crate::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// The state of a lock that a writer has. Else the state is the number of readers.
const WRITTEN: u32 = 1 << 31;

/// Returns the stand-in of glibc's function `name`.
pub(in super::super) fn glibc(name: &str) -> Option<*const ()> {
    Some(match name {
        "pthread_rwlock_tryrdlock" => try_read as *const (),
        "pthread_rwlock_trywrlock" => try_write as *const (),
        "pthread_rwlock_unlock" => unlock_word as *const (),
        _ => return None,
    })
}

unsafe fn words<'w>(lock: *mut pthread_rwlock_t) -> &'w Words {
    // SAFETY: locks of models are these words.
    unsafe { &*lock.cast::<Words>() }
}

/// SeqCst, here and below: glibc's instructions are locked on x86-64.
unsafe extern "C" fn try_read(lock: *mut pthread_rwlock_t) -> c_int {
    let next = |state| (state != WRITTEN).then(|| state + 1);
    // SAFETY: the caller's lock.
    let taken = unsafe { words(lock) }.state[0].fetch_update(SeqCst, SeqCst, next);
    if taken.is_ok() { 0 } else { libc::EBUSY }
}

unsafe extern "C" fn try_write(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's lock.
    let words = unsafe { words(lock) };
    if words.state[0].compare_exchange(0, WRITTEN, SeqCst, SeqCst).is_err() {
        return libc::EBUSY;
    }
    words.writer.store(own_number(), SeqCst);
    0
}

unsafe extern "C" fn unlock_word(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's lock.
    let words = unsafe { words(lock) };
    if words.state[0].load(SeqCst) == WRITTEN {
        words.writer.store(0, SeqCst);
        words.state[0].swap(0, SeqCst);
    } else {
        words.state[0].fetch_sub(1, SeqCst);
    }
    0
}

/// A lock, and what it guards.
struct Modelled {
    words: Words,
    guarded: Guarded,
}

impl Modelled {
    fn new() -> Arc<Modelled> {
        let new = || AtomicU32::new(0);
        let [writer, shared, preference] = [(); 3].map(|()| new());
        let state = [(); 6].map(|()| new());
        let words = Words { state, writer, shared, rest: [(); 4].map(|()| new()), preference };
        Arc::new(Modelled { words, guarded: Guarded::default() })
    }

    fn pointer(&self) -> *mut pthread_rwlock_t {
        ptr::from_ref(&self.words).cast_mut().cast()
    }

    fn read(&self) {
        // SAFETY: the lock is one, and lives.
        assert_eq!(unsafe { read(self.pointer()) }, 0);
    }

    fn write(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { write(self.pointer()) }, 0);
    }

    /// Takes the lock for writing, or returns `false` if the time, which is always up, lets it not.
    fn write_in_time(&self) -> bool {
        let whole = || unreachable!("a green thread parks");
        // SAFETY: as above.
        match unsafe { lock_or(self.pointer(), pthread_rwlock_trywrlock(), || Some(clock::NOW), whole) } {
            0 => true,
            result => {
                assert_eq!(result, libc::ETIMEDOUT);
                false
            }
        }
    }

    fn unlock(&self) {
        // SAFETY: as above, and the caller has the lock.
        assert_eq!(unsafe { unlock_rwlock(self.pointer()) }, 0);
    }

    fn add(&self) {
        self.write();
        self.guarded.add();
        self.unlock();
    }

    fn get(&self) -> usize {
        self.read();
        let value = self.guarded.get();
        self.unlock();
        value
    }

    /// Frees the lock.
    fn go(&self) {
        self.words.state[0].go();
        self.words.shared.go();
        self.words.writer.go();
    }
}

/// Writers exclude readers and writers, and none waits for ever.
#[test]
fn writers_exclude_all() {
    explore(2, || {
        let lock = Modelled::new();
        let [writer, reader] = [lock.clone(), lock.clone()];
        let writer = thread::spawn(move || writer.add());
        let reader = thread::spawn(move || reader.get());
        lock.add();
        writer.join().unwrap();
        assert!(reader.join().unwrap() <= 2);
        assert_eq!(lock.get(), 2);
    });
}

/// The end of a writer lets all waiting readers go on, at once.
#[test]
fn all_readers_are_woken() {
    explore(3, || {
        let lock = Modelled::new();
        lock.write();
        let readers = [(); 2].map(|()| {
            let lock = lock.clone();
            thread::spawn(move || {
                lock.read();
                lock.guarded.get()
            })
        });
        lock.guarded.add();
        lock.unlock();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 1);
        }
    });
}

/// The last reader lets a writer go on, and a writer that times out keeps none from that.
#[test]
fn a_writer_waits_for_the_last_reader() {
    static TIMED_OUT: Reached = Reached::new();
    explore(2, || {
        let lock = Modelled::new();
        lock.read();
        let [hasty, writer] = [lock.clone(), lock.clone()];
        let hasty = thread::spawn(move || {
            let has_it = hasty.write_in_time();
            if has_it {
                hasty.guarded.add();
                hasty.unlock();
            }
            TIMED_OUT.note(!has_it);
        });
        let writer = thread::spawn(move || writer.add());
        lock.guarded.get();
        lock.unlock();
        hasty.join().unwrap();
        writer.join().unwrap();
    });
    TIMED_OUT.assert();
}

/// A writer that asks again is refused, and does not wait for itself.
#[test]
fn a_writer_does_not_wait_for_itself() {
    explore(2, || {
        let lock = Modelled::new();
        lock.write();
        // SAFETY: the lock is one, and lives.
        let again = unsafe { (read(lock.pointer()), write(lock.pointer())) };
        assert_eq!(again, (libc::EDEADLK, libc::EDEADLK));
        lock.unlock();
    });
}

/// The last user of a lock frees it as soon as it has had the lock: the unlock of before uses it no more.
#[test]
fn a_lock_may_go_once_it_is_unlocked() {
    explore_lives(3, || {
        let lock = Modelled::new();
        lock.write();
        let last = lock.clone();
        let last = thread::spawn(move || {
            last.add();
            last.go();
        });
        lock.unlock();
        last.join().unwrap();
    });
}
