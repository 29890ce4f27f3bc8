"""What ``verify`` asks of witnesses, and what it remembers of logs: ``--witness-policy``, ``--proof``, ``--state``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import MAX_KEY_FILE, read_input, write_output
from transparency.cli.verify_inputs import proof_beside
from transparency.errors import TransparencyError
from transparency.notes.policy import WitnessPolicy
from transparency.verifier.seen import MAX_STATE, SeenTrees

_F = TypeVar("_F", bound=Callable[..., Any])


def witness_options() -> Callable[[_F], _F]:
    """``--witness-policy``, ``--proof``, ``--state`` and, for evidence, ``--log-vkey``."""

    def decorate(function: _F) -> _F:
        function = click.option(
            "--log-vkey", multiple=True, metavar="VKEY",
            help="For evidence: a verifier key of the log, as `transparency log vkey` prints it (repeatable).",
        )(function)  # fmt: skip
        function = click.option(
            "--state", type=click.Path(), metavar="FILE",
            help="Remember the last tree of each log here, and compare: a fork is noticed.",
        )(function)  # fmt: skip
        function = click.option(
            "--proof", type=click.Path(), metavar="TLOG-PROOF",
            help="The proof to a cosigned checkpoint, if it is not in the receipt nor beside the file (x.tlog-proof).",
        )(function)  # fmt: skip
        return click.option(
            "--witness-policy", type=click.Path(), metavar="FILE",
            help="Ask for a quorum of witnesses (a C2SP policy file: logs, witnesses, quorum).",
        )(function)  # fmt: skip

    return decorate


def load_policy(path: str | None) -> WitnessPolicy | None:
    """The policy file; what it lacks to be of use here is said before any statement is read."""
    if path is None:
        return None
    try:
        policy = WitnessPolicy.from_text(read_input(path, most=MAX_KEY_FILE))
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{path}: {error}", "docs/verify.md shows a policy file.") from error
    if not policy.logs:
        hint = "Add `log VKEY` (`transparency log vkey` prints it): else anybody's checkpoint would do."
        raise CommandError(Exit.BAD_INPUT, f"{path}: the policy names no log", hint)
    return policy


def load_seen(path: str | None) -> SeenTrees | None:
    """What was seen; nothing yet where there is no file."""
    if path is None:
        return None
    if not Path(path).exists():
        return SeenTrees()
    try:
        return SeenTrees.from_json(read_input(path, most=MAX_STATE))
    except TransparencyError as error:
        hint = "It is left as it is; name another file to start anew."
        raise CommandError(Exit.BAD_INPUT, f"--state {path}: {error}", hint) from error


def keep_seen(path: str | None, seen: SeenTrees | None) -> None:
    """Write the state whole or not at all, if there is anything new."""
    if path is not None and seen is not None and seen.changed:
        try:
            write_output(path, seen.to_json(), force=True)
        except CommandError as error:
            hint = "What was seen this time is not remembered: make room, or name another --state."
            raise CommandError(error.code, f"--state {error}", hint) from error


def find_proofs(file: str, given: str | None) -> list[bytes]:
    """The proof given, or the one beside the file; those in receipts are found by the verifier."""
    path = proof_beside(file) if given is None else given
    return [] if path is None else [read_input(path, most=MAX_KEY_FILE)]
