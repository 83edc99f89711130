"""The module like those of `dbm`, shelves on it, and CPython's tests of mappings on these."""

from __future__ import annotations

import itertools
import shelve
import tempfile

import pytest

import siltstone
import siltstone.dbm

mapping_tests = pytest.importorskip("test.mapping_tests", reason="this Python comes without its tests")


def test_flags(tmp_path):
    path = tmp_path / "sub" / "names"
    with pytest.raises(siltstone.dbm.error):
        siltstone.dbm.open(path)
    with pytest.raises(siltstone.dbm.error):
        siltstone.dbm.open(path, "w")
    with siltstone.dbm.open(path, "c") as database:
        database["a"] = "ä"
        database[b"b"] = b"2"
        assert database["a"] == "ä".encode() and sorted(database.keys()) == [b"a", b"b"]
        assert "a" in database and database.get("x", 7) == 7 and database.setdefault("c", "3") == b"3"
        del database["c"]
        with pytest.raises(KeyError):
            del database["c"]
    with siltstone.dbm.open(path, "r") as database:
        assert dict(database) == {b"a": "ä".encode(), b"b": b"2"}
        with pytest.raises(siltstone.ReadOnlyError):
            database["a"] = "1"
    with siltstone.dbm.open(path, "w") as database:
        database["a"] = "1"
    with siltstone.dbm.open(path, "n") as database:
        assert len(database) == 0
        database.sync()
    with pytest.raises(siltstone.ClosedError):
        database["a"]
    with pytest.raises(ValueError, match="flag"):
        siltstone.dbm.open(path, "x")


class OfShelves(mapping_tests.BasicTestMappingProtocol):
    """As CPython tests its shelves."""

    directory: tempfile.TemporaryDirectory[str]
    numbers = itertools.count()

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def setUp(self):
        self.shelves = []

    def tearDown(self):
        for shelf in self.shelves:
            shelf.close()

    def _empty_mapping(self):
        database = siltstone.dbm.open(f"{self.directory.name}/{next(self.numbers)}", "c", memory="2M")
        self.shelves.append(shelve.Shelf(database, writeback=True))
        return self.shelves[-1]

    def _full_mapping(self, data):
        shelf = self._empty_mapping()
        shelf.update(data)
        return shelf

    def _reference(self):
        return {"key1": "value1", "key2": 2, "key3": (1, 2, 3)}
