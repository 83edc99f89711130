#!/usr/bin/env python3
"""Feast's `get_online_features` on Siltstone beside its own store for Redis: latency and memory.

    python bindings/python/run.py features --entities 5M --dir DIR --results RESULTS

Both get the same entities with 20 features each (floats, integers, short texts), in batches of 5000 by the provider's
`online_write_batch`. Then a process of its own asks for all features of 1, 10 and 100 entities, chosen evenly or by a Zipf
distribution of 0.99; answers are checked. The latency of `online_read` alone is what the store takes of it, without Feast's own work.

Siltstone is in the process that asks, which has a memory control group of `--memory-cap`, page cache and Feast itself included;
the store's budget is `--memory`. Redis (`redis-server`, found on the path) is a process beside, without a cap and without
persistence while it is measured; what it holds is its own account. First a sample says what an entity takes there. Where all
of them would not fit into seven tenths of what the machine has free, both stores get fewer, and the report says so.

A run that has its record in RESULTS is not made again, so the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import confine
from supervise import Supervisor, note, number, size

FEATURES = 20
BATCH = 5000
SAMPLE = 20_000
SIZES = (1, 10, 100)
SKEWS = ("even", "zipf")
VIEW = "profile"


def main() -> None:
    if sys.argv[1:2] and sys.argv[1].startswith("{"):
        child(json.loads(sys.argv[1]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = Path(__file__).resolve().parents[1] / "target"
    parser.add_argument("--entities", type=number, default=100_000, help="such as 5M; 100K unless given")
    parser.add_argument("--memory", default="256M", help="what the store may use; 256M")
    parser.add_argument("--memory-cap", type=size, default=1 << 30, help="of the process that asks; 1G")
    parser.add_argument("--seconds", type=float, default=15, help="seconds of each kind of read; 15")
    parser.add_argument("--fill-limit", type=float, default=3600, help="seconds after which a fill is given up; 3600")
    parser.add_argument("--dir", type=Path, default=target / "features", help="where stores are made")
    parser.add_argument("--results", type=Path, default=target / "features-results", help="where records are kept")
    parser.add_argument("--keep", action="store_true", help="leaves the stores there")
    parser.add_argument("--again", action="store_true", help="repeats runs that have failed")
    given = parser.parse_args()
    if not shutil.which("redis-server"):
        sys.exit("there is no redis-server on the path (on Debian: apt install redis-server)")
    names = ("entities", "memory", "memory_cap", "seconds")
    supervisor = Supervisor(given.results, {name: getattr(given, name) for name in names}, again=given.again)
    given.dir.mkdir(parents=True, exist_ok=True)
    entities = fitting(supervisor, given)
    for store in ("siltstone", "redis"):
        measure(supervisor, given, store, entities)
    text = report(supervisor, given, entities)
    (given.results / "tables.md").write_text(text)
    print(text)


def measure(supervisor: Supervisor, given: Any, store: str, entities: int) -> None:
    """Fills a store and reads from it, each in a process of its own."""
    directory = given.dir / store
    if supervisor.record(f"{store}-read") is not None:
        note(f"{store}: kept from before")
        return
    if supervisor.record(f"{store}-fill") is None:
        shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    request = {"store": store, "dir": str(directory), "entities": entities, "memory": given.memory, "seconds": given.seconds}
    program = Path(__file__)
    for step in ("fill", "read"):
        limit = given.fill_limit if step == "fill" else 300 + 20 * given.seconds
        with server(directory, store == "redis") as port:
            wanted = {**request, "step": step, "port": port}
            record = supervisor.run(f"{store}-{step}", program, wanted, cap=given.memory_cap, limit=limit)
        if "failed" in record:
            note(record.get("said", ""))
            return
    if not given.keep:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def server(directory: Path, wanted: bool) -> Iterator[int | None]:
    """Runs a server for Redis, which has what it held when it was shut down."""
    if not wanted:
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"port": port, "bind": "127.0.0.1", "dir": directory, "save": "", "appendonly": "no", "loglevel": "warning"}
    arguments = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
    process = subprocess.Popen(["redis-server", *arguments], stdout=subprocess.DEVNULL)
    try:
        redis = client(port)
        while redis.info("persistence")["loading"]:
            time.sleep(0.2)
        yield port
        # What was filled is there again for the reads.
        redis.shutdown(save=True)
        process.wait(600)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def client(port: int) -> Any:
    """Returns a client for the server, once it answers."""
    import redis

    made, until = redis.Redis(port=port), time.monotonic() + 60
    while True:
        try:
            made.ping()
            return made
        except redis.exceptions.BusyLoadingError:
            time.sleep(0.2)
        except redis.exceptions.ConnectionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def fitting(supervisor: Supervisor, given: Any) -> int:
    """Returns how many entities Redis has room for, at most as many as wanted, and keeps that."""
    known = supervisor.record("sample")
    if known is None:
        directory = given.dir / "sample"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        count = min(SAMPLE, given.entities)
        with server(directory, True) as port:
            request = {"store": "redis", "dir": str(directory), "entities": count, "step": "fill", "port": port, "memory": given.memory}
            record = supervisor.run("sample-fill", Path(__file__), request, cap=given.memory_cap, limit=600)
        shutil.rmtree(directory, ignore_errors=True)
        if "failed" in record:
            sys.exit(record.get("said", record["failed"]))
        each = record["figures"]["used_memory"] / count
        free = next(int(line.split()[1]) << 10 for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
        known = {"bytes_each": each, "entities": min(given.entities, int(0.7 * free / each))}
        supervisor.keep("sample", known)
    entities = int(known["entities"])
    note(f"an entity takes {known['bytes_each']:.0f} bytes in Redis: {entities:,} of {given.entities:,} entities")
    return entities


# The processes of runs.


def child(request: dict[str, Any]) -> None:
    confine.enter(request["group"])
    made = Features(request)
    figures = made.fill() if request["step"] == "fill" else made.read()
    print(json.dumps({"figures": figures, "before": made.before}))


class Features:
    """A feature store with one view of entities."""

    def __init__(self, request: dict[str, Any]) -> None:
        from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig, ValueType
        from feast.types import Float32, Float64, Int64, String

        self.request, self.entities = request, request["entities"]
        root = Path(request["dir"])
        if request["store"] == "redis":
            online = {"type": "redis", "connection_string": f"127.0.0.1:{request['port']}"}
        else:
            path = str(root / "online")
            online = {"type": "siltstone.feast.SiltstoneOnlineStore", "path": path, "memory": request["memory"]}
        config = RepoConfig(
            project="bench", provider="local", registry=str(root / "registry.db"), online_store=online, entity_key_serialization_version=3
        )
        self.names = [f"feature_{n:02}" for n in range(FEATURES)]
        kinds = (Float32, Int64, String, Float64)
        schema = [Field(name=name, dtype=kinds[n % 4]) for n, name in enumerate(self.names)]
        source = FileSource(path=str(root / "none.parquet"), timestamp_field="event_timestamp")
        user = Entity(name="user", join_keys=["user_id"], value_type=ValueType.INT64)
        self.view = FeatureView(name=VIEW, entities=[user], ttl=timedelta(0), schema=schema, source=source)
        self.store = FeatureStore(config=config)
        if request["step"] == "fill":
            self.store.apply([user, self.view])
        # Before memory is measured: the sums belong to the measurement.
        self.sums = self.popularity() if request["step"] == "read" else None
        self.before = confine.resident()

    def popularity(self) -> Any:
        """Returns how often the most popular entities are asked for, summed up, by a Zipf distribution."""
        import numpy as np

        return np.cumsum(np.arange(1, self.entities + 1, dtype="f8") ** -0.99)

    def value(self, kind: int, feature: int) -> Any:
        """Returns a feature's value, of which there are a thousand kinds."""
        match feature % 4:
            case 0:
                return kind / 8 + feature
            case 1:
                return kind * 1000 + feature
            case 2:
                return f"segment {kind}"
            case _:
                return kind / 7 + feature

    def rows(self) -> list[dict[str, Any]]:
        from feast.protos.feast.types.Value_pb2 import Value

        fields = ("float_val", "int64_val", "string_val", "double_val")
        return [
            {name: Value(**{fields[n % 4]: self.value(kind, n)}) for n, name in enumerate(self.names)} for kind in range(1000)
        ]

    def key(self, entity: int) -> Any:
        from feast.protos.feast.types.EntityKey_pb2 import EntityKey
        from feast.protos.feast.types.Value_pb2 import Value

        return EntityKey(join_keys=["user_id"], entity_values=[Value(int64_val=entity)])

    def fill(self) -> dict[str, Any]:
        """Writes all entities, and returns what that took."""
        now, rows = datetime.now(timezone.utc), self.rows()
        provider, seconds, processor = self.store._get_provider(), 0.0, 0.0
        view = self.store.get_feature_view(VIEW)
        for first in range(0, self.entities, BATCH):
            last = min(first + BATCH, self.entities)
            batch = [(self.key(entity), rows[entity % 1000], now, None) for entity in range(first, last)]
            from_processor, from_clock = time.process_time(), time.perf_counter()
            provider.online_write_batch(self.store.config, view, batch, None)
            seconds += time.perf_counter() - from_clock
            processor += time.process_time() - from_processor
        figures: dict[str, Any] = {"entities": self.entities, "seconds": seconds, "processor": processor}
        if self.request["store"] == "siltstone":
            inner = provider.online_store._opened(self.store.config)
            begin = time.perf_counter()
            inner.flush()
            inner.wait_until_idle()
            figures["settling"] = time.perf_counter() - begin
            inner.close()
        return figures | self.held()

    def held(self) -> dict[str, int]:
        """Returns what the store takes: of memory, where it is a server, and of space."""
        if self.request["store"] == "redis":
            memory = client(self.request["port"]).info("memory")
            return {name: memory[name] for name in ("used_memory", "used_memory_rss")}
        files = (path for path in Path(self.request["dir"], "online").rglob("*") if path.is_file())
        return {"space": sum(path.stat().st_blocks * 512 for path in files)}

    def chooser(self, skew: str) -> Callable[[int], list[int]]:
        """Returns a function that chooses so many entities."""
        import numpy as np

        generator, entities = np.random.default_rng(1), self.entities
        if skew == "even":
            return lambda count: generator.integers(0, entities, count).tolist()
        sums = self.sums
        # The popular ones lie anywhere.
        return lambda count: (np.searchsorted(sums, generator.random(count) * sums[-1]) * 2_654_435_761 % entities).tolist()

    def read(self) -> dict[str, Any]:
        """Asks for all features of entities, and returns how long that takes."""
        names = [f"{VIEW}:{name}" for name in self.names]
        provider, view = self.store._get_provider(), self.store.get_feature_view(VIEW)
        figures: dict[str, Any] = {}

        def features(chosen: list[int]) -> None:
            rows = [{"user_id": entity} for entity in chosen]
            found = self.store.get_online_features(features=names, entity_rows=rows).to_dict()
            for n in (0, 1, 2, 3, FEATURES - 1):
                expected = [self.value(entity % 1000, n) for entity in chosen]
                assert found[self.names[n]] == expected, (self.names[n], chosen[:3])

        def alone(keys: list[Any]) -> None:
            found = provider.online_read(self.store.config, view, keys, list(self.names))
            assert all(len(row) == FEATURES for _, row in found)

        for skew in SKEWS:
            choose = self.chooser(skew)
            for count in SIZES:
                ask = {"features": (features, lambda: choose(count)), "online_read": (alone, lambda: [self.key(n) for n in choose(count)])}
                for kind, (call, given) in ask.items():
                    figures[f"{kind}-{skew}-{count}"] = latencies(call, given, self.request["seconds"])
        return figures | self.held() | {"at_rest": confine.resident()}


