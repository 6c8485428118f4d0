# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judges the recordings: a function for each check says what they must show."""

import collections
import enum
import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass

import text
from recordings import Recordings, Skipped, Wrong, expect, expect_at_least, without_state

SKIPPED = 77
LOSS = re.compile(r"piste: (?!.*nothing lost).*\b(lost|discarded|overwritten)\b")
DISCARDED = re.compile(r"^piste: .*?([\d,]+) events discarded", re.MULTILINE)
# Its program records as fast as it can, which may be too fast for the consumer in an emulated machine. What is lost is counted.
MAY_LOSE = ("user",)


class Verdict(enum.Enum):
    OK = "ok"
    FAIL = "FAIL"
    SKIP = "skip"


@dataclass(frozen=True)
class Result:
    check: str
    verdict: Verdict
    text: str


# ---- The checks, in the order in which they run; each returns a summary ----


def doctor(lab: Recordings) -> str:
    checks = {check["name"]: check for check in json.loads(lab.log("doctor"))["checks"]}
    lacks = [f"{name}: {check['value']}" for name, check in checks.items() if check["level"] == "lack"]
    expect("lacks", lacks, [])
    expect("kernel", checks["kernel"]["value"].split()[1], lab.release)
    expect("clock", checks["clock"]["value"], "the CPU's time stamp counter (TSC)")
    for name in ("kprobes", "uprobes", "idle CPUs", "event formats", "system calls", "BPF"):
        expect(f"level of {name} ({checks[name]['value']})", checks[name]["level"], "ok")
    expect("level of soft interrupts", checks["soft interrupts"]["level"], "note" if lab.kernel.is_realtime else "ok")
    return f"{len(checks)} items"


def presets(lab: Recordings) -> str:
    waits = "wait_on_page_writeback" if lab.kernel.version == "5.10" else "writeback_folio_wait"
    has = {
        "sched": ["sched_switch", "sched_waking"],
        "io": ["block_rq_issue", "syscall_entry_write", waits],
        "syscalls": ["syscall_entry_openat", "syscall_exit_openat"],
        "net": ["net_dev_queue"],
        "mem": ["page_fault_user", "syscall_entry_mmap"],
        "irq": [],
        "ltt": ["sched_switch", "syscall_entry_openat", waits],
        "full": ["sched_switch", "syscall_entry_openat"],
    }
    events = 0
    for preset, names in has.items():
        counts = lab.whole(f"presets-{preset}")
        wanting = [name for name in names if not any(seen.endswith(name) for seen in counts)]
        expect(f"events that preset {preset} lacks", wanting, [])
        events += counts.total()
    return f"{len(has)} presets, {events} events, read alike by babeltrace2"


def default(lab: Recordings) -> str:
    counts = lab.whole("default")
    for name in ("sched_switch", "syscall_entry_execve", "syscall_exit_execve"):
        expect_at_least(name, counts[name], 1)
    return f"{counts.total()} events"


def syscall(lab: Recordings) -> str:
    counts = lab.whole("syscall")
    calls = without_state(counts)
    expect("names", sorted(calls), sorted(f"syscall_{side}_{name}" for side in ("entry", "exit") for name in ("openat", "close", "read")))
    for name in ("openat", "close", "read"):
        expect_at_least(name, calls[f"syscall_entry_{name}"], 1)
        # The recording begins in the middle of a call.
        begun = calls[f"syscall_exit_{name}"] - calls[f"syscall_entry_{name}"]
        expect(f"exits of {name} are as many as entries, or one more", begun in (0, 1), True)
    return f"{calls.total()} entries and exits of the named calls, none of others"


