//! Merges the rings of all Ps into one sequence in the order of cause and effect.
//!
//! Stamps of two processors may differ by some ten ns, and one stamp serves a switch: a green thread may have begun to run a little
//! after its stamp. So the sequence is not simply sorted. An event waits until what must come before it has come:
//!
//! - A green thread runs after it was spawned, made ready, or has stopped elsewhere. If it has lost its P, then only its own OS thread can
//!   let it go on without a stop.
//! - A green thread is made ready after it has stopped to wait: if it is ready already, then its run and its stop are still to come.
//!
//! If all that is left waits, because an event was overwritten, then the earliest is taken.

use std::collections::HashMap;
use std::time::Duration;

use sched::recorder::{Collected, Recorded, Track, reason};
use sched::{Kind, POLLS, Stopped};

use super::event::{Cause, Event, What};

/// What a green thread does, as far as the events so far tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
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
struct Line {
    runtime: usize,
    p: Option<usize>,
    /// In reverse order: the next event is the last.
    rest: Vec<Recorded>,
    /// Of a P: the green thread that runs on it.
    runs: Option<u64>,
    /// Of a P: the M that has it.
    m: Option<usize>,
    /// What makes green threads ready while none runs.
    cause: Cause,
}

struct Merge {
    lines: Vec<Line>,
    threads: HashMap<u64, Does>,
    events: Vec<Event>,
}

/// Returns the events of all rings in one sequence, and the names of the runtimes.
pub(super) fn merge(collected: &mut Collected) -> (Vec<Event>, Vec<String>) {
    let (mut runtimes, mut lines, mut threads) = (Vec::new(), Vec::new(), HashMap::new());
    let mut new = true;
    for track in &mut collected.tracks {
        if new {
            runtimes.push(track.runtime.clone());
        }
        // The events outside of the Ps come last of each runtime.
        new = track.p.is_none();
        let line = line(runtimes.len() - 1, track);
        let spawned = line.rest.iter().filter(|event| event.kind == Kind::Spawn);
        threads.extend(spawned.map(|event| (event.id, Does::NotSpawned)));
        lines.push(line);
    }
    let mut merge = Merge { lines, threads, events: Vec::new() };
    while let Some(next) = merge.next() {
        let event = merge.lines[next].rest.pop().expect("the line has an event");
        if let Some(place) = event.place {
            collected.places.insert(event.id, place);
        }
        merge.take(next, event);
    }
    (merge.events, runtimes)
}

fn line(runtime: usize, track: &mut Track) -> Line {
    let mut rest = Vec::with_capacity(track.events.len() * 2);
    for event in std::mem::take(&mut track.events) {
        // One event for a switch becomes two.
        if event.kind == Kind::Run && Stopped::of(event.argument).is_some() {
            rest.push(Recorded { kind: Kind::Stop, id: 0, ..event });
            rest.push(Recorded { argument: event.argument & POLLS, ..event });
        } else if event.kind != Kind::None {
            rest.push(event);
        }
    }
    rest.reverse();
    let m = track.first_m.filter(|_| track.lost == 0);
    Line { runtime, p: track.p, rest, runs: None, m, cause: Cause::Other }
}

impl Merge {
    /// Returns the line whose next event comes next.
    fn next(&self) -> Option<usize> {
        let heads = || {
            let head = |(i, line): (usize, &Line)| line.rest.last().map(|event| (event.at_ns, i));
            self.lines.iter().enumerate().filter_map(head)
        };
        let may = heads().filter(|&(_, i)| self.may_come(i)).min();
        may.or_else(|| heads().min()).map(|(_, i)| i)
    }

    /// Returns `true` if what must come before the next event of line `i` has come.
    fn may_come(&self, i: usize) -> bool {
        let event = self.lines[i].rest.last().expect("the line has an event");
        let does = self.threads.get(&event.id);
        match (event.kind, does) {
            (Kind::Run | Kind::Ready, Some(Does::NotSpawned)) => false,
            (Kind::Run, Some(Does::Waits)) => false,
            // The end of a line hides a stop that is not written yet.
            (Kind::Run | Kind::Ready, Some(&Does::Runs(at))) => at == i || self.lines[at].rest.is_empty(),
            (Kind::Run, Some(&Does::RunsWithoutP(m))) => m.is_none() || m == self.lines[i].m,
            (Kind::Ready, Some(Does::RunsWithoutP(_) | Does::Ready)) => false,
            _ => true,
        }
    }

