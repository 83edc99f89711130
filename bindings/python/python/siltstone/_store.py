"""Stores, batches and snapshots."""

from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any, overload

from . import _siltstone
from ._codecs import codec
from ._keyspace import CodedKeyspace, CodedView, Keyspace, KeyspaceView
from ._mapping import pairs_of
from .errors import InvalidInputError

__all__ = ["Batch", "Snapshot", "Store", "open"]


def _raw(keyspace: Any) -> Any:
    """The keyspace of bytes."""
    return keyspace.raw if isinstance(keyspace, CodedKeyspace) else keyspace


class Batch(_siltstone.Batch):
    """Writes to any keyspaces of a store that become visible, and survive crashes, together or not at all. Made by
    :meth:`Store.batch`; what is left in it is written at the end of a ``with`` block that raises nothing.

    >>> import siltstone, tempfile
    >>> store = siltstone.open(tempfile.mkdtemp())
    >>> users, index = store.keyspace("users"), store.keyspace("index")
    >>> with store.batch() as batch:
    ...     batch.put(users, b"u1", b"Ada")
    ...     batch.put(index, b"Ada", b"u1")
    >>> index[b"Ada"]
    b'u1'
    """

    def __new__(cls, store: Store, *, sync: bool | None = None) -> Batch:
        """Begins a batch; see :meth:`Store.batch`."""
        made: Batch = super().__new__(cls, store)
        made._sync = sync
        return made

    _sync: bool | None

    def put(self, keyspace: Any, key: Any, value: Any, *, ttl: Any = None) -> None:
        """Sets ``key`` of ``keyspace`` to ``value``; gone after ``ttl`` seconds, if given."""
        if isinstance(keyspace, CodedKeyspace):
            key, value, keyspace = keyspace._encode_key(key), keyspace._encode_value(value), keyspace.raw
        super().put(keyspace, key, value, ttl=ttl)

    def put_many(self, keyspace: Any, items: Any, values: Any = None, *, ttl: Any = None) -> None:
        """Sets many keys of ``keyspace``, given as :meth:`Keyspace.put_many` takes them."""
        keys, values = pairs_of(items) if values is None else (items, values)
        if isinstance(keyspace, CodedKeyspace):
            keys, values, keyspace = keyspace._encode_keys(keys), keyspace._encode_values(values), keyspace.raw
        super()._put_columns(keyspace, keys, values, ttl=ttl)

    def delete(self, keyspace: Any, key: Any) -> None:
        """Removes ``key`` of ``keyspace``; a missing key is fine."""
        if isinstance(keyspace, CodedKeyspace):
            key, keyspace = keyspace._encode_key(key), keyspace.raw
        super().delete(keyspace, key)

    def delete_prefix(self, keyspace: Any, prefix: Any) -> None:
        """Removes every key of ``keyspace`` with ``prefix``."""
        if isinstance(keyspace, CodedKeyspace):
            prefix, keyspace = keyspace._bytes_of(prefix), keyspace.raw
        super().delete_prefix(keyspace, prefix)

    def merge(self, keyspace: Any, key: Any, operand: Any) -> None:
        """Merges ``operand``, bytes, into the value of ``key`` of ``keyspace``."""
        if isinstance(keyspace, CodedKeyspace):
            key, keyspace = keyspace._encode_key(key), keyspace.raw
        super().merge(keyspace, key, operand)

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.write(sync=self._sync)
        else:
            self.clear()


