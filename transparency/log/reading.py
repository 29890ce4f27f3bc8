"""A log that is only looked at: a snapshot, a read-only mount, a folder of another user. Nothing is owned or written.

It answers what a folder can tell by itself. Whether the copy is the newest, only its mark and its owner know.
"""

from __future__ import annotations

from typing import Any

from transparency.errors import StoreError
from transparency.log.answers import LogStatus
from transparency.log.documents import InForce, load_in_force
from transparency.log.folder import Config, Folder
from transparency.log.opening import check_head_signature, check_tip
from transparency.log.store import Store
from transparency.log.stores import open_for_reading


class ReadOnlyAdmin:
    """The admin face (log/admin.py) of a folder that cannot be written."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def call(self, operation: str, **_: Any) -> dict[str, Any]:  # noqa: ANN401 - CBOR values
        if operation not in ("status", "documents"):
            raise StoreError(f"{self._folder.path} is read-only here, so nothing of it can be changed")
        config = Config.read(self._folder.config)
        store = open_for_reading(self._folder)
        try:
            in_force = load_in_force(store, config.origin, config.policy_key)
            return _status(store, config, in_force) if operation == "status" else _documents(in_force)
        finally:
            store.close()


def _status(store: Store, config: Config, in_force: InForce) -> dict[str, Any]:
    tip = store.tip()
    head = check_tip(store, tip)
    check_head_signature(head, in_force)
    status = LogStatus(
        origin=config.origin,
        iss=in_force.keys.keys.iss,
        size=head.size,
        root=head.root,
        head_time=head.time,
        generation=in_force.policy.policy.generation,
        epoch=tip.epoch,
        waiting=len(store.intake_sizes()),
        accepted=0,
        sequenced=0,
        published=0,
        alive=False,
    )
    return {name: getattr(status, name) for name in status.__dataclass_fields__}


def _documents(in_force: InForce) -> dict[str, Any]:
    return {
        "policy": in_force.policy.statement.payload,
        "policy-entry": in_force.policy.entry_id,
        "keys": in_force.keys.statement.payload,
        "keys-entry": in_force.keys.entry_id,
    }
