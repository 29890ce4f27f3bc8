"""The log's keys over its life: algorithms, announcements, restarts, compromise, encryption (KEY-8, KEY-10, API-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from transparency.cli.rotation import Changed, compromise_key, rotate_key
from transparency.cose.algorithms import algorithm
from transparency.cose.keys import is_encrypted
from transparency.errors import LogUnusableError, PassphraseError, RefusedError, UnsupportedAlgorithmError
from transparency.log.admin import Admin, AdminServer, open_admin
from transparency.log.create import create_log
from transparency.log.documents import sign_document
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.policy import keyset
from transparency.policy.document import Issuer, Policy
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.testing import FakeClock, Fault, MadeLog, SampleIssuer, make_log, running
from transparency.verifier import LogTrust, Options, TrustedKey, TrustStore, verify

_T = TypeVar("_T")
OVERLAP = 1000
WORD = b"correct horse"


def admin_of(made: MadeLog, do: Callable[[Admin, Folder], _T], passphrase: bytes | None = None) -> _T:
    """What a command does, in a process of its own or through the socket of who owns the log."""
    ask = None if passphrase is None else lambda: passphrase

    def command() -> _T:
        with open_admin(made.data, clock=made.clock, allow_lost_key=True, passphrase=ask) as admin:
            return do(admin, Folder(made.data, ask))

    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(command).result()


def announce(made: MadeLog, role: str = keyset.RECEIPTS, overlap: int = OVERLAP) -> Changed:
    return admin_of(made, lambda admin, folder: rotate_key(admin, folder, role, overlap=overlap))


async def kid_of_next(made: MadeLog, log: Log, payload: bytes) -> bytes | None:
    return Receipt.from_bytes((await log.register(made.issuer.sign(payload))).receipt).kid


def trusted(log: Log) -> TrustStore:
    keys = [item for item in log.service_keys.keys if item.role == keyset.RECEIPTS]
    known = tuple(TrustedKey(item.key, item.until, item.compromised_since) for item in keys)
    return TrustStore((LogTrust(known, log.iss, log.origin),))


# -- algorithms ---


@pytest.mark.parametrize("name", keyset.RECEIPT_ALGORITHMS)
async def test_receipts_are_signed_with_the_algorithm_that_was_chosen(tmp_path: Path, name: str) -> None:
    """RC-17: ES256 is recommended; the others are the operator's choice, at init and at each rotation."""
    clock, issuer = FakeClock(), SampleIssuer()
    created = create_log(tmp_path / "log", clock=clock, issuers=(issuer.as_policy_issuer(),), receipt_alg=name)
    made = MadeLog(tmp_path / "log", created.watermark, issuer, clock)
    async with running(made) as log:
        registered = await log.register(issuer.sign(b"x"))
        report = verify(log.transparent_statement(registered.index), trusted(log), options=Options(receipt_only=True))

        assert Receipt.from_bytes(registered.receipt).alg == algorithm(name).id
        assert report.verdict == "verified"
    changed = announce(made, overlap=0)
    assert [key.kty_name for key in changed.new] == [key.kty_name for key in log.service_keys.current("receipts")]
    async with running(made) as log:
        renewed = Receipt.from_bytes(log.receipt(registered.index))

        assert (renewed.alg, renewed.kid) == (algorithm(name).id, changed.new[0].kid)
        renewed.verify_inclusion(registered.entry, changed.new[0])
    assert made.fsck().clean


def test_an_algorithm_that_is_not_for_receipts_makes_no_log(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedAlgorithmError, match="ES256, ES384"):
        create_log(tmp_path / "log", clock=FakeClock(), receipt_alg="PS256")

    assert not (tmp_path / "log").exists()


# -- announced keys ---


async def test_an_announced_key_is_known_at_once_and_signs_from_the_first_head_of_its_time(tmp_path: Path) -> None:
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    async with running(made) as log:
        server = AdminServer(log)
        await server.start()
        before = await log.register(made.issuer.sign(b"before"))
        (old,) = log.service_keys.current(keyset.RECEIPTS)
        changed = await asyncio.to_thread(announce, made)
        (new,) = changed.new

        assert {key.kid for key in log.receipt_keys()} == {old.kid, new.kid}
        assert await kid_of_next(made, log, b"announced") == old.kid
        assert Receipt.from_bytes(log.receipt(before.index)).kid == old.kid, "no renewal while it is in use"
        clock.advance(OVERLAP - 1)
        assert await kid_of_next(made, log, b"one second early") == old.kid
        clock.advance(1)
        assert await kid_of_next(made, log, b"on time") == new.kid
        assert Receipt.from_bytes(log.receipt(before.index)).kid == new.kid
        clock.advance(-OVERLAP)
        assert await kid_of_next(made, log, b"a clock that was set back") == new.kid
        await server.stop()
    assert made.fsck().clean


