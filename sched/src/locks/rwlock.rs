//! The reader-writer lock: who shares it, who has it alone, and who may come from the first to the second.
//!
//! The queue is served in order: readers up to the first writer together, a writer alone. Readers who come while a writer
//! waits go behind it, so neither side starves the other. Beyond what stands at the head of `locks.rs`:
//!
//! ```text
//!   giving back, the last reader or the writer   taking, not free to us
//!   word -= READER or WRITER                     the queue's lock
//!   somebody waits, and no writer is on its way? word |= WAITING (| WRITER_WAITS), only if not free to us still
//!     the queue's lock, and serve:               push the node, unlock, park
//!       readers at the head: word += READER,     a reader: it has it
//!         wake it
//!       a writer: WOKEN, wake it                 a writer: try again, clearing WOKEN; else the first place
//!       STARVING: word += WRITER, wake it        a writer that starved: it has it
//! ```
//!
//! - Readers and upgraders are given their share before they are woken; only a writer is woken with nothing, for only a
//!   writer would make everybody wait until it is there.
//! - *Whoever leaves the queue serves it*: a writer that gives up may have kept readers waiting that share with those who
//!   have the lock.
//! - *Upgrading*: one of the readers may be `UPGRADABLE`. To have the lock alone it waits, apart from the queue and before
//!   it, until it is the only reader (`UPGRADING`); nobody else comes in meanwhile.
//! - `RECURSIVE` readers come in whenever another reader is there, whoever waits: a thread that has one share gets another.

use super::{Line, Patience, Wakes, is_long_ago, spin, stay};
use crate::g::wait::Outcome;
use crate::g::why::Why;
use crate::queue::{Guard, Lock, Queue};
use crate::sync::{
    atomic::{AtomicUsize, Ordering},
    broken,
};

/// The queue is not empty. This and the next four change under its lock.
const WAITING: usize = 1;
/// A writer that was woken is on its way to look.
const WOKEN: usize = 2;
/// It is had only by being served. Comes while it is had by somebody.
const STARVING: usize = 4;
/// A writer is in the queue.
const WRITER_WAITS: usize = 8;
/// The upgradable reader waits until it is the only reader.
const UPGRADING: usize = 16;
/// One of the readers may have the lock alone later.
const UPGRADABLE: usize = 32;
/// Somebody has it alone; there is no reader.
const WRITER: usize = 64;
/// One of these for each reader.
const READER: usize = 128;
const READERS: usize = !(READER - 1);

/// What keeps a newcomer out.
const IN_TURN_ONLY: usize = STARVING | WRITER_WAITS;

/// A reader-writer lock without contents; see the file's head.
pub struct RwLock<const RECURSIVE: bool> {
    word: AtomicUsize,
    queues: Lock<Queues>,
}

#[derive(Default)]
struct Queues {
    line: Queue<Waiter>,
    /// Writers in the line.
    writers: usize,
    /// The one that waits to be the only reader.
    upgrader: Queue<Waiter>,
}

/// What somebody wants of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// To share it.
    Shared,
    /// To share it, and perhaps to have it alone later.
    Upgradable,
    /// To have it alone.
    Alone,
}

impl Wants {
    /// What is added to the word.
    const fn share(self) -> usize {
        match self {
            Wants::Shared => READER,
            Wants::Upgradable => READER | UPGRADABLE,
            Wants::Alone => WRITER,
        }
    }

    /// Whether those who have it now leave room for that.
    const fn fits(self, word: usize) -> bool {
        match self {
            Wants::Shared => word & (WRITER | UPGRADING) == 0,
            Wants::Upgradable => word & (WRITER | UPGRADING | UPGRADABLE) == 0,
            Wants::Alone => word & (WRITER | READERS) == 0,
        }
    }
}

/// What one in a queue waits with.
struct Waiter {
    wants: Wants,
    since: u64,
    /// It has what it wants.
    has: bool,
}

const fn is_had(word: usize) -> bool {
    word & (WRITER | READERS) != 0
}

