//! What the scheduler says to its watchers. The core calls these functions where something happens, and
//! nothing else of the recorder, the samples or the traces. So a reader can understand the core without them.
//! This list says where they look.
//!
//! | what | events |
//! | --- | --- |
//! | a G is new | `on_spawned`, `on_spawned_outside`, `on_spawned_by_event` |
//! | a parked G is ready | `on_ready`, `on_ready_of_many`, `on_ready_outside`, `on_all_ready_outside` |
//! | the same, bound to an M | `on_ready_bound`, `on_ready_at_home`, `on_limit_in_place` |
//! | a G runs | `on_run`; if its wake-up is measured, `on_sample_runs` and `on_sample_stops` |
//! | the running G stops | `on_stop`, `on_yield`, `on_stop_in_place`, `on_stop_for_a_p` |
//! | it goes on, because its wait was decided before | `on_no_stop`, `on_goes_on` |
//! | a G enters `blocking`, awaits, panics | `on_blocking`, `on_awaited`, `on_panic` |
//! | timers | `on_timer_armed`, `on_fired` |
//! | the network has woken Gs | `on_polled`, `on_polled_for` |
//! | a P changes hands | `on_p_taken`, `on_p_idle`, `on_p_handed_off`, `on_p_retaken`, `on_asked_for_p` |
//! | a P is taken out of use | `on_p_retired` |
//! | a G is stolen | `on_stolen` |
//! | an M | `on_m_start`, `on_m_end`, `on_m_sleeps`, `on_m_woken`; `on_signal` for the stack of its G |
//! | what comes next has a time of its own | `on_search`, `on_delay`, `on_delay_outside`, `on_round` |
//!
//! An event that concerns a G in a queue comes before an M can see the G there. While nothing watches, an
//! event on the path of a switch is one load and one branch.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use timers::clock;

use crate::asleep::rest::SleepKind;
use crate::g::list::GList;
use crate::g::payload::Stop;
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
use crate::notes::sampling::{look_at_one_of_many, look_at_spawn, look_at_wake_up};
use crate::notes::spawn_stacks::{SpawnStacks, Spawns};
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

/// Returns the events of the runtime to which an M belongs. Some events take this function instead of the
/// events: they rarely need them.
pub(crate) type OfM = for<'m> fn(&'m M) -> &'m Events;

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

/// Events of the thread that holds the P.
impl Held<'_> {
    /// *Runs on: the spawner.*
    #[inline(always)]
    pub(crate) fn on_spawned(self, g: GRef, events: OfM) {
        if self.own().sampler.counts_to_look() {
            look_at_spawn(self, g, events);
        }
    }

    /// *Runs on: the waker.*
    #[inline(always)]
    pub(crate) fn on_ready(self, g: GRef, events: OfM) {
        if self.own().sampler.counts_to_look() {
            look_at_wake_up(self, g, events);
        }
    }

    /// As `on_ready`, for one of many Gs that are made ready at one moment.
    #[inline(always)]
    pub(crate) fn on_ready_of_many(self, g: GRef, by: By, events: OfM) {
        if self.own().sampler.counts_to_look() {
            look_at_one_of_many(self, g, by, events);
        }
    }

    /// `g` was stolen from `victim`.
    pub(crate) fn on_stolen(self, g: GRef, victim: &P) {
        self.notes(Kind::Steal, g.id(), victim.index);
    }

    /// The P is taken out of use.
    pub(crate) fn on_p_retired(self) {
        self.notes(Kind::Retire, 0, 0);
    }

    /// A poll of the network has woken so many Gs.
    pub(crate) fn on_polled(self, woken: usize) {
        if woken > 0 {
            self.notes_moment(Kind::NetPoll, 0, woken);
        }
    }

    /// As `on_polled`, by the M that has just taken the P for these Gs.
    pub(crate) fn on_polled_for(self, woken: usize) {
        if woken > 0 {
            self.notes_in_moment(Kind::NetPoll, 0, woken);
        }
    }

    /// `fired` timers of P `of` have fired at `now`. `first` is when the first of them was due, or
    /// NEVER if that was not looked up.
    #[inline]
    pub(crate) fn on_fired(self, of: usize, fired: u64, first: u64, now: u64) {
        if fired > 0 && first != clock::NEVER {
            recording::notes_fired(self, of, fired, now.saturating_sub(first));
        }
    }

    /// The search for the next G takes long, or finds a G that another thread has put there.
    #[inline(always)]
    pub(crate) fn on_search(self) {
        self.searches();
    }

    /// What happens next takes time, or the next G comes from elsewhere.
    #[inline(always)]
    pub(crate) fn on_delay(self) {
        self.ends_moment();
    }

    /// One of every so many rounds: notices that a recording has begun.
    #[inline]
    pub(crate) fn on_round(self) {
        self.look_for_recorder();
    }
}

