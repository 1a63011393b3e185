//! Waiting, in both worlds: a green thread parks, a plain OS thread sleeps, and what they wait for cannot tell.

use std::sync::OnceLock;
use std::time::Instant;

use timers::clock;

use crate::g::coro::Coro;
use crate::g::task::Cancelled;
use crate::g::wait::{Cancel, Outcome};
use crate::g::why::Why;
use crate::g::{GRef, Ticket};
use crate::lend::{self, enter};
use crate::p::Held;
use crate::sched::Sched;
use crate::timer::TimerRef;
use crate::{outside, wake};

/// Who calls: the green thread that runs here, else the face of this thread.
pub(crate) fn me() -> GRef {
    lend::current_g().unwrap_or_else(outside::face)
}

/// The id of whoever calls: unique for ever among green and plain threads.
#[inline]
pub fn my_id() -> u64 {
    me().id()
}

/// True on a green thread; false on a plain thread, and where the scheduler itself runs.
pub fn on_green_thread() -> bool {
    lend::current_g().is_some()
}

/// A wait of the caller's that has begun: register its ticket wherever it may be woken, then park.
#[must_use]
#[derive(Debug)]
pub struct Waiting {
    ticket: Ticket,
    /// By when a `timeout` around it ends it, which is a kind of cancellation.
    limit: u64,
}

impl Waiting {
    /// Begins a wait of whoever calls.
    #[inline]
    pub fn begin(cancel: Cancel) -> Waiting {
        Waiting::begin_for(Why::Something, cancel)
    }

    /// Likewise; dumps say what for.
    #[inline]
    pub fn begin_for(why: Why, cancel: Cancel) -> Waiting {
        let g = me();
        g.set_waits_for(why);
        // While it unwinds, another unwind would end the process.
        let ends = cancel == Cancel::Ends && !std::thread::panicking();
        let limit = if ends { g.deadline() } else { clock::NEVER };
        let cancel = if ends && !g.over.get() { Cancel::Ends } else { Cancel::Waits };
        Waiting { ticket: Ticket { g, number: g.wait.arm(cancel) }, limit }
    }

    /// What `wake` needs.
    #[inline]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The ticket in one word.
    pub fn word(&self) -> u64 {
        self.ticket.word()
    }

    /// Waits until somebody wakes it. A caller that gets anything but `Woken` withdraws its ticket where it can; after
    /// `Cancelled` it calls `unwind_if_cancelled`.
    // Inlined for the reason that `yield_now` gives, as is all that stands between a user's call and the switch.
    #[inline(always)]
    pub fn park(self) -> Outcome {
        if self.limit != clock::NEVER {
            return self.park_until_ns(clock::NEVER);
        }
        let g = self.ticket.g;
        if g.is_green() {
            lend::park(g)
        } else {
            outside::park(g)
        }
        g.wait.outcome()
    }

    /// Likewise, but no longer than until `deadline`.
    #[inline(always)]
    pub fn park_until(self, deadline: Instant) -> Outcome {
        self.park_until_ns(clock::at(deadline))
    }

    /// Likewise, by the runtime's clock.
    #[inline(always)]
    pub(crate) fn park_until_ns(self, when: u64) -> Outcome {
        let Ticket { g, number } = self.ticket;
        let first = when.min(self.limit);
        if g.is_green() {
            park_green_until(g, number, first);
        } else {
            outside::park_until(g, number, first);
        }
        match g.wait.outcome() {
            Outcome::TimedOut if self.limit <= when => Outcome::Cancelled,
            outcome => outcome,
        }
    }
}

