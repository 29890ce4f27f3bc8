"""Policies and key sets on a running log: only the next one, only by the policy key, only for this log."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from transparency.cose import labels
from transparency.cose.keys import PrivateKey
from transparency.cose.sign1 import Sign1, sign1
from transparency.errors import LogUnusableError, MalformedError, RefusedError, TransparencyError
from transparency.log.documents import sign_document
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.policy import keyset
from transparency.policy.document import Policy
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement, sign_statement
from transparency.testing import MadeLog, SampleIssuer, make_log, running

OTHER = SampleIssuer(iss="https://second.example")


def adding(issuer: SampleIssuer) -> Callable[[Policy, str], Policy]:
    return lambda policy, previous: policy.with_issuer(issuer.iss, (issuer.key.public,), previous=previous)


async def test_a_new_policy_is_in_force_from_the_next_entry_on(tmp_path: Path) -> None:
    """REG-8, REG-22: also after a restart."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        with pytest.raises(RefusedError):
            await log.register(OTHER.sign(b"too early"))
        registered = await log.update_policy(made.next_policy(log, adding(OTHER)))
        accepted = await log.register(OTHER.sign(b"now"))

        assert log.policy.generation == 2
        assert (log.stored(registered.index).generation, log.stored(accepted.index).generation) == (1, 2)
    async with running(made) as log:
        assert log.policy.generation == 2
        await log.register(OTHER.sign(b"later"))
    assert made.fsck().clean


async def refused(log: Log, statement: bytes) -> None:
    before = (log.policy.generation, log.newest_head().size)
    with pytest.raises(TransparencyError):
        await log.update_policy(statement)
    assert (log.policy.generation, log.newest_head().size) == before


async def test_an_old_policy_replayed_changes_nothing(tmp_path: Path) -> None:
    """REG-22: only the one in force is answered with its place; every other is refused as not the next."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        never_sent = made.next_policy(log, adding(SampleIssuer(iss="https://late.example")))
        with_other = made.next_policy(log, adding(OTHER))
        await log.update_policy(with_other)
        await log.update_policy(
            made.next_policy(log, lambda policy, previous: policy.without_issuer(OTHER.iss, previous=previous))
        )
        first = log.statement(0)

        await refused(log, with_other)
        await refused(log, never_sent)
        await refused(log, first)
        in_force = log.statement(log.newest_head().size - 1)
        assert not (await log.update_policy(in_force)).new

        assert log.policy.generation == 3
        assert log.policy.issuer(OTHER.iss) is None
        with pytest.raises(RefusedError):
            await log.register(OTHER.sign(b"still not"))


async def test_a_malleated_or_resigned_policy_changes_nothing(tmp_path: Path) -> None:
    """REG-22: another header, another key, another signature, a changed payload."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        signed = made.next_policy(log, adding(OTHER))
        message = Sign1.from_bytes(signed)
        thief = PrivateKey.generate(-19).with_kid(log.policy.policy_key.kid)
        payload = message.payload or b""
        await refused(log, message.with_payload(payload.replace(b"second", b"secund")).to_bytes())
        await refused(log, sign1(dict(message.headers), payload, thief).to_bytes())
        await refused(log, sign1({**message.headers, labels.KID: thief.public.thumbprint}, payload, thief).to_bytes())
        flipped = bytearray(signed)
        flipped[-1] ^= 1
        await refused(log, bytes(flipped))

        await log.update_policy(signed)
        # The policy key is Ed25519, so nobody but its holder makes a second signature; and if one did, it is not next.
        signer = Folder(made.data).load_key(keyset.POLICY, log.policy.policy_key)
        again = sign1({**message.headers, "nonce": 1}, payload, signer).to_bytes()
        await refused(log, again)


async def test_a_policy_of_another_log_changes_nothing(tmp_path: Path) -> None:
    """REG-22: even when both logs had one policy key."""
    made, elsewhere = make_log(tmp_path / "log"), make_log(tmp_path / "elsewhere")
    async with running(made) as log, running(elsewhere) as foreign:
        await refused(log, elsewhere.next_policy(foreign, adding(OTHER)))
        signer = Folder(made.data).load_key(keyset.POLICY, log.policy.policy_key)
        other_name = Policy(
            log=foreign.origin, generation=2, previous=log.policy_entry_id, policy_key=signer.public, issuers=()
        )
        await refused(log, sign_document(other_name, signer, log.iss))


