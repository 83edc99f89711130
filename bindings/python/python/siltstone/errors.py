"""What can go wrong, as exceptions with facts.

Every error of a store is an :class:`Error`. Those that Python has a class for are that as well: a key that does not
fit is a ``ValueError``, a refused file operation an ``OSError``.

>>> import siltstone, tempfile
>>> store = siltstone.open(tempfile.mkdtemp())
>>> items = store.keyspace("items")
>>> try:
...     items[b""] = b"value"
... except siltstone.BadKeyError as error:
...     print(error)
keyspace "items": the key is empty; keys have 1 to 65535 bytes
>>> store.close()
>>> items[b"key"]
Traceback (most recent call last):
siltstone.errors.ClosedError: the store has been closed
"""

from __future__ import annotations

import errno

__all__ = [
    "BadKeyError",
    "ClosedError",
    "CorruptionError",
    "Error",
    "ForkedError",
    "InvalidInputError",
    "IoError",
    "LockedError",
    "MergeFailedError",
    "NoKeyspaceError",
    "NotAStoreError",
    "PoisonedError",
    "PositionGoneError",
    "ReadOnlyError",
    "StorageFullError",
]


class Error(Exception):
    """An error of a store. Its text says what is known and what to do; code asks for the facts."""

    path: str | None = None
    """The file or directory that it is about."""
    offset: int | None = None
    """The first byte of the file that is wrong."""
    expected: str | None = None
    """What should be there."""
    found: str | None = None
    """What is there instead."""

    @property
    def kind(self) -> str:
        """The kind of error, as the engine calls it, such as ``"Corruption"``."""
        return type(self).__name__.removesuffix("Error") or "Error"


class InvalidInputError(Error, ValueError):
    """A value, name or option that can't be used, or an operation that the schema has no place for."""


class BadKeyError(Error, ValueError):
    """A key or a prefix that does not fit the keyspace's schema."""


class NoKeyspaceError(Error, LookupError):
    """The keyspace has been dropped, or there never was one."""


class ClosedError(Error, ValueError):
    """The store has been closed."""


class IoError(Error, OSError):
    """The operating system refused an operation; ``errno`` says why, as in every ``OSError``."""

    def __str__(self) -> str:
        return str(self.strerror)


class CorruptionError(Error):
    """Bytes on disk are not what was written; ``path`` and ``offset`` say where."""


class LockedError(Error):
    """Another process has the store open, or this one has it open already."""


class PositionGoneError(Error, LookupError):
    """A position of the log that is no longer kept."""


class StorageFullError(IoError):
    """The disk is full. Nothing is lost; writing resumes once there is room."""


class PoisonedError(Error):
    """A write or sync failed earlier, so nothing new can be promised. Open the store again."""


class ReadOnlyError(Error):
    """The store was opened for reading only."""


class NotAStoreError(Error):
    """The directory is not a store."""


class MergeFailedError(Error):
    """A merge operator failed to make a value. The old value and the operands are kept."""


class ForkedError(Error, RuntimeError):
    """The store was opened before this process was forked; open it after the fork."""


_CLASSES = {cls.__name__.removesuffix("Error"): cls for cls in Error.__subclasses__() + IoError.__subclasses__()}


def from_facts(
    kind: str,
    sentence: str,
    path: str | None,
    offset: int | None,
    expected: str | None,
    found: str | None,
    number: int | None,
) -> Error:
    """Makes an exception of the engine's facts. Called by the extension module."""
    error = _CLASSES.get(kind, Error)(sentence)
    error.path, error.offset, error.expected, error.found = path, offset, expected, found
    if isinstance(error, OSError):
        error.filename, error.strerror = path, sentence
        error.errno = number or (errno.ENOSPC if kind == "StorageFull" else errno.EIO)
    return error
