"""Stores that several parts of a program open by their directory, each on its own: the first opens, the others share."""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path

from ._store import Store
from ._store import open as open_store

__all__ = ["shared"]

_open: weakref.WeakValueDictionary[tuple[str, bool, int], Store] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def shared(path: str | os.PathLike[str], memory: int | str, *, read_only: bool = False) -> Store:
    """Opens the store in the directory ``path``, or returns the one that is open in this process. It closes when nobody
    uses it any more; whoever closes it closes it for all."""
    directory = Path(path).absolute()
    directory.parent.mkdir(parents=True, exist_ok=True)
    # A forked child has the parent's entries, which are of no use to it.
    key = (str(directory), read_only, os.getpid())
    with _opening:
        store = _open.get(key)
        if store is None:
            store = _open[key] = open_store(directory, memory, read_only=read_only)
        return store


def forget(store: Store) -> None:
    """Forgets a store that has been closed, so that its directory can be opened again."""
    with _opening:
        for key, known in list(_open.items()):
            if known is store:
                del _open[key]
