#!/usr/bin/env python3
"""A crawler's question, has this address been seen?, answered by a set and by a keyspace: what memory each takes.

    python examples/seen_set.py [ADDRESSES] [FILE.svg]

Each runs in a process of its own, on the same stream, in which every second address is new. Draws the plot in README.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import drawing

STEPS = 20
TOGETHER = 1000
KINDS = {"set": "a set of Python", "siltstone": "a keyspace, memory=\"16M\""}


def resident() -> float:
    """Returns the MiB of this process that are its own."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("RssAnon:")[2].split()[0]) / 1024


def adder(kind: str, directory: str) -> Callable[[list[bytes]], list[bool]]:
    if kind == "set":
        seen: set[bytes] = set()

        def add(urls: list[bytes]) -> list[bool]:
            new = []
            for url in urls:
                new.append(url not in seen)
                seen.add(url)
            return new

        return add
    import siltstone

    keyspace = siltstone.open(directory, memory="16M").keyspace("seen")
    return lambda urls: keyspace.add_many(urls)


def measure(kind: str, count: int) -> dict[str, list[float]]:
    """Returns the memory, and how many of the addresses were new, after each step."""
    with tempfile.TemporaryDirectory() as directory:
        add, before = adder(kind, directory), resident()
        memory, new = [0.0], [0.0]
        step = count // STEPS
        for at in range(0, step * STEPS, step):
            for begin in range(at, at + step, TOGETHER):
                numbers = range(begin, min(begin + TOGETHER, at + step))
                urls = [b"https://shop.example.org/catalogue/%d?page=%d" % (n // 2 * 7919, n // 2 % 13) for n in numbers]
                new[-1:] = [new[-1] + sum(add(urls))]
            memory.append(max(0.0, resident() - before))
            new.append(new[-1])
        return {"memory": memory, "new": new[:-1]}


def main() -> None:
    if sys.argv[1:2] == ["--run"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    results = {}
    for kind in KINDS:
        done = subprocess.run([sys.executable, __file__, "--run", kind, str(count)], capture_output=True, check=True)
        results[kind] = json.loads(done.stdout)
        print(f"{kind:10} {results[kind]['memory'][-1]:6.0f} MiB")
    assert results["set"]["new"] == results["siltstone"]["new"], "they differ in what was new"
    if len(sys.argv) > 2:
        labels = [f"{count * part // 4 // 1000} K" for part in range(5)]
        series = {KINDS[kind]: result["memory"] for kind, result in results.items()}
        Path(sys.argv[2]).write_text(drawing.lines("Memory of a seen-set, MiB, by addresses seen", labels, series))


if __name__ == "__main__":
    main()
