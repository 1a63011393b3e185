//! A G: one green thread, or the proxy G that stands for a plain OS thread in waits.
//!
//! Gs live in a process-wide table and are never freed, only reused. A stale pointer to a G is harmless: each
//! wait has a number ([`wait`]), and each handle counts as a reference ([`life`]).
//!
//! ```text
//!   spawn ─> Runnable ─> Running ─┬─> Waiting ─> Runnable ...      a stack is taken when the G first runs; a
//!                         ^       ├─> Runnable (yield)             future gives its stack back after each poll
//!                         └───────┴─> Dead ─> reused
//! ```

#![allow(unsafe_code)]

pub(crate) mod binding;
pub(crate) mod budget;
pub(crate) mod contexts;
pub(crate) mod ids;
pub(crate) mod joiner;
pub(crate) mod labels;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
pub(crate) mod layout;
pub(crate) mod life;
pub(crate) mod list;
pub(crate) mod locals;
pub(crate) mod mask;
pub(crate) mod node;
pub(crate) mod origin;
pub(crate) mod own;
pub(crate) mod panics;
pub(crate) mod payload;
pub(crate) mod revocable;
pub(crate) mod shares;
pub(crate) mod table;
pub(crate) mod token;
pub(crate) mod wait;
pub(crate) mod why;

use std::cell::{Cell, RefCell, UnsafeCell};
use std::mem::MaybeUninit;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use timers::{Timer, clock};

use binding::BindingWord;
use budget::BudgetWord;
use contexts::Contexts;
use joiner::{Joiner, JoinerWords};
use life::Life;
use locals::Locals;
use node::NodeWord;
use origin::Origin;
use payload::Task;
use revocable::Revocables;
use shares::Shares;
use token::Token;
use wait::Wait;
use why::{On, Why};

use crate::sys::prefetch;

/// What a G is doing, for dumps and metrics. No decision depends on it.
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

/// A reference to a G. The table keeps Gs for ever.
pub(crate) type GRef = &'static G;

/// Names one green thread: a G, and the id that the G has while it is this thread.
#[derive(Clone, Copy)]
pub struct Identity {
    pub(crate) g: GRef,
    pub(crate) id: u64,
}

/// Names one wait: a G and the number of its wait. A ticket of a wait that is over has no effect.
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
    /// Returns the ticket as one word, for the netpoller, which knows no Gs.
    pub(crate) fn word(self) -> u64 {
        // Indices begin at 1, so no ticket equals one of the small words that the netpoller itself uses.
        u64::from(self.g.index) << 32 | u64::from(self.number)
    }

    pub(crate) fn from_word(word: u64) -> Option<Ticket> {
        Some(Ticket { g: table::get((word >> 32) as u32)?, number: word as u32 })
    }
}

/// The runtime of a G or an M, as an opaque type. Only `Sched` casts pointers to it (`Sched::as_runtime` and
/// its reverse); other code compares such pointers.
pub(crate) struct Runtime(());

/// The inline room for a closure, a future or a result. A larger value is boxed.
const PAYLOAD_WORDS: usize = 9;
pub(crate) type Payload = [MaybeUninit<u64>; PAYLOAD_WORDS];

