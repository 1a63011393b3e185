//! Merges the rings of all Ps into one sequence in the order of cause and effect.
//!
//! Stamps of two processors may differ by some ten ns. So the sequence is not simply sorted. An event waits
//! until what must come before it has come:
//!
//! - A green thread runs after it was spawned, made ready, or has stopped elsewhere. If it has lost its P,
//!   then only its own OS thread can let it go on without a stop.
//! - A green thread is made ready after it has stopped to wait. If it is ready already, then its run and its
//!   stop are still to come.
//! - A green thread stops without a P after it has lost its P.
//!
//! What must come before it may be missing: it was overwritten, or its P had not noticed the recording yet.
//! So an event waits only for events that are at most [`PATIENCE_NS`] later.
//!
//! A snapshot merges all at once. A stream adds the rings part by part. It merges up to a moment before which
//! no ring gets events any more, and later events stay for the next part.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::mem;
use std::panic::Location;
use std::time::Duration;

use sched::recorder::{Recorded, Track, reason};
use sched::user_events::NO_LABELS;
use sched::{By, Kind, POLLS, Stopped};

use super::event::{Cause, Event, Place, Text, What};

/// How much later an event may be than another one that waits for it. Only stamps of different processors are
/// out of order, by some ten ns. But a thread may be off its processor between an act and the stamp of its
/// event.
pub(super) const PATIENCE_NS: u64 = 1_000_000;

/// What a green thread does, by the events so far.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// Its spawn is still to come.
    NotSpawned,
    /// It is ready for the first time.
    Spawned,
    Ready,
    Waits,
    /// It runs on the P of this track.
    Runs(usize),
    /// It runs without a P on this OS thread, if that is known.
    RunsWithoutP(Option<usize>),
}

/// One ring while it is merged.
pub(super) struct Line {
    runtime: usize,
    p: Option<usize>,
    /// The events that are still to come. One of the kind `None` stands for as many that were lost as its
    /// number says.
    pub(super) rest: VecDeque<Recorded>,
    /// Of a P: the green thread that runs on it.
    pub(super) runs: Option<u64>,
    /// Of a P: the M that has it.
    m: Option<usize>,
    /// No part was added yet.
    is_new: bool,
    /// How many events were lost before the next one.
    lost: u64,
}

/// The rings of all runtimes on their way into one sequence.
#[derive(Default)]
pub(super) struct Merge {
    pub(super) lines: Vec<Line>,
    /// The index of the line of each ring, and of each runtime's events outside of the Ps.
    line_of: HashMap<(u64, Option<usize>), usize>,
    /// The index of each runtime, by the number of its rings.
    runtime_of: HashMap<u64, usize>,
    /// The names of the runtimes.
    pub(super) runtimes: Vec<String>,
    /// The times of the next events, each with the index of its line.
    heads: BTreeSet<(u64, usize)>,
    pub(super) threads: HashMap<u64, Does>,
    /// The tasks of each green thread, the innermost last.
    pub(super) tasks: HashMap<u64, Vec<u64>>,
    /// The labels of green threads by their last event: the name that stands for them.
    pub(super) labels: HashMap<u64, u16>,
    /// The labels of green threads of which there is no such event.
    pub(super) unchanged_labels: HashMap<u64, u16>,
    /// What has come, and was not taken yet.
    events: Vec<Event>,
    /// The time of the last event.
    last: Duration,
    /// Where green threads were spawned, by the events so far.
    pub(super) places: HashMap<u64, &'static Location<'static>>,
}

fn name(number: u16) -> Text {
    Text(Place::Name(number))
}

impl Line {
    /// Returns the next event. One event for a switch is two: the stop, and then the run.
    fn head(&self) -> Option<Recorded> {
        let event = *self.rest.front()?;
        let is_switch = event.kind == Kind::Run && Stopped::of(event.argument).is_some();
        Some(if is_switch { Recorded { kind: Kind::Stop, id: 0, ..event } } else { event })
    }

    /// Takes the next event.
    fn pop(&mut self) -> Option<Recorded> {
        let head = self.head()?;
        match self.rest.front_mut() {
            Some(run) if run.kind != head.kind => run.argument &= POLLS,
            _ => _ = self.rest.pop_front(),
        }
        Some(head)
    }
}

impl Merge {
    /// Begins. `labels` are those of green threads, unless there is an event of a change.
    pub(super) fn new(labels: HashMap<u64, u16>) -> Self {
        Merge { unchanged_labels: labels, ..Merge::default() }
    }

