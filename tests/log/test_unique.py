"""Where the policy refuses duplicates: one signature over the same bytes, except the (r, n-s) twin (LEAF-7)."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from transparency.cose.algorithms import P256
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import sig_structure
from transparency.errors import GoneError, LogUnusableError, RefusedError
from transparency.log.candidate import Candidate, Standing
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.log.sqlite import SqliteStore
from transparency.policy.judge import FOREVER, Judgement
from transparency.statements.statement import Statement, normalise
from transparency.statements.twins import twin_entry
from transparency.testing import SampleIssuer, make_log, running


@dataclass(frozen=True, slots=True)
class Signatures:
    """Two honest ECDSA signatures over the same bytes, and the malleated form of the first."""

    first: Statement
    second: Statement
    twin: Statement


def signatures(payload: bytes = b"signed twice") -> Signatures:
    issuer = SampleIssuer(key=PrivateKey.generate(-7))
    first = Statement.from_bytes(issuer.sign(payload))
    protected = first.message.protected
    other = PrivateKey.generate(-7).sign(sig_structure(protected, payload))
    signature = first.message.signature
    s = P256.order - int.from_bytes(signature[32:], "big")
    twin = signature[:32] + s.to_bytes(32, "big")
    return Signatures(
        first,
        # Whose signature it is does not matter here: judgements are given.
        Statement.from_bytes(normalise(protected, payload, other)),
        Statement.from_bytes(normalise(protected, payload, twin)),
    )


async def put(log: Log, statement: Statement, *, unique: bool = True) -> int:
    judgement = Judgement(log.policy.generation, 0, FOREVER, unique=unique)
    return (await log.sequencer.submit(Candidate.of(statement, judgement))).index


async def test_a_second_signature_is_refused_while_the_first_is_recent_and_after_it_was_indexed(
    tmp_path: Path,
) -> None:
    made, signed = make_log(tmp_path / "log"), signatures()
    async with running(made) as log:
        await put(log, signed.first)
        with pytest.raises(RefusedError, match="refuses duplicates"):
            await put(log, signed.second)
    async with running(made) as log:
        with pytest.raises(RefusedError, match="refuses duplicates"):
            await put(log, signed.second)


async def test_of_two_signatures_in_one_batch_the_first_gets_in(tmp_path: Path) -> None:
    made, signed = make_log(tmp_path / "log"), signatures()
    async with running(made) as log:
        first, second = await asyncio.gather(put(log, signed.first), put(log, signed.second), return_exceptions=True)

        assert first == 2
        assert isinstance(second, RefusedError)
        assert log.newest_head().size == 3


@pytest.mark.parametrize("apart", [False, True], ids=["one batch", "after a restart"])
async def test_the_twin_of_a_registered_signature_is_never_refused(tmp_path: Path, *, apart: bool) -> None:
    """LEAF-7: else a malleated copy that came first would block the genuine statement."""
    made, signed = make_log(tmp_path / "log"), signatures()
    async with running(made) as log:
        if apart:
            await put(log, signed.twin)
        else:
            await asyncio.gather(put(log, signed.twin), put(log, signed.first))
    async with running(made) as log:
        if apart:
            assert await put(log, signed.first) == 3
        with pytest.raises(RefusedError, match="refuses duplicates"):
            await put(log, signed.second)


@pytest.mark.sqlite_file
async def test_the_twin_of_an_erased_statement_is_known_by_its_entry(tmp_path: Path) -> None:
    made, signed = make_log(tmp_path / "log"), signatures()
    async with running(made) as log:
        await put(log, signed.twin)
    erase(made.data, 2)
    async with running(made) as log:
        assert await put(log, signed.first) == 3
        with pytest.raises(GoneError, match="entry 2 was erased"):
            log.statement(2)
        with pytest.raises(GoneError):
            log.transparent_statement(2)
        assert log.receipt(2)


async def test_a_policy_that_allows_duplicates_takes_them(tmp_path: Path) -> None:
    made, signed = make_log(tmp_path / "log"), signatures()
    async with running(made) as log:
        await put(log, signed.first, unique=False)
        assert await put(log, signed.second, unique=False) == 3


def test_only_ecdsa_has_twins() -> None:
    signed = signatures()

    assert twin_entry(signed.first) == signed.twin.entry
    assert twin_entry(signed.twin) == signed.first.entry
    assert twin_entry(Statement.from_bytes(SampleIssuer().sign(b"ed25519"))) is None


@pytest.mark.sqlite_file
async def test_a_log_of_the_version_before_collateral_is_migrated_by_its_owner_and_named_to_who_looks(
    tmp_path: Path,
) -> None:
    made = make_log(tmp_path / "log")
    database = Folder(made.data).database
    with sqlite3.connect(database) as old:
        old.execute("DROP TABLE collateral")
        old.execute("ALTER TABLE entries DROP COLUMN collateral")
        old.execute("ALTER TABLE intake DROP COLUMN collateral")
        old.execute("ALTER TABLE intake DROP COLUMN is_unique")
        old.execute("DROP TABLE erased")
        old.execute("DROP TABLE checkpoints")
        old.execute("DROP TABLE digest_young")
        old.execute("DROP TABLE sibling_young")
        old.execute("ALTER TABLE indexed DROP COLUMN young")
        old.execute("DELETE FROM _sqlite_migrations WHERE name >= 'm004'")
    old.close()

    with pytest.raises(LogUnusableError, match="earlier version"):
        SqliteStore.for_reading(database)
    async with running(made) as log:
        assert (await log.register(made.issuer.sign(b"after"))).index == 2
    assert made.fsck().clean


def erase(data: Path, index: int) -> None:
    """As retention does it: the statement goes, its entry stays."""
    with sqlite3.connect(Folder(data).database) as database:
        database.execute("UPDATE entries SET statement = x'' WHERE idx = ?", (index,))
    database.close()


@pytest.mark.parametrize("indexed", [False, True])
async def test_what_stands_in_the_tree_is_answered_with_its_place_and_not_put_there_again(
    tmp_path: Path, *, indexed: bool
) -> None:
    """LEAF-7: whoever hands it over need not have looked; a policy that wants one signature does not refuse it."""
    made, signed = make_log(tmp_path / "log"), signatures()
    async with running(made) as log:
        place = await put(log, signed.first)
        size = log.newest_head().size
        if indexed:
            await log.sequencer.index_all()
        judgement = Judgement(log.policy.generation, 0, FOREVER, unique=True)
        again, other = await asyncio.gather(
            log.sequencer.submit(Candidate.of(signed.first, judgement)), log.register(made.issuer.sign(b"another"))
        )

        assert (again.index, type(again)) == (place, Standing)
        registered = log.registered(signed.first.entry, again)
        assert (registered.index, registered.new, registered.receipt) == (place, False, log.receipt(place))
        assert other.new
        assert log.newest_head().size == size + 1
