"""``transparency monitor`` as people run it: against a real log, one that was forked on purpose, and nothing at all."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run, environment, shell
from tests.notes.world import log_signer
from tests.verifier.witnessing import W1, policy
from tests.witness.monitored import KEYS, Site, entries, sites
from transparency.witness.monitor_state import MonitorFolder


async def monitor(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return await asyncio.to_thread(shell, "monitor", *words, cwd=folder)


def known(log: Site, *more: str) -> list[str]:
    return [log.url, "--log-vkey", KEYS[0].text, "--state", "state", "--once", *more]


async def test_once_is_0_while_all_is_well_and_1_when_the_log_forks_and_the_evidence_convicts(folder: Path) -> None:
    async with sites() as (log,):
        log.publish(entries("a", 20))
        assert (await monitor(folder, *known(log))).returncode == 0
        log.publish(entries("b", 22, common=5))

        result = await monitor(folder, *known(log, "--json"))

        assert result.returncode == 1
        event = json.loads(result.stdout.splitlines()[0])
        assert (event["code"], event["log"]) == ("split-view", KEYS[0].name)
        judged = shell("verify", event["evidence"], "--log-vkey", KEYS[0].text, cwd=folder)
        assert (judged.returncode, b"Convicted of a fork" in judged.stdout) == (0, True)


async def test_the_urls_of_the_policy_are_followed_without_any_other(folder: Path) -> None:
    async with sites() as (log,):
        log.publish(entries("a", 20))
        (folder / "policy").write_text(f"log {KEYS[0].text} {log.url}\nquorum none\n")

        result = await monitor(folder, "--policy", "policy", "--state", "state", "--once")

        assert (result.returncode, b"20 entries followed" in result.stderr) == (0, True)


async def test_it_goes_on_until_it_is_stopped(folder: Path) -> None:
    async with sites() as (log,):
        log.publish(entries("a", 20))
        words = ["--log-vkey", KEYS[0].text, "--state", "state", "--interval", "1", log.url]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "transparency", "monitor", *words,
            cwd=folder, env=environment(folder), stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        try:
            assert b"20 entries followed" in await process.stderr.readline()
            log.publish(entries("a", 21))
            while b"21 entries" not in await process.stderr.readline():
                pass
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()


def test_two_monitors_do_not_share_one_state(run: Run, folder: Path) -> None:
    ownership = MonitorFolder(folder / "state").own()
    try:
        result = run("monitor", "http://127.0.0.1:9/", "--log-vkey", KEYS[0].text, "--state", "state", "--once")
    finally:
        ownership.release()

    assert (result.exit_code, len(result.stderr.splitlines())) == (75, 1)
    assert "another monitor keeps its state in" in result.stderr


def test_a_log_that_does_not_answer_is_69(run: Run, folder: Path) -> None:
    result = run("monitor", "http://127.0.0.1:9/", "--log-vkey", KEYS[0].text, "--state", "state", "--once")

    assert (result.exit_code, "unreachable" in result.stdout) == (69, True)


async def test_it_is_69_also_for_a_log_that_is_known_and_gone(folder: Path) -> None:
    async with sites() as (log,):
        log.publish(entries("a", 20))
        assert (await monitor(folder, *known(log))).returncode == 0

    assert (await monitor(folder, *known(log))).returncode == 69


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "no log to follow"),
        (("http://127.0.0.1:9/",), "no key of the log"),
        (("http://127.0.0.1:9/", "--log-vkey", "junk"), "--log-vkey"),
        (("junk", "--log-vkey", log_signer().vkey.text), "not of the form"),
        (("http://127.0.0.1:9/", "--log-vkey", log_signer().vkey.text, "--webhook", "junk"), "--webhook"),
        (("--policy", "policy"), "no log to follow"),
    ],
)
def test_slips_are_said_in_one_line(run: Run, folder: Path, words: tuple[str, ...], why: str) -> None:
    (folder / "policy").write_bytes(policy().text)

    result = run("monitor", *words, "--once", "--state", "state")

    assert (result.exit_code, len(result.stderr.splitlines()), why in result.stderr) == (64, 1, True)


async def test_a_split_view_is_1_whatever_is_asked_until_it_is_acknowledged_by_name(folder: Path) -> None:
    async with sites(2) as (log, fork):
        log.publish(entries("a", 20))
        assert (await monitor(folder, *known(log))).returncode == 0
        fork.publish(entries("b", 12, common=5))
        assert (await monitor(folder, *known(fork))).returncode == 1
        shown = await monitor(folder, *known(log))
        assert (shown.returncode, b"20 entries followed, 1 alarm\n" in shown.stderr) == (1, True)

        other = await monitor(folder, "--state", "state", "--acknowledge-split-view", "other.example")
        assert (other.returncode, len(other.stderr.splitlines())) == (66, 1)
        loud = await monitor(folder, "--state", "state", "--acknowledge-split-view", KEYS[0].name)

        assert (loud.returncode, b"put aside: split-view" in loud.stderr) == (0, True)
        assert (await monitor(folder, *known(log))).returncode == 0
        assert list((folder / "state").rglob("split-view-*.evidence")), "the evidence stays"


async def test_what_could_not_be_compared_is_said_and_75(folder: Path) -> None:
    async with sites(2) as (log, witness):
        log.publish(entries("a", 20))
        witness.publish(entries("a", 30), cosigned_by=[W1])
        lines = [f"log {KEYS[0].text} {log.url}", f"witness w {W1.vkey.text} {witness.url}", "quorum none"]
        (folder / "policy").write_text("".join(f"{line}\n" for line in lines))

        result = await monitor(folder, "--policy", "policy", "--state", "state", "--once")

        assert (result.returncode, b"could not be compared yet" in result.stderr) == (75, True)


def test_a_state_that_is_a_file_is_said(run: Run, folder: Path) -> None:
    (folder / "policy").write_text("")

    result = run("monitor", "http://127.0.0.1:9/", "--log-vkey", KEYS[0].text, "--state", "policy", "--once")

    assert (result.exit_code, "is a file" in result.stderr) == (64, True)


async def test_a_damaged_state_says_what_to_do_with_it(folder: Path) -> None:
    async with sites() as (log,):
        log.publish(entries("a", 20))
        await monitor(folder, *known(log))
        next((folder / "state").rglob("state.json")).write_text("{")

        result = await monitor(folder, *known(log))

        assert (result.returncode, b"put a copy back" in result.stderr, b"inspect" in result.stderr) == (
            65,
            True,
            False,
        )


async def test_what_could_not_be_told_is_75_and_names_the_place(folder: Path) -> None:
    async with sites() as (log,):
        log.publish(entries("a", 20))
        assert (await monitor(folder, *known(log))).returncode == 0
        log.checkpoint = None
        await monitor(folder, *known(log))
        log.publish(entries("a", 20))

        result = await monitor(folder, *known(log, "--exec", "false", "--json"))

        assert result.returncode == 75
        events = [json.loads(line) for line in result.stdout.splitlines()]
        assert [(event["event"], event["place"]) for event in events] == [("ended", log.url), ("not-told", log.url)]
