"""The process of one run: one store, one group of workloads, figures as JSON on standard output.

What is asked for is made beforehand, some thousand at a time, and answers are checked afterwards; only the calls are timed.
Loads end when everything is there or their time is over; what reads goes on for some seconds.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confine

_ASKED = 2000
_WARM_UP = 20.0  # or as long as is measured, where that is less


def main() -> None:
    request = json.loads(sys.argv[1])
    confine.enter(request["group"])
    # What is imported belongs to the cap as well.
    from stores import STORES

    run = Run(STORES[request["store"]], Path(request["dir"]), request)
    getattr(run, request["workload"])()
    print(json.dumps({"figures": run.figures, "before": run.before, "space": run.space()}))


def mixed(numbers: Any) -> Any:
    """Returns numbers as if they were random: the finalizer of splitmix64, one to one."""
    import numpy as np

    with np.errstate(over="ignore"):
        x = np.asarray(numbers, dtype="u8") + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def keys_of(numbers: Any, salt: int = 0) -> list[bytes]:
    """Returns the keys of items: 16 bytes, in no order."""
    import numpy as np

    numbers = np.asarray(numbers, dtype="u8")
    data = np.stack([mixed(numbers), mixed(numbers + np.uint64(salt + 1))], axis=1).tobytes()
    return [data[at : at + 16] for at in range(0, len(data), 16)]


def address(number: int, of: int) -> bytes:
    """Returns an address of a shop: hosts come in no order, as when many are crawled at the same time."""
    return b"https://shop%d.example.org/catalogue/item?id=%016x&page=%d" % (of % 9973, of, number % 7)


def addresses(numbers: Any) -> list[bytes]:
    return [address(int(number), int(of)) for number, of in zip(numbers, mixed(numbers), strict=True)]


def chunks(items: Any, length: int) -> Iterator[Any]:
    for at in range(0, len(items), length):
        yield items[at : at + length]


class Run:
    """One store under one group of workloads."""

    def __init__(self, make: Any, directory: Path, request: dict[str, Any]) -> None:
        import numpy as np

        self.np, self.make, self.directory, self.request = np, make, directory, request
        self.count, self.budget, self.seconds = request["count"], request["budget"], request["seconds"]
        generator = random.Random(1)
        self.values = [generator.randbytes(100) for _ in range(1000)]
        self.choice = np.random.default_rng(1)
        self.figures: dict[str, Any] = {}
        self.before = confine.resident()

    def open(self, name: str) -> Any:
        return self.make(self.directory / name, self.request["memory"])

    def space(self) -> int:
        return sum(path.stat().st_blocks * 512 for path in self.directory.rglob("*") if path.is_file())

    def timed(self, name: str, parts: Iterator[tuple[int, Callable[[], Any], Callable[[Any], bool]]], limit: float) -> int:
        """Runs parts, each so many items, a call and a check, until they end or the calls have taken `limit` seconds.
        Returns how many items there were."""
        done, seconds, processor = 0, 0.0, 0.0
        ended, begin = True, time.perf_counter()
        for items, call, is_right in parts:
            from_processor, from_clock = time.process_time(), time.perf_counter()
            found = call()
            seconds += time.perf_counter() - from_clock
            processor += time.process_time() - from_processor
            assert is_right(found), f"{name}: wrong answers after {done} items"
            done += items
            if seconds > limit or time.perf_counter() - begin > 3 * limit:
                ended = False
                break
        self.figures[name] = {"items": done, "seconds": seconds, "processor": processor, "ended": ended}
        return done

    def add_time(self, name: str, work: Callable[[], Any]) -> None:
        begin, processor = time.perf_counter(), time.process_time()
        work()
        self.figures[name]["seconds"] += time.perf_counter() - begin
        self.figures[name]["processor"] += time.process_time() - processor

    # Items of 16 and 100 bytes.

    def items(self) -> None:
        """Loads items, reads them and others after reopening, then puts more."""
        store = self.open("items")
        loaded = self.timed("load", self.loads(store), self.budget)
        self.add_time("load", lambda: (store.settle(), store.close()))
        store = self.open("items")
        self.timed("warm-up", self.many(store, loaded), min(_WARM_UP, self.seconds))
        self.timed("get", self.each(store.get, loaded), self.seconds)
        self.timed("get_many", self.many(store, loaded), self.seconds)
        self.timed("miss", self.missing(store), self.seconds)
        self.timed("put", self.puts(store, loaded), self.seconds)
        del self.figures["warm-up"]
        store.close()
        if "asked" in self.request:
            numbers = self.choice.integers(0, loaded, 200_000)
            Path(self.request["asked"]).write_bytes(b"".join(keys_of(numbers)))

    cached = items

    def value(self, number: Any) -> bytes:
        return self.values[int(number) % len(self.values)]

    def loads(self, store: Any) -> Iterator[Any]:
        for first in range(0, self.count, 1000):
            numbers = range(first, min(first + 1000, self.count))
            keys, values = keys_of(numbers), [self.value(number) for number in numbers]
            yield len(keys), lambda keys=keys, values=values: store.load(keys, values), lambda _: True

    def some(self, loaded: int) -> tuple[list[bytes], list[bytes]]:
        numbers = self.choice.integers(0, loaded, _ASKED)
        return keys_of(numbers), [self.value(number) for number in numbers]

    def each(self, get: Callable[[bytes], Any], loaded: int) -> Iterator[Any]:
        while True:
            keys, values = self.some(loaded)
            yield len(keys), lambda keys=keys: [get(key) for key in keys], values.__eq__

    def many(self, store: Any, loaded: int) -> Iterator[Any]:
        while True:
            keys, values = self.some(loaded)
            hundreds = list(chunks(keys, 100))
            yield (
                len(keys),
                lambda hundreds=hundreds: [store.many(hundred) for hundred in hundreds],
                lambda found, values=values: [value for some in found for value in some] == values,
            )

    def missing(self, store: Any) -> Iterator[Any]:
        get = store.get
        while True:
            keys = keys_of(self.choice.integers(0, 1 << 40, _ASKED), salt=7)
            yield len(keys), lambda keys=keys: [get(key) for key in keys], lambda found: found.count(None) == len(found)

    def puts(self, store: Any, loaded: int) -> Iterator[Any]:
        put, first = store.put, loaded
        while True:
            keys, value = keys_of(range(first, first + _ASKED)), self.values[0]
            first += _ASKED
            yield len(keys), lambda keys=keys: [put(key, value) for key in keys], lambda _: True

    # A set of addresses that were seen.

    def seen(self) -> None:
        """Asks for addresses and adds those that are new, 100 at a time: two of three are new, the others were met before."""
        store = self.open("seen")
        asked = self.timed("seen", self.meetings(store), self.budget)
        self.add_time("seen", store.settle)
        self.figures["seen"]["new"] = asked // 3 * 2
        store.close()

    def meetings(self, store: Any) -> Iterator[Any]:
        np, met = self.np, 0
        while met < self.count:
            parts, expected = [], []
            for _ in range(20):
                numbers = np.arange(met, met + 99)
                is_old = np.arange(99) % 3 == 2
                numbers[~is_old] = np.arange(met, met + 66)
                numbers[is_old] = self.choice.integers(0, met, 33) if met else 0
                parts.append(addresses(numbers))
                expected += (~is_old).tolist()
                met += 66
            yield (
                20 * 99,
                lambda parts=parts: [store.seen(part) for part in parts],
                lambda found, expected=expected: [is_new for some in found for is_new in some] == expected,
            )

    # Rows of numbers.

    def rows(self) -> None:
        """Puts rows of 50 numbers of 4 bytes from arrays, 1000 at a time, and reads them into arrays, 100 at a time."""
        store = self.open("rows")
        there = self.timed("rows_put", self.row_puts(store), self.budget)
        self.add_time("rows_put", lambda: (store.settle(), store.close()))
        store = self.open("rows")
        self.timed("warm-up", self.row_gets(store, there), min(_WARM_UP, self.seconds))
        self.timed("rows_get", self.row_gets(store, there), self.seconds)
        del self.figures["warm-up"]
        store.close()

    def numbers_of(self, rows: Any) -> Any:
        np = self.np
        return (mixed(np.asarray(rows)[:, None] * np.uint64(50) + np.arange(50, dtype="u8")) >> np.uint64(40)).astype("f4")

    def row_puts(self, store: Any) -> Iterator[Any]:
        for first in range(0, self.count, 1000):
            numbers = self.np.arange(first, min(first + 1000, self.count), dtype="u8")
            keys, rows = [b"%016d" % number for number in numbers], self.numbers_of(numbers)
            yield len(keys), lambda keys=keys, rows=rows: store.rows_put(keys, rows), lambda _: True

    def row_gets(self, store: Any, there: int) -> Iterator[Any]:
        while True:
            asked = self.choice.integers(0, there, (10, 100)).astype("u8")
            keys = [[b"%016d" % number for number in some] for some in asked]
            yield (
                asked.size,
                lambda keys=keys: [store.rows_get(some) for some in keys],
                lambda found, asked=asked: all(
                    (rows == self.numbers_of(some)).all() for rows, some in zip(found, asked, strict=True)
                ),
            )

    # The rate of `get_many` as Rust measures its own.

    def thread(self) -> None:
        """Notes the processor time of this thread for `get_many` of 100 of the keys that were written down."""
        data = Path(self.request["asked"]).read_bytes()
        hundreds = list(chunks([data[at : at + 16] for at in range(0, len(data), 16)], 100))
        store = self.open("items")
        for _ in range(2):
            begin = time.thread_time()
            for hundred in hundreds:
                store.many(hundred)
            self.figures["thread"] = {"seconds": time.thread_time() - begin}
        store.close()

    def rust(self) -> None:
        """Lets Rust do the same, within the same cap."""
        import subprocess

        command = [self.request["rate"], self.directory / "items", self.request["memory"], self.request["asked"], 100]
        done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
        self.figures["rust"] = {"seconds": int(done.stdout) / 1e9}


if __name__ == "__main__":
    main()
