//! How a thread waits: a green thread parks, a plain OS thread sleeps. The code that waits is the same for
//! both.
//!
//! A caller begins a wait ([`Waiting::begin`]), gives the wait's ticket to its wakers, and parks. This file
//! also has what ends a wait early (cancellation, [`timeout`]), and the calls that give way: `yield_now`,
//! `blocking`, `pin`.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::OnceLock;
use std::time::Instant;

use timers::clock;

use crate::g::own::OwnG;
use crate::g::wait::{Cancel, Outcome};
use crate::g::why::{On, Why};
use crate::g::{GRef, Ticket};
use crate::m::current::{current_g, on_m};
use crate::m::{Loan, os_thread};
use crate::notes::events::{At, on_delay};
use crate::run::boundary::{self, enter};
use crate::run::task::Cancelled;
use crate::run::wake;
use crate::sys::message::write_message;
use crate::timer::entry::TimerRef;

/// Returns the caller's G: the green thread that runs here, else the proxy G of this plain OS thread.
#[inline]
pub(crate) fn me() -> OwnG {
    current_g().unwrap_or_else(os_thread::proxy_g)
}

/// Runs `f`, foreign code, in the middle of a wait of the caller: a wait has begun, or a node is queued.
/// Contains its panics. Until `f` returns, the caller counts as another plain OS thread.
#[cold]
pub(crate) fn apart(f: impl FnOnce()) {
    match current_g() {
        Some(g) => on_m(|m| m.run_hooks(g, f)).expect("a green thread runs on an M"),
        None => os_thread::apart(f),
    }
}

/// Returns the caller's id, which no other green or plain thread of the process ever has.
#[inline]
pub fn my_id() -> u64 {
    me().id()
}

/// Returns `true` on a green thread; `false` on a plain OS thread, and on an M's own stack.
pub fn on_green_thread() -> bool {
    current_g().is_some()
}

/// A wait that the caller has begun. The caller gives its ticket to every waker, then parks.
#[must_use]
#[derive(Debug)]
pub struct Waiting {
    g: OwnG,
    number: u32,
    /// The deadline of the `timeout` around the wait. If it ends the wait, the outcome is `Cancelled`.
    limit: u64,
}

impl Waiting {
    /// Begins a wait of the caller.
    #[inline]
    pub fn begin(cancel: Cancel) -> Waiting {
        Waiting::begin_for(Why::Something, cancel)
    }

    /// As `begin`; dumps show `why`.
    #[inline]
    pub fn begin_for(why: Why, cancel: Cancel) -> Waiting {
        Waiting::begin_as(why, ptr::null(), cancel)
    }

    /// As `begin`; dumps show `why` and what `on` finds.
    ///
    /// # Safety
    /// `on` stays in place, and its object stays valid, until the wait has ended.
    #[inline]
    pub unsafe fn begin_on(why: Why, on: &On, cancel: Cancel) -> Waiting {
        Waiting::begin_as(why, on, cancel)
    }

    #[inline]
    fn begin_as(why: Why, on: *const On, cancel: Cancel) -> Waiting {
        let g = me();
        g.set_waits_for(why, on);
        // While the caller unwinds, a second unwind would end the process, so neither cancellation nor
        // time-out ends the wait.
        let ends = cancel == Cancel::Ends && !std::thread::panicking();
        let limit = if ends { g.deadline() } else { clock::NEVER };
        let cancel = match (ends, g.is_masked()) {
            (true, false) => Cancel::Ends,
            (true, true) => Cancel::Masked,
            (false, _) => Cancel::Waits,
        };
        Waiting { g, number: g.wait.arm(cancel), limit }
    }

    /// Returns what `wake` needs to end this wait.
    #[inline]
    pub fn ticket(&self) -> Ticket {
        Ticket { g: self.g.shared(), number: self.number }
    }

    /// Returns the ticket in one word.
    pub fn word(&self) -> u64 {
        self.ticket().word()
    }

    /// Waits until a waker decides the wait. After any outcome but `Woken` the caller withdraws its ticket
    /// where it can. After `Cancelled` it then calls `unwind_if_cancelled`.
    // Inlined for the reason at `yield_now`, like every function between a user's call and the switch.
    #[inline(always)]
    pub fn park(self) -> Outcome {
        if self.limit != clock::NEVER {
            return self.park_until_ns(clock::NEVER);
        }
        let (g, ..) = self.begins_to_park();
        if g.is_green() {
            boundary::park(g)
        } else {
            os_thread::park(g.shared())
        }
        g.wait.outcome()
    }

