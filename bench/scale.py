# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much is measured: enough for figures, or just enough to see that everything runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    shows_only: bool  # That everything runs: the figures say nothing.
    rounds: int  # Of each event.
    round_ms: float  # How long a round is meant to take.
    starts: int  # Of each program, in each situation.
    programs: int  # Registered at once.
    traced_events: int  # Under strace; the second run has twice as many.
    disk_rounds: int
    disk_events: int  # In each round.
    kernel_blocks: int  # Of rounds with each tracer of the kernel.
    kernel_calls: int  # In each round.
    kernel_consumer_rounds: int
    kernel_consumer_calls: int  # In each round; two events each.
    reading_user_events: int
    reading_kernel_events: int
    reading_large_bytes: int
    reading_rounds: int  # Against babeltrace2, which takes long.
    reading_short_rounds: int
    attack_s: float  # All attacks at once.
    attack_alone_s: float  # Each.
    frozen_events: int  # Of the session beside the frozen disk.
    silent_programs: int
    silent_s: float
    viewer_cpus: int  # Of the machine that was recorded.
    viewer_threads: int
    viewer_events: int
    viewer_large_events: int
    viewer_rounds: int
    viewer_s: float  # How long hands zoom and move.


FULL = Scale(
    shows_only=False,
    rounds=101,
    round_ms=8,
    starts=200,
    programs=300,
    traced_events=200_000,
    disk_rounds=7,
    disk_events=5_000_000,
    kernel_blocks=7,
    kernel_calls=100_000,
    kernel_consumer_rounds=3,
    kernel_consumer_calls=5_000_000,
    reading_user_events=9_000_000,
    reading_kernel_events=10_000_000,
    reading_large_bytes=5_000_000_000,
    reading_rounds=5,
    reading_short_rounds=11,
    attack_s=60,
    attack_alone_s=5,
    frozen_events=10_000_000,
    silent_programs=1_000,
    silent_s=20,
    viewer_cpus=32,
    viewer_threads=10_000,
    viewer_events=50_000_000,
    viewer_large_events=350_000_000,
    viewer_rounds=5,
    viewer_s=20,
)
QUICK = Scale(
    shows_only=True,
    rounds=3,
    round_ms=0.2,
    starts=3,
    programs=5,
    traced_events=1_000,
    disk_rounds=1,
    disk_events=20_000,
    kernel_blocks=1,
    kernel_calls=1_000,
    kernel_consumer_rounds=1,
    kernel_consumer_calls=10_000,
    reading_user_events=9_000,
    reading_kernel_events=10_000,
    reading_large_bytes=5_000_000,
    reading_rounds=1,
    reading_short_rounds=1,
    attack_s=0.5,
    attack_alone_s=0.1,
    frozen_events=20_000,
    silent_programs=5,
    silent_s=0.2,
    viewer_cpus=4,
    viewer_threads=200,
    viewer_events=50_000,
    viewer_large_events=100_000,
    viewer_rounds=1,
    viewer_s=1,
)