/// Parks the calling G under its armed wait `number`, until `when` at the latest.
#[inline(always)]
pub(crate) fn park_green_until(g: GRef, number: u32, when: u64) {
    if g.timer_lent.load(std::sync::atomic::Ordering::Acquire) {
        // A future that this G polls has its timer; this wait gets one of its own.
        return crate::time::park_with_alarm(g, number, when);
    }
    match arm_timer(g, number, when) {
        Some(entered) => entered.suspend(crate::g::coro::Stop::Park),
        None => return park_after_all(g, number, when),
    }
    if g.wait.outcome() != Outcome::TimedOut {
        crate::time::delete_timer(g);
    }
}

/// Arms the G's own timer; gives what is needed to switch at once, if nothing stands against that.
#[inline(never)]
fn arm_timer(g: GRef, number: u32, when: u64) -> Option<lend::Entered> {
    let entered = enter().expect("a green thread runs on an M");
    let sched = entered.m().sched();
    let held = entered.held();
    // Without a P any heap will do.
    let heap = held.map_or(0, |h| h.index);
    let modified = sched.heaps.modify(heap, &TimerRef::of_g(g), when, 0, u64::from(number));
    if let Some(when) = modified.wake_for {
        match held {
            // This M comes back to its timers at once, or to `cover` if it finds something else to run.
            Some(held) => held.own().uncovered.set(true),
            None => sched.timer_was_added(when),
        }
    }
    (held.is_some() && lend::is_free(g) && !g.wait.is_decided()).then_some(entered)
}

/// Parks a G that must not leave its OS thread, or has no P, or is woken already.
#[cold]
fn park_after_all(g: GRef, number: u32, when: u64) {
    lend::park_until(g, number, when);
    // Whatever ended the wait: an M that sleeps in place ends it beside the timer, which then is still armed.
    crate::time::delete_timer(g);
}

/// Unwinds the caller if it has been cancelled, or a `timeout` around it has run out; unless it unwinds already.
#[inline]
pub fn unwind_if_cancelled() {
    // The face of a plain thread is made when it first parks; before that it has no deadline.
    let g = lend::current_g().or_else(outside::face_if_any);
    if let Some(g) = g
        && (g.wait.is_cancelled() || g.deadline() != clock::NEVER)
        && !std::thread::panicking()
    {
        unwind_for(g);
    }
}

/// Whether looking again and again for a moment may be cheaper than parking: others run, so what the caller waits for may
/// come by itself, and nobody waits for the caller's place.
pub(crate) fn spinning_pays() -> bool {
    lend::on_m(|m| {
        let (procs, idle) = (m.sched().procs(), m.sched().idle.idle_ps());
        procs > 1 && idle + 1 < procs && m.lent_p().is_some_and(|p| p.queue.is_empty())
    })
    .unwrap_or_else(|| cores() > 1)
}

fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Whether the calling green thread has been cancelled.
pub fn is_cancelled() -> bool {
    lend::current_g().is_some_and(|g| g.wait.is_cancelled())
}

/// Whether its cancellation ends what it does now: not what destructors do.
pub fn is_interrupted() -> bool {
    lend::current_g().is_some_and(|g| g.wait.is_cancelled() && !g.over.get()) && !std::thread::panicking()
}

/// No message: nothing went wrong. Destructors run; the join handle, or the `timeout`, gets the payload.
#[cold]
fn unwind_for(g: GRef) {
    if g.wait.is_cancelled() && !g.over.get() {
        unwind("it was cancelled", Cancelled);
    }
    if g.deadline() <= clock::now() {
        unwind("a time-out around it has run out", TimeIsUp);
    }
}

/// Unwinds the caller with `payload`. A program that cannot unwind ends here, with the reason.
fn unwind(why: &str, payload: impl std::any::Any + Send) -> ! {
    if cfg!(panic = "abort") {
        eprintln!(
            "runtime: a green thread must unwind from its wait, because {why}; this program is built with panic = \"abort\" and \
             cannot unwind, so the process ends"
        );
        std::process::abort();
    }
    std::panic::resume_unwind(Box::new(payload))
}

/// The payload of the unwind from a parking call to the `timeout` around it.
struct TimeIsUp;

