"""Registration: one statement, one entry, one receipt; who is refused, and what a refusal leaves behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from transparency.cose import labels
from transparency.cose.cbor import bstr
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError, NotFoundError, PayloadMissingError, RefusedError
from transparency.log.log import Found, Log
from transparency.log.store import Kind
from transparency.policy import keyset
from transparency.policy.document import Policy
from transparency.policy.judge import Judge
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement, sign_statement
from transparency.statements.transparent import receipts_of
from transparency.testing import FakeClock, SampleIssuer, make_log, running

# The order of the P-256 group (SEC 2 §2.4.2): (r, n-s) verifies where (r, s) does.
N_P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def log_key(log: Log, receipt: bytes) -> Receipt:
    """The receipt, after its key was found among the log's."""
    parsed = Receipt.from_bytes(receipt)
    assert parsed.kid in {key.kid for key in log.receipt_keys()}
    return parsed


def check(log: Log, statement: bytes, receipt: bytes) -> int:
    """The index a receipt proves for *statement*, after everything about it verified."""
    parsed = log_key(log, receipt)
    key = next(key for key in log.receipt_keys() if key.kid == parsed.kid)
    parsed.verify_inclusion(Statement.from_bytes(statement).entry, key)
    return parsed.inclusion[0].index


async def test_a_statement_gets_a_receipt_that_verifies_offline(tmp_path: Path) -> None:
    """REG-1, REG-13, REG-14: judged, appended, durable, then the receipt, for every registered statement."""
    made = make_log(tmp_path / "log")
    statement = made.issuer.sign(b"hello")
    async with running(made) as log:
        registered = await log.register(statement)

        assert check(log, statement, registered.receipt) == registered.index == 2
        for index in range(3):
            assert check(log, log.statement(index), log.receipt(index)) == index
    async with running(made) as log:
        assert check(log, statement, log.receipt(registered.index)) == 2


