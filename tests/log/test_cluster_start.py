"""A front end that may not lead, while nobody leads: it shows what was released, or says for what it waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.clusters import MadeCluster, database, make_cluster
from tests.log.test_cluster import nodes
from tests.patience import until
from transparency.cli.errors import describe
from transparency.cli.exits import Exit
from transparency.errors import NobodyLeadsError
from transparency.server.operations import why_not_ready


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MadeCluster]:
    with database() as url:
        yield make_cluster(tmp_path, url)


async def test_a_front_end_that_is_restarted_while_nobody_leads_shows_what_was_released(
    cluster: MadeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = cluster.made.issuer
    async with nodes(cluster, "one") as [leader]:
        await leader.register(issuer.sign(b"before"))
    front_end = cluster.node("two", candidate=False)

    try:
        await front_end.start()

        assert front_end.published == 3
        assert why_not_ready(front_end) == "No node of this log leads"
        assert ["nobody leads this log" in record.message for record in caplog.records] == [True]
        async with nodes(cluster, "one"):
            assert (await front_end.register(issuer.sign(b"after"))).index == 3
            await until(lambda: why_not_ready(front_end) is None)
    finally:
        await front_end.stop()


async def test_a_front_end_of_a_log_that_nobody_ever_led_says_that_it_waits_and_what_to_start(
    cluster: MadeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transparency.log.cluster_start.START_SECONDS", 0.5)
    monkeypatch.setattr("transparency.log.cluster_start.TELL_SECONDS", 0.1)
    front_end = cluster.node("two", candidate=False)

    try:
        with pytest.raises(NobodyLeadsError, match="--never-lead") as refused:
            await front_end.start()
    finally:
        await front_end.stop()

    assert ["which is to be started" in record.message for record in caplog.records] == [True]
    assert describe(refused.value).code == Exit.TRY_LATER
