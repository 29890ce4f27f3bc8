"""Whether all views of a log are of one tree: each is how the largest of them begins, by the tiles of that one.

Two of one size are compared by their roots. For the others the root of that size is computed from the tiles of the
largest tree whose tiles can be read, each of which is checked against its root: so if it is not the one that was
signed, the log's own signatures convict it, and the consistency proof to that other root is the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from transparency.client.tiles import TileClient, TiledTree
from transparency.errors import ProofError, ServiceRefusedError, UnreachableError
from transparency.verifier.evidence import Evidence
from transparency.witness.monitor_alarms import Alarm, Code
from transparency.witness.monitor_views import View


@dataclass(slots=True)
class Compared:
    """What comparing gave: the largest view whose tiles could be read, its tree, and what is wrong.

    ``tree`` is None where not everything could be compared with it.
    """

    reference: View | None = None
    tree: TiledTree | None = None
    alarms: list[Alarm] = field(default_factory=list)

    @property
    def split(self) -> bool:
        return any(alarm.code == "split-view" for alarm in self.alarms)


async def compare(known: Sequence[View], views: Sequence[View]) -> Compared:
    """Compare what is shown now (*views*) with itself and with what was shown before (*known*)."""
    compared = Compared(alarms=_same_sizes((*known, *views)))
    await _find_reference(compared, (*views, *known), [view.client for view in views if view.client is not None])
    if compared.tree is not None and compared.reference is not None:
        await _check_prefixes(compared, compared.reference, compared.tree, (*views, *known), known)
    return compared


def _same_sizes(views: Sequence[View]) -> list[Alarm]:
    alarms = []
    first: dict[int, View] = {}
    for view in views:
        other = first.setdefault(view.size, view)
        if other.root != view.root:
            detail = f"two trees of size {view.size}: another root at {other.place}"
            alarms.append(_split(view.place, detail, Evidence("split-view", (other.note, view.note)), view.origin))
    return alarms


async def _find_reference(compared: Compared, views: Sequence[View], clients: Sequence[TileClient]) -> None:
    for view in sorted(views, key=lambda each: each.size, reverse=True):
        # Whoever serves the checkpoint has to serve its tiles; others may have them too.
        own = [] if view.client is None else [view.client]
        for client in (*own, *(each for each in clients if each is not view.client)):
            tree = TiledTree(client, view.signed.checkpoint)
            try:
                await tree.check_root()
            except (ProofError, UnreachableError, ServiceRefusedError) as error:
                if client is view.client:
                    compared.alarms.append(tile_alarm(view, error))
            else:
                compared.reference, compared.tree = view, tree
                return


async def _check_prefixes(
    compared: Compared, reference: View, tree: TiledTree, views: Sequence[View], known: Sequence[View]
) -> None:
    checked: set[tuple[int, bytes]] = set()
    for view in views:
        tip = view.size, view.root
        if not 0 < view.size < reference.size or tip in checked:
            continue
        checked.add(tip)
        try:
            root = await tree.root_at(view.size)
            path = () if root == view.root else tuple(await tree.consistency_path(view.size))
        except (ProofError, UnreachableError, ServiceRefusedError) as error:
            compared.alarms.append(tile_alarm(reference, error))
            compared.tree = None
            return
        if root != view.root:
            evidence = Evidence("split-view", (view.note, reference.note), root, path)
            detail = f"the tree of {reference.size} at {reference.place} does not begin with that of {view.size}"
            # What was shown before is not to blame for what is shown now.
            place = reference.place if view in known else view.place
            compared.alarms.append(_split(place, f"{detail} at {view.place}", evidence, view.origin))


def tile_alarm(view: View, error: Exception) -> Alarm:
    """Tiles that are false, or not there although the checkpoint is; a URL that stopped answering is another thing."""
    code: Code = "unreachable" if isinstance(error, UnreachableError) else "bad-tile"
    return Alarm(code, view.origin, view.place, str(error), Evidence("bad-tile", (view.note,)))


def _split(place: str, detail: str, evidence: Evidence, origin: str) -> Alarm:
    return Alarm("split-view", origin, place, detail, evidence)
