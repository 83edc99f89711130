"""The contestants: each store by the calls that it has for what the workloads do.

`memory` is the budget for caches and write buffers, as each store names it. SQLite has its page cache set to it; LMDB has no
such number: what it maps belongs to the system, which keeps as much of it as the cap allows. None waits for the device when it
writes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

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

    def settle(self) -> None:
        self.store.wait_until_idle()

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

    def settle(self) -> None:
        """Waits for what the store does in the background, where it says so."""

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

    def settle(self) -> None:
        import time

        self.db.flush()
        pending = ("rocksdb.compaction-pending", "rocksdb.num-running-compactions", "rocksdb.num-running-flushes")
        while any(self.db.property_int_value(name) for name in pending):
            time.sleep(0.05)

    def close(self) -> None:
        self.db.close()


class Lmdb(ByItem):
    def __init__(self, path: Path, memory: int) -> None:
        import lmdb

        self.env = lmdb.open(str(path), map_size=64 << 30, sync=False, metasync=False, writemap=False)

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


class Set:
    """A set of Python, for what a seen-set in memory takes."""

    def __init__(self, path: Path, memory: int) -> None:
        self.keys: set[bytes] = set()

    def seen(self, keys: list[bytes]) -> list[bool]:
        found = []
        for key in keys:
            found.append(key not in self.keys)
            self.keys.add(key)
        return found

    def settle(self) -> None:
        """Has nothing to wait for."""

    def close(self) -> None:
        """Forgets all of it."""


STORES: dict[str, Any] = {
    "siltstone": Siltstone,
    "rocksdict": RocksDict,
    "lmdb": Lmdb,
    "sqlite3": Sqlite,
    "diskcache": DiskCache,
    "plyvel": Plyvel,
    "set": Set,
}
