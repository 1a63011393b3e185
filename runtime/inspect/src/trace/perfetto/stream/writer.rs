//! From the rings to the files of a stream: reads a part, merges it, and encodes it.

use std::collections::{HashMap, HashSet};
use std::{io, mem};

use sched::recorder;

use super::files::Files;
use super::parts::Parts;
use crate::trace::Snapshot;
use crate::trace::event::{Event, What};
use crate::trace::merge::Merge;
use crate::trace::perfetto::Encoder;
use crate::trace::recording::Known;
use crate::trace::timeline::{Slice, Timeline};

/// How many more green threads than the last time may be known before those are forgotten that do not live.
const FORGOTTEN_AT: usize = 4096;

/// The state between two parts.
pub(super) struct Writer {
    parts: Parts,
    merge: Merge,
    timeline: Timeline,
    encoder: Encoder,
    files: Files,
    /// The time of the last event that was merged.
    at: u64,
    /// The events of a part, and the names and texts that they need.
    view: Snapshot,
    /// The position of the next name.
    next_name: u64,
    /// The numbers of the messages at which this part and the one before begin.
    messages: [u64; 2],
    /// How many green threads may be known.
    most_known: usize,
}

/// What one part was like.
pub(super) struct Round {
    /// How many events were overwritten before it.
    pub(super) lost: u64,
    /// How many events it had.
    pub(super) events: usize,
    /// Whether it was written; `None` if there was nothing to write, or no file.
    pub(super) written: Option<io::Result<()>>,
}

impl Writer {
    pub(super) fn new(files: Files) -> Writer {
        // Before the look at the labels: a later change has an event in the parts.
        let parts = Parts::new();
        let Known { names, places, labels } = Known::now();
        let mut view = Snapshot { names, places, ..Snapshot::default() };
        let first = view.texts.renew(0);
        Writer {
            parts,
            merge: Merge::new(labels),
            timeline: Timeline::new(true, HashMap::new()),
            encoder: Encoder::default(),
            files,
            at: 0,
            view,
            next_name: recorder::kept_names(u64::MAX, |_, _| ()),
            messages: [first; 2],
            most_known: FORGOTTEN_AT,
        }
    }

    /// Reads what was recorded since the last call, and writes it if `may_write`. `is_last` is true for the
    /// end of the stream.
    pub(super) fn round(&mut self, is_last: bool, may_write: bool) -> Round {
        let part = self.parts.next(is_last);
        let count = part.tracks.iter().map(|track| track.events.len()).sum();
        let lost = part.tracks.into_iter().map(|track| self.merge.add(track)).sum();
        let events = self.merge.take_until(part.until_ns);
        self.renew_names();
        let has_some = !events.is_empty() || is_last;
        // After a failure. The part that comes next goes into this file.
        let begun = if has_some && may_write && !self.files.is_open() { self.begin_file() } else { Ok(()) };
        events.iter().for_each(|event| self.timeline.add(event));
        self.at = events.last().map_or(self.at, |event| event.at.as_nanos() as u64);
        self.at = if is_last { self.at.max(part.now_ns) } else { self.at };
        self.view.events = events;
        // Also if nothing is written: what is open goes on in a later file.
        let bytes = self.encode();
        self.forget_ended();
        // Also tracks that have no events yet.
        let has_some = has_some || self.files.is_open() && !bytes.is_empty();
        let written = (has_some && may_write).then(|| begun.and_then(|()| self.write(&bytes, is_last)));
        Round { lost, events: count, written }
    }

    /// Writes the bytes of a part.
    fn write(&mut self, bytes: &[u8], is_last: bool) -> io::Result<()> {
        self.files.write(bytes)?;
        if is_last {
            let end = self.end();
            return self.files.write(&end);
        }
        if self.files.is_complete() { self.begin_file() } else { Ok(()) }
    }

    /// Returns the bytes of the part that is in the view and the timeline.
    fn encode(&mut self) -> Vec<u8> {
        let bytes = self.encoder.part(&self.view, &self.timeline);
        self.timeline.rows.values_mut().for_each(Vec::clear);
        self.timeline.marks.clear();
        bytes
    }

    /// Ends the file, and goes on in a new one.
    fn begin_file(&mut self) -> io::Result<()> {
        let (encoder, mut begin) = self.encoder.go_on(&self.view, self.at);
        let timeline = goes_on(&self.timeline, self.at);
        let end = self.end();
        (self.encoder, self.timeline) = (encoder, timeline);
        begin.extend(self.encode());
        self.files.write(&end)?;
        self.files.begin()?;
        self.files.write(&begin)
    }

    /// Returns the end of the file: of all that is open.
    fn end(&mut self) -> Vec<u8> {
        self.timeline.close_all(self.at);
        let mut end = self.encode();
        end.extend(self.encoder.end(self.at));
        end
    }

    /// Takes the names, places and texts that have come.
    fn renew_names(&mut self) {
        let view = &mut self.view;
        self.next_name = recorder::kept_names(self.next_name, |id, name| {
            view.names.insert(id, name.into());
        });
        view.places.extend(self.merge.places.drain());
        let [before, this] = self.messages;
        // A message may belong to an event that the part before has left for this one.
        self.messages = [this, view.texts.renew(before)];
        if view.runtimes.len() < self.merge.runtimes.len() {
            view.runtimes.clone_from(&self.merge.runtimes);
        }
    }

    /// Forgets the green threads that have ended in this part, and its events. Now and then, forgets also
    /// green threads with ends that were lost.
    fn forget_ended(&mut self) {
        let view = &mut self.view;
        let ended = |event: Event| match event.what {
            What::Ends { id } => Some(id),
            _ => None,
        };
        let ended: HashSet<u64> = mem::take(&mut view.events).into_iter().filter_map(ended).collect();
        for id in &ended {
            view.names.remove(id);
            view.places.remove(id);
        }
        self.encoder.forget(self.at, |id| ended.contains(&id));
        if self.known() > self.most_known {
            let mut live = HashSet::new();
            sched::look_at_living(|g| _ = live.insert(g.id));
            self.forget_all_but(live);
            self.most_known = 2 * self.known() + FORGOTTEN_AT;
        }
    }

    fn known(&self) -> usize {
        self.view.names.len().max(self.view.places.len()).max(self.merge.threads.len())
    }

    /// Forgets all green threads but these. It keeps the ids in events that are still to come, too.
    fn forget_all_but(&mut self, mut live: HashSet<u64>) {
        let lines = &self.merge.lines;
        live.extend(lines.iter().flat_map(|line| &line.rest).map(|event| event.id));
        live.extend(lines.iter().filter_map(|line| line.runs));
        self.merge.threads.retain(|id, _| live.contains(id));
        self.merge.tasks.retain(|id, _| live.contains(id));
        self.merge.labels.retain(|id, _| live.contains(id));
        self.merge.unchanged_labels.retain(|id, _| live.contains(id));
        self.view.names.retain(|id, _| live.contains(id));
        self.view.places.retain(|id, _| live.contains(id));
        self.encoder.forget(self.at, |id| !live.contains(&id));
    }
}

/// Returns a timeline in which the slices go on that are open in `timeline` at `at`.
fn goes_on(timeline: &Timeline, at: u64) -> Timeline {
    let slice = |slice: &Slice| Slice { start: at, arrow: 0, ..*slice };
    Timeline::new(true, timeline.open.iter().map(|(&row, open)| (row, slice(open))).collect())
}