async def test_the_first_two_entries_are_the_policy_and_the_keys(tmp_path: Path) -> None:
    """REG-7, REG-9: signed statements, registered by the bootstrap in one batch, so that no path is ever empty."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        policy, keys = log.stored(0), log.stored(1)
        policy_key = log.policy.policy_key

        assert (policy.kind, keys.kind) == (Kind.POLICY, Kind.KEYS)
        for row in (policy, keys):
            Statement.from_bytes(row.statement).verify(policy_key)
        assert Receipt.from_bytes(log.receipt(0)).inclusion[0].path
        assert log.newest_head().size == 2
        assert log.policy_history()[0].toml == log.policy.to_toml()


async def test_the_same_statement_twice_is_one_entry_with_one_receipt(tmp_path: Path) -> None:
    """REG-18, LEAF-7: also attached and detached, with an unprotected header, and after a restart."""
    made = make_log(tmp_path / "log")
    statement = made.issuer.sign(b"hello")
    message = Sign1.from_bytes(statement)
    adorned = message.with_unprotected({labels.TRACE_METADATA: {"x": 1}}).to_bytes()
    detached = message.with_payload(None).to_bytes()
    async with running(made) as log:
        first = await log.register(statement)
        again = [
            await log.register(adorned),
            await log.register(Statement.from_bytes(detached, b"hello")),
            await log.register(statement),
        ]
        transparent = await log.register(log.transparent_statement(first.index))
    async with running(made) as log:
        later = await log.register(statement)

    for other in (*again, transparent, later):
        assert (other.entry, other.index, other.receipt) == (first.entry, first.index, first.receipt)
        assert not other.new


async def test_a_known_statement_is_answered_without_a_new_judgement(tmp_path: Path) -> None:
    """LEAF-7: its issuer may be gone; the entry is not."""
    made = make_log(tmp_path / "log")
    statement = made.issuer.sign(b"hello")
    async with running(made) as log:
        first = await log.register(statement)
        await log.update_policy(
            made.next_policy(log, lambda policy, previous: policy.without_issuer(made.issuer.iss, previous=previous))
        )

        with pytest.raises(RefusedError, match="iss"):
            await log.register(made.issuer.sign(b"another"))
        again = await log.register(statement)

    assert (again.index, again.receipt) == (first.index, first.receipt)


async def test_duplicates_at_the_same_moment_share_one_fate(tmp_path: Path) -> None:
    """LEAF-7: against the batch and the one being flushed."""
    made = make_log(tmp_path / "log")
    statement = made.issuer.sign(b"hello")
    async with running(made) as log:
        results = await asyncio.gather(*(log.register(statement) for _ in range(50)))

        assert len({(result.index, result.receipt) for result in results}) == 1
        assert log.newest_head().size == 3


async def test_what_is_stored_is_normalised_and_comes_back_as_a_transparent_statement(tmp_path: Path) -> None:
    """REG-12, LEAF-4: unprotected header emptied; served with 394 alone; the leaf is recomputed from it."""
    made = make_log(tmp_path / "log")
    adorned = Sign1.from_bytes(made.issuer.sign(b"hello")).with_unprotected({100: {"x": 1}, "note": b"x"}).to_bytes()
    async with running(made) as log:
        registered = await log.register(adorned)
        served = log.transparent_statement(registered.index)
        message = Sign1.from_bytes(served)

        assert log.stored(registered.index).statement == Statement.from_bytes(adorned).normalised
        assert list(message.unprotected) == [labels.RECEIPTS]
        assert check(log, served, receipts_of(message)[0]) == registered.index


async def test_a_detached_statement_is_stored_with_its_payload(tmp_path: Path) -> None:
    """LEAF-1, SS-12."""
    made = make_log(tmp_path / "log")
    detached = Sign1.from_bytes(made.issuer.sign(b"hello")).with_payload(None).to_bytes()
    async with running(made) as log:
        with pytest.raises(PayloadMissingError):
            await log.register(detached)
        with pytest.raises(RefusedError, match="signature"):
            await log.register(Statement.from_bytes(detached, b"hullo"))
        registered = await log.register(Statement.from_bytes(detached, b"hello"))

        assert Statement.from_bytes(log.statement(registered.index)).payload == b"hello"


async def test_forged_statements_are_never_registered(tmp_path: Path) -> None:
    """REG-2, REG-5: forged, zeroed, wrong key, wrong issuer: refused before anything is kept."""
    made = make_log(tmp_path / "log", issuer=SampleIssuer(key=PrivateKey.generate(-7)))
    good = Sign1.from_bytes(made.issuer.sign(b"hello"))
    impostor = PrivateKey.generate(-7).with_kid(made.issuer.key.public.kid)
    unsigned = good.to_bytes()[: -len(bstr(good.signature))]
    forged = [
        unsigned + bstr(bytes(64)),
        unsigned + bstr(good.signature[::-1]),
        unsigned + bstr(good.signature[:-1]),
        unsigned + bstr(b""),
        sign_statement(b"hello", impostor, iss=made.issuer.iss, sub="sample", content_type="text/plain"),
        sign_statement(b"hello", made.issuer.key, iss="https://other.example", sub="s", content_type="text/plain"),
    ]
    async with running(made) as log:
        for statement in forged:
            with pytest.raises((RefusedError, MalformedError)):
                await log.register(statement)
            with pytest.raises((RefusedError, MalformedError)):
                await log.accept(statement)

        assert log.newest_head().size == 2
        registered = await log.register(good.to_bytes())
        assert registered.index == 2
    assert made.fsck().clean


async def test_a_malleated_copy_first_does_not_block_the_genuine_one(tmp_path: Path) -> None:
    """LEAF-7: (r, n-s) verifies too and is another entry; the genuine one still gets its own, and both are siblings."""
    made = make_log(tmp_path / "log", issuer=SampleIssuer(key=PrivateKey.generate(-7)))
    genuine = Sign1.from_bytes(made.issuer.sign(b"hello"))
    r, s = genuine.signature[:32], int.from_bytes(genuine.signature[32:], "big")
    twin_signature = r + (N_P256 - s).to_bytes(32, "big")
    twin = genuine.to_bytes()[: -len(bstr(genuine.signature))] + bstr(twin_signature)
    async with running(made) as log:
        first = await log.register(twin)
        second = await log.register(genuine.to_bytes())

        assert first.index != second.index
        assert check(log, genuine.to_bytes(), second.receipt) == second.index
        async with asyncio.timeout(PATIENCE):
            while not log.siblings(second.index):  # noqa: ASYNC110 - the derived index catches up when nobody waits
                await asyncio.sleep(0.02)
        assert log.siblings(second.index) == [(first.index, first.entry)]


async def test_two_receipts_of_one_log_are_consistent(tmp_path: Path) -> None:
    """REG-17, REG-19: append-only; a batch has one head, and a consistency receipt joins any two heads."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        old = log.newest_head()
        await asyncio.gather(*(log.register(made.issuer.sign(bytes([n]))) for n in range(40)))
        new = log.newest_head()
        receipt = Receipt.from_bytes(log.consistency(old.size, new.size))
        (key,) = log.service_keys.current(keyset.RECEIPTS)

        assert receipt.verify_consistency(old.size, old.root, key) == new.root
        with pytest.raises(NotFoundError):
            log.consistency(new.size, new.size)
        with pytest.raises(NotFoundError):
            log.consistency(1, new.size)


