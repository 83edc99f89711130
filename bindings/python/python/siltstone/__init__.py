"""Siltstone: an embedded key-value store for very many small items with little memory.

>>> import siltstone, tempfile
>>> with siltstone.open(tempfile.mkdtemp(), memory="64M") as store:
...     items = store.keyspace("items")
...     items[b"key"] = b"value"
...     items[b"key"]
b'value'

:func:`open` begins; :class:`Keyspace` is where items are.
"""

from __future__ import annotations

import os as _os

from . import errors as errors
from ._cache import Cache
from ._codecs import Codec
from ._keyspace import CodedKeyspace, CodedView, Keyspace, KeyspaceView
from ._siltstone import ArrowColumn, Resources, note_fork, restore
from ._store import Batch, Snapshot, Store, open
from .errors import *  # noqa: F403
from .errors import __all__ as _error_names

__version__ = "0.1.0"

__all__ = [
    "ArrowColumn",
    "Batch",
    "Cache",
    "Codec",
    "CodedKeyspace",
    "CodedView",
    "Keyspace",
    "KeyspaceView",
    "Resources",
    "Snapshot",
    "Store",
    "errors",
    "open",
    "restore",
    *_error_names,
]

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=note_fork)
