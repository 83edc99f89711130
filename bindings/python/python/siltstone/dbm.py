"""A database as the modules of ``dbm`` are: bytes by bytes, text taken as UTF-8. A shelf can lie on it.

>>> import siltstone.dbm, shelve, tempfile
>>> with siltstone.dbm.open(tempfile.mkdtemp() + "/names", "c") as names:
...     names["ada"] = "Lovelace"
...     names[b"ada"], names.keys()
(b'Lovelace', [b'ada'])
>>> with shelve.Shelf(siltstone.dbm.open(tempfile.mkdtemp(), "c")) as shelf:
...     shelf["list"] = [1, 2]
...     dict(shelf)
{'list': [1, 2]}
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

from ._store import open as open_store
from .errors import Error as error

__all__ = ["Database", "error", "library", "open"]

library = "siltstone"
"""Names the implementation, as the other modules do."""

def _bytes(item: Any) -> Any:
    return item.encode() if isinstance(item, str) else item


class Database(MutableMapping[Any, bytes]):
    """An open database. Made by :func:`open`."""

    def __init__(self, path: str | os.PathLike[str], memory: int | str, read_only: bool, create: bool) -> None:
        self._read_only = read_only
        self._store = open_store(path, memory, read_only=read_only, create=create)
        self._items = self._store.keyspace("dbm", create=not read_only)

    def __getitem__(self, key: str | bytes) -> bytes:
        found: bytes = self._items[_bytes(key)]
        return found

    def __setitem__(self, key: str | bytes, value: str | bytes) -> None:
        self._items[_bytes(key)] = _bytes(value)

    def __delitem__(self, key: str | bytes) -> None:
        del self._items[_bytes(key)]

    def __contains__(self, key: object) -> bool:
        return _bytes(key) in self._items

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._items)

    def __reversed__(self) -> Iterator[bytes]:
        return iter(self._items.scan(reverse=True, keys_only=True))

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str | bytes, default: Any = None) -> Any:
        """Returns the value of ``key``, or ``default``."""
        return self._items.get(_bytes(key), default)

    def setdefault(self, key: str | bytes, default: Any = b"") -> bytes:
        """Returns the value of ``key``; where it has none, sets it to ``default`` and returns that."""
        found: bytes = self._items.setdefault(_bytes(key), _bytes(default))
        return found

    def keys(self) -> list[bytes]:  # type: ignore[override]
        """Returns all keys as a list, as the modules of ``dbm`` do."""
        return list(self._items.scan(keys_only=True))

    def clear(self) -> None:
        """Removes everything."""
        self._items.clear()

    def sync(self) -> None:
        """Makes everything written so far survive a power cut."""
        if not self._read_only:
            self._store.sync()

    reorganize = sync
    """Does no more than ``sync``: space is reclaimed by itself."""

    def close(self) -> None:
        """Closes the database."""
        self._store.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(file: str | os.PathLike[str], flag: str = "r", mode: int = 0o777, *, memory: int | str = "64M") -> Database:
    """Opens the database in the directory ``file``.

    ``flag`` is ``"r"`` to read one that is there, ``"w"`` to write to it as well, ``"c"`` to create it where there is
    none, and ``"n"`` to begin with an empty one. ``mode`` is for a directory that is made.
    """
    if flag not in ("r", "w", "c", "n"):
        raise ValueError(f"flag is 'r', 'w', 'c' or 'n', not {flag!r}")
    path = Path(file)
    if flag in "cn":
        path.mkdir(mode, parents=True, exist_ok=True)
    database = Database(path, memory, read_only=flag == "r", create=flag in "cn")
    if flag == "n":
        database.clear()
    return database
