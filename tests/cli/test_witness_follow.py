"""``witness init-follower|follow|prove`` as people run them; docs/compliance-witness.md is run line by line."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from pathlib import Path

import aiohttp
import pytest

from tests.cli.conftest import ISS, ROOT, Run, running, serving, shell
from tests.patience import PATIENCE
from transparency.cli.witness_follow import _say
from transparency.cose.cbor import decode
from transparency.log.folder import Config, Folder
from transparency.notes.checkpoint import origin_hash
from transparency.witness.follow_folder import FollowerFolder

PAGE = (ROOT / "docs" / "compliance-witness.md").read_text()
POLICY_KEY = "ab" * 32
MADE = ("witness", "init-follower", "--dir", "compliance", "--name", "control.example/c1", "--policy-key", POLICY_KEY)
WHOSE = ("--iss", "https://control.example")


def documented(words: str, **values: str) -> list[str]:
    """The one command of the page that begins with these words, with its variables put in."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    (line,) = (line for line in lines if line.startswith(f"transparency {words}"))
    for name, value in values.items():
        line = line.replace(f"${name}", value)
    return shlex.split(line)[1:]


def policy_file(**values: str) -> str:
    (text,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"${name}", values[name])
    return str(text)


async def get(url: str) -> tuple[int, str, bytes]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, response.headers["Content-Type"], await response.read()


def until_cosigned(url: str, size: int) -> None:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        _, _, body = asyncio.run(get(f"{url}/status"))
        cosigned = json.loads(body)["cosigned"]
        if cosigned is not None and cosigned["size"] >= size:
            return
        time.sleep(0.1)
    pytest.fail(f"nothing was cosigned: {body!r}")


def test_the_page_as_it_stands(folder: Path) -> None:
    """From nothing to a statement whose proof carries the cosignature, with every command of the page."""

    def command(*words: str) -> str:
        ended = shell(*words, cwd=folder)
        assert ended.returncode == 0, (words, ended.stderr)
        return ended.stdout.decode()

    with serving(folder, "--checkpoint-interval", "0.05") as log:
        pinned = Config.read(Folder(folder / "log").config).policy_key.hex()
        vkey = command(*documented("witness init-follower", POLICY_KEY=pinned)).splitlines()[0]
        command(*documented("issuer add"))
        token = command(*documented("token create"), "--json")
        secret = json.loads(token)["secret"]
        submitting = json.loads(command("token", "create", "--data", "log", "--scope", "submit", "--json"))["secret"]
        (folder / "session.txt").write_text("hello")
        named = ("--key", "issuer.pem", "--iss", ISS, "--sub", "s", "--content-type", "text/plain")
        command("submit", "session.txt", *named, "--log", log.url, "--token", submitting, "--out", "session.cose")
        words = documented("witness follow", LOG=log.url, TOKEN=secret)
        words[words.index("--port") + 1] = "0"
        work = folder / "running"
        work.mkdir()
        (work / "compliance").symlink_to(folder / "compliance")
        with running(work, *words, "--interval", "0.1") as (witness, _):
            until_cosigned(witness, 5)
            log_vkey = command("log", "vkey", "--data", "log").splitlines()[0]
            values = {"LOG": log.url, "WITNESS": witness, "LOG_VKEY": log_vkey, "WITNESS_VKEY": vkey}
            (folder / "policy.txt").write_text(policy_file(**values))
            command("keys", "--log", log.url, "--out", "log.keys")
            prove = documented("witness prove")
            prove = [{"$LOG": log.url, "$WITNESS": witness, "$LOG_VKEY": log_vkey}.get(word, word) for word in prove]
            command(*prove)
            said = command(*documented("verify"))
            status, kind, body = asyncio.run(get(f"{witness}/{origin_hash('log.example/cli')}/checkpoint"))

    assert "control" in said
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    assert b"control.example/c1" in body


@pytest.mark.usefixtures("folder")
def test_it_refuses_the_folder_of_a_plain_witness_and_a_plain_witness_its_folder(run: Run, good: Run) -> None:
    good(*MADE, *WHOSE)
    good("witness", "init", "--dir", "plain", "--name", "w.example")

    followed = run("witness", "follow", "http://127.0.0.1:1", "--dir", "plain", "--once")
    served = run("witness", "serve", "--dir", "compliance", "--port", "0")
    added = run("witness", "add-log", "--dir", "compliance", "x")

    assert [each.exit_code for each in (followed, served, added)] == [77, 77, 77]
    assert "plain is a plain witness'" in followed.stderr
    assert "compliance is a compliance witness'" in served.stderr


def test_it_refuses_keys_that_were_not_made_for_it(run: Run, good: Run, folder: Path) -> None:
    """Copied over from a plain witness: the state knows which keys it was made with."""
    good(*MADE, *WHOSE)
    good("witness", "init", "--dir", "plain", "--name", "control.example/c1")
    for path in (folder / "plain" / "keys").iterdir():
        (folder / "compliance" / "keys" / path.name).write_bytes(path.read_bytes())

    result = run("witness", "follow", "http://127.0.0.1:1", "--dir", "compliance", "--once")

    assert result.exit_code == 1
    assert "are not those that it was made with" in result.stderr


