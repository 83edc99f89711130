#!/usr/bin/env python3
"""The package beside other stores that Python has, in one run: each in a process of its own, with the same memory.

    python bindings/python/run.py bench [--items 200000] [--memory 32M] [--only siltstone,lmdb] [--json FILE]

| workload   | is                                                                                          |
|------------|---------------------------------------------------------------------------------------------|
| load       | items of 16 and 100 bytes in random order, 1000 at a time, atomically                        |
| put        | one at a time, buffered                                                                     |
| get        | one at a time, keys that are there, in random order, after reopening                         |
| get_many   | the same, 100 at a time, by whatever call the store has for many keys                        |
| miss       | one at a time, keys that are not there                                                      |
| seen       | a stream of addresses, each asked for and added where it is new, 100 at a time; half are new   |
| rows_put   | rows of 50 numbers of 4 bytes, 1000 at a time, from a NumPy array                           |
| rows_get   | the same back into an array, 100 at a time in random order                                   |

`memory` is the budget for caches and write buffers, as each store names it. SQLite has its page cache set to it; LMDB has no
such number: what it maps belongs to the system. Rates are of processor time of the process, all its threads, since machines
are shared; `peak` is what was resident at most beside the interpreter, files that were mapped included.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DIM = 50


class Siltstone:
    def __init__(self, path: Path, memory: int) -> None:
        import siltstone

        self.store = siltstone.open(path, memory=memory)
        self.items = self.store.keyspace("items")
        self.many = self.items.get_many
        self.get, self.put = self.items.get, self.items.__setitem__

    def load(self, keys: list[bytes], values: list[bytes]) -> None:
        self.items.put_many(keys, values)

    def seen(self, keys: list[bytes]) -> list[bool]:
        return self.items.add_many(keys)

    def rows_put(self, keys: list[bytes], rows: Any) -> None:
        self.items.put_array(keys, rows)

    def rows_get(self, keys: list[bytes]) -> Any:
        return self.items.get_array(keys, "f4", DIM)[0]

    def close(self) -> None:
        self.store.close()


class ByItem:
    """What stores without calls for many items do."""

    get: Callable[[bytes], bytes | None]
    load: Callable[[list[bytes], list[bytes]], None]

    def many(self, keys: list[bytes]) -> list[bytes | None]:
        get = self.get
        return [get(key) for key in keys]

    def seen(self, keys: list[bytes]) -> list[bool]:
        fresh, found = {}, []
        for key, value in zip(keys, self.many(keys), strict=True):
            is_new = value is None and key not in fresh
            found.append(is_new)
            if is_new:
                fresh[key] = b""
        self.load(list(fresh), list(fresh.values()))
        return found

    def rows_put(self, keys: list[bytes], rows: Any) -> None:
        self.load(keys, [row.tobytes() for row in rows])

    def rows_get(self, keys: list[bytes]) -> Any:
        found = self.many(keys)
        return np.frombuffer(b"".join(row for row in found if row), dtype="f4").reshape(len(keys), DIM)


class RocksDict(ByItem):
    def __init__(self, path: Path, memory: int) -> None:
        from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, Rdict, WriteBatch

        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(DBCompressionType.none())
        options.set_write_buffer_size(memory // 8)
        options.set_max_write_buffer_number(2)
        table = BlockBasedOptions()
        table.set_block_cache(Cache(memory * 3 // 4))
        table.set_cache_index_and_filter_blocks(True)
        table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        self.db, self.batch = Rdict(str(path), options), WriteBatch
        self.get, self.put = self.db.get, self.db.__setitem__

    def many(self, keys: list[bytes]) -> list[bytes | None]:
        return self.db[keys] if keys else []

    def load(self, keys: list[bytes], values: list[bytes]) -> None:
        batch = self.batch(raw_mode=True)
        for key, value in zip(keys, values, strict=True):
            batch[key] = value
        self.db.write(batch)

    def seen(self, keys: list[bytes]) -> list[bool]:
        return super().seen(keys)

    def close(self) -> None:
        self.db.close()


class Lmdb(ByItem):
    def __init__(self, path: Path, memory: int) -> None:
        import lmdb

        self.env = lmdb.open(str(path), map_size=8 << 30, sync=False, metasync=False, writemap=False)

    def get(self, key: bytes) -> bytes | None:
        with self.env.begin() as transaction:
            return transaction.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        with self.env.begin(write=True) as transaction:
            transaction.put(key, value)

    def many(self, keys: list[bytes]) -> list[bytes | None]:
        with self.env.begin() as transaction:
            return [transaction.get(key) for key in keys]

    def load(self, keys: list[bytes], values: list[bytes]) -> None:
        with self.env.begin(write=True) as transaction:
            transaction.cursor().putmulti(list(zip(keys, values, strict=True)))

    def close(self) -> None:
        self.env.close()


class Sqlite(ByItem):
    def __init__(self, path: Path, memory: int) -> None:
        import sqlite3

        path.mkdir(exist_ok=True)
        self.db = sqlite3.connect(path / "db", isolation_level=None)
        for setting in ("journal_mode=WAL", "synchronous=OFF", f"cache_size=-{memory >> 10}"):
            self.db.execute(f"pragma {setting}").fetchall()
        self.db.execute("create table if not exists items(key blob primary key, value blob) without rowid")

    def get(self, key: bytes) -> bytes | None:
        found = self.db.execute("select value from items where key=?", (key,)).fetchone()
        return found and found[0]

    def put(self, key: bytes, value: bytes) -> None:
        self.db.execute("insert or replace into items values(?,?)", (key, value))

    def many(self, keys: list[bytes]) -> list[bytes | None]:
        query = f"select key, value from items where key in ({','.join('?' * len(keys))})"
        found = dict(self.db.execute(query, keys).fetchall())
        return [found.get(key) for key in keys]

    def load(self, keys: list[bytes], values: list[bytes]) -> None:
        self.db.execute("begin")
        self.db.executemany("insert or replace into items values(?,?)", zip(keys, values, strict=True))
        self.db.execute("commit")

    def close(self) -> None:
        self.db.close()


class DiskCache(ByItem):
    def __init__(self, path: Path, memory: int) -> None:
        import diskcache

        self.db = diskcache.Cache(str(path), sqlite_cache_size=memory >> 12, eviction_policy="none", size_limit=1 << 40)
        self.get, self.put = self.db.get, self.db.__setitem__

    def load(self, keys: list[bytes], values: list[bytes]) -> None:
        with self.db.transact():
            for key, value in zip(keys, values, strict=True):
                self.db[key] = value

    def close(self) -> None:
        self.db.close()


class Plyvel(ByItem):
    def __init__(self, path: Path, memory: int) -> None:
        import plyvel

        self.db = plyvel.DB(
            str(path), create_if_missing=True, compression=None, bloom_filter_bits=10,
            lru_cache_size=memory * 3 // 4, write_buffer_size=memory // 8,
        )
        self.get, self.put = self.db.get, self.db.put

    def load(self, keys: list[bytes], values: list[bytes]) -> None:
        with self.db.write_batch() as batch:
            for key, value in zip(keys, values, strict=True):
                batch.put(key, value)

    def close(self) -> None:
        self.db.close()


STORES: dict[str, Any] = {
    "siltstone": Siltstone, "rocksdict": RocksDict, "lmdb": Lmdb, "sqlite3": Sqlite, "diskcache": DiskCache, "plyvel": Plyvel,
}


def chunks(items: Any, size: int) -> Iterator[Any]:
    for at in range(0, len(items), size):
        yield items[at : at + size]


def processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident(field: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"{field}:")[2].split()[0]) << 10


def timed(count: int, work: Callable[[], Any]) -> dict[str, float]:
    from_processor, from_clock = processor(), time.perf_counter()
    work()
    return {"items": count, "processor": processor() - from_processor, "seconds": time.perf_counter() - from_clock}


def measure(name: str, directory: Path, count: int, memory: int) -> dict[str, Any]:
    """Runs all workloads on one store."""
    make, generator = STORES[name], random.Random(1)
    keys = [generator.randbytes(16) for _ in range(count)]
    values = [generator.randbytes(100) for _ in range(1000)]
    asked = generator.sample(keys, count // 4)
    missing = [generator.randbytes(16) for _ in range(count // 4)]
    more = [generator.randbytes(16) for _ in range(count // 10)]
    numbers = generator.choices(range(count // 2), k=count)
    stream = [b"https://example.org/shop/%d/item?id=%d&page=%d" % (n % 97, n * 7919, n % 7) for n in numbers]
    rows = np.random.default_rng(1).random((count // 4, DIM), dtype="f4")
    row_keys = [b"%016d" % number for number in range(len(rows))]
    order = generator.sample(range(len(rows)), len(rows))
    before, results = resident("VmRSS"), {}

    def each(function: Callable[..., Any], given: Any) -> Callable[[], None]:
        def run() -> None:
            for one in given:
                function(one)

        return run

    def part(workload: str, count: int, work: Callable[[], Any]) -> None:
        results[workload] = timed(count, work)

    def some(load: Any, keys: list[bytes]) -> Callable[[], None]:
        return lambda: [load(part, values[: len(part)]) for part in chunks(keys, 1000)] and None

    store = make(directory / "items", memory)
    part("load", count, some(store.load, keys))
    part("put", len(more), lambda: [store.put(key, values[0]) for key in more])
    store.close()
    store = make(directory / "items", memory)
    each(store.many, chunks(asked, 100))()
    part("get", len(asked), each(store.get, asked))
    part("get_many", len(asked), each(store.many, chunks(asked, 100)))
    part("miss", len(missing), each(store.get, missing))
    assert store.many(asked[:100]).count(None) == 0 and store.many(missing[:100]).count(None) == 100
    store.close()
    store = make(directory / "seen", memory)
    new: list[bool] = []
    part("seen", len(stream), lambda: [new.extend(store.seen(some)) for some in chunks(stream, 100)])
    assert sum(new) == len(set(stream))
    store.close()
    store = make(directory / "rows", memory)
    ranges = list(chunks(range(len(rows)), 1000))
    part("rows_put", len(rows), lambda: [store.rows_put(row_keys[r[0] : r[-1] + 1], rows[r[0] : r[-1] + 1]) for r in ranges])
    wanted = [[row_keys[number] for number in some] for some in chunks(order, 100)]
    part("rows_get", len(rows), each(store.rows_get, wanted))
    assert (store.rows_get(wanted[0]) == rows[order[:100]]).all()
    store.close()
    results["peak"] = resident("VmHWM") - before
    results["space"] = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    if name == "siltstone":
        (directory / "keys").write_bytes(b"".join(asked))
    return results


def rate_of_rust(directory: Path, memory: int) -> float | None:
    """Returns the seconds of processor time that Rust takes for what `get_many` does; None where there is no Rust."""
    if not shutil.which("cargo"):
        return None
    profile = os.environ.get("SILTSTONE_PROFILE", "release")
    command = ["cargo", "run", "-q", "--locked", "--profile", profile, "-p", "siltstone-rate", "--"]
    arguments = [directory / "items", memory, directory / "keys", 100]
    done = subprocess.run([*command, *map(str, arguments)], cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return None
    return int(done.stdout) / 1e9


def report(results: dict[str, Any], names: list[str]) -> None:
    """Prints the table: thousands of items a second of processor time, and of others how many times ours is theirs."""
    workloads = [name for name in results["siltstone" if "siltstone" in results else names[0]] if name not in ("peak", "space", "rust")]
    ours = results.get("siltstone")
    print("| | " + " | ".join(names) + " |\n|---" * 1 + "|---" * len(names) + "|")
    for workload in workloads:
        cells = []
        for name in names:
            found = results[name][workload]
            rate = found["items"] / max(found["processor"], 1e-9)
            if name == "siltstone" or not ours:
                cells.append(f"{rate / 1000:.0f} K/s")
            else:
                our_rate = ours[workload]["items"] / max(ours[workload]["processor"], 1e-9)
                cells.append(f"{our_rate / rate:.1f} ×")
        print(f"| {workload} | " + " | ".join(cells) + " |")
    for name, unit in (("peak", "memory beside the interpreter"), ("space", "space on disk")):
        print(f"| {unit} | " + " | ".join(f"{results[store][name] / (1 << 20):.0f} MiB" for store in names) + " |")
    if ours and ours.get("rust"):
        found = ours["get_many"]
        print(f"\nget_many runs at {100 * ours['rust'] / found['thread']:.0f} % of the rate of Rust's multi_get.")


def thread_rate(directory: Path, memory: int) -> float:
    """Returns the seconds of processor time of the calling thread for `get_many` of 100, as Rust measures its own."""
    data = (directory / "keys").read_bytes()
    keys = [data[at : at + 16] for at in range(0, len(data), 16)]
    store = Siltstone(directory / "items", memory)
    taken = 0.0
    for _ in range(2):
        begin = time.thread_time()
        for some in chunks(keys, 100):
            store.many(some)
        taken = time.thread_time() - begin
    store.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--memory", type=int, default=32, help="MiB")
    parser.add_argument("--only", default=",".join(STORES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--dir", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    memory = given.memory << 20
    if given.run == "thread":
        print(thread_rate(given.dir, memory))
        return
    if given.run:
        print(json.dumps(measure(given.run, given.dir, given.items, memory)))
        return
    results: dict[str, Any] = {}

    def child(name: str, directory: Path) -> Any:
        command = [sys.executable, __file__, "--run", name, "--dir", str(directory), "--items", str(given.items), "--memory", str(given.memory)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name} left out: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return None
        return json.loads(done.stdout)

    for name in given.only.split(","):
        with tempfile.TemporaryDirectory(prefix="siltstone-bench-") as directory:
            found = child(name, Path(directory))
            if found is None:
                continue
            results[name] = found
            if name == "siltstone":
                rounds = [(child("thread", Path(directory)), rate_of_rust(Path(directory), memory)) for _ in range(3)]
                both = sorted((rust / thread, thread, rust) for thread, rust in rounds if rust)
                if both:
                    _, found["get_many"]["thread"], found["rust"] = both[len(both) // 2]
        print(f"{name} done", file=sys.stderr, flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))
    report(results, list(results))


if __name__ == "__main__":
    main()
