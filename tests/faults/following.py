"""A log that is followed by a compliance witness, both as processes of their own, and what a test does to them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.faults.ensemble import Ensemble, Process, ensemble
from tests.interop.tlog_client import Key, open_checkpoint
from tests.log.audited import pinned
from tests.patience import PATIENCE
from transparency.compliance.period import Period
from transparency.notes.checkpoint import origin_hash
from transparency.statements.statement import Statement

NAME = "control.example/c1"
ISS = "https://control.example"


@dataclass
class Followed:
    """*group* is the log; the witness' folder is ``group.home / "compliance"``."""

    group: Ensemble
    vkey: str
    log: Process
    witness: Process | None = None

    @property
    def folder(self) -> Path:
        return self.group.home / "compliance"

    async def follow(self, *flags: str, log: Process | None = None) -> Process:
        words = ("witness", "follow", (log or self.log).url, "--dir", self.folder, "--port", "0", "--interval", "0.1")
        self.witness = await self.group.start("compliance", *words, "--period", "1", *flags)
        return self.witness

    async def get(self, path: str) -> tuple[int, bytes]:
        assert self.witness is not None
        async with self.group.session.get(f"{self.witness.url}{path}") as response:
            return response.status, await response.read()

    async def page(self, path: str, name: str) -> list[dict[str, Any]]:
        """Every page of a list."""
        found: list[dict[str, Any]] = []
        after: int | None = None
        while True:
            more = "" if after is None else f"{'&' if '?' in path else '?'}after={after}"
            status, body = await self.get(path + more)
            assert status == 200, body
            value = json.loads(body)
            found += value[name]
            after = value["next"]
            if after is None:
                return found

    async def status(self) -> dict[str, Any]:
        status, body = await self.get("/status")
        assert status == 200
        value = json.loads(body)
        assert isinstance(value, dict)
        return value

    async def until(self, what: str, size: int) -> dict[str, Any]:
        """Wait until the last round was *what*, and *size* entries were replayed."""
        async with asyncio.timeout(PATIENCE):
            while True:
                status = await self.status()
                if status["last"] in what.split("|") and status["replayed"] >= size:
                    return status
                await asyncio.sleep(0.05)

    async def cosigned(self, size: int) -> int:
        """Wait until a checkpoint of at least *size* is cosigned, by both keys; its size."""
        async with asyncio.timeout(PATIENCE):
            while True:
                have = await self.cosigned_size()
                if have >= size:
                    return have
                await asyncio.sleep(0.05)

    async def cosigned_size(self) -> int:
        status, note = await self.get(f"/{origin_hash(self.group.made.origin)}/checkpoint")
        if status == 404:
            return 0
        assert status == 200
        return open_checkpoint(note, [*self.group.log_keys, Key.from_vkey(self.vkey)]).size

    async def periods(self, least: int = 1) -> list[Period]:
        """What was attested, once at least so many of them stand on the log."""
        async with asyncio.timeout(PATIENCE):
            while True:
                listed = await self.page("/periods", "periods")
                if len([each for each in listed if each["entry"]]) >= least:
                    break
                await asyncio.sleep(0.05)
        found = []
        for each in listed:
            _, statement = await self.get(f"/periods/{each['number']}")
            found.append(Period.from_bytes(Statement.from_bytes(statement).payload))
        return found

    def database(self) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / "findings.sqlite")


@asynccontextmanager
async def followed(home: Path, *flags: str) -> AsyncIterator[Followed]:
    """The log runs and takes the witness' attestations; the witness does not run yet."""
    async with ensemble(home) as group:
        said = await asyncio.to_thread(
            group.command, "witness", "init-follower", "--dir", "compliance", "--name", NAME, "--iss", ISS,
            "--policy-key", pinned(group.made).hex(),
        )  # fmt: skip
        vkey = next(line for line in said.splitlines() if line.startswith(f"{NAME}+"))
        await asyncio.to_thread(
            group.command, "issuer", "add", "--data", group.made.data, "--iss", ISS, "--key",
            "compliance/issuer.pub.pem",
        )  # fmt: skip
        log = await group.start_log(*flags)
        yield Followed(group, vkey, log)


def again(found: Followed, log: Process) -> Followed:
    return replace(found, log=log)
