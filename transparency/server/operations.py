"""Operations over HTTP: is it alive, is it ready, what does it count, what does it offer."""

from __future__ import annotations

import json
from collections.abc import Iterable

from aiohttp import web

from transparency.errors import OverloadedError, TransparencyError
from transparency.log.checkpoints import CheckpointPublisher
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.log.role import Role
from transparency.log.search import SearchIndex
from transparency.server import media, metrics
from transparency.server.metrics import Labelled
from transparency.server.problems import unavailable
from transparency.server.service import SERVICE

_NO_STORE = {"Cache-Control": "no-store"}
_OK = b'{"status":"ok"}'


async def healthz(request: web.Request) -> web.StreamResponse:  # noqa: ARG001 - the process answers: that is all
    return web.Response(body=_OK, headers={**_NO_STORE, "Content-Type": media.JSON})


async def readyz(request: web.Request) -> web.StreamResponse:
    """Ready to register: the newest head verifies under a published key, the sequencer lives, nobody said stop.

    And the mark is in its place: of what it alone keeps a loss of power would leave nothing.
    """
    service = request.app[SERVICE]
    if service.stopping:
        raise unavailable("The Transparency Service is stopping", 5.0)
    reason = why_not_ready(service.log)
    if reason is not None:
        raise unavailable(reason, 5.0)
    return web.Response(body=_ready(service.log), headers={**_NO_STORE, "Content-Type": media.JSON})


def _ready(log: Log) -> bytes:
    """In a cluster it is also said which node this is, and who leads."""
    if log.role is Role.OWNER:
        return _OK
    return json.dumps({"status": "ok", "role": log.role, "leader": log.leader}, separators=(",", ":")).encode()


def why_not_ready(log: Log) -> str | None:
    try:
        log.check_newest_head()
    except OverloadedError as error:  # nothing is known of the head
        return str(error)
    except TransparencyError:
        return "The newest tree head is not signed by a key of this service"
    if not log.sequencer.alive:
        return "No node of this log leads" if log.role is Role.FRONT_END else "The sequencer does not run"
    if log.role is Role.OWNER and not log.opened.mark.is_in_place:
        return (
            "The high-water mark is no longer the file that this log writes: it was moved, deleted or replaced. "
            "Put it back, or stop the service in order"
        )
    return None


async def exposition(request: web.Request) -> web.StreamResponse:
    body = request.app[SERVICE].metrics.exposition()
    return web.Response(body=body, headers={**_NO_STORE, "Content-Type": metrics.CONTENT_TYPE})


async def openapi_document(request: web.Request) -> web.StreamResponse:
    body = request.app[SERVICE].openapi
    return web.Response(body=body, headers={"Content-Type": media.JSON, "Cache-Control": "public, max-age=300"})


def gauges(log: Log, publisher: CheckpointPublisher) -> Iterable[tuple[str, str, float]]:
    status = log.status()
    yield "accepted", "Statements that entered the queue since this process started", status.accepted
    yield "sequenced", "Statements committed to the tree since this process started", status.sequenced
    yield "published", "Statements whose receipts were released since this process started", status.published
    yield "queue", "Statements waiting for their place", status.waiting
    yield "entries", "Size of the tree", status.size
    yield "head_time_seconds", "Time of the newest tree head, in seconds since 1970", status.head_time
    yield "policy_generation", "Generation of the policy in force", status.generation
    indexed = SearchIndex(Folder(log.data).search).indexed()
    yield "search_lag", "Entries that are not in the search index yet", max(status.size - indexed, 0)
    yield "checkpoint_entries", "Size of the tree under the newest published checkpoint", publisher.published.size
    yield "checkpoint_behind", "Entries with a receipt and under no published checkpoint yet", publisher.behind
    yield "checkpoint_failures", "Publications that failed since this process started", publisher.failures
    yield (
        "checkpoint_cosignatures",
        "Cosignatures on the newest published checkpoint, one a key",
        publisher.cosignatures,
    )
    yield "checkpoint_witnessed", "1 if a quorum cosigned the newest published checkpoint", float(publisher.witnessed)
    yield "ready", "1 if the sequencer lives", 1.0 if status.alive else 0.0
    yield "leads", "1 if this process sequences; of the nodes of a cluster one does", float(log.role != Role.FRONT_END)
    yield "epoch", "How often the log was taken over by another process", status.epoch


def witness_counts(publisher: CheckpointPublisher) -> Iterable[Labelled]:
    """What became of each question to a witness; names and outcomes are the operator's and our own."""
    witnesses = () if publisher.witnesses is None else publisher.witnesses.all
    yield Labelled(
        "witness_answers",
        "Questions to a witness since this process started, by what became of them",
        ("witness", "outcome"),
        [((each.label, str(what)), count) for each in witnesses for what, count in each.outcomes.items()],
    )
