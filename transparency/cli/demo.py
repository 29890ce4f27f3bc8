"""``transparency demo``: a real log, a signed session, its receipt, offline verification, and two forgeries failing.

Every step is the command shown, run as a process of its own in a temporary folder: what works here works by hand.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import read_input, refuse_existing, write_output
from transparency.cli.output import DIM, GOOD, out, print_tree, safe
from transparency.cli.views import receipt_view
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.statements.transparent import receipts_of

ISSUER = "https://acme.example"
_START_SECONDS = 30.0
_STEP_SECONDS = 60.0
_STOP_SECONDS = 20.0


@click.command(epilog="\b\nExample: transparency demo")
@click.option(
    "--keep", type=click.Path(path_type=Path), metavar="DIR", help="Work in this new folder and leave it there."
)
def command(keep: Path | None) -> None:
    """Watch an agent session being signed, registered and verified, and two forgeries being caught.

    Starts a real log on this machine in a temporary folder, and cleans up.
    """
    if keep is not None:
        refuse_existing(keep, force=False)
        keep.mkdir(parents=True)
        _Demo(keep).run()
        return
    with tempfile.TemporaryDirectory(prefix="transparency-demo-", ignore_cleanup_errors=True) as folder:
        _Demo(Path(folder)).run()


class _Demo:
    """The steps, in their order. Stops at the first that does not do what it should."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._console = out()
        self._step = 0

    def run(self) -> None:
        self._say("A log that keeps what AI agents did.", f"Everything below happens in {self._folder}.")
        with self._server() as url:
            self._prepare(url)
            self._register(url)
        self._say("The log is stopped.", "What follows needs no network and no log: only files and public keys.")
        self._verify()
        self._forge()
        self._console.print(f"\n[{GOOD}]✓ The genuine record verified; both forgeries were caught.[/]")
        self._console.print(
            f"[{DIM}]Next: `transparency --help`, and `transparency serve --data DIR` for a log of your own.[/]"
        )

    def _prepare(self, url: str) -> None:
        self._explain("The log runs", f"It made its keys, its first policy and its store, and listens on {url}.")
        self._explain("The issuer gets a key", "Whoever answers for the agent signs with it.")
        self._run("keygen --alg ES256 --out issuer.pem")
        self._explain("The operator lets that issuer register", "The policy is itself an entry of the log.")
        self._run(f"issuer add --data log --iss {ISSUER} --key issuer.pub.pem")

    def _register(self, url: str) -> None:
        sample = resources.files("transparency.cli").joinpath("sample_session.json").read_bytes()
        write_output(self._folder / "session.json", sample)
        self._explain("The session is signed", "Its exact bytes, with what it is about, as a COSE_Sign1 statement.")
        self._run(f"sign session.json --key issuer.pem --iss {ISSUER} --out session.cose")
        self._explain("Whoever verifies later keeps the log's keys", "Compared once with what the operator published.")
        self._run(f"keys --log {url} --out log.keys")
        self._explain(
            "The statement is registered", "The log checks it, puts it into its tree, and answers with a receipt."
        )
        self._run(f"submit session.cose --log {url} --log-key log.keys --out session.t.cose")
        self._explain("This is the receipt", "A signed tree head, and the path from the statement to it.")
        self._show_receipt()
        self._explain("The log's store is checked from the ground up", "While it runs.")
        self._run("log fsck --data log")

    def _show_receipt(self) -> None:
        self._command("inspect session.t.cose     # of which this is the receipt")
        message = Sign1.from_bytes(read_input(self._folder / "session.t.cose"))
        for receipt in receipts_of(message):
            print_tree(receipt_view(receipt), self._console, 2)

    def _verify(self) -> None:
        self._explain("The genuine record verifies, offline", "By the issuer's and the log's public keys alone.")
        self._run("verify session.t.cose --log-key log.keys --issuer-key issuer.pub.pem")

    def _forge(self) -> None:
        message = Sign1.from_bytes(read_input(self._folder / "session.t.cose"))
        payload = message.payload or b""
        tampered = payload.replace(b"14 passed in 0.38s", b"99 passed in 0.38s")
        write_output(self._folder / "tampered.cose", message.with_payload(tampered).to_bytes())
        self._explain("Somebody changes the record", "The test run said 14 passed; the copy says 99 passed.")
        self._must_fail("tampered.cose", tampered != payload)

        hint = message.unprotected.get(labels.TRACE_METADATA)
        forged = {**hint, "session-id": "urn:uuid:somebody-elses-session"} if isinstance(hint, dict) else {}
        unprotected = {**message.unprotected, labels.TRACE_METADATA: forged}
        write_output(self._folder / "forged.cose", message.with_unprotected(unprotected).to_bytes())
        self._explain(
            "Somebody changes the unsigned label 100",
            "Signature and receipt still hold, but it now names another session than the one that was signed.",
        )
        self._must_fail("forged.cose", bool(forged))

    def _must_fail(self, name: str, made: bool) -> None:
        arguments = f"verify {name} --log-key log.keys --issuer-key issuer.pub.pem"
        code = self._run(arguments, expect=Exit.NEGATIVE, only_failures=True)
        if not made or code != Exit.NEGATIVE:
            raise CommandError(
                Exit.NEGATIVE, f"the forgery {name} was not caught (exit {code})", "This is a bug; report it."
            )
        self._console.print(f"    [{GOOD}]caught: exit code 1[/]")

    # -- running and showing ---------------------------------------------------------------------------------------

    def _run(self, arguments: str, *, expect: int = Exit.OK, only_failures: bool = False) -> int:
        self._command(arguments)
        try:
            ended = subprocess.run(  # noqa: S603 - our own command line
                [*_transparency(), *shlex.split(arguments)],
                cwd=self._folder, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, timeout=_STEP_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise _late(f"`transparency {arguments}` did not end", _STEP_SECONDS) from None
        text = ended.stdout.decode("utf-8", "replace")
        if ended.returncode != expect:
            sys.stdout.write(text)
            code = Exit.CANNOT_WRITE if ended.returncode == Exit.CANNOT_WRITE else Exit.NEGATIVE
            raise CommandError(code, f"`transparency {arguments}` ended with {ended.returncode}, not {int(expect)}")
        for line in text.splitlines():
            if line and (not only_failures or "✗" in line):
                sys.stdout.write(f"    {line}\n")
        sys.stdout.flush()
        return ended.returncode

    @contextlib.contextmanager
    def _server(self) -> Iterator[str]:
        """A real server process, stopped as an operator would stop it."""
        arguments = "serve --data log --host 127.0.0.1 --port 0 --open"
        self._command(arguments)
        errors = self._folder / "serve.log"
        with errors.open("wb") as log, subprocess.Popen(  # noqa: S603 - our own command line
            [*_transparency(), *shlex.split(arguments)],
            cwd=self._folder, env=self._environment(colours=False), stdout=subprocess.PIPE, stderr=log,
            stdin=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                yield self._url(process, errors)
            finally:
                process.terminate()
                try:
                    process.wait(_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()

    def _url(self, process: subprocess.Popen[bytes], errors: Path) -> str:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        with _deadline(process, _START_SECONDS):
            url = process.stdout.readline().decode().strip()
        if not url.startswith("http"):
            if process.wait(_STOP_SECONDS) == -signal.SIGKILL:
                raise _late("the log did not start", _START_SECONDS)
            lines = errors.read_text("utf-8", "replace").splitlines()
            said = lines[-1].removeprefix("error: ") if lines else "it said nothing"
            code = Exit.CANNOT_WRITE if process.returncode == Exit.CANNOT_WRITE else Exit.INTERNAL
            raise CommandError(code, f"the log did not start: {said}")
        return url

    def _environment(self, *, colours: bool = True) -> dict[str, str]:
        """Ours, without settings of the person who runs the demo: it must not touch a log of theirs."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith("TRANSPARENCY_")}
        package = str(Path(__file__).resolve().parents[2])
        mine["PYTHONPATH"] = os.pathsep.join(part for part in (package, mine.get("PYTHONPATH", "")) if part)
        mine["XDG_CONFIG_HOME"] = str(self._folder / "config")
        mine["PYTHONIOENCODING"] = "utf-8"
        mine.pop("FORCE_COLOR", None)
        if colours and self._console.is_terminal and not mine.get("NO_COLOR"):
            mine["FORCE_COLOR"] = "1"
        return mine

    def _say(self, title: str, text: str) -> None:
        self._console.print(f"\n[bold]{safe(title)}[/] {safe(text)}")

    def _explain(self, title: str, text: str) -> None:
        self._step += 1
        self._console.print(f"\n[bold]{self._step}. {safe(title)}.[/] {safe(text)}")

    def _command(self, arguments: str) -> None:
        self._console.print(f"  [cyan]$ transparency {safe(arguments)}[/]")


@contextlib.contextmanager
def _deadline(process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    """Ends a process that keeps us waiting, which ends the wait."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _late(what: str, seconds: float) -> CommandError:
    return CommandError(Exit.TRY_LATER, f"{what} in {seconds:.0f} seconds", "Try again on a less busy machine.")


def _transparency() -> list[str]:
    return [sys.executable, "-m", "transparency"]