async def test_a_policy_is_accepted_by_the_admin_route_only(tmp_path: Path) -> None:
    """REG-22: submitted as an ordinary statement it is refused, and a policy statement is no record."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        policy = made.next_policy(log, adding(OTHER))
        with pytest.raises(RefusedError):
            await log.register(policy)
        with pytest.raises(RefusedError):
            await log.accept(policy)
        await refused(log, made.issuer.sign(b"an ordinary record"))

        assert log.policy.generation == 1


async def test_of_two_policies_that_both_come_next_one_wins(tmp_path: Path) -> None:
    """REG-22: the sequencer has the last word."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        rivals = [made.next_policy(log, adding(SampleIssuer(iss=f"https://{n}.example"))) for n in range(5)]
        results = await asyncio.gather(*(log.update_policy(rival) for rival in rivals), return_exceptions=True)

        assert sum(not isinstance(result, BaseException) for result in results) == 1
        assert all(isinstance(r, RefusedError) for r in results if isinstance(r, BaseException))
        assert log.policy.generation == 2


# -- keys ---


def rotation(made: MadeLog, log: Log, new: PrivateKey) -> bytes:
    folder = Folder(made.data)
    folder.save_key(keyset.RECEIPTS, new)
    keys = log.service_keys.rotated(keyset.RECEIPTS, new.public, previous=log.service_keys_entry_id, now=made.clock())
    return sign_document(keys, folder.load_key(keyset.POLICY, log.policy.policy_key), log.iss)


async def test_a_rotated_key_signs_from_its_own_entry_on_and_the_old_one_stays(tmp_path: Path) -> None:
    """KEY-8, KEY-10, RC-14: old receipts verify for ever; a GET renews them under the key in use (API-4)."""
    made = make_log(tmp_path / "log")
    statement = made.issuer.sign(b"before")
    entry = Statement.from_bytes(statement).entry
    new = PrivateKey.generate(-7)
    async with running(made) as log:
        before = await log.register(statement)
        (old,) = log.service_keys.current(keyset.RECEIPTS)
        await log.update_keys(rotation(made, log, new))
        renewed = Receipt.from_bytes(log.receipt(before.index))

        assert renewed.kid == new.public.kid
        renewed.verify_inclusion(entry, new.public)
        Receipt.from_bytes(before.receipt).verify_inclusion(entry, old)
        assert {key.kid for key in log.receipt_keys()} == {old.kid, new.public.kid}
        assert Receipt.from_bytes(log.receipt(before.index, size=before.index + 1)).kid == old.kid
    async with running(made) as log:
        after = await log.register(made.issuer.sign(b"after"))
        assert Receipt.from_bytes(after.receipt).kid == new.public.kid
    assert made.fsck().clean


async def test_a_key_set_without_its_private_key_or_that_forgets_one_is_refused(tmp_path: Path) -> None:
    """KEY-8, KEY-10."""
    made = make_log(tmp_path / "log")
    stranger = PrivateKey.generate(-7)
    async with running(made) as log:
        folder = Folder(made.data)
        policy_key = folder.load_key(keyset.POLICY, log.policy.policy_key)
        keys = log.service_keys.rotated(
            keyset.RECEIPTS, stranger.public, previous=log.service_keys_entry_id, now=made.clock()
        )
        with pytest.raises(LogUnusableError, match="receipts key is missing"):
            await log.update_keys(sign_document(keys, policy_key, log.iss))
        folder.save_key(keyset.RECEIPTS, stranger)
        forgetful = type(keys)(
            keys.log, keys.iss, keys.generation, keys.previous, tuple(k for k in keys.keys if k.until is None)
        )
        with pytest.raises(RefusedError, match="leaves out"):
            await log.update_keys(sign_document(forgetful, policy_key, log.iss))

        assert log.service_keys.generation == 1
        assert log.newest_head().size == 2


async def test_the_receipt_key_signs_nothing_but_heads(tmp_path: Path) -> None:
    """RC-15: every role has its own key."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        by_role = {role: {key.thumbprint for key in log.service_keys.ever(role)} for role in keyset.ROLES}

        assert all(by_role[role] for role in keyset.ROLES)
        thumbprints = [thumbprint for keys in by_role.values() for thumbprint in keys]
        assert len(thumbprints) == len(set(thumbprints))
        documents = [Statement.from_bytes(log.statement(index)) for index in (0, 1)]
        assert {statement.kid for statement in documents} == {log.policy.policy_key.kid}
        assert log.policy.policy_key.thumbprint in by_role[keyset.POLICY]


async def test_receipts_are_signed_with_es256_by_default(tmp_path: Path) -> None:
    """RC-17: ES256 with RFC9162_SHA256, the recommended pairing."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        headers = Sign1.from_bytes(log.receipt(0)).headers

        assert (headers[labels.ALG], headers[labels.VDS]) == (-7, labels.VDS_RFC9162_SHA256)


