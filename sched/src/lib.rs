//! The scheduler: green threads (G) on OS threads (M) that need the right to run them (P).
//!
//! - A **G** is a green thread: a closure or a future, a word for its current wait, its own timer, and a stack only
//!   while it has something on it. (`g.rs`, its stack in `g/coro.rs` and `stack.rs`)
//! - An **M** is an OS thread. Its own stack is where the scheduler runs: the loop in `schedule.rs` resumes a G and
//!   gets control back with the reason why that stopped. (`m.rs`)
//! - A **P** is the right to run Gs, with a run queue, a heap of timers and a pool of warm stacks. (`p.rs`)
//!
//! # The life of a G
//!
//! ```text
//!  spawn.rs          schedule.rs                       park.rs, time.rs, join.rs
//!  G from the pool,  the M takes a stack, lends its P, the G arms a wait, tells somebody its number, and stops
//!  task in place ──> resumes the G ─────────────────>  │
//!       ^            ^        │ its code runs, P lent  v
//!       │            │        │                 commit on the M's stack: from here on others may wake it
//!       │     wake.rs│        v                        │
//!       │      ready └── run queue <── decide ─────────┘  (a waker, a timer, the netpoller, cancel)
//!       │                     │ the task ends
//!       └── last reference <──┴── result stored, joiner woken, stack to the pool
//! ```
//!
//! # The protocols, each in one file, most with a loom model beside it
//!
//! - `g/wait.rs`: a wait is decided once, by whoever comes first; the G is made runnable by exactly one.
//! - `bed.rs`: a plain thread that is being woken waits for that, and is in one list at a time.
//! - `g/token.rs`: a wake-up that comes before the wait is kept (`unpark`, a future's waker).
//! - `g/life.rs`: who still needs the G; its end meets its join handle.
//! - `p/lease.rs`: the lent P. Running user code is what Go calls a system call: the M lends its P when it resumes
//!   a G, every call into the runtime takes it back, and sysmon may take a P that stays lent for too long. So a G
//!   that computes or blocks without telling anyone delays no other G. A G that calls often is asked for its P, and the way
//!   out of the next call gives that up. `lend.rs` says what happens to a loser.
//! - `m/rest.rs`: a G that waits for its M finds that M awake or wakes it; the M does not end.
//! - `shortage.rs`: nobody waits for a stack while one lies idle.
//! - `queue.rs`: the wait queue under all blocking primitives: what is granted to a waiter is lost by nobody.
//! - `due.rs`: a point in time that is waited for is taken once, or stopped.
//! - `keepers.rs`: a timer's function that was not stopped runs, and is dropped once, where user code may run.
//! - `deadlock.rs`: who may still run is not taken for asleep.
//! - `idle.rs`: no work is stranded: who makes work publishes and then looks for sleepers; who goes to sleep says so
//!   and then looks for work.
//! - `watch.rs`: sysmon looks by the time that was asked for, whenever the request comes.
//! - `net_wakers.rs`: a future that waits for the network is woken once or has given up.
//! - `closing.rs`: the end of a runtime: who may still come in, when nobody is left, and that nobody sleeps through it.
//!
//! ```text
//!   leaving user code for the runtime             leaving the runtime for user code
//!   enter:  CAS lent -> held                      lend:  store lent, tick + 1
//!     lost: go on without a P                       asked for it: queue up, hand it off, and wait in place
//!                                                   lost: an idle P, else queue up globally and wait in place
//!
//!   adding a timer                                going to sleep in the netpoller
//!   1 insert, publish the heap's first time       1 publish until when
//!   2 fence                                       2 fence
//!   3 does somebody sleep for longer? break it    3 look at all heaps: earlier? publish that
//! ```
//!
//! # Where an M looks for work (`find.rs`)
//!
//! Own due timers; run-next, woken, new Gs; the global queue; the network; the other Ps, spinning for about 5 us, in
//! the end also their run-next slots and due timers. Then it gives its P up, looks at everything once more, and
//! becomes the one M that blocks in the netpoller until the next timer of all Ps, or parks.
//!
//! # What blocks what
//!
//! | a G that | blocks its G | its M | its P |
//! | --- | --- | --- | --- |
//! | parks, sleeps, joins, waits for a socket | yes | no | no |
//! | is in `blocking` | yes | yes | no: taken within tens of microseconds if work waits |
//! | computes, or blocks unannounced | yes | yes | for 10 ms at most; for 200 us if timers wait |
//! | parks inside a future's poll | yes | no, but only this M resumes it | no |
//! | parks while it is pinned | yes | yes (a timed wait ends without another M) | no |
//! | parks while it unwinds, a closure | yes | as if it were pinned (panics are counted per thread), unless Gs are bound to this M | no |
//!
//! # How many Ms there are
//!
//! | an M is added | and ends |
//! | --- | --- |
//! | when a P is to run and no M is parked (`start_m`): sysmon has taken the P of a G that computes or blocks, or the last M parked with its G | when it was parked for 10 s without being needed (`end_idle_ms`), but for one a P and `SPARE_MS` |
//! | by sysmon as a spare, while no P is idle and no M is parked or on its way there (`keep_spare_m`) | the same |
//!
//! So the Ms at work are at most the Ps, plus the Gs that keep their M without a P, plus the Ms to which Gs are bound, plus the M
//! in the netpoller, the spare, and Ms about to park; and at most `Config::max_threads`. A crowd of computing Gs takes an M for
//! each G that has begun: one new M a P each 10 ms, and one for each timer that was overdue behind a computing G.
//!
//! # Gs that are bound to their M
//!
//! A poll never changes its OS thread. A G that stops inside a poll is bound to its M until it resumes there
//! (`lend::stop_at_home`), and so is a G that stops while it unwinds on an M to which others are bound. Strict mode
//! (`Config::strict`) binds each G from its first line on.
//!
//! The queues of the Ps have only what may run anywhere, futures between two polls too. A bound G waits in the queue of its
//! M (`M::home`); the waker that puts the G there wakes that M if it sleeps (`m/rest.rs`). An M with something at home and no
//! idle P gets in line for one (`Idle::take_or_want`): Ps are given to that line first, and an M passes its P on after a
//! millisecond. An M to which Gs are bound does not end (`Homes`). While a G is parked in the middle of an unwind, its panics
//! are set aside (`g/panics.rs`).
//!
//! Rejected: parking the M with the G, as for pinned Gs. Ten thousand polls that park would take as many OS threads.
//!
//! # Where user code runs
//!
//! On green threads and plain ones, never on an M's own stack, under a lock, or inside the runtime: closures, futures, wakers
//! (`wakers.rs` for those that timers call) and destructors may park, panic (`contain.rs`), or come back as a forked child
//! (`fork.rs`).
//!
//! # Rejected
//!
//! - *Switching stacks in a signal handler* to preempt: the interrupted code may hold malloc's lock.
//! - *A commit function per primitive*, run on the M's stack (Go's `gopark`): a lock held across every switch. One
//!   word per wait serves all primitives.
//! - *Freeing Gs*: a stale waker would touch freed memory. They are used again, and each wait has a number.
//! - *A join packet in an `Arc`*: a malloc and two counts a spawn. Closure and result live in the G.
//! - *Waking an M for each piece of work, and for each timer added*: a futex wake costs microseconds. One M spins as
//!   a promise to look, and who adds a timer and then parks finds it itself (`poll.rs`, `cover`).
//!
//! # Locks, outer first
//!
//! The poller of the netpoller; the list of Ms, or the set of retired Ps (`resize.rs`); then, never two at a time but for a
//! heap being moved into another: the idle lists, the line of those who wait for a stack, the global queue, a heap of timers,
//! the pools, the wakers of futures that wait for the network. (Under the first two the pool of stacks is locked while stacks are short.) The lock of a primitive with a wait
//! queue (`queue/lock.rs`) is outside of these: under it a wait may begin, which makes the face of a plain thread, but nobody
//! is made runnable. No lock is held while a G is switched or user code runs.

