//! The timeline of a snapshot, as both exporters draw it: a row for each P and each OS thread, slices, marks,
//! and arrows.

use std::collections::{BTreeMap, HashMap};

use super::Snapshot;
use super::event::{Event, Text, What};

/// A row: of a runtime, a P or an OS thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Lane {
    P(usize),
    M(usize),
}

/// A runtime and a lane of it.
pub(super) type Row = (usize, Lane);

/// What fills a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// A green thread runs, perhaps a poll of its future.
    Green { id: u64, poll: bool },
    /// An OS thread has this P.
    HasP(usize),
    /// An OS thread is parked.
    Parked,
    /// An OS thread waits for the network and the timers.
    Network,
}

/// A stretch of time of a row, in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) row: Row,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) fill: Fill,
    /// The labels of the green thread.
    pub(super) labels: Option<Text>,
    /// Why it ended, in words.
    pub(super) ended: &'static str,
    /// The number of the arrow that leads to it; 0 for none.
    pub(super) arrow: u64,
}

/// A moment of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) row: Row,
    pub(super) at: u64,
    pub(super) what: What,
    /// The number of the arrow that begins here; 0 for none.
    pub(super) arrow: u64,
}

#[derive(Default)]
pub(super) struct Timeline {
    /// The slices of each row in their order. Slices of one row do not overlap.
    pub(super) rows: BTreeMap<Row, Vec<Slice>>,
    pub(super) marks: Vec<Mark>,
    /// From where an arrow may begin, by the green thread that was woken or spawned.
    wakers: HashMap<u64, Waker>,
    /// The slices that have not ended.
    pub(super) open: HashMap<Row, Slice>,
    arrows: u64,
    /// It is drawn part by part: a mark has its arrow before it is known whether the arrow leads to a slice.
    in_parts: bool,
}

/// What has woken or spawned a green thread.
struct Waker {
    /// The index of its mark.
    mark: usize,
    arrow: u64,
}

impl Timeline {
    pub(super) fn of(snapshot: &Snapshot) -> Timeline {
        let mut timeline = Timeline::new(false, HashMap::new());
        for event in snapshot.events() {
            timeline.add(event);
        }
        timeline.close_all(snapshot.duration().as_nanos() as u64);
        timeline
    }

    /// Returns a timeline that begins with these open slices.
    pub(super) fn new(in_parts: bool, open: HashMap<Row, Slice>) -> Timeline {
        let rows = open.keys().map(|&row| (row, Vec::new())).collect();
        Timeline { rows, open, in_parts, ..Timeline::default() }
    }

    /// Ends the slices that are open.
    pub(super) fn close_all(&mut self, at: u64) {
        let open: Vec<Row> = self.open.keys().copied().collect();
        for row in open {
            self.close(row, at, "");
        }
    }

    pub(super) fn add(&mut self, event: &Event) {
        let at = event.at.as_nanos() as u64;
        let lane = |lane| (event.runtime, lane);
        let thread = event.os_thread.map(|m| lane(Lane::M(m)));
        let Some(row) = event.proc.map(|p| lane(Lane::P(p))).or(thread) else { return };
        match event.what {
            What::Runs { id, poll } => {
                self.open(row, at, Fill::Green { id, poll }, event.labels);
                self.end_arrow(row, id);
            }
            What::Parks { why, .. } => self.close(row, at, why),
            What::Yields { .. } => self.close(row, at, "it yields"),
            What::Ends { .. } => self.close(row, at, "it ends"),
            What::WaitsForProc { .. } => self.mark(row, at, event.what),
            What::EventsLost { .. } => {
                self.close(row, at, "");
                self.mark(row, at, event.what);
            }
            What::ProcTaken => {
                self.close(row, at, "");
                if let (Some(thread), Some(p)) = (thread, event.proc) {
                    self.open(thread, at, Fill::HasP(p), None);
                }
            }
            What::ProcIdle | What::ProcHandedOff | What::ProcRetired | What::Preempted { .. } => {
                let ended = if matches!(event.what, What::Preempted { .. }) { "its P is taken" } else { "" };
                self.close(row, at, ended);
                if let Some(thread) = thread {
                    self.close(thread, at, "");
                }
                self.mark(row, at, event.what);
            }
            What::ThreadParks => self.open(row, at, Fill::Parked, None),
            What::NetworkWaitBegins => self.open(row, at, Fill::Network, None),
            What::ThreadWakes | What::NetworkWaitEnds | What::ThreadEnds => self.close(row, at, ""),
            What::Ready { id, .. } | What::Spawned { id, .. } => {
                self.arrows += 1;
                self.wakers.insert(id, Waker { mark: self.marks.len(), arrow: self.arrows });
                self.mark(row, at, event.what);
                if self.in_parts
                    && let Some(mark) = self.marks.last_mut()
                {
                    mark.arrow = self.arrows;
                }
            }
            _ => self.mark(row, at, event.what),
        }
    }

