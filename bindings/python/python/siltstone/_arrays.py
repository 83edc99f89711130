"""NumPy's arrays as rows of bytes, which the extension module fills and reads. Imported only with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import InvalidInputError


def rows_of(array: Any) -> Any:
    """Returns an array's items as rows of ``uint8``, or a list of bytes where they differ in length."""
    array = np.asarray(array)
    if array.dtype.hasobject:
        return array.ravel().tolist()
    if array.dtype.kind == "S":
        # NumPy takes zeros at the end for padding, and so do we.
        return array.ravel().tolist()
    if array.dtype.kind == "U":
        raise TypeError("keys and values are bytes, not str; encode the array with numpy.char.encode")
    if array.ndim == 0:
        raise InvalidInputError("give an array with one row for each item")
    if array.ndim == 1 and array.dtype.kind not in "V":
        if array.dtype.kind in "iu" and array.dtype.itemsize > 1 and array.dtype.byteorder != ">":
            # As keys, numbers are to have one form on every machine; as values, the one they came in.
            raise InvalidInputError(
                "say how numbers are to be stored: ids.astype('>u8') for keys, values[:, None] for one a row"
            )
        array = array[:, None]
    return _as_bytes(array)


def read(reader: Any, keys: Any, dtype: Any, dim: int | tuple[int, ...] | None, fill: Any) -> tuple[Any, Any]:
    """Looks keys up and returns their values as rows of an array, and which were found."""
    if not hasattr(keys, "__len__"):
        keys = list(keys)
    shape: tuple[int, ...] = () if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    count = len(keys)
    rows = np.empty((count, *shape), dtype=dtype) if fill is None else np.full((count, *shape), fill, dtype=dtype)
    if rows.dtype.hasobject:
        raise InvalidInputError("values are arrays of numbers, and objects are not")
    found = np.zeros(count, dtype=np.bool_)
    if count:
        reader._read_rows(keys, _as_bytes(rows), found)
        if fill is None:
            rows[~found] = 0
    return rows, found


def _as_bytes(array: Any) -> Any:
    """Returns the rows of an array as rows of ``uint8``, without a copy where they lie one behind the other."""
    rows = len(array)
    if array.nbytes == 0:
        return np.zeros((rows, 0), dtype=np.uint8)
    return np.ascontiguousarray(array).reshape(rows, -1).view(np.uint8)


def values_of(array: Any, count: int) -> Any:
    """Returns the rows of an array of values."""
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise InvalidInputError("values are arrays of numbers, and objects are not")
    if len(array) != count:
        raise InvalidInputError(f"there are {count} keys and {len(array)} rows; give as many of each")
    return _as_bytes(array)