def names(lab: Recordings) -> str:
    lab.whole("names")
    entries = [event["payload"] for event in lab.events("names", "--event", "syscall_entry_*")]
    opened = [entry.get("filename") for entry in entries]
    expect("opens of /etc/hostname", opened.count("/etc/hostname"), 1)
    arguments = [entry["argv"] for entry in entries if "argv" in entry]
    expect("arguments of the program", arguments[-1:], [["cat", "/etc/hostname"]])
    expect("what is incomplete", {entry["incomplete"] for entry in entries} - {"", "filename unreadable"}, set())
    lab.whole("names-filter")
    filtered = [event["payload"] for event in lab.events("names-filter", "--event", "syscall_entry_*")]
    # A call whose name cannot be read when it begins is recorded, too.
    readable = [entry["filename"] for entry in filtered if not entry["incomplete"]]
    expect("names that the filter selects", readable, ["/etc/hostname"])
    printed = lab.file("names-strace")
    expect("printed like strace", 'openat(AT_FDCWD, "/etc/hostname", O_RDONLY) = 3' in printed, True)
    return f"{len(opened)} file names, and the one that a filter selects"


def filter(lab: Recordings) -> str:
    switches = [event for event in lab.events("filter") if event["name"] == "sched_switch"]
    expect_at_least("switches away from sleep", len(switches), 1)
    expect("names of who left the CPU", {event["payload"]["prev_comm"] for event in switches}, {"sleep"})
    return f"{len(switches)} switches, all away from sleep"


def stacks(lab: Recordings) -> str:
    lab.whole("stacks")
    switches = [event for event in lab.events("stacks") if event["name"] == "sched_switch"]
    kernel = sum(bool(event["payload"]["callstack_kernel"]) for event in switches)
    user = sum(bool(event["payload"]["callstack_user"]) for event in switches)
    expect("switches without a stack of the kernel", len(switches) - kernel, 0)
    expect_at_least("stacks of programs", user, 1)
    return f"{kernel} stacks of the kernel, {user} of programs"


def kprobe(lab: Recordings) -> str:
    lab.whole("kprobe")
    opened = [event["payload"]["file"] for event in lab.events("kprobe") if event["name"] == "opened"]
    expect_at_least("opens of /etc/hostname", opened.count("/etc/hostname"), 1)
    return f"{len(opened)} files opened"


def kprobe_at(lab: Recordings) -> str:
    lab.whole("kprobe-at")
    opened = [event["payload"]["file"] for event in lab.events("kprobe-at") if event["name"] == "do_sys_openat2"]
    expect_at_least("opens of /etc/hostname", opened.count("/etc/hostname"), 1)
    refused = lab.file("kprobe-refused").splitlines()
    reasons = ("no instruction begins there", "not in the code of the kernel", "allow")
    expect("refusals", len(refused), len(reasons))
    for line, reason in zip(refused, reasons, strict=True):
        expect(f"{reason!r} in {line!r}", reason in line, True)
    return f"{len(opened)} files opened"


def kretprobe(lab: Recordings) -> str:
    lab.whole("kretprobe")
    opened = [event["payload"]["fd"] for event in lab.events("kretprobe") if event["name"] == "opened_ret"]
    expect_at_least("descriptors returned", sum(fd >= 0 for fd in opened), 1)
    return f"{len(opened)} results"


def eprobe(lab: Recordings) -> str:
    lab.whole("eprobe")
    opened = [event["payload"]["file"] for event in lab.events("eprobe") if event["name"] == "opened"]
    expect_at_least("opens of /etc/hostname", opened.count("/etc/hostname"), 1)
    return f"{len(opened)} files opened"


def uprobe(lab: Recordings) -> str:
    lab.whole("uprobe")
    calls = [event["payload"] for event in lab.events("uprobe") if event["name"] == "greet"]
    expect("calls", [(call["name"], call["times"]) for call in calls], [("ada", times) for times in range(5)])
    lengths = [event["payload"]["length"] for event in lab.events("uprobe-ret") if event["name"] == "greeted"]
    expect("results", lengths, [len("hello ada, 0\n")] * 5)
    return "5 calls with their arguments, 5 results"


def usdt(lab: Recordings) -> str:
    counts = lab.whole("usdt")
    for name in ("libstdcxx:throw", "libstdcxx:catch"):
        expect(name, counts[name], 3)
    return "3 throws, 3 catches"


def snapshot(lab: Recordings) -> str:
    events = {trace: lab.whole(trace).total() for trace in ("snapshot-exit", "snapshot-signal")}
    for trace, count in events.items():
        expect_at_least(f"events of {trace}", count, 100)
    return f"{sum(events.values())} events in two snapshots"


