//! A G: one green thread (or the face that a plain OS thread shows to what it waits for).
//!
//! Gs live in a process-wide table and are never freed, only used again: a stale pointer to one is harmless, since
//! every wait has its number ([`wait`]) and every handle its reference ([`life`]).
//!
//! ```text
//!   spawn ─> Runnable ─> Running ─┬─> Waiting ─> Runnable ...      its stack is taken when it first runs; a
//!                         ^       ├─> Runnable (yield)             future's is given back after each poll
//!                         └───────┴─> Dead ─> used again
//! ```

#![allow(unsafe_code)]

pub(crate) mod coro;
pub(crate) mod fault;
pub(crate) mod life;
pub(crate) mod list;
pub(crate) mod panics;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod token;
pub(crate) mod wait;
pub(crate) mod why;

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

use timers::{Timer, clock};

use crate::locals::Locals;
use crate::sched::Sched;
use coro::Coro;
use life::Life;
use task::Task;
use token::Token;
use wait::Wait;
use why::Why;

/// What a G is doing, for those who look from outside. Nothing is decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Not in use.
    Idle,
    /// In a run queue.
    Runnable,
    /// On an M.
    Running,
    /// Parked.
    Waiting,
    /// Ended; handles may still exist.
    Dead,
}

const NS_PER_MS: u64 = 1_000_000;

/// A reference to a G: the table keeps them for ever.
pub(crate) type GRef = &'static G;

/// What a wait is for: a G and the number of the wait. Harmless when the wait is over.
#[derive(Clone, Copy)]
pub struct Ticket {
    pub(crate) g: GRef,
    pub(crate) number: u32,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "wait {} of {}", self.number, self.g.index)
    }
}

impl Ticket {
    /// The ticket in one word, for who keeps waiters without knowing Gs (the netpoller).
    pub(crate) fn word(self) -> u64 {
        // Indices begin at 1, so no ticket is one of the small words that the keeper uses itself.
        u64::from(self.g.index) << 32 | u64::from(self.number)
    }

    pub(crate) fn from_word(word: u64) -> Option<Ticket> {
        Some(Ticket { g: table::get((word >> 32) as u32)?, number: word as u32 })
    }
}

/// Who waits for a G's end.
#[derive(Default)]
pub(crate) enum Joiner {
    #[default]
    Nobody,
    Parked(Ticket),
    Polls(Waker),
}

/// The inline room for a closure, a future or a result; what is larger is boxed.
const PAYLOAD_WORDS: usize = 9;
pub(crate) type Payload = [MaybeUninit<u64>; PAYLOAD_WORDS];

/// One green thread.
#[repr(C, align(64))]
pub(crate) struct G {
    // What wakers touch.
    pub(crate) wait: Wait,
    /// `thread::park` and `unpark`.
    pub(crate) token: Token,
    /// The waker of the future that this G runs.
    pub(crate) wakes: Token,
    pub(crate) life: Life,
    /// The runtime it belongs to; null for the face of a plain thread. Written before anyone knows the G.
    sched: AtomicPtr<Sched>,
    // What belongs to whoever runs it, or to the list it is in.
    pub(crate) next: Cell<Option<GRef>>,
    pub(crate) coro: Cell<*mut Coro>,
    // What runs.
    task: Cell<Option<&'static Task>>,
    payload: UnsafeCell<Payload>,
    joiner: UnsafeCell<Joiner>,
    /// For its own sleeps and time-outs.
    pub(crate) timer: Timer,
    // Who it is.
    id: AtomicU64,
    place: Cell<Option<&'static Location<'static>>>,
    name: UnsafeCell<Option<Box<Name>>>,
    /// What few need; of whoever runs it.
    rare: UnsafeCell<Option<Box<Rare>>>,
    index: u32,
    status: AtomicU8,
    /// Its own timer is lent to a future ([`crate::time::Sleep`]).
    pub(crate) timer_lent: AtomicBool,
    /// Whether it may run on any M ([`coro::Bound`]).
    pub(crate) bound: AtomicU8,
    /// Since when it has been parked, nearly, in ms, for those who look from outside.
    waits_since: AtomicU32,
    /// What its last wait was for, likewise.
    waits_for: AtomicU8,
    /// A future is being driven by it, to which its `wakes` belong.
    pub(crate) drives: Cell<bool>,
    /// Its task is over, and what runs on it now, destructors and wakers, is not ended by a cancellation.
    pub(crate) over: Cell<bool>,
    /// Why it must not change its OS thread now: [`POLLS`] and [`PINNED`].
    keeps: Cell<u8>,
}

/// In `G::keeps`: the G polls a future.
const POLLS: u8 = 1;
/// In `G::keeps`: the G is pinned.
const PINNED: u8 = 2;

