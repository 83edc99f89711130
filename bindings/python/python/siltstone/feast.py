"""A Feast online store that needs no server: features lie in the process that serves them.

In ``feature_store.yaml``::

    online_store:
        type: siltstone.feast.SiltstoneOnlineStore
        path: data/online            # a directory, from the repository on
        memory: 256M                 # for all feature views together

Each feature view is a keyspace. A key is an entity, with its length before it, and then a feature: the entity is the prefix, so
that its features lie together and are read at once, and a view is dropped at once. A value is the event's time and the feature
as Feast has it.

What is older than the view's ``ttl``, counted from the event, is not served, and its space comes back; with ``expire: false`` it
is served for ever, as by Feast's store for SQLite. The first rows of an empty view are built as tables.

One process at a time may write. A server in a process of its own opens the store with ``read_only: true``, and serves what
was there when it was opened.
"""

from __future__ import annotations

import asyncio
import shutil
import struct
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal

from feast import Entity, FeatureView, RepoConfig
from feast.infra.key_encoding_utils import serialize_entity_key
from feast.infra.online_stores.online_store import OnlineStore
from feast.infra.supported_async_methods import SupportedAsyncMethods
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.protos.feast.types.Value_pb2 import Value
from feast.repo_config import FeastConfigBaseModel

from ._keyspace import Keyspace
from ._shared import forget, shared
from ._store import Store
from .errors import NoKeyspaceError

__all__ = ["SiltstoneOnlineStore", "SiltstoneOnlineStoreConfig"]

_Row = tuple[EntityKey, dict[str, Value], datetime, "datetime | None"]
_Found = tuple["datetime | None", "dict[str, Value] | None"]

_TIME = struct.Struct(">q")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
# Fewer rows than these are put, even if the view is empty.
_LEAST_BUILT = 1000


class SiltstoneOnlineStoreConfig(FeastConfigBaseModel):
    """How ``feature_store.yaml`` configures the store."""

    type: Literal["siltstone.feast.SiltstoneOnlineStore"] = "siltstone.feast.SiltstoneOnlineStore"
    """Names the store."""
    path: str = "data/online"
    """The store's directory."""
    memory: str = "256M"
    """What the store may use in all."""
    read_only: bool = False
    """Serves what is there when it is opened, while another process may write."""
    expire: bool = True
    """Whether features end after their view's ``ttl``."""
    synced: bool = False
    """Whether each batch of rows is on the device when it has been written."""


class SiltstoneOnlineStore(OnlineStore):
    """Serves features from a Siltstone store in this process."""

    _store: Store | None = None

    @property
    def async_supported(self) -> SupportedAsyncMethods:
        """Says that reads and writes can be awaited."""
        return SupportedAsyncMethods(read=True, write=True)

    def online_write_batch(
        self,
        config: RepoConfig,
        table: FeatureView,
        data: list[_Row],
        progress: Callable[[int], Any] | None,
    ) -> None:
        """Writes rows of features; of rows of one entity the last one counts."""
        keyspace = self._keyspace(config, table)
        keys, values = _items(config, data)
        ttl = _longest_life(config, table, data)
        if ttl is None or ttl > 0:
            if len(data) >= _LEAST_BUILT and not keyspace:
                keyspace.bulk_build(keys, values, ttl=ttl)
            else:
                keyspace.put_many(keys, values, ttl=ttl, sync=config.online_store.synced)
        else:
            # All of it is over: what it replaces is as well.
            keyspace.delete_many(keys)
        if progress:
            progress(len(data))

    async def online_write_batch_async(
        self,
        config: RepoConfig,
        table: FeatureView,
        data: list[_Row],
        progress: Callable[[int], Any] | None,
    ) -> None:
        """As :meth:`online_write_batch`."""
        await asyncio.to_thread(self.online_write_batch, config, table, data, progress)

    def online_read(
        self,
        config: RepoConfig,
        table: FeatureView,
        entity_keys: list[EntityKey],
        requested_features: list[str] | None = None,
    ) -> list[_Found]:
        """Returns of each entity the time of its newest event and its features, all of one moment."""
        try:
            keyspace = self._keyspace(config, table, create=False)
        except NoKeyspaceError:
            return [(None, None)] * len(entity_keys)
        names = requested_features or [feature.name for feature in table.features]
        suffixes = [name.encode() for name in names]
        prefixes = [_prefix(config, entity) for entity in entity_keys]
        found = keyspace.get_many([prefix + suffix for prefix in prefixes for suffix in suffixes])
        oldest = _oldest(config, table)
        width = len(names)
        return [_row(names, found[at : at + width], oldest) for at in range(0, len(found), width)]

    async def online_read_async(
        self,
        config: RepoConfig,
        table: FeatureView,
        entity_keys: list[EntityKey],
        requested_features: list[str] | None = None,
    ) -> list[_Found]:
        """As :meth:`online_read`."""
        return await asyncio.to_thread(self.online_read, config, table, entity_keys, requested_features)

    def update(
        self,
        config: RepoConfig,
        tables_to_delete: Sequence[FeatureView],
        tables_to_keep: Sequence[FeatureView],
        entities_to_delete: Sequence[Entity],
        entities_to_keep: Sequence[Entity],
        partial: bool,
    ) -> None:
        """Makes keyspaces for feature views, and drops those of views that are gone."""
        for table in tables_to_keep:
            self._keyspace(config, table)
        self._drop(config, tables_to_delete)

    def teardown(self, config: RepoConfig, tables: Sequence[FeatureView], entities: Sequence[Entity]) -> None:
        """Drops the keyspaces of feature views, and with the last one the store."""
        self._drop(config, tables)
        store = self._opened(config)
        if not store.keyspaces():
            store.close()
            forget(store)
            self._store = None
            shutil.rmtree(_path(config), ignore_errors=True)

    async def close(self) -> None:
        """Lets go of the store, which closes when nobody else in the process uses it."""
        self._store = None

    def _drop(self, config: RepoConfig, tables: Sequence[FeatureView]) -> None:
        store = self._opened(config)
        for table in tables:
            try:
                store.drop_keyspace(_name(config, table))
            except NoKeyspaceError:
                pass

    def _opened(self, config: RepoConfig) -> Store:
        """Returns the store, which all of this process share that name its directory."""
        if self._store is None:
            settings = config.online_store
            self._store = shared(_path(config), settings.memory, read_only=settings.read_only)
        return self._store

    def _keyspace(self, config: RepoConfig, table: FeatureView, *, create: bool = True) -> Keyspace:
        create = create and not config.online_store.read_only
        keyspace: Keyspace = self._opened(config).keyspace(
            _name(config, table), "length:2" if create else None, create=create
        )
        return keyspace


