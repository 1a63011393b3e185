//! What the scheduler says to its watchers. The core calls these functions where something happens, and
//! nothing else of the recorder, the samples or the traces. So a reader can understand the core without them.
//! This list says where they look.
//!
//! | what | event |
//! | --- | --- |
//! | a G is new | `on_spawned` |
//! | a parked G is ready, or its wait was decided before its commit | `on_ready`, `on_goes_on` |
//! | a G runs; its wake-up is a sample | `on_run`, `on_sampled_run` |
//! | the running G stops | `on_stop`, which says how ([`Stops`]) |
//! | a G enters `blocking`, awaits, panics | `on_blocking`, `on_awaited`, `on_panic` |
//! | a timer is armed | `on_timer_armed` |
//! | the holder of a P finds Gs to steal, woken Gs of the network, or due timers | `on_finds` ([`Finds`]) |
//! | an M starts, ends, sleeps, is woken, takes a P or leaves it idle | `on_m` ([`Does`]) |
//! | a P changes hands otherwise; a G loses its P | `on_p_left` ([`Left`]), `on_preempted` ([`Preempted`]) |
//! | a G has other labels | `on_labels` |
//! | a signal asks an M for the stack of its G | `on_signal` |
//! | what comes next has a time of its own | `on_delay` |
//!
//! Some events also say at which P they happen ([`At`]). How an event happens is mostly a constant of its
//! caller, and the event is inlined there. So the caller has no branch for the other cases. While nothing
//! watches, an event on the path of a switch is one load and one branch.
//!
//! An event that concerns a G in a queue comes before an M can see the G there.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use timers::clock;

use crate::asleep::rest::SleepKind;
use crate::g::labels::Labels;
use crate::g::why::Why;
use crate::g::{G, GRef, Runtime};
use crate::m::current::on_m;
use crate::m::{Loan, M, OwnM};
use crate::notes::await_stacks::{self, TakeStack};
use crate::notes::hogs::{HogNotes, Hogging, Noted, StackRequests};
use crate::notes::latency::Latency;
use crate::notes::outside::Outside;
use crate::notes::recording::{self, Trigger, pull};
use crate::notes::rescue::Rescues;
use crate::notes::spawn_stacks::{SpawnStacks, Spawns};
use crate::notes::texts;
use crate::p::event::{By, Kind, Stopped};
use crate::p::lease::Seen;
use crate::p::{Held, P};
use crate::sys::Doing;
use crate::sys::preempt::Registers;

/// What the events of one runtime are written to.
pub(crate) struct Events {
    /// The flight recorder's events of threads without a P.
    pub(crate) outside: Arc<Outside>,
    pub(crate) spawns: Option<Spawns>,
    pub(crate) stack_requests: Arc<StackRequests>,
    pub(super) await_stacks: Option<TakeStack>,
    pub(super) hogs: Option<Arc<dyn HogNotes>>,
    pub(super) late_wake: Option<Duration>,
    // Apart from what is only read.
    pub(crate) latency: CachePadded<Latency>,
    pub(crate) rescues: Rescues,
}

/// What a runtime asks its events for.
pub(crate) struct Asked {
    pub(crate) measure_all: bool,
    pub(crate) spawn_stacks: Option<SpawnStacks>,
    pub(crate) await_stacks: Option<TakeStack>,
    pub(crate) hogs: Option<Arc<dyn HogNotes>>,
    pub(crate) late_wake: Option<Duration>,
}

/// Returns the events of the runtime to which an M belongs, for a caller that does not have them.
pub(crate) type OfM = for<'m> fn(&'m M) -> &'m Events;

/// At which P something happens.
#[derive(Clone, Copy)]
pub(crate) enum At<'p> {
    /// At this one, which the thread holds.
    P(Held<'p>),
    /// The thread holds no P of the runtime.
    Outside,
    /// The caller does not know, because it does not matter to what it does. The event looks if it is
    /// recorded.
    Either,
}

/// How a G stops that has run until now.
#[derive(Clone, Copy)]
pub(crate) enum Stops<'p> {
    /// It parks.
    Parks,
    /// It waits for the next poll of its future.
    Pends,
    /// It goes on when its turn comes. Its M has this P.
    Yields(Option<Held<'p>>),
    /// It ends.
    Ends,
    /// It keeps its OS thread while it waits for a P.
    WaitsForP,
}

