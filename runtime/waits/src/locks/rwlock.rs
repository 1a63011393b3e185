//! The reader-writer lock: shared, upgradable and exclusive locking, with one queue that is served in order.
//!
//! Readers at the head of the queue are served together, up to the first writer. A writer is served alone. A
//! reader that arrives while a writer waits queues up behind that writer. So neither side starves the other.
//! The head of `wait/locks.rs` explains the common protocol. This file adds:
//!
//! ```text
//!   unlock, by the last reader or the writer     lock, when not free for the caller
//!   word -= READER or WRITER                     take the queue's lock
//!   WAITING set, and no woken writer to retry?   still not free: word |= WAITING (| WRITER_WAITS); else try again
//!     take the queue's lock, and serve:          push the node, release the queue's lock, park
//!       a reader first: word += READER, wake it  a woken reader: has its share
//!       a writer first: word |= WOKEN, wake it   a woken writer: clear WOKEN, try again; taken: the front again
//!       STARVING: word += WRITER, wake it        a starving writer that was woken: has the lock
//! ```
//!
//! - *Readers and upgradable readers are given their share before they are woken.* Only a writer is woken
//!   with nothing, because a lock given to it would keep all others out until it runs.
//! - *A waiter that leaves the queue serves it.* A writer that timed out may have kept readers waiting. These
//!   readers can share the lock with its present readers.
//! - *Upgrading.* One reader may be `UPGRADABLE`. To upgrade, that reader waits until it is the only reader
//!   (`UPGRADING`). It waits in a queue of its own, which is served first. No other locker is let in during
//!   that wait.
//! - *`RECURSIVE` locks* let a reader in while another reader is in, even past queued writers. So a thread
//!   that has a share always gets a second share.

use super::holder::{self, Holder};
use super::locker::{Line, Patience, is_long_ago, spin, stay};
use crate::queue::Wakes;
use crate::queue::{Guard, Lock, Queue};
use sched::sync::{
    atomic::{AtomicUsize, Ordering},
    broken,
};
use sched::{Awaited, Outcome, Why};

/// The queue is not empty. `WAITING` to `UPGRADING` change under the queue's lock.
const WAITING: usize = 1;
/// A woken writer has not retried yet.
const WOKEN: usize = 2;
/// Only a waiter that is served takes the lock. Set only while the lock is taken.
const STARVING: usize = 4;
/// A writer is in the queue.
const WRITER_WAITS: usize = 8;
/// The upgradable reader waits until no other reader is left.
const UPGRADING: usize = 16;
/// One of the readers may upgrade.
const UPGRADABLE: usize = 32;
/// A writer has the lock; there is no reader.
const WRITER: usize = 64;
/// The word counts readers in units of this.
const READER: usize = 128;
const READERS: usize = !(READER - 1);

/// With one of these bits set, a new reader must queue up.
const IN_TURN_ONLY: usize = STARVING | WRITER_WAITS;

/// A reader-writer lock without contents. The file's head explains its protocol.
pub struct RwLock<const RECURSIVE: bool> {
    word: AtomicUsize,
    pub(super) queues: Lock<Queues>,
    /// The writer. Readers are recorded elsewhere.
    holder: Holder,
}

#[derive(Default)]
pub(super) struct Queues {
    pub(super) line: Queue<Waiter>,
    /// The number of writers in the line.
    writers: usize,
    /// The upgradable reader that waits for the other readers to leave.
    upgrader: Queue<Waiter>,
}

/// A mode of locking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// To share the lock.
    Shared,
    /// To share the lock, with the option to upgrade.
    Upgradable,
    /// To have the lock alone, as a writer.
    Alone,
}

impl Wants {
    /// Returns what this mode adds to the word.
    const fn share(self) -> usize {
        match self {
            Wants::Shared => READER,
            Wants::Upgradable => READER | UPGRADABLE,
            Wants::Alone => WRITER,
        }
    }

    /// Returns `true` if the present holders admit this mode. Ignores queued waiters.
    const fn fits(self, word: usize) -> bool {
        match self {
            Wants::Shared => word & (WRITER | UPGRADING) == 0,
            Wants::Upgradable => word & (WRITER | UPGRADING | UPGRADABLE) == 0,
            Wants::Alone => word & (WRITER | READERS) == 0,
        }
    }
}

