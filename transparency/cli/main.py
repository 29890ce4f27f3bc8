"""The ``transparency`` command: the root group, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from transparency.cli.errors import DEBUG_VARIABLE, CommandError, Failure, describe
from transparency.cli.exits import Exit
from transparency.cli.lazy import LazyGroup
from transparency.cli.redaction import misplaced, redacted

_COMMANDS = {
    "demo": ("transparency.cli.demo", "Watch a session being registered and verified, in a minute."),
    "keygen": ("transparency.cli.keygen", "Make a signing key."),
    "sign": ("transparency.cli.sign", "Sign a record as a statement."),
    "submit": ("transparency.cli.submit", "Register sessions, keep each with its receipt."),
    "show": ("transparency.cli.show", "Read a session as a timeline."),
    "check": ("transparency.cli.check", "Check a session against its format."),
    "convert": ("transparency.cli.convert", "Convert a session to a canonical record."),
    "verify": ("transparency.cli.verify", "Verify statements and receipts, offline."),
    "report": ("transparency.cli.report", "Show what records evidence of what rules ask for."),
    "review": ("transparency.cli.review", "Register that a person reviewed an entry."),
    "attest": ("transparency.cli.attest", "Register what no data can show, until a date."),
    "incident": ("transparency.cli.incident", "Extract what records say of an incident, with proofs."),
    "attribution": ("transparency.cli.attribution", "Show which lines a session wrote, and check them."),
    "blame": ("transparency.cli.blame", "Say who or what wrote a line, and where that is proven."),
    "disclose": ("transparency.cli.disclose", "Disclose one redacted original."),
    "search": ("transparency.cli.search", "Find registered entries by session, tool, path, time …"),
    "prove": ("transparency.cli.prove", "Keep the proof that witnesses have seen an entry."),
    "inspect": ("transparency.cli.inspect", "Show what a statement, receipt or key says."),
    "keys": ("transparency.cli.keys", "Fetch a log's public keys."),
    "init": ("transparency.cli.init", "Create a log."),
    "serve": ("transparency.cli.serve", "Run a log."),
    "issuer": ("transparency.cli.issuer", "Who may register: add, list, remove, compromise."),
    "token": ("transparency.cli.token", "Access tokens: create, list, revoke."),
    "policy": ("transparency.cli.policy", "The registration policy: show, check, diff, explain, set."),
    "audit": ("transparency.cli.audit", "Replay every registration decision of a log."),
    "retention": ("transparency.cli.retention", "How long records are kept: plan, apply, hold, release."),
    "log": ("transparency.cli.log", "Status, fsck, manifest, backup, restore, rotate-key."),
    "witness": ("transparency.cli.witness", "Cosign checkpoints of logs: serve; or after replaying: follow."),
    "mirror": ("transparency.cli.mirror", "Keep copies of logs, cosign and serve them."),
    "monitor": ("transparency.cli.monitor", "Follow logs, and say when one breaks its word."),
    "doctor": ("transparency.cli.doctor", "Check clock, disk, keys, TLS and the log."),
}


class Cli(LazyGroup):
    """The root group. ``main`` replaces click's so that every exit code is ours, also under click's test runner."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        words = list(sys.argv[1:] if args is None else args)
        name = prog_name or "transparency"
        self._main_shell_completion(extra, name, complete_var)
        _never_fail_to_encode()
        if not standalone_mode:
            return super().main(
                words, name, complete_var, standalone_mode=False, windows_expand_args=windows_expand_args, **extra
            )
        try:
            _refuse_secrets(words)
            with self.make_context(name, words, **extra) as ctx:
                self.invoke(ctx)
                sys.stdout.flush()
        except click.exceptions.Exit as done:
            sys.exit(done.exit_code)
        except click.exceptions.NoArgsIsHelpError as asked:
            # A group without a command: its help, as the root gives its own.
            click.echo(asked.ctx.get_help())
        except BrokenPipeError:
            _quiet_broken_pipe()
        except (KeyboardInterrupt, click.Abort, EOFError):
            click.echo("interrupted", err=True)
            sys.exit(Exit.INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - the one boundary: nothing passes it as a traceback
            _fail(error, words)
        sys.exit(Exit.OK)


@click.group(
    cls=Cli,
    table=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
    invoke_without_command=True,
    epilog="Settings: TRANSPARENCY_LOG, TRANSPARENCY_TOKEN, TRANSPARENCY_KEY, or ~/.config/transparency/config.toml. "
    "Exit codes: 0 done or verified, 1 negative verdict, 2 cannot tell, 3 warnings only, 64 usage, 65 bad input, "
    "66 file missing, 69 log unreachable, 70 internal, 73 output exists, 75 try later, 77 refused.",
)
@click.version_option(package_name="agent-transparency", prog_name="transparency")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Sign AI-agent records, register them on a transparency log, and verify them offline.

    Start with `transparency demo`.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run() -> NoReturn:
    """The console script."""
    cli.main()
    raise AssertionError  # main always exits


def _fail(error: Exception, words: Sequence[str]) -> NoReturn:
    if os.environ.get(DEBUG_VARIABLE) == "1":
        import traceback

        click.echo(redacted("".join(traceback.format_exception(error))), err=True)
    failure: Failure = describe(error)
    flags = words[: words.index("--")] if "--" in words else words
    with contextlib.suppress(OSError):  # who cannot be told why is told by the code
        click.echo(failure.to_json() if "--json" in flags else failure.line(), err=True)
    sys.exit(failure.code)


def _refuse_secrets(words: Sequence[str]) -> None:
    """Before anything is done with them: a path made of a private key would become a file's or folder's name."""
    fault = misplaced(words, os.environ)
    if fault is not None:
        raise CommandError(Exit.USAGE, fault)


def _never_fail_to_encode() -> None:
    """A terminal that cannot show a character shows a question mark; it is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _quiet_broken_pipe() -> NoReturn:
    # Python flushes stdout at exit and would complain again: point the descriptor at nothing first.
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):  # no real stdout (under a test runner): nothing to silence
        os.close(null)
    sys.exit(Exit.BROKEN_PIPE)
