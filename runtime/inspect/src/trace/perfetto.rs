//! A timeline as Perfetto reads it: protobuf, of which only the messages and fields that are used here are
//! declared.
//!
//! The numbers of the fields are those of Perfetto's `protos/perfetto/trace`. `ci/perfetto.py` checks a trace
//! against that schema.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::process;

use prost::Message;

use super::Snapshot;
use super::event::What;
use super::timeline::{Fill, Lane, Row, Timeline, words};

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
/// The uuid of the process's track. The tracks of the runtimes and the rows follow.
const PROCESS: u64 = 1;

/// Returns the trace in protobuf.
pub(super) fn encode(snapshot: &Snapshot, timeline: &Timeline) -> Vec<u8> {
    let (mut packets, tracks) = describe(snapshot, timeline);
    let label = |id| snapshot.label(id);
    let mut events: Vec<(u64, TrackEvent)> = Vec::new();
    for slice in timeline.rows.values().flatten() {
        let track_uuid = tracks.get(&slice.row).copied();
        let name = match slice.fill {
            Fill::Green { id, .. } => label(id),
            Fill::HasP(p) => format!("P {p}"),
            Fill::Parked => "parked".into(),
            Fill::Network => "waits for the network".into(),
        };
        let mut debug_annotations = Vec::new();
        let mut annotate = |name: &str, value: String| {
            debug_annotations.push(DebugAnnotation { name: Some(name.into()), string_value: Some(value) });
        };
        if let Fill::Green { id, poll } = slice.fill {
            annotate("runs", if poll { "a poll of its future" } else { "its closure" }.into());
            if let Some(place) = snapshot.spawned_at(id) {
                annotate("spawned at", place.to_string());
            }
            if !slice.ended.is_empty() {
                annotate("then", slice.ended.into());
            }
        }
        let terminating_flow_ids = Some(slice.arrow).filter(|&arrow| arrow != 0).into_iter().collect();
        let begin = TrackEvent {
            r#type: Some(SLICE_BEGIN),
            track_uuid,
            name: Some(name),
            debug_annotations,
            terminating_flow_ids,
            ..TrackEvent::default()
        };
        events.push((slice.start, begin));
        events.push((slice.end, TrackEvent { r#type: Some(SLICE_END), track_uuid, ..TrackEvent::default() }));
    }
    for mark in &timeline.marks {
        let event = TrackEvent {
            r#type: Some(INSTANT),
            track_uuid: tracks.get(&mark.row).copied(),
            name: Some(words(&mark.what, snapshot)),
            flow_ids: Some(mark.arrow).filter(|&arrow| arrow != 0).into_iter().collect(),
            ..TrackEvent::default()
        };
        events.push((mark.at, event));
    }
    add_stretches(snapshot, &mut packets, &mut events, 1 << 32);
    // Stable: the end of a slice comes before the begin of the next one, also at the same time.
    events.sort_by_key(|(at, _)| *at);
    packets.extend(events.into_iter().map(|(at, event)| TracePacket {
        timestamp: Some(at),
        track_event: Some(event),
        ..packet()
    }));
    Trace { packet: packets }.encode_to_vec()
}

/// Adds the tracks of the user's tasks and regions to `packets`, one for each green thread that has such, and
/// the slices to `events`. A region goes on while its green thread is parked, so it does not fit into the
/// rows of Ps. The uuids of the tracks begin at `first`.
fn add_stretches(
    snapshot: &Snapshot,
    packets: &mut Vec<TracePacket>,
    events: &mut Vec<(u64, TrackEvent)>,
    first: u64,
) {
    // The number of open slices by track. An end without its begin, which was overwritten, is left out.
    let mut tracks: HashMap<u64, (u64, usize)> = HashMap::new();
    for event in snapshot.events() {
        let (id, begun) = match event.what {
            What::RegionBegins { id, name } => (id, Some(snapshot.text(name).to_owned())),
            What::TaskBegins { id, name, task } => {
                (id, Some(format!("{} (task {task})", snapshot.text(name))))
            }
            What::RegionEnds { id, .. } | What::TaskEnds { id, .. } => (id, None),
            _ => continue,
        };
        let next = first + tracks.len() as u64;
        let (track, open) = tracks.entry(id).or_insert_with(|| {
            packets.push(track_of(next, snapshot.label(id)));
            (next, 0)
        });
        let kind = match &begun {
            Some(_) => SLICE_BEGIN,
            None if *open == 0 => continue,
            None => SLICE_END,
        };
        *open = if begun.is_some() { *open + 1 } else { *open - 1 };
        events.push((event.at.as_nanos() as u64, stretch(*track, kind, begun)));
    }
    let end = snapshot.duration().as_nanos() as u64;
    for (track, open) in tracks.into_values() {
        events.extend((0..open).map(|_| (end, stretch(track, SLICE_END, None))));
    }
}

fn stretch(track: u64, kind: i32, name: Option<String>) -> TrackEvent {
    TrackEvent { r#type: Some(kind), track_uuid: Some(track), name, ..TrackEvent::default() }
}

fn track_of(uuid: u64, name: String) -> TracePacket {
    let track = TrackDescriptor {
        uuid: Some(uuid),
        name: Some(name),
        parent_uuid: Some(PROCESS),
        ..TrackDescriptor::default()
    };
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

/// Returns the packets that describe the tracks, and the uuid of each row.
fn describe(snapshot: &Snapshot, timeline: &Timeline) -> (Vec<TracePacket>, HashMap<Row, u64>) {
    let described = |track| TracePacket { track_descriptor: Some(track), ..packet() };
    let process_name = std::env::args_os().next().map(|program| name_of_file(&program));
    let process = ProcessDescriptor { pid: Some(process::id() as i32), process_name };
    let mut packets = vec![described(TrackDescriptor {
        uuid: Some(PROCESS),
        process: Some(process),
        ..TrackDescriptor::default()
    })];
    let of_runtime = |runtime: usize| PROCESS + 1 + runtime as u64;
    for (runtime, name) in snapshot.runtimes().iter().enumerate() {
        packets.push(described(TrackDescriptor {
            uuid: Some(of_runtime(runtime)),
            name: Some(format!("runtime {}", name.escape_debug())),
            parent_uuid: Some(PROCESS),
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::default()
        }));
    }
    let mut tracks = HashMap::new();
    for (rank, &row) in timeline.rows.keys().enumerate() {
        let uuid = of_runtime(snapshot.runtimes().len()) + rank as u64;
        let (runtime, lane) = row;
        packets.push(described(TrackDescriptor {
            uuid: Some(uuid),
            name: Some(super::html::row_name(snapshot, row)),
            parent_uuid: Some(of_runtime(runtime)),
            sibling_order_rank: Some(rank as i32 + if matches!(lane, Lane::P(_)) { 0 } else { 1 << 16 }),
            ..TrackDescriptor::default()
        }));
        tracks.insert(row, uuid);
    }
    (packets, tracks)
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
