"""A log and its witnesses as processes of their own, as operators run them, and what a test does to them.

What is served is read with the client of tests/interop, which knows nothing of the project: it tells who cosigned.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from click.testing import CliRunner

from tests.cli.conftest import environment, shell
from tests.interop.tlog_client import Checkpoint, Key, open_checkpoint, read_note
from tests.on_postgres import copy_folder
from tests.patience import PATIENCE
from transparency.cli.main import cli
from transparency.log.log import system_clock
from transparency.testing import MadeLog, make_log
from transparency.testing.fixtures import SampleIssuer

ORIGIN = "log.example/ensemble"


@dataclass
class Process:
    """A `transparency` command that serves: its URL, and what it said on standard error."""

    child: asyncio.subprocess.Process
    url: str
    errors: Path
    stopped: bool = False

    def send(self, number: signal.Signals) -> None:
        self.child.send_signal(number)
        self.stopped = number is signal.SIGSTOP

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ended by its own pid; one that sleeps is woken first, to hear it."""
        if self.child.returncode is None:
            self.child.send_signal(number)
            if self.stopped:
                self.send(signal.SIGCONT)
            async with asyncio.timeout(PATIENCE):
                await self.child.wait()


@dataclass(frozen=True)
class Folder:
    """A witness on disk: the policy's name for it, and the key that the policy trusts."""

    name: str
    path: Path
    vkey: str

    def line(self, url: str) -> str:
        return f"witness {self.name} {self.vkey} {url}\n"


@dataclass
class Ensemble:
    """``witnesses`` are those that run, by the policy's names."""

    home: Path
    made: MadeLog
    session: aiohttp.ClientSession
    log_vkeys: list[str] = field(default_factory=list)
    folders: dict[str, Folder] = field(default_factory=dict)
    witnesses: dict[str, Process] = field(default_factory=dict)
    _ending: AsyncExitStack = field(default_factory=AsyncExitStack)
    _registered: int = 0

    @property
    def log_keys(self) -> list[Key]:
        return [Key.from_vkey(text) for text in self.log_vkeys]

    def command(self, *words: str | Path, code: int = 0) -> str:
        """A command that ends by itself, with this exit code; what it said, on both streams."""
        ended = shell(*words, cwd=self.home)
        said = (ended.stdout + ended.stderr).decode()
        assert ended.returncode == code, f"{words[0]} ended with {ended.returncode}: {said}"
        return said

    async def start(self, name: str, *words: str | Path) -> Process:
        errors = self.home / f"{name}.err"
        with errors.open("ab") as file:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "transparency", *map(str, words),
                env=environment(self.home / "no-config"), cwd=self.home,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file,
            )  # fmt: skip
        assert child.stdout is not None
        process = Process(child, "", errors)
        self._ending.push_async_callback(process.end)
        async with asyncio.timeout(PATIENCE):
            process.url = (await child.stdout.readline()).decode().strip()
        assert process.url.startswith("http://127.0.0.1:"), errors.read_text()
        return process

    async def start_witness(self, name: str, port: str = "0") -> Process:
        words = ("witness", "serve", "--dir", self.folders[name].path, "--port", port, "--rate-limit", "0")
        self.witnesses[name] = await self.start(name, *words)
        return self.witnesses[name]

    async def start_log(self, *flags: str | Path, made: MadeLog | None = None) -> Process:
        return await self.start("log", *self.serve_words(*flags, made=made))

    def serve_words(self, *flags: str | Path, made: MadeLog | None = None) -> tuple[str | Path, ...]:
        made = made or self.made
        words = ("serve", "--data", made.data, "--watermark", made.watermark, "--port", "0", "--open")
        return (*words, "--checkpoint-interval", "0.05", "--rate-limit", "0", *flags)

    def policy(self, quorum: int, *more: str) -> Path:
        """A policy file: so many of the witnesses that run, and of *more* lines of witnesses."""
        lines = [self.folders[name].line(process.url) for name, process in self.witnesses.items()] + list(more)
        names = " ".join(line.split()[1] for line in lines)
        path = self.home / "policy"
        logs = "".join(f"log {vkey}\n" for vkey in self.log_vkeys)
        path.write_text(logs + "".join(lines) + f"group enough {quorum} {names}\nquorum enough\n")
        return path

    async def register(self, log: Process, word: str = "entry") -> None:
        """One more entry: receipts do not wait for witnesses."""
        self._registered += 1
        await registered(self.session, log.url, self.made.issuer.sign(f"{word} {self._registered}".encode()))

    async def metric(self, log: Process, name: str) -> float:
        """A number that the log shows about itself, 0 while it does not; *name* with its labels."""
        async with self.session.get(f"{log.url}/metrics") as response:
            lines = (await response.text()).splitlines()
        found = [line for line in lines if line.startswith(f"transparency_{name} ")]
        return float(found[0].split()[-1]) if found else 0.0

    async def checkpoint(self, log: Process) -> tuple[Checkpoint, set[str], bytes] | None:
        """What is served, the names of those who cosigned it by a key of the policy, and its bytes; None if nothing."""
        async with self.session.get(f"{log.url}/checkpoint") as response:
            if response.status == 503:
                return None
            assert response.status == 200
            note = await response.read()
        checkpoint = open_checkpoint(note, self.log_keys)
        keys = {name: Key.from_vkey(folder.vkey) for name, folder in self.folders.items()}
        lines = {(line.name, line.key_id) for line in read_note(note).lines}
        signed = {name for name, key in keys.items() if (key.name, key.key_id) in lines}
        open_checkpoint(note, [*self.log_keys, *(keys[name] for name in signed)])
        return checkpoint, signed, note

    async def risen(self, log: Process, name: str, by: int = 1, since: float | None = None) -> None:
        """Wait until a count has gone up by so many, from what it was or from what it is now."""
        begin = await self.metric(log, name) if since is None else since
        async with asyncio.timeout(PATIENCE):
            while True:
                if await self.metric(log, name) >= begin + by:
                    return
                await asyncio.sleep(0.05)

    async def published(self, log: Process, size: int, *, by: Iterable[str] = ()) -> tuple[Checkpoint, set[str], bytes]:
        """Wait until a checkpoint of at least *size* is served that all of *by* have cosigned."""
        async with asyncio.timeout(PATIENCE):
            while True:
                served = await self.checkpoint(log)
                if served is not None and served[0].size >= size and served[1] >= set(by):
                    return served
                await asyncio.sleep(0.05)

    async def grown(self, log: Process, word: str = "entry") -> int:
        """Register one more; the size of the tree with it."""
        await self.register(log, word)
        return int(await self.metric(log, "entries"))