@pytest.mark.parametrize("wait", [0, OVERLAP], ids=["before its time", "after its time"])
async def test_a_restart_between_the_announcement_and_the_change_makes_no_difference(tmp_path: Path, wait: int) -> None:
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    (new,) = announce(made).new
    clock.advance(wait)
    async with running(made) as log:
        assert (await kid_of_next(made, log, b"after the restart") == new.kid) is bool(wait)
        clock.advance(OVERLAP)
        assert await kid_of_next(made, log, b"later") == new.kid
    async with running(made) as log:
        log.check_newest_head()
    assert made.fsck().clean


@pytest.mark.parametrize("fault", [Fault.FAILS, Fault.FAILS_BUT_PERSISTS])
async def test_a_crash_at_the_change_leaves_a_log_that_goes_on_with_the_right_key(tmp_path: Path, fault: Fault) -> None:
    """The first head of the new key is lost, or kept without anybody having seen it: the next start agrees."""
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    (new,) = announce(made).new
    log, faulty = made.open_faulty()
    await log.start()
    clock.advance(OVERLAP)
    faulty.fail("commit", fault)
    with pytest.raises(Exception, match=r"storage failed|injected|commit"):
        await log.register(made.issuer.sign(b"at the change"))
    await log.stop()

    async with running(made) as log:
        assert await kid_of_next(made, log, b"at the change") == new.kid
    assert made.fsck().clean