    /// Adds what `track` has to its line. Returns how many events are missing since the part before.
    pub(super) fn add(&mut self, track: Track) -> u64 {
        let i = self.line(&track);
        let line = &mut self.lines[i];
        // What was before the first part is not missed.
        let is_first = mem::take(&mut line.is_new);
        let lost = if is_first { 0 } else { track.lost };
        if is_first {
            line.m = track.first_m.filter(|_| track.lost == 0);
        }
        line.lost += lost;
        if let Some(&first) = track.events.first().filter(|_| line.lost > 0) {
            let id = mem::take(&mut line.lost);
            line.rest.push_back(Recorded { kind: Kind::None, id, argument: 0, place: None, ..first });
        }
        for event in track.events.into_iter().filter(|event| event.kind != Kind::None) {
            match event.kind {
                Kind::Spawn => _ = self.threads.insert(event.id, Does::NotSpawned),
                // Before the first change they were others, which are not known.
                Kind::Labels => _ = self.unchanged_labels.remove(&event.id),
                _ => {}
            }
            line.rest.push_back(event);
        }
        if !self.heads.iter().any(|&(_, of)| of == i) {
            self.heads.extend(line.head().map(|next| (next.at_ns, i)));
        }
        lost
    }

    /// Returns the index of the line of a track.
    fn line(&mut self, track: &Track) -> usize {
        let (runtimes, lines) = (&mut self.runtimes, &mut self.lines);
        let runtime = *self.runtime_of.entry(track.rings).or_insert_with(|| {
            runtimes.push(track.runtime.clone());
            runtimes.len() - 1
        });
        *self.line_of.entry((track.rings, track.p)).or_insert_with(|| {
            let rest = VecDeque::new();
            lines.push(Line { runtime, p: track.p, rest, runs: None, m: None, is_new: true, lost: 0 });
            lines.len() - 1
        })
    }

    /// Returns the events in order that come up to the time `until_ns`. No line gets an older one any more.
    pub(super) fn take_until(&mut self, until_ns: u64) -> Vec<Event> {
        while self.heads.first().is_some_and(|&(at, _)| at <= until_ns)
            && let Some(next) = self.next()
        {
            let event = self.pop(next);
            if let Some(place) = event.place {
                self.places.insert(event.id, place);
            }
            self.take(next, event);
        }
        mem::take(&mut self.events)
    }

    /// Returns the line of the event that comes next: the earliest that may come.
    fn next(&self) -> Option<usize> {
        let &(first, earliest) = self.heads.first()?;
        let near = self.heads.iter().take_while(|(at, _)| at - first <= PATIENCE_NS);
        Some(near.map(|&(_, i)| i).find(|&i| self.may_come(i)).unwrap_or(earliest))
    }

    /// Takes the next event of line `i`.
    fn pop(&mut self, i: usize) -> Recorded {
        let line = &mut self.lines[i];
        let event = line.pop().expect("the line has an event");
        self.heads.remove(&(event.at_ns, i));
        self.heads.extend(line.head().map(|next| (next.at_ns, i)));
        event
    }

    /// Returns `true` if what must come before the next event of line `i` has come.
    fn may_come(&self, i: usize) -> bool {
        let event = self.lines[i].head().expect("the line has an event");
        if !matches!(event.kind, Kind::Run | Kind::Ready | Kind::Stop) {
            return true;
        }
        match (event.kind, self.threads.get(&event.id)) {
            (Kind::Run | Kind::Ready, Some(Does::NotSpawned)) => false,
            (Kind::Run, Some(Does::Waits)) => false,
            // The end of a line hides a stop that is not written yet.
            (Kind::Run | Kind::Ready, Some(&Does::Runs(at))) => at == i || self.lines[at].rest.is_empty(),
            // A stop in the ring of a P has no id.
            (Kind::Stop, Some(&Does::Runs(at))) => self.lines[at].rest.is_empty(),
            (Kind::Run, Some(&Does::RunsWithoutP(m))) => m.is_none() || m == self.lines[i].m,
            (Kind::Ready, Some(Does::RunsWithoutP(_) | Does::Ready)) => false,
            _ => true,
        }
    }

