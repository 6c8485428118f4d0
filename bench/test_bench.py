# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmarks run, every row comes out, nothing stays behind, and verdicts are computed right. No time is asserted.

python3 -m unittest bench/test_bench.py, after `make build`. PISTE_BUILD names another build tree.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from typing import Any

sys.dont_write_bytecode = True
BENCH = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

import everybodys
import frozen_disk
import processes
import system_calls
from results import Bar, Figure, Results
from scale import FULL, QUICK


class QuickRun(unittest.TestCase):
    """One `bench/run --quick`, looked at from several sides."""

    done: subprocess.CompletedProcess[str]
    document: dict[str, Any]
    left_behind: list[str]

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "bench.json"
            environment = os.environ | {"TMPDIR": folder}
            build = os.environ.get("PISTE_BUILD", str(BENCH.parent / "build"))
            command = [str(BENCH / "run"), "--quick", "--build", build, "--output", str(output)]
            cls.done = subprocess.run(command, env=environment, capture_output=True, text=True)
            cls.document = json.loads(output.read_text()) if output.exists() else {}
            output.unlink(missing_ok=True)
            cls.left_behind = [path.name for path in pathlib.Path(folder).iterdir()]

    def test_it_succeeds(self) -> None:
        self.assertEqual(self.done.returncode, 0, self.done.stderr)

    def test_every_event_has_a_figure(self) -> None:
        left_out = {left["what"] for left in self.document["left_out"]}
        tracers = {"Piste", "LTTng-UST"} - left_out
        expected = {"clock read alone", "prototype ring, 2 threads"} | {f"{tracer}, overwrite, 64 bytes" for tracer in tracers}
        self.assertLessEqual(expected, {figure["name"] for figure in self.document["figures"]})

    def test_every_benchmark_has_a_comparison(self) -> None:
        left_out = {left["what"] for left in self.document["left_out"]}
        expected = {"event-cost", "start-up", "memory"} | (
            {"system-calls"} if "system calls" not in left_out else set()
        )
        self.assertLessEqual(expected, {comparison["benchmark"] for comparison in self.document["comparisons"]})

    def test_the_recording_thread_makes_no_system_call_for_an_event(self) -> None:
        if "strace" in str(self.document["left_out"]):
            self.skipTest("no strace here")
        calls = [
            each["value"] for each in self.document["comparisons"] if each["name"].startswith("Piste: system calls")
        ]
        self.assertEqual(calls, [0])

    def test_it_gives_no_verdict(self) -> None:
        self.assertEqual({comparison["met"] for comparison in self.document["comparisons"]}, {None})

    def test_it_leaves_no_file(self) -> None:
        self.assertEqual(self.left_behind, [])


class Verdicts(unittest.TestCase):
    def test_a_bar_holds_for_what_is_shown(self) -> None:
        self.assertTrue(Bar(at_most=1).met(1.004))
        self.assertFalse(Bar(at_most=1).met(1.006))
        self.assertTrue(Bar(at_least=6).met(5.996))
        self.assertFalse(Bar(at_least=6).met(5.99))

    def test_a_missed_bar_is_marked(self) -> None:
        results = Results(FULL)
        results.hold("any", "too much", "", 2, Bar(at_most=1))
        results.hold("any", "little enough", "", 0.5, Bar(at_most=1))
        lines = [line for line in results.table().splitlines() if "much" in line or "enough" in line]
        self.assertEqual([line.split()[-1] for line in lines], ["MISSED", "met"])

    def test_quick_figures_are_not_judged(self) -> None:
        results = Results(QUICK)
        results.hold("any", "too much", "", 2, Bar(at_most=1))
        self.assertNotIn("MISSED", results.table())

    def test_a_ratio_of_something_left_out_is_left_out(self) -> None:
        results = Results(FULL)
        results.ratio("ratio", Figure("any", "one", "ns", [1, 2, 6]), None)
        results.ratio("ratio", Figure("any", "one", "ns", [1, 2, 6]), Figure("any", "two", "ns", [4, 4, 5]))
        self.assertEqual([comparison.value for comparison in results.comparisons], [0.5])

    def test_the_same_beside_a_hog_is_shown_and_not_judged(self) -> None:
        results = Results(FULL)
        results.hold("any", "with one", "ms", 0, Bar(at_most=1), beside_hog=7)
        results.hold("any", "without", "ms", 0, Bar(at_most=1))
        lines = [line for line in results.table().splitlines() if line.startswith("with")]
        self.assertEqual([line.split("met")[1].strip() for line in lines], ["beside a hog: 7.00", ""])
        values = [comparison["beside_hog"] for comparison in json.loads(results.json())["comparisons"]]
        self.assertEqual(values, [7, None])

    def test_percentiles(self) -> None:
        figure = Figure("any", "hundred and one", "ns", [float(number) for number in range(100, -1, -1)])
        percentiles = [figure.percentile(percent) for percent in (0, 95, 99, 100)]
        self.assertEqual((figure.median, percentiles), (50, [0, 95, 99, 100]))


