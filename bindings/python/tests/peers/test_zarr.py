"""Zarr's own tests of stores, and an array of many small chunks."""

from __future__ import annotations

import pytest

zarr = pytest.importorskip("zarr", minversion="3")
np = pytest.importorskip("numpy")
from zarr.core.buffer import Buffer, cpu  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402

import siltstone.zarr  # noqa: E402


class TestSiltstoneStore(StoreTests[siltstone.zarr.SiltstoneStore, cpu.Buffer]):
    store_cls = siltstone.zarr.SiltstoneStore
    buffer_cls = cpu.Buffer

    async def set(self, store, key: str, value: Buffer) -> None:
        store._items[key] = value.to_bytes()

    async def get(self, store, key: str) -> Buffer:
        return self.buffer_cls.from_bytes(store._items[key])

    @pytest.fixture
    def store_kwargs(self, tmp_path):
        return {"path": tmp_path / "zarr", "memory": "8M"}

    def test_store_repr(self, store):
        assert repr(store) == f"SiltstoneStore('siltstone://{store._path}')"

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing


def test_many_small_chunks(tmp_path):
    store = siltstone.zarr.SiltstoneStore(tmp_path / "zarr", memory="16M")
    root = zarr.create_group(store=store)
    array = root.create_array("a", shape=(300, 300), chunks=(10, 10), dtype="f4")
    numbers = np.random.default_rng(1).random((300, 300), dtype="f4")
    array[:] = numbers
    array[5:15, 5:15] = 0
    numbers[5:15, 5:15] = 0
    store.close()
    del root, array, store
    again = zarr.open_group(store=siltstone.zarr.SiltstoneStore(tmp_path / "zarr", read_only=True), mode="r")
    assert (again["a"][:] == numbers).all() and list(again.array_keys()) == ["a"]
    assert len(again.store._items) == 900 + 2
