//! A timeline as Perfetto reads it: protobuf, of which only the messages and fields that are used here are
//! declared.
//!
//! The numbers of the fields are those of Perfetto's `protos/perfetto/trace`. `ci/perfetto.py` checks a trace
//! against that schema. `stream.rs` writes such traces for as long as the program runs.

pub mod stream;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::{mem, process};

use prost::Message;

use super::Snapshot;
use super::event::What;
use super::timeline::{Fill, Lane, Row, Slice, Timeline, words};

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    /// In ns.
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    /// 3: in the order of `sibling_order_rank`.
    #[prost(int32, optional, tag = "11")]
    child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    sibling_order_rank: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

// The values of `TrackEvent.Type`.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
/// `ChildTracksOrdering.EXPLICIT`.
const EXPLICIT: i32 = 3;
/// The uuid of the process's track. The others follow.
const PROCESS: u64 = 1;

/// Returns the trace in protobuf.
pub(super) fn encode(snapshot: &Snapshot, timeline: &Timeline) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let mut trace = encoder.part(snapshot, timeline);
    trace.extend(encoder.end(snapshot.duration().as_nanos() as u64));
    trace
}

/// Encodes a trace part by part. The parts of one encoder, one after the other, are a whole trace.
#[derive(Default)]
pub(super) struct Encoder {
    /// The packets of the next part that describe tracks.
    described: Vec<TracePacket>,
    /// The uuids of the runtimes' tracks.
    runtimes: Vec<u64>,
    /// The uuid of each row.
    rows: HashMap<Row, u64>,
    /// The rows of which a slice has begun that is still open.
    begun: HashSet<Row>,
    /// By green thread.
    stretches: HashMap<u64, Stretches>,
    /// Ends of these, for the next part.
    late: Vec<(u64, TrackEvent)>,
    /// The uuid of the last track.
    tracks: u64,
}

/// The user's tasks and regions that are open in a green thread. A region goes on while its green thread is
/// parked, so it does not fit into the rows of Ps.
struct Stretches {
    track: u64,
    /// Their names, the innermost last.
    open: Vec<String>,
}

impl Encoder {
    /// Returns an encoder for a trace that begins at `at`, in which the tasks and regions go on that are open
    /// here. `write` gets the begin of that trace.
    pub(super) fn go_on(&self, snapshot: &Snapshot, at: u64) -> (Encoder, Vec<u8>) {
        let (mut next, mut events) = (Encoder::default(), Vec::new());
        for (&id, stretches) in self.stretches.iter().filter(|(_, stretches)| !stretches.open.is_empty()) {
            for name in &stretches.open {
                let (track, name) = (next.begin(snapshot, id, name.clone()), Some(name.clone()));
                events.push((at, stretch(track, SLICE_BEGIN, name)));
            }
        }
        let bytes = next.packets(events);
        (next, bytes)
    }

    /// Returns the next part: the events of `snapshot`, and `timeline`, to which they were added.
    pub(super) fn part(&mut self, snapshot: &Snapshot, timeline: &Timeline) -> Vec<u8> {
        self.describe(snapshot, timeline);
        let mut events: Vec<(u64, TrackEvent)> = Vec::new();
        for slice in timeline.rows.values().flatten() {
            // A begin that was written before does not say why the slice has ended.
            let is_begun = self.begun.remove(&slice.row);
            if !is_begun {
                events.push((slice.start, self.begin_of(snapshot, slice)));
            }
            let why = Some(slice).filter(|_| is_begun).and_then(ended);
            events.push((
                slice.end,
                TrackEvent {
                    r#type: Some(SLICE_END),
                    track_uuid: self.rows.get(&slice.row).copied(),
                    debug_annotations: why.into_iter().collect(),
                    ..TrackEvent::default()
                },
            ));
        }
        for slice in timeline.open.values() {
            if self.begun.insert(slice.row) {
                events.push((slice.start, self.begin_of(snapshot, slice)));
            }
        }
        for mark in &timeline.marks {
            let event = TrackEvent {
                r#type: Some(INSTANT),
                track_uuid: self.rows.get(&mark.row).copied(),
                name: Some(words(&mark.what, snapshot)),
                flow_ids: Some(mark.arrow).filter(|&arrow| arrow != 0).into_iter().collect(),
                ..TrackEvent::default()
            };
            events.push((mark.at, event));
        }
        self.add_stretches(snapshot, &mut events);
        self.packets(events)
    }