class Snapshot(_siltstone.Snapshot):
    """All keyspaces of a store as they were at one moment; ``snapshot[keyspace]`` is a mapping that does not change.
    It pins files of the store as long as it, or a mapping of it, is there.

    >>> import siltstone, tempfile
    >>> store = siltstone.open(tempfile.mkdtemp())
    >>> items = store.keyspace("items")
    >>> items[b"a"] = b"1"
    >>> with store.snapshot() as before:
    ...     items[b"a"] = b"2"
    ...     before[items][b"a"]
    b'1'
    """

    def __getitem__(self, keyspace: Any) -> Any:
        if isinstance(keyspace, CodedKeyspace):
            return CodedView(keyspace, self)
        if not isinstance(keyspace, Keyspace):
            raise TypeError(f"snapshot[keyspace] takes a keyspace of the store, not {type(keyspace).__name__}")
        return KeyspaceView(keyspace, self)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: a snapshot ends when nothing of it is used any more."""


class Store(_siltstone.Store):
    """An open store: keyspaces that are written together and share memory. Made by :func:`siltstone.open`.

    >>> import siltstone, tempfile
    >>> with siltstone.open(tempfile.mkdtemp(), memory="64M") as store:
    ...     visits = store.keyspace("visits", merge="add")
    ...     visits.count(b"/index.html")
    ...     visits.count(b"/index.html", 2)
    ...     visits.counter(b"/index.html")
    3
    """

    @overload
    def keyspace(
        self,
        name: str,
        schema: str | None = None,
        ordered: bool = True,
        *,
        ttl: Any = None,
        merge: str | None = None,
        preset: str | None = None,
        create: bool = True,
    ) -> Keyspace: ...
    @overload
    def keyspace(
        self,
        name: str,
        schema: str | None = None,
        ordered: bool = True,
        *,
        key: Any = None,
        value: Any = None,
        ttl: Any = None,
        merge: str | None = None,
        preset: str | None = None,
        create: bool = True,
    ) -> Any: ...
    def keyspace(
        self,
        name: str,
        schema: str | None = None,
        ordered: bool = True,
        *,
        key: Any = None,
        value: Any = None,
        ttl: Any = None,
        merge: str | None = None,
        preset: str | None = None,
        create: bool = True,
    ) -> Any:
        """Opens the keyspace ``name``, and creates it where there is none, unless ``create`` is False.

        ``schema`` says which keys lie together: ``"point"``, each by itself, which a new keyspace has without it;
        ``"fixed:N"``, those with the same first N bytes; ``"delim:C"``, those with the same bytes up to the first C;
        ``"suffix:N"``, those with the same bytes but for the last N; ``"last-delim:C"``, those with the same bytes up to
        the last C; ``"delim:C:COUNT"``, up to so many of them; ``"length:N"``, those with the same prefix, whose length is
        the first N bytes. With ``ordered=False`` keys of one prefix are
        kept in the order of hashes, which saves a little. ``Keyspace.change_schema`` gives an existing keyspace another.

        ``key`` and ``value`` name codecs: ``"str"``, ``"int"``, ``"json"``, ``"msgpack"``, ``"pickle"``, for values of
        counters ``"counter"``, or an object with ``encode`` and ``decode``. They are not stored; whoever opens the keyspace gives them again. ``ttl`` is for
        how many seconds items live that are written through this handle.

        ``merge`` names a merge operator, such as ``"add"`` or ``"append"``; ``preset`` a layout, such as ``"lean"``.
        Both are for new keyspaces.

        >>> import siltstone, tempfile
        >>> store = siltstone.open(tempfile.mkdtemp())
        >>> store.keyspace("events", schema="suffix:8").schema
        'suffix:8'
        >>> store.keyspace("events", schema="point")
        Traceback (most recent call last):
        siltstone.errors.InvalidInputError: keyspace "events" exists with another schema ...
        """
        named = {"merge": merge, "preset": preset, "ttl": ttl, "create": create}
        keys, values = codec(key), codec(value)
        raw = Keyspace(self, name, schema, ordered, **named)
        if keys is None and values is None:
            return raw
        return CodedKeyspace(raw, keys, values)

    def batch(self, *, sync: bool | None = None) -> Batch:
        """Begins a :class:`Batch`. With ``sync`` it is on the device when it has been written."""
        return Batch(self, sync=sync)

    def snapshot(self) -> Snapshot:
        """Returns all keyspaces as they are now."""
        return Snapshot(self)

    def replace(self, keyspace: Any, built: Any) -> None:
        """Replaces what ``keyspace`` holds by what ``built``, another keyspace of the same schema, holds: at once for
        readers, and in a crash wholly or not at all. ``built`` is no keyspace of the store any more; who still has it
        reads what it held.

        >>> import siltstone, tempfile
        >>> store = siltstone.open(tempfile.mkdtemp())
        >>> prices, today = store.keyspace("prices"), store.keyspace("prices of today")
        >>> prices[b"apple"] = b"3"
        >>> _ = today.bulk_build({b"plum": b"1"})
        >>> store.replace(prices, today)
        >>> dict(prices), store.keyspaces()
        ({b'plum': b'1'}, ['prices'])
        """
        keyspace, built = _raw(keyspace), _raw(built)
        if not isinstance(keyspace, Keyspace) or not isinstance(built, Keyspace):
            raise InvalidInputError("replace takes two keyspaces of this store")
        keyspace.replace_by(built)

    def stats(self) -> dict[str, Any]:
        """Returns what the store has done and holds, as a dictionary: bytes written and read, memory by holder,
        stalls, and an entry for each keyspace."""
        found: dict[str, Any] = json.loads(self._stats_json())
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.keyspaces()

    def __repr__(self) -> str:
        return f"<siltstone.Store {str(self.path)!r}>"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    memory: int | str | None = None,
    *,
    create: bool = True,
    read_only: bool = False,
    durability: str = "buffered",
    sync_interval: float = 1.0,
    threads: int = 1,
    preset: str | None = None,
    auto_design: str | None = None,
    direct: bool = False,
    max_open_files: int = 512,
    log_limit: int | str = "256M",
    resources: _siltstone.Resources | None = None,
) -> Store:
    """Opens the store in the directory ``path``, and creates it where there is none.

    ``memory`` is what the store may use in all: write buffers, filters, indexes and caches; 256 MiB. Options:

    ================== ==================================================================================
    ``create``         whether to create a store where there is none; True
    ``read_only``      opens the store as it is now, for reading, also while another process writes; False
    ``durability``     ``"buffered"``: writes survive the process at once, a power cut after
                       ``sync_interval``; ``"synced"``: each write is on the device when it returns
    ``sync_interval``  seconds between syncs of buffered writes; 1.0, and 0 for none
    ``threads``        threads that compact; 1
    ``preset``         layout of keyspaces that are created without one, such as ``"lean"``, or ``"auto"``: what
                       suits so much memory best
    ``auto_design``    whether keyspaces look for a layout that suits what they do better: ``"off"``,
                       ``"propose"`` (in :meth:`Keyspace.stats`, as ``proposed``) or ``"apply"``; ``"propose"``
                       with the preset ``"auto"``, else ``"off"``
    ``direct``         reads and writes tables around the system's page cache; False
    ``max_open_files`` 512
    ``log_limit``      bytes of the log at which write buffers are flushed to shorten it; ``"256M"``
    ``resources``      :class:`Resources` that several stores share, instead of ``memory`` and ``threads``
    ================== ==================================================================================

    One process at a time may write to a store. It closes at the end of a ``with`` block, by :meth:`Store.close`, or
    when nothing of it is used any more.

    >>> import siltstone, tempfile
    >>> with siltstone.open(tempfile.mkdtemp(), memory="64M") as store:
    ...     items = store.keyspace("items", key="str", value="json")
    ...     items["a"] = [1, 2]
    ...     items["a"]
    [1, 2]
    """
    directory = os.fsdecode(path)
    if "\0" in directory:
        raise InvalidInputError(f"a path has no null byte, and {directory!r} has")
    return Store(
        directory,
        memory,
        create=create,
        read_only=read_only,
        durability=durability,
        sync_interval=sync_interval,
        threads=threads,
        preset=preset,
        auto_design=auto_design,
        direct=direct,
        max_open_files=max_open_files,
        log_limit=log_limit,
        resources=resources,
    )
