//! The small spin lock of a primitive: one exchange takes it, one store releases it.
//!
//! The lock guards a few words for a few instructions: a queue of waiters and what they wait for. The holder
//! does not park, enter the runtime, or run user code. So only the kernel and a pause can delay a holder.
//!
//! A locker that finds the lock taken spins a little, then yields its CPU, and then sleeps
//! (`sched::Backoff`).
//!
//! Rejected: *to count the locks of each thread*, as other locks of the runtime do (`sync/hold.rs`), so that
//! no holder is paused. A message through a channel then takes 10.5 ns instead of 8.

#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

#[cfg(not(loom))]
use sched::Backoff;
use sched::sync::{
    atomic::{AtomicBool, Ordering},
    broken,
    cell::UnsafeCell,
};

/// A lock around `S`. The file's head explains how a locker waits.
pub struct Lock<S> {
    word: LoomWord,
    state: UnsafeCell<S>,
}

// SAFETY: the state is reached through a `Guard` or a `&mut Lock` alone, and `LoomWord` admits one guard at a
// time.
unsafe impl<S: Send> Send for Lock<S> {}
// SAFETY: the state is reached through a `Guard` alone, and `LoomWord` admits one guard at a time.
unsafe impl<S: Send> Sync for Lock<S> {}

// No user code runs under the lock, so a panic of the user's leaves the state whole.
impl<S> UnwindSafe for Lock<S> {}
impl<S> RefUnwindSafe for Lock<S> {}

impl<S> Lock<S> {
    /// Makes a free lock around `state`.
    #[cfg(not(loom))]
    pub const fn new(state: S) -> Self {
        Lock { word: LoomWord::new(), state: UnsafeCell::new(state) }
    }

    /// Makes a free lock around `state`.
    #[cfg(loom)]
    pub fn new(state: S) -> Self {
        Lock { word: LoomWord::new(), state: UnsafeCell::new(state) }
    }

    /// Takes the lock. *Runs on: any thread that does not hold it.*
    #[inline]
    pub fn lock(&self) -> Guard<'_, S> {
        Guard { lock: self, _release: self.word.take() }
    }

    /// Takes the lock if it is free at once. *Runs on: any thread.*
    #[cfg(not(loom))]
    pub fn try_lock(&self) -> Option<Guard<'_, S>> {
        self.word.try_take().map(|release| Guard { lock: self, _release: release })
    }

    /// Returns the state. *Runs on: the only owner.*
    pub fn get_mut(&mut self) -> &mut S {
        // SAFETY: `self` is borrowed mutably, so there is no guard. (loom's cell has no `get_mut`.)
        self.state.with_mut(|state| unsafe { &mut *state })
    }
}

impl<S: Default> Default for Lock<S> {
    fn default() -> Self {
        Lock::new(S::default())
    }
}

impl<S> std::fmt::Debug for Lock<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

/// Evidence that the lock is held. Releases the lock when dropped.
#[must_use]
pub struct Guard<'l, S> {
    lock: &'l Lock<S>,
    _release: Release<'l>,
}

impl<'l, S> Guard<'l, S> {
    /// Returns the lock that this guard holds.
    #[inline]
    pub fn lock(this: &Self) -> &'l Lock<S> {
        this.lock
    }

    /// Calls `f` while the lock is free, and takes the lock again, also if `f` unwinds.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn unlocked(this: &mut Self, f: fn()) {
        // `this` itself stays here, so that a caller may keep it in registers.
        this.lock.word.unlocked(f);
    }
}

impl<S> Deref for Guard<'_, S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        // SAFETY: this is the only guard, and it is borrowed, so no thread writes.
        self.lock.state.with(|state| unsafe { &*state })
    }
}

impl<S> DerefMut for Guard<'_, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut S {
        // SAFETY: this is the only guard, and it is borrowed mutably.
        self.lock.state.with_mut(|state| unsafe { &mut *state })
    }
}

impl<S> std::fmt::Debug for Guard<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// The word of a lock.
#[cfg(not(loom))]
use Spin as LoomWord;

#[cfg(not(loom))]
use SpinRelease as Release;

