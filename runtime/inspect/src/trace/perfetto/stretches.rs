//! Tracks of the user's tasks and regions: one for each green thread that has such. A region goes on while its
//! green thread is parked, so it does not fit into the rows of Ps.

use std::collections::HashMap;

use super::super::event::What;
use super::{PROCESS, SLICE_BEGIN, SLICE_END, Snapshot, TracePacket, TrackDescriptor, TrackEvent, packet};

/// Adds the tracks to `packets`, and the slices to `events`. The uuids of the tracks begin at `first`.
pub(super) fn add(
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
            packets.push(described(next, snapshot.label(id)));
            (next, 0)
        });
        let kind = match &begun {
            Some(_) => SLICE_BEGIN,
            None if *open == 0 => continue,
            None => SLICE_END,
        };
        *open = if begun.is_some() { *open + 1 } else { *open - 1 };
        events.push((event.at.as_nanos() as u64, slice(*track, kind, begun)));
    }
    let end = snapshot.duration().as_nanos() as u64;
    for (track, open) in tracks.into_values() {
        events.extend((0..open).map(|_| (end, slice(track, SLICE_END, None))));
    }
}

fn slice(track: u64, kind: i32, name: Option<String>) -> TrackEvent {
    TrackEvent { r#type: Some(kind), track_uuid: Some(track), name, ..TrackEvent::default() }
}

fn described(uuid: u64, name: String) -> TracePacket {
    let track = TrackDescriptor {
        uuid: Some(uuid),
        name: Some(name),
        parent_uuid: Some(PROCESS),
        ..TrackDescriptor::default()
    };
    TracePacket { track_descriptor: Some(track), ..packet() }
}
