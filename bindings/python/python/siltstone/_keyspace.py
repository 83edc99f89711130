"""Keyspaces: mappings of bytes, or of anything that codecs make bytes of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from . import _siltstone
from ._codecs import Codec, Counter, many
from ._mapping import MISSING, AsyncReads, AsyncWrites, Changes, Views, pairs_of
from ._progress import teller
from .errors import InvalidInputError

if TYPE_CHECKING:
    from ._store import Snapshot, Store

__all__ = ["CodedKeyspace", "CodedView", "Keyspace", "KeyspaceView"]


class _Reads(Views, AsyncReads):
    """What can be read, now or in a snapshot."""

    def stats(self) -> dict[str, Any]:
        """Returns what the keyspace has done and holds, as a dictionary.

        ``measured`` and ``predicted`` hold the same figures: ``write_amplification``, ``reads_per_hit``,
        ``reads_per_miss``, ``reads_per_scan``, ``memory_bytes`` and ``space_amplification``. What is predicted is for
        the workload that the keyspace has had, from some flushes on; a figure that nobody knows is None. ``drift``
        names each figure that is far off, and the likely cause.

        >>> import siltstone, tempfile
        >>> store = siltstone.open(tempfile.mkdtemp())
        >>> items = store.keyspace("items")
        >>> for turn in range(4):
        ...     items.put_many((b"%d" % n, b"value") for n in range(turn * 1000, turn * 1000 + 1000))
        ...     store.flush()
        >>> found = items.stats()
        >>> found["items_estimate"], found["predicted"].keys() == found["measured"].keys()
        (4000, True)
        >>> found["predicted"]["write_amplification"] >= 1, found["measured"]["write_amplification"] >= 1
        (True, True)
        """
        found: dict[str, Any] = json.loads(self._stats_json())  # type: ignore[attr-defined]
        return found

    def get_array(self, keys: Any, dtype: Any, dim: int | tuple[int, ...] | None = None, *, fill: Any = None) -> Any:
        """Looks ``keys`` up and returns ``(rows, found)``: their values as the rows of a NumPy array of ``dtype``
        with ``dim`` numbers each (one number without ``dim``), and of each whether it was found. Rows of missing
        keys are zeros, or ``fill``. No object is made for each key.

        >>> import siltstone, tempfile, numpy as np
        >>> vectors = siltstone.open(tempfile.mkdtemp()).keyspace("vectors")
        >>> vectors.put_array([b"v1", b"v2"], np.array([[1, 2], [3, 4]], dtype="f4"))
        >>> rows, found = vectors.get_array([b"v2", b"v3"], "f4", 2)
        >>> rows.tolist(), found.tolist()
        ([[3.0, 4.0], [0.0, 0.0]], [True, False])
        """
        from . import _arrays

        return _arrays.read(self, keys, dtype, dim, fill)


class Keyspace(_siltstone.Keyspace, _Reads, Changes, AsyncWrites, MutableMapping[bytes, bytes]):
    """A named set of keys within a store: a mutable mapping of bytes. Made by :meth:`Store.keyspace`.

    >>> import siltstone, tempfile
    >>> store = siltstone.open(tempfile.mkdtemp())
    >>> files = store.keyspace("files", schema="delim:/")
    >>> files[b"home/notes.txt"] = b"42 bytes"
    >>> files.update({b"home/ideas.txt": b"7 bytes", b"root/secret": b"1 byte"})
    >>> files[b"home/ideas.txt"]
    b'7 bytes'
    >>> list(files.prefix(b"home/"))
    [(b'home/ideas.txt', b'7 bytes'), (b'home/notes.txt', b'42 bytes')]
    >>> files.get_many([b"root/secret", b"root/none"])
    [b'1 byte', None]
    >>> b"root/none" in files, len(files)
    (False, 3)

    Keys have 1 to 65,535 bytes. All items are walked over in the store's order, which is that of hashes, forwards and by
    ``reversed``; :meth:`scan` shows them in pages. ``len`` walks over the keys, and so does ``list(keyspace)``, which asks
    for it first; :meth:`approximate_len` reads nothing. Each call is atomic, but for those
    that set many items, which write batches; and any number of threads may use a keyspace.
    """

    def __new__(cls, store: Store, name: str, *args: Any, **named: Any) -> Keyspace:
        """Opens a keyspace; see :meth:`Store.keyspace`."""
        made: Keyspace = super().__new__(cls, store, name, *args, **named)
        made.store = store
        return made

    store: Store
    """The store that it belongs to."""
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<siltstone.Keyspace {self.name!r} in {str(self.store.path)!r}>"

    def put_many(self, items: Any, values: Any = None, *, ttl: Any = None, sync: bool | None = None) -> None:
        """Sets many keys. Takes a mapping, an iterable of pairs, or keys and ``values`` as two columns: lists,
        NumPy arrays with a row for each item, or anything with Arrow's PyCapsule interface.

        Written in batches of some thousands, each of which is atomic; use :meth:`Store.batch` for one of any size.

        >>> import siltstone, tempfile
        >>> items = siltstone.open(tempfile.mkdtemp()).keyspace("items")
        >>> items.put_many({b"a": b"1", b"b": b"2"})
        >>> items.put_many([b"c", b"d"], [b"3", b"4"], ttl=60)
        >>> sorted(items)
        [b'a', b'b', b'c', b'd']
        """
        keys, values = pairs_of(items) if values is None else (items, values)
        self._put_columns(keys, values, ttl=ttl, sync=sync)

    def put_array(self, keys: Any, rows: Any, *, ttl: Any = None, sync: bool | None = None) -> None:
        """Sets ``keys`` to the rows of a NumPy array: the bytes of its numbers, as :meth:`get_array` reads them."""
        from . import _arrays

        keys = keys if hasattr(keys, "__len__") else list(keys)
        self._put_columns(keys, _arrays.values_of(rows, len(keys)), ttl=ttl, sync=sync)

    def add_many(self, keys: Any, values: Any = None) -> list[bool]:
        """Adds those of ``keys`` that have no value yet, with ``values`` or with empty ones, and returns of each
        whether it was new. Of equal keys the first counts. Some thousands at a time are added together.

        >>> import siltstone, tempfile
        >>> seen = siltstone.open(tempfile.mkdtemp()).keyspace("seen")
        >>> seen.add_many([b"a", b"b", b"a"])
        [True, True, False]
        >>> seen.add_many([b"b", b"c"])
        [False, True]
        """
        return self._add_columns(keys, values)

    def add(self, key: Any) -> bool:
        """Adds ``key``, with an empty value, unless it is there; returns whether it was new."""
        return self.insert_if_absent(key)

    def workload(self) -> dict[str, Any]:
        """Returns the workload that the keyspace has had of late, as a dictionary: how many items, their sizes and
        groups, how they are overwritten, how skewed that is, and the mix of operations. It is what ``predicted`` of
        :meth:`stats` is for, and what ``siltstone advise --store`` takes from a store.

        >>> import siltstone, tempfile
        >>> items = siltstone.open(tempfile.mkdtemp()).keyspace("items")
        >>> items.put_many((b"%04d" % n, bytes(28)) for n in range(100))
        >>> found = items.workload()
        >>> found["items"], found["key_bytes"], found["value_bytes"]
        (100.0, 4.0, 28.0)
        """
        found: dict[str, Any] = json.loads(self._workload_json())
        return found

    def bulk_build(
        self,
        items: Any,
        values: Any = None,
        *,
        key: str = "key",
        value: str = "value",
        ttl: Any = None,
        sort_memory: int | str | None = None,
        progress: bool | Callable[[int], object] = False,
    ) -> dict[str, int]:
        """Builds the keyspace's tables of ``items``, of any number and in any order, and returns what that took.
        It happens as a whole or not at all, and is durable when this returns; each item is written once or twice.

        ``items`` is a mapping; an iterable of pairs of bytes; an Arrow table, reader or record batch, or an iterable of
        record batches, such as those of a Parquet file, with columns ``key`` and ``value``; an iterable of pairs of
        columns; or, with ``values``, a column of keys.

        The items count as written when the build began. With ``progress`` a bar is shown where ``tqdm`` is installed,
        or the function is called with the number of items so far.

        >>> import siltstone, tempfile
        >>> squares = siltstone.open(tempfile.mkdtemp()).keyspace("squares")
        >>> report = squares.bulk_build((b"%d" % n, b"%d" % (n * n)) for n in range(1000))
        >>> report["items"], squares[b"12"]
        (1000, b'144')
        """
        if values is not None:
            items = [(items, values)]
        elif isinstance(items, Mapping):
            items = items.items()
        total = len(items) if hasattr(items, "__len__") and values is None else None
        with teller(progress, self.name, total) as tell:
            return self._bulk_build(items, key=key, value=value, ttl=ttl, sort_memory=sort_memory, progress=tell)


class KeyspaceView(_siltstone.Reader, _Reads, Mapping[bytes, bytes]):
    """A keyspace as a snapshot has it: a mapping of bytes that does not change. Made by ``snapshot[keyspace]``."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<siltstone.KeyspaceView {self.name!r}>"