/// What an M does.
#[derive(Clone, Copy)]
pub(crate) enum Does<'p> {
    /// Its thread begins.
    Starts,
    /// It has taken this P.
    Takes(Held<'p>),
    /// It is about to give this P up, which is idle then.
    Idles(Held<'p>),
    /// It goes to sleep, without a P, unless it goes on to sleep.
    Sleeps(SleepKind),
    /// It has been woken and takes no P. It may be awake already, as far as its watchers know.
    Wakes,
    /// Its thread ends.
    Ends,
}

/// What the holder of a P finds.
#[derive(Clone, Copy)]
pub(crate) enum Finds<'p> {
    /// This G, which it has stolen from this P.
    Stolen(GRef, &'p P),
    /// So many Gs that a poll of the network has woken.
    Woken(usize),
    /// So many timers of P `of`, which have `fired` at `now`. The first of them was due at `first`, which is
    /// NEVER if that was not looked up.
    Due { of: usize, fired: u64, first: u64, now: u64 },
}

/// How a P is left that does not become idle at once.
#[derive(Clone, Copy)]
pub(crate) enum Left {
    /// It is handed to another M.
    HandedOff,
    /// It is taken out of use.
    Retired,
}

/// How a G loses its P while it runs.
#[derive(Clone, Copy)]
pub(crate) enum Preempted {
    /// Sysmon has taken it. The P was lent by this word, and the G did this.
    Retaken(Seen, Doing),
    /// The G gives it up, because sysmon has asked for it.
    Asked,
}

impl Events {
    pub(crate) fn new(runtime: *const Runtime, asked: Asked) -> Self {
        Events {
            outside: Arc::new(Outside::new(runtime)),
            spawns: asked.spawn_stacks.map(Spawns::new),
            stack_requests: Arc::new(StackRequests::new()),
            await_stacks: asked.await_stacks,
            hogs: asked.hogs,
            late_wake: asked.late_wake,
            latency: Latency::new(asked.measure_all).into(),
            rescues: Rescues::default(),
        }
    }
}

/// Returns `true` while a recorder listens to the events. A caller may ask this before an event for which it
/// would have to look something up.
pub(crate) fn are_recorded() -> bool {
    recording::is_on()
}

/// A G that may run.
impl Events {
    /// `g` is new. Its spawner is at `at`; `At::Either` if a timer or the network has made `g`.
    #[inline(always)]
    pub(crate) fn on_spawned(&self, at: At<'_>, g: GRef) {
        match at {
            At::P(held) => {
                if held.own().sampler.counts_to_look() {
                    self.look_at_spawn(held, g);
                }
            }
            At::Outside => {
                self.keep_spawn_stack(g);
                self.outside.spawns(g);
            }
            At::Either => self.record_at(|held| held.spawns(g), || self.outside.spawns(g)),
        }
    }

    /// `g` was parked and is ready. Its waker is at `at`; `At::Either` if `g` is bound to an M or parked in
    /// place. *Runs on: the thread that decided its wait.*
    #[inline(always)]
    pub(crate) fn on_ready(&self, at: At<'_>, g: GRef, by: By) {
        match at {
            At::P(held) => {
                if held.own().sampler.counts_to_look() {
                    self.look_at_wake_up(held, g, by);
                }
            }
            At::Outside => {
                self.latency.stamp_outside(g);
                self.outside.readies(g, by);
            }
            At::Either => {
                // A G in place comes out of no queue, so its M would not see the sample.
                if g.binding.is_home() {
                    self.latency.stamp_outside(g);
                }
                self.record_at(|held| held.readies(g, by), || self.outside.readies(g, by));
            }
        }
    }

    /// The wait of `g`, which has just stopped on `m`, was decided before its commit: `g` is ready again.
    #[cold]
    pub(crate) fn on_goes_on(&self, m: OwnM<'_>, g: GRef) {
        // That stop is recorded, and a yield that follows is the same stop.
        m.own().records.set(false);
        match m.held() {
            Some(held) => held.goes_on(),
            None => self.outside.goes_on(g),
        }
    }
}

/// A G that runs, and its stop.
impl OwnM<'_> {
    /// `g` begins to run. Notes whether its next stop is to be recorded.
    #[inline(always)]
    pub(crate) fn on_run(self, held: Held<'_>, g: &G) {
        held.runs(g);
        self.own().records.set(held.own().records());
    }

    #[inline]
    pub(super) fn record_stop(self, held: Held<'_>, stopped: Stopped) {
        held.stops(stopped);
        self.own().records.set(held.own().records());
    }
}