    /// Adds `event`, the next one of line `i`.
    fn take(&mut self, i: usize, event: Recorded) {
        let at = Duration::from_nanos(event.at_ns).max(self.last);
        self.last = at;
        let what = self.what(i, &event);
        let line = &self.lines[i];
        let of_m = matches!(event.kind, Kind::MPark | Kind::MWake | Kind::NetBlock | Kind::NetReturn);
        let p = line.p.filter(|_| !of_m);
        let os_thread = if p.is_some() { line.m } else { event.m };
        if let Some(what) = what {
            let runtime = line.runtime;
            let (task, labels) = (self.task(&what), self.labels(&what));
            self.events.push(Event { at, runtime, proc: p, os_thread, task, labels, what });
        }
        if matches!(event.kind, Kind::Idle | Kind::HandOff | Kind::Retire | Kind::Retake) {
            self.lines[i].m = None;
        }
    }

    /// Notes what `event` changes. Returns what it means; `None` if that was overwritten.
    fn what(&mut self, i: usize, event: &Recorded) -> Option<What> {
        let (id, argument) = (event.id, event.argument);
        let by = if self.lines[i].p.is_some() { self.lines[i].runs } else { event.by };
        Some(match event.kind {
            Kind::None => {
                // What runs there is not known any more.
                (self.lines[i].runs, self.lines[i].m) = (None, None);
                What::EventsLost { count: id }
            }
            Kind::SpawnPlace => return None,
            Kind::Run => {
                self.threads.insert(id, Does::Runs(i));
                self.lines[i].runs = Some(id);
                What::Runs { id, poll: argument & POLLS != 0 }
            }
            Kind::Stop => return self.stop(i, event),
            Kind::Spawn => {
                self.threads.insert(id, Does::Spawned);
                What::Spawned { id, by, future: argument != 0 }
            }
            Kind::Ready => {
                // A timer queues the green thread that it has spawned together with the green threads that it
                // has woken.
                if matches!(self.threads.insert(id, Does::Ready), Some(Does::Spawned)) {
                    return None;
                }
                let by = match By::of(argument) {
                    By::Caller => by.map_or(Cause::Other, Cause::GreenThread),
                    By::Timer => Cause::Timer,
                    By::Network => Cause::Network,
                    By::Scheduler => Cause::Other,
                };
                What::Ready { id, by }
            }
            Kind::Steal => What::Stolen { id, from: argument.into() },
            Kind::Take => {
                self.lose_p(i);
                self.lines[i].m = Some(argument.into());
                What::ProcTaken
            }
            Kind::Idle => self.give_up(i, What::ProcIdle),
            Kind::HandOff => self.give_up(i, What::ProcHandedOff),
            Kind::Retire => self.give_up(i, What::ProcRetired),
            Kind::Retake => {
                self.give_up(i, What::Preempted { id, declared: argument == 0, blocked: argument == 2 })
            }
            Kind::Asked => self.give_up(i, What::Preempted { id, declared: false, blocked: false }),
            Kind::TimerArmed => What::TimerArmed { id },
            Kind::TimersFired | Kind::TimersStolen => {
                let stolen_from = (event.kind == Kind::TimersStolen).then_some((id >> 32) as usize);
                let late = Duration::from_micros(id & u64::from(u32::MAX));
                What::TimersFired { count: argument, late, stolen_from }
            }
            Kind::NetPoll => What::NetworkPolled { woken: argument },
            Kind::Blocking => What::BlockingBegins { id },
            Kind::MStart => What::ThreadStarts,
            Kind::MStop => What::ThreadEnds,
            Kind::MPark => What::ThreadParks,
            Kind::MWake => What::ThreadWakes,
            Kind::NetBlock => What::NetworkWaitBegins,
            Kind::NetReturn => What::NetworkWaitEnds,
            Kind::RegionBegin => What::RegionBegins { id: by?, name: name(argument) },
            Kind::RegionEnd => What::RegionEnds { id: by?, name: name(argument) },
            Kind::TaskBegin => What::TaskBegins { id: by?, task: id, name: name(argument) },
            Kind::TaskEnd => What::TaskEnds { id: by?, task: id, name: name(argument) },
            Kind::Message => {
                What::Logs { id: by?, category: name(argument), message: Text(Place::Message(id)) }
            }
            Kind::Labels => {
                self.labels.insert(id, argument);
                What::LabelsChange { id }
            }
        })
    }

