"""Moving the high-water mark to a second database. Never are two marks good at once.

A mark that was left behind, whole and locked by nobody, would let an older copy of the log go on from it. So it is
closed where it was:

1. the old mark is held, and it and the new one, if there is one, are compared with the tree;
2. the old one is closed: "on its way to the new place". From here on nobody goes on from it;
3. the new one begins, with the tip;
4. the old one says "arrived";
5. the log's database names the new one (mark_named.py), before anything is released.

A crash after 2 leaves neither good, and a message that says how to finish it: name the new place again. Only a mark
that is still on its way lets one begin there. After 4 a new place that lost its mark is refused like any other. Where
the log's database names a mark, none but that one moves: a file that was left somewhere vouches for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from transparency.errors import TransparencyError
from transparency.log.mark import Check, Mark, MarkValue, Moved, bearer_of, do_without
from transparency.log.mark_named import NamedMark, check_same
from transparency.log.mark_postgres import Place, PostgresMark


class IntoDatabase:
    """How the leader of *epoch* comes to the mark in the database *url*, from wherever the mark was.

    *file* is this machine's mark, which may be there; *leaving* is the place that the configuration names, where it is
    another than *url*; *named* is the mark that the log's database names. *vouched* is the operator's word for the tip:
    then old marks that are away are done without.
    """

    def __init__(
        self,
        url: str,
        origin: str,
        epoch: int,
        here: Place,
        *,
        file: Path,
        leaving: Path | str | None,
        named: NamedMark | None,
        vouched: bool,
    ) -> None:
        self._url, self._origin, self._epoch, self._here = url, origin, epoch, here
        self._file, self._leaving, self._named, self._vouched = file, leaving, named, vouched

    def open(self, tip: MarkValue, check: Check, *, may_begin: bool) -> PostgresMark:
        new = PostgresMark.reach(self._url, self._origin, self._epoch, self._here)
        try:
            with ExitStack() as held:
                self._move(held, new, tip, check, may_begin=may_begin)
        except BaseException:
            new.close()
            raise
        return new

    def _move(self, held: ExitStack, new: PostgresMark, tip: MarkValue, check: Check, *, may_begin: bool) -> None:
        if new.exists:
            check(new.value)
        olds = [old for old in (self._old_database(held, new), self._old_file(held, new)) if old is not None]
        for old in olds:
            old.own()
            check(old.value)
        if not self._vouched and new.moved is None:  # before an empty store is said to have none: where it is helps
            self._check_same(new, olds, tip)
        if not new.exists:
            fresh = new.moved is None and (may_begin or self._vouched)
            cut_short = new.moved is not None and not new.moved.arrived and self._vouched
            if not (fresh or cut_short or any(_is_good(old.moved) for old in olds)):
                new.check_there(tip)
        if not self._vouched:
            self._check_same(new, olds, tip)
        if not new.exists:
            for old in olds:
                if old.moved is None:
                    old.leave(new.name, arrived=False)
            new.begin(tip)
            new.check_there(tip)
        for old in olds:
            if _is_good(old.moved):
                old.leave(new.name, arrived=True)

    def _check_same(self, new: PostgresMark, olds: Sequence[PostgresMark | Mark], tip: MarkValue) -> None:
        ids = [each.id for each in (new, *olds) if isinstance(each, PostgresMark)]
        check_same(self._named, ids, new.name, tip)

    def _old_database(self, held: ExitStack, new: PostgresMark) -> PostgresMark | None:
        if not isinstance(self._leaving, str):
            return None
        try:
            old = PostgresMark.reach(self._leaving, self._origin, self._epoch, self._here)
        except TransparencyError as error:
            self._without(error)
            return None
        held.callback(old.close)
        if old.is_in(new) or not (old.exists or old.moved):
            return None
        if old.moved is not None and old.moved.to != new.name:
            try:
                old.check_there(None)
            except TransparencyError as error:
                self._without(error)
                return None
        return old

    def _old_file(self, held: ExitStack, new: PostgresMark) -> Mark | None:
        if not self._file.exists() or bearer_of(self._file, self._origin) != "this log":
            return None
        try:
            old = Mark.open(self._file, self._origin, bound_for=new.name)
        except TransparencyError as error:
            if self._leaving == self._file:  # of one that went elsewhere long ago nothing is wanted any more
                self._without(error)
            return None
        held.callback(old.close)
        return old

    def _without(self, error: TransparencyError) -> None:
        do_without(error, vouched=self._vouched)


def _is_good(moved: Moved | None) -> bool:
    """Whether the mark was in force until now: here, or on its way."""
    return moved is None or not moved.arrived