    fn mark(&mut self, row: Row, at: u64, what: What) {
        self.rows.entry(row).or_default();
        self.marks.push(Mark { row, at, what, arrow: 0 });
    }

    fn open(&mut self, row: Row, at: u64, fill: Fill, labels: Option<Text>) {
        self.close(row, at, "");
        self.open.insert(row, Slice { row, start: at, end: at, fill, labels, ended: "", arrow: 0 });
    }

    fn close(&mut self, row: Row, at: u64, ended: &'static str) {
        let slices = self.rows.entry(row).or_default();
        if let Some(slice) = self.open.remove(&row) {
            slices.push(Slice { end: at, ended, ..slice });
        }
    }

    /// Lets an arrow lead from what woke green thread `id` to its slice, which has just begun.
    fn end_arrow(&mut self, row: Row, id: u64) {
        if let (Some(waker), Some(slice)) = (self.wakers.remove(&id), self.open.get_mut(&row)) {
            slice.arrow = waker.arrow;
            if !self.in_parts {
                self.marks[waker.mark].arrow = waker.arrow;
            }
        }
    }
}

/// Returns `what` in a few words. `snapshot` has the names.
pub(super) fn words(what: &What, snapshot: &Snapshot) -> String {
    let (label, text) = (|id| snapshot.label(id), |text| snapshot.text(text).escape_debug());
    match *what {
        What::Spawned { id, future: false, .. } => format!("spawns {}", label(id)),
        What::Spawned { id, future: true, .. } => format!("spawns the future {}", label(id)),
        What::Ready { id, .. } => format!("wakes {}", label(id)),
        What::Stolen { id, from } => format!("steals {} from P {from}", label(id)),
        What::ProcIdle => "idle".into(),
        What::ProcHandedOff => "handed off".into(),
        What::ProcRetired => "retired".into(),
        What::Preempted { id, declared: true, .. } => format!("handed off by {} in blocking", label(id)),
        What::Preempted { id, blocked: true, .. } => format!("taken from {}, which blocks", label(id)),
        What::Preempted { id, .. } => format!("taken from {}, which computes", label(id)),
        What::WaitsForProc { id } => format!("{} waits for a P", label(id)),
        What::TimerArmed { .. } => "arms a timer".into(),
        What::TimersFired { count, late, stolen_from: None } => format!("{count} timers, {late:?} late"),
        What::TimersFired { count, late, stolen_from: Some(p) } => {
            format!("{count} timers of P {p}, {late:?} late")
        }
        What::NetworkPolled { woken } => format!("the network wakes {woken}"),
        What::BlockingBegins { .. } => "enters blocking".into(),
        What::ThreadStarts => "starts".into(),
        What::ThreadEnds => "ends".into(),
        What::TaskBegins { name, task, .. } => format!("task {task} begins: {}", text(name)),
        What::TaskEnds { name, task, .. } => format!("task {task} ends: {}", text(name)),
        What::RegionBegins { name, .. } => format!("{} begins", text(name)),
        What::RegionEnds { name, .. } => format!("{} ends", text(name)),
        What::Logs { category, message, .. } => {
            let message = snapshot.message(message).unwrap_or("(the text was dropped)");
            format!("{}: {}", text(category), message.escape_debug())
        }
        What::LabelsChange { .. } => "its labels change".into(),
        What::EventsLost { count } => format!("{count} events were overwritten"),
        _ => String::new(),
    }
}