async def test_a_receipt_can_be_asked_for_under_any_stored_head(tmp_path: Path) -> None:
    """RC-14, API-4: ?size=S; a head that does not exist, or does not cover the index, is not found."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        first = await log.register(made.issuer.sign(b"1"))
        await log.register(made.issuer.sign(b"2"))
        newer = log.receipt(first.index, size=4)

        assert Receipt.from_bytes(newer).tree_size == 4
        assert log.receipt(first.index) == first.receipt
        for index, size in ((3, 3), (2, 99), (2, 1)):
            with pytest.raises(NotFoundError):
                log.receipt(index, size=size)


async def test_everything_an_auditor_needs_to_replay_is_kept(tmp_path: Path) -> None:
    """REG-10, REG-20: statement, generation and policy of every entry, in order, replayed here from the store alone."""
    made = make_log(tmp_path / "log")
    other = SampleIssuer(iss="https://second.example")
    async with running(made) as log:
        await log.register(made.issuer.sign(b"1"))
        await log.update_policy(
            made.next_policy(
                log,
                lambda policy, previous: policy.with_issuer(other.iss, (other.key.public,), previous=previous),
            )
        )
        await log.register(other.sign(b"2"))

        history = {version.generation: version for version in log.policy_history()}
        for index in range(2, log.newest_head().size):
            row = log.stored(index)
            if row.kind is Kind.STATEMENT:
                judge = Judge(Policy.from_toml(history[row.generation].toml))
                assert judge.judge(Statement.from_bytes(row.statement), made.clock()).generation == row.generation


async def test_head_times_follow_the_clock_but_never_go_back(tmp_path: Path) -> None:
    """REG-21: the decision time is the head's, monotone."""
    clock = FakeClock(2_000_000_000)
    made = make_log(tmp_path / "log", clock=clock)
    async with running(made) as log:
        times = []
        for step in (10, -500, 0, 600):
            clock.advance(step)
            await log.register(made.issuer.sign(str(step).encode()))
            times.append(log.newest_head().time)

    assert times == [2_000_000_010, 2_000_000_010, 2_000_000_010, 2_000_000_110]


async def test_lookup_knows_registered_entries_and_nothing_else(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    statement = Statement.from_bytes(made.issuer.sign(b"x"))
    async with running(made) as log:
        assert log.lookup(statement.entry) is None
        registered = await log.register(statement.normalised)

        assert log.lookup(statement.entry) == Found(registered.index)
