"""What a log shows at one moment: to each of its URLs, and to the witnesses that cosigned it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from yarl import URL

from transparency.client.places import base_url
from transparency.client.tiles import TileClient
from transparency.client.transport import Request, Transport
from transparency.errors import ServiceRefusedError, SignatureInvalidError, TransparencyError, UnreachableError
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.notes.checkpoint import SignedCheckpoint, open_checkpoint, origin_hash
from transparency.notes.numbers import MAX_BYTES
from transparency.notes.policy import WitnessPolicy
from transparency.notes.vkey import VerifierKey
from transparency.witness.monitor_alarms import Alarm

_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class View:
    """A checkpoint that the log signed, and where it was seen. ``client`` reads the tiles there, if it has any.

    ``when``: words after the place, of what is not seen now.
    """

    place: str
    signed: SignedCheckpoint
    client: TileClient | None = None
    when: str = ""

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


@dataclass(frozen=True, slots=True)
class Asked:
    """What the witnesses of a policy answered; ``heard``: those that answered at all."""

    views: list[View]
    alarms: list[Alarm]
    heard: set[str]


async def ask_witnesses(
    policy: WitnessPolicy | None, origin: str, keys: Collection[VerifierKey], transport: Transport
) -> Asked:
    """What each witness last cosigned of a log (W-4). One with several keys has several lines, and is asked once."""
    by_url = {each.url: each for each in reversed([] if policy is None else list(policy.witnesses.values()))}
    asked = [(f"witness {each.name}", url) for url, each in reversed(by_url.items()) if url is not None]
    answers = await asyncio.gather(*(_ask_witness(place, url, origin, keys, transport) for place, url in asked))
    views = [each for each in answers if isinstance(each, View)]
    alarms = [each for each in answers if isinstance(each, Alarm)]
    silent = {alarm.place for alarm in alarms if alarm.code == "unreachable"}
    return Asked(views, alarms, {place for place, _ in asked} - silent)


async def _ask_witness(
    place: str, url: str, origin: str, keys: Collection[VerifierKey], transport: Transport
) -> View | Alarm | None:
    """What one witness last cosigned; None where it never did."""
    try:
        path = base_url(url) / origin_hash(origin) / "checkpoint"
        answer = await transport.send(Request("GET", URL(str(path)), {"Accept": "text/plain"}, None, MAX_BYTES))
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