    /// Returns the end of the trace, at which all tasks and regions end.
    pub(super) fn end(&mut self, at: u64) -> Vec<u8> {
        self.forget(at, |_| true);
        self.packets(Vec::new())
    }

    /// Returns the begin of a slice.
    fn begin_of(&self, snapshot: &Snapshot, slice: &Slice) -> TrackEvent {
        let name = match slice.fill {
            Fill::Green { id, .. } => snapshot.label(id),
            Fill::HasP(p) => format!("P {p}"),
            Fill::Parked => "parked".into(),
            Fill::Network => "waits for the network".into(),
        };
        let mut debug_annotations = Vec::new();
        if let Fill::Green { id, poll } = slice.fill {
            debug_annotations.push(note("runs", if poll { "a poll of its future" } else { "its closure" }));
            debug_annotations.extend(slice.labels.map(|labels| note("labels", snapshot.text(labels))));
            debug_annotations.extend(snapshot.spawned_at(id).map(|place| note("spawned at", place)));
            debug_annotations.extend(ended(slice));
        }
        TrackEvent {
            r#type: Some(SLICE_BEGIN),
            track_uuid: self.rows.get(&slice.row).copied(),
            name: Some(name),
            debug_annotations,
            terminating_flow_ids: Some(slice.arrow).filter(|&arrow| arrow != 0).into_iter().collect(),
            ..TrackEvent::default()
        }
    }

    /// Adds the begins and ends of the user's tasks and regions. An end without its begin, which was
    /// overwritten, is left out.
    fn add_stretches(&mut self, snapshot: &Snapshot, events: &mut Vec<(u64, TrackEvent)>) {
        for event in snapshot.events() {
            let (id, begun) = match event.what {
                What::RegionBegins { id, name } => (id, Some(snapshot.text(name).to_owned())),
                What::TaskBegins { id, name, task } => {
                    (id, Some(format!("{} (task {task})", snapshot.text(name))))
                }
                What::RegionEnds { id, .. } | What::TaskEnds { id, .. } => (id, None),
                _ => continue,
            };
            let at = event.at.as_nanos() as u64;
            if let Some(name) = begun {
                let track = self.begin(snapshot, id, name.clone());
                events.push((at, stretch(track, SLICE_BEGIN, Some(name))));
            } else if let Some(of) = self.stretches.get_mut(&id)
                && of.open.pop().is_some()
            {
                events.push((at, stretch(of.track, SLICE_END, None)));
            }
        }
    }

    /// Notes that a task or region begins. Returns the track of its green thread.
    fn begin(&mut self, snapshot: &Snapshot, id: u64, name: String) -> u64 {
        if !self.stretches.contains_key(&id) {
            let track = TrackDescriptor {
                name: Some(snapshot.label(id)),
                parent_uuid: Some(PROCESS),
                ..TrackDescriptor::default()
            };
            let track = self.track(track);
            self.stretches.insert(id, Stretches { track, open: Vec::new() });
        }
        let stretches = self.stretches.get_mut(&id).expect("it was inserted");
        stretches.open.push(name);
        stretches.track
    }

    /// Forgets green threads that have ended. What is open in them ends at `at`: its own end was lost.
    pub(super) fn forget(&mut self, at: u64, has_ended: impl Fn(u64) -> bool) {
        let gone = self.stretches.extract_if(|&id, _| has_ended(id));
        let open = gone.flat_map(|(_, of)| vec![of.track; of.open.len()]);
        self.late.extend(open.map(|track| (at, stretch(track, SLICE_END, None))));
    }