// Spinning gives loom too many states. So the models of the primitives have a lock on which lockers sleep.
#[cfg(loom)]
use loom_lock::{LoomWord, Release};

struct Spin(AtomicBool);

struct SpinRelease<'l>(&'l Spin);

impl Spin {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Spin(AtomicBool::new(false))
    }

    #[cfg(loom)]
    fn new() -> Self {
        Spin(AtomicBool::new(false))
    }

    #[inline]
    fn take(&self) -> SpinRelease<'_> {
        // Acquire: sees what the last holder did. Pairs with the Release in `SpinRelease::drop`.
        if self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.take_slow();
        }
        SpinRelease(self)
    }

    fn try_take(&self) -> Option<SpinRelease<'_>> {
        // Acquire: sees what the last holder did. Pairs with the Release in `SpinRelease::drop`.
        let taken = self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        // Made only if the lock was taken: its drop releases the lock, which another thread may hold.
        (taken.is_ok() || broken!("queue_lock_released_by_a_try")).then(|| SpinRelease(self))
    }

    /// Releases the lock, calls `f`, and takes the lock again. *Runs on: the holder. The call borrows its
    /// guard mutably.*
    #[cold]
    #[inline(never)]
    fn unlocked(&self, f: fn()) {
        struct TakeAgain<'l>(&'l Spin);
        impl Drop for TakeAgain<'_> {
            fn drop(&mut self) {
                // The holder's guard releases it.
                std::mem::forget(self.0.take());
            }
        }
        drop(SpinRelease(self));
        let _again = TakeAgain(self);
        f();
    }

    #[cold]
    fn take_slow(&self) {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            // Only a load while the lock is held: the holder needs the cache line. Acquire: sees what the
            // last holder did. Pairs with the Release in `SpinRelease::drop`.
            if !self.0.load(Ordering::Relaxed)
                && self.0.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
        }
    }
}

impl Drop for SpinRelease<'_> {
    #[inline]
    fn drop(&mut self) {
        let order =
            if broken!("queue_lock_released_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release: publishes what this holder did. Pairs with the Acquire in `take` and `take_slow`.
        self.0.0.store(false, order);
    }
}

/// In the models a locker lets another thread run between two looks.
#[cfg(loom)]
struct Backoff;

#[cfg(loom)]
impl Backoff {
    fn new() -> Backoff {
        Backoff
    }

    fn wait(&mut self) {
        loom::thread::yield_now();
    }
}

#[cfg(loom)]
mod loom_lock {
    use loom::cell::UnsafeCell;
    use loom::sync::{Mutex, MutexGuard};

    pub(super) struct LoomWord {
        word: Mutex<()>,
        /// Stands for the memory of the lock. Each release reads it, and the end of the lock writes it. So
        /// loom finds a lock that is freed before its last holder has released it.
        memory: UnsafeCell<()>,
    }

