"""``transparency witness forget|renew-mark``: the two ways to make a witness trust less than it has seen. Both loud."""

from __future__ import annotations

import time
from pathlib import Path

import click

from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.output import done, timestamp, warn
from transparency.cli.witness_folders import dir_option, require_either, require_witness


@click.command(
    epilog="\b\nExample: transparency witness forget --dir ./witness ORIGIN --i-know-this-allows-a-split-view"
)
@dir_option()
@click.argument("origin", metavar="ORIGIN")
@click.option("--i-know-this-allows-a-split-view", "sure", is_flag=True, help="There is no other way to run this.")
def forget(folder: Path, origin: str, sure: bool) -> None:
    """Forget what was cosigned for a log. DANGEROUS: the log could get a second history cosigned.

    To stop cosigning for a log, take it off DIR/logs.toml instead: that keeps what is recorded. This is for a log that
    was started anew under its old name; a new origin is the honest way. That, and what, was forgotten stays on record.
    """
    from transparency.witness.state import open_state

    if not sure:
        raise CommandError(
            Exit.REFUSED, f"forgetting {origin} would let it show two histories, both with this witness' cosignature",
            f"To stop cosigning, take it off {folder / 'logs.toml'}. If you must: --i-know-this-allows-a-split-view.",
        )  # fmt: skip
    found = require_witness(folder)
    with storage(found.state), open_state(found) as state:
        record = state.forget(origin, int(time.time()))
    warn(f"{origin}: forgotten at size {record.size}, root {record.root.hex()}, cosigned {timestamp(record.time)}")
    warn("this witness will cosign ANY tree of this log next. Whoever relies on it should be told.")
    done("the last checkpoint was kept; `transparency witness list` shows that one was forgotten")


@click.command(
    "renew-mark",
    epilog="\b\nExample: transparency witness renew-mark --dir ./witness --i-know-this-state-is-the-newest",
)
@dir_option()
@click.option("--i-know-this-state-is-the-newest", "sure", is_flag=True, help="There is no other way to run this.")
def renew(folder: Path, sure: bool) -> None:
    """Make the high-water mark anew, where it is lost. DANGEROUS if the folder is an older copy.

    The mark is what tells an old copy of the folder from the newest state. If the folder may be an old copy, start a
    new witness with a new name instead.
    """
    from transparency.witness.state import renew_mark

    if not sure:
        raise CommandError(
            Exit.REFUSED, "if this folder is an older copy, logs can get a second history cosigned",
            "If you are sure that it is not: --i-know-this-state-is-the-newest. Else start a new witness.",
        )  # fmt: skip
    found = require_either(folder)
    with storage(found.state):
        value = renew_mark(found)
    warn("nothing vouches for this state but your word")
    done(f"the mark stands at change {value.size}")
