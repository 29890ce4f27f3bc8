"""Keys that change while something is under way: what stands on the log holds for every auditor and every receipt."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from transparency.cli.rotation import rotate_key
from transparency.cose.keys import PrivateKey
from transparency.errors import JudgementStaleError
from transparency.log.admin import Admin, open_admin
from transparency.log.audit import audit
from transparency.log.audit_sources import FolderSource
from transparency.log.documents import sign_document
from transparency.log.folder import Config, Folder
from transparency.log.log import Log
from transparency.policy import keyset
from transparency.policy.hold import Hold
from transparency.statements.statement import Statement
from transparency.testing import FakeClock, MadeLog, make_log, running
from transparency.verifier import LogTrust, Options, TrustedKey, TrustStore, verify


def _rotated(made: MadeLog, log: Log, role: str, now: int) -> tuple[PrivateKey, bytes]:
    """A new key of *role* in use from *now* on, and the signed key set that says so."""
    folder = Folder(made.data)
    new = PrivateKey.generate(-8 if role == keyset.OPERATIONS else -7)
    folder.save_key(role, new)
    following = log.service_keys.rotated(role, new.public, previous=log.service_keys_entry_id, now=now)
    return new, sign_document(following, folder.load_key(keyset.POLICY, log.policy.policy_key), log.iss)


async def test_an_operation_that_waits_behind_a_rotation_is_signed_again_by_the_new_key(tmp_path: Path) -> None:
    """KEY-8: else the log would hold an operation by a retired key, which every later audit names."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        new, key_set = _rotated(made, log, keyset.OPERATIONS, made.clock())
        hold = Hold(log.origin, "issuer", "https://acme.example", "counsel", "a case", made.clock()).to_bytes()
        _, registered = await asyncio.gather(log.update_keys(key_set), log.operate("hold", hold))

        assert Statement.from_bytes(log.statement(registered.index)).kid == new.public.kid
    with FolderSource(made.data) as source:
        assert audit(source, Config.read(Folder(made.data).config).policy_key).findings == []


async def test_a_key_set_does_not_end_a_key_before_the_heads_it_has_signed(tmp_path: Path) -> None:
    """KEY-8: receipts of those heads were given out, and whoever trusts the key set would not take them any more."""
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    async with running(made) as log:
        _, too_late = _rotated(made, log, keyset.RECEIPTS, clock())
        clock.advance(2)
        given = (await log.register(made.issuer.sign(b"while the rotation was on its way"))).index
        receipt = log.transparent_statement(given)

        with pytest.raises(JudgementStaleError, match="again"):
            await log.update_keys(too_late)
        _, in_time = _rotated(made, log, keyset.RECEIPTS, clock())
        await log.update_keys(in_time)

        keys = [item for item in log.service_keys.keys if item.role == keyset.RECEIPTS]
        known = tuple(TrustedKey(item.key, item.until, item.compromised_since) for item in keys)
        trust = TrustStore((LogTrust(known, log.iss, log.origin),))
        assert verify(receipt, trust, options=Options(receipt_only=True)).verdict == "verified"


class _BusyAdmin:
    """The log's admin face, where a head is made before the first key set arrives."""

    def __init__(self, admin: Admin, clock: FakeClock) -> None:
        self._admin = admin
        self._clock = clock
        self.tries = 0

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        if operation == "update-keys":
            self.tries += 1
            if self.tries == 1:
                self._clock.advance(2)
                hold = {"scope": "issuer", "value": "i", "authoriser": "a", "reason": "r"}
                self._admin.call("retention-hold", **hold)
        return self._admin.call(operation, **arguments)


def test_the_command_that_rotates_a_key_makes_its_key_set_again_when_heads_were_signed_meanwhile(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    made = make_log(tmp_path / "log", clock=clock)
    with open_admin(made.data, clock=clock) as admin:
        busy = _BusyAdmin(admin, clock)
        changed = rotate_key(busy, Folder(made.data), keyset.RECEIPTS)

    assert (busy.tries, changed.since) == (2, clock())
    assert len(list(Folder(made.data).keys.glob("receipts-*.pem"))) == 2, "of the new key one, for both tries"
    assert made.fsck().clean
