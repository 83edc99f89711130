"""The cache: its calls, lives, its limit, and what stays."""

from __future__ import annotations

import random
import threading
import time

import pytest

import siltstone


@pytest.fixture
def cache(tmp_path):
    with siltstone.Cache(tmp_path / "cache", size_limit="64M", memory="8M") as cache:
        yield cache


def test_keys_and_values_of_any_kind(cache):
    keys = ["a", b"a", 1, 1.5, -7, (1, "x"), None, "", b"", 10**30, frozenset({1})]
    for number, key in enumerate(keys):
        cache[key] = {"number": number}
    assert [cache[key]["number"] for key in keys] == list(range(len(keys)))
    assert set(cache) == set(keys) and len(cache) == len(keys)
    assert cache[1.0] == cache[1] == cache[True]
    cache["bytes"] = b"raw"
    assert cache["bytes"] == b"raw"
    with pytest.raises(KeyError):
        cache["none"]
    with pytest.raises(KeyError):
        del cache["none"]
    del cache["a"]
    assert "a" not in cache and cache.pop("a", 3) == 3 and cache.pop(b"a") == {"number": 1}
    assert not cache.delete(b"a")


def test_add_incr_touch(cache):
    assert cache.add("k", 1) and not cache.add("k", 2) and cache["k"] == 1
    assert cache.incr("k") == 2 and cache.decr("k", 5) == -3 and cache.incr("new", 7) == 7
    with pytest.raises(KeyError):
        cache.incr("none", default=None)
    cache.set("t", 1, expire=0.05)
    assert cache.touch("t", 60) and not cache.touch("none")
    cache.set("u", 1, expire=60)
    cache.incr("u")
    time.sleep(0.08)
    assert cache["t"] == 1 and cache["u"] == 2
    assert cache.get("x") is None and cache.stats() == (3, 1)


def test_items_expire_for_good(cache):
    cache["k"] = "forever"
    # Now it is in the old generation.
    cache._next_generation()
    cache.set("k", "brief", expire=0.05)
    assert cache["k"] == "brief"
    time.sleep(0.08)
    assert "k" not in cache and cache.get("k") is None and len(cache) == 0


def test_memoize(cache):
    calls = []

    @cache.memoize(expire=60)
    def add(a, b=1, *, c=0):
        calls.append((a, b, c))
        return a + b + c

    assert [add(1), add(1), add(1, c=2), add(1, c=2), add(2)] == [2, 2, 4, 4, 3]
    assert len(calls) == 3
    with pytest.raises(TypeError, match="is called"):
        cache.memoize(add)


def test_the_limit_holds_and_what_is_used_stays(tmp_path):
    with siltstone.Cache(tmp_path / "cache", size_limit="1M", memory="4M") as cache:
        generator = random.Random(1)
        used = [f"used-{number}" for number in range(20)]
        for key in used:
            cache[key] = key
        for number in range(20_000):
            cache[f"other-{number}"] = generator.randbytes(200)
            if number % 50 == 0:
                assert cache[used[number // 50 % 20]]
        assert all(cache[key] == key for key in used)
        assert f"other-{19_999}" in cache and "other-0" not in cache
        held = sum(len(key) + len(cache.get(key, b"")) for key in list(cache))
        assert 200_000 < held < 1 << 20
        names = cache._store.keyspaces()
        assert len(names) == 2
    with siltstone.Cache(tmp_path / "cache", size_limit="1M", memory="4M") as cache:
        assert all(cache[key] == key for key in used) and cache._store.keyspaces() == names
        cache.clear()
        assert len(cache) == 0 and used[0] not in cache
    with pytest.raises(siltstone.InvalidInputError, match="at least"):
        siltstone.Cache(tmp_path / "x", size_limit=5)
    with pytest.raises(siltstone.InvalidInputError, match="no size"):
        siltstone.Cache(tmp_path / "x", size_limit="big")


def test_threads_share_a_cache(tmp_path):
    with siltstone.Cache(tmp_path / "cache", size_limit="1M", memory="4M") as cache:
        failures = []

        def work(number):
            try:
                for n in range(2000):
                    cache[number, n] = bytes(300)
                    cache.get((number, n - 1))
                    cache.incr("sum")
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == [] and cache["sum"] == 8000