def copy_of(made: MadeLog, target: Path) -> MadeLog:
    """A copy of a log that is stopped, mark and all: whoever restores a disk, or means to deceive, has both."""
    target.mkdir()
    copy_folder(made.data, target / "log", target / "mark")
    shutil.copy(made.watermark, target / "mark")
    return at(made, target)


def at(made: MadeLog, home: Path) -> MadeLog:
    return MadeLog(home / "log", home / "mark", made.issuer, made.clock)


async def registered(session: aiohttp.ClientSession, url: str, statement: bytes) -> None:
    """Return when it has its receipt; on a busy machine the log says 202 first."""
    async with session.post(f"{url}/entries", data=statement, headers={"Content-Type": "application/cose"}) as response:
        status, location = response.status, response.headers.get("Location", "")
        assert status in (201, 202), await response.text()
    async with asyncio.timeout(PATIENCE):
        while status not in (200, 201):
            await asyncio.sleep(0.05)
            async with session.get(location) as response:
                status = response.status
                assert status in (200, 204), await response.text()


async def forked(group: Ensemble, policy: Path, witnesses: Iterable[str]) -> tuple[Process, Process]:
    """The log as its witnesses know it, and a second one from a copy of its folder that asks no witness."""
    log = await group.start_log("--witness-policy", policy)
    await group.published(log, await group.grown(log), by=witnesses)
    await log.end()
    twin = copy_of(group.made, group.home / "twin")
    log = await group.start_log("--witness-policy", policy)
    for _ in range(2):
        await group.published(log, await group.grown(log), by=witnesses)
    return log, await group.start_log(made=twin)


@asynccontextmanager
async def ensemble(home: Path, *names: str) -> AsyncIterator[Ensemble]:
    """A log that is not started yet, and witnesses by these names that know it and run."""
    made = make_log(home / "log", clock=system_clock, issuer=SampleIssuer(), origin=ORIGIN)
    async with aiohttp.ClientSession() as session:
        group = Ensemble(home, made, session)
        group.log_vkeys = (await asyncio.to_thread(_run, "log", "vkey", "--data", made.data)).split()
        async with group._ending:
            for number, name in enumerate(names):
                path = home / name
                said = await asyncio.to_thread(_run, "witness", "init", "--dir", path, "--name", f"{name}.example")
                # The policy trusts the Ed25519 keys, and of the last witness the ML-DSA-44 one.
                vkeys = [line for line in said.splitlines() if line.startswith(f"{name}.example+")]
                group.folders[name] = Folder(name, path, vkeys[1 if number == len(names) - 1 else 0])
                await asyncio.to_thread(_run, "witness", "add-log", "--dir", path, *group.log_vkeys)
                await group.start_witness(name)
            yield group


def _run(*words: str | Path) -> str:
    """A command in this process, to prepare."""
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout
