"""The check of the index against the log: what it says of each entry must follow from statements and artifacts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from transparency.errors import NotFoundError, StoreError
from transparency.log.artifacts import ArtifactStore
from transparency.log.search import Keys, SearchIndex
from transparency.log.search_entry import derive
from transparency.log.store import Store

Add = Callable[[str, str], None]
_REBUILD = "`transparency log reindex` makes it anew"
_MOST = 10


def check_index(path: Path, store: Store, artifacts: ArtifactStore, add: Add) -> int:
    """Tell *add* what does not fit. Returns how many entries the index covers; one that lags is not at fault."""
    if not path.exists():
        return 0
    index = SearchIndex(path)
    size = min(index.indexed(), store.tip().size)
    try:
        wrong = _compare(index, store, artifacts, size, add)
        if not wrong:
            _count(index, add)
    except (NotFoundError, StoreError) as error:
        add("search index", f"{error}; {_REBUILD}")
    return size


def _compare(index: SearchIndex, store: Store, artifacts: ArtifactStore, size: int, add: Add) -> int:
    wrong = 0
    head = None
    for indexed, row in zip(index.rows(0, size), store.entries(0, size), strict=False):
        if head is None or head.size <= row.index:
            head = store.head_covering(row.index)
        # Erased from and not renewed yet: nothing of it is left, which is what matters. An awaited record may have
        # arrived a moment ago: that is lag, and no fault.
        fits = head is not None and (
            indexed == derive(row, head.time, artifacts)
            or (indexed.issuer is None and indexed.index == row.index)
            or indexed.awaits
        )
        if not fits:
            wrong += 1
            add(f"search index, entry {row.index}", f"is not what the log gives; {_REBUILD}")
            if wrong == _MOST:
                break
    return wrong


def _count(index: SearchIndex, add: Add) -> None:
    """Every term of every entry has its posting, and there are no others."""
    with index.reading() as connection:
        keys = Keys(connection.execute("SELECT salt FROM state").fetchone()[0])
        size, postings = connection.execute(
            "SELECT (SELECT size FROM state), (SELECT count(*) FROM postings)"
        ).fetchone()
        expected = 0
        for entry in index.rows(0, size):
            for key in {keys.of(term) for term in entry.terms()}:
                expected += 1
                sql = "SELECT 1 FROM postings WHERE key = ? AND idx = ?"
                if connection.execute(sql, (key, entry.index)).fetchone() is None:
                    add(f"search index, entry {entry.index}", f"is not found by all it has; {_REBUILD}")
                    return
    if expected != postings:
        add("search index", f"has {postings} postings where {expected} belong; {_REBUILD}")