class _Coded(_Reads):
    """Reads through codecs."""

    raw: Any
    """The keyspace of bytes."""
    _key: Codec | None
    _value: Codec | None

    def _encode_key(self, key: Any) -> Any:
        return self._key.encode(key) if self._key else key

    def _decode_key(self, data: bytes) -> Any:
        return self._key.decode(data) if self._key else data

    def _encode_value(self, value: Any) -> Any:
        return self._value.encode(value) if self._value else value

    def _decode_value(self, data: bytes) -> Any:
        return self._value.decode(data) if self._value else data

    def _encode_keys(self, keys: Iterable[Any]) -> Any:
        return [self._key.encode(key) for key in many(keys)] if self._key else keys

    def _encode_values(self, values: Iterable[Any]) -> Any:
        return [self._value.encode(value) for value in many(values)] if self._value else values

    @property
    def name(self) -> str:
        """The keyspace's name."""
        name: str = self.raw.name
        return name

    @property
    def merge_operator(self) -> str | None:
        """The name of the keyspace's merge operator, or None."""
        name: str | None = self.raw.merge_operator
        return name

    @property
    def schema(self) -> str:
        """The keyspace's schema."""
        schema: str = self.raw.schema
        return schema

    def _stats_json(self) -> str:
        text: str = self.raw._stats_json()
        return text

    def __getitem__(self, key: Any) -> Any:
        found = self.raw.get(self._encode_key(key))
        if found is None:
            raise KeyError(key)
        return self._decode_value(found)

    def __contains__(self, key: object) -> bool:
        return self._encode_key(key) in self.raw

    def __len__(self) -> int:
        return len(self.raw)

    def __bool__(self) -> bool:
        return bool(self.raw)

    def __iter__(self) -> Iterator[Any]:
        return map(self._decode_key, iter(self.raw))

    def __reversed__(self) -> Iterator[Any]:
        return map(self._decode_key, reversed(self.raw))

    def _values(self, *, reverse: bool = False) -> Iterator[Any]:
        return map(self._decode_value, self.raw._values(reverse=reverse))

    def _items(self, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        return self._decoded(self.raw._items(reverse=reverse), False)

    def _decoded(self, found: Iterator[Any], keys_only: bool) -> Iterator[Any]:
        if keys_only:
            return map(self._decode_key, found)
        return ((self._decode_key(key), self._decode_value(value)) for key, value in found)

    def get(self, key: Any, default: Any = None) -> Any:
        """Returns the value of ``key``, or ``default``."""
        found = self.raw.get(self._encode_key(key))
        return default if found is None else self._decode_value(found)

    def get_many(self, keys: Iterable[Any]) -> list[Any]:
        """Returns the values of ``keys``, in their order; None where there is none."""
        found = self.raw.get_many(self._encode_keys(keys))
        return [None if value is None else self._decode_value(value) for value in found]

    def get_arrow(self, keys: Iterable[Any]) -> Any:
        """As :meth:`get_many`, as an Arrow column of encoded values."""
        return self.raw.get_arrow(self._encode_keys(keys))

    def contains_many(self, keys: Iterable[Any]) -> list[bool]:
        """Returns of each of ``keys`` whether it has a value."""
        found: list[bool] = self.raw.contains_many(self._encode_keys(keys))
        return found

    def _read_rows(self, keys: Any, rows: Any, found: Any) -> None:
        self.raw._read_rows(self._encode_keys(keys), rows, found)

    def len_of(self, prefix: Any) -> int:
        """Counts the items whose encoded keys have ``prefix``, by a walk over them."""
        count: int = self.raw.len_of(self._bytes_of(prefix))
        return count

    def prefix(
        self,
        prefix: Any,
        *,
        start: Any = None,
        stop: Any = None,
        after: Any = None,
        before: Any = None,
        reverse: bool = False,
        limit: int | None = None,
        keys_only: bool = False,
    ) -> Iterator[Any]:
        """Iterates over the items whose encoded keys have ``prefix``: bytes, or what the codec of keys encodes. The rest
        is as for :meth:`Keyspace.prefix`; ``after`` and ``before`` are keys."""
        found = self.raw.prefix(
            self._bytes_of(prefix),
            start=self._bytes_of(start),
            stop=self._bytes_of(stop),
            after=self._key_or_none(after),
            before=self._key_or_none(before),
            reverse=reverse,
            limit=limit,
            keys_only=keys_only,
        )
        return self._decoded(found, keys_only)

    def scan(
        self,
        *,
        starting_with: Any = None,
        after: Any = None,
        before: Any = None,
        reverse: bool = False,
        limit: int | None = None,
        keys_only: bool = False,
    ) -> Iterator[Any]:
        """Iterates over all items, or those whose encoded keys begin with ``starting_with``, as :meth:`Keyspace.scan`."""
        found = self.raw.scan(
            starting_with=self._bytes_of(starting_with),
            after=self._key_or_none(after),
            before=self._key_or_none(before),
            reverse=reverse,
            limit=limit,
            keys_only=keys_only,
        )
        return self._decoded(found, keys_only)

    def _key_or_none(self, key: Any) -> Any:
        return None if key is None else self._encode_key(key)

    def _bytes_of(self, part: Any) -> Any:
        return part if part is None or isinstance(part, bytes) else self._encode_key(part)


class CodedKeyspace(_Coded, Changes, AsyncWrites, MutableMapping[Any, Any]):
    """A keyspace whose keys or values are not bytes. Made by :meth:`Store.keyspace` with ``key`` or ``value``.

    >>> import siltstone, tempfile
    >>> store = siltstone.open(tempfile.mkdtemp())
    >>> users = store.keyspace("users", key="str", value="json")
    >>> users["ada"] = {"born": 1815}
    >>> users["ada"]["born"], users.get("bob")
    (1815, None)
    >>> users.raw[b"ada"]
    b'{"born":1815}'
    """

    raw: Keyspace
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, raw: Keyspace, key: Codec | None, value: Codec | None) -> None:
        self.raw, self._key, self._value = raw, key, value

    def __repr__(self) -> str:
        return f"<siltstone.CodedKeyspace {self.name!r} in {str(self.store.path)!r}>"

    @property
    def store(self) -> Store:
        """The store that it belongs to."""
        return self.raw.store

    @property
    def default_ttl(self) -> float | None:
        """Seconds that items live which are written through this handle, unless the write says otherwise."""
        return self.raw.default_ttl

    def add(self, key: Any) -> bool:
        """As :meth:`Keyspace.add`."""
        return self.insert_if_absent(key)

    def merge(self, key: Any, operand: Any) -> None:
        """As :meth:`Keyspace.merge`; the operand is bytes."""
        self.raw.merge(self._encode_key(key), operand)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.raw[self._encode_key(key)] = self._encode_value(value)

    def __delitem__(self, key: Any) -> None:
        try:
            del self.raw[self._encode_key(key)]
        except KeyError:
            raise KeyError(key) from None

    def put(self, key: Any, value: Any, *, ttl: Any = None, sync: bool | None = None) -> None:
        """As :meth:`Keyspace.put`."""
        self.raw.put(self._encode_key(key), self._encode_value(value), ttl=ttl, sync=sync)

    def put_many(self, items: Any, values: Any = None, *, ttl: Any = None, sync: bool | None = None) -> None:
        """As :meth:`Keyspace.put_many`."""
        keys, values = pairs_of(items) if values is None else (items, values)
        self._put_columns(keys, values, ttl=ttl, sync=sync)

    def _put_columns(self, keys: Any, values: Any, **named: Any) -> None:
        self.raw._put_columns(self._encode_keys(keys), self._encode_values(values), **named)

    def put_array(self, keys: Any, rows: Any, *, ttl: Any = None, sync: bool | None = None) -> None:
        """As :meth:`Keyspace.put_array`; the codec of values is not asked."""
        self.raw.put_array(self._encode_keys(keys), rows, ttl=ttl, sync=sync)

    def delete(self, key: Any) -> None:
        """As :meth:`Keyspace.delete`."""
        self.raw.delete(self._encode_key(key))

    def delete_many(self, keys: Iterable[Any]) -> None:
        """As :meth:`Keyspace.delete_many`."""
        self.raw.delete_many(self._encode_keys(keys))

    def delete_prefix(self, prefix: Any) -> None:
        """As :meth:`Keyspace.delete_prefix`."""
        self.raw.delete_prefix(self._bytes_of(prefix))

    def clear(self) -> None:
        """As :meth:`Keyspace.clear`."""
        self.raw.clear()

    def redesign(self, design: str) -> None:
        """As :meth:`Keyspace.redesign`."""
        self.raw.redesign(design)

    def change_schema(self, schema: str, ordered: bool = True, *, preset: str | None = None) -> None:
        """As :meth:`Keyspace.change_schema`."""
        self.raw.change_schema(schema, ordered, preset=preset)

    def wait_for_schema(self) -> None:
        """As :meth:`Keyspace.wait_for_schema`."""
        self.raw.wait_for_schema()

    def cancel_schema_change(self) -> bool:
        """As :meth:`Keyspace.cancel_schema_change`."""
        cancelled: bool = self.raw.cancel_schema_change()
        return cancelled

    def approximate_len(self, prefix: Any = None) -> int:
        """As :meth:`Keyspace.approximate_len`."""
        return self.raw.approximate_len(self._bytes_of(prefix))

    def workload(self) -> dict[str, Any]:
        """As :meth:`Keyspace.workload`."""
        return self.raw.workload()

    def add_many(self, keys: Iterable[Any], values: Iterable[Any] | None = None) -> list[bool]:
        """As :meth:`Keyspace.add_many`; without ``values`` all are None, encoded, or nothing where the codec has no
        None."""
        keys = keys if hasattr(keys, "__len__") else list(keys)
        if values is None:
            encoded = None if self._value is None else [self._nothing()] * len(keys)  # type: ignore[arg-type]
        else:
            encoded = self._encode_values(values)
        return self.raw._add_columns(self._encode_keys(keys), encoded)

    def _nothing(self) -> bytes:
        if self._value is None:
            return b""
        try:
            return self._value.encode(None)
        except (TypeError, AttributeError):
            return b""

    def insert_if_absent(self, key: Any, value: Any = None, *, ttl: Any = None) -> bool:
        """As :meth:`Keyspace.insert_if_absent`."""
        value = self._nothing() if value is None else self._encode_value(value)
        return self.raw.insert_if_absent(self._encode_key(key), value, ttl=ttl)

    def compare_and_set(self, key: Any, expected: Any, new: Any) -> bool:
        """As :meth:`Keyspace.compare_and_set`. Values are compared as they are encoded."""
        old = None if expected is None else self._encode_value(expected)
        return self.raw.compare_and_set(
            self._encode_key(key), old, None if new is None else self._encode_value(new)
        )

    def modify(self, key: Any, change: Callable[[Any], Any]) -> Any:
        """As :meth:`Keyspace.modify`."""

        def on_bytes(old: bytes | None) -> bytes | None:
            new = change(None if old is None else self._decode_value(old))
            return None if new is None else self._encode_value(new)

        changed = self.raw.modify(self._encode_key(key), on_bytes)
        return None if changed is None else self._decode_value(changed)

    def _take(self, key: Any) -> Any:
        found = self.raw._take(self._encode_key(key))
        return None if found is None else self._decode_value(found)

    def pop(self, key: Any, default: Any = MISSING) -> Any:
        """As ``dict.pop``, atomically."""
        found = self.raw._take(self._encode_key(key))
        if found is not None:
            return self._decode_value(found)
        if default is not MISSING:
            return default
        raise KeyError(key)

    def _get_or_insert(self, key: Any, default: Any) -> Any:
        return self._decode_value(self.raw._get_or_insert(self._encode_key(key), self._encode_value(default)))

    def ttl(self, key: Any) -> float | None:
        """As :meth:`Keyspace.ttl`."""
        try:
            return self.raw.ttl(self._encode_key(key))
        except KeyError:
            raise KeyError(key) from None

    def expire(self, key: Any, ttl: Any) -> bool:
        """As :meth:`Keyspace.expire`."""
        return self.raw.expire(self._encode_key(key), ttl)

    def _check_counter(self) -> None:
        if self._value is not None and not isinstance(self._value, Counter):
            raise InvalidInputError('counters are no values of this codec; open the keyspace with value="counter"')

    def count(self, key: Any, by: int = 1) -> None:
        """As :meth:`Keyspace.count`, in keyspaces with ``value="counter"`` or without a codec of values."""
        self._check_counter()
        self.raw.count(self._encode_key(key), by)

    def counter(self, key: Any) -> int:
        """As :meth:`Keyspace.counter`."""
        self._check_counter()
        return self.raw.counter(self._encode_key(key))

    def increment(self, key: Any, by: int = 1) -> int:
        """As :meth:`Keyspace.increment`."""
        self._check_counter()
        return self.raw.increment(self._encode_key(key), by)

    def bulk_build(self, items: Any, values: Any = None, **named: Any) -> dict[str, int]:
        """As :meth:`Keyspace.bulk_build`, of pairs that the codecs encode."""
        if values is not None:
            items = zip(items, values, strict=True)
        elif isinstance(items, Mapping):
            items = items.items()
        elif hasattr(items, "__arrow_c_stream__") or hasattr(items, "__arrow_c_array__"):
            raise InvalidInputError("Arrow's columns hold what is stored; give them to raw.bulk_build")
        encoded = ((self._encode_key(key), self._encode_value(value)) for key, value in items)
        return self.raw.bulk_build(encoded, **named)


class CodedView(_Coded, Mapping[Any, Any]):
    """A keyspace with codecs as a snapshot has it. Made by ``snapshot[keyspace]``."""

    raw: KeyspaceView
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, keyspace: CodedKeyspace, snapshot: Snapshot) -> None:
        self.raw = KeyspaceView(keyspace.raw, snapshot)
        self._key, self._value = keyspace._key, keyspace._value
