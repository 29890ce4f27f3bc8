"""What commands with ``--data`` share: a folder that holds a log, and changing the log's own documents.

A change is built from what is in force, signed with the policy key of the folder, and handed to whoever owns the
log: a running server through its socket, else the folder itself (design section 4, "One owner").
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from transparency.cli.errors import DISK, OTHER_USER, CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.passphrases import kept_passphrase
from transparency.cose import labels
from transparency.errors import JudgementStaleError, MalformedError, RefusedError, StoreError
from transparency.log import admin
from transparency.log.admin import Admin
from transparency.log.create import Created, create_log
from transparency.log.documents import sign_document
from transparency.log.folder import Folder
from transparency.log.log import system_clock
from transparency.policy import keyset
from transparency.policy.document import Policy
from transparency.policy.keyset import ServiceKeys
from transparency.statements.statement import Claims

_ATTEMPTS = 5


def find_log(data: Path) -> Folder | None:
    """The folder *data* if it holds a log. One that is there and another user's is not taken for none."""
    folder = Folder(data.absolute(), kept_passphrase())
    try:
        if not folder.exists():
            return None
        unreadable = [
            path for path in (folder.config, folder.database) if path.exists() and not os.access(path, os.R_OK)
        ]
    except PermissionError as error:
        raise CommandError(Exit.BAD_INPUT, f"{data}: {error.strerror}", OTHER_USER) from error
    if unreadable:
        raise CommandError(Exit.BAD_INPUT, f"{data / unreadable[0].name}: Permission denied", OTHER_USER)
    return folder


def require_log(data: Path, hint: str | None = None) -> Folder:
    """The folder *data*, which must hold a log."""
    folder = find_log(data)
    if folder is None:
        make_one = f"Make one with `transparency init --data {data}`."
        raise CommandError(Exit.NO_INPUT, f"there is no log in {data}", make_one if hint is None else hint)
    return folder


def check_names(origin: str | None, iss: str | None) -> None:
    """Before a log is made: its names stand in every receipt for ever, and a wrong one is blamed on its flag."""
    if origin is not None:
        # A C2SP checkpoint's key name is the origin: not empty, no white space, no plus sign.
        if not origin or not origin.isprintable() or any(c.isspace() or c == "+" for c in origin):
            raise CommandError(
                Exit.USAGE, f"--origin {origin!r} has a space, a plus sign or a control character, or is empty",
                "It is a name like log.example/agents.",
            )  # fmt: skip
        if iss is None:
            check_iss(f"https://{origin}", "--origin")
    if iss is not None:
        check_iss(iss, "--iss")


def check_iss(iss: str, flag: str = "--iss") -> None:
    try:
        Claims.from_map({labels.CLAIM_ISS: iss, labels.CLAIM_SUB: "-"})
    except MalformedError as error:
        what = "as https://ORIGIN" if flag == "--origin" else "as an iss"
        raise CommandError(Exit.USAGE, f"{flag} cannot be used {what}: {error}") from error
    if not iss.isprintable() or " " in iss:
        raise CommandError(Exit.USAGE, f"{flag} has a space or a control character")


def refuse_existing_log(data: Path, hint: str) -> None:
    """Before a log is made: the folder must be absent or empty."""
    if find_log(data) is not None:
        raise CommandError(Exit.CANNOT_WRITE, f"{data} holds a log already", hint)
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise CommandError(Exit.CANNOT_WRITE, f"{data} is not an empty folder", "Name another.")


def make_log(data: Path, *, origin: str | None, iss: str | None, watermark: Path | None, **keys: Any) -> Created:  # noqa: ANN401 - create_log's
    """A new log in *data*. A disk that does not take it leaves none, and is no fault of the store."""
    try:
        with storage(data):
            return create_log(data, clock=system_clock, origin=origin, iss=iss, watermark=watermark, **keys)
    except StoreError as error:
        raise CommandError(Exit.CANNOT_WRITE, f"{data}: {error}", DISK) from error


def open_admin(data: Path, *, reading: bool = False, allow_lost_key: bool = False) -> AbstractContextManager[Admin]:
    """The admin face of the log in *data*; if its keys are encrypted and needed, their passphrase is found."""
    passphrase = None if reading else kept_passphrase()
    return admin.open_admin(data, reading=reading, allow_lost_key=allow_lost_key, passphrase=passphrase)


def change_policy(
    log: Admin, folder: Folder, build: Callable[[Policy, str], Policy | None]
) -> tuple[Policy, Mapping[str, Any] | None]:
    """Put the policy that *build* makes from the one in force on the log; None from *build* changes nothing.

    Another command may get in between; the log refuses what does not follow, and the change is built again.
    """
    for attempt in range(_ATTEMPTS):
        documents = log.call("documents")
        policy = Policy.from_toml(documents["policy"])
        following = build(policy, documents["policy-entry"])
        if following is None:
            return policy, None
        signer = folder.load_key(keyset.POLICY, policy.policy_key)
        statement = sign_document(following, signer, ServiceKeys.from_toml(documents["keys"]).iss)
        try:
            return following, log.call("update-policy", statement=statement)
        except (RefusedError, JudgementStaleError):
            moved = Policy.from_toml(log.call("documents")["policy"]).generation != policy.generation
            if not moved or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError  # the last attempt returns or raises