// The models may touch raw cells; loom checks them.
#![cfg_attr(not(loom), deny(unsafe_code))]
#![cfg_attr(loom, allow(unreachable_pub))]

#[cfg(not(loom))]
mod after_func;
#[cfg_attr(loom, allow(dead_code))]
mod bed;
#[cfg_attr(loom, allow(dead_code))]
mod closing;
#[cfg(not(loom))]
mod contain;
#[cfg(not(loom))]
mod coros;
#[cfg(not(loom))]
mod deadlock;
#[cfg(not(loom))]
pub mod drive;
#[cfg_attr(loom, allow(dead_code))]
pub mod due;
#[cfg(not(loom))]
mod dump;
#[cfg(not(loom))]
mod find;
#[cfg(not(loom))]
pub mod fork;
#[cfg(not(loom))]
mod g;
#[cfg_attr(loom, allow(dead_code))]
mod idle;
#[cfg(not(loom))]
mod ids;
#[cfg(not(loom))]
mod join;
#[cfg_attr(loom, allow(dead_code))]
mod keepers;
#[cfg(not(loom))]
mod lead;
#[cfg(not(loom))]
mod lend;
#[cfg(not(loom))]
pub mod locals;
#[cfg(not(loom))]
mod locked_queue;
#[cfg_attr(loom, allow(dead_code))]
pub mod locks;
#[cfg(not(loom))]
mod m;
#[cfg(not(loom))]
mod metrics;
#[cfg(all(test, loom))]
mod models;
#[cfg(not(loom))]
mod monitor;
#[cfg(not(loom))]
pub mod net_wakers;
#[cfg(not(loom))]
mod outside;
#[cfg(not(loom))]
mod p;
#[cfg(not(loom))]
pub mod park;
#[cfg(not(loom))]
mod poll;
#[cfg_attr(loom, allow(dead_code))]
pub mod queue;
#[cfg(not(loom))]
mod rescue;
#[cfg(not(loom))]
mod resize;
#[cfg(not(loom))]
mod sched;
#[cfg(not(loom))]
mod schedule;
#[cfg_attr(loom, allow(dead_code))]
mod shortage;
#[cfg(not(loom))]
mod shutdown;
#[cfg(not(loom))]
pub mod spawn;
#[cfg(not(loom))]
mod stack;
#[cfg_attr(loom, allow(dead_code))]
#[doc(hidden)]
pub mod sync;
#[cfg(not(loom))]
mod sys;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
pub mod time;
#[cfg(not(loom))]
mod timer;
#[cfg(not(loom))]
mod wake;
#[cfg(not(loom))]
mod wakers;
#[cfg(not(loom))]
mod want_stack;
#[cfg_attr(loom, allow(dead_code))]
mod watch;