    /// Describes the tracks of the process, the runtimes and the rows, as far as that was not done yet. A trace
    /// without events has these, too.
    fn describe(&mut self, snapshot: &Snapshot, timeline: &Timeline) {
        self.describe_process();
        for name in &snapshot.runtimes()[self.runtimes.len()..] {
            let uuid = self.track(TrackDescriptor {
                name: Some(format!("runtime {}", name.escape_debug())),
                parent_uuid: Some(PROCESS),
                child_ordering: Some(EXPLICIT),
                ..TrackDescriptor::default()
            });
            self.runtimes.push(uuid);
        }
        for &row in timeline.rows.keys() {
            let (runtime, lane) = row;
            if self.rows.contains_key(&row) {
                continue;
            }
            let rank = match lane {
                Lane::P(p) => p,
                Lane::M(m) => (1 << 16) + m,
            };
            let uuid = self.track(TrackDescriptor {
                name: Some(super::html::row_name(snapshot, row)),
                parent_uuid: Some(self.runtimes[runtime]),
                sibling_order_rank: Some(rank as i32),
                ..TrackDescriptor::default()
            });
            self.rows.insert(row, uuid);
        }
    }

    /// Describes the track of the process, which comes before all others.
    fn describe_process(&mut self) {
        if self.tracks > 0 {
            return;
        }
        self.tracks = PROCESS;
        let process_name = std::env::args_os().next().map(|program| name_of_file(&program));
        let process = ProcessDescriptor { pid: Some(process::id() as i32), process_name };
        self.described.push(described(TrackDescriptor {
            uuid: Some(PROCESS),
            process: Some(process),
            ..TrackDescriptor::default()
        }));
    }

    /// Describes a track. Returns its uuid.
    fn track(&mut self, track: TrackDescriptor) -> u64 {
        self.describe_process();
        self.tracks += 1;
        let uuid = self.tracks;
        self.described.push(described(TrackDescriptor { uuid: Some(uuid), ..track }));
        uuid
    }

    /// Returns the described tracks, and the events in the order of their times.
    fn packets(&mut self, mut events: Vec<(u64, TrackEvent)>) -> Vec<u8> {
        events.append(&mut self.late);
        // Stable: the end of a slice comes before the begin of the next one, also at the same time.
        events.sort_by_key(|(at, _)| *at);
        let mut packet = mem::take(&mut self.described);
        packet.extend(events.into_iter().map(|(at, event)| TracePacket {
            timestamp: Some(at),
            track_event: Some(event),
            ..self::packet()
        }));
        Trace { packet }.encode_to_vec()
    }
}

/// Returns the note why a slice has ended, if it says so.
fn ended(slice: &Slice) -> Option<DebugAnnotation> {
    let is_green = matches!(slice.fill, Fill::Green { .. });
    (is_green && !slice.ended.is_empty()).then(|| note("then", slice.ended))
}

fn note(name: &str, value: impl ToString) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.into()), string_value: Some(value.to_string()) }
}

fn stretch(track: u64, kind: i32, name: Option<String>) -> TrackEvent {
    TrackEvent { r#type: Some(kind), track_uuid: Some(track), name, ..TrackEvent::default() }
}

fn described(track: TrackDescriptor) -> TracePacket {
    TracePacket { track_descriptor: Some(track), ..packet() }
}

fn packet() -> TracePacket {
    TracePacket { trusted_packet_sequence_id: Some(1), ..TracePacket::default() }
}

/// Returns the last part of a path, which need not be Unicode.
fn name_of_file(path: &OsStr) -> String {
    let path = path.to_string_lossy();
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_program_has_a_name_that_is_not_unicode() {
        assert_eq!(name_of_file(OsStr::from_bytes(b"/opt/a\xff")), "a\u{fffd}");
        assert_eq!(name_of_file(OsStr::new("server")), "server");
    }
}
