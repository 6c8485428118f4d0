# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a byte when it is told of one, two hundred times, and one time computes for 200 ms before it asks again.

It raises its own priority, which only root may do, so that busy programs do not keep it from computing then."""

import os
import select
import time

os.nice(-15)
end, begin = os.pipe()
events = select.poll()
events.register(end)
for turn in range(200):
    os.write(begin, b"x")
    events.poll()
    os.read(end, 1)
    until = time.process_time() + 0.2
    while turn == 150 and time.process_time() < until:
        pass
