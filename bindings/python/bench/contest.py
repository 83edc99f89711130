#!/usr/bin/env python3
"""The package beside other stores that Python has, in one run, under one memory cap.

    python bindings/python/run.py bench --items 10M --memory-cap 512M --dir DIR --results RESULTS

| workload | is                                                                                                        |
|----------|-----------------------------------------------------------------------------------------------------------|
| cached   | a twentieth of the items, which fits into the cap: loaded, then read after reopening                        |
| items    | all of them: 16 and 100 bytes in random order, 1000 at a time, atomically; then, after reopening and twenty  |
|          | seconds to warm up, gets one at a time, gets of 100 by whatever call the store has for many keys, gets of     |
|          | keys that are not there, puts one at a time                                                               |
| seen     | a stream of addresses, 99 at a time, each asked for and added where it is new; two of three are new          |
| rows     | a tenth as many rows of 50 numbers of 4 bytes, 1000 at a time from an array; back into arrays, 100 at a time  |

Each run is a process of its own in a memory control group of its own, page cache included; half of the cap is the store's budget.
A run that has its record in RESULTS is not made again, so the same command goes on where it was interrupted. Loads end after
`--budget` seconds, and count for what they have done by then; what reads or puts goes on for `--seconds`. Rates are of the clock;
beside them stands what an item takes of processor time, all threads counted, and how many times as fast ours is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from stores import STORES
from supervise import Supervisor, note, number, size

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "workloads.py"
SHARES = {"cached": 20, "items": 1, "seen": 1, "rows": 10}
# What is measured of each, as it is called in the table.
ROWS = {
    "load": "load, 1000 at a time",
    "get": "get, one at a time",
    "get_many": "`get_many` of 100",
    "miss": "get of absent keys",
    "put": "put, one at a time",
    "seen": "addresses, 99 at a time",
    "rows_put": "rows of 50 numbers from arrays",
    "rows_get": "the same into arrays, 100 at a time",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=number, default=1_000_000, help="such as 10M; 1M unless given")
    parser.add_argument("--memory-cap", type=size, default=512 << 20, help="such as 512M, which it is unless given")
    parser.add_argument("--budget", type=float, default=240, help="seconds that a load may take; 240")
    parser.add_argument("--seconds", type=float, default=20, help="seconds of reads or puts; 20")
    parser.add_argument("--dir", type=Path, default=HERE.parent / "target" / "bench", help="where stores are made")
    parser.add_argument("--results", type=Path, default=HERE.parent / "target" / "bench-results", help="where records are kept")
    parser.add_argument("--only", default=",".join(STORES), help="stores, with commas between them")
    parser.add_argument("--workloads", default=",".join(SHARES), help="workloads, with commas between them")
    parser.add_argument("--again", action="store_true", help="repeats runs that have failed")
    given = parser.parse_args()
    stores, workloads = given.only.split(","), given.workloads.split(",")
    for name in (*stores, *workloads):
        if name not in (*STORES, *SHARES):
            parser.error(f"there is no {name}; stores are {', '.join(STORES)}, workloads {', '.join(SHARES)}")
    names = ("items", "memory_cap", "budget", "seconds")
    supervisor = Supervisor(given.results, {name: getattr(given, name) for name in names}, again=given.again)
    rate = rust() if "siltstone" in stores else None
    for workload in workloads:
        for store in stores:
            if store != "set" or workload == "seen":
                run(supervisor, given, store, workload, rate)
    text = report(supervisor, given, stores, workloads)
    (given.results / "tables.md").write_text(text)
    print(text)


def rust() -> Path | None:
    """Builds the program that measures the same in Rust; None where there is no Rust."""
    if not shutil.which("cargo"):
        return None
    profile = os.environ.get("SILTSTONE_PROFILE", "release")
    subprocess.run(
        ["cargo", "build", "-q", "--locked", "--profile", profile, "-p", "siltstone-rate"], cwd=HERE.parent, check=True
    )
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
    return target / profile / "siltstone-rate"


def run(supervisor: Supervisor, given: Any, store: str, workload: str, rate: Path | None) -> None:
    """Makes one run in an empty directory, and for ours the runs beside Rust on what it has left there."""
    name, directory = f"{store}-{workload}", given.dir / f"{store}-{workload}"
    if supervisor.record(name) is None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    memory = given.memory_cap // 2
    count = max(1000, given.items // SHARES[workload])
    request = {"store": store, "workload": workload, "dir": str(directory), "memory": memory, "count": count}
    request |= {"budget": given.budget, "seconds": given.seconds}
    cap, limit = given.memory_cap, 4 * given.budget + 20 * given.seconds + 300
    beside_rust = store == "siltstone" and workload in ("cached", "items") and rate is not None
    if beside_rust:
        request["asked"] = str(directory / "asked")
    record = supervisor.run(name, PROGRAM, request, cap=cap, limit=limit)
    if beside_rust and "failed" not in record and directory.exists():
        for turn in range(3):
            for kind in ("thread", "rust"):
                again = {**request, "workload": kind, "rate": str(rate)}
                supervisor.run(f"{name}-{kind}-{turn}", PROGRAM, again, cap=cap, limit=limit)
    shutil.rmtree(directory, ignore_errors=True)


def report(supervisor: Supervisor, given: Any, stores: list[str], workloads: list[str]) -> str:
    """Returns the tables: thousands of items a second, processor time an item, and how many times as fast ours is."""
    cap, lines = given.memory_cap >> 20, []
    for workload in workloads:
        records = {store: supervisor.record(f"{store}-{workload}") for store in stores}
        records = {store: record for store, record in records.items() if record is not None}
        if not records:
            continue
        count = max(1000, given.items // SHARES[workload])
        capped = "" if all(record["capped"] for record in records.values()) else " (NOT CAPPED: no control group could be made)"
        lines += [f"\n**{workload}**: {count:,} under {cap} MiB{capped}\n", "| | " + " | ".join(records) + " |"]
        lines.append("|---" * (1 + len(records)) + "|")
        ours = records.get("siltstone", {}).get("figures", {})
        for name, title in ROWS.items():
            if any(name in record.get("figures", {}) for record in records.values()):
                lines.append(f"| {title} | " + " | ".join(cell(store, name, record, ours) for store, record in records.items()) + " |")
        memory = [mib(max(0, record["allocated"] - record["before"])) if "figures" in record else "–" for record in records.values()]
        lines.append("| memory allocated beside the interpreter | " + " | ".join(memory) + " |")
        lines.append("| space | " + " | ".join(mib(record["space"]) if "figures" in record else "–" for record in records.values()) + " |")
        lines += [f"\n{store}: {record['failed']}" for store, record in records.items() if "failed" in record]
        lines += beside_rust(supervisor, workload)
    return "\n".join(lines) + "\n"


def rate_of(figure: dict[str, Any]) -> float:
    return float(figure["items"] / max(figure["seconds"], 1e-9))


def cell(store: str, name: str, record: dict[str, Any], ours: dict[str, Any]) -> str:
    figure = record.get("figures", {}).get(name)
    if figure is None:
        return "–"
    rate = rate_of(figure)
    text = f"{rate / 1000:.0f} K/s" if rate >= 10_000 else f"{rate / 1000:.1f} K/s"
    text += f", {1e6 * figure['processor'] / max(figure['items'], 1):.1f} µs"
    if store != "siltstone" and name in ours:
        text += f" ({rate_of(ours[name]) / rate:.1f} ×)"
    if name in ("load", "seen", "rows_put") and not figure["ended"]:
        text += f", {figure['items'] / 1e6:.2g} M by then"
    return text


def mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"


def beside_rust(supervisor: Supervisor, workload: str) -> list[str]:
    shares = []
    for turn in range(3):
        both = [supervisor.record(f"siltstone-{workload}-{kind}-{turn}") for kind in ("thread", "rust")]
        if all(record and "figures" in record for record in both):
            python, rust = (record["figures"][kind]["seconds"] for record, kind in zip(both, ("thread", "rust"), strict=True))  # type: ignore[index]
            shares.append(rust / python)
    if not shares:
        return []
    middle = sorted(shares)[len(shares) // 2]
    each = ", ".join(f"{100 * share:.0f}" for share in shares)
    return [f"\n`get_many` runs at {100 * middle:.0f} % of the rate of `multi_get` in Rust ({each} %)."]


if __name__ == "__main__":
    main()
