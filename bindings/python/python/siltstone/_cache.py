"""A cache on disk, with a limit of its size, whose calls are named as those of ``diskcache``.

The idea: two generations, a keyspace each. What is set goes into the young one; what is found in the old one is copied
to the young one. Once the young one takes half of the limit it becomes the old one, and what was old is dropped at once,
which takes the same time whatever it held. So what is used stays, and nothing is kept in order of use.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ._keyspace import Keyspace
from ._store import open as open_store
from .errors import BadKeyError, InvalidInputError, NoKeyspaceError

__all__ = ["Cache"]

_F = TypeVar("_F", bound=Callable[..., Any])
_MISSING: Any = object()
_LEAST_LIMIT = 1 << 20
_LEAST_LOG = 8 << 20
# What an item takes beside its key and its value.
_ITEM_BYTES = 16


def _encode_key(key: Any) -> bytes:
    match key:
        case bytes():
            return b"b" + key
        case str():
            return b"s" + key.encode()
        case bool() | int():
            return b"i%d" % key
        case float():
            return b"i%d" % int(key) if key.is_integer() else b"f" + repr(key).encode()
        case tuple() if type(key) is tuple:
            parts = [_encode_key(part) for part in key]
            return b"t" + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    # Without references to what came before, which equal keys may differ in.
    data = io.BytesIO()
    pickler = pickle.Pickler(data, protocol=5)
    pickler.fast = True
    pickler.dump(key)
    return b"p" + data.getvalue()


def _decode_key(data: bytes) -> Any:
    kind, rest = data[:1], data[1:]
    match kind:
        case b"b":
            return rest
        case b"s":
            return rest.decode()
        case b"i":
            return int(rest)
        case b"f":
            return float(rest)
        case b"t":
            parts = []
            while rest:
                end = 4 + int.from_bytes(rest[:4], "big")
                parts.append(_decode_key(rest[4:end]))
                rest = rest[end:]
            return tuple(parts)
    return pickle.loads(rest)


def _encode(value: Any) -> bytes:
    return b"b" + value if type(value) is bytes else b"p" + pickle.dumps(value, protocol=5)


def _decode(data: bytes) -> Any:
    return data[1:] if data[:1] == b"b" else pickle.loads(data[1:])


class Cache:
    """A cache of anything that can be pickled, in a directory. Its items take about ``size_limit`` bytes at most, and its
    log a quarter as many beside them, or 8 MiB. What was used least recently goes first, roughly. One process at a time
    may use it, and any number of threads.

    >>> import siltstone, tempfile
    >>> with siltstone.Cache(tempfile.mkdtemp(), size_limit="64M") as cache:
    ...     cache.set("answer", 42, expire=60)
    ...     cache["answer"], cache.get("question"), cache.add("answer", 43)
    ...     cache.incr("hits"), cache.incr("hits", 10)
    True
    (42, None, False)
    (1, 11)

    >>> @siltstone.Cache(tempfile.mkdtemp()).memoize(expire=3600)
    ... def square(number):
    ...     print("computed")
    ...     return number * number
    >>> square(7), square(7)
    computed
    (49, 49)
    """

    def __init__(
        self, directory: str | os.PathLike[str], size_limit: int | str = "1G", *, memory: int | str = "64M"
    ) -> None:
        self._limit = _size(size_limit)
        self._store = open_store(directory, memory, log_limit=max(self._limit // 4, _LEAST_LOG))
        self._lock = threading.RLock()
        names = self._store.keyspaces()
        if not all(re.fullmatch(r"generation-\d+", name) for name in names):
            self._store.close()
            raise InvalidInputError(f"{os.fspath(directory)!r} is a store and no cache; give the cache a directory of its own")
        numbers = sorted(int(name.removeprefix("generation-")) for name in names)
        # A crash may have left one that was to be dropped.
        for number in numbers[:-2]:
            self._store.drop_keyspace(f"generation-{number}")
        self._number = numbers[-1] if numbers else 1
        self._young = self._generation(self._number)
        self._old = self._generation(self._number - 1)
        self._written = _volume(self._young)
        self._hits = self._misses = 0

    def _generation(self, number: int) -> Keyspace:
        keyspace: Keyspace = self._store.keyspace(f"generation-{number}")
        return keyspace

    def _put(self, key: bytes, data: bytes, expire: float | None) -> None:
        while True:
            young, old = self._young, self._old
            try:
                young.put(key, data, ttl=expire)
                if expire is not None:
                    # It would come to light again once this one has expired.
                    old.delete(key)
                break
            except NoKeyspaceError:
                # It was dropped meanwhile.
                continue
        with self._lock:
            self._written += len(key) + len(data) + _ITEM_BYTES
            if self._written > self._limit // 2:
                self._next_generation()

    def _next_generation(self) -> None:
        young = self._generation(self._number + 1)
        dropped, self._old, self._young = self._old, self._young, young
        self._number += 1
        self._written = 0
        self._store.drop_keyspace(dropped.name)

    def _find(self, key: bytes) -> bytes | None:
        found = self._young.get(key)
        if found is not None:
            return found
        old = self._old
        found = old.get(key)
        if found is None:
            # It may have been moved between the two looks.
            return self._young.get(key)
        try:
            ttl = old.ttl(key)
        except KeyError:
            return None
        with self._lock:
            if self._young.get(key) is None and key in self._old:
                self._put(key, found, ttl)
        return found

    def set(self, key: Any, value: Any, expire: float | None = None) -> bool:
        """Sets ``key`` to ``value``; gone after ``expire`` seconds, if given. Returns True."""
        self._put(_encode_key(key), _encode(value), expire)
        return True

    def get(self, key: Any, default: Any = None) -> Any:
        """Returns the value of ``key``, or ``default``."""
        found = self._find(_encode_key(key))
        if found is None:
            self._misses += 1
            return default
        self._hits += 1
        return _decode(found)

    def add(self, key: Any, value: Any, expire: float | None = None) -> bool:
        """Sets ``key`` to ``value`` unless it is there; returns whether it was set."""
        encoded = _encode_key(key)
        with self._lock:
            if self._find(encoded) is not None:
                return False
            self._put(encoded, _encode(value), expire)
            return True

    def incr(self, key: Any, delta: int = 1, default: int | None = 0) -> int:
        """Adds ``delta`` to the number of ``key`` and returns the sum. A missing key counts as ``default``; with None
        it raises ``KeyError``. A time to live stays as it is."""
        encoded = _encode_key(key)
        with self._lock:
            found = self._find(encoded)
            if found is None and default is None:
                raise KeyError(key)
            base: Any = default if found is None else _decode(found)
            value: int = base + delta
            expire = self._young.ttl(encoded) if found is not None and encoded in self._young else None
            self._put(encoded, _encode(value), expire)
            return value

    def decr(self, key: Any, delta: int = 1, default: int | None = 0) -> int:
        """As :meth:`incr`, downwards."""
        return self.incr(key, -delta, default)

    def touch(self, key: Any, expire: float | None = None) -> bool:
        """Lets ``key`` live for ``expire`` seconds from now, or for ever; returns whether it is there."""
        encoded = _encode_key(key)
        with self._lock:
            found = self._find(encoded)
            if found is None:
                return False
            self._put(encoded, found, expire)
            return True

    def delete(self, key: Any) -> bool:
        """Removes ``key``; returns whether it was there."""
        return self.pop(key, _MISSING) is not _MISSING

    def pop(self, key: Any, default: Any = None) -> Any:
        """Removes ``key`` and returns its value, or ``default``."""
        encoded = _encode_key(key)
        with self._lock:
            found = self._find(encoded)
            if found is None:
                return default
            self._young.delete(encoded)
            self._old.delete(encoded)
            return _decode(found)

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: Any) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: Any) -> bool:
        encoded = _encode_key(key)
        return encoded in self._young or encoded in self._old

    def __iter__(self) -> Iterator[Any]:
        with self._lock:
            young, old = self._young, self._old
        for key in young:
            yield _decode_key(key)
        for key in old:
            if key not in young:
                yield _decode_key(key)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def memoize(self, expire: float | None = None, name: str | None = None) -> Callable[[_F], _F]:
        """Returns a decorator that keeps what a function returns, by its arguments. ``name`` stands for the function in
        the cache, its own full name unless given."""
        if callable(expire):
            raise TypeError("memoize is called: @cache.memoize()")

        def decorate(function: _F) -> _F:
            if name is None and "<lambda>" in function.__qualname__:
                raise InvalidInputError("lambdas have no name to tell them apart; give one: memoize(name=…)")
            base = name or f"{function.__module__}.{function.__qualname__}"

            @functools.wraps(function)
            def run(*args: Any, **named: Any) -> Any:
                key = (base, args, tuple(sorted(named.items())))
                try:
                    found = self.get(key, _MISSING)
                except BadKeyError:
                    # Arguments that are too long to be a key are not kept.
                    return function(*args, **named)
                if found is _MISSING:
                    found = function(*args, **named)
                    self.set(key, found, expire)
                return found

            run.__cache_key__ = lambda *args, **named: (base, args, tuple(sorted(named.items())))  # type: ignore[attr-defined]
            return run  # type: ignore[return-value]

        return decorate

    def clear(self) -> None:
        """Removes everything."""
        with self._lock:
            self._next_generation()
            self._next_generation()

    def volume(self) -> int:
        """Returns the bytes of keys and values that it holds, roughly."""
        return _volume(self._old) + self._written

    def stats(self) -> tuple[int, int]:
        """Returns how many gets found something and how many did not."""
        return self._hits, self._misses

    def close(self) -> None:
        """Closes the cache; what it holds stays."""
        self._store.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _volume(keyspace: Keyspace) -> int:
    stats = keyspace.stats()
    volume: int = stats["table_bytes"] + stats["write_buffer_bytes"]
    return volume


def _size(given: int | str) -> int:
    """Returns the bytes of a size as people write it."""
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    if isinstance(given, str):
        text = given.strip().upper().removesuffix("IB").removesuffix("B")
        shift = units.get(text[-1:], 0)
        try:
            given = int(float(text[:-1] if shift else text) * (1 << shift))
        except ValueError:
            raise InvalidInputError(f"{given!r} is no size; write bytes, or a number with K, M, G or T") from None
    if given < _LEAST_LIMIT:
        raise InvalidInputError("size_limit is at least 1 MiB")
    return given