    pub(super) struct Release<'l> {
        held: &'l LoomWord,
        _word: MutexGuard<'l, ()>,
    }

    impl LoomWord {
        pub(super) fn new() -> Self {
            LoomWord { word: Mutex::new(()), memory: UnsafeCell::new(()) }
        }

        pub(super) fn take(&self) -> Release<'_> {
            let word = self.word.lock().expect("no model panics while it holds a lock");
            Release { held: self, _word: word }
        }
    }

    impl Drop for Release<'_> {
        fn drop(&mut self) {
            self.held.memory.with(|_| ());
        }
    }

    impl Drop for LoomWord {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                self.memory.with_mut(|_| ());
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::Spin;
    use loom::{cell::UnsafeCell, sync::Arc, thread};
    use sched::sync::models::Reached;

    type Counted = (Spin, UnsafeCell<u32>);

    /// Adds one. *Runs on: a holder of the lock.*
    fn add(lock: &Counted) {
        // SAFETY: the thread holds the lock; loom checks that no other thread writes.
        lock.1.with_mut(|count| unsafe { *count += 1 });
    }

    /// Two threads try to take the lock, while a third has it at first.
    #[test]
    fn a_try_in_vain_leaves_the_lock_to_its_holder() {
        static IN_VAIN: Reached = Reached::new();
        static TAKEN: Reached = Reached::new();
        loom::model(|| {
            let lock: Arc<Counted> = Arc::new((Spin::new(), UnsafeCell::new(0)));
            let held = lock.0.take();
            let triers = [(); 2].map(|()| {
                let lock = lock.clone();
                thread::spawn(move || {
                    let held = lock.0.try_take();
                    held.is_some().then(|| add(&lock)).is_some()
                })
            });
            add(&lock);
            drop(held);
            let took = triers.map(|trier| trier.join().unwrap());
            IN_VAIN.note(took == [false; 2]);
            TAKEN.note(took == [true; 2]);
            let tries = took.into_iter().filter(|took| *took).count();
            // SAFETY: all threads have ended; loom checks that.
            assert_eq!(lock.1.with(|count| unsafe { *count }) as usize, 1 + tries);
        });
        IN_VAIN.assert();
        TAKEN.assert();
    }

    #[test]
    fn one_holder_at_a_time_sees_what_the_last_holder_did() {
        loom::model(|| {
            let lock: Arc<Counted> = Arc::new((Spin::new(), UnsafeCell::new(0)));
            let add = |lock: &Counted| {
                let _held = lock.0.take();
                add(lock);
            };
            let other = lock.clone();
            let other = thread::spawn(move || add(&other));
            add(&lock);
            other.join().unwrap();
            // SAFETY: both threads have added and released the lock; loom checks that.
            assert_eq!(lock.1.with(|count| unsafe { *count }), 2);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Lock;

    #[test]
    fn four_threads_count() {
        const TIMES: u64 = if cfg!(miri) { 20 } else { 50_000 };
        static COUNT: Lock<u64> = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..TIMES).for_each(|_| *COUNT.lock() += 1));
            }
        });
        assert_eq!(*COUNT.lock(), 4 * TIMES);
    }

    #[test]
    fn a_lock_that_is_held_is_not_taken_by_a_try() {
        let lock = Lock::new(1);
        let held = lock.lock();
        // Twice: a try in vain must leave the lock to its holder.
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock().is_none());
        drop(held);
        *lock.try_lock().unwrap() += 1;
        assert_eq!(*lock.lock(), 2);
    }

    /// A waiter of real-time priority preempts the holder on the only CPU that both may use.
    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "sets priorities and CPUs of OS threads")]
    fn a_real_time_waiter_lets_the_holder_go_on() {
        use std::sync::mpsc;
        use std::time::{Duration, Instant};

        fn stay_on_cpu(cpu: usize) {
            // SAFETY: an empty set is all zeros, and the set outlives the system call that reads it.
            let set = unsafe {
                let mut cpus: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu, &mut cpus);
                libc::sched_setaffinity(0, size_of_val(&cpus), &cpus)
            };
            assert_eq!(set, 0);
        }

        static LOCK: Lock<u32> = Lock::new(0);
        // SAFETY: the call only reads the number of the present CPU.
        let cpu = unsafe { libc::sched_getcpu() }.max(0) as usize;
        let (tell, told) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            stay_on_cpu(cpu);
            // SAFETY: all zeroes is a valid `sched_param`. musl's has more fields than glibc's.
            let mut priority: libc::sched_param = unsafe { std::mem::zeroed() };
            priority.sched_priority = 1;
            // SAFETY: the parameter outlives the system call that reads it.
            let is_real_time = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) } == 0;
            told.recv().unwrap();
            let start = Instant::now();
            *LOCK.lock() += 1;
            (is_real_time, start.elapsed())
        });
        let holder = std::thread::spawn(move || {
            stay_on_cpu(cpu);
            let mut held = LOCK.lock();
            tell.send(()).unwrap();
            // Gives a waiter without higher priority the time to begin.
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(1) {}
            *held += 1;
        });
        holder.join().unwrap();
        let (is_real_time, waited) = waiter.join().unwrap();
        assert_eq!(*LOCK.lock(), 2);
        if !is_real_time {
            return eprintln!("skipped: the system refuses real-time priority here");
        }
        // The kernel stops a real-time thread after it ran for 950 ms of a second.
        assert!(waited < Duration::from_millis(500), "{waited:?}");
    }
}