/// A name, behind one more pointer: most Gs have none.
type Name = Box<str>;

/// What only some Gs have, and only the thread itself looks at.
pub(crate) struct Rare {
    /// By when the innermost `timeout` around the running code wants it to end; NEVER without one.
    pub(crate) deadline: Cell<u64>,
    pub(crate) locals: Locals,
    /// Guards that pin it to its OS thread.
    pub(crate) pins: Cell<u32>,
}

// SAFETY: the atomics are for everyone; each plain field names its one owner: whoever makes the G, then whoever runs
// it or holds it in a list (`next`, `coro`, `task`, `drives`, `over`, `keeps`, `rare`, `payload` until `Life::complete`), then the join
// handle (`payload` after `complete`, `joiner` while `Life` says so). `id`, `place` and `name` change only while
// the G has no reference.
unsafe impl Sync for G {}

impl G {
    pub(crate) fn new(index: u32) -> G {
        G {
            wait: Wait::new(),
            token: Token::new(),
            wakes: Token::new(),
            life: Life::new(),
            sched: AtomicPtr::new(std::ptr::null_mut()),
            next: Cell::new(None),
            coro: Cell::new(std::ptr::null_mut()),
            task: Cell::new(None),
            payload: UnsafeCell::new([MaybeUninit::uninit(); PAYLOAD_WORDS]),
            joiner: UnsafeCell::new(Joiner::Nobody),
            timer: Timer::new(),
            id: AtomicU64::new(0),
            place: Cell::new(None),
            name: UnsafeCell::new(None),
            rare: UnsafeCell::new(None),
            index,
            status: AtomicU8::new(Status::Idle as u8),
            timer_lent: AtomicBool::new(false),
            bound: AtomicU8::new(coro::FREE),
            waits_since: AtomicU32::new(0),
            waits_for: AtomicU8::new(Why::Something as u8),
            drives: Cell::new(false),
            over: Cell::new(false),
            keeps: Cell::new(0),
        }
    }

    /// Makes it somebody.
    ///
    /// # Safety
    /// The caller took the G from the pool and nobody else has a reference to it.
    pub(crate) unsafe fn begin(
        &self,
        sched: *const Sched,
        id: u64,
        place: &'static Location<'static>,
        name: Option<Box<str>>,
    ) {
        self.wait.reset();
        self.token.reset();
        self.wakes.reset();
        // Relaxed: `Life::begin` publishes it.
        self.sched.store(sched.cast_mut(), Ordering::Relaxed);
        self.id.store(id, Ordering::Relaxed);
        self.place.set(Some(place));
        self.timer_lent.store(false, Ordering::Relaxed);
        self.drives.set(false);
        self.over.set(false);
        self.keeps.set(0);
        if name.is_some() {
            // SAFETY: nobody else has a reference, by this function's contract.
            unsafe { *self.name.get() = name.map(Box::new) };
        }
    }

    /// Forgets what only this incarnation had. *Runs on: whoever gave the last reference up.*
    pub(crate) fn forget(&self) {
        // SAFETY: the last reference is gone, so the caller is alone.
        let name = unsafe { &mut *self.name.get() };
        if name.is_some() {
            *name = None;
        }
        self.set_status(Status::Idle);
    }

    /// Unique for ever among green and OS threads.
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Where it was spawned.
    pub(crate) fn place(&self) -> Option<&'static Location<'static>> {
        self.place.get()
    }

    /// Its name. *Runs on: a holder of a reference.*
    pub(crate) fn name(&self) -> Option<&str> {
        // SAFETY: `name` changes only while the G has no reference, and the caller holds one.
        unsafe { (*self.name.get()).as_deref().map(|name| &**name) }
    }

    /// What few have, if it has been made. *Runs on: the thread itself.*
    #[inline]
    pub(crate) fn rare(&self) -> Option<&Rare> {
        // SAFETY: only the thread itself looks, and it is dropped at its end (`take_rare`).
        unsafe { (*self.rare.get()).as_deref() }
    }

    /// Likewise, made if need be.
    pub(crate) fn rare_or_new(&self) -> &Rare {
        if self.rare().is_none() {
            let rare = Rare { deadline: Cell::new(clock::NEVER), locals: Locals::new(), pins: Cell::new(0) };
            // SAFETY: there is none yet, so nobody borrows it.
            unsafe { *self.rare.get() = Some(Box::new(rare)) };
        }
        self.rare().expect("it was just made")
    }

    /// The thread ends and needs it no more. *Runs on: the thread itself, which borrows nothing of it.*
    pub(crate) fn take_rare(&self) -> Option<Box<Rare>> {
        // SAFETY: by the contract above nobody borrows it.
        unsafe { (*self.rare.get()).take() }
    }

