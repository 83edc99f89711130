"""For Scrapy: a filter of duplicates and a cache of responses, on disk, in little memory.

In ``settings.py``::

    DUPEFILTER_CLASS = "siltstone.scrapy.DupeFilter"
    HTTPCACHE_STORAGE = "siltstone.scrapy.CacheStorage"
    SILTSTONE_MEMORY = "64M"                               # for each of the two

The filter takes the same requests for duplicates as Scrapy's own, and keeps their fingerprints in the job directory, or in a
temporary one where there is none.
"""

from __future__ import annotations

import pickle
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.job import job_dir
from scrapy.utils.project import data_path
from scrapy.utils.response import response_from_dict

from ._store import open as open_store

__all__ = ["CacheStorage", "DupeFilter"]

_MEMORY = "64M"
_TIME = struct.Struct(">d")


class DupeFilter(RFPDupeFilter):
    """Filters requests that were seen before."""

    def __init__(
        self, path: str | None = None, debug: bool = False, *, fingerprinter: Any = None, memory: int | str = _MEMORY
    ) -> None:
        super().__init__(None, debug, fingerprinter=fingerprinter)
        self._temporary = None if path else tempfile.TemporaryDirectory(prefix="siltstone-seen-")
        directory = Path(path or self._temporary.name)  # type: ignore[union-attr]
        self._store = open_store(directory / "requests.siltstone", memory)
        self._seen = self._store.keyspace("requests")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> DupeFilter:
        """Makes a filter as the settings say."""
        settings = crawler.settings
        return cls(
            job_dir(settings),
            settings.getbool("DUPEFILTER_DEBUG"),
            fingerprinter=crawler.request_fingerprinter,
            memory=settings.get("SILTSTONE_MEMORY", _MEMORY),
        )

    def request_seen(self, request: Request) -> bool:
        """Returns whether the request was seen before, and notes it."""
        return not self._seen.insert_if_absent(self.fingerprinter.fingerprint(request))

    def close(self, reason: str) -> None:
        """Closes the store."""
        self._store.close()
        if self._temporary:
            self._temporary.cleanup()


class CacheStorage:
    """Keeps responses for Scrapy's HTTP cache, those of each spider in a store. What is older than
    ``HTTPCACHE_EXPIRATION_SECS`` goes by itself."""

    def __init__(self, settings: BaseSettings) -> None:
        self._directory = data_path(settings["HTTPCACHE_DIR"], createdir=True)
        self._expiration = settings.getint("HTTPCACHE_EXPIRATION_SECS")
        self._memory = settings.get("SILTSTONE_MEMORY", _MEMORY)

    def open_spider(self, spider: Spider) -> None:
        """Opens the spider's store."""
        self._store = open_store(Path(self._directory, f"{spider.name}.siltstone"), self._memory)
        self._responses = self._store.keyspace("responses", ttl=self._expiration if self._expiration > 0 else None)
        self._fingerprinter: Any = spider.crawler.request_fingerprinter

    def close_spider(self, spider: Spider) -> None:
        """Closes it."""
        self._store.close()

    def retrieve_response(self, spider: Spider, request: Request) -> Response | None:
        """Returns the response to the request, if it is there."""
        found = self._responses.get(self._fingerprinter.fingerprint(request))
        if found is None:
            return None
        (stored,) = _TIME.unpack_from(found)
        # Responses that were stored under a longer life.
        if 0 < self._expiration < time.time() - stored:
            return None
        request.meta["cache_timestamp"] = stored
        response: Response = response_from_dict(pickle.loads(found[_TIME.size :]))
        return response

    def store_response(self, spider: Spider, request: Request, response: Response) -> None:
        """Keeps the response to the request."""
        data = _TIME.pack(time.time()) + pickle.dumps(response.to_dict(), protocol=5)
        self._responses[self._fingerprinter.fingerprint(request)] = data
