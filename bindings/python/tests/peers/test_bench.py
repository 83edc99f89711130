"""The benchmarks, small: every workload runs and checks its answers, and a second run makes nothing again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
# Nothing is built here: the share of Rust's rate is left out.
WITHOUT_CARGO = {**os.environ, "PATH": os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if "cargo" not in part)}


def run(program, *arguments, code=0):
    done = subprocess.run(
        [sys.executable, BENCH / program, *map(str, arguments)], capture_output=True, text=True, check=False, env=WITHOUT_CARGO
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_the_contest(tmp_path):
    stores = "siltstone,sqlite3,set"
    given = ["--items", "20K", "--memory-cap", "256M", "--seconds", 0.3, "--only", stores]
    given += ["--dir", tmp_path / "stores", "--results", tmp_path / "results"]
    table, _ = run("contest.py", *given)
    for row in ("load", "get, one", "`get_many`", "absent", "put, one", "addresses", "from arrays", "into arrays", "memory", "space"):
        assert row in table
    for store in ("siltstone", "sqlite3"):
        for workload in ("cached", "items", "seen", "rows"):
            record = json.loads((tmp_path / "results" / f"{store}-{workload}.json").read_text())
            assert all(figure["items"] > 0 and figure["seconds"] > 0 for figure in record["figures"].values())
            assert record["allocated"] > 0 and record["space"] > 0
    assert not any((tmp_path / "stores").iterdir())
    again, said = run("contest.py", *given)
    assert again == table and said.count("kept from before") == 9
    given[1] = "30K"
    _, said = run("contest.py", *given, code=1)
    assert "results of other parameters" in said


def test_a_run_that_fails_is_a_record(tmp_path):
    """Python's set does not fit into 40 MiB beside the interpreter."""
    given = ["--items", "2M", "--memory-cap", "40M", "--only", "set", "--workloads", "seen"]
    given += ["--dir", tmp_path / "stores", "--results", tmp_path / "results"]
    table, said = run("contest.py", *given)
    record = json.loads((tmp_path / "results" / "set-seen.json").read_text())
    if not record["capped"]:
        pytest.skip("no control group can be made here")
    assert record["failed"] == "killed for memory at 40 MiB" and "set: killed for memory" in table


@pytest.mark.skipif(not shutil.which("redis-server"), reason="there is no redis-server on the path")
def test_the_features(tmp_path):
    pytest.importorskip("feast")
    given = ["--entities", "3000", "--seconds", 0.3, "--dir", tmp_path / "stores", "--results", tmp_path / "results"]
    table, _ = run("features.py", *given)
    assert "3,000 entities of 20 features" in table and table.count("`get_online_features` of") == 6
    again, said = run("features.py", *given)
    assert again == table and "siltstone: kept" in said and "redis: kept" in said
