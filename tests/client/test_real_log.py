"""The same client against the real application: in memory, and over a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.client.scripted import in_memory
from transparency.client import LogClient, sign_record
from transparency.cose.algorithms import algorithm
from transparency.cose.keys import PrivateKey
from transparency.errors import ServiceRefusedError
from transparency.log.create import create_log
from transparency.log.log import Log, system_clock
from transparency.policy.document import Issuer, Policy
from transparency.server.app import create_app
from transparency.server.serve import listening
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement, sign_statement
from transparency.statements.transparent import attach_receipts
from transparency.verifier import TrustStore, verify

ISS = "https://issuer.example"
KEY = PrivateKey.generate(algorithm("ES256").id)
OPEN = ServerSettings(port=0, open=True)


@asynccontextmanager
async def log_in(folder: Path) -> AsyncIterator[tuple[Log, TokenStore]]:
    create_log(folder / "log", clock=system_clock, origin="log.example/real", issuers=[Issuer(ISS, (KEY.public,))])
    log = Log.open(folder / "log")
    tokens = TokenStore(folder / "access.sqlite")
    await log.start()
    try:
        yield log, tokens
    finally:
        await log.stop()
        tokens.close()


@asynccontextmanager
async def client_of(
    folder: Path, way: str, settings: ServerSettings = OPEN, token: str | None = None
) -> AsyncIterator[LogClient]:
    async with log_in(folder) as (log, tokens):
        if token is not None:
            token = tokens.create([token])[1]
        pinned = log.receipt_keys()
        if way == "in memory":
            async with in_memory(create_app(log, settings, tokens)) as session:
                yield LogClient("http://log.example", session=session, pinned_keys=pinned, token=token, retries=0)
        else:
            async with (
                listening(log, settings, tokens) as (_, url),
                LogClient(url, pinned_keys=pinned, token=token, retries=0) as client,
            ):
                yield client


WAYS = pytest.mark.parametrize("way", ["in memory", "over a socket"])


def statement(text: str = "hello") -> bytes:
    return sign_statement(text.encode(), KEY, iss=ISS, sub="s", content_type="text/plain")


@WAYS
async def test_what_is_submitted_verifies_offline(tmp_path: Path, way: str) -> None:
    async with client_of(tmp_path, way) as log:
        submission = await log.submit(statement())
        keys = await log.keys()

    assert submission.receipt is not None
    assert submission.entry_id == Statement.from_bytes(statement()).entry_id
    transparent = attach_receipts(statement(), [submission.receipt])
    assert verify(transparent, TrustStore.from_keys(keys, [KEY.public])).verdict == "verified"


@WAYS
async def test_an_early_answer_is_followed_to_the_same_receipt(tmp_path: Path, way: str) -> None:
    """API-2, API-3: 202 and 201 name the same Location."""
    async with client_of(tmp_path, way) as log:
        early = await log.submit(statement(), wait=False)
        receipt = await log.receipt(early.entry_id)
        late = await log.submit(statement())

    assert early.location == late.location
    assert receipt == late.receipt


@WAYS
async def test_a_detached_statement_is_registered_with_its_payload(tmp_path: Path, way: str) -> None:
    detached = sign_statement(b"apart", KEY, iss=ISS, sub="s", content_type="text/plain", detached=True)
    attached = sign_statement(b"apart", KEY, iss=ISS, sub="s", content_type="text/plain")
    async with client_of(tmp_path, way) as log:
        submission = await log.submit(detached, b"apart")
        again = await log.submit(attached)
        with pytest.raises(ServiceRefusedError, match="Payload Missing"):
            await log.submit(detached)

    assert submission.receipt == again.receipt, "attached or detached is only transport (LEAF-1)"


@WAYS
async def test_statements_policy_and_consistency_can_be_fetched(tmp_path: Path, way: str) -> None:
    async with client_of(tmp_path, way) as log:
        first = await log.submit(statement("first"))
        await log.submit(statement("second"))
        served = await log.statement(first.entry_id)
        policy = Policy.from_toml(await log.policy())
        consistency = Receipt.from_bytes(await log.consistency(2))
        one = await log.key((await log.keys())[0].kid)
        skew = await log.clock_skew()

    assert Statement.from_bytes(served).payload == b"first"
    assert policy.log == "log.example/real"
    assert consistency.consistency[0].old_size == 2
    assert one is not None
    assert skew is not None
    assert abs(skew) < 5


@WAYS
async def test_a_refusal_carries_the_logs_reason(tmp_path: Path, way: str) -> None:
    stranger = PrivateKey.generate(algorithm("ES256").id)
    async with client_of(tmp_path, way) as log:
        with pytest.raises(ServiceRefusedError) as caught:
            await log.submit(sign_statement(b"x", stranger, iss=ISS, sub="s", content_type=None))
        with pytest.raises(ServiceRefusedError) as unknown:
            await log.receipt(Statement.from_bytes(statement("never registered")).entry_id)

    assert (caught.value.status, caught.value.title) == (400, "Rejected")
    assert unknown.value.status == 404


@WAYS
async def test_tokens_open_what_they_are_for(tmp_path: Path, way: str) -> None:
    async with client_of(tmp_path, way, ServerSettings(port=0), token="submit") as log:
        submission = await log.submit(statement())
        with pytest.raises(ServiceRefusedError) as caught:
            await log.statement(submission.entry_id)

    assert caught.value.status == 403


async def test_many_at_once_share_one_client(tmp_path: Path) -> None:
    async with client_of(tmp_path, "over a socket") as log:
        submissions = await asyncio.gather(*(log.submit(statement(f"{number}")) for number in range(50)))

    assert len({submission.entry_id for submission in submissions}) == 50


async def test_a_full_rate_limit_is_a_refusal_with_its_time(tmp_path: Path) -> None:
    """API-9."""
    settings = ServerSettings(port=0, open=True, rate_limit=2, rate_period=3600)
    async with client_of(tmp_path, "over a socket", settings) as log:
        answers = await asyncio.gather(
            *(log.submit(statement(f"{number}")) for number in range(5)), return_exceptions=True
        )

    refused = [answer for answer in answers if isinstance(answer, ServiceRefusedError)]
    assert {answer.status for answer in refused} == {429}
    assert all(answer.retry_after is not None for answer in refused)


async def test_a_signed_record_is_accepted_as_it_is(tmp_path: Path) -> None:
    record = sign_record(b'{"any": "json"}', KEY, iss=ISS, sub="s", name="x.json")
    async with client_of(tmp_path, "in memory") as log:
        submission = await log.submit(record.statement)

    assert submission.receipt is not None
