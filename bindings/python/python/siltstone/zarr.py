"""A store for Zarr 3: an array's or a hierarchy's chunks and metadata in one Siltstone store, an item each.

    array = zarr.create_array(SiltstoneStore("weather"), shape=(10_000, 10_000), chunks=(64, 64), dtype="f4")

Made for very many small chunks, which file systems are bad at; large ones are better off there. Listing walks over all keys.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype

from ._keyspace import CodedKeyspace
from ._shared import shared

__all__ = ["SiltstoneStore"]


class SiltstoneStore(Store):
    """A Zarr store in the directory ``path``. Those of one process with the same directory share it."""

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(
        self, path: str | os.PathLike[str], *, memory: int | str = "64M", read_only: bool = False
    ) -> None:
        super().__init__(read_only=read_only)
        self._path, self._memory = Path(path).absolute(), memory
        self._opened: CodedKeyspace | None = None

    @property
    def _items(self) -> CodedKeyspace:
        if self._opened is None:
            self._opened = shared(self._path, self._memory).keyspace("zarr", key="str")
        return self._opened

    def with_read_only(self, read_only: bool = False) -> SiltstoneStore:
        """Returns another view of the same store."""
        return type(self)(self._path, memory=self._memory, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, type(self)) and self._path == other._path and self.read_only == other.read_only
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def __str__(self) -> str:
        return f"siltstone://{self._path}"

    def __repr__(self) -> str:
        return f"SiltstoneStore('{self}')"

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Returns the value of ``key``, or a part of it."""
        await self._ensure_open()
        return _buffer(await self._items.aget(key), prototype, byte_range)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """As :meth:`get`, in the thread that calls."""
        self._is_open = True
        return _buffer(self._items.get(key), prototype, byte_range)

    def set_sync(self, key: str, value: Buffer) -> None:
        """As :meth:`set`, in the thread that calls."""
        self._check_writable()
        self._is_open = True
        self._items[key] = _bytes(value)

    def delete_sync(self, key: str) -> None:
        """As :meth:`delete`, in the thread that calls."""
        self._check_writable()
        self._is_open = True
        self._items.pop(key, None)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Returns parts of many values, read at once."""
        await self._ensure_open()
        wanted = list(key_ranges)
        found = await self._items.aget_many([key for key, _ in wanted])
        return [_buffer(data, prototype, part) for data, (_, part) in zip(found, wanted, strict=True)]

    async def exists(self, key: str) -> bool:
        """Returns whether ``key`` has a value."""
        await self._ensure_open()
        found: bool = await self._items.acontains(key)
        return found

    async def set(self, key: str, value: Buffer) -> None:
        """Sets ``key`` to ``value``."""
        self._check_writable()
        await self._ensure_open()
        await self._items.aput(key, _bytes(value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Sets ``key`` to ``value`` unless it has one, atomically."""
        self._check_writable()
        await self._ensure_open()
        await self._items.ainsert_if_absent(key, _bytes(value))

    async def delete(self, key: str) -> None:
        """Removes ``key``; a missing one is fine."""
        self._check_writable()
        await self._ensure_open()
        await self._items.adelete(key)

    async def clear(self) -> None:
        """Removes everything."""
        self._check_writable()
        await self._ensure_open()
        await self._items.aclear()

    async def delete_dir(self, prefix: str) -> None:
        """Removes everything below a path, all of it or nothing."""
        self._check_writable()
        below = prefix.rstrip("/") + "/" if prefix else ""
        await self._items.adelete_many([key async for key in self.list_prefix(below)])

    async def list(self) -> AsyncIterator[str]:
        """Yields all keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yields the keys that begin with ``prefix``."""
        await self._ensure_open()
        walk = self._items.scan(starting_with=prefix, keys_only=True)
        for key in await asyncio.to_thread(list, walk):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yields the names that lie in a directory."""
        below = prefix.rstrip("/") + "/" if prefix.rstrip("/") else ""
        names = {key.removeprefix(below).partition("/")[0] async for key in self.list_prefix(below)}
        for name in names:
            yield name

    def close(self) -> None:
        """Lets go of the store, which closes when nobody else in the process uses it."""
        super().close()
        self._opened = None


def _bytes(value: Buffer) -> bytes:
    if not isinstance(value, Buffer):
        raise TypeError(f"a value is a Buffer, not {type(value).__name__}")
    return value.to_bytes()


def _buffer(data: bytes | None, prototype: BufferPrototype | None, part: ByteRequest | None) -> Buffer | None:
    if data is None:
        return None
    match part:
        case RangeByteRequest(start, end):
            data = data[start:end]
        case OffsetByteRequest(offset):
            data = data[offset:]
        case SuffixByteRequest(suffix):
            data = data[max(0, len(data) - suffix) :]
        case None:
            pass
        case _:
            raise TypeError(f"Unexpected byte_range, got {part!r}.")
    made: Buffer = (prototype or default_buffer_prototype()).buffer.from_bytes(data)
    return made
