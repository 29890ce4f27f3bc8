"""Policy files: which logs and witnesses are known, and whose cosignatures are enough (C2SP tlog-policy, PO-1).

"The policy file is treated as a file of octets", and "names must be handled as opaque octet strings": a name here is
text with what is not UTF-8 kept by surrogates, so that equal names are equal octets. Groups name only what stands
before them, so that a group is judged by one walk down the file, without recursion.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from transparency.display import safe_text
from transparency.errors import NoteError
from transparency.notes.checkpoint import SignedCheckpoint, verify_log_signatures
from transparency.notes.cosignature import Cosignature, verify_cosignatures
from transparency.notes.numbers import MAX_BYTES, read_decimal
from transparency.notes.vkey import LOG_KINDS, WITNESS_KINDS, VerifierKey, by_name_and_id

NONE: Final = "none"
MAX_DEFINED: Final = 1024
"""Of logs, witnesses and groups each; 32 are "strongly recommended"."""

# The only allowed control characters are tab and newline; DEL is one too.
_FORBIDDEN: Final = re.compile(rb"[^\t\n\x20-\x7e\x80-\xff]")
_BLANKS: Final = re.compile(r"[ \t]+")
_FORMS: Final = {
    "log": "log VKEY [URL]",
    "witness": "witness NAME VKEY [URL]",
    "group": "group NAME all|any|K NAME…",
    "quorum": "quorum NAME, or quorum none",
}


@dataclass(frozen=True, slots=True)
class PolicyLog:
    """A log that is accepted; its key's name is its origin."""

    key: VerifierKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyWitness:
    """A witness. ``name`` is the policy's name for it, ``key.name`` the one in its signature lines."""

    name: str
    key: VerifierKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyGroup:
    """A group that has witnessed a checkpoint when ``threshold`` of its members have."""

    name: str
    threshold: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuorumResult:
    """Who cosigned, by the policy's names, and whether that is enough."""

    ok: bool
    counted: tuple[str, ...]
    missing: tuple[str, ...]
    cosignatures: tuple[Cosignature, ...] = ()


@dataclass(frozen=True, slots=True)
class WitnessPolicy:
    """What a policy file says. ``quorum`` is the name of a witness or group, or ``none``."""

    logs: tuple[PolicyLog, ...]
    witnesses: Mapping[str, PolicyWitness]
    groups: Mapping[str, PolicyGroup]
    quorum: str

    @classmethod
    def from_text(cls, data: bytes) -> Self:
        """Read a policy file; an error names the line."""
        draft = _Draft()
        for number, line in enumerate(_lines(data), 1):
            words = [word for word in _BLANKS.split(line) if word]
            if words and not words[0].startswith("#"):
                try:
                    draft.add(words)
                except NoteError as error:
                    raise NoteError(f"policy file, line {number}: {error}") from None
        if draft.quorum is None:
            raise NoteError("policy file: has no quorum line; `quorum none` asks for no cosignatures")
        return cls(tuple(draft.logs), draft.witnesses, draft.groups, draft.quorum)

    @property
    def text(self) -> bytes:
        """A policy file that says the same; comments are not kept."""
        logs = [("log", log.key.text, log.url) for log in self.logs]
        witnesses = [("witness", each.name, each.key.text, each.url) for each in self.witnesses.values()]
        groups = [("group", each.name, str(each.threshold), *each.members) for each in self.groups.values()]
        lines = (*logs, *witnesses, *groups, ("quorum", self.quorum))
        text = "".join(" ".join(word for word in line if word is not None) + "\n" for line in lines)
        return text.encode(errors="surrogateescape")

    def satisfied(self, names: Collection[str]) -> bool:
        """Whether the quorum has witnessed what the witnesses of these names (the policy's) have cosigned."""
        if self.quorum == NONE:
            return True
        witnessed = set(names) & set(self.witnesses)
        for group in self.groups.values():
            if sum(member in witnessed for member in group.members) >= group.threshold:
                witnessed.add(group.name)
        return self.quorum in witnessed

    def check(self, signed: SignedCheckpoint) -> QuorumResult:
        """Check a checkpoint by this policy.

        Raises SignatureInvalidError where the policy lists logs and none of them signed it, and where a line of a
        known log or witness does not hold (SN-3). Without logs the caller must have opened the checkpoint by keys
        known from elsewhere.
        """
        if self.logs:
            verify_log_signatures(signed, [log.key for log in self.logs])
        cosignatures = verify_cosignatures(signed, [witness.key for witness in self.witnesses.values()])
        cosigners = {(each.name, each.key_id) for each in cosignatures}
        counted = tuple(name for name, each in self.witnesses.items() if (each.key.name, each.key.key_id) in cosigners)
        missing = tuple(name for name in self.witnesses if name not in counted)
        return QuorumResult(self.satisfied(counted), counted, missing, tuple(cosignatures))


