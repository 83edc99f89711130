"""Columns: NumPy's arrays and Arrow's, as keys and values, in and out."""

from __future__ import annotations

import pytest

import siltstone

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("dtype", ["f4", "<f8", ">i2", "u1", "c8", "bool", [("x", "f4"), ("y", "i4")]])
@pytest.mark.parametrize("dim", [None, 3, (2, 2)])
def test_rows_come_back(items, dtype, dim):
    shape = () if dim is None else (dim,) if isinstance(dim, int) else dim
    rows = np.random.default_rng(1).integers(0, 255, (100, *shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    if dtype == "bool":
        rows &= 1
    rows = rows.view(dtype).reshape(100, *shape)
    keys = [b"%d" % n for n in range(100)]
    items.put_array(keys, rows)
    got, found = items.get_array([*keys, b"none"], dtype, dim)
    assert got.dtype == np.dtype(dtype) and got.shape == (101, *shape)
    assert got[:100].tobytes() == rows.tobytes() and found.tolist() == [True] * 100 + [False]
    assert not any(got[100:].tobytes())
    assert items[b"7"] == rows[7:8].tobytes()


def test_rows_of_other_lengths_are_refused(items):
    items[b"a"] = b"123"
    with pytest.raises(siltstone.InvalidInputError, match="key 0 has 3 bytes, but a row of this dtype and dim has 8"):
        items.get_array([b"a"], "f4", 2)
    with pytest.raises(siltstone.InvalidInputError, match="1 keys and 2 rows"):
        items.put_array([b"a"], np.zeros((2, 2)))
    with pytest.raises(siltstone.InvalidInputError, match="objects"):
        items.get_array([b"a"], object, 2)
    rows, found = items.get_array([], "f4", 2)
    assert rows.shape == (0, 2) and found.shape == (0,)
    rows, found = items.get_array([b"x"], "f4", 2, fill=np.nan)
    assert np.isnan(rows).all() and not found.any()


def test_arrays_of_keys(items):
    ids = np.arange(1000)
    keys = ids.astype(">u8").view("V8")
    items.put_array(keys, ids.astype("f8"))
    rows, found = items.get_array(np.array([5, 2000, 7]).astype(">u8").view("V8"), "f8")
    assert rows.tolist() == [5, 0, 7] and found.tolist() == [True, False, True]
    assert items[(5).to_bytes(8, "big")] == np.float64(5).tobytes()
    assert items.contains_many(keys[:2]) == [True, True]
    assert items.get_many(ids[:1].astype(">u8")) == [np.float64(0).tobytes()]
    two = np.array([[1, 2], [3, 4]], dtype=np.uint8)
    assert items.add_many(two) == [True, True] and items[b"\1\2"] == b""
    assert items.add_many(two[:, ::-1]) == [True, True] and b"\2\1" in items
    assert items.add_many(np.array([b"x", b"long"])) == [True, True] and b"x" in items and b"long" in items
    with pytest.raises(siltstone.InvalidInputError, match="astype"):
        items.get_many(ids)
    with pytest.raises(TypeError, match="numpy.char.encode"):
        items.get_many(np.array(["text"]))


def test_arrow_columns(store, items):
    pa = pytest.importorskip("pyarrow")
    keys, values = ["a", "b", "c"], [b"1", b"22", b""]
    for number, (key_type, value_type) in enumerate(
        [(pa.string(), pa.binary()), (pa.large_string(), pa.large_binary()), (pa.binary(), pa.binary_view())]
    ):
        given = [key.encode() for key in keys] if key_type == pa.binary() else keys
        of_keys, of_values = pa.array(given, key_type), pa.array(values, value_type)
        keyspace = store.keyspace(f"{number}")
        keyspace.put_many(of_keys, of_values)
        assert keyspace.get_many(of_keys[1:]) == [b"22", b""]
        assert keyspace.contains_many(pa.chunked_array([of_keys, of_keys])) == [True] * 6
        assert keyspace.add_many(of_keys.slice(1)) == [False, False]
        found = pa.array(keyspace.get_arrow(["a".encode(), b"none", b"b"]))
        assert found.to_pylist() == [b"1", None, b"22"]
    fixed = pa.array([b"ab", b"cd"], pa.binary(2))
    items.put_many(fixed, fixed)
    assert items.get_many(fixed[1:]) == [b"cd"]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8, dtype="f4")), 4)
    items.put_many(fixed, vectors)
    assert items.get_array(fixed, "f4", 4)[0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    items.put_many(fixed[1:], vectors[1:])
    assert items.get_array(fixed, "f4", 4)[0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(siltstone.InvalidInputError, match="item 1 is null"):
        items.get_many(pa.array([b"a", None]))
    with pytest.raises(TypeError, match="not Int64; cast"):
        items.get_many(pa.array([1, 2]))


def test_arrow_builds(store, tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    count = 20_000
    table = pa.table({"id": [f"user-{n}" for n in range(count)], "name": [b"%d" % n for n in range(count)], "x": [0] * count})
    expected = {b"user-%d" % n: b"%d" % n for n in range(count)}
    pq.write_table(table, tmp_path / "users.parquet", row_group_size=3000)
    sources = {
        "table": lambda: table,
        "batch": lambda: table.combine_chunks().to_batches()[0],
        "reader": lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=999)),
        "batches": lambda: iter(table.to_batches(max_chunksize=999)),
        "parquet": lambda: pq.ParquetFile(tmp_path / "users.parquet").iter_batches(batch_size=512),
        "columns": lambda: ((batch["id"], batch["name"]) for batch in table.to_batches(max_chunksize=4000)),
    }
    for name, source in sources.items():
        keyspace = store.keyspace(name)
        report = keyspace.bulk_build(source(), key="id", value="name")
        assert report["items"] == count, name
        assert dict(keyspace) == expected, name
    with pytest.raises(siltstone.InvalidInputError, match='no column "key"; the columns are id, name, x'):
        keyspace.bulk_build(table)
    with pytest.raises(TypeError, match="tables or record batches"):
        keyspace.bulk_build(table["id"])


def test_builds_of_arrays(items):
    keys = np.arange(5000).astype(">u4").view("V4")
    rows = np.random.default_rng(2).random((5000, 8), dtype="f4")
    assert items.bulk_build([(keys[:3000], rows[:3000]), (keys[3000:], rows[3000:])])["items"] == 5000
    got, found = items.get_array(keys[::-1], "f4", 8)
    assert found.all() and (got == rows[::-1]).all()