/// Under loom only the protocol files are built.
#[cfg(loom)]
#[allow(dead_code)]
mod deadlock {
    pub(crate) mod traces;
}
#[cfg(loom)]
#[allow(dead_code)]
mod g {
    pub(crate) mod life;
    pub(crate) mod token;
    pub(crate) mod wait;
    pub(crate) mod why;
}
#[cfg(loom)]
#[allow(dead_code)]
mod m {
    pub(crate) mod rest;
}
#[cfg(loom)]
#[allow(dead_code)]
mod p {
    pub(crate) mod counters;
    pub(crate) mod lease;
}

/// What models of other crates use, with threads of loom behind it.
#[cfg(loom)]
pub use {
    g::wait::{Cancel, Outcome},
    g::why::Why,
    queue::modelled::Ticket,
};
/// Likewise.
#[cfg(loom)]
pub mod park {
    pub use crate::queue::modelled::{Waiting, unwind_if_cancelled};
}

#[cfg(not(loom))]
pub use {
    after_func::AfterFunc,
    deadlock::{InBlockOn, TEXT as DEADLOCK},
    dump::dump,
    g::task::{After, Cancelled},
    g::wait::{Cancel, Outcome},
    g::why::Why,
    g::{Status, Ticket},
    join::{GHandle, Join},
    metrics::Snapshot,
    monitor::{Look, Monitor, OVERDUE_NS},
    p::lease::{Seen, State},
    rescue::Rescue,
    sched::{Config, MAX_PROCS, Sched},
    sys::Doing,
    wake::wake,
};