    /// As `park`, but no longer than until `deadline`.
    #[inline(always)]
    pub fn park_until(self, deadline: Instant) -> Outcome {
        self.park_until_ns(clock::at(deadline))
    }

    /// As `park`, but no longer than until `when` on the runtime's clock.
    #[inline(always)]
    pub(crate) fn park_until_ns(self, when: u64) -> Outcome {
        let (g, number, limit) = self.begins_to_park();
        let first = when.min(limit);
        if first != clock::NEVER {
            g.set_wait_is_timed();
        }
        if g.is_green() {
            park_green_until(g, number, first);
        } else {
            os_thread::park_until(g.shared(), number, first);
        }
        match g.wait.outcome() {
            Outcome::TimedOut if limit <= when => Outcome::Cancelled,
            outcome => outcome,
        }
    }

    /// Returns the caller, and the number and the limit of its wait, which is not given up.
    #[inline(always)]
    fn begins_to_park(self) -> (OwnG, u32, u64) {
        let parts = (self.g, self.number, self.limit);
        std::mem::forget(self);
        parts
    }
}

/// The wait was given up: it is over. Otherwise the caller would still count as about to park.
impl Drop for Waiting {
    #[inline]
    fn drop(&mut self) {
        self.g.wait.give_up(self.number);
    }
}

/// Parks the calling G under its armed wait `number`, until `when` at the latest.
#[inline(always)]
pub(crate) fn park_green_until(g: OwnG, number: u32, when: u64) {
    if g.timer_lent.load(std::sync::atomic::Ordering::Acquire) {
        // A future that this G polls uses the G's timer, so this wait needs a timer of its own.
        return crate::api::sleep::park_with_alarm(g, number, when);
    }
    match arm_timer(g, number, when) {
        Some(entered) => entered.suspend(crate::g::payload::Stop::Park),
        None => return park_after_all(g, number, when),
    }
    if g.wait.outcome() != Outcome::TimedOut {
        crate::api::sleep::delete_timer(g.shared());
    }
}

/// Arms the G's own timer. Returns the entered runtime if the G can switch at once; else `None`.
#[inline(never)]
fn arm_timer(g: OwnG, number: u32, when: u64) -> Option<boundary::Entered> {
    let entered = enter().expect("a green thread runs on an M");
    let sched = entered.m().sched();
    let held = entered.held();
    let heap = sched.heap_for(held);
    sched.events.on_timer_armed(held, g.id(), true);
    let modified = sched.set_timer(heap, &TimerRef::borrow_g(g.shared()), when, u64::from(number));
    if let Some(when) = modified.wake_for {
        match held {
            // This M is back at its timers at once, or calls `ensure_watcher` if it finds something else to
            // run.
            Some(held) => held.notes_first_timer(&g.timer),
            None => sched.timer_was_added(when),
        }
    }
    if held.is_some() && boundary::is_free(g) && !g.wait.is_decided() {
        return Some(entered);
    }
    // The stop does not follow at once, or there is none.
    held.inspect(|&held| on_delay(At::P(held)));
    None
}

/// Parks a G that must not leave its OS thread, has no P, or is woken already.
#[cold]
fn park_after_all(g: OwnG, number: u32, when: u64) {
    boundary::park_until(g, number, when);
    // The timer may still be armed, however the wait ended: an M that sleeps in place uses its own time-out.
    crate::api::sleep::delete_timer(g.shared());
}

/// Unwinds the caller if it has been cancelled. Unwinds it too if the deadline of a `timeout` around it has
/// passed, or if a revocable stretch around it was revoked. Does nothing if the caller already unwinds.
#[inline]
pub fn unwind_if_cancelled() {
    // The proxy G of a plain OS thread is allocated when that thread first parks; before that there is no
    // deadline.
    let g = current_g().or_else(os_thread::proxy_g_if_any);
    if let Some(g) = g
        && (g.wait.is_ended() || g.deadline() != clock::NEVER)
        && !std::thread::panicking()
    {
        unwind_for(g);
    }
}

