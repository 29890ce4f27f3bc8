"""Entries over HTTP: register a statement, then fetch its receipt, itself and its siblings (SCRAPI §2.3, §2.4)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable

from aiohttp import web

from transparency.cose.cbor import encode
from transparency.errors import MalformedError, NotFoundError, RefusedError, TransparencyError
from transparency.log.log import Accepted, Failed, Found, Log, Pending, Registered
from transparency.server import media, tiles
from transparency.server.access import check_issuer
from transparency.server.access_log import ENTRY, TOKEN
from transparency.server.forms import StatementForm
from transparency.server.outcome import refusal_of
from transparency.server.problems import ProblemError, jittered
from transparency.server.service import SERVICE, Service, finish, matches, negotiated, preferred, query_number
from transparency.statements.receipt import with_tlog_proof
from transparency.statements.statement import Entry, Statement, entry_id, parse_entry_id

STATEMENT_TYPES = (media.COSE, media.STATEMENT, media.FORM)
_RECEIPT_TYPES = (media.COSE, media.RECEIPT)
_COSE_TYPES = ("cose-sign1",)
_PREFERENCE = re.compile(r"[ \t]*respond-async[ \t]*(?:;.*)?", re.IGNORECASE)
# A receipt's head changes only when its key is retired; a named head never does.
_SHORT = "public, max-age=60"
# RFC 9651 §3.3.6. Beside a receipt: what it is about was erased here, and sending it again does not bring it back.
ERASED = "Statement-Erased"
_FOR_EVER = "public, max-age=31536000, immutable"
_PRIVATE = "private, max-age=60"


async def register(request: web.Request) -> web.StreamResponse:
    """``POST /entries``: 201 with the receipt, or 202 once the statement is durable (API-1, API-2)."""
    service = request.app[SERVICE]
    kind = statement_type(request)
    async with service.bodies.body_of(request, service.body_limit) as body:
        statement = Statement.from_bytes(*_split(kind, body))
        check_issuer(request.get(TOKEN), statement)
        wants_async = _wants_async(request)
        try:
            if wants_async:
                result = await service.log.accept(statement)
            else:
                result = await _register_in_time(service, statement)
        except RefusedError as error:
            raise refusal_of(error, statement, service.log.policy.max_statement_size) from None
    if isinstance(result, Accepted):
        return _accepted(service, request, result, asked=wants_async)
    return created(service, request, result)


async def receipt(request: web.Request) -> web.StreamResponse:
    """``GET /entries/{id}``: the receipt; 204 while the entry waits; 404 with the reason if it was not registered."""
    service = request.app[SERVICE]
    entry = _entry_of_path(request)
    size = query_number(request, "size")
    witnessed = _wants_witnessed(request)
    kind = negotiated(request, *_RECEIPT_TYPES)
    try:
        index = _index_of(service.log, entry)
    except _StillPendingError:
        return _not_yet(service)
    if witnessed:
        return _witnessed(request, service, index, size, kind)
    head_size = service.log.receipt_head(index).size if size is None else size
    etag = f'"{index}-{head_size}-{"r" if kind == media.RECEIPT else "c"}"'
    path = f"/entries/{entry_id(entry)}" + ("" if size is None else f"?size={size}")
    headers = {
        "Location": service.location(request, path),
        "ETag": etag,
        "Cache-Control": _SHORT if size is None else _FOR_EVER,
        "Vary": "Accept",
    }
    # Built first: a head that does not exist is 404, whatever ETag the client made up for it.
    body = service.log.receipt(index, head_size)
    if matches(request, etag):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, headers={**headers, "Content-Type": kind})


async def proof(request: web.Request) -> web.StreamResponse:
    """``GET /entries/{id}/proof``: the entry's path to a published checkpoint, as a tlog-proof file (P-1)."""
    service = request.app[SERVICE]
    try:
        index = _index_of(service.log, _entry_of_path(request))
    except _StillPendingError:
        return _not_yet(service)
    negotiated(request, "text/plain")
    found = service.publisher.proof(index)
    if found is None:
        return _not_yet(service)
    return tiles.answer(request, found, tiles.TEXT, _SHORT)


async def statement(request: web.Request) -> web.StreamResponse:
    """``GET /entries/{id}/statement``: the transparent statement, from which anyone recomputes the leaf (LEAF-4)."""
    service = request.app[SERVICE]
    index = _registered_index(service.log, _entry_of_path(request))
    kind = negotiated(request, media.COSE, media.STATEMENT)
    body = service.log.transparent_statement(index)
    return web.Response(body=body, headers={"Content-Type": kind, "Cache-Control": _PRIVATE, "Vary": "Accept"})


async def siblings(request: web.Request) -> web.StreamResponse:
    """``GET /entries/{id}/siblings``: other entries over the same signed bytes (LEAF-7)."""
    service = request.app[SERVICE]
    index = _registered_index(service.log, _entry_of_path(request))
    kind = negotiated(request, media.CBOR)
    ids = [entry_id(entry) for _, entry in service.log.siblings(index)]
    return web.Response(body=encode(ids), headers={"Content-Type": kind, "Cache-Control": "no-store"})


def _witnessed(request: web.Request, service: Service, index: int, size: int | None, kind: str) -> web.StreamResponse:
    """A receipt that carries its tlog-proof: what an auditor needs to ask a quorum of witnesses offline."""
    receipt = service.log.receipt(index, size)
    found = service.publisher.proof(index)
    if found is None:
        return _not_yet(service)
    query = "?witnessed=1" if size is None else f"?size={size}&witnessed=1"
    location = service.location(request, f"/entries/{request[ENTRY]}{query}")
    more = {"Location": location, "Vary": "Accept"}
    return tiles.answer(request, with_tlog_proof(receipt, found), kind, _SHORT, more)


