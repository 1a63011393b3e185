#!/usr/bin/env python3
"""Checks a trace against Perfetto's own schema: every field is known, every event has its track, slices nest, arrows connect.

Needs the Python package `perfetto`, which ci/setup.sh installs into a virtual environment. Usage: perfetto.py [--part] FILE
--part: arrows may lead to a later file, and the user's slices nest.
Prints the number of tracks, slices, instants and arrows."""
import sys

# Else this file would be imported in the place of the package of its name.
del sys.path[0]

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def check_known(message, path="trace"):
    unknown = [field.field_number for field in UnknownFieldSet(message)]
    assert not unknown, f"{path} has fields that the schema does not know: {unknown}"
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if hasattr(value, "__len__") and not hasattr(value, "ListFields") else [value]:
                check_known(one, f"{path}.{field.name}")


is_part = sys.argv[1] == "--part"
trace = Trace()
trace.ParseFromString(open(sys.argv[-1], "rb").read())
check_known(trace)
tracks, last, open_slices, slices, instants, begun, ended = {}, {}, {}, 0, 0, set(), set()
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id != 0
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        assert track.uuid not in tracks, f"two tracks have uuid {track.uuid}"
        assert not track.parent_uuid or track.parent_uuid in tracks, "a track comes before its parent"
        tracks[track.uuid] = track.name
        continue
    event = packet.track_event
    assert event.track_uuid in tracks, "an event has no track"
    assert packet.timestamp >= last.get(event.track_uuid, 0), "a track goes back in time"
    last[event.track_uuid] = packet.timestamp
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        assert event.name and (is_part or not open_slices.get(event.track_uuid)), "slices of a track overlap"
        open_slices[event.track_uuid] = open_slices.get(event.track_uuid, 0) + 1
        slices += 1
    elif event.type == TrackEvent.TYPE_SLICE_END:
        assert open_slices.get(event.track_uuid), "a slice ends that has not begun"
        open_slices[event.track_uuid] -= 1
    else:
        assert event.type == TrackEvent.TYPE_INSTANT and event.name
        instants += 1
    assert not begun.intersection(event.flow_ids) and not ended.intersection(event.terminating_flow_ids)
    begun.update(event.flow_ids)
    ended.update(event.terminating_flow_ids)
assert not any(open_slices.values()), "a slice does not end"
lost = ended - begun if is_part else ended ^ begun
assert not lost, f"arrows lead nowhere: {lost}"
print(f"tracks {len(tracks)} slices {slices} instants {instants} arrows {len(begun)}")