/// Runs `f`; a parking call in it that lasts beyond `time` from now unwinds to here, and `None` comes back.
///
/// What `f` does without parking is not interrupted, and what it has finished with is its own.
pub fn timeout<T>(time: std::time::Duration, f: impl FnOnce() -> T) -> Option<T> {
    let mine = clock::after(time);
    let deadline = &me().rare_or_new().deadline;
    let outer = deadline.replace(deadline.get().min(mine));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    me().rare_or_new().deadline.set(outer);
    match result {
        Ok(value) => Some(value),
        // An outer one may be meant; if both are, the inner one gives its caller the word, and the outer one ends that
        // caller's next park.
        Err(payload) if payload.is::<TimeIsUp>() && mine <= clock::now() => None,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// `thread::park`, until `deadline` if there is one.
#[inline(always)]
pub fn park(deadline: Option<Instant>) {
    let g = me();
    unwind_if_cancelled();
    let waiting = Waiting::begin_for(Why::Unpark, Cancel::Ends);
    if g.token.park(waiting.ticket.number) {
        match deadline {
            None => waiting.park(),
            Some(deadline) => waiting.park_until(deadline),
        };
        g.token.clear();
        unwind_if_cancelled();
    }
}

/// `Thread::unpark`.
pub(crate) fn unpark(g: GRef) {
    if let Some(number) = g.token.unpark() {
        wake::wake(Ticket { g, number });
    }
}

/// Lets others run: the caller goes to the end of the queue. On a plain thread, the system's own.
// Inlined into the caller: the processor predicts returns by calls, and behind a switch each frame that is left without
// a call having led to it costs as much as the switch.
#[inline(always)]
pub fn yield_now() {
    match lend::enter() {
        Some(entered) if entered.is_free() => entered.suspend(crate::g::coro::Stop::Yield),
        Some(entered) => lend::yield_kept(entered),
        None => std::thread::yield_now(),
    }
}

/// Keeps the calling green thread on its OS thread until `unpin` with the number that this gives; they nest.
pub fn pin() -> u64 {
    let Some(g) = lend::current_g() else { return 0 };
    g.pin();
    g.id()
}

/// Ends one `pin`, if it was the caller's: a thread-local may have carried it from one green thread to another.
pub fn unpin(pinned: u64) {
    if let Some(g) = lend::current_g().filter(|g| g.id() == pinned) {
        g.unpin();
    }
}

/// Runs `f`, which may block its thread: the P is there for others meanwhile.
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    let Some(entered) = enter().filter(|e| !e.nested()) else { return f() };
    let _blocking = Blocking::begin(entered);
    f()
}

/// A stretch of code in `blocking`, whatever it calls and wherever it parks meanwhile. It ends when this is dropped, so also
/// by an unwind: in and out of the runtime, with a P again.
struct Blocking {
    /// The stretch is inside of another.
    nested: bool,
}

impl Blocking {
    fn begin(entered: lend::Entered) -> Blocking {
        let g = entered.m().running().expect("user code on an M is a G's");
        let nested = Coro::set_blocking(g, true);
        if let Some(held) = entered.held() {
            entered.m().sched().blocking_begins(held);
        }
        entered.leave_to_block();
        Blocking { nested }
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        // A forked child has no green thread.
        if let Some(g) = lend::current_g() {
            Coro::set_blocking(g, self.nested);
            drop(enter());
        }
    }
}

impl Sched {
    /// A G in `blocking` is about to run. sysmon looks soon if work waits for its P, and hears of work that comes later.
    /// *Runs on: the holder of the P.*
    pub(crate) fn blocking_begins(&self, held: Held<'_>) {
        self.watch.blocking_begins(|| {
            let work_waits = !held.queue.is_empty() || !self.global.is_empty() || self.idle.any_wanting();
            work_waits && self.idle.idle_ps() == 0
        });
    }
}