/// One green thread.
#[repr(C, align(64))]
pub(crate) struct G {
    // Fields that wakers touch.
    pub(crate) wait: Wait,
    /// The token of `thread::park` and `unpark`.
    pub(crate) token: Token,
    /// The token of the waker of the future that this G runs.
    pub(crate) wakes: Token,
    pub(crate) life: Life,
    /// The runtime that owns the G; null for a proxy G. Written before another thread knows the G.
    runtime: AtomicPtr<Runtime>,
    // Fields of the M that runs the G, or of the holder of the list that the G is in.
    next: Cell<Option<GRef>>,
    /// Its coroutine, or null. Only `stack/coro.rs` knows the type behind it.
    pub(crate) coro_ptr: AtomicPtr<()>,
    // Fields of the task.
    task: Cell<Option<&'static Task>>,
    payload: UnsafeCell<Payload>,
    joiner: UnsafeCell<JoinerWords>,
    /// The timer of the G's own sleeps and time-outs.
    pub(crate) timer: Timer,
    /// The object of the current wait, or null. It lies in the waiter's frame while the G waits. For dumps.
    waits_on: AtomicPtr<On>,
    // Fields that name the G.
    id: AtomicU64,
    pub(crate) origin: Origin,
    /// Fields that few Gs need. Only the thread itself uses them.
    rare: UnsafeCell<Option<Box<ColdFields>>>,
    index: u32,
    status: AtomicU8,
    /// True while the G's own timer is lent to a future ([`crate::api::sleep::Sleep`]).
    pub(crate) timer_lent: AtomicBool,
    /// Which Ms may run the G.
    pub(crate) binding: BindingWord,
    /// About when the G last parked, in ms. For dumps.
    waits_since: AtomicU32,
    /// What its last wait was for: a `Why`, and `TIMED`. For dumps.
    waits_for: AtomicU8,
    /// True if the G drives a future; `wakes` belongs to that future.
    drives: Cell<bool>,
    /// True while no cancellation ends the waits of the G: in a mask, and once the task is over. See
    /// `g/mask.rs`.
    masked: Cell<bool>,
    /// The node of a simulation to which the G belongs.
    pub(crate) node: NodeWord,
    /// What keeps the G from simply leaving its OS thread now: a set of `POLLS`, `PINNED`, `CONTEXTS`,
    /// `CLAIMS`, `STAYS` and `SIMULATED`. See `g/own.rs`.
    keeps: AtomicU8,
}

/// In `G::waits_for`: the wait has a deadline.
const TIMED: u8 = 0x80;

/// Fields that only some Gs have. Only the thread itself uses them.
pub(crate) struct ColdFields {
    /// The deadline of the innermost `timeout` around the running code; `NEVER` without one.
    pub(crate) deadline: Cell<u64>,
    /// The revocable stretches of code that the thread is in.
    pub(crate) revocables: Revocables,
    pub(crate) locals: Locals,
    pub(crate) contexts: Contexts,
    /// The number of guards that pin the G to its OS thread.
    pub(crate) pins: Cell<u32>,
    /// The number of values of the G that must not leave its OS thread.
    pub(crate) stays: Cell<u32>,
    /// The shares of reader-writer locks that the thread has, by the address of the lock: `api/shares.rs`.
    pub(crate) shares: RefCell<Shares>,
    /// The return addresses on the stack on which the waker of its future was cloned last; none if they are
    /// not kept (`notes/await_stacks.rs`).
    pub(crate) await_stack: RefCell<Box<[usize]>>,
    /// The thread has unwound because it was cancelled. If it unwinds so again, or returns, user code has
    /// caught that.
    pub(crate) unwound: Cell<bool>,
}

// SAFETY: any thread may use the atomics. Each plain field has one owner at a time. Only an `OwnG` reaches
// `drives`, `masked` and `rare`, and only the list that has the G reaches `next`. `coro_ptr` and `task`
// belong to the spawner, then to the G's M or the holder of its list. `payload` does too, until
// `Life::complete` passes it to the join handle. `joiner` belongs to the join handle or, if `complete` found
// a waiter, to the G. `origin` changes only while the G has no reference (`begin`, `forget`), or keeps what
// other threads may read (`keep_stack`, `rename`).
unsafe impl Sync for G {}

