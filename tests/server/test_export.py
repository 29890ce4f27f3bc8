"""The export: pages of entries and heads that an audit can be made of, for those who may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.served import Served, served
from transparency.log import export
from transparency.log.audit import Outcome, audit
from transparency.log.audit_sources import RemoteSource
from transparency.log.export import read_entries, read_heads
from transparency.log.folder import Config, Folder
from transparency.server import export as endpoint


async def _everything(site: Served) -> RemoteSource:
    """All pages, fetched now: the audit itself does not await."""
    pages: dict[tuple[str, int], bytes] = {}
    for what in ("entries", "heads"):
        start = 0
        while True:
            page = (await site.get(f"/export/{what}?from={start}")).body
            pages[what, start] = page
            if not page:
                break
            start = read_entries(page)[-1].index + 1 if what == "entries" else read_heads(page)[-1].size
    return RemoteSource(lambda what, start: pages[what, start])


async def test_what_is_exported_can_be_audited(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE_ENTRIES", 3)
    monkeypatch.setattr(export, "PAGE_HEADS", 2)
    for number in range(10):
        assert (await site.post(site.statement(b'{"n":%d}' % number))).status == 201
    await site.log.manifests.make()

    report = audit(await _everything(site), Config.read(Folder(site.log.data).config).policy_key)

    size = site.log.newest_head().size
    assert report.findings == []
    assert report.entries == {Outcome.REPRODUCED: size}
    assert report.manifests == 1


async def test_a_page_ends_when_it_is_large(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE_BYTES", 1)

    page = (await site.get("/export/entries?from=1")).body

    assert [row.index for row in read_entries(page)] == [1]


async def test_after_the_last_entry_a_page_is_empty(site: Served) -> None:
    for what in ("entries", "heads"):
        reply = await site.get(f"/export/{what}?from=1000")
        assert (reply.status, reply.body) == (200, b"")
        assert reply.headers["Content-Type"] == "application/cbor-seq"


@pytest.mark.parametrize("query", ["from=-1", "from=x", "from=1&from=2", "from=01"])
async def test_a_start_that_is_no_number_is_refused(site: Served, query: str) -> None:
    assert (await site.get(f"/export/entries?{query}")).status == 400


async def test_the_export_needs_a_token_that_may_read(tmp_path: Path) -> None:
    async with served(tmp_path, open=False) as site:
        for what in ("entries", "heads"):
            assert (await site.get(f"/export/{what}")).status == 401
            assert (await site.get(f"/export/{what}", Authorization=site.bearer("submit"))).status == 403
            assert (await site.get(f"/export/{what}", Authorization=site.bearer("read"))).status == 200


async def test_when_too_many_are_under_way_the_next_one_is_asked_to_come_again(
    site: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "MAX_AT_ONCE", 0)

    reply = await site.get("/export/entries")

    assert reply.status == 503
    assert int(reply.headers["Retry-After"]) >= 1
