"""Reads a trace with Perfetto's own protobuf classes and says, as JSON, what is in it.

What the trace processor takes for granted is checked here (read_trace_processor.py asks it): switches of a CPU fit
together, nobody runs on two CPUs, wakers run when they wake, what was interned is there, slices nest, every flow has two ends.
"""

import collections
import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

trace = pb.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

problems = []


def check(condition, text):
    if not condition and len(problems) < 20:
        problems.append(text)


def unknown(message):
    """Fields that the real definition does not know."""
    yield from UnknownFieldSet(message)
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if hasattr(value, "add") else [value]:
                yield from unknown(inner)


names, frames, functions, stacks, mappings = {}, {}, {}, {}, {}
kinds, note_names, note_texts = {}, {}, {}
tracks, counters, slices, flows = {}, collections.Counter(), collections.defaultdict(list), {}
open_slices = collections.defaultdict(list)
by_cpu = collections.defaultdict(list)
threads = {}
findings = []
waits = collections.Counter()

for packet in trace.packet:
    check(not list(unknown(packet)), "fields that Perfetto does not know")
    for thread in packet.process_tree.threads:
        threads[thread.tid] = thread.name
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        check(track.uuid not in tracks or track.HasField("process"), f"track {track.uuid} twice")
        tracks[track.uuid] = track
    interned = packet.interned_data
    for kind, table in [
        (interned.event_names, names),
        (interned.event_categories, kinds),
        (interned.debug_annotation_names, note_names),
        (interned.debug_annotation_string_values, note_texts),
        (interned.function_names, functions),
        (interned.frames, frames),
        (interned.callstacks, stacks),
        (interned.mappings, mappings),
    ]:
        for entry in kind:
            check(entry.iid not in table, f"iid {entry.iid} twice")
            table[entry.iid] = entry
    for event in packet.ftrace_events.event:
        by_cpu[packet.ftrace_events.cpu].append(event)
    if packet.HasField("track_event"):
        event = packet.track_event
        check(event.track_uuid in tracks, f"track {event.track_uuid} is not described")
        name = event.name or (names[event.name_iid].name if event.name_iid in names else "")
        categories = [kinds[iid].name for iid in event.category_iids]
        for note in event.debug_annotations:
            check(note.name_iid in note_names, "a note without a name")
            check(not note.string_value_iid or note.string_value_iid in note_texts, "a note without a text")
        if event.callstack_iid:
            for iid in stacks[event.callstack_iid].frame_ids:
                check(frames[iid].function_name_id in functions, "a frame without a function")
                check(frames[iid].mapping_id in mappings, "a frame without a mapping")
        if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            check(name, "a slice without a name")
            open_slices[event.track_uuid].append((packet.timestamp, name, categories))
        elif event.type == pb.TrackEvent.TYPE_SLICE_END:
            check(open_slices[event.track_uuid], "an end without a begin")
            begin, name, categories = open_slices[event.track_uuid].pop()
            check(begin <= packet.timestamp, "a slice that ends before it begins")
            slices[event.track_uuid].append((begin, packet.timestamp))
            if categories == ["finding"]:
                findings.append(name)
            else:
                waits[name] += packet.timestamp - begin
        elif event.type == pb.TrackEvent.TYPE_COUNTER:
            counters[tracks[event.track_uuid].name] += 1
            check(tracks[event.track_uuid].HasField("counter"), "a value on a track that is no counter")
        for flow in event.flow_ids:
            check(flow not in flows, f"flow {flow} begins twice")
            flows[flow] = packet.timestamp
        for flow in event.terminating_flow_ids:
            check(flows.pop(flow, None) == packet.timestamp, f"flow {flow} ends where it did not begin")

check(not flows, "flows without an end")
check(not any(open_slices.values()), "slices without an end")
for track in slices.values():
    track.sort()
    for (_, end), (begin, _) in zip(track, track[1:]):
        check(end <= begin, "slices that overlap")

# Who ran when; on each CPU one thread after the other.
runs = collections.defaultdict(list)
wakings = []
for cpu, events in by_cpu.items():
    on, since, last = 0, None, 0
    for event in events:
        check(event.timestamp >= last, f"CPU {cpu} goes back in time")
        last = event.timestamp
        if event.HasField("sched_switch"):
            switch = event.sched_switch
            check(switch.prev_pid == on, f"CPU {cpu}: {switch.prev_pid} leaves, but {on} was there")
            if on:
                runs[on].append((since, event.timestamp))
            on, since = switch.next_pid, event.timestamp
            check(not on or switch.next_comm == threads.get(on), f"thread {on} has another name")
        else:
            wakings.append((event.timestamp, event.pid, event.sched_waking.pid, cpu))
    check(on == 0, f"CPU {cpu}: {on} never leaves")
for thread in runs.values():
    thread.sort()
    for (_, end), (begin, _) in zip(thread, thread[1:]):
        check(end <= begin, "a thread on two CPUs")

# A critical path goes from a thread that was woken to its waker: that one must have run just then.
by_thread = 0
for at, waker, woken, cpu in wakings:
    check(woken in threads, f"unknown thread {woken} is woken")
    if waker:
        by_thread += 1
        check(any(b <= at <= e for b, e in runs[waker]), f"{waker} wakes {woken} without running")

json.dump(
    {
        "problems": problems,
        "threads": {str(tid): sum(e - b for b, e in runs[tid]) for tid in runs},
        "wakings": len(wakings),
        "wakings_by_thread": by_thread,
        "counters": counters,
        "findings": findings,
        "wait_ns": waits,
    },
    sys.stdout,
)