def _path(config: RepoConfig) -> Path:
    path = Path(config.online_store.path)
    if config.repo_path and not path.is_absolute():
        path = Path(config.repo_path) / path
    return path.absolute()


def _name(config: RepoConfig, table: FeatureView) -> str:
    """Returns the name of a view's keyspace; with versioning each version has its own."""
    name = table.name
    if getattr(config.registry, "enable_online_feature_view_versioning", False):
        version = getattr(table.projection, "version_tag", None)
        if version is None:
            version = getattr(table, "current_version_number", None)
        if version:
            name = f"{name}_v{version}"
    return f"{config.project}/{name}"


def _prefix(config: RepoConfig, entity: EntityKey) -> bytes:
    key: bytes = serialize_entity_key(
        entity, entity_key_serialization_version=config.entity_key_serialization_version
    )
    return len(key).to_bytes(2, "big") + key


def _aware(time: datetime) -> datetime:
    """Returns a time with its zone; without one it is UTC, as everywhere in Feast."""
    return time.replace(tzinfo=timezone.utc) if time.tzinfo is None else time


def _items(config: RepoConfig, data: list[_Row]) -> tuple[list[bytes], list[bytes]]:
    keys, values = [], []
    for entity, features, time, _ in data:
        prefix = _prefix(config, entity)
        stamp = _TIME.pack((_aware(time) - _EPOCH) // _MICROSECOND)
        for name, value in features.items():
            keys.append(prefix + name.encode())
            values.append(stamp + value.SerializeToString())
    return keys, values


def _life(config: RepoConfig, table: FeatureView) -> timedelta | None:
    ttl = getattr(table, "ttl", None)
    return ttl if config.online_store.expire and ttl else None


def _longest_life(config: RepoConfig, table: FeatureView, data: list[_Row]) -> float | None:
    """Returns the seconds after which the last of these rows is over; the read finds those that are over before."""
    life = _life(config, table)
    if life is None or not data:
        return None
    newest = max(_aware(time) for _, _, time, _ in data)
    return (newest + life - datetime.now(timezone.utc)).total_seconds()


def _oldest(config: RepoConfig, table: FeatureView) -> int | None:
    """Returns the time of an event, in microseconds, from which on features are served."""
    life = _life(config, table)
    if life is None:
        return None
    return (datetime.now(timezone.utc) - life - _EPOCH) // _MICROSECOND


def _row(names: list[str], found: list[bytes | None], oldest: int | None) -> _Found:
    features: dict[str, Value] = {}
    value_of, width = Value.FromString, _TIME.size
    newest = last = None
    is_served = False
    for name, data in zip(names, found, strict=True):
        if data is None:
            continue
        stamp = data[:width]
        # Features of an entity mostly come of one event.
        if stamp != last:
            last, (time,) = stamp, _TIME.unpack(stamp)
            is_served = oldest is None or time >= oldest
            if is_served and (newest is None or time > newest):
                newest = time
        if is_served:
            features[name] = value_of(data[width:])
    if newest is None:
        return None, None
    return _EPOCH + newest * _MICROSECOND, features
