"""Feast end to end, beside its own stores for SQLite and for Redis: the same repository, the same rows, the same answers.

Redis takes part where `redis-server` is on the path.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

feast = pytest.importorskip("feast")
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, PushSource, RepoConfig  # noqa: E402
from feast.data_source import PushMode  # noqa: E402
from feast.types import Array, Bool, Float32, Float64, Int64, String  # noqa: E402

import siltstone  # noqa: E402

DRIVERS = 3000
NOW = datetime.now(timezone.utc).replace(microsecond=123456)
KINDS = {"sqlite": {"type": "sqlite", "path": "online.db"}, "siltstone": {"type": "siltstone.feast.SiltstoneOnlineStore", "path": "online", "memory": "32M"}}


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory):
    """The port of a server of its own; None where there is no server."""
    if not shutil.which("redis-server"):
        yield None
        return
    redis = pytest.importorskip("redis")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    directory = tmp_path_factory.mktemp("redis")
    settings = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    server = subprocess.Popen(["redis-server", *settings], stdout=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with contextlib.suppress(redis.exceptions.ConnectionError):
                redis.Redis(port=port).ping()
                break
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(60)


def frame() -> pd.DataFrame:
    """Two events for each driver, one an hour, one a day old."""
    generator = np.random.default_rng(1)
    ids = np.concatenate([np.arange(DRIVERS), np.arange(DRIVERS)])
    rows = len(ids)
    return pd.DataFrame(
        {
            "driver_id": ids,
            "event_timestamp": [NOW - timedelta(days=1)] * DRIVERS + [NOW - timedelta(hours=1)] * DRIVERS,
            "created": [NOW] * rows,
            "rate": generator.random(rows, dtype="f4"),
            "trips": generator.integers(0, 1000, rows),
            "name": [f"driver {number}" for number in ids],
            "is_active": generator.random(rows) < 0.5,
            "vector": [row for row in generator.random((rows, 5), dtype="f4")],
        }
    )


def definitions(path, suffix=""):
    source = FileSource(path=str(path), timestamp_field="event_timestamp", created_timestamp_column="created")
    driver = Entity(name="driver", join_keys=["driver_id"])
    schema = [
        Field(name="rate", dtype=Float32),
        Field(name="trips", dtype=Int64),
        Field(name="name", dtype=String),
        Field(name="is_active", dtype=Bool),
        Field(name="vector", dtype=Array(Float32)),
    ]
    hourly = FeatureView(name="hourly", entities=[driver], ttl=timedelta(days=7), schema=schema, source=source)
    pushed = PushSource(name="pushed", batch_source=source)
    fresh = FeatureView(name="fresh", entities=[driver], ttl=timedelta(0), schema=schema[:2], source=pushed)
    return [driver, hourly, pushed, fresh]


@pytest.fixture(scope="module")
def stores(tmp_path_factory, redis_port):
    """One feature store of each kind, with everything materialised."""
    made = {}
    kinds = {**KINDS, **({"redis": {"type": "redis", "connection_string": f"127.0.0.1:{redis_port}"}} if redis_port else {})}
    for kind, online in kinds.items():
        root = tmp_path_factory.mktemp(kind)
        frame().to_parquet(root / "stats.parquet")
        if "path" in online:
            online = {**online, "path": str(root / online["path"])}
        config = RepoConfig(
            project="shop",
            provider="local",
            registry=str(root / "registry.db"),
            online_store=online,
            entity_key_serialization_version=3,
        )
        store = FeatureStore(config=config)
        store.apply(definitions(root / "stats.parquet"))
        store.materialize(NOW - timedelta(days=3), NOW + timedelta(hours=1), feature_views=["hourly"])
        made[kind] = store
    return made


FEATURES = ["hourly:rate", "hourly:trips", "hourly:name", "hourly:is_active", "hourly:vector"]


def answers(store, ids, features=FEATURES):
    rows = [{"driver_id": number} for number in ids]
    response = store.get_online_features(features=features, entity_rows=rows, full_feature_names=True)
    return response.to_dict(include_event_timestamps=True)


def without_times(found):
    return {name: column for name, column in found.items() if not name.endswith("__ts")}


@pytest.mark.parametrize("other", ["sqlite", "redis"])
def test_the_same_answers(stores, other):
    if other not in stores:
        pytest.skip("there is no redis-server on the path")
    ids = [*range(0, DRIVERS, 7), DRIVERS, DRIVERS + 100, 1, 1]
    ours, theirs = answers(stores["siltstone"], ids), answers(stores[other], ids)
    assert ours.keys() == theirs.keys()
    assert without_times(ours) == without_times(theirs)
    assert ours["hourly__name"][:2] == ["driver 0", "driver 7"] and ours["hourly__name"][-3] is None
    # Every feature of one view, some features, and features of two views.
    for features in (["hourly:trips"], ["hourly:rate", "fresh:trips"], ["hourly:vector", "hourly:is_active"]):
        ours, theirs = (answers(stores[kind], ids, features) for kind in ("siltstone", other))
        assert without_times(ours) == without_times(theirs)


def test_each_feature_counts_with_its_own_time(stores):
    """Features of one entity that come of several events: those that are over are left out, the newest event counts."""
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.protos.feast.types.Value_pb2 import Value

    store = stores["siltstone"]
    provider, view = store._get_provider(), store.get_feature_view("hourly")
    key = EntityKey(join_keys=["driver_id"], entity_values=[Value(int64_val=-5)])
    for age, features in ((timedelta(days=8), {"rate": Value(float_val=1)}), (timedelta(days=2), {"trips": Value(int64_val=2)}),
                          (timedelta(days=3), {"name": Value(string_val="x")})):
        # A young row beside it, or all of an old batch would be over.
        other = EntityKey(join_keys=["driver_id"], entity_values=[Value(int64_val=-6)])
        rows = [(key, features, NOW - age, None), (other, {"rate": Value(float_val=3)}, NOW, None)]
        provider.online_write_batch(store.config, view, rows, None)
    ((time, found),) = provider.online_read(store.config, view, [key], ["rate", "trips", "name", "vector"])
    assert time == NOW - timedelta(days=2)
    assert found == {"trips": Value(int64_val=2), "name": Value(string_val="x")}


def test_the_first_rows_are_built(stores):
    store = stores["siltstone"]._get_provider().online_store._opened(stores["siltstone"].config)
    hourly = store.keyspace("shop/hourly").stats()
    assert hourly["table_entries"] >= 5 * 1000, "no tables were built"
    assert store.keyspace("shop/hourly").schema == "length:2"


def test_pushed_rows_are_served(stores):
    rows = pd.DataFrame(
        {"driver_id": [5, 6], "event_timestamp": [NOW, NOW], "created": [NOW, NOW], "rate": [0.25, 0.5], "trips": [7, 8],
         "name": ["", ""], "is_active": [True, True], "vector": [[0.0], [0.0]]}
    )
    for store in stores.values():
        store.push("pushed", rows, to=PushMode.ONLINE)
    for kind, store in stores.items():
        found = answers(store, [4, 5, 6], ["fresh:rate", "fresh:trips"])
        assert found["fresh__trips"] == [None, 7, 8] and found["fresh__rate"] == [None, 0.25, 0.5], kind


def test_reads_can_be_awaited(stores):
    store = stores["siltstone"]

    async def run():
        rows = [{"driver_id": number} for number in (1, 2)]
        return (await store.get_online_features_async(features=FEATURES, entity_rows=rows)).to_dict()

    found = asyncio.run(run())
    assert found["name"] == ["driver 1", "driver 2"]


def test_old_features_are_not_served(stores, tmp_path):
    """As the view's `ttl` says, counted from the event; and for ever without expiry."""
    data = frame().head(2000)
    data["event_timestamp"] = [NOW - timedelta(days=9)] * 1000 + [NOW] * 1000
    data.to_parquet(tmp_path / "stats.parquet")
    expected = {True: [None, "driver 1500"], False: ["driver 500", "driver 1500"]}
    for expire, names in expected.items():
        online = {**KINDS["siltstone"], "path": str(tmp_path / f"online-{expire}"), "expire": expire}
        config = RepoConfig(
            project="shop", provider="local", registry=str(tmp_path / f"registry-{expire}.db"), online_store=online,
            entity_key_serialization_version=3,
        )
        store = FeatureStore(config=config)
        store.apply(definitions(tmp_path / "stats.parquet"))
        store.materialize(NOW - timedelta(days=20), NOW + timedelta(hours=1), feature_views=["hourly"])
        assert answers(store, [500, 1500], ["hourly:name"])["hourly__name"] == names
        store.teardown()


