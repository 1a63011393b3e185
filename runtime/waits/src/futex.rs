//! The table of green threads that wait for a word of memory (a *futex*) to change: what the kernel has for
//! OS threads. std's locks wait so. (Feature `interpose`.)
//!
//! The table has buckets, chosen by the word's address. A bucket is a small lock around a queue of waiters in
//! order of arrival; the payload of a waiter is the address. OS threads that wait for the same word wait in
//! the kernel, and a wake serves both.
//!
//! ```text
//!   the waiter                                   the waker
//!   lock the bucket                              change the word
//!   the word differs from what it expects?       lock the bucket
//!     unlock; do not wait                        take waiters for this address, up to the number asked for
//!   begin a wait, push the node                  unlock; make them runnable
//!   unlock; park                                 fewer than asked for? ask the kernel for the rest
//! ```
//!
//! - *No wake-up is lost.* The waiter compares the word under the bucket's lock. If the waker had the lock
//!   before, the waiter sees the changed word. If the waker has it afterwards, the waker finds the node.
//! - *A word of `std::thread::park`* may have many waiters, and a wake for one of them wakes all
//!   (`m/std_parker.rs`).
//! - *The counts add up.* A waiter counts as woken only if the waker has decided its wait. A waiter that
//!   timed out is left out.
//! - *Neither kind of waiter starves the other.* After a wake that served the bucket's own waiters, the
//!   kernel's come first at the next wake, if both kinds wait. Where the kernel has none, this question costs
//!   a system call. So each time it had none, twice as many wakes go by until the next question, 64 at most.
//!
//! Rejected: *a count of waiters beside the lock*, so that a wake without waiters takes no lock. That
//! handshake needs a full fence on both sides, and costs as much as a free lock.

#![cfg_attr(not(loom), allow(unsafe_code))]

#[cfg(not(loom))]
pub mod std_word;

use crate::queue::{Lock, Queue, Spot, WaitOptions, Wakes};
use sched::Outcome;
use sched::park::Waiting;
use sched::sync::{
    atomic::{AtomicU32, Ordering},
    broken,
};

/// The number of buckets; a power of two.
#[cfg(not(loom))]
const BUCKETS: usize = 1024;
/// One bucket in models: different words meet in it.
#[cfg(loom)]
const BUCKETS: usize = 1;

/// The waiters of this process.
#[cfg(not(loom))]
pub(crate) static TABLE: Table = Table { buckets: [const { Bucket::new() }; BUCKETS] };

/// The table: buckets of waiting green threads, by the address of the word.
pub(crate) struct Table {
    buckets: [Bucket; BUCKETS],
}

/// On a cache line of its own.
#[repr(align(64))]
struct Bucket(Lock<Waiters>);

struct Waiters {
    queue: Queue<Awaited>,
    turns: Turns,
}

/// Which kind of waiter comes first at a wake.
#[derive(Clone, Copy, Debug)]
struct Turns {
    /// The wakes that served the bucket's own waiters since the kernel's came first.
    served: u8,
    /// After so many the kernel's come first.
    most: u8,
}

impl Turns {
    const LONGEST: u8 = 64;

    const fn new() -> Self {
        Turns { served: 0, most: 1 }
    }

    fn is_systems(self) -> bool {
        self.served >= self.most
    }

    /// A wake has served the bucket's own waiters.
    fn served(&mut self) {
        self.served = self.served.saturating_add(1);
    }

    /// The kernel's came first. `found`: it had some.
    fn asked(&mut self, found: bool) {
        *self = Turns { served: 0, most: if found { 1 } else { (2 * self.most).min(Self::LONGEST) } };
    }
}

/// The payload of a waiter: the address of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Awaited {
    address: usize,
    company: Company,
}

/// Which other waiters are woken with a waiter, even if the waker asks for fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// No other.
    Alone,
    /// All waiters for the same word.
    All,
}

/// The word did not have the expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed;

impl Bucket {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Bucket(Lock::new(Waiters { queue: Queue::new(), turns: Turns::new() }))
    }

    #[cfg(loom)]
    fn new() -> Self {
        Bucket(Lock::new(Waiters { queue: Queue::new(), turns: Turns::new() }))
    }
}

