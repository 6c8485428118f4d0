# SPDX-License-Identifier: MIT OR Apache-2.0
"""The viewer: until the first picture, while hands zoom and move, what the server needs, and making the timeline.

The traces are made (tests/support/src/made_trace.rs), so that they have as many threads and events as are asked for on any
machine; one is really recorded. A browser without a screen draws in software, on the CPUs that the server has, too.
viewer/tests/measure.mjs measures in the browser.

Memory of the server is the most that was ever resident (VmHWM). The heap of the viewer is what its scripts hold, in the
page and in the worker that draws, with the memory of arrays, as chromium says it each second; the most counts.
"""

import gzip
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterable

import instance
import processes
from programs import Built
from results import Bar, Results
from tracers import Piste, Tracer

NAME = "viewer"
ROOT = pathlib.Path(__file__).resolve().parent.parent
MAKER = ROOT / "target" / "release" / "make-trace"
MEASURE = ROOT / "viewer" / "tests" / "measure.mjs"
TIMELINE = ".piste-timeline"
# Work of all kinds: programs that begin and end, files, waiting.
LOAD = """
for job in 1 2 3 4; do
    while :; do ls -lR /usr/lib >/dev/null; sleep 0.01; done &
done
sleep {seconds}
kill $(jobs -p)
"""


def run(results: Results, tracers: list[Tracer], _: Built | None, folder: pathlib.Path) -> None:
    piste = next(tracer for tracer in tracers if isinstance(tracer, Piste))
    lack = missing(piste)
    if lack:
        results.leave_out("the viewer", lack)
        return
    sizes(results)
    scale = results.scale
    busy = made(folder / "busy", scale.viewer_cpus, scale.viewer_threads, scale.viewer_events)
    making(results, piste, busy)
    first_paint(results, piste, busy, f"{gigabytes(busy):.1f} GB", with_index_ms=1000, without_ms=3000)
    moving(results, piste, busy, "made")
    shutil.rmtree(busy)
    recorded(results, piste, folder / "recorded")
    needed = scale.viewer_large_events * 50
    if shutil.disk_usage(folder).free < needed:
        results.leave_out("a large trace in the viewer", f"less than {needed} bytes are free in {folder}")
        return
    large = made(folder / "large", scale.viewer_cpus, scale.viewer_threads, scale.viewer_large_events)
    first_paint(results, piste, large, f"{gigabytes(large):.1f} GB", with_index_ms=2000, without_ms=None)
    shutil.rmtree(large)


def missing(piste: Piste) -> str | None:
    """Why the viewer cannot be measured."""
    if not (ROOT / "viewer" / "dist" / "viewer.js").exists() or not shutil.which("node"):
        return "the viewer was not built, which needs Node.js"
    if not pathlib.Path(os.environ.get("CHROMIUM", "/usr/bin/chromium")).exists():
        return "no chromium here (Debian: chromium)"
    if not maker().exists():
        return f"no {maker()}: `make bench-viewer` builds it"
    return None


def maker() -> pathlib.Path:
    return pathlib.Path(os.environ.get("PISTE_MAKE_TRACE", MAKER))


def made(trace: pathlib.Path, cpus: int, threads: int, events: int) -> pathlib.Path:
    processes.command([maker(), trace, str(cpus), str(threads), str(events)])
    # What is still to be written would disturb.
    os.sync()
    return trace


def gigabytes(trace: pathlib.Path) -> float:
    """Without the index."""
    files = (file for file in trace.rglob("*") if file.is_file() and file.name != TIMELINE)
    return sum(file.stat().st_size for file in files) / 1e9


def sizes(results: Results) -> None:
    files = [ROOT / "viewer" / "dist" / name for name in ("viewer.js", "worker.js", "viewer.css")]
    kilobytes = sum(len(gzip.compress(file.read_bytes())) for file in files) / 1000
    results.hold(NAME, "script and style, compressed", "kB", kilobytes, Bar(at_most=300))