def test_the_key_of_attestations_is_another_than_those_that_cosign(good: Run, folder: Path) -> None:
    said = good(*MADE, *WHOSE, "--json").stdout
    made = FollowerFolder(folder / "compliance")

    assert json.loads(said)["iss"] == "https://control.example"
    assert good("witness", "vkey", "--dir", "compliance").stdout.split() == json.loads(said)["vkeys"]
    assert (made.load_issuer().public.to_pem()) == made.issuer_public.read_bytes()
    assert (folder / "compliance" / "keys" / "issuer.pem").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--policy-key", "xyz"), 64, "64 lower-case hexadecimal digits"),
        (("--name", "two words"), 64, "--name cannot be used"),
    ],
)
def test_a_slip_is_one_line_that_says_what_to_do(
    run: Run, folder: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    result = run(*MADE, *WHOSE, *words)

    assert result.exit_code == code
    assert says in result.stderr
    assert not (folder / "compliance").exists()


def test_a_log_with_another_policy_key_than_the_pinned_one_is_refused_before_anything_is_written(
    folder: Path, run: Run
) -> None:
    with serving(folder, "--open", "--checkpoint-interval", "0.05") as log:
        assert run(*MADE, *WHOSE).exit_code == 0
        result = run("witness", "follow", log.url, "--dir", "compliance", "--once")

    assert result.exit_code == 1
    assert "another policy key than the pinned one" in result.stderr


@pytest.mark.usefixtures("folder")
def test_no_log_there_is_exit_69(run: Run, good: Run) -> None:
    good(*MADE, *WHOSE)

    assert run("witness", "follow", "http://127.0.0.1:1", "--dir", "compliance", "--once").exit_code == 69


@pytest.mark.parametrize("token", [(), ("--token", "not-a-token")])
def test_a_token_that_the_log_does_not_take_is_77_and_said_in_json(
    folder: Path, good: Run, run: Run, token: tuple[str, ...]
) -> None:
    with serving(folder, "--checkpoint-interval", "0.05") as log:
        pinned = Config.read(Folder(folder / "log").config).policy_key.hex()
        good(*MADE, *WHOSE, "--policy-key", pinned)
        result = run("witness", "follow", log.url, "--dir", "compliance", "--once", "--json", *token)

    last = json.loads(result.stdout.splitlines()[-1])
    assert result.exit_code == 77
    assert (last["event"], last["what"], last["cosigned"]) == ("round", "refused", None)


def test_a_configuration_that_is_spoilt_is_65(run: Run, good: Run, folder: Path) -> None:
    good(*MADE, *WHOSE)
    (folder / "compliance" / "follow.toml").write_text("policy-key = 7\n")
    result = run("witness", "follow", "http://127.0.0.1:1", "--dir", "compliance", "--once")

    assert result.exit_code == 65
    assert "follow.toml" in result.stderr


def test_what_is_told_on_the_terminal_is_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    _say({"event": "records", "first": 0, "end": 9, "failing": 2, "checks": {"R5.1": 2, "R9.3": 1}})

    assert "checks R5.1 2, R9.3 1" in capsys.readouterr().out


def test_errors_over_http_are_problem_details_and_it_has_no_add_checkpoint(folder: Path, good: Run) -> None:
    with serving(folder, "--open", "--checkpoint-interval", "0.05") as log:
        pinned = Config.read(Folder(folder / "log").config).policy_key.hex()
        good(*MADE, *WHOSE, "--policy-key", pinned)
        words = ("witness", "follow", log.url, "--dir", "compliance", "--port", "0", "--interval", "0.1")
        work = folder / "running"
        work.mkdir()
        (work / "compliance").symlink_to(folder / "compliance")
        with running(work, *words) as (url, _):
            until_cosigned(url, 3)
            bad = [
                asyncio.run(get(f"{url}{path}"))
                for path in ("/findings?limit=0", "/findings?verdict=pass", "/findings?x=1", "/entries/99",
                             "/periods/7", "/misbehaviour?after=-1", "/add-checkpoint", f"/{'0' * 64}/checkpoint")
            ]  # fmt: skip
            first = asyncio.run(get(f"{url}/entries?limit=2"))
            then = asyncio.run(get(f"{url}/entries?limit=2&after=1"))

    assert [status for status, _, _ in bad] == [400, 400, 400, 404, 404, 400, 404, 404]
    assert {kind for _, kind, _ in bad} == {"application/concise-problem-details+cbor"}
    assert all(isinstance(decode(body), dict) for _, _, body in bad)
    page = json.loads(first[2])
    assert ([each["index"] for each in page["entries"]], page["next"]) == ([0, 1], 1)
    assert [each["index"] for each in json.loads(then[2])["entries"]] == [2]