impl Table {
    /// Waits until a waker of `word` decides the wait, or until `park` returns otherwise. `begin` begins the
    /// wait; it runs under the bucket's lock.
    ///
    /// # Errors
    /// Returns `Changed` at once if the word is not `expected`.
    #[inline]
    pub(crate) fn wait(
        &self,
        word: &AtomicU32,
        expected: u32,
        company: Company,
        begin: impl FnOnce() -> Waiting,
        park: impl FnOnce(Waiting) -> Outcome,
    ) -> Result<Outcome, Changed> {
        let bucket = self.bucket(address(word));
        // Relaxed: the bucket's lock orders this load and the waker's earlier store, as the file's head
        // explains.
        let differs = || word.load(Ordering::Relaxed) != expected;
        if broken!("futex_compared_before_the_lock") && differs() {
            return Err(Changed);
        }
        let guard = bucket.0.lock();
        if !broken!("futex_compared_before_the_lock") && differs() {
            return Err(Changed);
        }
        let waiting = begin();
        let mut spot = Spot::new(&bucket.0, |waiters: &mut Waiters| &mut waiters.queue);
        // SAFETY: the spot stays in this frame. The line after `enter` leaves it with the outcome of this
        // wait, and nothing in between unwinds: `park` does not.
        unsafe {
            spot.enter(guard, &waiting, WaitOptions::default(), Awaited { address: address(word), company });
            Ok(spot.leave(park(waiting)).map_or_else(|ended| ended.outcome, |_| Outcome::Woken))
        }
    }

    /// Wakes up to `most` waiters for the word at `address`, in this table and in the kernel. `system` wakes
    /// in the kernel. It returns how many it has woken, or an error below zero. Returns the number of all,
    /// but not more than `most`; or the error if there is no number.
    pub(crate) fn wake(&self, address: usize, most: usize, system: impl FnOnce(usize) -> isize) -> isize {
        let bucket = self.bucket(address);
        match bucket.wake(address, most, None) {
            Ok(woken) if woken >= most => most as isize,
            Ok(0) => system(most),
            Ok(woken) => woken as isize + system(most - woken).max(0),
            Err(SystemFirst) => {
                let woken = system(most).max(0);
                let rest = most - woken as usize;
                woken + bucket.wake(address, rest, Some(woken > 0)).unwrap_or(0).min(rest) as isize
            }
        }
    }

    /// Calls `f` while all buckets are locked.
    #[cfg(not(loom))]
    pub(crate) fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        let _all: Vec<_> = self.buckets.iter().map(|bucket| bucket.0.lock()).collect();
        f()
    }

    fn bucket(&self, address: usize) -> &Bucket {
        // Words lie on multiples of 4. The product spreads near addresses over the upper bits (Fibonacci
        // hashing).
        let hash = (address >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
        &self.buckets[(hash >> (usize::BITS - 16)) % BUCKETS]
    }
}

/// The kernel's waiters come first this time.
#[derive(Clone, Copy, Debug)]
struct SystemFirst;

impl Bucket {
    /// Wakes up to `most` waiters for `address`; all if one of them has `Company::All`. Returns their number.
    /// `asked` says whether the kernel had waiters, if it was asked first.
    ///
    /// # Errors
    /// Returns `SystemFirst` if there are such waiters, the kernel's come first at this wake, and it was not
    /// asked.
    #[inline]
    fn wake(&self, address: usize, mut most: usize, asked: Option<bool>) -> Result<usize, SystemFirst> {
        // One waiter runs next on this P. More of them go into its queue.
        let (mut first, mut others) = (None, None::<Wakes>);
        let mut woken = 0;
        let mut waiters = self.0.lock();
        if let Some(found) = asked {
            waiters.turns.asked(found);
        }
        let gives_way = asked.is_none() && waiters.turns.is_systems();
        while woken < most
            && let Some(mut waiter) = waiters.queue.find(|at| at.address == address)
        {
            if gives_way {
                return Err(SystemFirst);
            }
            if waiter.payload().company == Company::All && !broken!("futex_wakes_one_of_all") {
                most = usize::MAX;
            }
            match waiter.wake() {
                Ok(wake) if first.is_none() => first = Some(wake),
                Ok(wake) => others.get_or_insert_default().add(wake),
                // It has timed out, and leaves by itself.
                Err(_) if !broken!("futex_counts_timed_out") => continue,
                Err(_) => {}
            }
            woken += 1;
        }
        if woken > 0 {
            waiters.turns.served();
        }
        drop(waiters);
        drop(first);
        drop(others);
        Ok(woken)
    }
}

fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;
    use sched::Cancel;
    use sched::modelled::Sleeper;
    use sched::sync::models::{Reached, Turns, explore};

    struct World {
        table: Table,
        word: AtomicU32,
        turns: Turns,
        company: Company,
    }

    impl World {
        fn new(company: Company) -> Arc<World> {
            let table = Table { buckets: [Bucket::new()] };
            Arc::new(World { table, word: AtomicU32::new(0), turns: Turns::default(), company })
        }

        /// Waits while the word is 0.
        fn wait(&self, sleeper: &Arc<Sleeper>) -> Result<Outcome, Changed> {
            Sleeper::is_me(sleeper);
            self.turns.take();
            self.table.wait(&self.word, 0, self.company, || Waiting::begin(Cancel::Waits), Waiting::park)
        }

        /// Wakes `most` waiters. The kernel has none.
        fn wake(&self, most: usize) -> isize {
            self.table.wake(address(&self.word), most, |_| 0)
        }
    }

    #[test]
    fn a_waiter_sees_the_word_or_is_woken() {
        static WOKEN: Reached = Reached::new();
        static CHANGED: Reached = Reached::new();
        explore(3, || {
            let world = World::new(Company::Alone);
            let waker = world.clone();
            let waker = thread::spawn(move || {
                waker.turns.take();
                waker.word.store(1, Ordering::Relaxed);
                waker.wake(1)
            });
            let sleeper = Sleeper::new();
            let waited = world.wait(&sleeper);
            let woken = waker.join().unwrap();
            assert_eq!(woken == 1, waited == Ok(Outcome::Woken));
            WOKEN.note(woken == 1);
            CHANGED.note(waited == Err(Changed));
        });
        WOKEN.assert();
        CHANGED.assert();
    }

    /// Two waiters, of which one may time out, and two wakes: each waiter that is woken is counted once.
    #[test]
    fn the_woken_are_counted() {
        static LOST: Reached = Reached::new();
        static BOTH: Reached = Reached::new();
        explore(2, || {
            let world = World::new(Company::Alone);
            let sleepers = [(); 2].map(|()| Sleeper::new());
            let waiters = [0, 1].map(|at| {
                let (world, sleeper) = (world.clone(), sleepers[at].clone());
                thread::spawn(move || world.wait(&sleeper))
            });
            let timer = sleepers[0].clone();
            let timer = thread::spawn(move || timer.time_out(1));
            world.turns.take();
            world.word.store(1, Ordering::Relaxed);
            let woken = world.wake(1) + world.wake(usize::MAX);
            let ended = waiters.map(|waiter| waiter.join().unwrap());
            timer.join().unwrap();
            assert_eq!(woken as usize, ended.iter().filter(|&&end| end == Ok(Outcome::Woken)).count());
            LOST.note(ended[0] == Ok(Outcome::TimedOut));
            BOTH.note(woken == 2);
        });
        LOST.assert();
        BOTH.assert();
    }

    /// Two waiters for a word of `thread::park`, and a wake for one: none waits for ever.
    #[test]
    fn a_wake_for_one_wakes_all_that_are_parked() {
        static BOTH: Reached = Reached::new();
        explore(2, || {
            let world = World::new(Company::All);
            let waiters = [(); 2].map(|()| {
                let world = world.clone();
                thread::spawn(move || world.wait(&Sleeper::new()))
            });
            world.turns.take();
            world.word.store(1, Ordering::Relaxed);
            let woken = world.wake(1);
            let ended = waiters.map(|waiter| waiter.join().unwrap());
            let both = ended.iter().all(|&end| end == Ok(Outcome::Woken));
            assert!(woken <= 1, "the count is not more than what was asked for");
            BOTH.note(both);
        });
        BOTH.assert();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Where the kernel has waiters, every second wake is theirs. Where it has none, it is asked less often.
    #[test]
    fn the_kernel_is_asked_as_often_as_it_has_waiters() {
        let mut turns = Turns::new();
        let mut wakes_until_asked = |found| {
            let mut wakes = 0;
            while !turns.is_systems() {
                turns.served();
                wakes += 1;
            }
            turns.asked(found);
            wakes
        };
        assert_eq!([(); 3].map(|()| wakes_until_asked(true)), [1, 1, 1]);
        assert_eq!([(); 9].map(|()| wakes_until_asked(false)), [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!([(); 3].map(|()| wakes_until_asked(true)), [64, 1, 1]);
    }

    /// Waiters of this table and of the kernel take turns, and the counts are those asked for.
    #[test]
    fn the_kernel_is_asked_for_the_rest() {
        let word = AtomicU32::new(0);
        let asked = RefCell::new(Vec::new());
        let wake = |most, has: isize| {
            TABLE.wake(address(&word), most, |most| {
                asked.borrow_mut().push(most);
                has.min(most as isize)
            })
        };
        assert_eq!(wake(3, 2), 2, "no waiter here");
        assert_eq!(wake(1, -22), -22, "an error of the kernel");
        assert_eq!(asked.take(), [3, 1]);
    }
}