/// Events of the holder of the P, which has no [`Held`] at hand.
impl P {
    /// The P is handed to another M.
    #[inline]
    pub(crate) fn on_p_handed_off(&self) {
        self.recorder.notes(Kind::HandOff, 0, 0);
    }
}

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

/// How a G stops. *Runs on: its M, before a waker may make the G ready.*
impl Events {
    // A yield asks only when its wake-up is looked at, which is always while the P records. So a yield pays
    // for one question, not for two.
    #[inline(always)]
    pub(crate) fn on_stop(&self, m: OwnM<'_>, g: GRef, stop: Stop) {
        if m.own().records.get() {
            self.record_stop(m, g, stop);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_stop(&self, m: OwnM<'_>, g: GRef, stop: Stop) {
        let stopped = match stop {
            Stop::Park => Stopped::Park(g.waits_for_number()),
            Stop::Pending => Stopped::Park(Why::Future as u8),
            Stop::Yield => Stopped::Yield,
            Stop::Done => Stopped::End,
        };
        match m.held() {
            Some(held) => m.record_stop(held, stopped),
            None => self.outside.stops(g, stopped),
        }
    }

    /// `g` has stopped on `m`, which holds the P, and goes on when its turn comes.
    #[inline(always)]
    pub(crate) fn on_yield(&self, m: OwnM<'_>, held: Held<'_>, g: GRef) {
        if held.own().sampler.counts_to_look() {
            self.look_at_yield(m, held, g);
        }
    }

    /// The wait of the G that stopped last was decided before its commit.
    #[cold]
    pub(crate) fn on_no_stop(&self, m: OwnM<'_>) {
        // That stop is recorded, and a yield that follows is the same stop.
        m.own().records.set(false);
        if let Some(held) = m.held() {
            held.goes_on();
        }
    }

    /// As `on_no_stop`, for a G that finds no P any more.
    pub(crate) fn on_goes_on(&self, g: GRef) {
        self.outside.goes_on(g);
    }

    /// `g` parks together with its M.
    pub(crate) fn on_stop_in_place(&self, m: OwnM<'_>, g: GRef) {
        match m.held() {
            Some(held) => held.parks(g),
            None => self.outside.parks(g),
        }
    }

    /// `g` keeps its OS thread while it waits for a P.
    pub(crate) fn on_stop_for_a_p(&self, g: GRef) {
        self.outside.stops(g, Stopped::ForP);
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
}

/// Events of a G, where the events are not at hand.
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

/// Spawns and wake-ups by threads without a P of the runtime.
impl Events {
    pub(crate) fn on_spawned_outside(&self, g: GRef) {
        self.keep_spawn_stack(g);
        self.outside.spawns(g);
    }

    /// A timer or the network has made `g`. *Runs on: any thread.*
    pub(crate) fn on_spawned_by_event(&self, g: GRef) {
        if recording::is_on() {
            self.at_p_or_outside(|held| held.spawns(g), || self.outside.spawns(g));
        }
    }

    pub(crate) fn on_ready_outside(&self, g: GRef, by: By) {
        self.latency.stamp_outside(g);
        self.outside.readies(g, by);
    }

    pub(crate) fn on_all_ready_outside(&self, gs: &GList, by: By) {
        self.outside.readies_all(gs, by);
    }

    /// `g`, which is bound to an M, was made ready. It says so only if the events [are
    /// recorded](are_recorded). *Runs on: the thread that decided its wait, before it wakes that M.*
    pub(crate) fn on_ready_bound(&self, g: GRef, by: By) {
        self.at_p_or_outside(|held| held.readies(g, by), || self.outside.readies(g, by));
    }

    /// `g` goes to its home M. `on_ready_bound` came before.
    pub(crate) fn on_ready_at_home(&self, g: GRef) {
        self.latency.stamp_outside(g);
    }

    /// The wait of `g`, which is parked together with its M, has reached its limit.
    pub(crate) fn on_limit_in_place(&self, g: GRef) {
        self.outside.readies(g, By::Timer);
    }

    /// Keeps the stack of the spawner with `g`, if that is asked for.
    pub(super) fn keep_spawn_stack(&self, g: GRef) {
        if let Some(stack) = self.spawns.as_ref().and_then(Spawns::stack) {
            g.origin.keep_stack(stack);
        }
    }
}

/// Timers.
impl Events {
    /// The green thread `id` arms a timer, and parks next if `parks`. *Runs on: its M, which has the P `held`,
    /// if it has one.*
    #[inline]
    pub(crate) fn on_timer_armed(&self, held: Option<Held<'_>>, id: u64, parks: bool) {
        match held {
            Some(held) if parks => held.notes_moment(Kind::TimerArmed, id, 0),
            Some(held) => held.notes(Kind::TimerArmed, id, 0),
            None => self.outside.notes(Kind::TimerArmed, id, 0),
        }
    }
}

/// Ps that Gs keep for long.
impl Events {
    /// Sysmon has taken the P from `running`, the G of its last M `m`. The G is in `blocking`, or it did what
    /// `doing` says for `away_ns`. `lent` is the word by which the P was lent. *Runs on: sysmon, which has
    /// the P.*
    pub(crate) fn on_p_retaken(&self, p: &P, lent: Seen, blocking: bool, away_ns: u64, doing: Doing) {
        let m = p.holder();
        let running = m.and_then(M::running_or_hooked);
        let how = if blocking { 0 } else { 1 + doing as usize };
        p.recorder.notes(Kind::Retake, running.map_or(0, |g| g.id()), how);
        if blocking {
            return self.rescues.note_declared();
        }
        pull(Trigger::Hog);
        self.on_rescue(running, m, Some(lent), away_ns, doing);
    }

    /// `g`, which is in `blocking` or computes, gives the P up, because sysmon has asked for it. *Runs on:
    /// `m`, its M, which has the P.*
    pub(crate) fn on_asked_for_p(&self, m: OwnM<'_>, p: &P, g: GRef, blocking: bool) {
        self.rescues.note_asked();
        p.recorder.notes(Kind::Asked, g.id(), 0);
        match blocking {
            true => self.rescues.note_declared(),
            false => self.on_rescue(Some(g), Some(m.shared()), None, p.away_ns(), Doing::Computing),
        }
    }

    /// Counts a rescue, and leaves the reader a note of it if it is to be reported.
    fn on_rescue(&self, g: Option<GRef>, m: Option<&M>, lent: Option<Seen>, away_ns: u64, doing: Doing) {
        let rescue = self.rescues.note(g, away_ns, doing);
        if let Some(((g, rescue), m)) = rescue.zip(m)
            && let Some(notes) = &self.hogs
        {
            let computes = doing == Doing::Computing;
            notes.note(&|| Noted::Hog(rescue.clone(), Hogging::new(m, g, lent, computes)));
        }
    }
}

/// Ms and their Ps.
impl Events {
    /// `m` has taken the P. Begins a moment if `m` comes from the netpoller, because it then makes Gs ready
    /// at once.
    pub(crate) fn on_p_taken(&self, m: OwnM<'_>, held: Held<'_>) {
        m.sleep.nap.end(|nap| match nap.how() {
            Some(SleepKind::Polls) => held.notes_moment(Kind::Take, nap.number(), m.number),
            _ => held.notes(Kind::Take, nap.number(), m.number),
        });
    }

    /// `m` is about to give its P up, which is idle then.
    pub(crate) fn on_p_idle(&self, m: OwnM<'_>, held: Held<'_>) {
        m.sleep.nap.idles(held.idles(m.number));
    }

    /// *Runs on: the M, at the begin of its thread.*
    pub(crate) fn on_m_start(&self) {
        self.outside.notes(Kind::MStart, 0, 0);
    }

    /// *Runs on: the M, at the end of its thread.*
    pub(crate) fn on_m_end(&self, m: OwnM<'_>) {
        self.on_m_woken(m);
        self.outside.notes(Kind::MStop, 0, 0);
    }

    /// `m` goes to sleep, unless it goes on to sleep. *Runs on: `m`, without a P.*
    pub(crate) fn on_m_sleeps(&self, m: OwnM<'_>, how: SleepKind) {
        if m.sleep.nap.word().how() != Some(how) {
            self.on_m_woken(m);
            if !m.sleep.nap.begin(how) {
                self.outside.notes(how.begins(), 0, 0);
            }
        }
    }

    /// `m`, which sleeps as far as its watchers know, has been woken and takes no P. *Runs on: `m`, without a
    /// P.*
    pub(crate) fn on_m_woken(&self, m: OwnM<'_>) {
        if let Some(how) = m.sleep.nap.word().how() {
            m.sleep.nap.end(|nap| self.outside.notes(how.ends(), nap.number(), 0));
        }
    }

    /// A system call of this thread took time. *Runs on: any thread.*
    pub(crate) fn on_delay_outside(&self) {
        if recording::is_on() {
            self.at_p_or_outside(|held| held.ends_moment(), || ());
        }
    }

    /// The signal came that asks an M for the stack of its G. *Runs on: `m`, in the handler: it allocates
    /// nothing and takes no lock.*
    pub(crate) fn on_signal(&self, m: &M, registers: &Registers) {
        self.stack_requests.fill(m, registers);
    }

    /// Calls `at_p` if this thread holds a P of this runtime, else `outside`.
    fn at_p_or_outside(&self, at_p: impl FnOnce(Held<'_>), outside: impl FnOnce()) {
        let here =
            |m: OwnM<'_>| matches!(m.own().loan.get(), Loan::InRuntime) && self.outside.is_of(m.shared());
        let mut at_p = Some(at_p);
        on_m(|m| {
            if here(m)
                && let Some(held) = m.held()
                && let Some(at_p) = at_p.take()
            {
                at_p(held);
            }
        });
        if at_p.is_some() {
            outside();
        }
    }
}
