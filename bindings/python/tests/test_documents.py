"""The documents' code runs, and what README.md shows is what comes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import siltstone

HERE = Path(__file__).resolve().parents[1]


def blocks(document):
    return re.findall(r"^```python\n(.*?)^```", (HERE / document).read_text(), re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs(tmp_path, monkeypatch):
    pytest.importorskip("numpy")
    monkeypatch.chdir(tmp_path)
    code = blocks("tutorial.md")
    assert len(code) >= 10
    names = {}
    for number, block in enumerate(code):
        exec(compile(block, f"tutorial.md, block {number}", "exec"), names)  # noqa: S102


def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, seen, rows, build = blocks("README.md")
    # Lines that show a value say what it is.
    shown = re.sub(r"^( *)(\S.*?) +# (b'.*|\[.*)$", r"\1assert \2 == \3", first, flags=re.MULTILINE)
    shown = shown.replace("# both, in order", "")
    assert shown.count("assert") == 2
    exec(shown, {})  # noqa: S102
    fetched, batches = [], [[b"a", b"b"], [b"b", b"c"]]
    exec(seen, {"siltstone": siltstone, "links": None, "batches_of": lambda *_: batches, "fetch": fetched.append})  # noqa: S102
    assert fetched == [b"a", b"b", b"c"]
    np = pytest.importorskip("numpy")
    with siltstone.open("vectors") as store:
        given = {"vectors": store.keyspace("vectors"), "keys": [b"a"], "rows": np.ones((1, 50), dtype="f4"), "numpy": np}
        exec(rows, given)  # noqa: S102
        assert given["found"].tolist() == [True] and len(given["ids"]) == 1000
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"id": [b"u1", b"u2"], "name": ["Ada", "Bob"]}), "users.parquet")
        exec(build, {"pyarrow": pyarrow, "store": store})  # noqa: S102
        assert dict(store.keyspace("users")) == {b"u1": b"Ada", b"u2": b"Bob"}


def test_the_plots_are_made(tmp_path):
    pytest.importorskip("numpy")
    subprocess.run([sys.executable, HERE / "examples" / "plots.py", "200000", tmp_path], check=True)
    done = subprocess.run(
        [sys.executable, HERE / "examples" / "seen_set.py", "40000", tmp_path / "seen-set.svg"], capture_output=True, check=True
    )
    assert b"siltstone" in done.stdout
    for name in ("many-at-a-time", "predicted", "seen-set"):
        text = (tmp_path / f"{name}.svg").read_text()
        assert text.startswith("<svg") and text.count("<polyline") >= 2 and (HERE / "images" / f"{name}.svg").exists()
