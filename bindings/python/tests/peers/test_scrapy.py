"""Scrapy: the filter beside its own on a stream of real addresses, the cache beside its own, and a crawl."""

from __future__ import annotations

import random

import pytest

scrapy = pytest.importorskip("scrapy")
from scrapy import Request, Spider  # noqa: E402
from scrapy.dupefilters import RFPDupeFilter  # noqa: E402
from scrapy.http import HtmlResponse  # noqa: E402
from scrapy.settings import Settings  # noqa: E402
from scrapy.utils.request import RequestFingerprinter  # noqa: E402
from scrapy.utils.test import get_crawler  # noqa: E402

import siltstone.scrapy  # noqa: E402


def addresses():
    """Addresses as links have them: the documentation that comes with installed packages, again and again, with
    queries in another order, fragments and methods."""
    import importlib.metadata

    found = []
    for package in importlib.metadata.distributions():
        for header in package.metadata.get_all("Project-URL") or []:
            found.append(header.partition(", ")[2])
        name, version = package.name, package.version
        for file in (package.files or [])[:500]:
            found.append(f"https://files.example.org/{name}/{file}?version={version}&file={file.name}")
    return [url for url in found if url.startswith("http")]


def requests():
    generator, urls = random.Random(1), addresses()
    assert len(urls) > 1000
    for url in generator.choices(urls[:20_000], k=20_000):
        head, _, query = url.partition("?")
        variants = [url, f"{url}#part", head + ("?" + "&".join(reversed(query.split("&"))) if query else "")]
        if generator.random() < 0.1:
            yield Request(generator.choice(variants), method="POST", body=generator.choice([b"", b"a"]))
        else:
            yield Request(generator.choice(variants), dont_filter=False)


def test_the_filter_finds_what_scrapys_own_finds(tmp_path):
    ours = siltstone.scrapy.DupeFilter(str(tmp_path), fingerprinter=RequestFingerprinter(), memory="16M")
    theirs = RFPDupeFilter(fingerprinter=RequestFingerprinter())
    stream = list(requests())
    half = len(stream) // 2
    seen = [theirs.request_seen(request) for request in stream]
    assert 0.2 < sum(seen) / len(seen) < 0.8
    assert [ours.request_seen(request) for request in stream[:half]] == seen[:half]
    # As a crawl that is stopped and goes on.
    ours.close("finished")
    ours = siltstone.scrapy.DupeFilter(str(tmp_path), fingerprinter=RequestFingerprinter(), memory="16M")
    assert [ours.request_seen(request) for request in stream[half:]] == seen[half:]
    ours.close("finished")


def test_without_a_job_directory_nothing_is_left():
    made = siltstone.scrapy.DupeFilter.from_crawler(get_crawler(Spider, {"DUPEFILTER_DEBUG": True}))
    path = made._store.path
    assert made.debug and not made.request_seen(Request("https://example.org/"))
    assert made.request_seen(Request("https://example.org/"))
    made.close("finished")
    assert not path.exists()


@pytest.mark.parametrize("expiration", [0, 3600])
def test_responses_come_back(tmp_path, expiration):
    settings = {"HTTPCACHE_DIR": str(tmp_path), "HTTPCACHE_EXPIRATION_SECS": expiration}
    spider = get_crawler(Spider, settings)._create_spider("example")
    spider.crawler.spider = spider
    storage = siltstone.scrapy.CacheStorage(Settings(settings))
    response = HtmlResponse(
        "https://example.org/a", status=203, headers={"X-Y": ["1", "2"]}, body="<p>ä</p>".encode(), encoding="utf-8"
    )
    for turn in range(2):
        storage.open_spider(spider)
        request = Request("https://example.org/a")
        if turn == 0:
            assert storage.retrieve_response(spider, request) is None
            storage.store_response(spider, request, response)
        found = storage.retrieve_response(spider, request)
        assert type(found) is HtmlResponse and found.url == response.url and found.body == response.body
        assert found.status == 203 and found.headers == response.headers and found.css("p::text").get() == "ä"
        assert request.meta["cache_timestamp"] > 0
        assert storage.retrieve_response(spider, Request("https://example.org/b")) is None
        storage.close_spider(spider)
