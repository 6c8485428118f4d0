# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts words in four threads, each in a text of its own. Python lets one thread run at a time."""

import threading

TEXT = "it was the best of times it was the worst of times " * 400_000


def count():
    counts = {}
    for word in TEXT.split():
        counts[word] = counts.get(word, 0) + 1


threads = [threading.Thread(target=count) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
