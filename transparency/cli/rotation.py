"""Exchanging the log's own keys: made here, registered by whoever owns the log (policy/keyset.py has the rules).

A private key is written before its public half is registered, and never removed again: whatever the log answers, it may
have committed the key set and need this key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import change_policy
from transparency.cose.algorithms import algorithm
from transparency.cose.keys import PrivateKey, PublicKey, Signer, load_signer
from transparency.errors import JudgementStaleError, LogUnusableError
from transparency.log.admin import Admin
from transparency.log.documents import sign_document
from transparency.log.folder import Folder
from transparency.policy import keyset
from transparency.policy.document import Policy
from transparency.policy.keyset import ServiceKey, ServiceKeys

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Changed:
    """A key set that was registered, and what is new in it."""

    keys: ServiceKeys
    new: tuple[PublicKey, ...]
    since: int


class _Documents:
    """What is in force, as a command sees it, and the key that signs what follows."""

    def __init__(self, admin: Admin, folder: Folder) -> None:
        said = admin.call("documents")
        self._admin = admin
        self.keys = ServiceKeys.from_toml(said["keys"])
        self.entry: str = said["keys-entry"]
        self.time: int = said["time"]
        self.policy = Policy.from_toml(said["policy"])
        # Opened first: without it nothing can be changed, and no key need be made.
        self._signer: Signer = folder.load_key(keyset.POLICY, self.policy.policy_key)

    def register(self, build: Callable[[int], ServiceKeys]) -> ServiceKeys:
        """Put the key set that *build* makes for a time on the log.

        The time is asked last: keys were made and a passphrase was typed since. Where the log signed heads even so, it
        does not take a key set that ends their key before them, and it is built again.
        """
        for attempt in range(_ATTEMPTS):
            self.time = self._admin.call("documents")["time"]
            following = build(self.time)
            try:
                self._admin.call("update-keys", statement=sign_document(following, self._signer, self.keys.iss))
            except JudgementStaleError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return following
        raise AssertionError  # the last attempt returns or raises


def rotate_key(
    admin: Admin, folder: Folder, role: str, *, alg: str | None = None, signer: str | None = None, overlap: int = 0
) -> Changed:
    """Put new keys in the place of those of *role*: at once, or after *overlap* seconds in which both are known."""
    documents = _Documents(admin, folder)
    if role == keyset.POLICY:
        return _rotate_policy_key(admin, folder, documents, alg, signer)
    new = _make(folder, role, documents.keys, alg, signer)
    following = documents.register(
        lambda now: documents.keys.rotated(role, *new, previous=documents.entry, now=now, since=now + overlap)
    )
    return Changed(following, new, documents.time + overlap)


def _rotate_policy_key(
    admin: Admin, folder: Folder, documents: _Documents, alg: str | None, signer: str | None
) -> Changed:
    """Two documents, both signed by the old key: the key set lists the new one, then the policy names it.

    Between the two the old key is in force. Whoever was interrupted there runs the command again, which goes on.
    """
    keys, new = documents.keys, documents.keys.current(keyset.POLICY)
    if new == (documents.policy.policy_key,) or not _have(folder, new):
        new = _make(folder, keyset.POLICY, keys, alg, signer)
        made = new
        keys = documents.register(
            lambda now: documents.keys.rotated(keyset.POLICY, *made, previous=documents.entry, now=now)
        )
    (public,) = new

    def naming(policy: Policy, previous: str) -> Policy | None:
        if policy.policy_key == public:
            return None
        return replace(policy, generation=policy.generation + 1, previous=previous, policy_key=public)

    change_policy(admin, folder, naming)
    return Changed(keys, new, documents.time)


def compromise_key(admin: Admin, folder: Folder, kid: str, since: int) -> tuple[Changed, ServiceKey]:
    """Register that a key of the log is in other hands. One that is in use is replaced in the same document."""
    documents = _Documents(admin, folder)
    item = _find(documents.keys, kid)
    if since > documents.time:
        raise CommandError(Exit.USAGE, "--since is in the future", "Say since when the key may have been used.")
    new: tuple[PublicKey, ...] = ()
    if item.until is None or documents.time < item.until:
        if item.role == keyset.POLICY:
            hint = "Exchange it first: `transparency log rotate-key --role policy`, then say this of the old one."
            raise CommandError(Exit.BAD_INPUT, "this policy key is in force, and only it can name another", hint)
        new = _make(folder, item.role, documents.keys, None, None)
    following = documents.register(
        lambda now: documents.keys.compromised(item, *new, since=since, previous=documents.entry, now=now)
    )
    return Changed(following, new, documents.time), item


def _make(folder: Folder, role: str, keys: ServiceKeys, alg: str | None, signer: str | None) -> tuple[PublicKey, ...]:
    """New keys for *role*, of the algorithms in use unless *alg* says another; their private halves stay here."""
    if signer is not None:
        public = load_signer(signer).public
        folder.save_signer(role, public, signer)
        return (public,)
    names: Sequence[str] = [_algorithm(key) for key in keys.current(role)] if alg is None else [alg]
    made = [PrivateKey.generate(algorithm(name).id) for name in names or keyset.DEFAULT_ALGORITHMS[role]]
    for key in made:
        folder.save_key(role, key)
    return tuple(key.public for key in made)


def _algorithm(key: PublicKey) -> str:
    return algorithm(key.default_alg if key.alg is None else key.alg).name


def _have(folder: Folder, keys: Sequence[PublicKey]) -> bool:
    try:
        for key in keys:
            folder.load_key(keyset.POLICY, key)
    except LogUnusableError:
        return False
    return bool(keys)


def _find(keys: ServiceKeys, kid: str) -> ServiceKey:
    wanted = kid.lower()
    found = [
        item
        for item in keys.keys
        if item.key.kid.hex().startswith(wanted) or item.key.thumbprint.hex().startswith(wanted)
    ]
    if not wanted or len(found) != 1:
        what = "no key of this log begins" if not found else f"{len(found)} keys of this log begin"
        hint = "`transparency log keys --data DIR` lists them."
        raise CommandError(Exit.BAD_INPUT, f"{what} with {kid!r}", hint)
    return found[0]


def listed(keys: ServiceKeys, now: int) -> list[dict[str, Any]]:
    """Every key of the log, for people and programs: what for, since when, until when, and whether it is trusted."""
    return [
        {
            "role": item.role,
            "thumbprint": item.key.thumbprint.hex(),
            "kid": item.key.kid.hex(),
            "alg": _algorithm(item.key),
            "state": _state(item, now),
            "since": item.since,
            "until": item.until,
            "compromised-since": item.compromised_since,
        }
        for item in keys.keys
    ]


def _state(item: ServiceKey, now: int) -> str:
    if item.compromised_since is not None:
        return "compromised"
    if item.in_use(now):
        return "in use"
    return "announced" if item.until is None or (item.since < item.until and now < item.since) else "retired"