class SystemCalls(unittest.TestCase):
    def test_calls_count_from_answer_to_answer(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "strace"
            pathlib.Path(f"{output}.1").write_text("read(9, ...) = 1\n")
            pathlib.Path(f"{output}.2").write_text(
                'execve("program")\nwrite(1, "1")\nread(0)\n--- SIGCHLD ---\nwrite(1, "2")\n'
                'read(0)\nfutex()\nwrite(1, "3")\n+++ exited +++\n'
            )
            self.assertEqual(system_calls.calls_between_answers(output), [2, 2, 3, 0])


class Hostile(unittest.TestCase):
    """`bench/run --quick --hostile`, and what it counts."""

    def test_every_row_comes_out(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "hostile.json"
            build = os.environ.get("PISTE_BUILD", str(BENCH.parent / "build"))
            command = [str(BENCH / "run"), "--quick", "--hostile", "--build", build, "--output", str(output)]
            done = subprocess.run(command, env=os.environ | {"TMPDIR": folder}, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            document = json.loads(output.read_text())
            output.unlink()
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], [])
        rows = {}
        for comparison in document["comparisons"]:
            rows[comparison["benchmark"]] = rows.get(comparison["benchmark"], 0) + 1
        expected = {"hostile-attack": 8, "hostile-disk": 6, "hostile-silent": 2}
        left_out = {left["what"] for left in document["left_out"]}
        for benchmark, what in (
            ("hostile-attack", "attacks"),
            ("hostile-disk", "a frozen disk"),
            ("hostile-silent", "silent programs"),
        ):
            if what in left_out:
                del expected[benchmark]
        self.assertEqual(rows, expected, document["left_out"])
        uncounted = [each["value"] for each in document["comparisons"] if "neither written nor counted" in each["name"]]
        self.assertEqual(uncounted, [0] * ("hostile-disk" in expected))
        if len(expected) < 3:
            self.skipTest(f"left out: {document['left_out']}")

    def test_more_than_there_was_is_no_gain(self) -> None:
        self.assertEqual(everybodys.missing_of(10, 7, "events"), 3)
        self.assertRaises(processes.Failed, everybodys.missing_of, 10, 11, "events")


class FrozenDisks(unittest.TestCase):
    def setUp(self) -> None:
        lack = frozen_disk.missing()
        if lack:
            self.skipTest(lack)

    def test_a_disk_is_thawed_when_its_user_is_killed(self) -> None:
        program = (
            "import pathlib, sys, time, frozen_disk\n"
            "with frozen_disk.FrozenDisk(pathlib.Path(sys.argv[1])) as disk:\n"
            "    disk.freeze()\n"
            "    print('frozen', disk.helper.pid, flush=True)\n"
            "    time.sleep(3600)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", program, folder]
            user = subprocess.Popen(command, cwd=BENCH, stdout=subprocess.PIPE, text=True)
            word, helper = user.stdout.readline().split()
            self.assertEqual(word, "frozen")
            user.kill()
            user.communicate()
            mounted = pathlib.Path(folder) / "mounted"
            processes.wait_until("the disk is gone", lambda: not mounted.is_mount())
            processes.wait_until("its helper has ended", lambda: not pathlib.Path(f"/proc/{helper}").exists())
            self.assertNotIn(folder, pathlib.Path("/proc/self/mounts").read_text())


if __name__ == "__main__":
    unittest.main()