/// The payload of a waiter in a queue.
pub(super) struct Waiter {
    pub(super) wants: Wants,
    pub(super) since: u64,
    /// The waiter was given what it wants.
    pub(super) has: bool,
}

const fn is_had(word: usize) -> bool {
    word & (WRITER | READERS) != 0
}

impl<const RECURSIVE: bool> RwLock<RECURSIVE> {
    /// Makes a free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        let queues = Queues { line: Queue::new(), writers: 0, upgrader: Queue::new() };
        RwLock { word: AtomicUsize::new(0), queues: Lock::new(queues), holder: Holder::new() }
    }

    /// Makes a free lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        RwLock { word: AtomicUsize::new(0), queues: Lock::new(Queues::default()), holder: Holder::new() }
    }

    /// Takes a share if the lock is free for a new reader. Returns whether it did. *Runs on: any thread.*
    #[inline]
    pub fn try_lock_shared(&self) -> bool {
        self.take(Wants::Shared, 0)
    }

    /// Takes the upgradable share if the lock is free for it. Returns whether it did. *Runs on: any thread.*
    #[inline]
    pub fn try_lock_upgradable(&self) -> bool {
        self.take(Wants::Upgradable, 0)
    }

    /// Takes the lock alone if it is free. Returns whether it did. *Runs on: any thread.*
    #[inline]
    pub fn try_lock_alone(&self) -> bool {
        self.take(Wants::Alone, 0)
    }

    /// Returns `true` if a reader or a writer has the lock.
    #[inline]
    pub fn is_locked(&self) -> bool {
        // Relaxed: the answer may be out of date on return.
        is_had(self.word.load(Ordering::Relaxed))
    }

    /// Returns `true` if a writer has the lock.
    #[inline]
    pub fn is_locked_alone(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WRITER != 0
    }

    /// Returns `true` if a waiter is queued or an upgrade waits.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (WAITING | UPGRADING) != 0
    }

    /// Returns `true` if a newcomer may take the lock in this mode without queueing up.
    #[inline]
    fn is_free(word: usize, wants: Wants) -> bool {
        // During an upgrade the upgrader's own share does not count: it must become the last share.
        let others = (word & READERS) / READER > usize::from(word & UPGRADING != 0);
        if RECURSIVE && wants == Wants::Shared && others {
            return true;
        }
        let in_turn_only = if wants == Wants::Alone { STARVING } else { IN_TURN_ONLY };
        wants.fits(word) && word & in_turn_only == 0
    }

    /// Takes the lock in this mode if it is free for a newcomer, and clears the bits `clearing` with that.
    /// Returns whether it did.
    #[inline]
    fn take(&self, wants: Wants, clearing: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while Self::is_free(word, wants) {
            let Some(taken) = word.checked_add(wants.share()) else { return false };
            // Acquire: sees what the last holders did. Pairs with the Release of `unlock_shared` and
            // `unlock_alone`.
            match self.word.compare_exchange_weak(
                word,
                taken & !clearing,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.record(wants);
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// Records that the caller has the lock in this mode. *Runs on: the thread that has just taken the lock.*
    #[inline(always)]
    pub(super) fn record(&self, has: Wants) {
        match has {
            Wants::Alone => self.holder.took(),
            has => holder::took_share(self.address(), has == Wants::Upgradable),
        }
    }

    /// Removes what `record` has recorded. *Runs on: the thread that is about to unlock.*
    #[inline(always)]
    fn unrecord(&self, has: Wants) {
        match has {
            Wants::Alone => self.holder.unlocks(),
            has => holder::gives_share_back(self.address(), has == Wants::Upgradable),
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Describes the lock to a dump, for a waiter that wants to read. *Runs on: any thread.*
    fn look_as_reader(&self) -> Option<Awaited> {
        self.look_from_afar(Wants::Shared)
    }

    /// Describes the lock to a dump, for a waiter that wants the upgradable share. *Runs on: any thread.*
    fn look_as_upgradable_reader(&self) -> Option<Awaited> {
        self.look_from_afar(Wants::Upgradable)
    }

    /// Describes the lock to a dump, for a waiter that wants to write. *Runs on: any thread.*
    fn look_as_writer(&self) -> Option<Awaited> {
        self.look_from_afar(Wants::Alone)
    }

    fn look_from_afar(&self, wants: Wants) -> Option<Awaited> {
        let word = self.word.load(Ordering::Relaxed);
        Some(Awaited::RwLock {
            address: self.address(),
            readers: (word & READERS) / READER,
            writer: word & WRITER != 0,
            holder: self.holder.id(),
            to_write: wants == Wants::Alone,
            upgradable: wants == Wants::Upgradable,
            writers: self.waiting_writers(word),
        })
    }

    /// Returns how many writers wait: green threads, futures and plain OS threads. Returns `None` if another
    /// thread changes the queue at this moment: a look waits for no lock.
    #[cfg(not(loom))]
    fn waiting_writers(&self, word: usize) -> Option<usize> {
        Some(self.queues.try_lock()?.writers + usize::from(word & UPGRADING != 0))
    }

    /// In the models no dump looks at a lock.
    #[cfg(loom)]
    fn waiting_writers(&self, _word: usize) -> Option<usize> {
        None
    }

    /// Takes the lock in this mode, waiting as `patience` allows. Call it after the `try_` form has failed.
    /// Does not unwind while waiting.
    ///
    /// # Errors
    /// Returns how the wait ended if it timed out or was cancelled. The caller has left the queue, and a
    /// grant meant for it has gone to the next waiter.
    ///
    /// # Panics
    /// Panics if the count of readers would overflow.
    #[cold]
    pub fn lock_slow(&self, wants: Wants, patience: Patience) -> Result<(), Outcome> {
        let look = || {
            if self.take(wants, 0) {
                return Some(true);
            }
            self.is_waited_for().then_some(false)
        };
        if spin(look) {
            return Ok(());
        }
        let mut line = Line::default();
        while let Some(queues) = self.take_or_enter(wants, line) {
            let waiter = Waiter { wants, since: line.since(), has: false };
            let look = match wants {
                Wants::Shared => Self::look_as_reader,
                Wants::Upgradable => Self::look_as_upgradable_reader,
                Wants::Alone => Self::look_as_writer,
            };
            match stay(Why::RwLock, (self, look), queues, |queues| &mut queues.line, line, patience, waiter) {
                Ok(Waiter { has: true, .. }) => {
                    self.record(wants);
                    return Ok(());
                }
                Ok(_) => line.woken = true,
                Err(ended) => {
                    self.left(ended.guard, ended.was_queued && wants == Wants::Alone);
                    return Err(ended.outcome);
                }
            }
        }
        Ok(())
    }

    /// Takes the lock in this mode; neither a deadline nor a cancellation ends the wait. Does not unwind.
    pub fn lock_anyway(&self, wants: Wants) {
        if !self.take(wants, 0) {
            self.lock_slow(wants, Patience::ENDLESS).expect("nothing else ends an endless wait");
        }
    }

    /// Takes the lock and returns `None`; or sets `WAITING` and returns the queues' guard, for the caller to
    /// queue up.
    pub(super) fn take_or_enter(&self, wants: Wants, line: Line) -> Option<Guard<'_, Queues>> {
        // A woken writer clears `WOKEN` with this retry.
        let clearing = if line.woken { WOKEN } else { 0 };
        loop {
            if self.take(wants, clearing) {
                return None;
            }
            let mut queues = self.queues.lock();
            if self.announce(wants, line, clearing) {
                queues.writers += usize::from(wants == Wants::Alone);
                return Some(queues);
            }
        }
    }

    /// Sets `WAITING`, and for a writer `WRITER_WAITS`, if the lock is not free; the unlocker then sees them.
    /// Sets `STARVING` too if the locker starves. Returns `false` if the lock is free. *Runs on: the holder
    /// of the queue's lock.*
    fn announce(&self, wants: Wants, line: Line, clearing: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        assert!(word.checked_add(READER).is_some(), "the count of readers would overflow");
        while !Self::is_free(word, wants) || broken!("rwlock_enters_a_free_one") {
            let mut waiting = word & !clearing | WAITING;
            if wants == Wants::Alone {
                waiting |= WRITER_WAITS;
            }
            if line.starves() && is_had(word) {
                waiting |= STARVING;
            }
            // Relaxed: the unlocker reaches the queue under its lock, which this thread holds until the node
            // is pushed.
            match self.word.compare_exchange_weak(word, waiting, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Serves the queue after a waiter left it without being woken: waiters behind it may be able to share
    /// the lock.
    pub(super) fn left(&self, mut queues: Guard<'_, Queues>, writer: bool) {
        queues.writers -= usize::from(writer);
        let mut wakes = Wakes::default();
        if !broken!("rwlock_leaves_without_serving") {
            self.serve(&mut queues, &mut wakes);
        }
        drop(queues);
        drop(wakes);
    }

    /// Serves the queue in the place of a woken writer that will not retry.
    pub(super) fn woken_left(&self, queues: Guard<'_, Queues>) {
        // Relaxed: an unlocker that saw `WOKEN` left the queue to the woken writer. Its unlock comes before
        // this read-modify-write in the order of the word, so `serve` sees the free lock.
        self.word.fetch_and(!WOKEN, Ordering::Relaxed);
        // `serve_line` has taken the writer out of the count.
        self.left(queues, false);
    }

    /// Gives back a share.
    ///
    /// # Safety
    /// The caller has a share that is not upgradable.
    #[inline]
    pub unsafe fn unlock_shared(&self) {
        self.unrecord(Wants::Shared);
        let order =
            if broken!("rwlock_share_given_back_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release: orders the reads of this reader before the next writer. Pairs with the Acquire of `take`,
        // `serve_line`, `serve_upgrader` and `try_upgrade`.
        let word = self.word.fetch_sub(READER, order);
        debug_assert!(word & READERS != 0, "unlock_shared needs a reader");
        let others = (word & READERS) / READER - 1;
        if others == 0 && needs_service(word) || others == 1 && word & UPGRADING != 0 {
            self.look_after_queue();
        }
    }

    /// Gives back the upgradable share.
    ///
    /// # Safety
    /// The caller has the upgradable share.
    #[inline]
    pub unsafe fn unlock_upgradable(&self) {
        self.unrecord(Wants::Upgradable);
        // Release: orders the reads of this reader before the next writer. Pairs with the Acquire of `take`
        // and `serve_line`.
        let word = self.word.fetch_sub(READER | UPGRADABLE, Ordering::Release);
        debug_assert!(
            word & READERS != 0 && word & UPGRADABLE != 0,
            "unlock_upgradable needs an upgradable reader"
        );
        if word & WAITING != 0 {
            self.look_after_queue();
        }
    }

    /// Gives back the lock that the caller has alone.
    ///
    /// # Safety
    /// The caller is the writer.
    #[inline]
    pub unsafe fn unlock_alone(&self) {
        self.unrecord(Wants::Alone);
        let order = if broken!("rwlock_given_back_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release: publishes what the writer did. Pairs with the Acquire of `take` and `serve_line`.
        let word = self.word.fetch_sub(WRITER, order);
        debug_assert!(word & WRITER != 0, "unlock_alone needs a writer");
        if needs_service(word) {
            self.look_after_queue();
        }
    }

    /// Gives back what the caller has; queued waiters are served before any newcomer.
    ///
    /// # Safety
    /// The caller has what `has` says.
    #[inline]
    pub unsafe fn unlock_fair(&self, has: Wants) {
        // SAFETY: the caller has what `has` says, and each arm gives back just that.
        unsafe {
            match has {
                _ if self.is_waited_for() => {
                    self.unrecord(has);
                    self.unlock_fair_slow(has.share());
                }
                Wants::Shared => self.unlock_shared(),
                Wants::Upgradable => self.unlock_upgradable(),
                Wants::Alone => self.unlock_alone(),
            }
        }
    }

    #[cold]
    fn unlock_fair_slow(&self, mine: usize) {
        let mut queues = self.queues.lock();
        // `STARVING` keeps newcomers out while the queue is served. The bit changes under the queue's lock
        // only, so clearing it below does not undo another thread's change.
        let wait = if queues.line.is_empty() { 0 } else { STARVING };
        let before = self.word.fetch_or(wait, Ordering::Relaxed);
        // Release: publishes what the caller did. Pairs with the Acquire of `take` and `serve_line`.
        self.word.fetch_sub(mine, Ordering::Release);
        let mut wakes = Wakes::default();
        self.serve(&mut queues, &mut wakes);
        if before & STARVING == 0 {
            self.word.fetch_and(!STARVING, Ordering::Relaxed);
        }
        drop(queues);
        drop(wakes);
    }

    /// Serves the queue after an unlock or a downgrade.
    #[cold]
    fn look_after_queue(&self) {
        let mut queues = self.queues.lock();
        let mut wakes = Wakes::default();
        self.serve(&mut queues, &mut wakes);
        drop(queues);
        drop(wakes);
    }

    /// Gives the first waiters what the present holders admit, then updates the word. *Runs on: the holder of
    /// the queue's lock.*
    fn serve(&self, queues: &mut Queues, wakes: &mut Wakes) {
        if self.word.load(Ordering::Relaxed) & UPGRADING != 0 {
            self.serve_upgrader(queues, wakes);
        } else {
            self.serve_line(queues, wakes);
        }
        self.tell_of(queues);
    }

    /// Serves the waiters of the line in order.
    fn serve_line(&self, queues: &mut Queues, wakes: &mut Wakes) {
        // Acquire, here and below: sees what the last holders did, which may be other threads. Pairs with the
        // Release of `unlock_shared` and `unlock_alone`. The decision of a wait passes that on to the served
        // waiter.
        let mut word = self.word.load(Ordering::Acquire);
        // An upgradable waiter is skipped while another upgradable reader is in: readers behind it need not
        // wait.
        while let Some(mut next) =
            queues.line.find(|waiter| waiter.wants != Wants::Upgradable || word & UPGRADABLE == 0)
        {
            let (wants, since) = (next.payload().wants, next.payload().since);
            let is_given = wants != Wants::Alone || word & STARVING != 0;
            let new = match wants.fits(word) {
                true if is_given => word + wants.share(),
                true if word & WOKEN == 0 => word | WOKEN,
                // The waiter is still kept out after 1 ms: from now on no newcomer takes the lock.
                false if word & STARVING == 0 && is_had(word) && is_long_ago(since) => word | STARVING,
                _ => return,
            };
            if let Err(now) = self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Acquire) {
                word = now;
                continue;
            }
            if !wants.fits(word) {
                return;
            }
            next.payload().has = is_given;
            queues.writers -= usize::from(wants == Wants::Alone);
            match next.wake() {
                Ok(wake) => {
                    wakes.extend([wake]);
                    if word & STARVING != 0 && !is_long_ago(since) {
                        self.word.fetch_and(!STARVING, Ordering::Relaxed);
                    }
                }
                // The wait has timed out or was cancelled: take the grant back.
                Err(_) if broken!("rwlock_given_to_who_has_left") => {}
                Err(_) if is_given => drop(self.word.fetch_sub(wants.share(), Ordering::Release)),
                Err(_) => drop(self.word.fetch_and(!WOKEN, Ordering::Relaxed)),
            }
            word = self.word.load(Ordering::Acquire);
        }
    }

    /// Clears the bits that no longer hold for the queue. *Runs on: the holder of the queue's lock.*
    fn tell_of(&self, queues: &Queues) {
        let mut over = 0;
        if queues.writers == 0 {
            over |= WRITER_WAITS;
        }
        if queues.line.is_empty() {
            over |= WAITING | STARVING;
        }
        if over != 0 {
            // Relaxed: a later locker synchronizes with the last holders' Release; this read-modify-write
            // continues their release sequence.
            self.word.fetch_and(!over, Ordering::Relaxed);
        }
    }

    /// Turns the waiting upgrader's share into the whole lock, if it is the only reader left.
    fn serve_upgrader(&self, queues: &mut Queues, wakes: &mut Wakes) {
        const ALONE: usize = WRITER.wrapping_sub(READER | UPGRADABLE | UPGRADING);
        if (self.word.load(Ordering::Acquire) & READERS) / READER > 1 {
            return;
        }
        let Some(mut upgrader) = queues.upgrader.first() else { return };
        upgrader.payload().has = true;
        // No other thread changes the holders: the upgrader is the only reader and waits, and `UPGRADING`
        // keeps all others out. Acquire: sees what the last reader did, which may be another thread; pairs
        // with `unlock_shared`.
        self.word.fetch_add(ALONE, Ordering::Acquire);
        match upgrader.wake() {
            Ok(wake) => wakes.extend([wake]),
            // The upgrader timed out or was cancelled. The upgrader clears `UPGRADING` itself, in
            // `upgrade_slow`.
            Err(_) => drop(self.word.fetch_sub(ALONE, Ordering::Release)),
        }
    }

    /// Turns the caller's upgradable share into the whole lock if there are no other readers. Returns whether
    /// it did.
    ///
    /// # Safety
    /// The caller has the upgradable share.
    #[inline]
    pub unsafe fn try_upgrade(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & READERS == READER {
            let alone = word - (READER | UPGRADABLE) + WRITER;
            // Acquire: the other readers have finished. Pairs with the Release of `unlock_shared`.
            match self.word.compare_exchange_weak(word, alone, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    self.record_upgrade();
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    fn record_upgrade(&self) {
        self.unrecord(Wants::Upgradable);
        self.record(Wants::Alone);
    }

    /// Turns the caller's upgradable share into the whole lock, waiting for the other readers as `patience`
    /// allows. Call it after `try_upgrade` has failed.
    ///
    /// # Errors
    /// Returns how the wait ended if it timed out or was cancelled. The caller still has its upgradable
    /// share.
    ///
    /// # Safety
    /// The caller has the upgradable share.
    #[cold]
    pub unsafe fn upgrade_slow(&self, patience: Patience) -> Result<(), Outcome> {
        let queues = self.queues.lock();
        if self.begin_upgrading() {
            return Ok(());
        }
        let waiter = Waiter { wants: Wants::Alone, since: 0, has: false };
        let look = (self, Self::look_as_writer as fn(&Self) -> Option<Awaited>);
        match stay(
            Why::RwLock,
            look,
            queues,
            |queues| &mut queues.upgrader,
            Line::default(),
            patience,
            waiter,
        ) {
            Ok(waiter) => {
                self.record_upgrade();
                debug_assert!(waiter.has);
                Ok(())
            }
            Err(ended) => {
                self.word.fetch_and(!UPGRADING, Ordering::Relaxed);
                // Serves the waiters that the upgrade kept out.
                self.left(ended.guard, false);
                Err(ended.outcome)
            }
        }
    }

    /// Upgrades and returns `true` if there are no other readers; else sets `UPGRADING`, which keeps
    /// newcomers out. *Runs on: the holder of the queue's lock.*
    fn begin_upgrading(&self) -> bool {
        loop {
            // SAFETY: the caller has the upgradable share: `upgrade_slow`, the only caller, demands it of its
            // own caller.
            if unsafe { self.try_upgrade() } {
                return true;
            }
            let word = self.word.load(Ordering::Relaxed);
            if word & READERS == READER && !broken!("rwlock_upgrades_too_late") {
                continue;
            }
            // Relaxed: the unlocker reaches the queue under its lock, which the caller holds until the node
            // is pushed.
            if self
                .word
                .compare_exchange(word, word | UPGRADING, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                return false;
            }
        }
    }

    /// Turns what the caller has into a smaller mode, and serves the queue: other readers may now be let in.
    ///
    /// # Safety
    /// The caller has what `from` says, and `to` is a smaller mode.
    #[inline]
    pub unsafe fn downgrade(&self, from: Wants, to: Wants) {
        self.unrecord(from);
        self.record(to);
        // Release: publishes what the writer did to the readers that are let in. Pairs with the Acquire of
        // `take` and `serve_line`.
        let word = self.word.fetch_add(to.share().wrapping_sub(from.share()), Ordering::Release);
        if word & WAITING != 0 {
            self.look_after_queue();
        }
    }
}

#[cfg(all(test, loom))]
impl<const RECURSIVE: bool> RwLock<RECURSIVE> {
    /// Asserts that the lock is free, with empty queues.
    pub(super) fn has_rested(&self) {
        assert_eq!(self.word.load(Ordering::Relaxed), 0);
        let queues = self.queues.lock();
        assert!(queues.line.is_empty() && queues.upgrader.is_empty() && queues.writers == 0);
    }
}

/// Returns `true` if an unlocker must serve the queue. Returns `false` while a woken writer has not retried.
/// Then another unlock serves the queue: that writer's own, or that of the holder that keeps the writer
/// waiting.
#[inline]
fn needs_service(word: usize) -> bool {
    word & (WAITING | STARVING) != 0 && word & (WOKEN | STARVING) != WOKEN
}

impl<const RECURSIVE: bool> Default for RwLock<RECURSIVE> {
    fn default() -> Self {
        RwLock::new()
    }
}

impl<const RECURSIVE: bool> std::fmt::Debug for RwLock<RECURSIVE> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RwLock").field("is_locked", &self.is_locked()).finish_non_exhaustive()
    }
}
