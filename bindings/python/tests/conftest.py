"""Stores for tests: small, in a directory that goes away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone


@pytest.fixture
def store(tmp_path: Path) -> Iterator[siltstone.Store]:
    with siltstone.open(tmp_path / "db", memory="8M") as store:
        yield store


@pytest.fixture
def items(store: siltstone.Store) -> siltstone.Keyspace:
    keyspace: siltstone.Keyspace = store.keyspace("items")
    return keyspace
