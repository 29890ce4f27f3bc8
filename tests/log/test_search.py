"""The search index: entries are found by what they say, on pages that stay, and forgotten when they are erased."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from pathlib import Path

import pytest

from tests.log.searching import ISS, START, Filler, filling, indexed, put, session, term
from transparency.errors import NotFoundError, OverloadedError
from transparency.log.artifacts import ArtifactStore
from transparency.log.folder import Folder
from transparency.log.search import ROW, SearchIndex
from transparency.log.search_entry import Kind, Term, folders
from transparency.log.search_query import (
    ALL,
    EDGE,
    FROM_TIME,
    ONE,
    Query,
    holds,
    joined,
    search,
)  # fmt: skip
from transparency.log.search_schema import DamagedIndexError
from transparency.log.sqlite import SqliteStore
from transparency.log.stores import open_for_reading
from transparency.testing import settled


async def fill(log: Filler) -> None:
    """Entries 2 to 7: three sessions, one of them grown; an envelope; something that is no record."""
    await log.record(session("s-1"))
    await log.record(session("s-2", model="m-2", path="/home/a/docs/y.md"))
    await log.record(session("s-1", tool="Write"), sub="urn:example:s-1")
    await log.envelope(session("s-3", path="/home/a/src/deep/z.py"))
    await log.record(b"no record at all")
    await log.record(session("s-4", path="C:\\a\\b.py"))


# A scan of what was found already, or of an index, is none of a table.
QUICK = ("SEARCH", "CO-ROUTINE", "CORRELATED", "SCAN (subquery")
CONTENT = hashlib.sha256(session("s-2", model="m-2", path="/home/a/docs/y.md")).hexdigest()


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([("issuer", ISS)], [7, 6, 5, 4, 3, 2]),
        ([("subject", "urn:example:s-1")], [4]),
        ([("session", "s-1")], [4, 2]),
        ([("session", "s-3")], [5]),
        ([("session", "S-1")], []),
        ([("agent", "claude-code")], [7, 5, 4, 3, 2]),
        ([("agent", "anthropic"), ("model", "m-2")], [3]),
        ([("agent", "claude-code/2.1.0"), ("session", "s-1"), ("tool", "Write")], [4]),
        ([("model", "m-2")], [3]),
        ([("tool", "Edit")], [7, 5, 3, 2]),
        ([("tool", "Edit"), ("tool", "Write")], []),
        ([("path", "/home/a/src/x.py")], [4, 2]),
        ([("path", "src/x.py")], [4, 2]),
        ([("folder", "src/")], [5, 4, 2]),
        ([("folder", "src/deep/")], [5]),
        ([("folder", "/home/a/")], [5, 4, 3, 2]),
        ([("folder", "/home/")], []),
        ([("path", "C:\\a\\b.py")], [7]),
        ([("content", CONTENT)], [3]),
        ([("content", hashlib.sha256(b"no record at all").hexdigest())], [6]),
        ([], [7, 6, 5, 4, 3, 2, 1, 0]),
    ],
)
async def test_entries_are_found_by_what_they_say(
    tmp_path: Path, terms: list[tuple[str, str]], expected: list[int]
) -> None:
    async with filling(tmp_path) as log:
        await fill(log)

    with indexed(log.data) as found:
        assert found.hits(*(term(*pair) for pair in terms)) == expected
        assert found.hits(*(term(*pair) for pair in terms), newest_first=False) == expected[::-1]
        assert found.hits(*(term(*pair) for pair in terms), limit=1) == expected


async def test_siblings_are_found_by_the_bytes_they_sign(tmp_path: Path) -> None:
    """LEAF-7: two signatures over the same bytes are two entries, and each finds the other."""
    async with filling(tmp_path) as log:
        await fill(log)

    with indexed(log.data) as found:
        row = found.store.entry(3)
        assert row is not None
        assert found.hits(term("signed", row.tbs_digest.hex())) == [3]


async def test_time_is_the_time_of_registration_from_and_before(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        await fill(log)

    with indexed(log.data) as found:
        times = [hit.time for hit in found.page(newest_first=False).hits]
        assert times == sorted(times)
        assert times[2] == START + 60
        assert found.hits(since=times[4]) == [7, 6, 5, 4]
        assert found.hits(since=times[4], until=times[6]) == [5, 4]
        assert found.hits(since=times[4] + 1, until=times[6] + 1) == [6, 5]
        assert found.hits(since=times[7] + 1) == []
        assert found.hits(term("session", "s-1"), until=times[4]) == [2]


async def test_a_page_stays_the_same_when_entries_are_added(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        await fill(log)
        await settled(log.log)
        with indexed(log.data) as found:
            first = found.page(limit=3)
            second = found.page(limit=3, size=first.size, after=first.after)
        await log.record(session("s-9"))

    with indexed(log.data) as found:
        assert found.page(limit=3, size=first.size).hits == first.hits
        assert found.page(limit=3, size=first.size, after=first.after).hits == second.hits
        assert found.page(limit=1).hits[0].index == 8
        assert (first.size, first.indexed, found.page().size) == (8, 8, 9)


async def test_a_size_that_is_not_indexed_yet_is_asked_for_again(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        await fill(log)

    with indexed(log.data) as found, pytest.raises(OverloadedError, match="covers 8 entries and not yet 9"):
        found.page(size=9)


async def test_several_terms_look_at_a_bounded_number_of_entries_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transparency.log.search_query.CANDIDATES", 2)
    async with filling(tmp_path) as log:
        await fill(log)

    with indexed(log.data) as found:
        terms = (term("agent", "anthropic"), term("tool", "Edit"))
        page = found.page(*terms)
        assert page.after is not None
        assert len(page.hits) <= 2
        assert found.hits(*terms) == [7, 5, 3, 2]
        assert found.hits(*terms, newest_first=False) == [2, 3, 5, 7]


async def test_a_record_that_arrives_after_its_envelope_is_found_then(tmp_path: Path) -> None:
    record = session("late", path="late.py")
    async with filling(tmp_path) as log:
        index = await log.envelope(record, upload=False)

    with indexed(log.data) as found:
        assert found.hits(term("session", "late")) == []
        assert found.hits(term("content", hashlib.sha256(record).hexdigest())) == [index]
        digest = put(log.data, record)
        assert found.index.look_for_records(found.store, found.artifacts, digest[:2]) == 1
        assert found.hits(term("session", "late")) == [index]
        assert found.index.look_for_records(found.store, found.artifacts) == 0


async def test_the_index_dropped_and_made_again_gives_the_same_answers(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        await fill(log)

    with indexed(log.data) as found:
        queries = [Query(), Query((term("session", "s-1"),)), Query((term("folder", "src/"), term("tool", "Edit")))]
        before = [search(found.index, query) for query in queries]
        rows = list(found.index.rows(0, 8))
        found.index.clear()
        assert found.index.indexed() == 0
        found.catch_up()
        assert [search(found.index, query) for query in queries] == before
        assert list(found.index.rows(0, 8)) == rows
    Folder(log.data).search.unlink()
    with indexed(log.data) as found:
        assert [search(found.index, query) for query in queries] == before


async def test_a_file_that_is_no_database_is_made_anew(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        await fill(log)
    with indexed(log.data):
        pass
    Folder(log.data).search.write_bytes(b"this is no database at all, and long enough to be read as one" * 99)

    with indexed(log.data) as found:
        assert found.hits(term("session", "s-1")) == [4, 2]


async def test_a_database_with_damaged_pages_says_so_and_is_cleared_away(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        await fill(log)
    with indexed(log.data) as found:
        found.index.checkpoint()
    path = Folder(log.data).search
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xee" * (len(whole) - 4096))
    with SearchIndex(path) as index, contextlib.closing(open_for_reading(Folder(log.data))) as store:
        artifacts = ArtifactStore(Folder(log.data).artifacts)
        with pytest.raises(DamagedIndexError, match="log reindex"):
            index.catch_up(store, artifacts)

        index.clear()

        assert index.catch_up(store, artifacts) == 8


async def test_the_index_of_another_history_is_made_anew(tmp_path: Path) -> None:
    async with filling(tmp_path / "one") as log:
        await fill(log)
    with indexed(log.data):
        pass
    async with filling(tmp_path / "two") as other:
        await other.record(session("other"))
    Folder(log.data).search.rename(Folder(other.data).search)

    with indexed(other.data) as found:
        assert found.hits() == [2, 1, 0]
        assert found.hits(term("session", "s-1")) == []


async def test_nothing_of_an_erased_entry_stays_in_any_file_of_the_index(tmp_path: Path) -> None:
    marker = "marker-8d1f3c"
    async with filling(tmp_path) as log:
        await log.record(session(marker, tool=f"tool-{marker}", path=f"/home/a/{marker}/f.py"), sub=f"urn:x:{marker}")
        await log.record(session("stays"))

    with indexed(log.data) as found:
        terms = list(found.page(term("session", marker)).hits[0].terms())
        found.index.checkpoint()
        assert marker.encode() in Folder(log.data).search.read_bytes()
        found.index.erase(2)

        for each in terms:
            assert 2 not in found.hits(each)
        assert found.hits() == [3, 2, 1, 0]
        (hit,) = (hit for hit in found.page().hits if hit.index == 2)
        assert (hit.issuer, hit.content, hit.signed, hit.facts.sessions) == (None, None, None, ())
        assert found.hits(term("session", "stays")) == [3]
        for path in log.data.glob("search.sqlite*"):
            assert marker.encode() not in path.read_bytes()


async def test_an_erasure_that_a_reader_holds_up_says_so_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transparency.log.search_schema.BUSY_MS", 1)
    async with filling(tmp_path) as log:
        await log.record(session("held-up"))

    with indexed(log.data) as found:
        with found.index.reading() as connection:
            connection.execute("SELECT size FROM state").fetchone()
            with pytest.raises(OverloadedError, match="erase once more"):
                found.index.erase(2)
        found.index.erase(2)

        for path in log.data.glob("search.sqlite*"):
            assert b"held-up" not in path.read_bytes()


async def test_what_is_left_after_an_artifact_went_is_found_again(tmp_path: Path) -> None:
    record = session("gone")
    async with filling(tmp_path) as log:
        index = await log.envelope(record)

    with indexed(log.data) as found:
        digest = hashlib.sha256(record).hexdigest()
        (log.data / "artifacts" / digest[:2] / digest[2:]).unlink()
        found.index.erase(index)
        found.index.renew_erased(found.store, found.artifacts)

        assert found.hits(term("session", "gone")) == []
        assert found.hits(term("content", digest)) == [index]


@pytest.mark.sqlite_file
async def test_content_read_before_an_erasure_is_not_written_after_it(tmp_path: Path) -> None:
    """A worker that holds an erased record in its hands must not put it back."""
    async with filling(tmp_path) as log:
        await log.record(session("held"))
    with indexed(log.data) as found:
        found.index.clear()
        erased: list[int] = []

        class Racing(SqliteStore):
            def entry(self, index: int):  # type: ignore[no-untyped-def] # noqa: ANN202 - the store's own
                row = super().entry(index)
                if index == 2 and not erased:
                    erased.append(index)
                    found.index.erase(index)
                return row

        found.catch_up()
        racing = Racing.for_reading(Folder(log.data).database)
        try:
            found.index.renew(racing, found.artifacts, 2)
        finally:
            racing.close()

        assert erased == [2]
        assert found.hits(term("session", "held")) == [2]  # read again: this store still has it


async def test_a_hash_that_two_terms_share_gives_no_wrong_hit(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        await fill(log)

    with indexed(log.data) as found:
        hit = found.page(term("session", "s-1")).hits[0]
        assert holds(hit, term("session", "s-1"))
        assert not holds(hit, term("session", "s-2"))
        assert holds(hit, term("folder", "src/"))
        assert not holds(hit, term("folder", "src/x.py/"))
        for each in Kind:
            own = [known for known in hit.terms() if known.kind is each]
            assert own
            assert all(holds(hit, known) for known in own)
            assert not holds(hit, Term(each, "ff" * 32))


def test_a_log_without_an_index_says_so(tmp_path: Path) -> None:
    index = SearchIndex(tmp_path / "search.sqlite")

    assert index.indexed() == 0
    with pytest.raises(NotFoundError, match="no search index yet"):
        search(index, Query())


async def test_every_query_uses_an_index_and_sorts_nothing(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        await fill(log)
    plans = {}
    with indexed(log.data) as found, found.index.reading() as connection:
        for name, sql in {
            "one": ONE, "all": ALL, "joined": joined(3), "edge": EDGE, "time": FROM_TIME, "row": ROW,
            "waiting": "SELECT idx, content FROM entries WHERE awaits = 1 AND content >= ? AND content <= ? LIMIT 1",
            "erased": "SELECT idx FROM entries WHERE awaits = 2 LIMIT 1",
        }.items():  # fmt: skip
            for order in ("ASC", "DESC"):
                values = (0,) * sql.count("?")
                rows = connection.execute("EXPLAIN QUERY PLAN " + sql.format(order=order), values).fetchall()
                plans[name, order] = [row[3] for row in rows]
    for steps in plans.values():
        assert not any("TEMP B-TREE" in step for step in steps)
        assert all(step.startswith(QUICK) or " USING " in step for step in steps), plans
    assert any("key=? AND idx=?" in step for step in plans["joined", "DESC"])


def test_the_index_is_for_its_owner_only(tmp_path: Path) -> None:
    with SearchIndex(tmp_path / "search.sqlite") as index:
        index.clear()

    assert (tmp_path / "search.sqlite").stat().st_mode & 0o777 == 0o600


def test_what_is_deleted_is_overwritten(tmp_path: Path) -> None:
    with SearchIndex(tmp_path / "search.sqlite") as index:
        index.clear()
        connection = index._writer()
        assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)
    assert sqlite3.sqlite_version_info >= (3, 37)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a", []),
        ("a/", []),
        ("a/b", ["a/"]),
        ("/a/b/c", ["/", "/a/", "/a/b/"]),
        ("a//b", ["a/", "a//"]),
        ("", []),
        ("/", []),
        ("d/" * 100 + "f", ["d/" * (n + 1) for n in range(32)]),
    ],
)
def test_the_folders_of_a_path(path: str, expected: list[str]) -> None:
    assert list(folders(path)) == expected


def test_kinds_keep_their_numbers() -> None:
    assert [(kind.name, kind.value) for kind in Kind][-1] == ("SIGNED", 10)
    assert Term(Kind.ISSUER, "x") != Term(Kind.SUBJECT, "x")
