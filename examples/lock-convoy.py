# SPDX-License-Identifier: MIT OR Apache-2.0
"""Four threads count the same words. They share nothing else, but Python lets one of them run at a time."""

import threading

WORDS = ("it was the best of times it was the worst of times " * 20_000).split()


def count():
    counts = {}
    for _ in range(20):
        for word in WORDS:
            counts[word] = counts.get(word, 0) + 1


threads = [threading.Thread(target=count) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