async def test_a_lost_receipts_key_stops_a_start_but_not_its_own_replacement(tmp_path: Path) -> None:
    """KEY-10: rotation is the way out; receipts of before verify, and are renewed under the new key."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        before = await log.register(made.issuer.sign(b"before"))
        (old,) = log.service_keys.current(keyset.RECEIPTS)
    (lost,) = Folder(made.data).keys.glob("receipts-*.pem")
    lost.unlink()

    with pytest.raises(LogUnusableError, match="rotate-key"):
        Log.open(made.data)
    log = Log.open(made.data, clock=made.clock, allow_lost_key=True)
    await log.start()
    try:
        await log.update_keys(rotation(made, log, PrivateKey.generate(-7)))
    finally:
        await log.stop()

    async with running(made) as log:
        assert Receipt.from_bytes(before.receipt).verify_inclusion(before.entry, old)
        assert Receipt.from_bytes(log.receipt(before.index)).kid != old.kid
    assert made.fsck().clean


async def test_a_mark_that_was_moved_is_named_once(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        await log.register(made.issuer.sign(b"1"))
    moved = tmp_path / "elsewhere.mark"
    made.watermark.rename(moved)

    with pytest.raises(LogUnusableError, match="--watermark"):
        Log.open(made.data)
    for named in (moved, None):
        log = Log.open(made.data, watermark=named)
        assert log.origin == made.origin
        await log.stop()


async def test_a_receipts_key_keeps_its_kid_and_its_algorithm(tmp_path: Path) -> None:
    """RC-3: heads carry the kid of the registered key, whatever it is, and the algorithm it is registered for."""
    made = make_log(tmp_path / "log")
    new = PrivateKey.generate(-9).with_kid(b"receipts-2026")
    async with running(made) as log:
        await log.update_keys(rotation(made, log, new))
    async with running(made) as log:
        registered = await log.register(made.issuer.sign(b"x"))
        receipt = Receipt.from_bytes(registered.receipt)

        assert (receipt.kid, receipt.alg) == (b"receipts-2026", -9)
        log.check_newest_head()
    assert made.fsck().clean


async def test_no_issuer_signs_with_a_key_of_the_service(tmp_path: Path) -> None:
    """RC-15, KEY-10: across documents; neither may an issuer's key become a key of the service."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        for role in (keyset.RECEIPTS, keyset.CHECKPOINTS, keyset.POLICY):
            for key in log.service_keys.current(role):
                stolen = Folder(made.data).load_key(role, key)
                assert isinstance(stolen, PrivateKey)
                thief = SampleIssuer(iss="https://thief.example", key=stolen)
                with pytest.raises((RefusedError, MalformedError), match="single-purpose"):
                    await log.update_policy(made.next_policy(log, adding(thief)))
        with pytest.raises(RefusedError, match="single-purpose"):
            await log.update_keys(rotation(made, log, made.issuer.key))

        assert (log.policy.generation, log.service_keys.generation) == (1, 1)


async def test_an_edited_iss_in_the_config_is_refused(tmp_path: Path) -> None:
    """Nothing unsigned decides: the iss of receipts is the registered one."""
    made = make_log(tmp_path / "log")
    config = made.data / "config.toml"
    config.write_text(config.read_text().replace('iss = "https://', 'iss = "https://evil.'))

    with pytest.raises(LogUnusableError, match="iss"):
        Log.open(made.data)


async def test_the_policy_is_given_as_it_was_registered(tmp_path: Path) -> None:
    """REG-7: to the byte, comments included."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        signer = Folder(made.data).load_key(keyset.POLICY, log.policy.policy_key)
        following = adding(OTHER)(log.policy, log.policy_entry_id).to_toml()
        written = b"# by hand\n" + following
        statement = sign_statement(written, signer, iss=log.iss, sub="policy", content_type="application/toml")
        await log.update_policy(statement)

        assert log.policy_document == written
        assert [version.generation for version in log.policy_history()] == [1, 2]
        assert log.policy_history()[1].toml == written


async def test_a_mark_inside_the_folder_is_refused_by_any_name(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    (tmp_path / "link").symlink_to(made.data)
    (tmp_path / "to be made").symlink_to(made.data / "mark")
    (tmp_path / "to a copy").symlink_to(shutil.copy(made.watermark, made.data / "inner.mark"))
    ways = ("log/mark", "link/mark", "x/../log/mark", "to be made", "to a copy")

    for inside in (tmp_path / way for way in ways):
        with pytest.raises(LogUnusableError, match="outside"):
            Log.open(made.data, watermark=inside)