def rotate(lab: Recordings) -> str:
    expect("lab:tick", lab.whole("rotate")["lab:tick"], 4000)
    return "4000 events over two rotations"


def hidden(lab: Recordings) -> str:
    expect("the test of who is recorded and hidden passes", "test result: ok. 1 passed" in lab.log("hidden"), True)
    return "no event of others is missing while lists of threads change"


def hotplug(lab: Recordings) -> str:
    if "skipped: " in lab.log("hotplug"):
        raise Skipped(lab.log("hotplug").split("skipped: ")[1].splitlines()[0])
    expect("the test of a CPU that goes passes", "test result: ok. 1 passed" in lab.log("hotplug"), True)
    lab.whole("hotplug")
    cpus = {event["cpu"] for event in lab.events("hotplug", "--event", "sched_switch")}
    expect("CPUs with switches", cpus, {0, 1})
    return "a CPU went and came back, and nothing is lost"


def user(lab: Recordings) -> str:
    recorded = lab.whole("user-kernel")["lab:tick"] + lab.whole("user-killed")["lab:tick"]
    discarded = sum(int(count.replace(",", "")) for count in DISCARDED.findall(lab.log("user")))
    expect("events of two programs, recorded or counted as discarded", recorded + discarded, 8 * 5000 + 3 * 20000)
    return f"{recorded} events of two programs, one of them killed; {discarded} counted as discarded"


def compat(lab: Recordings) -> str:
    every = {
        "getpid": 8, "openat": 1, "read": 1, "close": 1, "signal": 1, "kill": 1, "sigreturn": 1, "getuid": 1, "gettid": 1, "write": 1,
    }  # fmt: skip
    for trace, calls in {
        "compat": every,
        "compat-moved": every | {"sched_setaffinity": 1},
        "compat-some": {"getpid": 8, "openat": 1, "getuid": 1},
    }.items():
        counts = lab.whole(trace)
        for side in ("entry", "exit"):
            prefix = f"compat_syscall_{side}_"
            found = {name.removeprefix(prefix): count for name, count in counts.items() if name.startswith(prefix)}
            # The execve that starts the program returns as a 32-bit call, and the program's last call does not return.
            found = {name: count for name, count in found.items() if name not in ("execve", "exit", "exit_group")}
            expect(f"{side} of 32-bit calls in {trace}", dict(sorted(found.items())), dict(sorted(calls.items())))
    some = {name for name in without_state(lab.counts("compat-some")) if not name.startswith("compat_")}
    names = {f"syscall_{side}_{call}" for side in ("entry", "exit") for call in ("getpid", "openat", "getuid")}
    expect("64-bit calls that were not asked for", sorted(some - names), [])
    return "a 32-bit program's calls have their names: all of them, some of them, and on another CPU"


def inversion(lab: Recordings) -> str:
    lab.whole("inversion")
    threads = [int(tid) for tid in lab.file("inversion-threads").split()]
    rows = lab.analysis("priority-inversion", "inversion")["inversions"]
    found = [[row[key] for key in ("victim_tid", "holder_tid", "culprit_tid")] for row in rows]
    expect("victim, holder and culprit are found", threads in found, True)
    return "the inversion is found, with who caused it"


def softirq(lab: Recordings) -> str:
    lab.whole("softirq")
    begun: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
    expected: collections.Counter[tuple[int, int, int]] = collections.Counter()
    for event in lab.events("softirq", "--event", "irq_softirq_*"):
        who = (event["cpu"], event["event_context"]["tid"])
        time_ns = int(event["time_ns"])
        if event["name"] == "irq_softirq_entry":
            begun[who].append(time_ns)
        elif event["name"] == "irq_softirq_exit" and begun[who]:
            begin_ns = begun[who].pop()
            expected[(event["cpu"], begin_ns, time_ns - begin_ns)] += 1
    rows = lab.analysis("irqlog", "softirq", "--limit", "1000000")["interrupts"]
    found = collections.Counter(
        (row["cpu"], int(row["begin_ns"]), row["duration_ns"]) for row in rows if row["interrupt"].startswith("softirq ")
    )
    expect_at_least("soft interrupts", expected.total(), 100)
    expect("soft interrupts that the analysis leaves out", sorted(expected - found)[:5], [])
    expect("soft interrupts that only the analysis has", sorted(found - expected)[:5], [])
    stats = lab.analysis("irqstats", "softirq", "--limit", "1000")["interrupts"]
    counted = sum(row["count"] for row in stats if row["interrupt"].startswith("softirq "))
    expect("soft interrupts counted", counted, expected.total())
    return f"{counted} soft interrupts, as their entries and exits say"


