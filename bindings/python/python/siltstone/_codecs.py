"""Codecs: how keys and values of other types become bytes.

A codec has ``encode(object) -> bytes`` and ``decode(bytes) -> object``. Those that have names:

=========== ===========================================================================
``bytes``   none
``str``     UTF-8
``int``     for keys: 8 bytes, big-endian, so that numbers that are not negative keep their order
``json``    compact JSON, keys of objects sorted; they become text, and tuples lists
``msgpack`` with the package ``msgpack``
``counter`` for values: what ``count``, ``counter`` and ``increment`` keep, a number of 8 bytes with a sign
``pickle``  Python's own; never open a store with it that others can write to
=========== ===========================================================================
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from .errors import InvalidInputError

__all__ = ["Codec", "Counter", "codec", "many"]


@runtime_checkable
class Codec(Protocol):
    """Turns objects into bytes and back."""

    def encode(self, item: Any, /) -> bytes:
        """Returns the bytes of an object."""
        ...

    def decode(self, data: bytes, /) -> Any:
        """Returns the object of bytes."""
        ...


class _Str:
    def encode(self, item: Any) -> bytes:
        if not isinstance(item, str):
            raise TypeError(f"this keyspace takes str here, not {type(item).__name__}")
        return item.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()


class _Int:
    def encode(self, item: Any) -> bytes:
        try:
            number = item.__index__()
        except AttributeError:
            raise TypeError(f"this keyspace takes int here, not {type(item).__name__}") from None
        if not 0 <= number < 1 << 64:
            raise InvalidInputError(f"{number} is not a number of 8 bytes without a sign")
        return bytes(number.to_bytes(8, "big"))

    def decode(self, data: bytes) -> int:
        return int.from_bytes(data, "big")


class Counter:
    """The values of counters, as the merge operator ``add`` has them."""

    def encode(self, item: Any) -> bytes:
        if not isinstance(item, int):
            raise TypeError(f"this keyspace takes int here, not {type(item).__name__}")
        if not -(1 << 63) <= item < 1 << 63:
            raise InvalidInputError(f"{item} is not a number of 64 bits with a sign")
        return item.to_bytes(8, "little", signed=True)

    def decode(self, data: bytes) -> int:
        return int.from_bytes(data, "little", signed=True)


class _Json:
    def encode(self, item: Any) -> bytes:
        return json.dumps(item, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()

    def decode(self, data: bytes) -> Any:
        return json.loads(data)


class _Pickle:
    def encode(self, item: Any) -> bytes:
        return pickle.dumps(item, protocol=5)

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)


class _Msgpack:
    def __init__(self) -> None:
        try:
            import msgpack
        except ModuleNotFoundError as error:
            error.msg = "the codec msgpack needs a package: pip install msgpack"
            raise

        self._packer, self._unpackb = msgpack.Packer, msgpack.unpackb

    def encode(self, item: Any) -> bytes:
        packed: bytes = self._packer(autoreset=True).pack(item)
        return packed

    def decode(self, data: bytes) -> Any:
        return self._unpackb(data, strict_map_key=False)


_NAMED: dict[str, Callable[[], Codec]] = {
    "str": _Str,
    "int": _Int,
    "json": _Json,
    "pickle": _Pickle,
    "msgpack": _Msgpack,
    "counter": Counter,
}
_TYPES = {str: "str", int: "int", bytes: "bytes"}


def many(items: Any) -> Any:
    """Returns ``items``, which are to be several, and no text that would be taken apart."""
    if isinstance(items, (str, bytes, bytearray)):
        raise TypeError("give a list of keys or values, not a single one")
    return items


def codec(given: Any) -> Codec | None:
    """Returns the codec that a name, one of the types ``str``, ``int`` and ``bytes``, or a codec stands for;
    None for ``bytes``, which need none.

    >>> codec("json").encode({"b": 1, "a": [2]})
    b'{"a":[2],"b":1}'
    >>> codec(int).decode(codec(int).encode(7))
    7
    """
    if given is None:
        return None
    if isinstance(given, type):
        given = _TYPES.get(given, given)
    if given == "bytes":
        return None
    if isinstance(given, str):
        if given not in _NAMED:
            raise InvalidInputError(f"there is no codec {given!r}; there are bytes, {', '.join(_NAMED)}")
        return _NAMED[given]()
    if isinstance(given, Codec) and not isinstance(given, type):
        return given
    raise TypeError(f"a codec is a name, or has encode and decode; {given!r} is neither")
