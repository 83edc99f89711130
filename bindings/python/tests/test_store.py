"""Stores: options, batches, snapshots, reopening, what is refused, forks, threads."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import subprocess
import sys
import threading

import pytest

import siltstone


def test_what_was_written_is_there_again(tmp_path):
    with siltstone.open(tmp_path / "db", memory="16M", durability="synced", preset="lean") as store:
        store.keyspace("a", schema="delim:/")[b"x/y"] = b"1"
    with siltstone.open(str(tmp_path / "db")) as store:
        assert store.keyspaces() == ["a"] and "a" in store and "b" not in store
        # Without a schema the keyspace is opened as it is.
        keyspace = store.keyspace("a")
        assert keyspace.schema == "delim:/" and dict(keyspace) == {b"x/y": b"1"}
        assert keyspace.stats()["preset"] == "lean"
        assert store.verify() == []
    with siltstone.open(tmp_path / "db", read_only=True, direct=True, threads=0) as store:
        assert store.keyspace("a")[b"x/y"] == b"1"
        with pytest.raises(siltstone.ReadOnlyError):
            store.keyspace("a")[b"x/y"] = b"2"


def test_a_layout_is_picked_for_the_memory(tmp_path):
    with siltstone.open(tmp_path / "db", memory="64M", preset="auto", auto_design="apply") as store:
        picked = store.keyspace("items").stats()["preset"]
    with siltstone.open(tmp_path / "small", memory="2M", preset="auto") as store:
        assert store.keyspace("items").stats()["preset"] != picked


def test_options_are_checked(tmp_path):
    def refused(match, **options):
        with pytest.raises(siltstone.InvalidInputError, match=match):
            siltstone.open(tmp_path / "db", **options)

    refused("no size", memory="64 elephants")
    refused("no size", memory="")
    refused("at least", memory=1000)
    refused("durability", durability="maybe")
    refused('no preset "huge"; there are .*lean', preset="huge")
    refused("auto_design: .*propose", auto_design="often")
    refused("sync_interval", sync_interval=-1)
    with pytest.raises(TypeError, match="a size is"):
        siltstone.open(tmp_path / "db", memory=[])
    with pytest.raises(TypeError):
        siltstone.open(tmp_path / "db", unknown=1)
    with pytest.raises(siltstone.Error):
        siltstone.open(tmp_path / "none", create=False)
    with siltstone.open(tmp_path / "db", memory=" 1.5m ") as store:
        assert store.stats()["memory"]["budget"] == 3 << 19
        with pytest.raises(siltstone.NoKeyspaceError):
            store.keyspace("none", create=False)
        with pytest.raises(siltstone.InvalidInputError, match="no schema; write point, fixed:N"):
            store.keyspace("x", schema="sorted")
        with pytest.raises(siltstone.InvalidInputError, match="merge operator"):
            store.keyspace("x", merge="divide")


def test_paths_and_sizes(tmp_path):
    with siltstone.open(os.fsencode(tmp_path / "bytes"), memory=2**21) as store:
        assert store.path == tmp_path / "bytes"
    with pytest.raises(siltstone.InvalidInputError, match="null byte"):
        siltstone.open("a\0b")
    with pytest.raises(TypeError, match="PathLike"):
        siltstone.open(5)
    for size in (-1, 10**30, 0, "64X", ""):
        with pytest.raises(siltstone.InvalidInputError, match="size|1 MiB"):
            siltstone.open(tmp_path / "db", memory=size)
    with pytest.raises(TypeError, match="64M"):
        siltstone.open(tmp_path / "db", memory=1.5)


def test_errors_have_facts(tmp_path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(siltstone.NotAStoreError) as refused:
        siltstone.open(tmp_path / "file")
    assert refused.value.kind == "NotAStore" and refused.value.path.endswith("file")
    assert isinstance(refused.value, siltstone.Error) and refused.value.offset is None

    with siltstone.open(tmp_path / "db") as store:
        store.keyspace("a")[b"x"] = b"1"
        with pytest.raises(siltstone.LockedError, match="open in this process already"):
            siltstone.open(tmp_path / "db")
        store.keyspace("a").bulk_build({b"%d" % n: bytes(100) for n in range(1000)})
    with pytest.raises(siltstone.IoError) as refused:
        siltstone.open("/proc/self/fdinfo/db")
    error = refused.value
    assert isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.EACCES, errno.EPERM)
    assert "fdinfo" in str(error) and "None" not in str(error)

    table = max((tmp_path / "db").rglob("*.table"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    for at in range(0, len(data) // 2, 64):
        data[at] ^= 0xFF
    table.write_bytes(data)
    with siltstone.open(tmp_path / "db") as store:
        with pytest.raises(siltstone.CorruptionError) as damaged:
            store.keyspace("a").get_many([b"%d" % n for n in range(1000)])
        error = damaged.value
        assert error.kind == "Corruption" and error.path == str(table)
        assert error.offset is not None and error.expected and error.found
        assert store.verify()


def test_use_after_close(tmp_path):
    store = siltstone.open(tmp_path / "db")
    items = store.keyspace("items")
    items.put_many({b"%d" % n: b"" for n in range(3000)})
    walk, snapshot = iter(items), store.snapshot()
    next(walk)
    store.close()
    store.close()
    for use in (
        lambda: items[b"a"],
        lambda: items.put(b"a", b"1"),
        lambda: items.get_many([b"a"]),
        lambda: len(items),
        lambda: next(walk),
        lambda: list(walk),
        lambda: snapshot[items].get(b"a"),
        lambda: store.keyspace("other"),
        lambda: store.sync(),
        lambda: store.batch().put(items, b"a", b"1") or items.delete(b"a"),
        lambda: store.keyspace("items"),
        lambda: store.stats(),
        lambda: items.stats(),
        lambda: store.keyspaces(),
        lambda: snapshot.age,
    ):
        with pytest.raises(siltstone.ClosedError, match="closed"):
            use()
    assert repr(items) == f"<siltstone.Keyspace 'items' in {str(tmp_path / 'db')!r}>" and "db" in repr(store)
    with siltstone.open(tmp_path / "db") as again:
        assert len(again.keyspace("items")) == 3000


def test_a_store_closes_with_its_last_handle(tmp_path):
    items = siltstone.open(tmp_path / "db").keyspace("items")
    items[b"a"] = b"1"
    del items
    with siltstone.open(tmp_path / "db") as store:
        assert store.keyspace("items")[b"a"] == b"1"


def test_batches(store):
    a, b = store.keyspace("a"), store.keyspace("b", schema="delim:/", key="str", value="json")
    b["x/1"] = 1
    with store.batch(sync=True) as batch:
        batch.put(a, b"k", b"1", ttl=60)
        batch.put_many(a, [b"l", b"m"], [b"2", b"3"])
        batch.delete(a, b"l")
        batch.delete_prefix(b, "x/")
        batch.put(b, "y/1", {"n": 1})
        batch.put_many(b, {"y/2": 2})
        batch.delete(b, "y/2")
        assert len(batch) == 9 - 1 and batch.bytes > 0
        assert dict(a) == {} and dict(b) == {"x/1": 1}
    assert dict(a) == {b"k": b"1", b"m": b"3"} and dict(b) == {"y/1": {"n": 1}}
    with pytest.raises(ZeroDivisionError), store.batch() as batch:
        batch.put(a, b"never", b"1")
        raise ZeroDivisionError
    assert b"never" not in a and len(batch) == 0
    batch = store.batch()
    batch.put(a, b"late", b"1")
    batch.write()
    assert b"late" in a and len(batch) == 0


def test_batches_are_of_one_store(store, tmp_path):
    with siltstone.open(tmp_path / "other") as other, pytest.raises(siltstone.InvalidInputError, match="store"):
        with store.batch() as batch:
            batch.put(other.keyspace("a"), b"k", b"1")


def test_snapshots(store):
    items = store.keyspace("items")
    items[b"a"] = b"1"
    snapshot = store.snapshot()
    before = snapshot[items]
    items[b"a"] = b"2"
    items[b"b"] = b"2"
    assert before[b"a"] == b"1" and dict(before) == {b"a": b"1"} and len(before) == 1 and b"b" not in before
    assert before.get_many([b"a", b"b"]) == [b"1", None] and before.contains_many([b"b"]) == [False]
    assert before.items() == {(b"a", b"1")} and snapshot.age >= 0 and before.name == "items"
    assert not hasattr(before, "put")
    with pytest.raises(TypeError):
        before[b"a"] = b"3"


def test_checkpoints_backups_and_replacement(store, tmp_path):
    items = store.keyspace("items")
    items[b"a"] = b"1"
    store.checkpoint(tmp_path / "checkpoint")
    assert [store.backup(tmp_path / "backups"), store.backup(tmp_path / "backups")] == [1, 2]
    with siltstone.open(tmp_path / "checkpoint") as copy:
        assert dict(copy.keyspace("items")) == {b"a": b"1"}
    store.flush()
    store.wait_until_idle()
    stats = store.stats()
    assert stats["user_bytes_written"] == 2 and [keyspace["name"] for keyspace in stats["keyspaces"]] == ["items"]
    assert items.stats()["items_estimate"] == 1
    store.drop_keyspace("items")
    with pytest.raises(siltstone.NoKeyspaceError):
        items[b"a"] = b"2"


def test_resources_are_shared(tmp_path):
    resources = siltstone.Resources("32M")
    stores = [siltstone.open(tmp_path / f"{n}", resources=resources) for n in range(3)]
    for store in stores:
        store.keyspace("a")[b"k"] = b"v"
    assert resources.stores == 3 and 0 < resources.memory_bytes < 32 << 20
    for store in stores:
        store.close()


def test_stores_and_keyspaces_are_not_pickled(store, items):
    for thing in (store, items, store.snapshot(), store.batch()):
        with pytest.raises(TypeError):
            pickle.dumps(thing)


def test_threads(items):
    def work(number):
        keys = [b"%d-%d" % (number, n) for n in range(500)]
        for key in keys:
            items[key] = key
        assert items.get_many(keys) == keys
        for _ in range(100):
            items.increment(b"counter")
        assert sum(1 for _ in items) > 500

    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert items.counter(b"counter") == 800 and len(items) == 8 * 500 + 1


def test_other_threads_run_during_a_call(store):
    """A build that a generator feeds lets a second thread answer gets of the same store meanwhile."""
    items, other = store.keyspace("items"), store.keyspace("other")
    other[b"a"] = b"1"
    asked, answered = threading.Event(), threading.Event()

    def feed():
        for n in range(100_000):
            if n == 50_000:
                asked.set()
                assert answered.wait(30)
            yield b"%d" % n, b""

    def answer():
        assert asked.wait(30)
        assert other[b"a"] == b"1"
        answered.set()

    thread = threading.Thread(target=answer)
    thread.start()
    assert items.bulk_build(feed())["items"] == 100_000
    thread.join()


def test_asyncio(store, items):
    async def run():
        await items.aput(b"a", b"1", ttl=60)
        await items.aput_many({b"b": b"2"})
        found = await asyncio.gather(*(items.aget_many([b"a", b"b", b"c"]) for _ in range(20)))
        assert found == [[b"1", b"2", None]] * 20
        assert await items.aget(b"b") == b"2" and await items.acontains_many([b"c"]) == [False]
        assert await items.aadd_many([b"a", b"d"]) == [False, True]
        assert await items.aincrement(b"n", 2) == 2 and await items.ainsert_if_absent(b"e")
        await items.adelete(b"e")
        assert not await items.acontains(b"e")
        coded = store.keyspace("coded", key="str", value="json")
        await coded.aput("a", [1])
        assert await coded.aget("a") == [1]
        with pytest.raises(siltstone.BadKeyError):
            await items.aget(b"")

    asyncio.run(run())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_told(tmp_path):
    """The child's uses are refused, its end harms nothing, and the parent can close the store and open it again
    while the child is still there."""
    program = """