def timerlat(lab: Recordings) -> str:
    samples = re.findall(r"context +(irq|thread) timer_latency +\d+ ns", lab.file("timerlat"))
    for context in ("irq", "thread"):
        expect_at_least(f"samples of the kernel in context {context}", samples.count(context), 1)
    noise = lab.whole("timerlat")
    expect_at_least("interrupts and threads that delayed it", noise["irq_noise"] + noise["thread_noise"], 1)
    return f"{len(samples)} samples, {noise.total()} events of what delayed it"


def latency(lab: Recordings) -> str:
    loops = {"npt": 20000, "gaps": 20000, "timer": 20, "wakeup": 20}
    for loop, expected in loops.items():
        report = json.loads(lab.file(f"latency-{loop}"))
        expect(f"loops of {loop}", report["cpus"][0]["loops"], expected)
        preemption = next(check for check in report["preflight"] if check["name"] == "preemption")
        expect("preflight: PREEMPT_RT", preemption["value"] == "PREEMPT_RT", lab.kernel.is_realtime)
    events = json.loads(lab.file("latency-event"))["tracers"][0]
    expect("single events", events["events"], 20000)
    expect_at_least("events after a move to another CPU", events["by_kind"]["new_cpu"]["loops"], 1)
    kinds = json.loads(lab.file("latency-timer"))["load"]["kinds"]
    expect("loads that worked", [kind["name"] for kind in kinds if kind["loops"]], ["cpu", "fork", "network"])
    return "all loops run, beside loads, and preflight knows the kernel"


def latency_prepare(lab: Recordings) -> str:
    before = lab.file("settings-before")
    expect("settings after it measured", lab.file("settings-after"), before)
    expect("settings after it was killed, and restored", lab.file("settings-restored"), before)
    expect("whether settings differ while it measures", lab.file("settings-during") != before, True)
    report = json.loads(lab.file("latency-prepared"))
    is_isolated = any("cpuset" in step for step in report["prepared"])
    can_isolate = tuple(map(int, lab.kernel.version.split("."))) >= (6, 7)
    if can_isolate:
        expect("whether the CPU is isolated", is_isolated, True)
        expect("preflight", next(check["level"] for check in report["preflight"] if check["name"] == "isolated CPUs"), "ok")
    return f"{len(report['prepared'])} steps, all of them undone"


# Of its histogram: -b in checks.sh.
RTLA_STEP_NS = 100


def latency_traced(lab: Recordings) -> str:
    report = json.loads(lab.file("latency-timerlat"))["cpus"][0]
    texts = re.findall(r"\[000\].* context +(irq|thread) timer_latency +(\d+) ns", lab.file("latency-timerlat-text"))
    for context, found in (("irq", report["irq"]), ("thread", report)):
        beside = {int(ns) for kind, ns in texts if kind == context}
        expect(f"samples in context {context}", found["loops"], 50)
        expect(f"smallest and largest sample in context {context} that the other instance lacks", {found["min_ns"], found["max_ns"]} - beside, set())
    theirs = rtla_samples(lab.file("latency-rtla"))
    for context, found in (("irq", report["irq"]), ("thread", report)):
        counts = theirs[context]
        steps = {found[key] // RTLA_STEP_NS for key in ("min_ns", "max_ns")}
        expect(f"smallest and largest sample in context {context} that rtla lacks", steps - set(counts), set())
    for bucket in report["histogram"]:
        first, last = bucket["from_ns"] // RTLA_STEP_NS, (bucket["to_ns"] - 1) // RTLA_STEP_NS
        beside = sum(count for step, count in theirs["thread"].items() if first <= step <= last)
        expect_at_least(f"samples of rtla from {bucket['from_ns']} to {bucket['to_ns']} ns", beside, bucket["count"])
    noise = json.loads(lab.file("latency-osnoise"))["cpus"]
    expect("periods of osnoise", [cpu["loops"] for cpu in noise], [2] * len(noise))
    return "100 samples, which another instance has, too, and those of threads rtla; noise of each CPU"


def rtla_samples(histogram: str) -> dict[str, collections.Counter[int]]:
    """How often rtla saw latencies, by steps: lines with the latency, and how often it was that of an interrupt and of a thread."""
    lines = [tuple(map(int, line)) for line in re.findall(r"^(\d+) +(\d+) +(\d+) *$", histogram, re.MULTILINE)]
    return {
        "irq": collections.Counter({ns // RTLA_STEP_NS: irq for ns, irq, _ in lines if irq}),
        "thread": collections.Counter({ns // RTLA_STEP_NS: thread for ns, _, thread in lines if thread}),
    }


def same_text(lab: Recordings) -> str:
    lab.whole("text")
    overruns = sum(map(int, re.findall(r"^(?:overrun|dropped events): (\d+)", lab.file("text-stats"), re.MULTILINE)))
    expect("events that tracefs's own ring lost", overruns, 0)
    has_states = tuple(map(int, lab.kernel.version.split("."))) >= text.ONE_STATE_SINCE
    theirs = text.of_text(lab.file("text"), has_states)
    mine = text.of_trace(lab.events("text", "--event", "sched_*", "--event", "irq_*"), has_states)
    expected = 0
    for cpu, events in sorted(theirs.items()):
        comparison = text.compare(events, mine.get(cpu, []))
        expect(f"events of CPU {cpu} that the trace lacks, or has with other values", comparison.missing[:3], [])
        expected += comparison.expected
    expect_at_least("events in tracefs's text", expected, 500)
    return f"{expected} events of tracefs's text, value by value, in the same order"


def clean(lab: Recordings) -> str:
    expect("left behind, or complained about by the kernel", lab.log("clean").strip(), "")
    said = [line for line in lab.log("pisted").splitlines() if line.strip()]
    expect("said by pisted", said[:5], [])
    return "nothing is left behind, and the kernel has no complaint"


CHECKS: dict[str, Callable[[Recordings], str]] = {
    "doctor": doctor,
    "presets": presets,
    "default": default,
    "syscall": syscall,
    "names": names,
    "filter": filter,
    "stacks": stacks,
    "kprobe": kprobe,
    "kprobe_at": kprobe_at,
    "kretprobe": kretprobe,
    "eprobe": eprobe,
    "uprobe": uprobe,
    "usdt": usdt,
    "snapshot": snapshot,
    "rotate": rotate,
    "user": user,
    "compat": compat,
    "inversion": inversion,
    "softirq": softirq,
    "timerlat": timerlat,
    "latency": latency,
    "latency_prepare": latency_prepare,
    "latency_traced": latency_traced,
    "text": same_text,
    "hidden": hidden,
    "hotplug": hotplug,
    "clean": clean,
}


def judge(lab: Recordings, checks: list[str]) -> list[Result]:
    return [one(lab, name) for name in CHECKS if name in checks]


def one(lab: Recordings, name: str) -> Result:
    result = functools.partial(Result, name)
    if name not in lab.status:
        return result(Verdict.FAIL, f"it did not run: {lab.ended.problem or 'the guest ended before it'}")
    log = lab.log(name)
    if lab.status[name] == SKIPPED:
        return result(Verdict.SKIP, log.split("skipped: ")[-1].strip())
    if lab.status[name] != 0:
        return result(Verdict.FAIL, f"status {lab.status[name]}: {log.strip()[-600:]}")
    if name not in MAY_LOSE and (lost := [line for line in log.splitlines() if LOSS.match(line)]):
        return result(Verdict.FAIL, f"events were lost: {lost[0]}")
    try:
        return result(Verdict.OK, CHECKS[name](lab))
    except Skipped as reason:
        return result(Verdict.SKIP, str(reason))
    except Wrong as wrong:
        return result(Verdict.FAIL, str(wrong))
    except (LookupError, TypeError, ValueError, OSError) as error:
        return result(Verdict.FAIL, f"its recording cannot be judged: {error!r}")