    /// Adds `event`, the next one of line `i`.
    fn take(&mut self, i: usize, event: Recorded) {
        let before = self.events.last().map_or(Duration::ZERO, |event| event.at);
        let at = Duration::from_nanos(event.at_ns).max(before);
        let what = self.what(i, &event);
        let line = &self.lines[i];
        let of_m = matches!(event.kind, Kind::MPark | Kind::MWake | Kind::NetBlock | Kind::NetReturn);
        let p = line.p.filter(|_| !of_m);
        let os_thread = if p.is_some() { line.m } else { event.m };
        if let Some(what) = what {
            self.events.push(Event { at, runtime: line.runtime, proc: p, os_thread, what });
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
            Kind::None | Kind::SpawnPlace => return None,
            Kind::Run => {
                self.threads.insert(id, Does::Runs(i));
                self.lines[i].runs = Some(id);
                self.lines[i].cause = Cause::Other;
                What::Runs { id, poll: argument & POLLS != 0 }
            }
            Kind::Stop => return self.stop(i, event),
            Kind::Spawn => {
                self.threads.insert(id, Does::Spawned);
                What::Spawned { id, by, future: argument != 0 }
            }
            Kind::Ready => {
                // A timer queues the green thread that it has spawned together with those that it has woken.
                if matches!(self.threads.insert(id, Does::Ready), Some(Does::Spawned)) {
                    return None;
                }
                let from_network = self.lines[i].p.is_none() && event.m.is_some();
                let cause = if from_network { Cause::Network } else { self.lines[i].cause };
                // A green thread that waits in place ends its wait itself when its time is up.
                let by = if by == Some(id) { Cause::Timer } else { by.map_or(cause, Cause::GreenThread) };
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
                self.lines[i].cause = Cause::Timer;
                let stolen_from = (event.kind == Kind::TimersStolen).then_some((id >> 32) as usize);
                let late = Duration::from_micros(id & u64::from(u32::MAX));
                What::TimersFired { count: argument, late, stolen_from }
            }
            Kind::NetPoll => {
                self.lines[i].cause = Cause::Network;
                What::NetworkPolled { woken: argument }
            }
            Kind::Blocking => What::BlockingBegins { id },
            Kind::MStart => What::ThreadStarts,
            Kind::MStop => What::ThreadEnds,
            Kind::MPark => What::ThreadParks,
            Kind::MWake => What::ThreadWakes,
            Kind::NetBlock => What::NetworkWaitBegins,
            Kind::NetReturn => What::NetworkWaitEnds,
        })
    }

    fn stop(&mut self, i: usize, event: &Recorded) -> Option<What> {
        // A stop in the ring of a P is that of the green thread that runs on it.
        let id = if self.lines[i].p.is_some() { self.lines[i].runs.take()? } else { event.id };
        self.lines[i].cause = Cause::Other;
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
        if let Some(id) = self.lines[i].runs.take() {
            self.threads.insert(id, Does::RunsWithoutP(self.lines[i].m));
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

    /// Merges the rings of Ps and the events without a P, and returns what green thread 1 does.
    fn life_of_1(ps: Vec<Vec<Parts>>, outside: Vec<Parts>) -> Vec<&'static str> {
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
            runtime: String::new(),
            p,
            events: events.into_iter().map(event).collect(),
            lost: 0,
            first_m: p,
        };
        let of_ps = ps.into_iter().enumerate().map(|(p, events)| track(Some(p), events));
        let tracks = of_ps.chain([track(None, outside)]).collect();
        let mut collected = Collected { tracks, ns: 100, names: HashMap::new(), places: HashMap::new() };
        let (events, _) = merge(&mut collected);
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

    /// P 1 must wait, because the spawn of 7 has a late stamp. Meanwhile 1, whose run comes later on P 1, must not be made ready again.
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
}
