"""Whether all views of a log are of one tree: each is how the largest of them begins.

Two of one size are compared by their roots. For the others the root of that size is computed: from the tiles of the
largest tree whose tiles can be read, each of which is checked against its root, and where the tree that was followed
before is larger, from what was kept of that (monitor_trail.py). If it is not the root that was signed, the log's own
signatures convict it, and the consistency proof to that other root is the evidence. What can be compared in neither way
is said, and waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from transparency.client.tiles import TileClient, TiledTree
from transparency.errors import ProofError, ServiceRefusedError, UnreachableError
from transparency.verifier.evidence import Evidence
from transparency.witness.monitor_alarms import Alarm, Code
from transparency.witness.monitor_trail import Trail
from transparency.witness.monitor_views import View

_FAILURES = (ProofError, UnreachableError, ServiceRefusedError)


@dataclass(frozen=True, slots=True)
class Followed:
    """The tree that was followed before: as it was signed, and what was kept of it."""

    view: View
    trail: Trail


@dataclass(slots=True)
class Compared:
    """What comparing gave: the largest view whose tiles could be read, its tree, and what is wrong.

    ``tree`` is None where not everything could be compared with it. ``waiting``: what could be compared with nothing.
    ``read``: the places whose tiles gave the root that they show.
    """

    reference: View | None = None
    tree: TiledTree | None = None
    alarms: list[Alarm] = field(default_factory=list)
    waiting: list[View] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    @property
    def split(self) -> bool:
        return any(alarm.code == "split-view" for alarm in self.alarms)


async def compare(
    known: Sequence[View],
    views: Sequence[View],
    waiting: Sequence[View] = (),
    followed: Followed | None = None,
    suspects: Collection[str] = (),
) -> Compared:
    """Compare what is shown now (*views*) with itself, with what was shown before (*known*) and what waits for it.

    *suspects* are places whose tiles are looked at, whether they are needed or not: they have been wrong.
    """
    before = [*known, *([] if followed is None else [followed.view])]
    compared = Compared(alarms=_same_sizes((*before, *waiting, *views)))
    clients = [view.client for view in views if view.client is not None]
    await _find_reference(compared, (*views, *waiting, *before), clients)
    for view in views:
        if view.place in suspects and view is not compared.reference and view.client is not None:
            await _tree(compared, view, view.client)
    checked: set[tuple[int, bytes]] = set()
    for view in (*waiting, *views, *before):
        if view.size and (view.size, view.root) not in checked:
            checked.add((view.size, view.root))
            by_tiles = await _by_tiles(compared, view, followed)
            by_trail = followed is not None and _by_trail(compared, view, followed)
            if not by_tiles and not by_trail and view not in before:
                compared.waiting.append(view)
    unique: dict[str, Alarm] = {}
    for alarm in compared.alarms:
        unique.setdefault(alarm.key, alarm)
    compared.alarms = list(unique.values())
    return compared


def _same_sizes(views: Iterable[View]) -> list[Alarm]:
    alarms = []
    first: dict[int, View] = {}
    for view in views:
        other = first.setdefault(view.size, view)
        if other.root != view.root:
            detail = f"two trees of {view.size} entries: {_root(other)}, {_root(view)}"
            alarms.append(_split(other, view, detail, Evidence("split-view", (other.note, view.note))))
    return alarms


async def _find_reference(compared: Compared, views: Sequence[View], clients: Sequence[TileClient]) -> None:
    for view in sorted(views, key=lambda each: each.size, reverse=True):
        # Whoever serves the checkpoint has to serve its tiles; others may have them too.
        own = [] if view.client is None else [view.client]
        for client in (*own, *(each for each in clients if each is not view.client)):
            tree = await _tree(compared, view, client)
            if tree is not None:
                compared.reference, compared.tree = view, tree
                return


async def _tree(compared: Compared, view: View, client: TileClient) -> TiledTree | None:
    tree = TiledTree(client, view.signed.checkpoint)
    try:
        await tree.check_root()
    except _FAILURES as error:
        if client is view.client:
            compared.alarms.append(tile_alarm(view, error))
        return None
    if client is view.client:
        compared.read.add(view.place)
    return tree


async def _by_tiles(compared: Compared, view: View, followed: Followed | None) -> bool:
    """Compare with the tree whose tiles can be read; whether that could be done."""
    reference, tree = compared.reference, compared.tree
    if reference is None or tree is None or view.size > reference.size:
        return False
    if view.size == reference.size:
        # With itself, that is: nothing is shown by that while a larger tree was followed.
        return followed is None or followed.view.size <= reference.size
    try:
        root = await tree.root_at(view.size)
        path = () if root == view.root else tuple(await tree.consistency_path(view.size))
    except _FAILURES as error:
        compared.alarms.append(tile_alarm(reference, error))
        compared.read.discard(reference.place)
        compared.tree = None
        return False
    if root != view.root:
        compared.alarms.append(_other_beginning(view, reference, root, path))
    return True


def _by_trail(compared: Compared, view: View, followed: Followed) -> bool:
    """Compare with the tree that was followed before, where that is the larger one; whether that could be done."""
    reference = None if compared.tree is None else compared.reference
    if reference is not None and reference.size >= followed.view.size:
        return False
    if not followed.trail.reaches(view.size):
        return False
    root = followed.trail.root_at(view.size)
    if root != view.root and view.size < followed.view.size:
        path = tuple(followed.trail.consistency_path(view.size))
        compared.alarms.append(_other_beginning(view, followed.view, root, path))
    return True


def tile_alarm(view: View, error: Exception) -> Alarm:
    """Tiles that are false, or not there although the checkpoint is; a URL that stopped answering is another thing."""
    code: Code = "unreachable" if isinstance(error, UnreachableError) else "bad-tile"
    return Alarm(code, view.origin, view.place, str(error), Evidence("bad-tile", (view.note,)))


def _other_beginning(small: View, large: View, root: bytes, path: tuple[bytes, ...]) -> Alarm:
    evidence = Evidence("split-view", (small.note, large.note), root, path)
    detail = f"the first {small.size} of {large.size} entries are others: {_root(large)}, {_root(small)}"
    return _split(small, large, detail, evidence)


def _root(view: View) -> str:
    return f"{view.root.hex()[:16]} ({view.size}) at {view.place}{view.when}"


def _split(one: View, other: View, detail: str, evidence: Evidence) -> Alarm:
    """Both places are named: which of them is shown the log that others see, the signatures do not say."""
    place = " and ".join(sorted({one.place, other.place}))
    return Alarm("split-view", one.origin, place, detail, evidence, (one, other))