async def test_a_log_without_the_announced_private_key_says_so_at_its_start(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    (new,) = announce(made).new
    next(Folder(made.data).keys.glob(f"receipts-{new.thumbprint.hex()[:16]}.pem")).unlink()

    with pytest.raises(LogUnusableError, match="receipts key is missing"):
        made.open()
    announce(made, overlap=0)
    async with running(made) as log:
        assert await kid_of_next(made, log, b"x") not in (None, new.kid)
    assert made.fsck().clean


async def test_a_head_by_the_key_of_another_time_is_found(tmp_path: Path) -> None:
    """Whose signature a head carries follows from the key set and its time: fsck and the next start hold it to that."""
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    announce(made)
    async with running(made) as log:
        (old,) = log.service_keys.at(keyset.RECEIPTS, clock())
        signer = Folder(made.data).load_key(keyset.RECEIPTS, old)
        log._opened.appender._signer_at = lambda _: signer
        clock.advance(OVERLAP)
        await log.register(made.issuer.sign(b"with the key of before"))

    assert any("not the receipts key in use" in finding.what for finding in made.fsck().findings)
    with pytest.raises(LogUnusableError, match="not this log's receipts key in use"):
        made.open()


# -- the other keys ---


async def test_the_policy_key_is_exchanged_by_a_policy_that_the_old_one_signs(tmp_path: Path) -> None:
    """REG-22: what follows is signed by the new key, and by no other; the pinned thumbprint stays the first."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        old = Folder(made.data).load_key(keyset.POLICY, log.policy.policy_key)
    (new,) = announce(made, keyset.POLICY, overlap=0).new
    async with running(made) as log:
        assert log.policy.policy_key == new
        assert log.service_keys.current(keyset.POLICY) == (new,)
        assert (log.policy.generation, log.service_keys.generation) == (2, 2)
        await log.update_policy(made.next_policy(log, _adding("https://second.example")))
        stale = _adding("https://third.example")(log.policy, log.policy_entry_id)
        with pytest.raises(RefusedError, match="not signed by the policy key"):
            await log.update_policy(sign_document(stale, old, log.iss))
    assert made.fsck().clean


async def test_a_policy_key_rotation_that_was_interrupted_is_finished_by_the_next_one(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")

    class Interrupted(Exception):  # noqa: N818 - an interruption, no error
        pass

    class HalfWay:
        def __init__(self, admin: Admin) -> None:
            self._admin = admin

        def call(self, operation: str, **arguments: object) -> dict[str, object]:
            if operation == "update-policy":
                raise Interrupted
            return self._admin.call(operation, **arguments)

    with pytest.raises(Interrupted):
        admin_of(made, lambda admin, folder: rotate_key(HalfWay(admin), folder, keyset.POLICY))
    async with running(made) as log:
        announced = log.service_keys.current(keyset.POLICY)
        assert announced != (log.policy.policy_key,)
    changed = announce(made, keyset.POLICY, overlap=0)

    assert changed.new == announced
    async with running(made) as log:
        assert (log.policy.policy_key,) == announced
        assert log.service_keys.generation == 2
    assert made.fsck().clean


async def test_a_policy_key_that_the_key_set_does_not_list_is_refused(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    stranger = SampleIssuer().key.public
    async with running(made) as log:
        data = made.next_policy(
            log, lambda policy, previous: replace(policy, generation=2, previous=previous, policy_key=stranger)
        )
        with pytest.raises(RefusedError, match="does not list"):
            await log.update_policy(data)


async def test_checkpoint_and_operations_keys_are_exchanged(tmp_path: Path) -> None:
    """AMB-14: both checkpoint keys together."""
    made = make_log(tmp_path / "log")
    pair = announce(made, keyset.CHECKPOINTS).new
    (operations,) = announce(made, keyset.OPERATIONS, overlap=0).new

    assert sorted(key.kty_name for key in pair) == ["AKP ML-DSA-44", "OKP Ed25519"]
    async with running(made) as log:
        assert log.service_keys.current(keyset.CHECKPOINTS) == pair
        done = await log.operate("manifest", b"\xa0")
        assert Statement.from_bytes(log.statement(done.index)).kid == operations.kid
    assert made.fsck().clean


# -- compromise ---


async def test_a_compromised_key_is_replaced_and_its_receipts_are_renewed(tmp_path: Path) -> None:
    """API-4: GET renews; the old receipt verifies only with a consistency receipt by a good key (design §8)."""
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    async with running(made) as log:
        before = await log.register(made.issuer.sign(b"before"))
        old = log.transparent_statement(before.index)
        size = log.newest_head().size
        (stolen,) = log.service_keys.current(keyset.RECEIPTS)
    clock.advance(10)
    since = clock() - 5
    kid = stolen.thumbprint.hex()[:12]
    changed, item = admin_of(made, lambda admin, folder: compromise_key(admin, folder, kid, since))

    assert (item.key, changed.keys.by_kid(keyset.RECEIPTS, stolen.kid)) == (stolen, stolen)
    receipt_only = Options(receipt_only=True)
    async with running(made) as log:
        store = trusted(log)
        assert Receipt.from_bytes(log.receipt(before.index)).kid == changed.new[0].kid
        assert verify(log.transparent_statement(before.index), store, options=receipt_only).verdict == "verified"
        assert verify(old, store, options=receipt_only).verdict == "cannot-tell"
        helped = verify(old, store, options=receipt_only, consistency=[log.consistency(size)])
        assert helped.verdict == "verified"
    assert made.fsck().clean


# -- encrypted keys ---


async def test_encrypted_keys_open_with_their_passphrase_and_a_new_one_is_encrypted_too(tmp_path: Path) -> None:
    clock, issuer = FakeClock(), SampleIssuer()
    policy_issuer: tuple[Issuer, ...] = (issuer.as_policy_issuer(),)
    created = create_log(tmp_path / "log", clock=clock, issuers=policy_issuer, passphrase=WORD)
    made = MadeLog(tmp_path / "log", created.watermark, issuer, clock)
    rotation = lambda admin, folder: rotate_key(admin, folder, keyset.RECEIPTS)  # noqa: E731 - used three times

    for wrong in (None, b"wrong horse"):
        with pytest.raises(PassphraseError) as refused:
            admin_of(made, rotation, wrong)
        assert "horse" not in str(refused.value)
    admin_of(made, rotation, WORD)

    assert len(list(Folder(made.data).keys.glob("*.pem"))) == 6
    assert all(is_encrypted(path.read_bytes()) for path in Folder(made.data).keys.glob("*.pem"))
    assert "horse" not in repr(Folder(made.data, lambda: WORD))
    log = Log.open(made.data, clock=clock, passphrase=lambda: WORD)
    await log.start()
    await log.register(issuer.sign(b"x"))
    await log.stop()
    assert await asyncio.to_thread(_size, made) == 4, "what only reads needs no passphrase"
    assert made.fsck().clean


def _size(made: MadeLog) -> object:
    with open_admin(made.data, clock=made.clock, reading=True) as admin:
        return admin.call("status")["size"]


def _adding(iss: str) -> Callable[[Policy, str], Policy]:
    return lambda policy, previous: policy.with_issuer(iss, (SampleIssuer().key.public,), previous=previous)
