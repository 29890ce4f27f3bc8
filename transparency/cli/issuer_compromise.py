"""``transparency issuer compromise``: say on the log that a key is not to be believed, and list what it registered."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import change_policy, open_admin, require_log
from transparency.cli.issuer_files import find_key, load_named_key, named_option
from transparency.cli.output import done, out, safe, timestamp, warn
from transparency.cli.settings import data_option, json_option
from transparency.cose.keys import PublicKey
from transparency.errors import MalformedError, SignatureInvalidError, UnsupportedAlgorithmError
from transparency.log.folder import Folder
from transparency.log.store import Kind, Store
from transparency.log.stores import open_for_reading
from transparency.policy.document import Policy
from transparency.policy.patterns import Pattern
from transparency.policy.toml import write_time
from transparency.records.timestamps import instant
from transparency.statements.statement import Statement, entry_id

_EXAMPLE = (
    "transparency issuer compromise --data ./log --iss https://acme.example --kid 3f2a --since 2026-11-01T00:00:00Z"
)


@dataclass(frozen=True, slots=True)
class Affected:
    """An entry by the compromised key, registered when it was one already."""

    index: int
    entry: str
    time: int
    sub: str


@click.command("compromise", epilog=f"\b\nExample: {_EXAMPLE}")
@data_option()
@named_option()
@click.option("--kid", metavar="HEX", help="The key: its id or thumbprint, or the beginning of either.")
@click.option("--key", "key_file", type=click.Path(), metavar="FILE", help="Or: the public key itself.")
@click.option(
    "--cert", type=click.Path(), metavar="FILE", help="Or: a certificate of it, where the issuer is known by a root."
)
@click.option("--since", required=True, metavar="TIME", help="Since when, as 2026-11-01T00:00:00Z.")
@json_option()
def command(
    data: Path,
    iss: str | None,
    pattern: str | None,
    kid: str | None,
    key_file: str | None,
    cert: str | None,
    since: str,
    as_json: bool,
) -> None:
    """Register that a key is compromised. It signs nothing more from now on, whatever TIME is.

    What it registered stays, and is listed here if that was at TIME or later: one line an entry, index, id, time and
    sub, whichever way it named the key. Verifiers that know of the compromise believe what was registered before. A
    key that was removed already, or was known by its certificate only, is put there for that, as compromised. Run it
    again to list again.
    """
    if sum(given is not None for given in (kid, key_file, cert)) != 1:
        raise CommandError(Exit.USAGE, "which key?", "Give --kid HEX, --key FILE or --cert FILE: one of them.")
    folder = require_log(data)
    name, begin = iss or pattern or "", _time(since)
    with _reading(folder) as store:
        key = _find(store, name, kid) if kid is not None else _known(store, name, load_named_key(key_file, cert))

    def build(policy: Policy, entry: str) -> Policy | None:
        known = policy.issuer(name)
        same = () if known is None else tuple(each for each in known.keys if each.thumbprint == key.thumbprint)
        if known is not None and same and all(known.validity_of(each.kid).compromised_since == begin for each in same):
            return None
        try:
            return policy.with_compromise(name, key, begin, previous=entry, is_pattern=pattern is not None)
        except MalformedError as error:
            raise CommandError(Exit.BAD_INPUT, str(error)) from error

    with open_admin(data) as admin:
        policy, _ = change_policy(admin, folder, build)
    with _reading(folder) as store:
        listing = Listing(store, _matcher(name, is_pattern=pattern is not None), key, begin)
        _print(listing, policy, name, key, as_json=as_json)
    told = f"{key.kid.hex()} of {name} is compromised since {write_time(begin)} (policy generation {policy.generation})"
    done(f"{told}; entries affected: {listing.found}")
    if listing.erased:
        warn(f"erased since then: {listing.erased}; by which key those were is not known here")


def _matcher(name: str, *, is_pattern: bool) -> Callable[[str], bool]:
    return Pattern(name).matches if is_pattern else lambda iss: iss == name


class Listing:
    """The affected entries, read from the store as they are asked for: a log may have millions.

    Registration time is that of the first head that covers an entry, and head times never go back: the first index
    is found by halving, and the rest is one walk along entries and heads. By which key an entry is, its signature
    tells: a kid may have meant another key once, and a certificate names one without any kid.
    """

    def __init__(self, store: Store, is_issuer: Callable[[str], bool], key: PublicKey, since: int) -> None:
        self._store = store
        self._is_issuer = is_issuer
        # Without the algorithm that it may be registered for: under a certificate it had none.
        self._key = PublicKey.from_der(key.to_der())
        self._since = since
        self.found = 0
        self.erased = 0

    def __iter__(self) -> Iterator[Affected]:
        size = self._store.tip().size
        start = self._first(size)
        heads = self._store.heads(start)
        head = next(heads, None)
        for row in self._store.entries(start, size):
            while head is not None and head.size <= row.index:
                head = next(heads, None)
            if head is None or row.kind is not Kind.STATEMENT:
                continue
            if row.erased:
                self.erased += 1
                continue
            statement = Statement.from_bytes(row.statement)
            if self._is_issuer(statement.iss) and self._signed(statement):
                self.found += 1
                yield Affected(row.index, entry_id(row.entry), head.time, statement.sub)

    def _signed(self, statement: Statement) -> bool:
        try:
            statement.verify(self._key)
        except (SignatureInvalidError, UnsupportedAlgorithmError):
            return False
        return True

    def _first(self, size: int) -> int:
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            head = self._store.head_covering(middle)
            if head is not None and head.time >= self._since:
                high = middle
            else:
                low = middle + 1
        return low


def _print(listing: Listing, policy: Policy, name: str, key: PublicKey, *, as_json: bool) -> None:
    if not as_json:
        console = out()
        for each in listing:
            console.print(f"{each.index}  {each.entry}  {timestamp(each.time)}  {safe(each.sub)}")
        return
    head = {"issuer": name, "kid": key.kid.hex(), "generation": policy.generation}
    # One object, written as it is found.
    sys.stdout.write(f'{json.dumps(head)[:-1]}, "affected": [')
    for number, each in enumerate(listing):
        row = {"index": each.index, "entry": each.entry, "time": each.time, "sub": each.sub}
        sys.stdout.write(f"{',' if number else ''}\n  {json.dumps(row)}")
    sys.stdout.write(f'], "count": {listing.found}, "erased": {listing.erased}}}\n')


@contextlib.contextmanager
def _reading(folder: Folder) -> Iterator[Store]:
    """The store, beside whoever owns it: a server goes on meanwhile."""
    store = open_for_reading(folder)
    try:
        yield store
    finally:
        store.close()


def _find(store: Store, name: str, kid: str) -> PublicKey:
    """The key of the newest policy that has it: one that was removed in haste can still be named."""
    for row in reversed(store.documents(Kind.POLICY)):
        issuer = Policy.from_toml(Statement.from_bytes(row.statement).payload).issuer(name)
        with contextlib.suppress(CommandError):
            return find_key(issuer.keys if issuer is not None else (), kid)
    raise CommandError(
        Exit.BAD_INPUT,
        f"--kid {kid} names no key, or several, that {name} has or had",
        "Give 4 hex digits or more of one.",
    )


def _known(store: Store, name: str, key: PublicKey) -> PublicKey:
    """*key* as the newest policy that has *name* registers it, or by its thumbprint where that registers it not."""
    for row in reversed(store.documents(Kind.POLICY)):
        issuer = Policy.from_toml(Statement.from_bytes(row.statement).payload).issuer(name)
        if issuer is not None:
            return next((each for each in issuer.keys if each.thumbprint == key.thumbprint), key)
    raise CommandError(Exit.BAD_INPUT, f"{name} is no issuer here, and was none", "See `transparency issuer list`.")


def _time(text: str) -> int:
    milliseconds = instant(text)
    if milliseconds is None or milliseconds < 0:
        raise CommandError(Exit.USAGE, f"--since {text} is not a time", "As 2026-11-01T00:00:00Z.")
    if milliseconds > time.time() * 1000:
        raise CommandError(Exit.USAGE, f"--since {text} is in the future")
    return milliseconds // 1000
