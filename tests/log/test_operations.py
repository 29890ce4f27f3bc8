"""Operations: what the service states about itself comes by a route of its own, and by no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from transparency.cose.keys import PrivateKey, PublicKey
from transparency.errors import RefusedError
from transparency.log.documents import sign_document
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.log.operations import sign_operation
from transparency.log.store import Kind
from transparency.policy import keyset
from transparency.policy.erasure import Erasure, Item
from transparency.policy.operations import ERASURE, SUBJECTS, read_operation
from transparency.statements.statement import Statement
from transparency.testing import MadeLog, make_log, running


def _signed(made: MadeLog, log: Log, subject: str = "hold", payload: bytes = b"\xa0") -> Statement:
    """An operation as the service signs it, which nobody has registered yet."""
    return sign_operation(
        log.service_keys, Folder(made.data).load_key, subject, payload, "application/cbor", made.clock()
    )


@pytest.mark.parametrize("subject", SUBJECTS)
async def test_an_operation_is_a_statement_by_the_operations_key(tmp_path: Path, subject: str) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        item = Item(0, log.policy_entry_id, "artifact", "rule", "authoriser", 0)
        erasure = Erasure(log.origin, (item,))  # the one subject whose payload fsck reads
        registered = await log.operate(subject, erasure.to_bytes() if subject == ERASURE else b"\xa0")
        row = log.stored(registered.index)
        statement = Statement.from_bytes(row.statement)

        assert (row.kind, row.generation) == (Kind.OPERATION, 1)
        assert (statement.iss, statement.sub, statement.content_type) == (log.iss, subject, "application/cbor")
        assert read_operation(statement, log.service_keys) == subject


async def test_a_subject_that_is_none_is_refused(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        with pytest.raises(RefusedError, match="not a subject of operations"):
            await log.operate("policy", b"\xa0")


async def test_an_operation_that_was_sent_to_the_log_is_refused_even_if_the_policy_lists_its_key(
    tmp_path: Path,
) -> None:
    """LEAF-7: once it is registered, it is known, and answered with its receipt."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        (operations,) = log.service_keys.current(keyset.OPERATIONS)
        await log.update_policy(
            made.next_policy(log, lambda old, entry: old.with_issuer(log.iss, (operations,), previous=entry))
        )
        sent = _signed(made, log).normalised

        for route in (log.register, log.accept):
            with pytest.raises(RefusedError, match="by the service alone"):
                await route(sent)
        registered = await log.operate("hold", b"\xa0")
        again = await log.register(log.statement(registered.index))

    assert (again.index, again.new) == (registered.index, False)


async def test_operations_do_not_end_a_batch_and_take_the_generation_of_their_place(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        await log.update_policy(
            made.next_policy(log, lambda old, entry: old.with_issuer("https://b.example", (_key(),), previous=entry))
        )
        registered = await log.operate("hold", b"\xa0")

        assert log.stored(registered.index).generation == 2
    assert made.fsck().clean


async def test_after_a_rotation_only_the_new_operations_key_counts(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    folder = Folder(made.data)
    async with running(made) as log:
        before = _signed(made, log)
        new = PrivateKey.generate(-8)
        folder.save_key(keyset.OPERATIONS, new)
        rotated = log.service_keys.rotated(
            keyset.OPERATIONS, new.public, previous=log.service_keys_entry_id, now=made.clock()
        )
        signer = folder.load_key(keyset.POLICY, log.policy.policy_key)
        await log.update_keys(sign_document(rotated, signer, log.iss))
        registered = await log.operate("hold", b"\xa0")

        assert Statement.from_bytes(log.statement(registered.index)).kid == new.public.kid
        with pytest.raises(RefusedError, match="operations key that the key set in force names"):
            read_operation(before, log.service_keys, made.clock())
        with pytest.raises(RefusedError, match="by the service alone"):
            await log.register(before.normalised)


async def test_a_statement_of_another_issuer_may_have_an_operations_subject(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        registered = await log.register(made.issuer.sign(b"mine", sub="erasure"))

        assert log.stored(registered.index).kind is Kind.STATEMENT


def _key() -> PublicKey:
    return PrivateKey.generate(-8).public
