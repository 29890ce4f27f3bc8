"""What is PostgreSQL's own in the store: settings it must have, its index, its sessions, and commits in doubt."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from tests.log.stores import batch_of, entry_of, intake_row
from transparency.errors import LogUnusableError, StoreError, TipMovedError
from transparency.log import postgres_intake, postgres_schema
from transparency.log.postgres import PostgresStore
from transparency.log.postgres_connection import check_url, password_of, without_password
from transparency.log.store import IntakeRow, Store, Tip
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.testing.postgres import PostgresServer, shared_server


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


def _other_session(url: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(url, autocommit=True)


def _set(url: str, setting: str) -> None:
    """For this database alone; sessions that begin from now on have it."""
    with _other_session(url) as session:
        session.execute(f"ALTER DATABASE {_name(url)} SET {setting}")


def _name(url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


# -- the index ---------------------------------------------------------------------------------------------------------


def test_an_entry_is_found_as_soon_as_it_is_committed(store: PostgresStore) -> None:
    batch = batch_of(store.take_over(), 3)
    store.commit(batch)

    assert store.indexed_size() == store.tip().size == 3
    assert store.find(entry_of(2)) == 2
    assert store.siblings(batch.entries[1].tbs_digest, 10) == [(1, entry_of(1))]


def test_a_digest_that_is_there_already_undoes_its_whole_commit(store: PostgresStore) -> None:
    first = batch_of(store.take_over(), 2)
    store.commit(first)
    tip = store.tip()
    again = batch_of(tip, 1, before=2)

    with pytest.raises(StoreError):
        store.commit(replace(again, entries=[first.entries[0]]))
    assert store.tip() == tip
    store.commit(again)


# -- what a server must be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_forget_is_refused_for_writing(server: PostgresServer, setting: str) -> None:
    url = server.new_database()
    postgres_schema.create(url, EMPTY_ROOT)
    server.stop()
    server.change(**{setting: "off"})
    server.resume()

    with pytest.raises(LogUnusableError, match=f"Set {setting}=on"):
        PostgresStore(url)
    PostgresStore.for_reading(url).close()


def test_commits_that_are_acknowledged_before_they_are_kept_are_refused(url: str) -> None:
    _set(url, "synchronous_commit = off")

    with pytest.raises(LogUnusableError, match="Set synchronous_commit=on"):
        PostgresStore(url)


def test_local_commits_are_refused_only_where_there_is_a_standby_to_wait_for(server: PostgresServer) -> None:
    url = server.new_database()
    postgres_schema.create(url, EMPTY_ROOT)
    _set(url, "synchronous_commit = local")
    PostgresStore(url).close()

    with server.connect() as session:
        session.execute("ALTER SYSTEM SET synchronous_standby_names = 'other'")
        session.execute("SELECT pg_reload_conf()")
    server.stop()
    server.resume()
    with pytest.raises(LogUnusableError, match="by its standby"):
        PostgresStore(url)


def test_a_standby_can_be_read_and_is_refused_for_writing(server: PostgresServer) -> None:
    url = server.new_database()
    postgres_schema.create(url, EMPTY_ROOT)
    store = PostgresStore(url)
    store.commit(batch_of(store.take_over(), 2))
    standby = server.standby()
    try:
        there = standby.url(_name(url))
        with pytest.raises(LogUnusableError, match="is a standby"):
            PostgresStore(there)
        reading = PostgresStore.for_reading(there)
        assert [row.entry for row in reading.entries(0, 9)] == [entry_of(0), entry_of(1)]
        with pytest.raises(StoreError):
            reading.take_over()
        reading.close()
    finally:
        standby.remove()
        store.close()


def test_who_only_looks_cannot_write(url: str) -> None:
    reading = PostgresStore.for_reading(url)

    with pytest.raises(StoreError, match="read-only"):
        reading.intake_add([intake_row(1)])
    reading.close()


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("DROP TABLE transparency_schema", "there is no log in this database"),
        ("UPDATE transparency_schema SET version = 99", "written by a later version"),
        ("UPDATE transparency_schema SET version = 0", "written by an earlier version"),
    ],
    ids=["none", "later", "earlier"],
)
def test_a_schema_that_is_not_this_versions_is_told(url: str, sql: str, told: str) -> None:
    with _other_session(url) as session:
        session.execute(sql)

    with pytest.raises(LogUnusableError, match=told):
        PostgresStore.for_reading(url)


def test_a_database_holds_one_log(url: str) -> None:
    with pytest.raises(LogUnusableError, match="a log in this database already"):
        postgres_schema.create(url, EMPTY_ROOT)


def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    with pytest.raises(LogUnusableError, match="cannot be reached") as caught:
        PostgresStore("postgresql://user:hush-hush@127.0.0.1:1/name?sslpassword=hush-hush")
    assert "hush-hush" not in str(caught.value)


def test_why_it_cannot_be_reached_is_told_in_one_line() -> None:
    """Who has to mend it needs to know what; a password that ends in the host's name is not repeated."""
    server, told = shared_server(), {}
    for what, url in {
        "database": server.url("nothing"),
        "user": server.tcp_url().replace("postgres@", "somebody:hush-hush@"),
        "port": "postgresql://user:hush-hush@127.0.0.1:1/name",
        "host": "postgresql://user:hush@hush-hush.invalid/name",
    }.items():
        with pytest.raises(LogUnusableError) as caught:
            PostgresStore(url)
        told[what] = str(caught.value).partition(": ")[2]

    assert told["database"] == 'database "nothing" does not exist'
    assert told["user"] == 'role "somebody" does not exist'
    assert told["port"] == "Connection refused"
    assert told["host"] == "its host is not known"