impl G {
    pub(crate) fn new(index: u32) -> G {
        G {
            wait: Wait::new(),
            token: Token::new(),
            wakes: Token::new(),
            life: Life::new(),
            runtime: AtomicPtr::new(std::ptr::null_mut()),
            next: Cell::new(None),
            coro_ptr: AtomicPtr::new(std::ptr::null_mut()),
            task: Cell::new(None),
            payload: UnsafeCell::new([MaybeUninit::uninit(); PAYLOAD_WORDS]),
            joiner: UnsafeCell::new(JoinerWords::ABSENT),
            timer: Timer::new(),
            waits_on: AtomicPtr::new(std::ptr::null_mut()),
            id: AtomicU64::new(0),
            origin: Origin::new(),
            rare: UnsafeCell::new(None),
            index,
            status: AtomicU8::new(Status::Idle as u8),
            timer_lent: AtomicBool::new(false),
            binding: BindingWord::new(),
            waits_since: AtomicU32::new(0),
            waits_for: AtomicU8::new(Why::Something as u8),
            drives: Cell::new(false),
            masked: Cell::new(false),
            node: NodeWord::new(0),
            keeps: AtomicU8::new(0),
        }
    }

    /// Prepares a pooled G for a new task.
    ///
    /// # Safety
    /// The caller took the G from the pool, and no other thread has a reference to it.
    pub(crate) unsafe fn begin(
        &self,
        runtime: *const Runtime,
        id: u64,
        place: &'static Location<'static>,
        name: Option<Box<str>>,
        parent: u64,
    ) {
        self.wait.reset();
        self.token.reset();
        self.wakes.reset();
        // Relaxed: `Life::begin` publishes it.
        self.runtime.store(runtime.cast_mut(), Ordering::Relaxed);
        self.id.store(id, Ordering::Relaxed);
        self.origin.begin(place, name, parent);
        self.timer_lent.store(false, Ordering::Relaxed);
        self.node.store(0, Ordering::Relaxed);
        self.drives.set(false);
        self.masked.set(false);
        // Relaxed: as in `G::keeps`.
        self.keeps.store(contexts::keeps_of_new(), Ordering::Relaxed);
    }

    /// Drops what the finished task left in the G. *Runs on: the thread that gave the last reference up.*
    pub(crate) fn forget(&self) {
        self.origin.forget();
        self.set_status(Status::Idle);
    }

    /// Returns what the current poll of a future may still complete. *Runs on: the thread itself.*
    #[inline]
    pub(crate) fn budget(&self) -> &BudgetWord {
        &self.wait.budget
    }

    /// Returns the index in the table, which a later G has too.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Returns the id. No other green or OS thread ever has the same id.
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Returns where the G was spawned.
    pub(crate) fn place(&self) -> Option<&'static Location<'static>> {
        self.origin.place()
    }

    /// Returns the name, if the G has one. *Runs on: a holder of a reference.*
    pub(crate) fn name(&self) -> Option<&str> {
        self.origin.name()
    }

    #[inline]
    pub(crate) fn set_status(&self, status: Status) {
        // Release: a dumper that sees a G ready or waiting sees its stack as the G left it. Pairs with the
        // Acquire of `status`.
        self.status.store(status as u8, Ordering::Release);
    }

    /// Records what the next wait is for. `on` is its object or null. *Runs on: the thread itself.*
    #[inline]
    pub(crate) fn set_waits_for(&self, why: Why, on: *const On) {
        // Relaxed: for dumps only. A dumper that reads `on` holds the parked G, which has published both by
        // its commit.
        self.waits_for.store(why as u8, Ordering::Relaxed);
        self.waits_on.store(on.cast_mut(), Ordering::Relaxed);
    }

    /// Records that the wait that has begun ends by a deadline. *Runs on: the thread itself.*
    #[inline]
    pub(crate) fn set_wait_is_timed(&self) {
        let why = self.waits_for.load(Ordering::Relaxed);
        self.waits_for.store(why | TIMED, Ordering::Relaxed);
    }

    /// Returns the number of the [`Why`] of the last wait.
    #[inline]
    pub(crate) fn waits_for_number(&self) -> u8 {
        self.waits_for.load(Ordering::Relaxed) & !TIMED
    }

    /// Returns what the last wait was for, and whether it has a deadline.
    pub(crate) fn waits_for(&self) -> (Why, bool) {
        let word = self.waits_for.load(Ordering::Relaxed);
        (Why::of_number(word & !TIMED), word & TIMED != 0)
    }