def test_views_are_dropped_and_the_store_torn_down(tmp_path):
    frame().to_parquet(tmp_path / "stats.parquet")
    online = {**KINDS["siltstone"], "path": str(tmp_path / "online")}
    config = RepoConfig(
        project="shop", provider="local", registry=str(tmp_path / "registry.db"), online_store=online,
        entity_key_serialization_version=3,
    )
    store = FeatureStore(config=config)
    objects = definitions(tmp_path / "stats.parquet")
    store.apply(objects)
    inner = store._get_provider().online_store._opened(config)
    assert inner.keyspaces() == ["shop/fresh", "shop/hourly"]
    # A second feature store of the process shares the open one.
    assert FeatureStore(config=config)._get_provider().online_store._opened(config) is inner
    store.apply([objects[0]], objects_to_delete=[objects[3], objects[2]], partial=False)
    assert inner.keyspaces() == ["shop/hourly"]
    store.teardown()
    assert not (tmp_path / "online").exists()
    with pytest.raises(siltstone.ClosedError):
        inner.sync()


def test_the_example_runs(tmp_path):
    example = shutil.copytree(Path(__file__).parents[2] / "examples" / "feast", tmp_path / "feast")
    done = subprocess.run([sys.executable, example / "run.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "favourite" in done.stdout
