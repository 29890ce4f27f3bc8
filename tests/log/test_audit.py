"""The audit: every decision of a log is replayed from its export, and whatever was changed is found and named."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.log.audited import Audited, audit_folder, flip, make_audited, pinned, tampering
from tests.on_postgres import copy_folder
from transparency.cose.algorithms import P256
from transparency.errors import RefusedError, StoreError
from transparency.log.audit import AuditReport, Outcome
from transparency.log.candidate import Candidate
from transparency.log.log import Log
from transparency.policy import audited as stated
from transparency.policy.document import Policy
from transparency.policy.erasure import Erasure, Item
from transparency.policy.judge import FOREVER, Judgement
from transparency.statements.certificates import write_collateral
from transparency.statements.statement import Statement, entry_id, normalise
from transparency.testing import Fault, make_log, running

pytestmark = pytest.mark.sqlite_file


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return asyncio.run(make_audited(tmp_path_factory.mktemp("audited") / "log"))


@pytest.fixture
def audited(built: Audited, tmp_path: Path) -> Audited:
    """A copy of the log to be tampered with."""
    copy_folder(built.made.data, tmp_path / "log", tmp_path / "mark")
    shutil.copy(built.made.watermark, tmp_path / "mark")
    return replace(built, made=replace(built.made, data=tmp_path / "log", watermark=tmp_path / "mark"))


def named(report: AuditReport) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for finding in report.findings:
        found.setdefault(finding.index, []).append(finding.what)
    return found


def test_every_decision_of_a_rich_log_is_reproduced(built: Audited) -> None:
    """AMB-10: three policies, rotated keys, a compromised key, certificates beside and inside statements."""
    report = built.audit()

    assert report.findings == []
    assert (report.generations, report.key_sets, report.manifests) == (3, 4, 2)
    assert (report.size, report.unproven) == (built.size, 0)
    assert report.entries == {Outcome.REPRODUCED: built.size}
    assert report.certain


def test_a_copy_without_keys_and_configuration_is_enough(audited: Audited) -> None:
    data = audited.made.data
    shutil.rmtree(data / "keys")
    for path in data.iterdir():
        if not path.name.startswith("log.sqlite"):
            path.unlink() if path.is_file() else shutil.rmtree(path)

    assert audited.audit().clean


def test_another_policy_key_than_the_pinned_one_is_found_and_nothing_is_called_reproduced(built: Audited) -> None:
    report = audit_folder(built.made.data, bytes(32))

    assert "another policy key than the pinned one" in report.findings[0].what
    assert report.findings[0].index == 0
    assert report.entries == {Outcome.FAILED: 1, Outcome.UNKNOWN: built.size - 1}
    assert not report.certain


@pytest.mark.parametrize("what", ["plain", "beside", "signed_chain", "policy", "keys", "manifest"])
@pytest.mark.parametrize("at", [2, 40, -70, -1])
def test_one_flipped_byte_in_any_stored_statement_is_found_and_named(audited: Audited, what: str, at: int) -> None:
    index = getattr(audited, what)
    flip(audited.made.data, index, at=at)

    report = audited.audit()

    assert report.findings[0].index == index
    assert "does not hash to the entry" in report.findings[0].what
    assert len(report.findings[0].entry) == 43


def test_after_a_policy_that_does_not_hold_nothing_is_called_reproduced(audited: Audited) -> None:
    flip(audited.made.data, audited.policy)

    report = audited.audit()

    assert report.entries[Outcome.REPRODUCED] == audited.policy
    assert report.entries[Outcome.UNKNOWN] == audited.size - audited.policy - 1
    assert "nothing after it can be replayed" in named(report)[audited.policy][1]


def test_a_manifest_that_cannot_be_read_leaves_a_gap_that_the_next_one_shows(audited: Audited) -> None:
    flip(audited.made.data, audited.manifest)

    report = audited.audit()

    assert any(f"covers entries 0 to {audited.manifest - 1}" in finding.what for finding in report.findings)
    assert report.unproven == 1


def test_a_replaced_intermediate_that_is_valid_too_is_found_by_the_manifest(audited: Audited) -> None:
    """AMB-10: the replay alone would accept it."""
    replaced = write_collateral((audited.leaf.der, audited.reissued()))
    with tampering(audited.made.data) as database:
        digest = hashlib.sha256(replaced).digest()
        database.execute("INSERT INTO collateral VALUES (?, ?)", (digest, replaced))
        database.execute("UPDATE entries SET collateral = ? WHERE idx = ?", (digest, audited.beside))

    report = audited.audit()

    (finding,) = report.findings
    assert finding.index == audited.beside
    assert "other certificates" in finding.what
    assert report.entries[Outcome.FAILED] == 1


def test_a_dropped_chain_is_found_twice_by_the_replay_and_by_the_manifest(audited: Audited) -> None:
    with tampering(audited.made.data) as database:
        database.execute("DELETE FROM collateral")

    found = named(audited.audit())

    assert "certificates, now gone" in found[audited.beside][1]
    assert len(found) == 2


def test_a_chain_that_no_manifest_covers_cannot_be_told(audited: Audited) -> None:
    async def more() -> None:
        async with running(audited.made) as log:
            await log.register(audited.certify(b"after the last manifest"))

    asyncio.run(more())
    report = audited.audit()

    assert report.clean
    assert (report.unproven, report.certain) == (1, False)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("UPDATE entries SET generation = 3 WHERE idx = :plain", "says policy generation 3, in force was 1"),
        ("UPDATE entries SET kind = 1 WHERE idx = :plain", "ends its batch|not a policy document"),
        ("UPDATE entries SET kind = 3 WHERE idx = :plain", "an operation has the service's iss"),
        ("UPDATE entries SET entry = zeroblob(32) WHERE idx = :plain", "does not hash"),
        ("UPDATE entries SET kind = 0 WHERE idx = :policy", "issuer"),
        ("UPDATE entries SET kind = 0 WHERE idx = :manifest", "reads as an operation"),
        ("DELETE FROM entries WHERE idx = :plain", "is missing"),
        ("UPDATE heads SET time = time - 1 WHERE number = 1", "its time is before"),
        ("UPDATE heads SET time = time + 1 WHERE number = 1", "signed header"),
        ("UPDATE heads SET root = zeroblob(32) WHERE number = 1", "root does not follow"),
        ("UPDATE heads SET signature = zeroblob(64) WHERE number = 1", "tree head of size 3: "),
        ("UPDATE heads SET kid = x'00' WHERE number = 1", "not the receipts key in use"),
        ("DELETE FROM heads WHERE number = 1", "says it was admitted with time|ends its batch"),
        ("DELETE FROM heads WHERE size = :size", "under no signed tree head"),
        ("UPDATE entries SET statement = x'' WHERE idx = :plain", "no order to erase it"),
        ("UPDATE entries SET statement = x'' WHERE idx = :policy", "ever erased"),
        ("UPDATE entries SET collateral = (SELECT digest FROM collateral) WHERE idx = :plain", "not those"),
        ("UPDATE entries SET collateral = (SELECT digest FROM collateral) WHERE idx = :policy", "nothing asks for"),
    ],
)
def test_whatever_else_is_changed_in_the_store_is_found(audited: Audited, sql: str, words: str) -> None:
    places = {name: getattr(audited, name) for name in ("plain", "policy", "manifest", "size")}
    with tampering(audited.made.data) as database:
        database.execute(sql, places)

    report = audited.audit()

    assert any(re.search(words, finding.what) for finding in report.findings), report.findings


async def test_the_policy_in_force_at_an_entry_is_the_one_committed_before_it_also_after_a_crash(
    tmp_path: Path,
) -> None:
    """REG-21: also where the process dies between the commit of a policy and its first use."""
    for number, fault in enumerate(Fault):
        made = make_log(tmp_path / f"log{number}")
        log, faulty = made.open_faulty()
        await log.start()
        await log.register(made.issuer.sign(b"before"))
        faulty.fail("commit", fault)
        following = made.next_policy(log, _fewer_algorithms)
        with pytest.raises(StoreError):
            await log.update_policy(following)
        await log.stop()

        async with running(made) as log:
            persisted = fault is Fault.FAILS_BUT_PERSISTS
            assert log.policy.generation == (2 if persisted else 1)
            after = await log.register(made.issuer.sign(b"after"))
            assert log.stored(after.index).generation == log.policy.generation
            await log.manifests.make()
        report = audit_folder(made.data, pinned(made))
        assert report.findings == []
        assert report.generations == (2 if persisted else 1)


async def test_statements_that_race_a_policy_are_admitted_by_the_one_at_their_place(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        for number in range(5):
            racing = [log.register(made.issuer.sign(b"%d %d" % (number, n))) for n in range(20)]
            update = log.update_policy(made.next_policy(log, _fewer_algorithms))
            await asyncio.gather(*racing[:10], update, *racing[10:])
        await log.manifests.make()
    report = audit_folder(made.data, pinned(made))

    assert report.findings == []
    assert report.generations == 6


def _fewer_algorithms(old: Policy, entry: str) -> Policy:
    return replace(old.following(entry), algorithms=("EdDSA", "Ed25519"))


async def test_a_second_signature_that_the_policy_refuses_is_found_where_the_log_took_it_all_the_same(
    audited: Audited,
) -> None:
    """LEAF-7: here by a judgement that leaves out what the policy says."""
    first = Statement.from_bytes(audited.once.sign(b"four"))
    key = load_pem_private_key(audited.once.key.to_pem(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    r, s = decode_dss_signature(key.sign(first.to_be_signed, ECDSA(SHA256())))
    again = normalise(first.message.protected, first.payload, r.to_bytes(32, "big") + s.to_bytes(32, "big"))
    async with running(audited.made) as log:
        with pytest.raises(RefusedError, match="refuses duplicates"):
            await log.register(again)
        judgement = Judgement(log.policy.generation, 0, FOREVER)
        index = (await log.sequencer.submit(Candidate.of(Statement.from_bytes(again), judgement))).index

    assert "refuses duplicates" in named(audited.audit())[index][0]


async def test_the_twin_of_a_signature_is_no_duplicate_to_the_audit_either(audited: Audited) -> None:
    first = Statement.from_bytes(audited.once.sign(b"four"))
    signature = first.message.signature
    other = signature[:32] + (P256.order - int.from_bytes(signature[32:], "big")).to_bytes(32, "big")
    async with running(audited.made) as log:
        await log.register(normalise(first.message.protected, first.payload, other))

    assert audited.audit().clean


@pytest.mark.parametrize(
    ("what", "index", "justified"), [("payload", 0, True), ("artifact", 0, False), ("payload", 1, False)]
)
async def test_a_statement_that_is_gone_counts_as_erased_only_by_an_order_for_it_on_the_log(
    audited: Audited, what: str, index: int, *, justified: bool
) -> None:
    """REG-20: *index* is how far from the erased entry the order points."""
    async with running(audited.made) as log:
        place = audited.plain + index
        await log.erasures.audited(log.newest_head().size, log.newest_head().root, 0)
        item = Item(place, entry_id(log.stored(place).entry), what, "art. 17", "the operator", log.newest_head().time)
        await log.operate("erasure", Erasure(log.origin, (item,)).to_bytes())
    with tampering(audited.made.data) as database:
        database.execute("UPDATE entries SET statement = x'' WHERE idx = ?", (audited.plain,))

    report = audited.audit()

    assert audited.made.fsck().clean is justified
    assert report.clean is justified
    assert report.entries[Outcome.ERASED] == int(justified)
    assert report.entries[Outcome.FAILED] == int(not justified)


async def erase_plainly(log: Log, index: int) -> int:
    """An operator who owns the operations key states an audit and an order for any entry at all; the order's index."""
    head = log.newest_head()
    await log.erasures.audited(head.size, head.root, 0)
    item = Item(index, entry_id(log.stored(index).entry), "payload", "art. 17", "the operator", head.time)
    return (await log.operate("erasure", Erasure(log.origin, (item,)).to_bytes())).index