    /// Notes what `what` changes of the tasks. Returns the task to which the event belongs.
    fn task(&mut self, what: &What) -> Option<u64> {
        let innermost = |tasks: &HashMap<u64, Vec<u64>>, id: u64| tasks.get(&id)?.last().copied();
        match *what {
            What::Spawned { id, by: Some(by), .. } => {
                let task = innermost(&self.tasks, by)?;
                self.tasks.insert(id, vec![task]);
                Some(task)
            }
            What::TaskBegins { id, task, .. } => {
                self.tasks.entry(id).or_default().push(task);
                Some(task)
            }
            What::TaskEnds { id, task, .. } => {
                self.tasks.get_mut(&id).into_iter().for_each(|tasks| tasks.retain(|&other| other != task));
                Some(task)
            }
            What::Ends { id } => self.tasks.remove(&id)?.pop(),
            _ => innermost(&self.tasks, what.green_thread()?),
        }
    }

    /// Returns the labels of the green thread that `what` is about, and forgets them with its end.
    fn labels(&mut self, what: &What) -> Option<Text> {
        let id = what.green_thread()?;
        let labels = match what {
            What::Ends { .. } => self.labels.remove(&id).or_else(|| self.unchanged_labels.remove(&id)),
            _ => self.labels.get(&id).or_else(|| self.unchanged_labels.get(&id)).copied(),
        };
        labels.filter(|&labels| labels != NO_LABELS).map(name)
    }

    fn stop(&mut self, i: usize, event: &Recorded) -> Option<What> {
        // A stop in the ring of a P is that of the green thread that runs on it.
        let id = if self.lines[i].p.is_some() { self.lines[i].runs.take()? } else { event.id };
        let stopped = Stopped::of(event.argument)?;
        self.threads.insert(id, if matches!(stopped, Stopped::Park(_)) { Does::Waits } else { Does::Ready });
        Some(match stopped {
            Stopped::Park(why) => What::Parks { id, why: reason(why) },
            Stopped::Yield => What::Yields { id },
            Stopped::ForP => What::WaitsForProc { id },
            Stopped::End => {
                self.threads.remove(&id);
                What::Ends { id }
            }
        })
    }

    fn give_up(&mut self, i: usize, what: What) -> What {
        self.lose_p(i);
        what
    }

