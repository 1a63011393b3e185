//! The small lock of a primitive: taken by one exchange, given back by one store.
//!
//! It guards a few words for a few instructions: a queue of waiters and what they wait for. Nobody parks, enters the
//! runtime or runs user code while holding it, so its holder can be delayed only by the kernel. That is why a waiter
//! spins a little, then yields its CPU, and only then sleeps: a waiter of real-time priority yields to no lower one, and
//! the holder may need that CPU.

#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::sync::{
    atomic::{AtomicBool, Ordering},
    broken,
    cell::UnsafeCell,
};

/// See the file's head.
pub struct Lock<S> {
    word: Held,
    state: UnsafeCell<S>,
}

// SAFETY: the state is reached through a `Guard` alone, of which there is one at a time.
unsafe impl<S: Send> Send for Lock<S> {}
// SAFETY: likewise.
unsafe impl<S: Send> Sync for Lock<S> {}

// No user code runs under the lock, so a panic of the user's leaves nothing half done.
impl<S> UnwindSafe for Lock<S> {}
impl<S> RefUnwindSafe for Lock<S> {}

impl<S> Lock<S> {
    /// A lock around `state`.
    #[cfg(not(loom))]
    pub const fn new(state: S) -> Self {
        Lock { word: Held::new(), state: UnsafeCell::new(state) }
    }

    /// Likewise.
    #[cfg(loom)]
    pub fn new(state: S) -> Self {
        Lock { word: Held::new(), state: UnsafeCell::new(state) }
    }

    /// Takes the lock. *Runs on: any thread; not on one that holds it.*
    #[inline]
    pub fn lock(&self) -> Guard<'_, S> {
        Guard { lock: self, _release: self.word.take() }
    }

    /// What it guards. *Runs on: its only owner.*
    pub fn get_mut(&mut self) -> &mut S {
        // SAFETY: it is borrowed alone. (loom's cell has no `get_mut`.)
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

/// Evidence that the lock is held; gives it back when dropped.
#[must_use]
pub struct Guard<'l, S> {
    lock: &'l Lock<S>,
    _release: Release<'l>,
}

impl<'l, S> Guard<'l, S> {
    /// The lock that it holds.
    #[inline]
    pub fn lock(this: &Self) -> &'l Lock<S> {
        this.lock
    }
}

impl<S> Deref for Guard<'_, S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        // SAFETY: the one guard there is; nobody writes while it is borrowed.
        self.lock.state.with(|state| unsafe { &*state })
    }
}

impl<S> DerefMut for Guard<'_, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut S {
        // SAFETY: the one guard there is, borrowed alone.
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
use Spin as Held;

#[cfg(not(loom))]
use SpinRelease as Release;

// Those who spin are too many states for loom: the models of what uses a lock have one whose waiters sleep.
#[cfg(loom)]
use loom_lock::{Held, Release};

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
        // Acquire: what the last holder did; pairs with the Release below.
        if self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.take_slow();
        }
        SpinRelease(self)
    }

    #[cold]
    fn take_slow(&self) {
        let mut pauses = FIRST_PAUSES;
        loop {
            wait_a_little(&mut pauses);
            // Only looking, as long as it is held: the holder needs the cache line.
            // Acquire: as in `take`.
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
        // Release: what this holder did, for the next; pairs with the Acquire in `take`.
        self.0.0.store(false, order);
    }
}

/// How long a waiter pauses before it looks again: longer each time. Two cores that take a lock in turn pay for a transfer of
/// its cache line, and of all that it guards, each time; while one pauses the other takes it again and again where it is.
const FIRST_PAUSES: u32 = 16;
/// After so many pauses the waiter yields its CPU: a holder that runs would have been through.
#[cfg(not(loom))]
const MOST_PAUSES: u32 = 128;
/// Once `pauses`, which also counts the yields, has come to this, the waiter sleeps.
#[cfg(not(loom))]
const MOST_PAUSES_AND_YIELDS: u32 = 2 * MOST_PAUSES + 64;
#[cfg(not(loom))]
const SLEEP: std::time::Duration = std::time::Duration::from_micros(50);

#[cfg(not(loom))]
fn wait_a_little(pauses: &mut u32) {
    if *pauses <= MOST_PAUSES {
        (0..*pauses).for_each(|_| std::hint::spin_loop());
        *pauses *= 2;
    } else if *pauses < MOST_PAUSES_AND_YIELDS {
        std::thread::yield_now();
        *pauses += 1;
    } else {
        std::thread::sleep(SLEEP);
    }
}

#[cfg(loom)]
fn wait_a_little(_pauses: &mut u32) {
    loom::thread::yield_now();
}

#[cfg(loom)]
mod loom_lock {
    use loom::cell::UnsafeCell;
    use loom::sync::{Mutex, MutexGuard};

    pub(super) struct Held {
        word: Mutex<()>,
        /// Stands for the memory of the lock: each release reads it, and the end of the lock writes it. So loom sees a
        /// lock that is freed before its last holder has released it.
        memory: UnsafeCell<()>,
    }

    pub(super) struct Release<'l> {
        held: &'l Held,
        _word: MutexGuard<'l, ()>,
    }

    impl Held {
        pub(super) fn new() -> Self {
            Held { word: Mutex::new(()), memory: UnsafeCell::new(()) }
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

    impl Drop for Held {
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

    #[test]
    fn one_holder_at_a_time_sees_the_last_ones_work() {
        loom::model(|| {
            let lock = Arc::new((Spin::new(), UnsafeCell::new(0)));
            let add = |lock: &(Spin, UnsafeCell<u32>)| {
                let _held = lock.0.take();
                // SAFETY: loom checks that nobody else does.
                lock.1.with_mut(|count| unsafe { *count += 1 });
            };
            let other = lock.clone();
            let other = thread::spawn(move || add(&other));
            add(&lock);
            other.join().unwrap();
            // SAFETY: likewise.
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

    /// The holder is preempted by a waiter of real-time priority on the only CPU that both may use.
    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "sets priorities and CPUs of OS threads")]
    fn a_real_time_waiter_lets_the_holder_go_on() {
        use std::sync::mpsc;
        use std::time::{Duration, Instant};

        fn stay_on_cpu(cpu: usize) {
            // SAFETY: an empty set is all zeros, and the system reads the set while it lives.
            let set = unsafe {
                let mut cpus: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu, &mut cpus);
                libc::sched_setaffinity(0, size_of_val(&cpus), &cpus)
            };
            assert_eq!(set, 0);
        }

        static LOCK: Lock<u32> = Lock::new(0);
        // SAFETY: asks for the number of the CPU alone.
        let cpu = unsafe { libc::sched_getcpu() }.max(0) as usize;
        let (tell, told) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            stay_on_cpu(cpu);
            let priority = libc::sched_param { sched_priority: 1 };
            // SAFETY: the system reads the parameter while it lives.
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
            // Where the waiter has no higher priority, it gets some time to begin.
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
        // The kernel stops a real-time thread that runs for 950 ms of a second.
        assert!(waited < Duration::from_millis(500), "{waited:?}");
    }
}
