# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares a trace with tracefs's own text of the same events: each event must be there with the same values, and in the same order on its CPU.

Piste's recording begins earlier and ends later than the text, and the text contains events of pisted, which traces leave out."""

import collections
import re
from dataclasses import dataclass, field

# The states of threads: their numbers in the trace, and how tracefs prints them.
STATES = {0: "R", 256: "R+", 1: "S", 2: "D", 128: "I", 16: "X", 32: "Z", 4: "T", 8: "t", 64: "P"}
LINE = re.compile(r"\s*(.+)-(\d+)\s+(?:\(\s*[\d-]+\) )?\[(\d+)\] \S+\s+[\d.]+: (\w+): (.*)")
# A trace has the priority of the kernel minus this.
PRIORITY_BASE = 100
# In older kernels, each instance reads the state of the thread that leaves the CPU by itself, and a wake-up may come in between.
ONE_STATE_SINCE = (5, 18)
# After a difference: how many events to skip at most, and how many must agree from there on.
REACH = 60
AGREEMENT = 4

Event = tuple[str | int, ...]


@dataclass
class Comparison:
    """The differences on one CPU."""

    expected: int = 0
    missing: list[Event] = field(default_factory=list)
    surplus: int = 0


def of_text(text: str, has_states: bool) -> dict[int, list[Event]]:
    """The events of each CPU in tracefs's text, without those of pisted."""
    rows = [match.groups() for match in map(LINE.match, text.splitlines()) if match]
    pisted = {int(tid) for name, tid, *_ in rows if name.strip().startswith("pisted")}
    events: dict[int, list[Event]] = collections.defaultdict(list)
    for _, tid, cpu, name, values in rows:
        event = text_event(name, int(tid), values, pisted, has_states)
        if event:
            events[int(cpu)].append(event)
    return events


def text_event(name: str, tid: int, values: str, pisted: set[int], has_states: bool) -> Event | None:
    number = {key: int(value) for key, value in re.findall(r"(\w+)=(-?\d+)\b", values)}
    match name:
        case "sched_switch":
            both = {number["prev_pid"], number["next_pid"]}
            if both <= pisted:
                return None
            state = re.search(r"prev_state=(\S+)", values)
            prev = (number["prev_pid"], number["prev_prio"] - PRIORITY_BASE, state[1] if state and has_states else "")
            return ("switch", *prev, number["next_pid"], number["next_prio"] - PRIORITY_BASE)
        case "sched_wakeup":
            if tid in pisted and number["pid"] in pisted:
                return None
            return ("wakeup", number["pid"], number["target_cpu"], tid)
        case "softirq_entry" | "softirq_exit" if tid not in pisted:
            return (name, number["vec"], tid)
        case "irq_handler_entry" | "irq_handler_exit" if tid not in pisted:
            return (name, number["irq"], tid)
    return None


def of_trace(events: list[dict], has_states: bool) -> dict[int, list[Event]]:
    """The events of each CPU in a trace, from the output of `piste view --format ndjson`."""
    by_cpu: dict[int, list[Event]] = collections.defaultdict(list)
    for event in events:
        values, tid = event["payload"], event["event_context"]["tid"]
        match event["name"]:
            case "sched_switch":
                state = plain(values.get("prev_state_raw", values["prev_state"]))
                prev = (values["prev_tid"], values["prev_prio"], STATES.get(state, str(state)) if has_states else "")
                made: Event = ("switch", *prev, values["next_tid"], values["next_prio"])
            case "sched_wakeup":
                made = ("wakeup", values["tid"], values["target_cpu"], tid)
            case "irq_softirq_entry" | "irq_softirq_exit" as name:
                made = (name.removeprefix("irq_"), plain(values["vec"]), tid)
            case "irq_handler_entry" | "irq_handler_exit" as name:
                made = (name, values["irq"], tid)
            case _:
                continue
        by_cpu[event["cpu"]].append(made)
    return by_cpu


def plain(value: int | dict) -> int:
    """The number of an enumeration."""
    return value["value"] if isinstance(value, dict) else value


def compare(expected: list[Event], found: list[Event]) -> Comparison:
    """Compares the events, beginning where the most expected events in a row are found."""
    result = Comparison(expected=len(expected))
    place = max(range(len(found) or 1), key=lambda start: agreeing(expected, found, start))
    index = 0
    while index < len(expected):
        if place < len(found) and expected[index] == found[place]:
            index, place = index + 1, place + 1
            continue
        step = agree_again(expected, found, index, place)
        if step is None:
            result.missing += expected[index:]
            break
        left_out, put_in = expected[index : index + step[0]], found[place : place + step[1]]
        if not differ_by_interrupt(left_out, put_in):
            result.missing += left_out
            result.surplus += len(put_in)
        index, place = index + step[0], place + step[1]
    return result


def differ_by_interrupt(left_out: list[Event], put_in: list[Event]) -> bool:
    """An interrupt may come after an event was recorded in one instance, and before it is in the other: there the event follows the interrupt. Of a
    timer's interrupt, the first event may be a wake-up."""
    if put_in == left_out[1:] + left_out[:1]:
        interrupt = left_out[1:]
    elif put_in == left_out[-1:] + left_out[:-1]:
        interrupt = left_out[:-1]
    else:
        return False
    return bool(interrupt) and interrupt[0][0] in ("irq_handler_entry", "softirq_entry", "wakeup")


def agreeing(expected: list[Event], found: list[Event], start: int) -> int:
    count = 0
    while count < len(expected) and start + count < len(found) and expected[count] == found[start + count]:
        count += 1
    return count


def agree_again(expected: list[Event], found: list[Event], index: int, place: int) -> tuple[int, int] | None:
    """The smallest numbers of expected and found events to skip until both agree again."""
    for distance in range(1, REACH):
        for left_out in range(distance + 1):
            put_in = distance - left_out
            ahead = expected[index + left_out : index + left_out + AGREEMENT]
            if ahead and ahead == found[place + put_in : place + put_in + len(ahead)]:
                return left_out, put_in
    return None
