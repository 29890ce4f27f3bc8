"""The log as a client sees it (SCRAPI-11): keys, registration in its 201 and 202 flows, receipts, statements.

With pinned keys a receipt is checked before it is handed out: what a log says about itself proves nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
import secrets
import ssl
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
from yarl import URL

from transparency.client.batch import BatchExchange, NoBatchesError, Receipted
from transparency.client.pinning import check_receipt, check_transparent_statement, looks_like_receipt
from transparency.client.places import WEB, log_url, open_transport
from transparency.client.retry import Backoff, parse_http_date
from transparency.client.search import MAX_ANSWER, SearchPage, query_string, read_page
from transparency.client.static import StaticLog, may_be_static
from transparency.client.transport import CHANCE, Answer, Connected, Request
from transparency.cose import base64url
from transparency.cose.keys import PublicKey, decode_key_set
from transparency.errors import (
    MalformedError,
    OverloadedError,
    ProofError,
    RedirectedError,
    ServiceRefusedError,
    UnreachableError,
)
from transparency.policy.keyset import ServiceKeys
from transparency.statements.media_types import CBOR, CBOR_SEQUENCE, COSE, OCTETS, RECEIPT, TOML
from transparency.statements.statement import Statement, parse_entry_id

_RECEIPT_TYPES = frozenset({COSE, RECEIPT})
MAX_RECEIPT = 256 * 1024
# With a tlog-proof, which holds a checkpoint with all its cosignatures (1 MiB at most).
MAX_WITNESSED = 2 * 1024 * 1024
MAX_KEYS = 4 * 1024 * 1024
MAX_STATEMENT = 64 * 1024 * 1024
MAX_EXPORT = 48 * 1024 * 1024
MAX_POLICY = 16 * 1024 * 1024
MAX_ARTIFACT = 1024 * 1024 * 1024
# A large record may take its time on a slow line, but not for ever.
_SLOWEST_BYTES_PER_SECOND = 64 * 1024
_MAX_LOCATION = 2048
TEXT = "text/plain"
_OK = 200
_CREATED = 201
_ACCEPTED = 202
_NO_CONTENT = 204
# RFC 6750 §2.1 b64token. A line break in a token would be a second header.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Submission:
    """What a log said to a statement: where its receipt is, and the receipt unless it is still pending."""

    entry_id: str
    location: str
    receipt: bytes | None
    # The log says that it has erased the statement, and does not keep it again.
    erased: bool = False


class LogClient(Connected):
    """One log. Use as ``async with LogClient(url) as log``."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        pinned_keys: Sequence[PublicKey] | None = None,
        session: aiohttp.ClientSession | None = None,
        timeout: float = 30.0,
        retries: int = 5,
        patience: float = 60.0,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = CHANCE,
    ) -> None:
        self.url = log_url(url)
        if token is not None and not _TOKEN.fullmatch(token):
            msg = "the access token has characters no token has; copy it again, without quotes or line breaks"
            raise MalformedError(msg)
        self._token = token
        self._pinned = None if pinned_keys is None else tuple(pinned_keys)
        backoff = Backoff(retries=retries, patience=patience)
        self._transport = open_transport(
            self.url,
            session=session,
            timeout=timeout,
            backoff=backoff,
            tls=tls,
            clock=clock,
            sleep=sleep,
            random=random,
        )
        self._static = StaticLog(self.url, self._transport)

    async def keys(self) -> tuple[PublicKey, ...]:
        """The log's keys as it serves them (KEY-1). To rely on them, compare them with what its operator published."""
        answer = await self._get(self._well_known("scitt-keys"), CBOR, MAX_KEYS)
        try:
            return decode_key_set(answer.body)
        except MalformedError as error:
            raise _not_a_log(self.url, f"its key set is malformed ({error})") from error

    async def key(self, kid: bytes) -> PublicKey:
        """One key, also a retired one (KEY-3, KEY-8)."""
        answer = await self._get(self._well_known(f"scitt-keys/{base64url.encode(kid)}"), CBOR, MAX_KEYS)
        try:
            return PublicKey.from_cose_key_bytes(answer.body)
        except MalformedError as error:
            raise _not_a_log(self.url, f"its key is malformed ({error})") from error

    async def submit(self, statement: bytes, payload: bytes | None = None, *, wait: bool = True) -> Submission:
        """Register *statement*; *payload* goes with a detached one (multipart, AMB-9).

        With *wait* a 202 is followed until there is a receipt; without it the log is asked to answer early, and the
        submission may come back without a receipt: ask for it later with :meth:`receipt`.
        """
        headers = {"Accept": COSE, "Content-Type": COSE}
        body = statement
        if payload is not None:
            boundary, body = _multipart(statement, payload)
            headers["Content-Type"] = f'multipart/form-data; boundary="{boundary}"'
        if not wait:
            headers["Prefer"] = "respond-async"
        url = self.url / "entries"
        answer = await self._transport.send(Request("POST", url, self._authorised(headers), body, MAX_RECEIPT))
        location = self._location(url, answer)
        erased = answer.headers.get("Statement-Erased") == "?1"
        if answer.status == _ACCEPTED:
            answer = await self._poll(location, answer, wait=wait)
        elif answer.status not in (_CREATED, _OK):  # some services answer 200 to a statement they know
            raise _not_a_log(self.url, f"it answered {answer.status} to a registration")
        receipt = None
        if answer.status not in (_ACCEPTED, _NO_CONTENT):
            receipt = _receipt(self.url, answer)
            if self._pinned is not None:
                check_receipt(receipt, Statement.from_bytes(statement, payload).entry, self._pinned)
        return Submission(URL(str(location)).name, str(location), receipt, erased)

    async def submit_batch(self, statements: Iterable[bytes]) -> AsyncGenerator[Submission | ServiceRefusedError, None]:
        """Register many, each with its payload in it: one result for each, in their order, as soon as it is there.

        A statement is taken from *statements* when there is room to send it, so there may be any number. What a log
        refuses for good is a result too, and no error here. A log that takes no batches is asked one by one.
        """
        waiting: deque[bytes] = deque()

        def kept() -> Iterator[bytes]:
            for statement in statements:
                waiting.append(statement)
                yield statement

        source = kept()
        batches = True
        headers = self._authorised({"Accept": CBOR_SEQUENCE, "Content-Type": CBOR_SEQUENCE})
        request = Request("POST", self.url / "entries" / "batch", headers)
        try:
            async with aclosing(BatchExchange(self._transport, request, source).results()) as results:
                async for result in results:
                    statement = waiting.popleft()
                    yield self._batch_result(statement, result) if isinstance(result, Receipted) else result
        except NoBatchesError:
            batches = False
        for statement in () if batches else itertools.chain(list(waiting), source):
            try:
                yield await self.submit(statement)
            except ServiceRefusedError as error:
                yield error

    def _batch_result(self, data: bytes, result: Receipted) -> Submission:
        statement = Statement.from_bytes(data)
        if self._pinned is not None:
            check_receipt(result.receipt, statement.entry, self._pinned)
        name = statement.entry_id
        return Submission(name, self.entry_url(name), result.receipt, result.erased)

    async def receipt(
        self, entry_id: str, *, size: int | None = None, wait: bool = True, witnessed: bool = False
    ) -> bytes:
        """The receipt of an entry, at the head of *size* if given; while registration is pending it waits.

        *witnessed* asks for one that carries a tlog-proof as well, and waits until the log has one.
        """
        query = ({} if size is None else {"size": str(size)}) | ({"witnessed": "1"} if witnessed else {})
        url = self._entry(entry_id).with_query(query or None)
        answer = await self._get(url, COSE, MAX_WITNESSED if witnessed else MAX_RECEIPT)
        if answer.status == _NO_CONTENT:
            answer = await self._poll(url, answer, wait=wait)
            if answer.status == _NO_CONTENT:
                raise OverloadedError("the registration is still pending", answer.retry_after or 1.0)
        receipt = _receipt(self.url, answer)
        if self._pinned is not None:
            check_receipt(receipt, parse_entry_id(entry_id), self._pinned)
        return receipt

    async def proof(self, entry_id: str, *, wait: bool = True) -> bytes:
        """The tlog-proof of an entry: its path to a published checkpoint. Waits for that; nothing in it is checked."""
        url = self._entry(entry_id) / "proof"
        answer = await self._get(url, TEXT, MAX_WITNESSED)
        if answer.status == _NO_CONTENT:
            answer = await self._poll(url, answer, wait=wait, accept=TEXT)
            if answer.status == _NO_CONTENT:
                raise OverloadedError("no published checkpoint covers the entry yet", answer.retry_after or 1.0)
        return answer.body

    async def statement(self, entry_id: str) -> bytes:
        """The registered statement with its receipt (a transparent statement); needs a token that may read."""
        answer = await self._get(self._entry(entry_id) / "statement", COSE, MAX_STATEMENT)
        if self._pinned is not None:
            check_transparent_statement(answer.body, parse_entry_id(entry_id), self._pinned)
        return answer.body

    async def consistency(self, old: int, new: int | None = None) -> bytes:
        """A receipt that the tree of size *old* is a prefix of that of *new* (the newest head by default)."""
        query = {"from": str(old)} if new is None else {"from": str(old), "to": str(new)}
        answer = await self._get((self.url / "consistency").with_query(query), COSE, MAX_RECEIPT)
        return _receipt(self.url, answer)

    async def policy(self) -> bytes:
        """The registration policy in force, as the TOML document that stands on the log."""
        return (await self._get(self.url / "policy", TOML, MAX_POLICY)).body

    async def export(self, what: str, start: int) -> bytes:
        """One page of ``entries`` or ``heads`` for an audit, a CBOR sequence; empty at the end. Needs a read token."""
        url = (self.url / "export" / what).with_query({"from": str(start)})
        return (await self._get(url, CBOR_SEQUENCE, MAX_EXPORT)).body

    async def search(self, parameters: Sequence[tuple[str, str]]) -> SearchPage:
        """One page of entries by what they say (docs/search.md has the parameters); needs a token that may read."""
        url = URL(f"{self.url / 'search'}?{query_string(parameters)}", encoded=True)
        answer = await self._get(url, CBOR, MAX_ANSWER)
        try:
            page = read_page(answer.body)
        except MalformedError as error:
            raise _not_a_log(self.url, f"its search results are malformed ({error})") from error
        if self._pinned is not None:
            for hit in page.hits:
                if hit.receipt is not None:
                    check_receipt(hit.receipt, parse_entry_id(hit.entry_id), self._pinned)
        return page

    async def service_keys(self) -> ServiceKeys:
        """The key set in force: every key of the service, with its purpose and its times. The log's own word."""
        document = await self.keys_document()
        try:
            return ServiceKeys.from_toml(document)
        except MalformedError as error:
            raise _not_a_log(self.url, f"its key set is malformed ({error})") from error

    async def keys_document(self) -> bytes:
        """The same as the TOML document that stands on the log."""
        return (await self._get(self.url / "keys", TOML, MAX_POLICY)).body

    async def put_artifact(self, record: bytes) -> bool:
        """Have the log keep *record* beside itself, under its SHA-256; True if it did not have it before."""
        url = self._artifact(hashlib.sha256(record).hexdigest())
        headers = self._authorised({"Content-Type": OCTETS})
        patience = len(record) / _SLOWEST_BYTES_PER_SECOND
        answer = await self._transport.send(Request("PUT", url, headers, record, patience=patience))
        if answer.status not in (_OK, _CREATED):
            raise _not_a_log(self.url, f"it answered {answer.status} to an artifact")
        return answer.status == _CREATED

    async def artifact(self, digest: str, *, most: int = MAX_ARTIFACT) -> bytes:
        """The record whose SHA-256 is *digest* (hexadecimal), checked against it; needs a token that may read."""
        headers = self._authorised({"Accept": OCTETS})
        patience = most / _SLOWEST_BYTES_PER_SECOND
        request = Request("GET", self._artifact(digest), headers, None, most, patience=patience)
        record = (await self._transport.send(request)).body
        if hashlib.sha256(record).hexdigest() != digest:
            raise ProofError("the log answered with another record than the one asked for: its SHA-256 differs")
        return record

    async def clock_skew(self) -> float | None:
        """Seconds by which the log's ``Date`` is ahead of our clock, give or take half a second; None without one."""
        before = self._transport.clock()
        answer = await self._get(self.url / "healthz", "*/*", MAX_RECEIPT)
        date = parse_http_date(answer.headers.get("Date"))
        # Date has whole seconds: on average it is half a second behind.
        return None if date is None else date + 0.5 - (before + self._transport.clock()) / 2

    def entry_url(self, entry_id: str) -> str:
        """Where the entry's receipt is to be had."""
        return str(self._entry(entry_id))

    async def _poll(self, location: URL, answer: Answer, *, wait: bool, accept: str = COSE) -> Answer:
        """Follow a 202: ask at *location*, not before ``Retry-After``, until it is no longer pending."""
        if not wait:
            return answer
        transport = self._transport
        waited, attempt = 0.0, 0
        while answer.status in (_ACCEPTED, _NO_CONTENT):
            pause = transport.backoff.delay(attempt, transport.random(), answer.retry_after)
            waited += pause
            if waited > transport.backoff.patience:
                raise OverloadedError(
                    f"accepted, but still pending after {transport.backoff.patience:.0f} s at {location}", pause
                )
            await transport.sleep(pause)
            answer = await self._get(location, accept, MAX_WITNESSED)
            attempt += 1
        return answer

    async def _get(self, url: URL, accept: str, most: int) -> Answer:
        try:
            return await self._transport.send(Request("GET", url, self._authorised({"Accept": accept}), None, most))
        except (ServiceRefusedError, RedirectedError) as error:
            # Where there are only a log's files, what its service would say is computed from them.
            answer = await self._static.answer(url) if may_be_static(error) else None
            if answer is None:
                raise
            return answer

    def _authorised(self, headers: dict[str, str]) -> dict[str, str]:
        return headers if self._token is None else {**headers, "Authorization": f"Bearer {self._token}"}

    def _well_known(self, rest: str) -> URL:
        # RFC 8615: at the root of the origin, whatever prefix the log has (API-14).
        base = self.url.origin() if self.url.scheme in WEB else self.url
        return base / ".well-known" / rest

    def _entry(self, entry_id: str) -> URL:
        if not 1 <= len(entry_id) <= _MAX_LOCATION or entry_id in (".", ".."):
            msg = "that is not an entry id"
            raise MalformedError(msg)
        return URL(f"{self.url / 'entries'}/{quote(entry_id, safe='')}", encoded=True)

    def _artifact(self, digest: str) -> URL:
        if not _DIGEST.fullmatch(digest):
            raise MalformedError("an artifact is named by its SHA-256: 64 lower-case hexadecimal digits")
        return self.url / "artifacts" / digest

    def _location(self, asked: URL, answer: Answer) -> URL:
        """Where the receipt is (API-1, API-2: a MUST). Only at the same origin: our token goes there."""
        text = answer.headers.get("Location")
        if text is None:
            raise _not_a_log(self.url, "its answer has no Location")
        try:
            location = asked.join(URL(text))
            same = location.origin() == asked.origin()
        except ValueError as error:
            raise _not_a_log(self.url, "its Location is not a URL") from error
        if not same or len(text) > _MAX_LOCATION:
            raise _not_a_log(self.url, "its Location is on another server, which is not followed")
        return location.with_user(None).with_fragment(None)


def _multipart(statement: bytes, payload: bytes) -> tuple[str, bytes]:
    boundary = secrets.token_hex(24)  # 192 random bits: not in either part
    parts: list[bytes] = []
    for name, kind, data in (("statement", COSE, statement), ("payload", OCTETS, payload)):
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
            f"Content-Type: {kind}\r\n\r\n"
        )
        parts += [head.encode("ascii"), data, b"\r\n"]
    return boundary, b"".join([*parts, f"--{boundary}--\r\n".encode("ascii")])


def _receipt(url: URL, answer: Answer) -> bytes:
    if answer.content_type not in _RECEIPT_TYPES or not looks_like_receipt(answer.body):
        raise _not_a_log(url, "its answer is not a receipt")
    return answer.body


def _not_a_log(url: URL, reason: str) -> UnreachableError:
    return UnreachableError(f"{url} does not answer as a transparency log does: {reason}")
