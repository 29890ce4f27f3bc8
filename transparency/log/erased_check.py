"""The check against erasures: what the log says was erased is not here, and nothing else is marked as gone."""

from __future__ import annotations

from collections.abc import Callable

from transparency.log.artifacts import ArtifactStore
from transparency.log.carrying_out import works_of
from transparency.log.store import Store

Add = Callable[[str, str], None]
_FINISH = "`transparency retention apply` finishes it"


def check_erased(store: Store, artifacts: ArtifactStore, origin: str, add: Add) -> None:
    """Tell *add* what does not fit."""
    erased: set[str] = set()
    for work in works_of(store, origin):
        erased.update(work.digests)
        for index in work.payloads:
            row = store.entry(index)
            if row is not None and not row.erased:
                add(
                    f"entry {index}", f"was to be erased by entry {work.at}, and its statement is still here; {_FINISH}"
                )
    here = set(artifacts.digests()) & erased
    for digest in sorted(here):
        add(f"artifact {digest}", f"was to be erased, and is still here; {_FINISH}")
    gone = set(artifacts.gone())
    for digest in sorted(erased - gone - here):
        add(f"artifact {digest}", f"was to be erased, and nothing keeps it from being sent again; {_FINISH}")
    for digest in sorted(gone - erased):
        add(f"artifact {digest}", "is marked as erased, and no erasure of it stands on the log")
