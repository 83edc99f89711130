"""CPython's own tests of mappings, on keyspaces; and that they are what `collections.abc` says."""

from __future__ import annotations

import collections.abc
import itertools
import tempfile

import pytest

import siltstone

mapping_tests = pytest.importorskip("test.mapping_tests", reason="this Python comes without its tests")

_NUMBERS = itertools.count()


class _Stores:
    """One store for all mappings of a class: each mapping is a keyspace."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = tempfile.TemporaryDirectory()
        # Two thousand empty keyspaces fit: none has a write buffer of its own before it is written to.
        cls.store = siltstone.open(cls.directory.name, memory="32M")

    @classmethod
    def tearDownClass(cls):
        cls.store.close()
        cls.directory.cleanup()
        super().tearDownClass()


class OfBytes(_Stores, mapping_tests.BasicTestMappingProtocol):
    """A keyspace of bytes."""

    def _empty_mapping(self):
        return self.store.keyspace(f"{next(_NUMBERS)}")

    def _full_mapping(self, data):
        mapping = self._empty_mapping()
        mapping.update(data)
        return mapping

    def _reference(self):
        return {b"1": b"2", b"key1": b"value1", b"key2": b"\0\xff"}


class _Pickled:
    """A keyspace of anything that can be pickled. As shelves, it reads a new object each time."""

    def _empty_mapping(self):
        return self.store.keyspace(f"{next(_NUMBERS)}", key="pickle", value="pickle")

    def _full_mapping(self, data):
        mapping = self._empty_mapping()
        mapping.update(data)
        return mapping


class OfObjects(_Pickled, _Stores, mapping_tests.BasicTestMappingProtocol):
    pass


class OfObjectsWhole(_Pickled, _Stores, mapping_tests.TestMappingProtocol):
    """The longer suite, but for what only a type of its own kind can have."""

    def _reference(self):
        return {"1": "2", "key1": "value1", "key2": (1, 2, 3)}

    def _not_a_keyspaces_part(self):
        self.skipTest("a store makes its keyspaces: they have no constructor, no copy and no fromkeys")

    test_constructor = test_copy = test_fromkeys = _not_a_keyspaces_part
    # The longer one copies; the shorter one has run in the class above.
    test_popitem = _not_a_keyspaces_part

    def test_setdefault(self):
        """As theirs, but for a list that changes where it was handed out: a keyspace holds what was set."""
        keyspace = self._empty_mapping()
        self.assertIsNone(keyspace.setdefault("key0"))
        keyspace.setdefault("key0", [])
        self.assertIsNone(keyspace.setdefault("key0"))
        self.assertEqual(keyspace.setdefault("key", [3]), [3])
        self.assertEqual(keyspace.setdefault("key", [4]), [3])
        self.assertRaises(TypeError, keyspace.setdefault)


class OfJson(_Stores, mapping_tests.BasicTestMappingProtocol):
    def _empty_mapping(self):
        return self.store.keyspace(f"{next(_NUMBERS)}", key=str, value="json")

    def _full_mapping(self, data):
        mapping = self._empty_mapping()
        mapping.update(data)
        return mapping

    def _reference(self):
        return {"1": "2", "key1": "value1", "key2": [1, 2, 3]}


def test_keyspaces_are_mutable_mappings(store):
    raw, coded = store.keyspace("a"), store.keyspace("b", key="str")
    for keyspace in (raw, coded):
        assert isinstance(keyspace, collections.abc.MutableMapping)
        with pytest.raises(TypeError):
            hash(keyspace)
    for view in (store.snapshot()[raw], store.snapshot()[coded]):
        assert isinstance(view, collections.abc.Mapping)
        assert not isinstance(view, collections.abc.MutableMapping)


def test_views_walk_and_compare(items):
    items.update({b"a": b"1", b"b": b"2"})
    assert sorted(items.keys()) == [b"a", b"b"]
    assert sorted(items.values()) == [b"1", b"2"]
    assert sorted(items.items()) == [(b"a", b"1"), (b"b", b"2")]
    assert (b"a", b"1") in items.items() and (b"a", b"2") not in items.items()
    assert b"1" in items.values() and b"3" not in items.values()
    assert items.keys() & {b"a", b"x"} == {b"a"}
    assert items == {b"a": b"1", b"b": b"2"}
    assert items != {b"a": b"1"}


def test_codecs(store):
    numbers = store.keyspace("numbers", key=int, value="json")
    numbers[7] = {"x": [1, None]}
    assert numbers[7] == {"x": [1, None]} and list(numbers) == [7]
    assert numbers.raw[(7).to_bytes(8, "big")] == b'{"x":[1,null]}'
    with pytest.raises(TypeError, match="takes int here, not str"):
        numbers["7"]
    with pytest.raises(siltstone.InvalidInputError, match="8 bytes"):
        numbers[-1] = 1
    with pytest.raises(siltstone.InvalidInputError, match="no codec 'xml'"):
        store.keyspace("x", value="xml")
    with pytest.raises(TypeError, match="encode and decode"):
        store.keyspace("x", value=3)

    texts = store.keyspace("texts", key="str", value="str")
    texts.put_many({"ä": "ö"})
    assert texts.get_many(["ä", "x"]) == ["ö", None]
    assert texts.add_many(["ä", "b"], ["1", "2"]) == [False, True]
    assert texts.contains_many(["b", "c"]) == [True, False]
    assert texts.pop("b") == "2" and texts.pop("b", "none") == "none"
    assert texts.setdefault("c", "3") == texts.setdefault("c", "4") == "3"
    assert texts.modify("c", lambda old: old + "!") == "3!"
    assert texts.compare_and_set("c", "3!", "5") and not texts.compare_and_set("c", "3!", "6")
    assert texts.insert_if_absent("d", "1") and not texts.insert_if_absent("d", "1")
    with pytest.raises(KeyError, match="none"):
        del texts["none"]
    assert texts.bulk_build({"e": "5"})["items"] == 1 and texts["e"] == "5"
    texts.clear()
    assert len(texts) == 0 and not texts


def test_msgpack(store):
    pytest.importorskip("msgpack")
    packed = store.keyspace("packed", key="str", value="msgpack")
    packed["a"] = {"n": [1, 2.5, b"x", None], 3: "int keys too"}
    assert packed["a"] == {"n": [1, 2.5, b"x", None], 3: "int keys too"}


def test_prefixes_of_coded_keys(store):
    files = store.keyspace("files", schema="delim:/", key="str", value="json")
    files.update({"home/b": 1, "home/a": 2, "root/c": 3})
    assert list(files.prefix("home/")) == [("home/a", 2), ("home/b", 1)]
    assert list(files.prefix("home/", start="b")) == [("home/b", 1)]
    with store.snapshot() as before:
        files.delete_prefix("home/")
        assert dict(files) == {"root/c": 3}
        assert before[files]["home/a"] == 2 and len(before[files]) == 3
        assert list(before[files].prefix("home/", stop="b")) == [("home/a", 2)]
