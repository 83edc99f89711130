"""Runs in processes of their own, one after the other, each with a record that makes it unnecessary next time.

    RESULTS/parameters.json      what is the same for all runs: others belong to another directory
    RESULTS/NAME.json            the record of a run: figures, or why there are none
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from confine import Group, resident


class Supervisor:
    """Starts runs that have no record yet."""

    def __init__(self, results: Path, parameters: dict[str, Any], *, again: bool) -> None:
        self.results, self.again = results, again
        results.mkdir(parents=True, exist_ok=True)
        path = results / "parameters.json"
        if path.exists() and json.loads(path.read_text()) != parameters:
            sys.exit(
                f"{results} holds results of other parameters, which cannot be compared with these; choose another --results\n"
                f"  there: {json.loads(path.read_text())}\n  now:   {parameters}"
            )
        _write(path, parameters)

    def record(self, name: str) -> dict[str, Any] | None:
        """Returns the record of a run, if there is one."""
        try:
            found: dict[str, Any] = json.loads((self.results / f"{name}.json").read_text())
        except FileNotFoundError:
            return None
        return None if self.again and "failed" in found else found

    def keep(self, name: str, record: dict[str, Any]) -> None:
        """Writes a record down, as a whole or not at all."""
        _write(self.results / f"{name}.json", record)

    def run(self, name: str, program: Path, request: dict[str, Any], *, cap: int, limit: float) -> dict[str, Any]:
        """Runs `program` with `request` under a cap of memory and a limit of time, and returns its record."""
        known = self.record(name)
        if known is not None:
            note(f"{name}: kept from before")
            return known
        note(f"{name} …")
        record = in_a_group(program, request, cap=cap, limit=limit)
        self.keep(name, record)
        note(f"{name}: {record['failed'] if 'failed' in record else 'done'} ({record['took']:.0f} s)")
        return record


def in_a_group(program: Path, request: dict[str, Any], *, cap: int, limit: float) -> dict[str, Any]:
    """Runs `program` once, in a group of its own. It prints its figures as JSON in its last line."""
    group = Group(f"siltstone-bench-{os.getpid()}", cap)
    request = {**request, "group": str(group.path) if group.path else None}
    begin, most = time.monotonic(), 0
    command = [sys.executable, program, json.dumps(request)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    in_time = True
    try:
        while True:
            try:
                out, err = child.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                most = max(most, resident(child.pid))
                if time.monotonic() - begin > limit:
                    in_time = False
                    child.kill()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        # What the group still holds of files is written back when it is removed, which is none of the run's time.
        took, kills, peak = time.monotonic() - begin, group.kills(), group.peak()
        group.remove()
    record: dict[str, Any] = {"capped": group.path is not None, "took": took, "peak": peak}
    if child.returncode == 0:
        return {**json.loads(out.splitlines()[-1]), "allocated": most, **record}
    if kills:
        return {"failed": f"killed for memory at {cap >> 20} MiB", **record}
    if not in_time:
        return {"failed": f"killed after {limit:.0f} s", **record}
    lines = err.strip().splitlines() or [f"exit code {child.returncode}"]
    return {"failed": lines[-1], "said": err[-4000:], **record}


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def number(text: str) -> int:
    """Reads a number as people write it: 10M is ten million."""
    units = {"K": 1000, "M": 1000**2, "G": 1000**3}
    digits = text.strip().upper()
    return int(float(digits.rstrip("KMG")) * units.get(digits[-1:], 1))


def size(text: str) -> int:
    """Reads bytes as people write them: 512M is 512 MiB."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    digits = text.strip().upper()
    return int(float(digits.rstrip("KMG")) * units.get(digits[-1:], 1))


def _write(path: Path, value: Any) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, indent=1) + "\n")
    part.replace(path)