import gc, os, sys
import siltstone

path = sys.argv[1]
store = siltstone.open(path)
items, snapshot = store.keyspace("items"), store.snapshot()
items.put_many({b"%d" % n: b"1" for n in range(1000)})
walk = iter(items)
to_child, to_parent = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.close(to_child[1])
    def refused(use, match="open it after the fork"):
        try:
            use()
        except siltstone.ForkedError as error:
            return match in str(error)
        return False
    uses = [lambda: items[b"1"], lambda: items.put(b"1", b"2"), lambda: store.close(), lambda: list(walk),
            lambda: store.batch(), lambda: store.keyspace("other"), lambda: snapshot[items], lambda: len(items)]
    fine = all([refused(use) for use in uses])
    del store, items, walk, snapshot, uses
    gc.collect()
    fine = fine and refused(lambda: siltstone.open(path + "-of-child"), "can't open any")
    os.write(to_parent[1], b"1" if fine else b"0")
    os.read(to_child[0], 1)
    os._exit(0)
assert os.read(to_parent[0], 1) == b"1", "the child was not refused"
assert items[b"1"] == b"1"
items[b"2"] = b"2"
store.close()
with siltstone.open(path) as again:
    assert again.keyspace("items")[b"2"] == b"2" and len(again.keyspace("items")) == 1000
    assert again.verify() == []
os.write(to_child[1], b"x")
assert os.waitpid(child, 0)[1] == 0

# All stores are closed: a child may have its own now.
child = os.fork()
if child == 0:
    with siltstone.open(path + "-of-child") as own:
        own.keyspace("items")[b"a"] = b"1"
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "db")], check=True, timeout=120)
    with siltstone.open(tmp_path / "db-of-child") as store:
        assert dict(store.keyspace("items")) == {b"a": b"1"}


def test_ctrl_c_ends_a_build(items):
    def feed():
        yield b"a", b"1"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        items.bulk_build(feed())
    assert not items
