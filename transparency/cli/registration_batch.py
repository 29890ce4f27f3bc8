"""Many sessions: begun one after another, registered together, each kept with its receipt as soon as that has come.

A batch is begun only when the one before is settled, and the first is a single session: a log that is not there, or
does not let us in, is found out before more is signed than that. A kill loses nothing: what was begun is found as it
was signed, and registering it again changes nothing (cli/registration.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from transparency.cli.errors import CommandError
from transparency.cli.kept_files import MeanwhileError
from transparency.cli.outcome import Begun, Outcome
from transparency.cli.registration import Registrar
from transparency.cli.sessions import Source
from transparency.errors import ServiceRefusedError, TransparencyError, UnreachableError

if TYPE_CHECKING:
    from transparency.client.client import Submission
    from transparency.client.sync import SyncLogClient

LARGEST = 64
# The next session would meet the same: a log that cannot be reached, is busy, or does not let us in.
STOPPING = frozenset({401, 403, 429, 503})

Settled = Outcome | CommandError | TransparencyError


def register_all(
    client: SyncLogClient, registrar: Registrar, sources: Sequence[Source]
) -> Iterator[tuple[Source, Settled]]:
    """What became of each, in order. Raises what would stop the next one too."""
    at, size = 0, 1
    while at < len(sources):
        some = sources[at : at + size]
        if len(some) > 1 and registrar.in_batches:
            yield from _together(client, registrar, some)
        else:
            yield from ((source, _alone(registrar, source)) for source in some)
        at += size
        size = min(2 * size, LARGEST)


def _alone(registrar: Registrar, source: Source) -> Settled:
    try:
        return registrar.register(source)
    except (CommandError, TransparencyError) as error:
        return _bearable(error)


def _together(
    client: SyncLogClient, registrar: Registrar, sources: Sequence[Source]
) -> Iterator[tuple[Source, Settled]]:
    begun = [(source, _begin(registrar, source)) for source in sources]
    statements = [each.statement for _, each in begun if isinstance(each, Begun) and not each.done]
    with closing(client.submit_batch(statements)) as results:
        for source, each in begun:
            if not isinstance(each, Begun):
                yield source, each
            elif each.done:
                yield source, each.outcome
            else:
                yield source, _finish(registrar, each, next(results))
        if statements:
            next(results, None)  # to the end of the answer: its connection serves the next batch


def _begin(registrar: Registrar, source: Source) -> Begun | Settled:
    try:
        return registrar.begin(source)
    except MeanwhileError:
        return _alone(registrar, source)  # it begins again with what another command wrote
    except (CommandError, TransparencyError) as error:
        return _bearable(error)


def _finish(registrar: Registrar, begun: Begun, result: Submission | ServiceRefusedError) -> Settled:
    try:
        if isinstance(result, ServiceRefusedError):
            registrar.refused(begun, result)
            return _bearable(result)
        registrar.finish(begun, result)
    except (CommandError, TransparencyError) as error:
        return _bearable(error)
    return begun.outcome


def _bearable(error: CommandError | TransparencyError) -> Settled:
    if isinstance(error, UnreachableError) or (isinstance(error, ServiceRefusedError) and error.status in STOPPING):
        raise error
    return error