async def test_an_operation_that_was_made_a_plain_statement_to_be_erased_is_named(audited: Audited) -> None:
    """AMB-10: what an entry is to the log stands in the manifest, so nothing of the service's own can be taken away."""
    async with running(audited.made) as log:
        await erase_plainly(log, audited.hold)
    with tampering(audited.made.data) as database:
        database.execute("UPDATE entries SET kind = 0, statement = x'' WHERE idx = ?", (audited.hold,))

    report = audited.audit()

    assert "admitted with kind operation, the log says statement" in named(report)[audited.hold][0]
    assert not report.clean


async def test_an_order_for_what_no_manifest_covered_is_named(audited: Audited) -> None:
    """REG-20: else the order could come first, and the manifest say whatever suits it."""
    async with running(audited.made) as log:
        late = (await log.register(audited.made.issuer.sign(b"after the last manifest"))).index
        order = await erase_plainly(log, late)

    assert f"entry {late} was to be erased, and no manifest covered it" in named(audited.audit())[order][0]


async def test_a_payload_that_was_erased_before_an_audit_of_it_stood_on_the_log_is_named(audited: Audited) -> None:
    """REG-20: what is gone cannot be replayed, so somebody must have done so before."""
    async with running(audited.made) as log:
        item = Item(audited.plain, entry_id(log.stored(audited.plain).entry), "payload", "art. 17", "the operator", 0)
        order = await log.operate("erasure", Erasure(log.origin, (item,)).to_bytes())

    assert f"entry {audited.plain} was to be erased, and no audit" in named(audited.audit())[order.index][0]


@pytest.mark.parametrize("short", [0, 1], ids=["another root", "a size that no head has"])
async def test_an_audit_of_another_tree_lets_nothing_be_erased(audited: Audited, short: int) -> None:
    """REG-20: its statement says which entries were replayed, by their root."""
    async with running(audited.made) as log:
        head = log.newest_head()
        size, root = head.size - short, head.root if short else bytes(32)
        said = stated.Audited(log.origin, size, root, size, 0, head.time)
        claim = await log.operate("audit", said.to_bytes())
        item = Item(audited.plain, entry_id(log.stored(audited.plain).entry), "payload", "art. 17", "the operator", 0)
        order = await log.operate("erasure", Erasure(log.origin, (item,)).to_bytes())

    found = named(audited.audit())

    assert "of another tree" in found[claim.index][0]
    assert "no audit of it stood" in found[order.index][0]
