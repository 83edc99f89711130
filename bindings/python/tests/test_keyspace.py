"""What keyspaces do: gets and puts, one and many, conditions, lives, prefixes, builds."""

from __future__ import annotations

import asyncio
import datetime
import json
import random
import time

import pytest

import siltstone


def test_bytes_like_keys_and_values(items):
    items[bytearray(b"a")] = memoryview(b"xyz")[1:]
    assert items[b"a"] == b"yz"
    items[memoryview(b"-b-")[1:2]] = b""
    assert items[b"b"] == b"" and b"b" in items
    for wrong in ("a", 1, None, ["a"]):
        with pytest.raises(TypeError, match="keys and values are bytes"):
            items[wrong]
        with pytest.raises(TypeError, match="keys and values are bytes"):
            items[b"a"] = wrong
    with pytest.raises(TypeError, match='encode it, or name a codec'):
        "a" in items  # noqa: B015


def test_get_and_delete(items):
    assert items.get(b"a") is None and items.get(b"a", 7) == 7
    with pytest.raises(KeyError) as missing:
        items[b"a"]
    assert missing.value.args == (b"a",)
    items.put(b"a", b"1", sync=True)
    del items[b"a"]
    with pytest.raises(KeyError):
        del items[b"a"]
    items.delete(b"a")
    items.put_many([b"a", b"b", b"c"], [b"1"] * 3)
    items.delete_many([b"a", b"x", b"c"])
    assert list(items) == [b"b"]
    assert items.pop(b"b") == b"1" and not items
    with pytest.raises(KeyError):
        items.pop(b"b")
    with pytest.raises(KeyError):
        items.popitem()


def test_many(items):
    keys = [b"%05d" % n for n in range(10_000)]
    items.put_many((key, key * 2) for key in keys)
    assert len(items) == len(keys)
    asked = [*keys[::7], b"none", *keys[:3], b"none"]
    assert items.get_many(asked) == [key * 2 if key != b"none" else None for key in asked]
    assert items.get_many(key for key in asked) == items.get_many(tuple(asked))
    assert items.contains_many([b"none", keys[0]]) == [False, True]
    assert items.get_many([]) == [] and items.add_many([]) == []
    with pytest.raises(TypeError, match="not a single one"):
        items.get_many(b"key")
    with pytest.raises(siltstone.InvalidInputError, match="2 keys and 1 values"):
        items.put_many([b"a", b"b"], [b"1"])
    items.clear()
    assert list(items) == []


def test_add_many_says_what_was_new(items):
    generator = random.Random(1)
    seen: set[bytes] = set()
    for _ in range(20):
        keys = [b"%d" % generator.randrange(2000) for _ in range(generator.choice([1, 10, 5000]))]
        expected = []
        for key in keys:
            expected.append(key not in seen)
            seen.add(key)
        assert items.add_many(keys) == expected
    assert set(items) == seen
    assert items.add(b"x") and not items.add(b"x")
    assert items.add_many([b"x", b"y"], [b"1", b"2"]) == [False, True] and items[b"y"] == b"2"