    /// Returns the object of the current wait; null if it has none. Only the holder of the parked G may
    /// follow the pointer.
    pub(crate) fn waits_on(&self) -> *const On {
        self.waits_on.load(Ordering::Relaxed)
    }

    /// Records the time at which the G parked. *Runs on: its M.*
    #[inline]
    pub(crate) fn set_waits_since(&self, now_ns: u64) {
        self.waits_since.store((now_ns / NS_PER_MS) as u32, Ordering::Relaxed);
    }

    /// Returns about how many ms the last wait has lasted, if it still lasts.
    pub(crate) fn waits_for_ms(&self) -> u32 {
        let now = (clock::now() / NS_PER_MS) as u32;
        // The count wraps around after seven weeks.
        let ms = now.wrapping_sub(self.waits_since.load(Ordering::Relaxed));
        // The clock of the start may be a little ahead.
        if ms > u32::MAX / 2 { 0 } else { ms }
    }

    /// Returns what the G was doing a moment ago.
    pub(crate) fn status(&self) -> Status {
        // Acquire: pairs with the Release of `set_status`.
        match self.status.load(Ordering::Acquire) {
            0 => Status::Idle,
            1 => Status::Runnable,
            2 => Status::Running,
            3 => Status::Waiting,
            _ => Status::Dead,
        }
    }

    /// Returns `true` for a green thread, false for the proxy G of a plain OS thread.
    #[inline]
    pub(crate) fn is_green(&self) -> bool {
        !self.runtime().is_null()
    }

    /// Returns the runtime that owns the G; null for a proxy G.
    #[inline]
    pub(crate) fn runtime(&self) -> *const Runtime {
        self.runtime.load(Ordering::Relaxed)
    }

    /// Begins to load this G into the cache.
    #[inline(always)]
    pub(crate) fn will_be_used(&self) {
        for line in (0..size_of::<G>()).step_by(64) {
            prefetch(std::ptr::from_ref(self).cast::<u8>().wrapping_add(line));
        }
    }

    #[inline]
    pub(crate) fn set_task(&self, task: &'static Task) {
        self.task.set(Some(task));
    }

    #[inline]
    pub(crate) fn task(&self) -> &'static Task {
        self.task.get().expect("a G that runs has a task")
    }

    /// Returns the room for the task's state and result. `impl Sync for G` says which thread may use it.
    #[inline]
    pub(crate) fn payload(&self) -> *mut u64 {
        self.payload.get().cast()
    }

    /// Writes the waiter for the end. Returns the waiter before: perhaps a waker, which has a destructor of
    /// the user's.
    ///
    /// # Safety
    /// The caller is the join handle, and `Life::wait` has not been called, or `unwait` has returned `true`
    /// since.
    #[inline(always)]
    pub(crate) unsafe fn replace_joiner(&self, joiner: Joiner) -> Joiner {
        // SAFETY: `WAITER` is not set in `Life`, by this contract, so the G does not use the field.
        unsafe { (*self.joiner.get()).replace(joiner) }
    }

    /// Writes the parked waiter for the end. Precondition: there is none.
    ///
    /// # Safety
    /// As for `replace_joiner`.
    #[inline(always)]
    pub(crate) unsafe fn set_parked_joiner(&self, ticket: Ticket) {
        // SAFETY: as for `replace_joiner`, by this contract.
        unsafe { (*self.joiner.get()).set_parked(ticket) }
    }

    /// Takes the waiter for the end.
    ///
    /// # Safety
    /// The caller is the G, and `Life::complete` has found a waiter. Or the caller is the join handle, and
    /// `Life::wait` has not been called, or `unwait` has returned `true` since.
    #[inline(always)]
    pub(crate) unsafe fn take_joiner(&self) -> Joiner {
        // SAFETY: if `complete` found a waiter, the join handle does not use the field any more. Else
        // `WAITER` is not set, so the G does not use the field.
        unsafe { (*self.joiner.get()).replace(Joiner::Absent) }
    }
}
