#!/usr/bin/env python3
"""Makes the plots of tutorial.md with the installed package: `python examples/plots.py [ITEMS]`, written to images/."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import drawing
import numpy as np

import siltstone

IMAGES = Path(__file__).resolve().parents[1] / "images"
TOGETHER = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
DIM = 50


def rate(call: Callable[[list[bytes]], object], keys: list[bytes], together: int) -> float:
    """Returns the thousands of keys a second of processor time that `call` takes, so many at a time, at best."""
    best = 0.0
    for _ in range(5):
        begin = time.thread_time()
        for at in range(0, len(keys), together):
            call(keys[at : at + together])
        best = max(best, len(keys) / (time.thread_time() - begin) / 1000)
    return best


def many_at_a_time(count: int) -> str:
    """Rates of reading rows of 50 numbers, by how many keys a call has."""
    with tempfile.TemporaryDirectory() as directory, siltstone.open(directory, memory="256M") as store:
        vectors = store.keyspace("vectors")
        keys = [b"v%08d" % n for n in range(count)]
        vectors.bulk_build([(keys, np.random.default_rng(1).random((count, DIM), dtype="f4"))])
        asked = random.Random(1).sample(keys, min(count, 20_000))
        calls = {
            "get, one after the other": lambda some: [vectors.get(key) for key in some],
            "get_many": vectors.get_many,
            "get_array": lambda some: vectors.get_array(some, "f4", DIM),
        }
        for call in calls.values():
            call(asked)
        found = {name: [rate(call, asked, together) for together in TOGETHER] for name, call in calls.items()}
    labels = [str(together) for together in TOGETHER]
    return drawing.lines("Rows of 50 numbers read, thousands a second, by keys in a call", labels, found)


def predicted_and_measured(count: int) -> str:
    """Bytes written per byte put, as a keyspace grows."""
    steps, found = 20, {"measured": [], "predicted": []}
    with tempfile.TemporaryDirectory() as directory, siltstone.open(directory, memory="16M") as store:
        items = store.keyspace("items")
        generator = random.Random(1)
        for _ in range(steps):
            for _ in range(max(1, count // steps // 1000)):
                items.put_many([generator.randbytes(16) for _ in range(1000)], [bytes(100)] * 1000)
            store.wait_until_idle()
            stats = items.stats()
            for name, values in found.items():
                values.append(stats[name]["write_amplification"] or 0.0)
    # Nothing is predicted before there were some flushes.
    begin = sum(value == 0 for value in found["predicted"])
    found = {name: values[begin:] for name, values in found.items()}
    each = max(1, count // steps // 1000)
    labels = [f"{(begin + 1 + (steps - begin - 1) * part // 4) * each} K" for part in range(5)]
    return drawing.lines("Bytes written into tables per byte put, by items put", labels, found, digits=1)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    images = Path(sys.argv[2]) if len(sys.argv) > 2 else IMAGES
    (images / "many-at-a-time.svg").write_text(many_at_a_time(count // 20))
    (images / "predicted.svg").write_text(predicted_and_measured(count))


if __name__ == "__main__":
    main()