impl Events {
    /// `g` has stopped. *Runs on: `m`, its M, before a waker may make `g` ready.*
    // A yield asks only when its wake-up is looked at, which is always while the P records. So a yield pays
    // for one question, not for two.
    #[inline(always)]
    pub(crate) fn on_stop(&self, m: OwnM<'_>, g: GRef, stops: Stops<'_>) {
        match stops {
            Stops::Yields(Some(held)) => {
                if held.own().sampler.counts_to_look() {
                    self.look_at_yield(m, held, g);
                }
            }
            // The G is without a P from here on, also if it gives one up only now.
            Stops::WaitsForP => self.outside.stops(g, Stopped::ForP),
            _ => {
                if m.own().records.get() {
                    self.record_stop(m, g, stops);
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn record_stop(&self, m: OwnM<'_>, g: GRef, stops: Stops<'_>) {
        let stopped = match stops {
            Stops::Parks => Stopped::Park(g.waits_for_number()),
            Stops::Pends => Stopped::Park(Why::Future as u8),
            Stops::Yields(_) => Stopped::Yield,
            Stops::Ends => Stopped::End,
            Stops::WaitsForP => Stopped::ForP,
        };
        match m.held() {
            Some(held) => m.record_stop(held, stopped),
            None => self.outside.stops(g, stopped),
        }
    }

    /// `g` enters `blocking`. If `hands_off`, it hands its P off at once.
    pub(crate) fn on_blocking(&self, held: Option<Held<'_>>, g: GRef, hands_off: bool) {
        if hands_off {
            self.rescues.note_handed_off();
        }
        match held {
            Some(held) => held.notes(Kind::Blocking, g.id(), 0),
            None => self.outside.notes(Kind::Blocking, g.id(), 0),
        }
    }

    /// The green thread `id` arms a timer, and parks next if `parks`. *Runs on: its M, which has the P `held`
    /// if it has one.*
    #[inline]
    pub(crate) fn on_timer_armed(&self, held: Option<Held<'_>>, id: u64, parks: bool) {
        match held {
            Some(held) if parks => held.notes_moment(Kind::TimerArmed, id, 0),
            Some(held) => held.notes(Kind::TimerArmed, id, 0),
            None => self.outside.notes(Kind::TimerArmed, id, 0),
        }
    }

    /// Keeps the stack of the spawner with `g`, if that is asked for.
    pub(super) fn keep_spawn_stack(&self, g: GRef) {
        if let Some(stack) = self.spawns.as_ref().and_then(Spawns::stack) {
            g.origin.keep_stack(stack);
        }
    }
}

/// A G that awaits or panics: the events are not at hand there.
impl G {
    /// A waker of this G is cloned, or this G waits without one. *Runs on: the thread that does it.*
    #[inline]
    pub(crate) fn on_awaited(&'static self, events: OfM) {
        await_stacks::keep(self, events);
    }

    /// This G, which runs, has panicked.
    pub(crate) fn on_panic(&self) {
        pull(Trigger::Panic);
    }
}

impl Held<'_> {
    /// The holder of a P has found this.
    #[inline(always)]
    pub(crate) fn on_finds(self, found: Finds<'_>) {
        match found {
            Finds::Stolen(g, victim) => self.notes(Kind::Steal, g.id(), victim.index),
            Finds::Woken(0) => {}
            Finds::Woken(gs) => self.notes_moment(Kind::NetPoll, 0, gs),
            Finds::Due { of, fired, first, now } => {
                if fired > 0 && first != clock::NEVER {
                    recording::notes_fired(self, of, fired, now.saturating_sub(first));
                }
            }
        }
    }
}

/// What happens next at `at` takes time, or the next G may be one that another thread has put there. So its
/// time is not that of the event before. Notices also that a recording has begun.
#[inline(always)]
pub(crate) fn on_delay(at: At<'_>) {
    match at {
        At::P(held) => held.searches(),
        At::Outside => {}
        At::Either => {
            if recording::is_on() {
                at_held(|_, held| held.searches());
            }
        }
    }
}

/// Ms, and the Ps that they have.
impl Events {
    /// `m` does this. *Runs on: `m`.*
    pub(crate) fn on_m(&self, m: OwnM<'_>, does: Does<'_>) {
        let nap = &m.sleep.nap;
        match does {
            Does::Starts => self.outside.notes(Kind::MStart, 0, 0),
            Does::Takes(held) => nap.end(|nap| held.notes(Kind::Take, nap.number(), m.number)),
            Does::Idles(held) => nap.idles(held.idles(m.number)),
            Does::Sleeps(how) if nap.word().how() == Some(how) => {}
            Does::Sleeps(how) => {
                self.record_woken(m);
                if !nap.begin(how) {
                    self.outside.notes(how.begins(), 0, 0);
                }
            }
            Does::Wakes => self.record_woken(m),
            Does::Ends => {
                self.record_woken(m);
                self.outside.notes(Kind::MStop, 0, 0);
            }
        }
    }

    fn record_woken(&self, m: OwnM<'_>) {
        if let Some(how) = m.sleep.nap.word().how() {
            m.sleep.nap.end(|nap| self.outside.notes(how.ends(), nap.number(), 0));
        }
    }

    /// The running G of the last M of `p` loses `p`, which it has kept for `away_ns`. It is in `blocking`, or
    /// it is rescued from. *Runs on: sysmon or that M, which has the P.*
    pub(crate) fn on_preempted(&self, p: &P, how: Preempted, blocking: bool, away_ns: u64) {
        let m = p.holder();
        let g = m.and_then(M::running_or_hooked);
        let id = g.map_or(0, |g| g.id());
        let (lent, doing) = match how {
            Preempted::Retaken(lent, doing) => {
                p.recorder.notes(Kind::Retake, id, if blocking { 0 } else { 1 + doing as usize });
                if !blocking {
                    pull(Trigger::Hog);
                }
                (Some(lent), doing)
            }
            Preempted::Asked => {
                self.rescues.note_asked();
                p.recorder.notes(Kind::Asked, id, 0);
                (None, Doing::Computing)
            }
        };
        if blocking {
            return self.rescues.note_declared();
        }
        let rescue = self.rescues.note(g, away_ns, doing);
        if let Some(((g, rescue), m)) = rescue.zip(m)
            && let Some(notes) = &self.hogs
        {
            let computes = doing == Doing::Computing;
            notes.note(&|| Noted::Hog(rescue.clone(), Hogging::new(m, g, lent, computes)));
        }
    }

    /// `g` has these labels from now on. *Runs on: any thread, in the runtime if it is an M.*
    #[cold]
    pub(crate) fn on_labels(&self, g: GRef, labels: Option<&Labels>) {
        if are_recorded() {
            let name = texts::name_of_labels(labels);
            let at_p = |held: Held<'_>| held.notes(Kind::Labels, g.id(), name.into());
            self.record_at(at_p, || self.outside.notes(Kind::Labels, g.id(), name));
        }
    }

    /// The signal came that asks an M for the stack of its G. *Runs on: `m`, in the handler: it allocates
    /// nothing and takes no lock.*
    pub(crate) fn on_signal(&self, m: &M, registers: &Registers) {
        self.stack_requests.fill(m, registers);
    }

    /// Calls `at_p` if this thread holds a P of this runtime, else `outside`. Does nothing while nothing is
    /// recorded. *Runs on: any thread.*
    fn record_at(&self, at_p: impl FnOnce(Held<'_>), outside: impl FnOnce()) {
        if !recording::is_on() {
            return;
        }
        let recorded = at_held(|m, held| self.outside.is_of(m.shared()).then(|| at_p(held)));
        if recorded.flatten().is_none() {
            outside();
        }
    }
}

impl P {
    /// The P is left like this. *Runs on: the holder of the P.*
    #[inline]
    pub(crate) fn on_p_left(&self, left: Left) {
        let kind = match left {
            Left::HandedOff => Kind::HandOff,
            Left::Retired => Kind::Retire,
        };
        self.recorder.notes(kind, 0, 0);
    }
}

/// Calls `then` with the M and the P of this thread, if it holds a P. *Runs on: any thread.*
fn at_held<T>(then: impl FnOnce(OwnM<'_>, Held<'_>) -> T) -> Option<T> {
    on_m(|m| match m.own().loan.get() {
        Loan::InRuntime => m.held().map(|held| then(m, held)),
        _ => None,
    })
    .flatten()
}