    /// The green thread that runs on the P of line `i`, if there is one, runs on without it.
    fn lose_p(&mut self, i: usize) {
        let m = self.lines[i].m;
        if let Some(id) = self.lines[i].runs.take()
            && let Some(does) = self.threads.get_mut(&id).filter(|does| **does == Does::Runs(i))
        {
            *does = Does::RunsWithoutP(m);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Arguments of stops, as `Stopped::of` reads them.
    const PARK: u16 = 1;
    const YIELD: u16 = 2;
    const END: u16 = 3;

    type Parts = (u64, Kind, u64, u16);

    fn runs(at_ns: u64, id: u64) -> Parts {
        (at_ns, Kind::Run, id, 0)
    }

    fn stops(at_ns: u64, stopped: u16) -> Parts {
        (at_ns, Kind::Stop, 0, stopped)
    }

    /// Merges the rings of Ps and the events without a P.
    fn merged(ps: Vec<Vec<Parts>>, outside: Vec<Parts>) -> Vec<Event> {
        let event = |(at_ns, kind, id, argument)| Recorded {
            at_ns,
            kind,
            id,
            argument,
            m: None,
            by: None,
            place: None,
        };
        let track = |p, events: Vec<Parts>| Track {
            rings: 0,
            runtime: String::new(),
            p,
            events: events.into_iter().map(event).collect(),
            lost: 0,
            first_m: p,
            stop: None,
        };
        let of_ps = ps.into_iter().enumerate().map(|(p, events)| track(Some(p), events));
        let tracks: Vec<Track> = of_ps.chain([track(None, outside)]).collect();
        let mut merge = Merge::default();
        tracks.into_iter().for_each(|track| _ = merge.add(track));
        merge.take_until(u64::MAX)
    }

    /// Returns what green thread 1 does.
    fn life_of_1(ps: Vec<Vec<Parts>>, outside: Vec<Parts>) -> Vec<&'static str> {
        let events = merged(ps, outside);
        let of_1 = events.iter().filter(|event| event.what.green_thread() == Some(1));
        let word = |event: &Event| match event.what {
            What::Spawned { .. } => "spawned",
            What::Runs { .. } => "runs",
            What::Yields { .. } => "yields",
            What::Parks { .. } => "parks",
            What::Ready { .. } => "ready",
            What::Preempted { .. } => "loses its P",
            _ => "?",
        };
        of_1.map(word).collect()
    }

    /// P 1 must wait, because the spawn of 7 has a late stamp. Until then 1 must not be made ready again: its
    /// run comes later on P 1.
    #[test]
    fn a_wake_up_waits_for_the_stop_behind_an_event_that_waits() {
        let ps = vec![
            vec![(1, Kind::Spawn, 1, 0), runs(2, 1), stops(3, YIELD), (30, Kind::Spawn, 7, 0)],
            vec![runs(20, 7), stops(21, END), runs(22, 1), stops(23, PARK)],
            vec![(25, Kind::Ready, 1, 0)],
        ];
        assert_eq!(life_of_1(ps, vec![]), ["spawned", "runs", "yields", "runs", "parks", "ready"]);
    }

    /// The run on P 1 has the stamp of a stop before it, which is older than the yield without a P.
    #[test]
    fn a_run_waits_for_the_stop_of_a_green_thread_without_a_p() {
        let ps = vec![
            vec![(1, Kind::Spawn, 1, 0), runs(2, 1), (3, Kind::Retake, 1, 1)],
            vec![(4, Kind::Spawn, 2, 0), runs(4, 2), stops(5, PARK), runs(5, 1), stops(9, YIELD)],
        ];
        let outside = vec![(7, Kind::Stop, 1, YIELD)];
        let expected = ["spawned", "runs", "loses its P", "yields", "runs", "yields"];
        assert_eq!(life_of_1(ps, outside), expected);
    }

    #[test]
    fn a_green_thread_that_gets_a_p_again_has_not_stopped() {
        let ps = vec![
            vec![(1, Kind::Spawn, 1, 0), runs(2, 1), (3, Kind::Retake, 1, 1)],
            vec![(4, Kind::Take, 0, 0), runs(5, 1), stops(9, YIELD)],
        ];
        let outside = vec![(12, Kind::Stop, 3, YIELD)];
        assert_eq!(life_of_1(ps, outside), ["spawned", "runs", "loses its P", "runs", "yields"]);
    }

    /// The ring of P 1 has wrapped, so the wake-ups of 1 are missing. P 0 was quiet and has old events.
    #[test]
    fn no_event_waits_long_for_one_that_is_missing() {
        const MS: u64 = 1_000_000;
        let old = (1..=20).flat_map(|n| [runs(1000 * n * MS, 1), stops(1000 * n * MS + MS, PARK)]);
        let new = (0..100).map(|n| (59_000 * MS + n, Kind::Spawn, 100 + n, 0));
        let events = merged(vec![old.collect(), new.collect()], vec![]);
        for event in events {
            let second = event.at.as_secs();
            match event.what {
                What::Spawned { .. } => assert_eq!(second, 59),
                _ => assert!(second <= 20, "{event:?}"),
            }
        }
    }

    /// The second wake-up of 1 is no cause of its run a second before. The wake-up of that run is missing.
    #[test]
    fn a_late_wake_up_is_not_that_of_an_earlier_run() {
        const S: u64 = 1_000_000_000;
        let first = vec![(1, Kind::Spawn, 1, 0), (2 * S, Kind::Ready, 1, 0), (3 * S, Kind::Ready, 1, 0)];
        let second = vec![
            runs(2, 1),
            stops(3, PARK),
            runs(S, 1),
            stops(S + 1, PARK),
            runs(2 * S + 1, 1),
            stops(2 * S + 2, PARK),
        ];
        let words = life_of_1(vec![first, second], vec![]);
        let expected = ["spawned", "runs", "parks", "runs", "parks", "ready", "runs", "parks", "ready"];
        assert_eq!(words, expected);
    }

    /// Sysmon's thread is off its processor between the act and the stamp.
    #[test]
    fn a_loss_of_a_p_undoes_no_later_state() {
        let ps = vec![
            vec![(1, Kind::Spawn, 1, 0), runs(2, 1), (8, Kind::Retake, 1, 1)],
            vec![(9, Kind::Ready, 1, 0), runs(10, 1), stops(11, END)],
        ];
        let expected = ["spawned", "runs", "loses its P", "parks", "ready", "runs", "?"];
        assert_eq!(life_of_1(ps, vec![(5, Kind::Stop, 1, PARK)]), expected);
    }
}
