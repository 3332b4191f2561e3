# SPDX-License-Identifier: Apache-2.0 OR MIT
"""decode_perfetto.py TRACE: decode a Perfetto trace with the schema that Perfetto publishes.

Prints one JSON document: slices by name (count, total_ns, and how many of them a return ended),
instants by name with their first annotations, threads, and what is wrong. Knows nothing of how
the export is written: the schema is that of the PyPI package `perfetto`, decoded by `protobuf`.
"""

import collections
import json
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

CLEARED = schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
NEEDS = schema.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE


def unknown_fields(message):
    """Numbers of fields that the published schema does not have."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = [field.field_number for field in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                found += unknown_fields(part)
    return found


def main():
    trace = schema.Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    problems = []
    names, annotations, places, defaults = {}, {}, {}, {}
    threads, processes, tracks = {}, {}, {}
    clocks, primary = {}, None
    events = collections.defaultdict(list)
    cleared = False

    for number, packet in enumerate(trace.packet):
        for field in unknown_fields(packet):
            problems.append(f"packet {number}: the schema has no field {field}")
        sequence = packet.trusted_packet_sequence_id
        if not sequence:
            problems.append(f"packet {number}: no sequence")
        if packet.sequence_flags & CLEARED:
            names[sequence], annotations[sequence], places[sequence] = {}, {}, {}
            defaults[sequence] = packet.trace_packet_defaults
            cleared = True
        elif packet.sequence_flags & NEEDS and not cleared:
            problems.append(f"packet {number}: needs a state that nobody began")
        for entry in packet.interned_data.event_names:
            names[sequence][entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_names:
            annotations[sequence][entry.iid] = entry.name
        for entry in packet.interned_data.source_locations:
            places[sequence][entry.iid] = entry
        if packet.HasField("clock_snapshot"):
            clocks = {c.clock_id: c.timestamp for c in packet.clock_snapshot.clocks}
            primary = packet.clock_snapshot.primary_trace_clock
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("process"):
                processes[track.uuid] = {
                    "pid": track.process.pid, "name": track.process.process_name}
            if track.HasField("thread"):
                threads[track.uuid] = {"pid": track.thread.pid, "tid": track.thread.tid,
                                       "name": track.thread.thread_name}
            if track.parent_uuid and track.parent_uuid not in tracks:
                problems.append(f"track {track.uuid}: its parent is not described before it")
            tracks[track.uuid] = track
        if packet.HasField("track_event"):
            event = packet.track_event
            clock = packet.timestamp_clock_id or defaults[sequence].timestamp_clock_id
            if clock not in clocks or clock != primary:
                problems.append(f"packet {number}: its clock {clock} has no snapshot")
            if event.track_uuid not in tracks:
                problems.append(f"packet {number}: track {event.track_uuid} is not described")
            events[event.track_uuid].append((packet.timestamp, number, sequence, event))

    slices, instants = {}, {}
    for track, list_ in events.items():
        stack = []
        # As trace_processor does: by time, and in the file's order where times are the same.
        for time, number, sequence, event in sorted(list_, key=lambda e: e[:2]):
            values = {}
            for annotation in event.debug_annotations:
                key = annotations[sequence].get(annotation.name_iid)
                if key is None:
                    problems.append(f"packet {number}: annotation {annotation.name_iid} is unnamed")
                field = annotation.WhichOneof("value")
                values[key] = (getattr(annotation, field) if field else
                               [getattr(v, v.WhichOneof("value")) for v in annotation.array_values])
            if event.type == schema.TrackEvent.TYPE_SLICE_END:
                if not stack:
                    problems.append(f"packet {number}: an end without a begin")
                    continue
                began, name = stack.pop()
                slice_ = slices.setdefault(
                    name, {"count": 0, "returned": 0, "returned_ns": 0, "all_ns": 0})
                slice_["count"] += 1
                slice_["all_ns"] += time - began
                if "ended" not in values:
                    slice_["returned"] += 1
                    slice_["returned_ns"] += time - began
                continue
            name = names[sequence].get(event.name_iid)
            if name is None:
                problems.append(f"packet {number}: name {event.name_iid} is not interned")
            if event.source_location_iid and event.source_location_iid not in places[sequence]:
                problems.append(f"packet {number}: its place in the source is not interned")
            if event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
                stack.append((time, name))
            else:
                instant = instants.setdefault(name, {"count": 0, "first": values})
                instant["count"] += 1
        if stack:
            problems.append(f"track {track}: {len(stack)} slices do not end")

    print(json.dumps({
        "packets": len(trace.packet), "slices": slices, "instants": instants,
        "threads": list(threads.values()), "processes": list(processes.values()),
        "clocks": clocks, "primary_clock": primary, "problems": problems[:20],
    }))


main()