def test_conditions(items):
    assert items.insert_if_absent(b"a", b"1") and not items.insert_if_absent(b"a", b"2")
    assert items.compare_and_set(b"a", b"1", b"2") and not items.compare_and_set(b"a", b"1", b"3")
    assert items.compare_and_set(b"a", b"2", None) and b"a" not in items
    assert items.compare_and_set(b"a", None, b"4") and items[b"a"] == b"4"
    assert items.setdefault(b"a", b"5") == b"4" and items.setdefault(b"b", b"5") == b"5"
    assert items.modify(b"a", lambda old: old + b"!") == b"4!"
    assert items.modify(b"a", lambda old: None) is None and b"a" not in items
    with pytest.raises(ZeroDivisionError):
        items.modify(b"b", lambda old: 1 // 0)
    with pytest.raises(TypeError):
        items.modify(b"b", lambda old: "text")
    assert items[b"b"] == b"5"


def test_counters(store, items):
    assert items.increment(b"n") == 1 and items.increment(b"n", -3) == -2 and items.counter(b"n") == -2
    items[b"text"] = b"text"
    with pytest.raises(siltstone.InvalidInputError, match="4 bytes; a counter has 8"):
        items.increment(b"text")
    assert items.increment(b"most", 2**63 - 1) == 2**63 - 1
    with pytest.raises(siltstone.InvalidInputError, match="64 bits"):
        items.increment(b"most")
    assert items.counter(b"most") == 2**63 - 1
    with pytest.raises(siltstone.InvalidInputError, match="merge"):
        items.count(b"n")
    hits = store.keyspace("hits", merge="add")
    hits.count(b"a")
    hits.count(b"a", 41)
    assert hits.counter(b"a") == 42 and hits.counter(b"none") == 0 and hits.merge_operator == "add"
    words = store.keyspace("words", merge="append:2c")
    with store.batch() as batch:
        batch.merge(words, b"k", b"silt")
        batch.merge(words, b"k", b"stone")
    assert words[b"k"] == b"silt,stone"


def test_items_expire(store, items):
    items.put(b"a", b"1", ttl=0.05)
    items.put(b"b", b"1", ttl=datetime.timedelta(hours=1))
    items[b"c"] = b"1"
    assert 3590 < items.ttl(b"b") <= 3600 and items.ttl(b"c") is None
    time.sleep(0.08)
    assert items.get(b"a") is None and b"b" in items
    with pytest.raises(KeyError):
        items.ttl(b"a")
    assert items.expire(b"b", None) and items.ttl(b"b") is None
    assert items.expire(b"c", 100) and 99 < items.ttl(b"c") <= 100
    assert not items.expire(b"none", 100)
    for wrong in (0, -1, float("nan"), datetime.timedelta(0)):
        with pytest.raises(ValueError):
            items.put(b"x", b"1", ttl=wrong)

    brief = store.keyspace("brief", ttl=0.05)
    assert brief.default_ttl == 0.05
    brief[b"a"] = b"1"
    brief.put_many({b"b": b"1"})
    brief.put(b"long", b"1", ttl=60)
    assert brief.add_many([b"c"]) == [True] and brief.setdefault(b"d", b"1") == b"1"
    assert brief.increment(b"n") == 1 and brief.insert_if_absent(b"e")
    with store.batch() as batch:
        batch.put(brief, b"f", b"1")
        batch.put_many(brief, {b"g": b"1"})
    time.sleep(0.08)
    assert list(brief) == [b"long"]


def test_prefixes(store):
    events = store.keyspace("events", schema="suffix:2")
    events.update({b"ab" + suffix: suffix for suffix in (b"03", b"01", b"02")})
    events[b"xy01"] = b""
    assert [key for key, _ in events.prefix(b"ab")] == [b"ab01", b"ab02", b"ab03"]
    assert [key for key, _ in events.prefix(b"ab", start=b"02")] == [b"ab02", b"ab03"]
    assert [key for key, _ in events.prefix(b"ab", start=b"01", stop=b"03")] == [b"ab01", b"ab02"]
    walk = events.prefix(b"ab")
    next(walk)
    walk.close()
    assert list(walk) == []
    hashed = store.keyspace("hashed", schema="fixed:2", ordered=False)
    assert hashed.schema == "fixed:2:hashed"
    hashed.update({b"ab1": b"1", b"ab2": b"2"})
    assert dict(hashed.prefix(b"ab")) == {b"ab1": b"1", b"ab2": b"2"}
    with pytest.raises(siltstone.InvalidInputError, match="hashes its suffixes"):
        hashed.prefix(b"ab", start=b"1")
    with pytest.raises(siltstone.InvalidInputError, match="point schema"):
        store.keyspace("point").prefix(b"ab")


def test_a_keyspace_gets_another_schema(store):
    files = store.keyspace("files")
    files.update({b"home/%d" % n: b"%d" % n for n in range(500)})
    with pytest.raises(siltstone.InvalidInputError, match="point schema"):
        files.prefix(b"home/")
    files.change_schema("delim:/")
    files.wait_for_schema()
    assert files.schema == "delim:/" and len(list(files.prefix(b"home/"))) == 500
    assert not files.cancel_schema_change()
    files.change_schema("fixed:5", ordered=False)
    files.wait_for_schema()
    assert files.schema == "fixed:5:hashed"
    with pytest.raises(siltstone.InvalidInputError, match="no schema"):
        files.change_schema("sorted")
    with pytest.raises(siltstone.InvalidInputError, match="nor a preset"):
        files.change_schema("point", preset="none")
    with pytest.raises(siltstone.InvalidInputError, match="memory_budget_bytes"):
        files.change_schema("point", preset="leveled")
    # A key that does not fit ends the change.
    files[b"12345"] = b"no slash"
    files.change_schema("delim:/")
    with pytest.raises(siltstone.BadKeyError, match="12345"):
        files.wait_for_schema()
    assert files.schema == "fixed:5:hashed" and files[b"12345"] == b"no slash"


def test_a_keyspace_gets_another_design(store):
    files = store.keyspace("files")
    files.update({b"%d" % n: b"%d" % n for n in range(500)})
    # What advice prints.
    filters = {"table_filter": {"bloom": {"bits_per_key": 10}}, "region_filter": "none"}
    level = {"fanout_bits": 3, "runs": 4, "format": "block", "index": "cells", "table_bytes": 1 << 20, **filters}
    design = {"write_buffer": {"mem_table": {"bytes": 1 << 20}}, "levels": [level], "max_garbage": 0.3}
    files.redesign(json.dumps({"best": {"design": {**design, "pushes_early": False}}}))
    store.flush()
    store.wait_until_idle()
    found = files.stats()["redesign"]
    assert (found["to"], found["done"]) == ("custom", 1.0) and len(files) == 500
    wrong = [("granite", "nor a preset"), ("{}", "no design"), ("{", "no JSON"), ("leveled", "memory_budget_bytes")]
    for text, why in wrong:
        with pytest.raises(siltstone.InvalidInputError, match=why):
            files.redesign(text)


def test_a_keyspace_with_codecs_gets_another_schema(store):
    files = store.keyspace("files", key="str", value="json")
    files["home/a"] = 1
    files.change_schema("delim:/")
    asyncio.run(files.await_for_schema())
    assert list(files.prefix("home/")) == [("home/a", 1)] and not files.cancel_schema_change()


def test_a_walk_sees_one_moment(items):
    keys = {b"%d" % n for n in range(5000)}
    items.put_many({key: key for key in keys})
    walk = iter(items)
    first = next(walk)
    items.clear()
    assert {first, *walk} == keys
    assert len(items) == 0


@pytest.mark.parametrize("kind", ["pairs", "mapping", "columns", "generator"])
def test_bulk_builds(items, kind):
    expected = {b"%d" % n: b"v%d" % n for n in range(5000)}
    heard = []
    if kind == "columns":
        report = items.bulk_build(list(expected), list(expected.values()), progress=heard.append)
    else:
        given = {"pairs": list(expected.items()), "mapping": expected, "generator": iter(expected.items())}[kind]
        report = items.bulk_build(given, progress=heard.append)
    assert report["items"] == report["entries"] == len(expected) and report["tables"] > 0
    assert heard[0] == 0 and heard[-1] == 5000 and heard == sorted(heard)
    assert dict(items) == expected


def test_a_bulk_build_that_fails_changes_nothing(items):
    items[b"a"] = b"1"

    def broken():
        yield b"b", b"1"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        items.bulk_build(broken())
    with pytest.raises(siltstone.InvalidInputError, match="pair of key and value, not 3 things"):
        items.bulk_build([(b"a", b"b", b"c")])
    with pytest.raises(TypeError, match="bytes"):
        items.bulk_build([(b"a", "b")])
    with pytest.raises(siltstone.BadKeyError, match="empty"):
        items.bulk_build([(b"x", b"1"), (b"", b"1")])
    assert dict(items) == {b"a": b"1"}
    assert items.bulk_build([(b"b", b"2")], ttl=60)["items"] == 1 and 50 < items.ttl(b"b") <= 60


def test_bulk_build_with_a_bar(items, capsys):
    pytest.importorskip("tqdm")
    assert items.bulk_build({b"a": b"1"}, progress=True)["items"] == 1
    assert "items" in capsys.readouterr().err


def test_as_a_dictionary_over_random_operations(store):
    """The same operations on a keyspace and on a dictionary, with flushes and reopening in between."""
    generator = random.Random(7)
    keyspace, model = store.keyspace("model"), {}
    for step in range(3000):
        key, value = b"%d" % generator.randrange(300), generator.randbytes(generator.randrange(40))
        match generator.randrange(9):
            case 0 | 1 | 2:
                keyspace[key] = model[key] = value
            case 3:
                assert keyspace.pop(key, None) == model.pop(key, None)
            case 4:
                assert keyspace.setdefault(key, value) == model.setdefault(key, value)
            case 5:
                assert keyspace.get(key) == model.get(key) and (key in keyspace) == (key in model)
            case 6:
                keys = [b"%d" % generator.randrange(300) for _ in range(20)]
                assert keyspace.get_many(keys) == [model.get(key) for key in keys]
            case 7:
                more = {b"%d" % generator.randrange(300): value for _ in range(10)}
                keyspace.update(more)
                model.update(more)
            case 8 if step % 50 == 0:
                store.flush()
    assert dict(keyspace.items()) == model and len(keyspace) == len(model)
