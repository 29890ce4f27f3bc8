"""What an operator looks at: health, readiness, metrics, the description, the access log."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from tests.server.served import Served, served
from transparency.server.app import create_app
from transparency.server.service import SERVICE
from transparency.statements.statement import Statement


async def test_a_log_that_can_register_is_ready(site: Served) -> None:
    assert json.loads((await site.get("/healthz")).body) == {"status": "ok"}
    assert json.loads((await site.get("/readyz")).body) == {"status": "ok"}


async def test_a_head_that_does_not_verify_makes_it_not_ready(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    head = site.log.newest_head()
    monkeypatch.setattr(site.log, "newest_head", lambda: replace(head, signature=bytes(len(head.signature))))
    forged = await site.get("/readyz")
    monkeypatch.setattr(site.log, "newest_head", lambda: replace(head, kid=b"another"))
    unknown = await site.get("/readyz")

    for reply in (forged, unknown):
        assert (reply.status, reply.title) == (503, "Service Unavailable")
        assert "newest tree head" in reply.detail
    assert (await site.get("/healthz")).status == 200


async def test_a_dead_sequencer_makes_it_not_ready(site: Served) -> None:
    task = site.log.sequencer._task
    assert task is not None
    site.log.sequencer.failed = RuntimeError("gone")
    reply = await site.get("/readyz")
    site.log.sequencer.failed = None

    assert (reply.status, reply.detail) == (503, "The sequencer does not run")


@pytest.mark.parametrize("happens", ["deleted", "replaced"])
async def test_a_mark_that_is_not_in_its_place_makes_it_not_ready(site: Served, happens: str) -> None:
    """What is registered is written to a file that no start will find."""
    mark = site.log.opened.config.watermark
    aside = mark.rename(mark.with_name("aside"))
    if happens == "replaced":
        shutil.copy(aside, mark)
    reply = await site.get("/readyz")
    aside.replace(mark)

    assert (reply.status, reply.title) == (503, "Service Unavailable")
    assert "moved, deleted or replaced" in reply.detail
    assert str(mark) not in reply.detail
    assert (await site.get("/readyz")).status == 200, "it was put back"


async def test_a_server_that_stops_is_not_ready(site: Served) -> None:
    site.service.stopping = True

    assert (await site.get("/readyz")).status == 503


async def test_metrics_count_answers_refusals_and_the_states_of_entries(site: Served) -> None:
    await site.post(site.statement())
    await site.post(site.statement(iss="https://stranger.example"))
    await site.get("/nothing/at/all")
    await site.get("/entries/" + "A" * 43)
    text = (await site.get("/metrics")).body.decode()

    for line in (
        'transparency_requests_total{method="POST",route="/entries",status="201"} 1.0',
        'transparency_requests_total{method="POST",route="/entries",status="400"} 1.0',
        'transparency_requests_total{method="GET",route="unmatched",status="404"} 1.0',
        'transparency_requests_total{method="GET",route="/entries/{id}",status="404"} 1.0',
        'transparency_refusals_total{title="Rejected"} 1.0',
        "transparency_accepted 1.0",
        "transparency_sequenced 1.0",
        "transparency_published 1.0",
        "transparency_queue 0.0",
        "transparency_entries 3.0",
        "transparency_ready 1.0",
    ):
        assert line in text
    assert 'transparency_request_seconds_count{route="/entries"} 2.0' in text


async def test_two_applications_do_not_share_their_counters(site: Served) -> None:
    other = create_app(site.log, site.service.settings, site.tokens)
    await site.get("/healthz")
    assert b'route="/healthz"' in site.service.metrics.exposition()
    assert b'route="/healthz"' not in other[SERVICE].metrics.exposition()


async def test_the_description_has_every_route_and_no_other(site: Served) -> None:
    """The router's paths and methods are those of /openapi.json; every ask() of these tests checks the answers."""
    reply = await site.get("/openapi.json")
    document = json.loads(reply.body)
    app = create_app(site.log, site.service.settings, site.tokens)
    routes = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if isinstance(route, web.ResourceRoute) and route.resource is not None
    }
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}

    assert document["openapi"] == "3.1.0"
    assert routes == described
    for path, item in document["paths"].items():
        for operation in item.values():
            names = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
            assert names == set(re.findall(r"\{(\w+)\}", path))
    identifiers = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(set(identifiers)) == len(identifiers)


async def test_the_description_says_which_tokens_this_server_wants(tmp_path: Path) -> None:
    async with served(tmp_path, open=False) as site:
        paths = json.loads((await site.get("/openapi.json")).body)["paths"]

        assert paths["/entries"]["post"]["security"] == [{"token": ["submit"]}]
        assert paths["/entries/{id}/statement"]["get"]["security"] == [{"token": ["read"]}, {"token": ["witness"]}]
        assert paths["/policy"]["post"]["security"] == [{"token": ["admin"]}]
        assert "security" not in paths["/entries/{id}"]["get"]


async def test_the_open_server_describes_itself_as_open(site: Served) -> None:
    paths = json.loads((await site.get("/openapi.json")).body)["paths"]

    assert "security" not in paths["/entries"]["post"]
    assert paths["/policy"]["post"]["security"] == [{"token": ["admin"]}]


async def test_the_access_log_has_a_line_for_each_answer_and_no_secrets(tmp_path: Path) -> None:
    """Design §12: private keys, tokens and payloads never reach a log line; query strings do not either."""
    target = tmp_path / "access.jsonl"
    async with served(tmp_path, open=False, access_log=str(target)) as site:
        token = site.bearer("submit")
        statement = site.statement(b"a very private payload")
        posted = await site.post(statement, Authorization=token)
        await site.get("/consistency?from=2&secret=hunter2")
        await site.get("/no/such/route-hunter2")
        await site.post(b"", Authorization="Bearer tl_hunter2")
        await site.raw(b"hunter2\r\n\r\n")
    text = target.read_text()
    lines = [json.loads(line) for line in text.splitlines()]

    assert [line["status"] for line in lines] == [201, 200, 404, 401, 400]
    assert [line["route"] for line in lines] == ["/entries", "/consistency", "unmatched", "/entries", "unmatched"]
    first = lines[0]
    assert set(first) == {"time", "method", "route", "status", "ms", "bytes", "client", "entry"}
    assert first["entry"] == Statement.from_bytes(statement).entry_id
    assert first["client"] == f"token:{token[10:22]}"
    assert first["bytes"] > len(posted.body)
    assert lines[1]["client"] == "127.0.0.1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    for secret in ("hunter2", "private payload", token[-43:]):
        assert secret not in text


async def test_the_access_log_goes_to_standard_error_or_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with served(tmp_path / "a", access_log="-") as site:
        await site.get("/healthz")
    loud = capsys.readouterr().err
    async with served(tmp_path / "b") as site:
        await site.get("/healthz")

    assert json.loads(loud)["route"] == "/healthz"
    assert capsys.readouterr().err == ""