def _wants_witnessed(request: web.Request) -> bool:
    values = request.query.getall("witnessed", ())
    if values not in ((), ["1"]):
        raise ProblemError.malformed("'witnessed' is 1, or it is left out")
    return bool(values)


def _not_yet(service: Service) -> web.Response:
    headers = {"Retry-After": jittered(service.settings.retry_after), "Cache-Control": "no-store"}
    return web.Response(status=204, headers=headers)


def statement_type(request: web.Request) -> media.MediaType:
    """What the body says it is (API-15), or 415."""
    kind = media.MediaType.parse(request.headers.get("Content-Type", ""))
    if kind is None or kind.name not in STATEMENT_TYPES or not _is_sign1(kind):
        wanted = ", ".join(STATEMENT_TYPES)
        raise ProblemError(
            415,
            "Unsupported Media Type",
            f"A Signed Statement is sent as {wanted}",
            headers={"Accept-Post": wanted},
        )
    return kind


def require_attached(request: web.Request) -> None:
    """415 unless the body is a statement by itself: a document of the service carries its payload."""
    if statement_type(request).name == media.FORM:
        raise ProblemError(415, "Unsupported Media Type", f"A document of the service is sent as {media.COSE}")


def created(service: Service, request: web.Request, result: Registered) -> web.Response:
    """201. The same for a statement that was registered before: its Location and receipt (LEAF-7, REG-18)."""
    request[ENTRY] = result.entry_id
    headers = {
        "Location": service.location(request, f"/entries/{result.entry_id}"),
        "Content-Type": preferred(request, *_RECEIPT_TYPES),
        "Vary": "Accept",
    }
    if not result.new and service.log.stored(result.index).erased:
        headers[ERASED] = "?1"
    return web.Response(status=201, body=result.receipt, headers=headers)


def _accepted(service: Service, request: web.Request, result: Accepted, *, asked: bool) -> web.Response:
    request[ENTRY] = result.entry_id
    headers = {
        "Location": service.location(request, f"/entries/{result.entry_id}"),
        "Retry-After": jittered(service.settings.retry_after),
        "Content-Length": "0",
    }
    if asked:
        headers["Preference-Applied"] = "respond-async"
    return web.Response(status=202, headers=headers)


async def _register_in_time(service: Service, statement: Statement) -> Registered | Accepted:
    """Register; if the batch is slow, make the statement durable first and say 202 (design §5).

    Whichever ends first is the answer. The registration goes on after a 202: it is the same entry, so both lead to
    one place in the tree.
    """
    registering = asyncio.ensure_future(service.log.register(statement))
    # If this request is cancelled nobody else asks how it ended, and asyncio would print that with a traceback.
    registering.add_done_callback(lambda done: done.cancelled() or done.exception())
    done, _ = await asyncio.wait({registering}, timeout=service.settings.slow_after)
    if done:
        return registering.result()
    accepting = asyncio.ensure_future(service.log.accept(statement))
    await asyncio.wait({registering, accepting}, return_when=asyncio.FIRST_COMPLETED)
    if not registering.done() and not _succeeded(accepting):
        # The intake had no room: then the answer is what becomes of the registration, however long it takes.
        await asyncio.wait({registering})
    first, second = (registering, accepting) if registering.done() else (accepting, registering)
    _keep(service, finish(service, second))
    return first.result()


def _succeeded(task: asyncio.Future[Registered | Accepted]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _keep(service: Service, work: Awaitable[None]) -> None:
    task: asyncio.Task[object] = asyncio.ensure_future(work)
    service.background.add(task)
    task.add_done_callback(service.background.discard)


def _split(kind: media.MediaType, body: bytes) -> tuple[bytes, bytes | None]:
    if kind.name == media.FORM:
        form = StatementForm.from_bytes(body, kind.parameters.get("boundary"))
        return form.statement, form.payload
    return body, None


def _is_sign1(kind: media.MediaType) -> bool:
    return kind.name != media.COSE or kind.parameters.get("cose-type", "cose-sign1").lower() in _COSE_TYPES


def _wants_async(request: web.Request) -> bool:
    """RFC 7240 §4.1. It changes how the answer comes, never what is registered."""
    preferences = [part for value in request.headers.getall("Prefer", ()) for part in value.split(",")]
    return any(_PREFERENCE.fullmatch(part) for part in preferences)


class _StillPendingError(TransparencyError):
    """Accepted, and not in the tree yet."""


def _entry_of_path(request: web.Request) -> Entry:
    text = request.match_info["id"]
    try:
        entry = parse_entry_id(text)
    except MalformedError:
        raise ProblemError(400, "Invalid locator", "Operation locator is not in a valid form") from None
    request[ENTRY] = text
    return entry


def _index_of(log: Log, entry: Entry) -> int:
    found = log.lookup(entry)
    match found:
        case Found():
            return found.index
        case Pending():
            raise _StillPendingError
        case Failed():
            raise ProblemError(404, "Registration Failed", f"The statement was not registered: {found.reason}")
    raise _unknown(entry)


def _registered_index(log: Log, entry: Entry) -> int:
    try:
        return _index_of(log, entry)
    except _StillPendingError:
        raise NotFoundError("The statement is accepted and not registered yet; its receipt's URL tells when") from None


def _unknown(entry: Entry) -> ProblemError:
    return ProblemError(
        404, "Not Found", f"Receipt with entry ID {entry_id(entry)} not known to this Transparency Service"
    )
