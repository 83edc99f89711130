"""What keyspaces have in common, those of bytes and those with codecs, as they are and in snapshots.

The extension module's classes know bytes. ``collections.abc`` completes them to mappings; views are our own, since
those of ``collections.abc`` would look each key up again.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from concurrent.futures import Executor
from typing import Any, TypeVar

_T = TypeVar("_T")


class _Keys(KeysView[Any]):
    """The keys of a keyspace."""

    _mapping: Any

    def __reversed__(self) -> Iterator[Any]:
        return iter(reversed(self._mapping))


class _Items(ItemsView[Any, Any]):
    """The items of a keyspace, read in one walk."""

    _mapping: Any

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._mapping._items())

    def __reversed__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._mapping._items(reverse=True))

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        found = self._mapping.get(item[0])
        return found is not None and bool(found == item[1])


class _Values(ValuesView[Any]):
    """The values of a keyspace, read in one walk."""

    _mapping: Any

    def __iter__(self) -> Iterator[Any]:
        return iter(self._mapping._values())

    def __reversed__(self) -> Iterator[Any]:
        return iter(self._mapping._values(reverse=True))

    def __contains__(self, value: object) -> bool:
        return any(found == value for found in self)


class Views:
    """Views of a mapping that can walk over its items at once."""

    def keys(self) -> KeysView[Any]:
        """Returns a view of the keys, in the store's order."""
        return _Keys(self)  # type: ignore[arg-type]

    def items(self) -> ItemsView[Any, Any]:
        """Returns a view of the items, in the store's order."""
        return _Items(self)  # type: ignore[arg-type]

    def values(self) -> ValuesView[Any]:
        """Returns a view of the values, in the store's order."""
        return _Values(self)  # type: ignore[arg-type]


def pairs_of(given: Any, more: Mapping[str, Any] | None = None) -> tuple[list[Any], list[Any]]:
    """Returns the keys and the values of a mapping, or of an iterable of pairs, as ``dict.update`` takes them."""
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(given, Mapping):
        pairs = given.items()
    elif hasattr(given, "keys"):
        pairs = [(key, given[key]) for key in given.keys()]
    else:
        pairs = given
    keys, values = [], []
    for key, value in pairs:
        keys.append(key)
        values.append(value)
    for name, value in (more or {}).items():
        keys.append(name)
        values.append(value)
    return keys, values


MISSING: Any = object()


class Changes:
    """What changes a mapping, atomically for each key."""

    _get_or_insert: Callable[[Any, Any], Any]
    _take: Callable[[Any], Any]

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Returns the value of ``key``; where it has none, sets it to ``default`` and returns that."""
        return self._get_or_insert(key, default)

    def pop(self, key: Any, default: Any = MISSING) -> Any:
        """Removes ``key`` and returns its value, or ``default`` where it has none."""
        value = self._take(key)
        if value is not None:
            return value
        if default is MISSING:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[Any, Any]:
        """Removes an item, the first in the store's order, and returns it."""
        for key in self:  # type: ignore[attr-defined]
            value = self._take(key)
            if value is not None:
                return key, value
        raise KeyError("popitem(): the keyspace is empty")

    def update(self, given: Any = (), /, **more: Any) -> None:
        """Sets all items of a mapping, or of an iterable of pairs, in batches that are each atomic."""
        self._put_columns(*pairs_of(given, more))  # type: ignore[attr-defined]


class Async:
    """The calls that may wait for the device, awaitable. Each runs in a thread of the event loop's executor, or
    of the one that ``executor`` names; the interpreter lock is released there."""

    executor: Executor | None = None
    """Runs the calls; None for the event loop's own."""

    async def _run(self, call: Callable[..., _T], *args: Any, **named: Any) -> _T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.executor, functools.partial(call, *args, **named))


def awaitable(name: str) -> Any:
    """Returns a coroutine method that runs the method ``name``."""

    async def run(self: Any, *args: Any, **named: Any) -> Any:
        return await self._run(getattr(self, name), *args, **named)

    run.__name__ = run.__qualname__ = f"a{name}"
    run.__doc__ = f"As ``{name}``, awaitable."
    return run


class AsyncReads(Async):
    """Reads, awaitable."""

    aget = awaitable("get")
    aget_many = awaitable("get_many")
    acontains = awaitable("__contains__")
    acontains_many = awaitable("contains_many")
    aget_array = awaitable("get_array")
    aget_arrow = awaitable("get_arrow")
    alen_of = awaitable("len_of")


class AsyncWrites(Async):
    """Writes, awaitable."""

    aput = awaitable("put")
    aput_many = awaitable("put_many")
    aput_array = awaitable("put_array")
    adelete = awaitable("delete")
    adelete_many = awaitable("delete_many")
    adelete_prefix = awaitable("delete_prefix")
    aclear = awaitable("clear")
    aadd_many = awaitable("add_many")
    ainsert_if_absent = awaitable("insert_if_absent")
    acompare_and_set = awaitable("compare_and_set")
    aincrement = awaitable("increment")
    amodify = awaitable("modify")
    apop = awaitable("pop")
    acount = awaitable("count")
    aexpire = awaitable("expire")
    abulk_build = awaitable("bulk_build")
    await_for_schema = awaitable("wait_for_schema")


__all__ = ["MISSING", "Async", "AsyncReads", "AsyncWrites", "Changes", "Mapping", "MutableMapping", "Views", "pairs_of"]