impl<const RECURSIVE: bool> RwLock<RECURSIVE> {
    /// One that nobody has.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        let queues = Queues { line: Queue::new(), writers: 0, upgrader: Queue::new() };
        RwLock { word: AtomicUsize::new(0), queues: Lock::new(queues) }
    }

    /// Likewise.
    #[cfg(loom)]
    pub fn new() -> Self {
        RwLock { word: AtomicUsize::new(0), queues: Lock::new(Queues::default()) }
    }

    /// Takes a share if that is free. *Runs on: any thread.*
    #[inline]
    pub fn try_lock_shared(&self) -> bool {
        self.take(Wants::Shared, 0)
    }

    /// Likewise, a share that may be upgraded.
    #[inline]
    pub fn try_lock_upgradable(&self) -> bool {
        self.take(Wants::Upgradable, 0)
    }

    /// Likewise, all of it.
    #[inline]
    pub fn try_lock_alone(&self) -> bool {
        self.take(Wants::Alone, 0)
    }

    /// Whether anybody has it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        // Relaxed: it may be otherwise already.
        is_had(self.word.load(Ordering::Relaxed))
    }

    /// Whether somebody has it alone.
    #[inline]
    pub fn is_locked_alone(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WRITER != 0
    }

    /// Whether somebody waits for what a reader has, or for what anybody has.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (WAITING | UPGRADING) != 0
    }

    /// Whether it is free to a newcomer.
    #[inline]
    fn is_free(word: usize, wants: Wants) -> bool {
        // The share of one that upgrades is to be the last, so it lets nobody in.
        let others = (word & READERS) / READER > usize::from(word & UPGRADING != 0);
        if RECURSIVE && wants == Wants::Shared && others {
            return true;
        }
        let in_turn_only = if wants == Wants::Alone { STARVING } else { IN_TURN_ONLY };
        wants.fits(word) && word & in_turn_only == 0
    }

    /// Takes it if it is free, `clearing` those bits.
    #[inline]
    fn take(&self, wants: Wants, clearing: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while Self::is_free(word, wants) {
            let Some(taken) = word.checked_add(wants.share()) else { return false };
            // Acquire: what the last ones did; pairs with the Release of `unlock_shared` and `unlock_alone`.
            match self.word.compare_exchange_weak(
                word,
                taken & !clearing,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes it, waiting as long as patience lasts; the `try_` form has failed. It does not unwind while waiting.
    ///
    /// # Errors
    /// How the wait ended otherwise. It has left the queue, and what was meant for it has gone to the next.
    ///
    /// # Panics
    /// If there are more readers than can be counted.
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
            match stay(Why::RwLock, queues, |queues| &mut queues.line, line, patience, waiter) {
                Ok(Waiter { has: true, .. }) => return Ok(()),
                Ok(_) => line.woken = true,
                Err(ended) => {
                    self.left(ended.guard, ended.was_queued && wants == Wants::Alone);
                    return Err(ended.outcome);
                }
            }
        }
        Ok(())
    }

    /// Takes it, whatever comes. It does not unwind.
    pub fn lock_anyway(&self, wants: Wants) {
        if !self.take(wants, 0) {
            self.lock_slow(wants, Patience::ENDLESS).expect("nothing else ends an endless wait");
        }
    }

    /// Takes it, or says in the word that somebody waits, and gives the queue to enter.
    fn take_or_enter(&self, wants: Wants, line: Line) -> Option<Guard<'_, Queues>> {
        // Whoever was woken has looked now.
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

    /// Says that somebody waits, while it is not free: then whoever changes that sees it. *Runs on: the holder of the
    /// queue's lock.*
    fn announce(&self, wants: Wants, line: Line, clearing: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        assert!(word.checked_add(READER).is_some(), "there are more readers than can be counted");
        while !Self::is_free(word, wants) || broken!("rwlock_enters_a_free_one") {
            let mut waiting = word & !clearing | WAITING;
            if wants == Wants::Alone {
                waiting |= WRITER_WAITS;
            }
            if line.starves() && is_had(word) {
                waiting |= STARVING;
            }
            // Relaxed: the queue itself is found under its lock, which is held until the node is in.
            match self.word.compare_exchange_weak(word, waiting, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// One has left the queue before its turn. Who stands behind it may share what others have.
    fn left(&self, mut queues: Guard<'_, Queues>, writer: bool) {
        queues.writers -= usize::from(writer);
        let mut wakes = Wakes::default();
        if !broken!("rwlock_leaves_without_serving") {
            self.serve(&mut queues, &mut wakes);
        }
        drop(queues);
        drop(wakes);
    }

    /// Gives a share back.
    ///
    /// # Safety
    /// The caller has one, that is not upgradable.
    #[inline]
    pub unsafe fn unlock_shared(&self) {
        let order =
            if broken!("rwlock_share_given_back_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release: what was read is read; pairs with the Acquire of a writer.
        let word = self.word.fetch_sub(READER, order);
        debug_assert!(word & READERS != 0, "a share is given back by a reader");
        let others = (word & READERS) / READER - 1;
        if others == 0 && needs_service(word) || others == 1 && word & UPGRADING != 0 {
            self.look_after_queue();
        }
    }

    /// Gives an upgradable share back.
    ///
    /// # Safety
    /// The caller has it.
    #[inline]
    pub unsafe fn unlock_upgradable(&self) {
        // Release: as in `unlock_shared`.
        let word = self.word.fetch_sub(READER | UPGRADABLE, Ordering::Release);
        debug_assert!(
            word & READERS != 0 && word & UPGRADABLE != 0,
            "an upgradable share is given back by its owner"
        );
        if word & WAITING != 0 {
            self.look_after_queue();
        }
    }

    /// Gives it back.
    ///
    /// # Safety
    /// The caller has it alone.
    #[inline]
    pub unsafe fn unlock_alone(&self) {
        let order = if broken!("rwlock_given_back_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release: what was done under it; pairs with the Acquire of whoever takes it.
        let word = self.word.fetch_sub(WRITER, order);
        debug_assert!(word & WRITER != 0, "a lock is given back by its writer");
        if needs_service(word) {
            self.look_after_queue();
        }
    }

    /// Gives it back, and those who wait get it before any newcomer.
    ///
    /// # Safety
    /// The caller has what `has` says.
    #[inline]
    pub unsafe fn unlock_fair(&self, has: Wants) {
        // SAFETY: by this function's contract.
        unsafe {
            match has {
                _ if self.is_waited_for() => self.unlock_fair_slow(has.share()),
                Wants::Shared => self.unlock_shared(),
                Wants::Upgradable => self.unlock_upgradable(),
                Wants::Alone => self.unlock_alone(),
            }
        }
    }

    #[cold]
    fn unlock_fair_slow(&self, mine: usize) {
        let mut queues = self.queues.lock();
        // For as long as this takes, as if somebody starved. Nobody else sets or clears that without the lock.
        let wait = if queues.line.is_empty() { 0 } else { STARVING };
        let before = self.word.fetch_or(wait, Ordering::Relaxed);
        // Release: as above.
        self.word.fetch_sub(mine, Ordering::Release);
        let mut wakes = Wakes::default();
        self.serve(&mut queues, &mut wakes);
        if before & STARVING == 0 {
            self.word.fetch_and(!STARVING, Ordering::Relaxed);
        }
        drop(queues);
        drop(wakes);
    }

    /// Somebody has given it back, or gave others room.
    #[cold]
    fn look_after_queue(&self) {
        let mut queues = self.queues.lock();
        let mut wakes = Wakes::default();
        self.serve(&mut queues, &mut wakes);
        drop(queues);
        drop(wakes);
    }

    /// Gives those who wait what they can have. *Runs on: the holder of the queue's lock.*
    fn serve(&self, queues: &mut Queues, wakes: &mut Wakes) {
        if self.word.load(Ordering::Relaxed) & UPGRADING != 0 {
            self.serve_upgrader(queues, wakes);
        } else {
            self.serve_line(queues, wakes);
        }
        self.tell_of(queues);
    }

    /// Likewise those in the line, in order.
    fn serve_line(&self, queues: &mut Queues, wakes: &mut Wakes) {
        // Acquire, here and below: what the last ones did who gave it back, who need not be the caller; those who are
        // served get that from us by the decision of their waits.
        let mut word = self.word.load(Ordering::Acquire);
        // Behind an upgradable one that must wait for another, readers need not wait.
        while let Some(mut next) =
            queues.line.find(|waiter| waiter.wants != Wants::Upgradable || word & UPGRADABLE == 0)
        {
            let (wants, since) = (next.payload().wants, next.payload().since);
            let is_given = wants != Wants::Alone || word & STARVING != 0;
            let new = match wants.fits(word) {
                true if is_given => word + wants.share(),
                true if word & WOKEN == 0 => word | WOKEN,
                // A newcomer was faster, perhaps not for the first time.
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
                // It has left: what it was given is taken back.
                Err(_) if broken!("rwlock_given_to_who_has_left") => {}
                Err(_) if is_given => drop(self.word.fetch_sub(wants.share(), Ordering::Release)),
                Err(_) => drop(self.word.fetch_and(!WOKEN, Ordering::Relaxed)),
            }
            word = self.word.load(Ordering::Acquire);
        }
    }

    /// Says in the word what the queue is like now. *Runs on: the holder of its lock.*
    fn tell_of(&self, queues: &Queues) {
        let mut over = 0;
        if queues.writers == 0 {
            over |= WRITER_WAITS;
        }
        if queues.line.is_empty() {
            over |= WAITING | STARVING;
        }
        if over != 0 {
            // Relaxed: who may take it now synchronizes with the last ones who gave it back.
            self.word.fetch_and(!over, Ordering::Relaxed);
        }
    }

    /// Gives the lock to the one that upgrades, if it is the only reader.
    fn serve_upgrader(&self, queues: &mut Queues, wakes: &mut Wakes) {
        const ALONE: usize = WRITER.wrapping_sub(READER | UPGRADABLE | UPGRADING);
        if (self.word.load(Ordering::Acquire) & READERS) / READER > 1 {
            return;
        }
        let Some(mut upgrader) = queues.upgrader.first() else { return };
        upgrader.payload().has = true;
        // Nobody else changes who has it: the only one who does waits, and keeps all others out. Acquire: what the last
        // reader did, who need not be the caller.
        self.word.fetch_add(ALONE, Ordering::Acquire);
        match upgrader.wake() {
            Ok(wake) => wakes.extend([wake]),
            // It has left, and will say that it upgrades no more.
            Err(_) => drop(self.word.fetch_sub(ALONE, Ordering::Release)),
        }
    }

    /// Makes the caller's upgradable share the whole, if there are no other readers.
    ///
    /// # Safety
    /// The caller has it.
    #[inline]
    pub unsafe fn try_upgrade(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & READERS == READER {
            let alone = word - (READER | UPGRADABLE) + WRITER;
            // Acquire: the other readers have read; pairs with the Release of `unlock_shared`.
            match self.word.compare_exchange_weak(word, alone, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Likewise, waiting for the other readers as long as patience lasts; `try_upgrade` has failed.
    ///
    /// # Errors
    /// How the wait ended otherwise. The caller has its upgradable share still.
    ///
    /// # Safety
    /// The caller has it.
    #[cold]
    pub unsafe fn upgrade_slow(&self, patience: Patience) -> Result<(), Outcome> {
        let queues = self.queues.lock();
        if self.begin_upgrading() {
            return Ok(());
        }
        let waiter = Waiter { wants: Wants::Alone, since: 0, has: false };
        match stay(Why::RwLock, queues, |queues| &mut queues.upgrader, Line::default(), patience, waiter) {
            Ok(waiter) => {
                debug_assert!(waiter.has);
                Ok(())
            }
            Err(ended) => {
                self.word.fetch_and(!UPGRADING, Ordering::Relaxed);
                // Those whom it has kept out.
                self.left(ended.guard, false);
                Err(ended.outcome)
            }
        }
    }

    /// Upgrades, or keeps all others out until that can be. *Runs on: the holder of the queue's lock.*
    fn begin_upgrading(&self) -> bool {
        loop {
            // SAFETY: the caller of `upgrade_slow` has it.
            if unsafe { self.try_upgrade() } {
                return true;
            }
            let word = self.word.load(Ordering::Relaxed);
            if word & READERS == READER && !broken!("rwlock_upgrades_too_late") {
                continue;
            }
            // Relaxed: as in `announce`.
            if self
                .word
                .compare_exchange(word, word | UPGRADING, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                return false;
            }
        }
    }

    /// Makes what the caller has less: others may come in.
    ///
    /// # Safety
    /// The caller has what `from` says, and `to` is less.
    #[inline]
    pub unsafe fn downgrade(&self, from: Wants, to: Wants) {
        // Release: what was done by the one that had it alone, for those who share it now.
        let word = self.word.fetch_add(to.share().wrapping_sub(from.share()), Ordering::Release);
        if word & WAITING != 0 {
            self.look_after_queue();
        }
    }
}

#[cfg(all(test, loom))]
impl<const RECURSIVE: bool> RwLock<RECURSIVE> {
    /// All is as in the beginning.
    pub(super) fn has_rested(&self) {
        assert_eq!(self.word.load(Ordering::Relaxed), 0);
        let queues = self.queues.lock();
        assert!(queues.line.is_empty() && queues.upgrader.is_empty() && queues.writers == 0);
    }
}

/// Whether the one that gave it back must look after the queue: not when a writer is on its way, which does that later.
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