@dataclass(slots=True)
class _Draft:
    """What the lines read so far define."""

    logs: list[PolicyLog] = field(default_factory=list)
    witnesses: dict[str, PolicyWitness] = field(default_factory=dict)
    groups: dict[str, PolicyGroup] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    quorum: str | None = None

    def add(self, words: list[str]) -> None:
        match words:
            case ["log", vkey, *url] if len(url) <= 1:
                self._add_log(PolicyLog(_read_key(vkey, LOG_KINDS), *url))
            case ["witness", name, vkey, *url] if len(url) <= 1:
                self._add_witness(PolicyWitness(name, _read_key(vkey, WITNESS_KINDS), *url))
            case ["group", name, threshold, _, *_]:
                self._add_group(name, threshold, tuple(words[3:]))
            case ["quorum", name]:
                self._set_quorum(name)
            case [keyword, *_]:
                forms = _FORMS.get(keyword, "one of: " + "; ".join(_FORMS.values()))
                raise NoteError(f"not of the form {forms}")

    def _add_log(self, log: PolicyLog) -> None:
        # "Two vkeys are considered duplicate if they wrap the same underlying public key"
        if any(log.key.key == each.key.key for each in self.logs):
            raise NoteError("another log has the same public key")
        self.logs.append(log)
        _check_keys([each.key for each in self.logs])

    def _add_witness(self, witness: PolicyWitness) -> None:
        self._check_new(witness.name)
        if any(witness.key.key == each.key.key for each in self.witnesses.values()):
            raise NoteError("another witness has the same public key")
        self.witnesses[witness.name] = witness
        _check_keys([each.key for each in self.witnesses.values()])

    def _add_group(self, name: str, threshold: str, members: tuple[str, ...]) -> None:
        self._check_new(name)
        for member in members:
            self._check_defined(member)
            # "Each defined name can be listed as a group member at most once", in all groups together.
            if member in self.members:
                raise NoteError(f"{_shown(member)} is a member of a group already")
            self.members.add(member)
        count = {"all": len(members), "any": 1}.get(threshold)
        if count is None:
            count = read_decimal(threshold, "threshold")
        if not 1 <= count <= len(members):
            raise NoteError(f"threshold: not from 1 to the number of members, {len(members)}")
        if len(self.groups) == MAX_DEFINED:
            raise NoteError(f"more than {MAX_DEFINED} groups")
        self.groups[name] = PolicyGroup(name, count, members)

    def _set_quorum(self, name: str) -> None:
        if self.quorum is not None:
            raise NoteError("a second quorum line")
        if name != NONE:
            self._check_defined(name)
        self.quorum = name

    def _check_new(self, name: str) -> None:
        if name == NONE or name in self.witnesses or name in self.groups:
            raise NoteError(f"the name {_shown(name)} is taken")

    def _check_defined(self, name: str) -> None:
        if name not in self.witnesses and name not in self.groups:
            raise NoteError(f"{_shown(name)} is no witness or group of a line before this one")


def _lines(data: bytes) -> list[str]:
    if len(data) > MAX_BYTES:
        raise NoteError(f"policy file: {len(data)} bytes, more than {MAX_BYTES}")
    if _FORBIDDEN.search(data):
        raise NoteError("policy file: has a control character other than tab and newline (such as a carriage return)")
    # "each line is terminated by ASCII newline". One that is cut off might name another quorum.
    if not data.endswith(b"\n"):
        raise NoteError("policy file: its last line does not end in a newline; it may be cut off")
    return data.decode(errors="surrogateescape").split("\n")[:-1]


def _read_key(text: str, kinds: frozenset[int]) -> VerifierKey:
    key = VerifierKey.parse(text)
    if key.kind not in kinds:
        allowed = ", ".join(f"0x{kind:02x}" for kind in sorted(kinds))
        raise NoteError(f"a key of signature type 0x{key.kind:02x} stands where one of {allowed} belongs")
    return key


def _check_keys(keys: list[VerifierKey]) -> None:
    if len(keys) > MAX_DEFINED:
        raise NoteError(f"more than {MAX_DEFINED} logs or witnesses")
    by_name_and_id(keys)


def _shown(name: str) -> str:
    return repr(safe_text(name, 60))