@pytest.mark.parametrize("url", ["", "log.sqlite", "mysql://a/b", "postgresql://[::1/name", "postgresql:/a"])
def test_what_is_no_url_of_a_database_is_refused(url: str) -> None:
    with pytest.raises(LogUnusableError, match="postgresql://user@host/name"):
        check_url(url)


def test_a_password_is_left_out_of_what_is_written() -> None:
    url = "postgresql://user:hush%20hush@one:1,two:2/name?target_session_attrs=read-write&password=other&host=%2Ftmp"

    assert without_password(url) == "postgresql://user@one:1,two:2/name?target_session_attrs=read-write&host=%2Ftmp"
    assert password_of("postgresql://user:hush%20hush@host/name") == "hush hush"
    assert password_of("postgresql://user@host/name") is None


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_the_writers_session_gives_up_in_time(store: PostgresStore) -> None:
    def setting(name: str) -> object:
        row = store._writer.execute("SELECT current_setting(%s)", (name,)).fetchone()
        return row and row[0]

    assert setting("idle_in_transaction_session_timeout") == "5s"
    assert setting("statement_timeout") == "30s"
    assert setting("client_min_messages") == "warning"
    assert "tcp_user_timeout" in store._writer.info.get_parameters()


def test_sessions_bear_the_name_they_were_given(url: str) -> None:
    store = PostgresStore(url, "node-7")
    with _other_session(url) as session:
        names = session.execute("SELECT application_name FROM pg_stat_activity WHERE datname = current_database()")
        assert [name for (name,) in names if name == "node-7"] == ["node-7"] * 3
    store.close()


def test_a_session_that_ended_is_an_error_and_the_next_store_reads_the_truth(url: str) -> None:
    store = PostgresStore(url, "to-be-ended")
    tip = store.take_over()
    with _other_session(url) as session:
        session.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'to-be-ended'")

    with pytest.raises(StoreError):
        store.commit(batch_of(tip, 1))
    with pytest.raises(StoreError):
        store.tip()
    store.close()
    again = PostgresStore(url)
    assert again.tip() == tip
    again.close()


def test_a_session_that_ends_between_two_pages_leaves_nothing_open(url: str) -> None:
    """Its driver would say so when the cursor is forgotten, in whichever test that is."""

    class EndsIt(int):
        """So many bytes; when some were read its server ends the session."""

        def __gt__(self, size: int) -> bool:
            if size:
                with _other_session(url) as session:
                    end = "SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity WHERE application_name = 'ends'"
                    session.execute(end)
            return int(self) > size

    with closing(PostgresStore(url, "ends")) as store:
        store.intake_add([intake_row(1)])
        with pytest.raises(StoreError):
            store._some("SELECT entry FROM intake", (), EndsIt(1))
    gc.collect()


