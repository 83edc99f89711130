"""Walks over keyspaces: pages, both directions, keys alone, counts, clearing; and what is predicted of a keyspace."""

from __future__ import annotations

import itertools

import pytest

import siltstone

KEYS = [b"%d" % n for n in range(3000)]


@pytest.fixture(params=["written", "flushed", "built"])
def full(store, request):
    """A keyspace of 3000 items, in its write buffer, in tables that were flushed, or in built ones."""
    items = store.keyspace("full")
    if request.param == "built":
        items.bulk_build((key, key * 2) for key in KEYS)
    else:
        items.put_many((key, key * 2) for key in KEYS)
    if request.param == "flushed":
        store.flush()
    return items


def test_both_directions_and_keys_alone(full):
    items = list(full.items())
    keys = [key for key, _ in items]
    assert sorted(keys) == sorted(KEYS) and all(value == key * 2 for key, value in items)
    assert list(full) == list(full.keys()) == list(full.scan(keys_only=True)) == keys
    assert list(full.values()) == [value for _, value in items] and list(full.scan()) == items
    assert list(reversed(full)) == list(reversed(full.keys())) == keys[::-1]
    assert list(reversed(full.items())) == list(full.scan(reverse=True)) == items[::-1]
    assert list(reversed(full.values())) == [value for _, value in items[::-1]]
    assert list(full.scan(reverse=True, keys_only=True)) == keys[::-1]


@pytest.mark.parametrize("limit", [1, 7, 1000, 5000])
def test_pages(full, limit):
    keys, some = list(full), KEYS[: 40 if limit == 1 else None]
    for reverse in (False, True):
        bound, shown = ("before" if reverse else "after"), []
        while page := list(full.scan(limit=limit, reverse=reverse, keys_only=True, **({bound: shown[-1]} if shown else {}))):
            assert len(page) <= limit
            shown += page
            if len(shown) >= len(some):
                break
        assert shown[: len(some)] == (keys[::-1] if reverse else keys)[: len(some)]
    first, last = keys[10], keys[-10]
    assert list(full.scan(after=first, before=last, keys_only=True)) == keys[11:-10]
    assert list(full.scan(after=first, before=last, limit=3, reverse=True, keys_only=True)) == keys[-11:-14:-1]
    # Keys that are not there have a place in the order all the same.
    full.delete(first)
    assert next(full.scan(after=first, keys_only=True)) == keys[11]
    assert list(full.scan(limit=0)) == [] and list(full.scan(after=first, before=first)) == []
    with pytest.raises(siltstone.BadKeyError):
        full.scan(after=b"")


def test_pages_of_a_prefix(store):
    files = store.keyspace("files", schema="delim:/", key="str", value="json")
    names = [f"home/{n:03}" for n in range(500)]
    files.update({name: n for n, name in enumerate(names)} | {"root/a": 1})
    raw = files.raw
    assert list(raw.prefix(b"home/", limit=2, keys_only=True)) == [b"home/000", b"home/001"]
    assert list(raw.prefix(b"home/", after=b"home/001", limit=1)) == [(b"home/002", b"2")]
    assert [key for key, _ in files.prefix("home/", reverse=True, limit=2)] == names[:-3:-1]
    assert list(files.prefix("home/", start="100", stop="200", reverse=True, keys_only=True)) == names[100:200][::-1]
    assert list(files.prefix("home/", before="home/003", keys_only=True)) == names[:3]
    assert list(files.scan(starting_with="home/49", keys_only=True)) == names[490:]
    assert list(files.scan(starting_with="root", limit=5)) == [("root/a", 1)]
    assert sorted(files.scan(starting_with="", keys_only=True)) == [*names, "root/a"]
    assert list(reversed(files)) == list(files)[::-1]
    assert files.len_of("home/") == files.approximate_len("home/") == 500 and files.len_of("none/") == 0
    with store.snapshot() as before:
        files.clear()
        assert list(before[files].scan(starting_with="home/49", reverse=True, keys_only=True)) == names[:489:-1]
        assert before[files].len_of("home/") == 500 and len(before[files]) == 501 and before[files]
        assert next(reversed(before[raw])) == next(before[raw].scan(reverse=True, keys_only=True))


def test_counts(store, full):
    assert len(full) == full.approximate_len() == len(KEYS) and full
    assert len(store.keyspace("empty")) == store.keyspace("empty").approximate_len() == 0
    assert not store.keyspace("empty")
    full.delete_many(KEYS[:1000])
    assert len(full) == len(list(full.keys())) == 2000
    assert 1500 <= full.approximate_len() <= 3000
    store.close()
    for use in (full.approximate_len, full.clear, lambda: full.scan(), lambda: full.len_of(b"a"), lambda: reversed(full)):
        with pytest.raises(siltstone.ClosedError):
            use()


def test_clearing_writes_nothing_for_each_item(store):
    items = store.keyspace("items")
    items.bulk_build((key, bytes(100)) for key in KEYS)
    walk, written = iter(items), store.stats()["wal_bytes_written"]
    first = next(walk)
    items.clear()
    assert not items and items.approximate_len() == 0 and items.stats()["table_count"] == 0
    # Deletes of three thousand keys would take at least their keys.
    assert store.stats()["wal_bytes_written"] - written < 3000
    assert len([first, *walk]) == len(KEYS)
    items[b"a"] = b"1"
    assert dict(items) == {b"a": b"1"}


def test_predicted_beside_measured(store):
    items = store.keyspace("items")
    fresh = items.stats()
    assert fresh["predicted"].keys() == fresh["measured"].keys() == {
        "write_amplification", "reads_per_hit", "reads_per_miss", "reads_per_scan", "memory_bytes",
        "space_amplification",
    }
    assert set(fresh["predicted"].values()) == {None} and fresh["drift"] == []
    for turn in range(8):
        items.put_many((b"%08d" % n, bytes(92)) for n in range(turn * 5000, turn * 5000 + 5000))
        store.flush()
    store.wait_until_idle()
    for chunk in itertools.batched(range(40_000), 100) if hasattr(itertools, "batched") else [range(40_000)]:
        items.get_many([b"%08d" % n for n in chunk])
        items.get_many([b"none %d" % n for n in chunk])
    workload, found = items.workload(), items.stats()
    assert 30_000 < workload["items"] < 50_000 and (workload["key_bytes"], workload["value_bytes"]) == (8, 92)
    assert abs(sum(workload["mix"].values()) - 1) < 1e-6 and workload["mix"]["misses"] > 0.3
    measured, predicted = found["measured"], found["predicted"]
    for name in ("write_amplification", "reads_per_hit", "reads_per_miss", "memory_bytes", "space_amplification"):
        assert isinstance(measured[name], float) and isinstance(predicted[name], float), name
    assert 1 <= measured["write_amplification"] < 4 and 1 <= predicted["write_amplification"] < 4
    assert 0.9 < measured["space_amplification"] / predicted["space_amplification"] < 1.1
    assert {each["field"] for each in found["drift"]} <= set(measured)
    assert store.stats()["keyspaces"][0]["predicted"] == predicted
