"""A command whose argument may be an entry id, of which one in 64 begins with a dash and is no option for that."""

from __future__ import annotations

import click

from transparency.errors import MalformedError
from transparency.statements.statement import parse_entry_id

_ARGUMENTS_FOLLOW = "--"


class EntryCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        dashed = [word for word in args if word.startswith("-") and _is_entry_id(word)]
        if dashed and _ARGUMENTS_FOLLOW not in args:
            args = [*(word for word in args if word not in dashed), _ARGUMENTS_FOLLOW, *dashed]
        return super().parse_args(ctx, args)


def _is_entry_id(word: str) -> bool:
    try:
        parse_entry_id(word)
    except MalformedError:
        return False
    return True
