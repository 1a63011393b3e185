//! How an M sleeps, and who wakes it. Sysmon sleeps otherwise (`sysmon.rs`, `plan.rs`).
//!
//! An M without a P looks for work, and then sleeps in one of nine ways:
//!
//! | the M | stands in | is woken by | which leaves |
//! | --- | --- | --- | --- |
//! | is **parked** | the list of parked Ms (`idle.rs`) | a thread that has a P or a watch for it; sysmon | a wish |
//! | the same, with bound Gs | the same | the waker of a bound G | a G in its queue |
//! | the same, and watches over lone Gs | the same | itself, each 20 us (`lone_watch.rs`) | nothing |
//! | the same, with the alarm | the same | itself, for the next timer (`alarm.rs`) | nothing |
//! | **polls** | the netpoller | an event, a timer, a break | nothing |
//! | is **in line** for a P | the line for Ps (`idle.rs`) | an M that gives its P up | a wish: the P |
//! | is **reserved** | no list | the waker of a bound G | a G in its queue |
//! | waits **in place** | no list | the waker of its G | a wish: to go on |
//! | waits in place for a P | its G in a run queue | the M that takes the G out | a wish: the P |
//!
//! ```text
//!        has a P ───────────── gives it up (idle.rs) ──────────────> looks once more
//!           ^                                                             │
//!           │ takes an idle P, or the one in its wish                     │ found nothing
//!           │                                                             v
//!        woken <── note <── wish <── a waker           says how it sleeps (rest.rs) ──> sleeps (note.rs)
//! ```
//!
//! Three words say all this, because three threads write them:
//!
//! - `rest`: how the M sleeps. The M writes, and the wakers of its bound Gs read.
//! - `wish`: what it is woken for. The waker writes, and the M takes. The waker has taken the M out of its
//!   list before, so a wish has one writer at a time.
//! - `note`: whether it was woken. Any thread wakes; a wake-up that comes early is kept.
//!
//! The verbs below leave a wish and wake the M for it, in this order.

pub(crate) mod alarm;
pub(crate) mod idle;
pub(crate) mod in_place;
pub(crate) mod lone_watch;
pub(crate) mod nap;
pub(crate) mod note;
mod plan;
pub(crate) mod rest;
pub(crate) mod sysmon;
pub(crate) mod wake_latency;
pub(crate) mod wish;

use nap::Nap;
use note::Note;
use rest::Rest;
use wish::WishWord;

/// The sleep of one M.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// What the M sleeps on.
    pub(crate) note: Note,
    /// How it sleeps, for the wakers of its bound Gs.
    pub(crate) rest: Rest,
    /// What it is woken for.
    pub(crate) wish: WishWord,
    /// How it sleeps, for the flight recorder.
    pub(crate) nap: Nap,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Sleep { note: Note::new(), rest: Rest::new(), wish: WishWord::new(), nap: Nap::new() }
    }

    /// Hands P `p` to the M, which the caller has taken out of the line for Ps, or which waits for one in
    /// place. *Runs on: a thread with the lease of `p`.*
    pub(crate) fn hand(&self, p: usize) {
        self.wish.hand(p, false);
        self.note.wake();
    }

    /// Hands P `p` as `hand` does, to an M that was parked: until it has woken up, another M may take the P
    /// over. With `spinning`, hands over the promise to look for work too. *Runs on: the thread that took the
    /// M out of the idle list; so do `watch` and `end`.*
    pub(crate) fn hand_to_parked(&self, p: usize, spinning: bool) {
        self.wish.hand_to_parked(p, spinning);
        self.note.wake();
    }

    /// Wakes the parked M to watch the network and the timers, and hands over the promise to look for work.
    pub(crate) fn watch(&self) {
        self.wish.watch();
        self.note.wake();
    }

    /// Ends the thread of the parked M.
    pub(crate) fn end(&self) {
        self.wish.end();
        self.note.wake();
    }

    /// Ends the wait of the G that is parked in place on the M. *Runs on: the thread that has decided that
    /// wait. The call is its last use of the G's coroutine.*
    pub(crate) fn end_wait_in_place(&self) {
        self.wish.end_wait(|| self.note.wake());
    }
}
