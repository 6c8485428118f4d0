#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks a trace of Perfetto, field by field and with Perfetto's own definitions, against the events that it was made from.

    check_perfetto.py EXPORT.perfetto EXPORT.json

The second is `piste export --format json` of the same trace. Says how many events of which kind it has checked.
"""

import json
import math
import struct
import sys
from collections import Counter, defaultdict, deque

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

CLEARED, NEEDS = 1, 2
BEGIN, END, INSTANT = 1, 2, 3
IN_TREE = ("lttng_statedump_process_state", "lttng_statedump_process")


def expect(condition, what):
    """Ends where something is not as it must be. What is wrong may be a function: to write an event as text takes longer than to check it."""
    if not condition:
        sys.exit(f"check_perfetto.py: {what() if callable(what) else what}")


def unknown(message):
    """Fields that the definitions do not have."""
    count = len(unknown_fields.UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if field.is_repeated else [value]:
                count += unknown(inner)
    return count


def same(value, expected):
    """An annotation's value, and what the JSON document has."""
    if isinstance(expected, dict) and set(expected) == {"value", "labels"}:
        return value == (expected["labels"] or [expected["value"]])[0]
    if isinstance(expected, dict):
        return isinstance(value, dict) and value.keys() == expected.keys() and all(
            same(value[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        # An empty group has no kind in Perfetto.
        return (value or []) == [] if not expected else len(value) == len(expected) and all(map(same, value, expected))
    if isinstance(value, float) and not isinstance(expected, str):
        # Those of 32 bits are written with as many digits as they have.
        return value == expected or struct.pack("f", value) == struct.pack("f", expected)
    if isinstance(value, float):
        return math.isnan(value) if expected == "NaN" else str(value).replace("inf", "Infinity") == expected
    if isinstance(value, int) and isinstance(expected, str):
        # The document has large numbers as text.
        return str(value) == expected
    return value == expected


class Sequence:
    """What holds for the packets of a sequence."""

    def __init__(self):
        self.count = 0
        self.names = {"event_names": {}, "event_categories": {}, "debug_annotation_names": {}}

    def see(self, packet):
        if self.count == 0:
            expect(packet.sequence_flags == CLEARED and packet.first_packet_on_sequence, "a sequence begins without saying so")
        else:
            expect(packet.sequence_flags == NEEDS, lambda: f"sequence flags {packet.sequence_flags}")
        self.count += 1
        for kind, known in self.names.items():
            for entry in getattr(packet.interned_data, kind):
                expect(entry.iid != 0 and entry.iid not in known, lambda: f"{kind} {entry.iid} is said twice")
                expect(entry.name not in known.values(), lambda: f"{kind} {entry.name!r} has two numbers")
                known[entry.iid] = entry.name

    def value(self, annotation):
        which = annotation.WhichOneof("value")
        if annotation.dict_entries:
            return {self.name(inner): self.value(inner) for inner in annotation.dict_entries}
        if annotation.array_values:
            return [self.value(inner) for inner in annotation.array_values]
        return getattr(annotation, which) if which else None

    def name(self, annotation):
        if annotation.HasField("name"):
            return annotation.name
        return self.names["debug_annotation_names"][annotation.name_iid]


def check_ftrace(event, expected):
    """One event of the kernel."""
    fields = expected.get("payload", {})
    which = event.WhichOneof("event")
    if which == "generic":
        expect(event.generic.event_name == expected["name"], lambda: f"{event} for {expected}")
        expect([field.name for field in event.generic.field] == list(fields), lambda: f"{event} for {expected}")
        for field in event.generic.field:
            value = getattr(field, field.WhichOneof("value"))
            wanted = fields[field.name]
            if isinstance(wanted, (list, float)) or isinstance(wanted, dict) and "labels" not in wanted:
                continue  # Written as text.
            expect(same(value, wanted), lambda: f"{field} for {wanted}")
        return
    message = getattr(event, which)
    renamed = {"prev_pid": "prev_tid", "next_pid": "next_tid", "pid": "tid", "old_pid": "old_tid", "parent_pid": "parent_tid",
               "child_pid": "child_tid", "prev_state": "prev_state_raw", "rwbs": "rwbs_raw"}
    compared = 0
    for field, value in message.ListFields():
        name = renamed.get(field.name, field.name)
        wanted = fields.get(name, fields.get(field.name))
        if "prio" in field.name:
            value -= 100
        if isinstance(wanted, dict):
            continue  # A number in Perfetto, a name in the trace.
        expect(same(value, wanted), lambda: f"{field.name} is {value} instead of {wanted}: {event} for {expected}")
        compared += 1
    expect(compared > 0 or not fields, lambda: f"{event} for {expected}")
    if which == "sched_switch":
        expect(compared == 7 or message.prev_state == 0, lambda: f"{event}")


def main():
    trace = pb.Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    with open(sys.argv[2], encoding="utf-8") as file:
        document = json.load(file)
    expect(unknown(trace) == 0, "there are fields that Perfetto does not have")
    kernel_names = {one["name"] for one in document["traces"] if one["environment"].get("domain") == "kernel"}

    snapshots = [packet.clock_snapshot for packet in trace.packet if packet.HasField("clock_snapshot")]
    expect(len(snapshots) == 1 and snapshots[0].primary_trace_clock == pb.BUILTIN_CLOCK_BOOTTIME, "one snapshot of clocks")
    clocks = {clock.clock_id: clock.timestamp for clock in snapshots[0].clocks}
    base = clocks[pb.BUILTIN_CLOCK_REALTIME] - clocks[pb.BUILTIN_CLOCK_BOOTTIME]
    expect(clocks[pb.BUILTIN_CLOCK_MONOTONIC] == clocks[pb.BUILTIN_CLOCK_BOOTTIME], "the clock stands for both")

    system = [packet.system_info for packet in trace.packet if packet.HasField("system_info")]
    environment = {key: value for one in reversed(document["traces"]) for key, value in one["environment"].items()}
    expect(len(system) == 1, "the system is described once")
    expect(system[0].utsname.sysname == environment.get("sysname", ""), "the system's name")
    expect(system[0].utsname.release == environment.get("kernel_release", ""), "the kernel's release")
    expect(system[0].machine_name == environment.get("hostname", ""), "the host's name")

    # What is expected, by where it is to be found.
    on_cpus, on_threads, tree = defaultdict(deque), deque(), 0
    for event in document["events"]:
        of_kernel = event["trace"] in kernel_names
        if of_kernel and event["name"] in IN_TREE:
            tree += 1
        elif of_kernel and not event["name"].startswith("syscall_") and not event["stream"].startswith("statedump"):
            on_cpus[event["cpu"]].append(event)
        else:
            on_threads.append(event)

    sequences, tracks, open_slices = defaultdict(Sequence), {}, defaultdict(list)
    told, counts, last, running, since = set(), Counter(), defaultdict(int), {}, {}
    has_new_tasks = any(event["name"] == "task_newtask" for event in document["events"])
    for packet in trace.packet:
        expect(packet.trusted_packet_sequence_id != 0, "a packet without a sequence")
        sequence = sequences[packet.trusted_packet_sequence_id]
        sequence.see(packet)
        if packet.HasField("ftrace_events"):
            bundle = packet.ftrace_events
            expect(bundle.HasField("cpu") and bundle.event, "a bundle is of one CPU")
            for event in bundle.event:
                expect(event.timestamp >= last[bundle.cpu], lambda: f"time goes back on CPU {bundle.cpu}")
                last[bundle.cpu] = event.timestamp
                if event.HasField("task_newtask") and not has_new_tasks:
                    counts["new tasks"] += 1
                    continue
                if event.HasField("sched_switch"):
                    switch, was = event.sched_switch, running.get(bundle.cpu)
                    running[bundle.cpu] = switch.next_pid
                    expect(was is None or was == switch.prev_pid, lambda: f"{event} after {was}")
                    if was:
                        counts[f"ns of thread {was}"] += event.timestamp - since[bundle.cpu]
                    since[bundle.cpu] = event.timestamp
                    if not switch.HasField("prev_prio"):
                        # The trace has no such switch: another thread than the one before has the CPU, or nobody knows which.
                        expect(switch.prev_pid != switch.next_pid, lambda: f"{event}")
                        counts["arrivals that were not told"] += 1
                        continue
                elif on_cpus[bundle.cpu][0]["name"].startswith(("irq_", "sched_")):
                    # Where nobody knows which thread runs, Perfetto is told that the CPU is idle.
                    expect(running.get(bundle.cpu, 0) in (0, event.pid), lambda: f"{event} on a CPU that {running.get(bundle.cpu)} has")
                    counts["events of threads that are not known to run"] += running.get(bundle.cpu, 0) != event.pid
                expected = on_cpus[bundle.cpu].popleft()
                expect(event.timestamp + base == int(expected["time_ns"]), lambda: f"{event} for {expected}")
                tid = expected.get("event_context", {}).get("tid")
                expect(tid is None or event.pid == tid, lambda: f"{event} for {expected}")
                check_ftrace(event, expected)
                counts[event.WhichOneof("event")] += 1
        elif packet.HasField("process_tree"):
            told |= {thread.tid for thread in packet.process_tree.threads}
            told |= {process.pid for process in packet.process_tree.processes}
        elif packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            expect(descriptor.uuid not in tracks, lambda: f"track {descriptor.uuid} is described twice")
            expect(not descriptor.parent_uuid or descriptor.parent_uuid in tracks, "a parent comes first")
            tracks[descriptor.uuid] = descriptor
        elif packet.HasField("track_event"):
            event = packet.track_event
            expect(event.track_uuid in tracks, lambda: f"no track {event.track_uuid}")
            stack = open_slices[event.track_uuid]
            if event.type == END:
                expect(stack, "a slice ends that did not begin")
                stack.pop()
                if not event.debug_annotations:
                    counts["ends of what is around"] += 1
                    continue
            expected = on_threads.popleft()
            expect(packet.timestamp + base == int(expected["time_ns"]), lambda: f"{packet} for {expected}")
            thread = tracks[event.track_uuid].thread
            contexts = expected.get("packet_context", {}) | expected.get("event_context", {})
            for key in ("vtid", "tid"):
                expect(key not in contexts or thread.tid == contexts[key], lambda: f"{tracks[event.track_uuid]} for {expected}")
            expect("vpid" not in contexts or thread.pid == contexts["vpid"], lambda: f"{tracks[event.track_uuid]} for {expected}")
            values = {sequence.name(one): sequence.value(one) for one in event.debug_annotations}
            context = values.pop("context", {})
            expect(same(values, expected.get("payload", {})), lambda: f"{values} for {expected}")
            expect(all(same(context[key], contexts[key]) for key in contexts), lambda: f"{context} for {expected}")
            if event.type != END:
                name = sequence.names["event_names"][event.name_iid]
                expect(all(iid in sequence.names["event_categories"] for iid in event.category_iids), "categories")
                if event.type == INSTANT:
                    expect(name == expected["name"], lambda: f"{name} for {expected}")
                else:
                    stack.append(name)
            counts[{BEGIN: "slices begun", END: "slices ended", INSTANT: "instants"}[event.type]] += 1
    left = len(on_threads) + sum(map(len, on_cpus.values()))
    expect(left == 0, lambda: f"{left} events are missing")
    expect(tree == 0 or len(told) > 1, "the state dump told of no process")
    counts["processes and threads"] = len(told)
    print(json.dumps(counts))


main()