def latencies(call: Callable[[Any], None], given: Callable[[], Any], seconds: float) -> dict[str, float]:
    """Calls for some seconds, of which the first fifth warms up, and returns latencies in milliseconds."""
    taken, begin = [], time.perf_counter()
    while (now := time.perf_counter()) < begin + seconds:
        argument = given()
        from_clock = time.perf_counter()
        call(argument)
        if now > begin + seconds / 5:
            taken.append(1e3 * (time.perf_counter() - from_clock))
    taken.sort()
    of = lambda share: taken[min(len(taken) - 1, int(share * len(taken)))]  # noqa: E731
    return {"calls": len(taken), "mean": sum(taken) / len(taken), "p50": of(0.5), "p99": of(0.99)}


def report(supervisor: Supervisor, given: Any, entities: int) -> str:
    records = {store: {step: supervisor.record(f"{store}-{step}") or {"failed": "not run"} for step in ("fill", "read")} for store in ("siltstone", "redis")}
    lines = [f"\n{entities:,} entities of {FEATURES} features" + (f" (Redis has no room for {given.entities:,} here)" if entities < given.entities else "")]
    lines += [f"\n{store} {step}: {record['failed']}" for store, steps in records.items() for step, record in steps.items() if "failed" in record]
    if any("failed" in record for steps in records.values() for record in steps.values()):
        return "\n".join(lines) + "\n"
    ours, theirs = records["siltstone"], records["redis"]
    if not ours["read"]["capped"]:
        lines.append("\nNOT CAPPED: no control group could be made")
    lines += ["", "| median, 99th of a hundred, in ms | Siltstone | Redis |", "|---|---|---|"]
    titles = {"features": "`get_online_features`", "online_read": "`online_read` alone"}
    for kind, title in titles.items():
        for skew in SKEWS:
            for count in SIZES:
                cells = [f"{found['p50']:.2f}, {found['p99']:.2f}" for found in (store["read"]["figures"][f"{kind}-{skew}-{count}"] for store in (ours, theirs))]
                lines.append(f"| {title} of {count}, {'chosen evenly' if skew == 'even' else 'Zipf'} | {cells[0]} | {cells[1]} |")
    rates = [store["fill"]["figures"]["entities"] / store["fill"]["figures"]["seconds"] for store in (ours, theirs)]
    lines.append(f"| entities written a second | {rates[0]:,.0f} | {rates[1]:,.0f} |")
    allocated = max(0, ours["read"]["allocated"] - ours["read"]["before"])
    redis = theirs["read"]["figures"]
    lines.append(f"| memory | {allocated >> 20} MiB beside Feast's {ours['read']['before'] >> 20}; with page cache and Feast {(ours['read']['peak'] or 0) >> 20} at most | {redis['used_memory'] >> 20} MiB used, {redis['used_memory_rss'] >> 20} resident |")
    lines.append(f"| bytes for each entity | {ours['fill']['figures']['space'] / entities:.0f} of files | {redis['used_memory'] / entities:.0f} of memory |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
