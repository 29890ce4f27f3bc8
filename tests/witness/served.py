"""A witness in a folder, and one that answers on a socket, in this process."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import aiohttp

from tests.notes.world import ORIGIN
from tests.witness.trees import signer_of
from transparency.cose.cbor import decode
from transparency.notes.cosignature import Cosignature, verify_cosignature
from transparency.notes.note import read_signatures
from transparency.notes.vkey import VerifierKey
from transparency.server.settings import ServerSettings
from transparency.testing import FakeClock
from transparency.witness.folder import WitnessFolder, create_witness
from transparency.witness.keeper import Keeper
from transparency.witness.logs import KnownLog, changing
from transparency.witness.serve import listening
from transparency.witness.state import WitnessState, open_state

NAME = "witness.example/w1"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    content_type: str
    body: bytes
    headers: dict[str, str]

    @property
    def problem(self) -> str:
        """Title and detail, of an answer that must be a problem."""
        assert self.content_type == "application/concise-problem-details+cbor"
        value = decode(self.body)
        assert isinstance(value, dict)
        return f"{value[-1]}: {value[-2]}"


class Client:
    def __init__(self, url: str, session: aiohttp.ClientSession, keeper: Keeper) -> None:
        self.url = url
        self.keeper = keeper
        self._session = session

    @property
    def state(self) -> WitnessState:
        """What the witness has on its disk."""
        return cast("WitnessState", self.keeper._state)

    async def add(self, body: bytes) -> Reply:
        return await self.send("POST", "/add-checkpoint", body)

    async def send(self, method: str, path: str, body: bytes | None = None) -> Reply:
        data = None if body is None else io.BytesIO(body)
        async with self._session.request(method, f"{self.url}{path}", data=data) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Reply(response.status, headers["content-type"], await response.read(), headers)


def make_witness(path: Path, *origins: str, per_minute: int | None = None) -> WitnessFolder:
    folder = create_witness(path, NAME)
    trust(folder, *(origins or (ORIGIN,)), per_minute=per_minute)
    return folder


def trust(folder: WitnessFolder, *origins: str, per_minute: int | None = None) -> None:
    with changing(folder.logs) as logs:
        for origin in origins:
            logs[origin] = KnownLog((signer_of(origin).vkey,), per_minute=per_minute)


@asynccontextmanager
async def served(
    folder: WitnessFolder, clock: FakeClock | None = None, settings: ServerSettings | None = None
) -> AsyncIterator[Client]:
    settings = settings or ServerSettings(port=0, rate_limit=None)
    with open_state(folder) as state:
        async with (
            listening(folder, state, settings, clock or FakeClock()) as (keeper, url),
            aiohttp.ClientSession() as session,
        ):
            yield Client(url, session, keeper)


def cosignatures(body: bytes, text: bytes, keys: Sequence[VerifierKey]) -> list[Cosignature]:
    """The lines of an answer, each checked against the witness' key of its place."""
    lines = read_signatures(body)
    return [verify_cosignature(text, line, key) for line, key in zip(lines, keys, strict=True)]
