"""What people who tried the package stumbled over, each once."""

from __future__ import annotations

import datetime
import os
import shelve

import pytest

import siltstone
import siltstone.dbm


def test_counters_and_codecs_of_values(store):
    counts = store.keyspace("counts", key="str", value="counter", merge="add")
    counts.count("a", 5)
    assert counts.increment("a", -7) == -2 and counts["a"] == counts.counter("a") == -2
    counts["b"] = 3
    assert counts.counter("b") == 3 and dict(counts) == {"a": -2, "b": 3}
    with pytest.raises(siltstone.InvalidInputError, match="64 bits"):
        counts["b"] = 1 << 63
    numbers = store.keyspace("numbers", key="str", value="int")
    for use in (lambda: numbers.increment("a"), lambda: numbers.counter("a"), lambda: numbers.count("a")):
        with pytest.raises(siltstone.InvalidInputError, match='value="counter"'):
            use()


def test_every_way_to_make_an_item_gives_it_its_time(store):
    items = store.keyspace("items", ttl=100)
    assert items.modify(b"modified", lambda old: b"1") == b"1"
    assert items.compare_and_set(b"compared", None, b"1") and not items.compare_and_set(b"compared", None, b"2")
    assert items.add(b"added") and items.increment(b"counted") == 1 and items.setdefault(b"set", b"1") == b"1"
    assert all(99 < items.ttl(key) <= 100 for key in items)
    items.put(b"long", b"1", ttl=1000)
    assert items.compare_and_set(b"long", b"1", b"2") and items.modify(b"long", lambda old: old + b"3") == b"23"
    assert 999 < items.ttl(b"long") <= 1000
    with pytest.raises(siltstone.InvalidInputError, match="merge or ttl"):
        store.keyspace("merged", merge="add", ttl=5)
    for endless in (float("inf"), 1e300, datetime.timedelta(days=-1)):
        with pytest.raises(siltstone.InvalidInputError, match="endless"):
            items.put(b"x", b"1", ttl=endless)


def test_one_text_is_not_many_keys(store):
    users = store.keyspace("users", key="str", value="json")
    users.update(a=1, b=2, c=3)
    for use in (users.delete_many, users.get_many, users.contains_many, users.add_many):
        with pytest.raises(TypeError, match="not a single one"):
            use("abc")
    assert len(users) == 3 and users.pop("a", default=5) == 1 and users.pop("a", default=5) == 5


def test_keys_without_values_under_any_codec(store):
    for name in ("str", "int", "json", "pickle"):
        seen = store.keyspace(f"seen as {name}", key="str", value=name)
        assert seen.add_many(["a", "b", "a"]) == [True, True, False] and not seen.add("b") and seen.add("c")


def test_a_wrong_codec_creates_nothing(store):
    with pytest.raises(siltstone.InvalidInputError, match="no codec"):
        store.keyspace("leftover", key="strr")
    assert "leftover" not in store


def test_a_batch_takes_keyspaces_of_its_store_alone(store, tmp_path):
    items = store.keyspace("items")
    with siltstone.open(tmp_path / "other") as other, store.batch() as batch:
        with pytest.raises(siltstone.InvalidInputError, match="another store"):
            batch.put(other.keyspace("items"), b"a", b"1")
        batch.put(items, b"a", b"1")
    assert items[b"a"] == b"1"


def test_what_is_not_there_in_a_store_for_reading(tmp_path):
    siltstone.open(tmp_path / "db").close()
    with siltstone.open(tmp_path / "db", read_only=True) as store:
        with pytest.raises(siltstone.NoKeyspaceError, match="typo"):
            store.keyspace("typo")


def test_memory_is_said_once(tmp_path):
    with pytest.raises(siltstone.InvalidInputError, match="resources"):
        siltstone.open(tmp_path / "db", memory="64M", resources=siltstone.Resources("64M"))


def test_backups_come_back(tmp_path):
    with siltstone.open(tmp_path / "db") as store:
        items = store.keyspace("items")
        for number in (1, 2):
            items[b"a"] = b"%d" % number
            assert store.backup(tmp_path / "backups") == number
    assert siltstone.restore(tmp_path / "backups", tmp_path / "last") == 2
    assert siltstone.restore(tmp_path / "backups", tmp_path / "first", 1) == 1
    for name, value in (("last", b"2"), ("first", b"1")):
        with siltstone.open(tmp_path / name) as store:
            assert store.keyspace("items")[b"a"] == value
    with pytest.raises(siltstone.InvalidInputError):
        siltstone.restore(tmp_path / "backups", tmp_path / "none", 7)


def test_a_shelf_for_reading_closes(tmp_path):
    with shelve.Shelf(siltstone.dbm.open(tmp_path / "shelf", "c")) as shelf:
        shelf["a"] = [1]
    with shelve.Shelf(siltstone.dbm.open(tmp_path / "shelf")) as shelf:
        assert shelf["a"] == [1]


def test_equal_keys_of_a_cache_are_one(tmp_path):
    with siltstone.Cache(tmp_path / "cache") as cache:
        one, other = "hello world", "".join(["hello", " world"])
        cache[(one, one)] = 1
        cache[(1, (2.0, b"x"), None)] = 2
        cache[frozenset([7])] = 3
        assert cache.get((one, other)) == 1 and cache.get((1.0, (2, b"x"), None)) == 2 and cache[frozenset([7])] == 3
        assert set(cache) == {(one, one), (1, (2, b"x"), None), frozenset([7])}
        with pytest.raises(siltstone.InvalidInputError, match="lambda"):
            cache.memoize()(lambda x: x)
        times_two = cache.memoize(name="times two")(lambda x: x * 2)
        assert times_two(3) == times_two(3) == 6 and times_two("x" * 70_000) == "x" * 140_000


def test_a_cache_is_no_store_and_keeps_its_log_short(tmp_path):
    with siltstone.open(tmp_path / "db") as store:
        store.keyspace("users")
    with pytest.raises(siltstone.InvalidInputError, match="no cache"):
        siltstone.Cache(tmp_path / "db")
    siltstone.open(tmp_path / "db").close()
    with siltstone.Cache(tmp_path / "cache", size_limit="1M") as cache:
        for number in range(60_000):
            cache.set(number, os.urandom(1000))
    taken = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert taken < 24 << 20
