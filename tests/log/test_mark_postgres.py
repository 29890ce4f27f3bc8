"""The high-water mark in a second PostgreSQL: it only goes up, from the value its writer knows, in the newest epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Protocol

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from transparency.errors import LogUnusableError, RunningElsewhereError, StoreError
from transparency.log.mark import MarkValue
from transparency.log.mark_postgres import Place, PostgresMark
from transparency.testing.postgres import shared_server

ORIGIN = "log.example/one"
HERE = Place(7_000_000_000_000_000_000, 1)
FIRST = MarkValue(2, b"\1" * 32)


@pytest.fixture
def url() -> Iterator[str]:
    server = shared_server()
    database = server.new_database()
    yield database
    server.drop_database(database)


class Opening(Protocol):
    def __call__(
        self, epoch: int = 1, *, place: Place = HERE, first: MarkValue | None = None, origin: str = ORIGIN
    ) -> PostgresMark: ...


@pytest.fixture
def opened(url: str) -> Iterator[Opening]:
    """Marks as leaders open them, closed at the end."""
    with ExitStack() as marks:

        def open_mark(
            epoch: int = 1, *, place: Place = HERE, first: MarkValue | None = None, origin: str = ORIGIN
        ) -> PostgresMark:
            mark = marks.enter_context(closing(PostgresMark.open(url, origin, epoch, place, first)))
            mark.own()
            return mark

        yield open_mark


def test_what_was_written_is_there_for_the_next_leader_with_where_it_was_written(opened: Opening) -> None:
    opened(first=FIRST).write(MarkValue(5, b"\2" * 32))

    after = opened(epoch=2, place=Place(HERE.server, 2))

    assert after.value == MarkValue(5, b"\2" * 32)
    assert after.written_at == HERE


def test_without_a_mark_it_is_refused_unless_there_may_be_none(opened: Opening) -> None:
    with pytest.raises(LogUnusableError, match="no high-water mark"):
        opened()
    assert opened(first=FIRST).value == FIRST


def test_a_first_value_takes_no_other_s_place(opened: Opening) -> None:
    opened(first=FIRST).write(MarkValue(9, b"\3" * 32))

    assert opened(epoch=2, first=FIRST).value.size == 9


def test_it_does_not_go_back(opened: Opening) -> None:
    mark = opened(first=FIRST)
    mark.write(MarkValue(5, b"\2" * 32))

    with pytest.raises(StoreError, match="does not go back"):
        mark.write(MarkValue(4, b"\2" * 32))


def test_a_leader_of_an_older_epoch_cannot_write_any_more(opened: Opening) -> None:
    old = opened(first=FIRST)
    opened(epoch=2)

    with pytest.raises(StoreError, match="another leader"):
        old.write(MarkValue(3, b"\2" * 32))
    with pytest.raises(RunningElsewhereError):
        old.own()


def test_two_leaders_of_one_epoch_in_two_copies_of_a_database_cannot_both_go_on(opened: Opening) -> None:
    one, other = opened(first=FIRST), opened()
    one.write(MarkValue(3, b"\2" * 32))

    with pytest.raises(StoreError, match="another leader"):
        other.write(MarkValue(3, b"\3" * 32))


def test_marks_of_several_logs_share_a_store(opened: Opening) -> None:
    opened(first=FIRST).write(MarkValue(5, b"\2" * 32))

    other = opened(first=FIRST, origin="log.example/two")

    assert other.value == FIRST


def test_a_server_that_the_log_is_on_is_refused(url: str) -> None:
    """Also as a standby, or by another name: all of these have one number."""
    with psycopg.connect(url) as session:
        row = session.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
    assert row is not None

    with pytest.raises(LogUnusableError, match="another database server"):
        PostgresMark.open(url, ORIGIN, 1, Place(row[0], 1), FIRST)


def test_a_server_that_may_forget_the_mark_is_refused(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(f"ALTER DATABASE {conninfo_to_dict(url)['dbname']} SET synchronous_commit = off")

    with pytest.raises(LogUnusableError, match="synchronous_commit"):
        PostgresMark.open(url, ORIGIN, 1, HERE, FIRST)


def test_a_mark_that_its_own_standby_may_lack_is_not_written(opened: Opening) -> None:
    """PostgreSQL ends the wait for a standby with a warning, and says that it is done."""
    mark = opened(first=FIRST)
    mark._connection.execute(
        "CREATE FUNCTION pg_temp.warn() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE WARNING 'canceling wait for synchronous replication'; RETURN NEW; END$$"
    )
    mark._connection.execute(
        "CREATE TRIGGER warns BEFORE UPDATE ON transparency_mark FOR EACH ROW EXECUTE FUNCTION pg_temp.warn()"
    )

    with pytest.raises(StoreError, match="canceling wait"):
        mark.write(MarkValue(5, b"\2" * 32))


def test_a_store_that_cannot_be_reached_is_said_in_one_line_without_its_password() -> None:
    with pytest.raises(LogUnusableError) as caught:
        PostgresMark.open("postgresql://somebody:hidden-word@127.0.0.1:1/nothing", ORIGIN, 1, HERE, FIRST)

    assert "hidden-word" not in str(caught.value)
    assert "\n" not in str(caught.value)
