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

STEPS = 20
TOGETHER = 1000
KINDS = {"set": ("a set of Python", "#b05030"), "siltstone": ("a keyspace, memory=\"16M\"", "#206090")}


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


def plot(results: dict[str, dict[str, list[float]]], count: int) -> str:
    """Draws memory by the number of addresses."""
    width, height, left, bottom = 640, 320, 56, 40
    most = max(max(result["memory"]) for result in results.values()) * 1.05
    across, up = (width - left - 20) / STEPS, (height - bottom - 40) / most
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="22" font-weight="bold">Memory of a seen-set, MiB, by addresses seen</text>',
    ]
    for part in range(5):
        value = most * part / 4
        y = height - bottom - value * up
        lines.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d8d8d8"/>')
        lines.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.0f}</text>')
        x = left + across * STEPS * part / 4
        anchor = "end" if part == 4 else "middle"
        lines.append(f'<text x="{x:.1f}" y="{height - 16}" text-anchor="{anchor}">{count * part // 4 // 1000} K</text>')
    for kind, result in results.items():
        name, colour = KINDS[kind]
        points = [(left + across * n, height - bottom - value * up) for n, value in enumerate(result["memory"])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        x, y = points[STEPS * 3 // 4]
        lines.append(f'<text x="{x - 8:.1f}" y="{y - 8:.1f}" text-anchor="end" fill="{colour}">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


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
        Path(sys.argv[2]).write_text(plot(results, count))


if __name__ == "__main__":
    main()
