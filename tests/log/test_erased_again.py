"""What was erased and is sent again: the same statement is known and not kept; another one with its payload is new."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.faults.ledger import settled
from tests.log import erasing
from tests.log.audited import audit_folder, pinned
from tests.log.erasing import MARKER, files_with
from transparency.cose.algorithms import P256
from transparency.cose.keys import PrivateKey
from transparency.errors import GoneError
from transparency.log.log import Failed
from transparency.policy.document import Policy
from transparency.statements.statement import Statement, normalise
from transparency.testing import SampleIssuer, running


def signed_anew(issuer: SampleIssuer, sent: bytes) -> bytes:
    """Another signature of the issuer over the same bytes: ECDSA is randomised."""
    first = Statement.from_bytes(sent)
    key = load_pem_private_key(issuer.key.to_pem(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    r, s = decode_dss_signature(key.sign(first.to_be_signed, ECDSA(SHA256())))
    return normalise(first.message.protected, first.payload, r.to_bytes(32, "big") + s.to_bytes(32, "big"))


def other_form(sent: bytes) -> bytes:
    """The same signature as (r, n-s), which whoever has the statement can write."""
    first = Statement.from_bytes(sent)
    signature = first.message.signature
    other = P256.order - int.from_bytes(signature[32:], "big")
    return normalise(first.message.protected, first.payload, signature[:32] + other.to_bytes(32, "big"))


async def test_a_payload_signed_again_in_the_same_words_by_ed25519_is_the_same_statement_and_stays_erased(
    tmp_path: Path,
) -> None:
    """REG-20: its signatures are not randomised, so the bytes are the same and the entry is known."""
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        registered = await log.register(made.issuer.sign(MARKER))
        await erasing.state_audit(made, log)
        await erasing.by_order(log, registered.index)

        again = await log.register(made.issuer.sign(MARKER))

        assert (again.index, again.new) == (registered.index, False)
    assert files_with(MARKER, [made.made.data]) == []


async def test_a_payload_that_its_issuer_states_anew_is_another_statement_and_is_kept(tmp_path: Path) -> None:
    """The log keeps no digest of what is gone, so it cannot know it again; the erased entry stays as it is."""
    made = erasing.make(tmp_path)
    async with running(made.made) as log:
        registered = await log.register(made.issuer.sign(MARKER))
        await erasing.state_audit(made, log)
        await erasing.by_order(log, registered.index)

        again = await log.register(made.issuer.sign(MARKER, sub="stated anew"))

        assert again.new
        assert Statement.from_bytes(log.statement(again.index)).payload == MARKER
        assert log.stored(registered.index).erased
        await erasing.state_audit(made, log)
        assert (await erasing.by_order(log, again.index)).unfinished == ""
    assert files_with(MARKER, [made.made.data]) == []


@pytest.mark.parametrize("restarted", [False, True])
async def test_an_erased_statement_does_not_come_back_in_its_signatures_other_form(
    tmp_path: Path, restarted: bool
) -> None:
    """REG-20: whoever has the statement can write (r, n-s), which verifies too. It is refused, and nothing is kept."""
    issuer = SampleIssuer(key=PrivateKey.generate(-7))
    made = erasing.make(tmp_path, issuer)
    sent = issuer.sign(MARKER)
    async with running(made.made) as log:
        registered = await log.register(sent)
        await erasing.state_audit(made, log)
        await erasing.by_order(log, registered.index)
        if not restarted:
            with pytest.raises(GoneError, match=f"entry {registered.index}, which was erased"):
                await log.register(other_form(sent))
    if restarted:
        async with running(made.made) as log:
            with pytest.raises(GoneError, match=f"entry {registered.index}, which was erased"):
                await log.register(other_form(sent))
    assert files_with(MARKER, [made.made.data]) == []


@pytest.mark.parametrize("duplicates", ["allow", "refuse"])
async def test_another_ecdsa_signature_over_erased_bytes_is_taken_also_where_duplicates_are_refused(
    tmp_path: Path, duplicates: str
) -> None:
    """LEAF-7: docs/retention.md says so. The digest of what is signed went with the statement."""
    issuer = SampleIssuer(key=PrivateKey.generate(-7))
    made = erasing.make(tmp_path, issuer)

    def change(old: Policy, entry: str) -> Policy:
        (only,) = old.issuers
        return old.following(entry, (replace(only, duplicates=duplicates),))

    async with running(made.made) as log:
        if duplicates == "refuse":
            await log.update_policy(made.made.next_policy(log, change))
        sent = issuer.sign(MARKER)
        registered = await log.register(sent)
        await erasing.state_audit(made, log)
        await erasing.by_order(log, registered.index)
    # What was sequenced a moment ago is in memory, too, and would still be known.
    async with running(made.made) as log:
        again = await log.register(signed_anew(issuer, sent))

        assert again.new
        assert not log.stored(again.index).erased
        assert log.stored(registered.index).erased
    assert audit_folder(made.made.data, pinned(made.made)).findings == []


async def test_an_erased_statement_in_its_other_form_that_was_accepted_fails_and_stops_nobody(tmp_path: Path) -> None:
    """REG-20, REG-23: a 202 is given before it is looked for; it ends as a failed one, and the log goes on."""
    made = erasing.make(tmp_path, SampleIssuer(key=PrivateKey.generate(-7)))
    async with running(made.made) as log:
        sent = made.issuer.sign(MARKER)
        registered = await log.register(sent)
        await erasing.state_audit(made, log)
        await erasing.by_order(log, registered.index)

        accepted = await log.accept(other_form(sent))

        found = await settled(log, accepted.entry)
        assert isinstance(found, Failed)
        assert "was erased" in found.reason
        assert (await log.register(made.issuer.sign(b"something else"))).new
