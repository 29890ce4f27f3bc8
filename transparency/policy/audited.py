"""The audited: the service states that every decision up to a size of its log was replayed without a finding.

A statement whose payload is erased can never be replayed again; so this stands on the log first (REG-20). Canonical
CBOR: ``{"log", "size", "root", "reproduced", "erased", "time"}``: entries below ``size``, the tree's root there, how
many decisions were reproduced and how many statements were erased before.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.policy.erasure import MAX_LOG
from transparency.policy.fields import number, read_map, text

_MEMBERS: Final = frozenset({"log", "size", "root", "reproduced", "erased", "time"})
_ROOT_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Audited:
    log: str
    size: int
    root: bytes
    reproduced: int
    erased: int
    time: int

    @classmethod
    def from_bytes(cls, data: bytes) -> Audited:
        members = read_map(data, "an audit's statement", _MEMBERS)
        root = members["root"]
        if not isinstance(root, bytes) or len(root) != _ROOT_BYTES:
            raise MalformedError(f"audited.root is not {_ROOT_BYTES} bytes")
        numbers = (number(members[name], f"audited.{name}") for name in ("size", "reproduced", "erased", "time"))
        size, reproduced, erased, time = numbers
        if reproduced + erased != size:
            raise MalformedError("audited.reproduced and audited.erased do not add up to its size")
        audited = cls(text(members["log"], "audited.log", MAX_LOG), size, root, reproduced, erased, time)
        if audited.to_bytes() != data:
            raise MalformedError("an audit's statement is deterministic CBOR")
        return audited

    def to_bytes(self) -> bytes:
        return cbor.encode(asdict(self))