/// Returns `true` if spinning for a moment may be cheaper than parking. Other threads run then, so the
/// condition may come true by itself, and no other G waits for the caller's P.
pub fn spinning_pays() -> bool {
    on_m(|m| {
        let (procs, idle) = (m.sched().procs(), m.sched().idle.idle_ps());
        procs > 1 && idle + 1 < procs && m.lent_p().is_some_and(|p| p.queue.is_empty())
    })
    .unwrap_or_else(|| cores() > 1)
}

fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Returns `true` if the calling green thread has been cancelled.
pub fn is_cancelled() -> bool {
    current_g().is_some_and(|g| g.wait.is_cancelled())
}

/// Returns `true` if its cancellation ends what the calling green thread does now. Cancellation ends neither
/// destructors nor what is masked.
pub fn is_interrupted() -> bool {
    current_g().is_some_and(|g| g.wait.is_cancelled() && !g.is_masked()) && !std::thread::panicking()
}

/// Unwinds without a message, because nothing went wrong. Destructors run; the join handle, the `timeout` or
/// the revocable stretch gets the payload.
#[cold]
fn unwind_for(g: OwnG) {
    if g.wait.is_cancelled() && !g.is_masked() {
        if g.rare_or_new().unwound.replace(true) {
            on_m(|m| m.sched().count_swallowed());
        }
        unwind("it was cancelled", Box::new(Cancelled));
    }
    if g.wait.is_revoked()
        && let Some(reason) = g.rare().and_then(|rare| rare.revocables.outermost_revoked())
    {
        unwind("a context around it is over", reason.payload());
    }
    if g.deadline() <= clock::now() {
        unwind("a time-out around it has run out", Box::new(Elapsed));
    }
}

/// Unwinds the caller with `payload`. A program that cannot unwind is aborted with the reason.
fn unwind(why: &str, payload: Box<dyn std::any::Any + Send>) -> ! {
    if cfg!(panic = "abort") {
        write_message(format_args!(
            "runtime: a green thread must unwind from its wait, because {why}; this program is built with panic = \"abort\" and \
             cannot unwind, so the process ends"
        ));
        std::process::abort();
    }
    std::panic::resume_unwind(payload)
}

/// The time was up. It is the payload of the unwind from a parking call to the `timeout` around it, and the
/// error of time-outs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time was up")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(_: Elapsed) -> Self {
        std::io::ErrorKind::TimedOut.into()
    }
}

/// Runs `f`. Returns `None` if a parking call in `f` would last beyond `time` from now; that call then
/// unwinds to here.
///
/// Code in `f` that does not park is not interrupted. Effects that `f` has completed stay.
pub fn timeout<T>(time: std::time::Duration, f: impl FnOnce() -> T) -> Option<T> {
    let mine = clock::after(time);
    let caller = me();
    let deadline = &caller.rare_or_new().deadline;
    let outer = deadline.replace(deadline.get().min(mine));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    me().rare_or_new().deadline.set(outer);
    match result {
        Ok(value) => Some(value),
        // If nested time-outs both expired, the inner one returns `None`, and the outer one unwinds the
        // caller's next park.
        Err(payload) if payload.is::<Elapsed>() && mine <= clock::now() => None,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// Implements `thread::park`, until `deadline` if there is one.
#[inline(always)]
pub fn park(deadline: Option<Instant>) {
    let g = me();
    unwind_if_cancelled();
    let waiting = Waiting::begin_for(Why::Unpark, Cancel::Ends);
    if g.token.park(waiting.number) {
        match deadline {
            None => waiting.park(),
            Some(deadline) => waiting.park_until(deadline),
        };
        g.token.clear();
        unwind_if_cancelled();
    }
}

/// Implements `Thread::unpark`.
pub(crate) fn unpark(g: GRef) {
    if let Some(number) = g.token.unpark() {
        wake::wake(Ticket { g, number });
    }
}

/// Yields: the calling green thread goes to the end of the run queue. A plain OS thread calls the system's
/// yield.
// Inlined into the caller: the processor predicts returns from its record of calls. After a switch each frame
// of a function that was called before the switch mispredicts its return, which costs as much as the switch.
#[inline(always)]
pub fn yield_now() {
    match boundary::enter() {
        Some(entered) if entered.is_free() => entered.suspend(crate::g::payload::Stop::Yield),
        Some(entered) => yield_kept(entered),
        None => crate::sys::yield_thread(),
    }
}

/// Yields where the caller may not simply leave its OS thread, or belongs to a simulation.
#[cold]
fn yield_kept(entered: boundary::Entered) {
    if crate::api::simulation::yields() {
        // The unwind is user code.
        drop(entered);
        unwind_if_cancelled();
        return enter().map_or_else(crate::sys::yield_thread, boundary::yield_kept);
    }
    boundary::yield_kept(entered);
}

/// Keeps the calling green thread on its OS thread. Returns a number for `unpin`, which ends this. Pins nest.
pub fn pin() -> u64 {
    let Some(g) = current_g() else { return 0 };
    on_m(|m| m.sched().begin_template());
    g.pin();
    g.id()
}

/// Ends one `pin` if `pinned` is the caller's. A thread-local may have carried the number to another green
/// thread.
pub fn unpin(pinned: u64) {
    if let Some(g) = current_g().filter(|g| g.id() == pinned) {
        g.unpin();
    }
}

/// Keeps the calling green thread on its OS thread, on which other green threads run while it is parked.
/// Returns a number for `end_stay`, which ends this. Stays nest, and end in any order.
pub fn stay() -> u64 {
    let Some(g) = current_g() else { return 0 };
    g.stay();
    g.id()
}

/// Ends one `stay` if `stayer` is the caller's. A thread-local may have carried the number to another green
/// thread. The green thread that called `stay` then stays to its end.
pub fn end_stay(stayer: u64) {
    if let Some(g) = current_g().filter(|g| g.id() == stayer) {
        g.end_stay();
    }
}

/// What becomes of the P of a G that is about to block its OS thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gives {
    /// The P is lent. Sysmon takes it if work waits and the call lasts.
    IfItLasts,
    /// The P is handed off if work waits, else lent.
    IfWorkWaits,
    /// The P is handed off.
    InAnyCase,
}

/// Runs `f`, which may block its OS thread. During `f` the P can run other Gs.
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    blocks(Gives::IfWorkWaits, f)
}