class Server:
    """`piste web` on some CPUs; a context that ends it."""

    def __init__(self, piste: Piste, trace: pathlib.Path, cpus: Iterable[int] | None = None) -> None:
        own = sorted(cpus or os.sched_getaffinity(0))
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, own)), piste.binaries / "piste", "--json", "web", trace],
            env=piste.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        said = ""
        while not said.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise processes.Failed(f"piste web ended: {said}")
            said += line
        self.address = json.loads(said)["url"]

    def ask(self, path: str, method: str = "GET") -> bytes:
        with urllib.request.urlopen(urllib.request.Request(self.address + "api/" + path, method=method)) as answer:
            return answer.read()

    def make_timeline(self) -> float:
        """How long that takes, in seconds; nothing to speak of if it is there."""
        began = time.monotonic()
        self.ask("0/open", "POST")
        while (status := json.loads(self.ask("recordings"))[0])["state"] != "whole":
            if status["state"] == "failed":
                raise processes.Failed(f"there is no timeline: {status['problem']}")
            time.sleep(0.01)
        return time.monotonic() - began

    def peak_megabytes(self) -> float:
        """The most that was resident since it began."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        processes.end(self.process)
        self.process.stdout.close()


def making(results: Results, piste: Piste, trace: pathlib.Path) -> None:
    """The timeline on one CPU, beside `piste insights` on the same one, and on two."""
    cpus = sorted(os.sched_getaffinity(0))
    index = trace / TIMELINE
    seconds: dict[str, list[float]] = {"insights, one CPU": [], "index, one CPU": [], "index, two CPUs": []}
    peak = 0.0
    for _ in range(results.scale.viewer_rounds):
        began = time.monotonic()
        processes.command(["taskset", "-c", str(cpus[0]), piste.binaries / "piste", "insights", trace])
        seconds["insights, one CPU"].append(time.monotonic() - began)
        for name, own in (("index, one CPU", cpus[:1]), ("index, two CPUs", cpus[:2])):
            index.unlink(missing_ok=True)
            with Server(piste, trace, own) as server:
                seconds[name].append(server.make_timeline())
                peak = max(peak, server.peak_megabytes())
    insights, one, two = (results.add(NAME, f"making: {name}", "s", walls) for name, walls in seconds.items())
    results.ratio("making the index / insights, one CPU", one, insights, Bar(at_most=1.4))
    if len(cpus) > 1:
        results.ratio("making the index, one CPU / two", one, two, Bar(at_least=1.3))
    else:
        results.leave_out("making the index on two CPUs", "one CPU here")
    share = 100 * index.stat().st_size / 1e9 / gigabytes(trace)
    results.hold(NAME, "size of the index, of the trace's", "%", share, Bar(at_most=25))
    results.hold(NAME, "memory of the server, making the index", "MB", peak, Bar(at_most=500))


def first_paint(
    results: Results, piste: Piste, trace: pathlib.Path, size: str, with_index_ms: float, without_ms: float | None
) -> None:
    """From navigation to lanes with data. The server runs, the browser's cache is empty, nobody has opened the trace before."""
    index = trace / TIMELINE
    with_index, without = [], []
    for _ in range(results.scale.viewer_rounds):
        if without_ms is not None:
            index.unlink(missing_ok=True)
            with Server(piste, trace) as server:
                without.append(measured("paint", server)["ms"])
        if not index.exists():
            with Server(piste, trace) as server:
                server.make_timeline()
        with Server(piste, trace) as server:
            with_index.append(measured("paint", server)["ms"])
    for name, walls, most in (("index there", with_index, with_index_ms), ("no index", without, without_ms)):
        if walls:
            figure = results.add(NAME, f"first lanes, {size}, {name}", "ms", walls)
            results.hold(NAME, figure.name, "ms", figure.median, Bar(at_most=most))


def moving(results: Results, piste: Piste, trace: pathlib.Path, kind: str) -> None:
    """Hands zoom and move; the index is there."""
    with Server(piste, trace) as server:
        server.make_timeline()
        found = measured("frames", server, str(results.scale.viewer_s))
        peak = server.peak_megabytes()
    frames, replies = found["work_ms"], found["replies"]
    work = results.add(NAME, f"{kind}: main thread, for each frame", "ms", frames)
    results.add(NAME, f"{kind}: CPU time of that", "ms", found["work_cpu_ms"])
    results.add(NAME, f"{kind}: picture, in the worker", "ms", found["picture_ms"])
    apart = results.add(NAME, f"{kind}: from frame to frame", "ms", found["apart_ms"])
    times = results.add(NAME, f"{kind}: reply", "ms", [reply["ms"] for reply in replies])
    bytes_ = results.add(NAME, f"{kind}: size of a reply", "kB", [reply["bytes"] / 1000 for reply in replies])
    results.hold(NAME, f"{kind}: lanes that are seen", "", found["lanes"], None)
    late = 100 * sum(ms > 33 for ms in apart.samples) / len(apart.samples)
    for name, unit, value, bar in (
        ("main thread, for each frame", "ms", work.median, 8),
        ("main thread, for each frame, 95 %", "ms", work.percentile(95), 16),
        ("frames that come after more than 33 ms", "%", late, 5),
        ("reply, 95 %", "ms", times.percentile(95), 100),
        ("size of a reply, 95 %", "kB", bytes_.percentile(95), 200),
        ("heap of the viewer", "MB", found["heap_bytes"] / 1e6, 200),
        ("memory of the server", "MB", peak, 500),
    ):
        results.hold(NAME, f"{kind}: {name}", unit, value, Bar(at_most=bar))


def recorded(results: Results, piste: Piste, trace: pathlib.Path) -> None:
    """The same with a trace of this machine."""
    lack = instance.missing()
    if lack:
        results.leave_out("a recorded trace in the viewer", lack)
        return
    load = LOAD.format(seconds=results.scale.viewer_s)
    with piste:
        piste.piste("record", "-a", "-o", trace, "--", "bash", "-c", load)
    moving(results, piste, trace, "recorded")
    shutil.rmtree(trace)


def measured(what: str, server: Server, *arguments: str) -> dict:
    return json.loads(processes.command(["node", MEASURE, what, server.address, *arguments]))