    /// True if it may be moved to another OS thread when it parks: it polls no future and is not pinned. *Runs on: the
    /// thread itself.*
    #[inline]
    pub(crate) fn is_unkept(&self) -> bool {
        self.keeps.get() == 0
    }

    /// True if it polls a future. *Runs on: the thread itself.*
    pub(crate) fn polls(&self) -> bool {
        self.keeps.get() & POLLS != 0
    }

    /// It polls a future from now on, or no longer; returns what was so before. *Runs on: the thread itself, or the
    /// spawner.*
    #[inline]
    pub(crate) fn set_polls(&self, polls: bool) -> bool {
        let before = self.keeps.get();
        self.keeps.set(if polls { before | POLLS } else { before & !POLLS });
        before & POLLS != 0
    }

    /// True if it is pinned. *Runs on: the thread itself.*
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.keeps.get() & PINNED != 0
    }

    /// Counts one guard more that pins it. *Runs on: the thread itself.*
    pub(crate) fn pin(&self) {
        let pins = &self.rare_or_new().pins;
        pins.set(pins.get() + 1);
        self.keeps.set(self.keeps.get() | PINNED);
    }

    /// Counts one guard less that pins it. *Runs on: the thread itself.*
    pub(crate) fn unpin(&self) {
        let pins = &self.rare_or_new().pins;
        pins.set(pins.get().saturating_sub(1));
        if pins.get() == 0 {
            self.keeps.set(self.keeps.get() & !PINNED);
        }
    }

    /// By when the innermost `timeout` wants the running code to end.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.rare().map_or(clock::NEVER, |rare| rare.deadline.get())
    }

    #[inline]
    pub(crate) fn set_status(&self, status: Status) {
        // Relaxed: for those who look from outside.
        self.status.store(status as u8, Ordering::Relaxed);
    }

    /// It begins to wait, for that. *Runs on: whoever runs it.*
    #[inline]
    pub(crate) fn set_waits_for(&self, why: Why) {
        // Relaxed: for those who look from outside.
        self.waits_for.store(why as u8, Ordering::Relaxed);
    }

    /// It is parked from now on. *Runs on: its M.*
    #[inline]
    pub(crate) fn set_waits_since(&self, now_ns: u64) {
        self.waits_since.store((now_ns / NS_PER_MS) as u32, Ordering::Relaxed);
    }

    /// What its last wait was for, in words, and for how many ms it has lasted if it lasts still, nearly.
    pub(crate) fn wait_in_words(&self) -> (&'static str, u32) {
        let now = (clock::now() / NS_PER_MS) as u32;
        // Of seven weeks the count begins anew.
        let ms = now.wrapping_sub(self.waits_since.load(Ordering::Relaxed));
        (Why::words(self.waits_for.load(Ordering::Relaxed)), ms)
    }

    /// What it is doing, as of a moment ago.
    pub(crate) fn status(&self) -> Status {
        match self.status.load(Ordering::Relaxed) {
            0 => Status::Idle,
            1 => Status::Runnable,
            2 => Status::Running,
            3 => Status::Waiting,
            _ => Status::Dead,
        }
    }

    /// True for a green thread, false for the face of a plain OS thread.
    #[inline]
    pub(crate) fn is_green(&self) -> bool {
        !self.owner().is_null()
    }

    /// The runtime it belongs to; null for a face.
    #[inline]
    pub(crate) fn owner(&self) -> *const Sched {
        self.sched.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_task(&self, task: &'static Task) {
        self.task.set(Some(task));
    }

    #[inline]
    pub(crate) fn task(&self) -> &'static Task {
        self.task.get().expect("a G that runs has a task")
    }

    /// The room for the task's state and result; who may touch it stands at `Sync`.
    #[inline]
    pub(crate) fn payload(&self) -> *mut u64 {
        self.payload.get().cast()
    }

    /// Writes who waits for the end, and gives who did before: perhaps a waker, whose destructor is the user's.
    ///
    /// # Safety
    /// The caller is the join handle, and `Life::wait` has not been called, or `unwait` has succeeded since.
    pub(crate) unsafe fn replace_joiner(&self, joiner: Joiner) -> Joiner {
        // SAFETY: by the contract above nobody else looks at it.
        unsafe { std::mem::replace(&mut *self.joiner.get(), joiner) }
    }

    /// Takes who waits.
    ///
    /// # Safety
    /// The caller is the G and `Life::complete` said that there is a waiter; or as for `replace_joiner`.
    pub(crate) unsafe fn take_joiner(&self) -> Joiner {
        // SAFETY: by the contract above nobody else looks at it.
        unsafe { std::mem::take(&mut *self.joiner.get()) }
    }
}