def test_rows_that_have_left_the_intake_are_not_looked_at_again_with_every_reading(url: str) -> None:
    """Until a vacuum they lie there, by thousands. A bitmap scan, which a new table gets, reads each every time."""
    with closing(PostgresStore(url)) as store:
        for first in range(0, 2000, 100):
            rows = [replace(intake_row(n), statement=bytes(1000)) for n in range(first, first + 100)]
            store.intake_add(rows)
            store.intake_remove([row.entry for row in rows])
        store.intake_add([intake_row(5000)])
        store.intake_pending(2**20)  # which notes what it finds dead

        explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {postgres_intake.PENDING}"
        (plan,) = store._one(explain, (-1, [], 2**20)) or ()

    assert plan[0]["Plan"]["Actual Rows"] == 1
    assert plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"] < 30


def test_what_the_caller_has_already_is_looked_up_and_not_gone_through_for_each_row(url: str) -> None:
    """With 5,000 rows under way that was 12 million comparisons, and 0.3 seconds, with every bell."""
    with closing(PostgresStore(url)) as store:
        for mode in ("force_custom_plan", "force_generic_plan"):
            store._reader.execute(f"SET plan_cache_mode = {mode}")
            (plan,) = store._one(f"EXPLAIN (FORMAT JSON) {postgres_intake.PENDING}", (-1, [b"one"], 2**20)) or ()
            assert "hashed SubPlan" in str(plan)


def test_a_reader_does_not_have_its_queries_compiled(url: str) -> None:
    """Before PostgreSQL 18 a scan that is off costs ten thousand millions, and what costs that much is compiled."""
    with closing(PostgresStore(url)) as store:
        assert store._one("SELECT current_setting('enable_seqscan'), current_setting('jit')") == ("off", "off")


# -- commits in doubt --------------------------------------------------------------------------------------------------


def test_a_commit_whose_wait_for_the_standby_was_ended_is_in_doubt(server: PostgresServer) -> None:
    """PostgreSQL says COMMIT with a warning: it is kept here, and perhaps nowhere else."""
    url = server.new_database()
    postgres_schema.create(url, EMPTY_ROOT)
    store = PostgresStore(url, "waiting")
    tip = store.take_over()
    with server.connect() as session:
        session.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        session.execute("SELECT pg_reload_conf()")
        done = threading.Event()

        def end_the_wait() -> None:
            while not done.wait(0.02):
                session.execute(
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'waiting' AND wait_event = 'SyncRep'"
                )

        other = threading.Thread(target=end_the_wait)
        other.start()
        try:
            with pytest.raises(StoreError, match="canceling wait for synchronous replication"):
                _commit_until_it_fails(store, tip)
        finally:
            done.set()
            other.join()
    store.close()


def _commit_until_it_fails(store: Store, tip: Tip) -> None:
    """A changed setting arrives when the server has read it."""
    for number in range(100):
        store.commit(batch_of(tip, 1, before=number))
        tip = store.tip()


def test_two_writers_at_one_time_one_wins(url: str) -> None:
    """The second waits for the first one's transaction, and then sees what it did."""
    first, second = PostgresStore(url), PostgresStore(url)
    tip = first.take_over()
    outcomes: list[str] = []

    def commit(store: Store) -> None:
        try:
            store.commit(batch_of(tip, 2))
            outcomes.append("committed")
        except TipMovedError:
            outcomes.append("refused")

    threads = [threading.Thread(target=commit, args=(store,)) for store in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["committed", "refused"]
    assert first.tip().size == 2
    first.close()
    second.close()


def test_nodes_that_add_the_same_rows_in_another_order_do_not_wait_for_each_other(url: str) -> None:
    stores = [PostgresStore(url), PostgresStore(url)]
    rows = [intake_row(n) for n in range(200)]
    trouble: list[Exception] = []

    def work(store: Store, mine: list[IntakeRow]) -> None:
        try:
            for _ in range(15):
                store.intake_add(mine)
                store.intake_remove([row.entry for row in mine])
        except StoreError as error:
            trouble.append(error)

    threads = [
        threading.Thread(target=work, args=(stores[0], rows)),
        threading.Thread(target=work, args=(stores[1], rows[::-1])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert trouble == []
    for store in stores:
        store.close()


def test_a_reason_may_hold_what_text_may_not(store: PostgresStore) -> None:
    store.intake_add([intake_row(1)])
    store.intake_fail([(entry_of(1), "not\0this")], 5)

    row = store.intake_get(entry_of(1))
    assert row is not None
    assert row.failed == "not\0this"
