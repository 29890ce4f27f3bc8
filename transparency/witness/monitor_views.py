"""What a log shows at one moment: to each of its URLs, and to the witnesses that cosigned it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from yarl import URL

from transparency.client.client import base_url
from transparency.client.tiles import TileClient
from transparency.client.transport import Request, Transport
from transparency.errors import ServiceRefusedError, SignatureInvalidError, TransparencyError, UnreachableError
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.notes.checkpoint import SignedCheckpoint, open_checkpoint, origin_hash
from transparency.notes.numbers import MAX_BYTES
from transparency.notes.policy import PolicyWitness
from transparency.notes.vkey import VerifierKey
from transparency.witness.monitor_alarms import Alarm

_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class View:
    """A checkpoint that the log signed, and where it was seen. ``client`` reads the tiles there, if it has any."""

    place: str
    signed: SignedCheckpoint
    client: TileClient | None = None

    @property
    def origin(self) -> str:
        return self.signed.checkpoint.origin

    @property
    def size(self) -> int:
        return self.signed.checkpoint.size

    @property
    def root(self) -> bytes:
        return self.signed.checkpoint.root

    @property
    def note(self) -> bytes:
        return self.signed.to_bytes()


async def look(client: TileClient, keys: Collection[VerifierKey]) -> View | Alarm:
    """The checkpoint that is served at a log's URL."""
    place = str(client.url)
    try:
        data = await client.checkpoint()
    except (UnreachableError, ServiceRefusedError) as error:
        return Alarm("unreachable", "", place, str(error))
    return _opened(data, keys, place, client)


async def ask_witness(
    witness: PolicyWitness, origin: str, keys: Collection[VerifierKey], transport: Transport
) -> View | Alarm | None:
    """What a witness last cosigned of a log (W-4); None where it never did, or where nobody knows its URL."""
    if witness.url is None:
        return None
    place = f"witness {witness.name}"
    try:
        url = base_url(witness.url) / origin_hash(origin) / "checkpoint"
        answer = await transport.send(Request("GET", URL(str(url)), {"Accept": "text/plain"}, None, MAX_BYTES))
    except ServiceRefusedError as error:
        return None if error.status == _NOT_FOUND else Alarm("unreachable", origin, place, str(error))
    except TransparencyError as error:
        return Alarm("unreachable", origin, place, str(error))
    view = _opened(answer.body, keys, place, None)
    if isinstance(view, View) and view.origin != origin:
        return Alarm("bad-checkpoint", origin, place, "it is of another log than was asked for")
    return view


def _opened(data: bytes, keys: Collection[VerifierKey], place: str, client: TileClient | None) -> View | Alarm:
    try:
        signed = open_checkpoint(data, keys)
        if not signed.checkpoint.size and signed.checkpoint.root != EMPTY_ROOT:
            raise SignatureInvalidError("it says that a tree without entries has another root than that has")
    except TransparencyError as error:
        return Alarm("bad-checkpoint", "", place, str(error))
    return View(place, signed, client)