/// Runs `f` as `blocking` does, for a call that mostly ends within microseconds, such as the read of a file:
/// a hand-off would cost more.
pub fn blocking_briefly<T>(f: impl FnOnce() -> T) -> T {
    blocks(Gives::IfItLasts, f)
}

/// Runs `f` as `blocking` does, for a call that is known to wait: work that comes during the call finds an
/// idle P.
pub fn blocking_for_long<T>(f: impl FnOnce() -> T) -> T {
    blocks(Gives::InAnyCase, f)
}

fn blocks<T>(gives: Gives, f: impl FnOnce() -> T) -> T {
    // Hooks of contexts have no G, and block their OS thread as a plain OS thread does.
    let Some(entered) = enter().filter(|e| !e.nested() && e.m().running().is_some()) else { return f() };
    let _blocking = Blocking::begin(entered, gives);
    f()
}

/// Returns `true` if the caller is a green thread that has a P. *Runs on: any thread.*
pub fn has_p() -> bool {
    on_m(|m| matches!(m.own().loan.get(), Loan::Lent(_))).unwrap_or(false)
}

/// A stretch of code in `blocking`, including everything that it calls. Its drop ends the stretch, also by an
/// unwind: it enters and leaves the runtime, so the G has a P again.
struct Blocking {
    /// True if this stretch is inside of another.
    nested: bool,
}

impl Blocking {
    fn begin(entered: boundary::Entered, gives: Gives) -> Blocking {
        let g = entered.m().running().expect("user code on an M belongs to a G");
        let nested = g.binding.set_blocking(true);
        let (m, sched) = (entered.m(), entered.m().sched());
        sched.roaming.end(m);
        // All Gs of a simulation run on one M.
        let gives = if sched.is_simulated() { Gives::IfItLasts } else { gives };
        let hands_off = entered.held().is_some_and(|held| match gives {
            Gives::IfItLasts => {
                sched.lends_to_block(held);
                false
            }
            Gives::IfWorkWaits => sched.arm_sysmon_for_work(held),
            Gives::InAnyCase => true,
        });
        sched.events.on_blocking(entered.held(), g.shared(), hands_off);
        if hands_off {
            boundary::hand_p_off(m);
        }
        entered.leave_to_block();
        Blocking { nested }
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        // A forked child has no green thread.
        if let Some(g) = current_g() {
            g.binding.set_blocking(self.nested);
            if let Some(entered) = enter()
                && !self.nested
                && entered.held().is_none()
            {
                let sched = entered.m().sched();
                sched.roaming.roam(entered.m(), sched.procs());
            }
        }
    }
}
