"""The lease in a real PostgreSQL: its clock decides, the epoch rises with it, and who hangs is put out of the way."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest

from transparency.log.lease import LOOP_SECONDS, RENEW_SECONDS, TTL_SECONDS
from transparency.log.lease_keeper import LeaseKeeper
from transparency.log.lease_table import LeaseTable, Seen, Taken
from transparency.log.postgres_connection import BRIEF, Connection, connect
from transparency.log.store import Tip
from transparency.merkle.hashing import EMPTY_ROOT


@pytest.fixture
def session(url: str) -> Iterator[Connection]:
    with connect(url, "test", BRIEF) as connection:
        yield connection


def expire(session: Connection) -> None:
    session.execute("UPDATE lease SET expires = clock_timestamp() - interval '1 millisecond'")


def test_a_lease_that_nobody_had_is_taken_with_the_epoch_of_the_tip(session: Connection) -> None:
    table = LeaseTable(session, "a")

    taken = table.take()

    assert taken is not None
    assert taken.tip == Tip(0, EMPTY_ROOT, 1)
    assert taken.before == taken.now, "where it was made is where it is"
    assert not taken.failed_over
    assert session.execute("SELECT epoch FROM tip").fetchone() == (1,)


def test_it_is_the_holder_s_until_it_ends(session: Connection) -> None:
    ours, other = LeaseTable(session, "a"), LeaseTable(session, "b")
    assert ours.take() is not None

    assert other.take() is None
    seen = other.look()
    assert (seen.holder, seen.epoch) == ("a", 1)
    assert 0 < seen.left <= TTL_SECONDS

    expire(session)
    taken = other.take()
    assert taken is not None
    assert taken.tip.epoch == 2
    assert not taken.failed_over
    assert ours.renew(1, 0, taken.now, leads=True), "whoever lost it cannot renew it"


def test_a_renewal_says_how_far_the_tree_is_released_and_never_takes_that_back(session: Connection) -> None:
    table = LeaseTable(session, "a")
    taken = table.take()
    assert taken is not None

    assert table.renew(1, 7, taken.now, leads=True) is None
    assert table.renew(1, 5, taken.now, leads=True) is None

    seen = table.look()
    assert seen.published == 7


def test_a_released_lease_is_taken_at_once(session: Connection) -> None:
    ours, other = LeaseTable(session, "a"), LeaseTable(session, "b")
    assert ours.take() is not None

    ours.release(1, 3)

    assert other.take() is not None


def test_who_takes_it_after_a_failover_is_told_until_somebody_has_led_there(session: Connection) -> None:
    first = LeaseTable(session, "a")
    taken = first.take()
    assert taken is not None
    elsewhere = replace(taken.now, timeline=4711)
    assert first.renew(1, 0, taken.now, leads=True) is None
    session.execute("UPDATE lease SET timeline = 4711")  # as if it had been led there

    assert first.renew(1, 0, elsewhere, leads=True), "the database is not there any more"
    for holder in ("b", "c"):
        expire(session)
        taken = LeaseTable(session, holder).take()
        assert taken is not None
        assert taken.failed_over
        assert LeaseTable(session, holder).renew(taken.tip.epoch, 0, taken.now, leads=False) is None, (
            "it has only the lease"
        )
    assert LeaseTable(session, "c").renew(taken.tip.epoch, 0, taken.now, leads=True) is None
    expire(session)
    taken = LeaseTable(session, "d").take()

    assert taken is not None
    assert not taken.failed_over


def test_a_holder_that_hangs_in_a_transaction_is_put_out(url: str, session: Connection) -> None:
    """It holds the lock of the tip, in the middle of COPY: no timeout of the server ends that."""
    assert LeaseTable(session, "hangs").take() is not None
    with psycopg.connect(url, application_name="hangs") as hanging:
        hanging.execute("UPDATE tip SET size = size")
        hanging.execute("CREATE TEMPORARY TABLE scrap (x int)")
        with contextlib.suppress(psycopg.OperationalError), hanging.cursor().copy("COPY scrap FROM STDIN") as copy:
            copy.write("1\n")
            expire(session)
            taken = LeaseTable(session, "b").take()

    assert taken is not None
    assert taken.tip.epoch == 2
    assert hanging.broken


class Told:
    def __init__(self) -> None:
        self.events: list[str] = []
        self.turns = True
        self.changed = threading.Condition()

    def lease_taken(self, taken: Taken) -> None:
        self._tell(f"taken {taken.tip.epoch}")

    def lease_lost(self, reason: str) -> None:
        self._tell(f"lost: {reason}")

    def lease_seen(self, seen: Seen) -> None:
        self._tell(f"seen {seen.holder} {seen.epoch}")

    def lease_unreachable(self, reason: str) -> None:
        self._tell(f"unreachable: {reason}")

    def lease_alive(self, answer: Callable[[], None]) -> None:
        if self.turns:
            answer()

    def _tell(self, event: str) -> None:
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def wait_for(self, event: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: any(each.startswith(event) for each in self.events), 20), self.events


def test_of_two_keepers_one_leads_and_the_other_takes_over_when_it_is_released(url: str) -> None:
    first, second = Told(), Told()
    one = LeaseKeeper(lambda: connect(url, "one", BRIEF), "a", first)
    other = LeaseKeeper(lambda: connect(url, "two", BRIEF), "b", second)
    one.start()
    first.wait_for("taken 1")
    other.start()
    second.wait_for("seen a 1")
    assert one.believes(1)
    assert not other.believes(1)

    one.stop(5)
    other.look()

    second.wait_for("taken 2")
    assert not one.believes(1)
    other.stop(5)


def test_a_keeper_that_was_overtaken_is_told(url: str, session: Connection) -> None:
    told = Told()
    keeper = LeaseKeeper(lambda: connect(url, "one", BRIEF), "a", told)
    keeper.start()
    told.wait_for("taken 1")

    expire(session)
    assert LeaseTable(session, "b").take() is not None
    keeper.look()

    told.wait_for("lost: another node has taken it")
    assert not keeper.believes(1)
    keeper.stop(5)


def test_a_keeper_that_cannot_ask_stops_believing_by_itself(url: str) -> None:
    told = Told()
    now = [1000.0]
    reachable = [True]

    def session() -> Connection:
        if not reachable[0]:
            raise psycopg.OperationalError("cut off")
        return connect(url, "one", BRIEF)

    keeper = LeaseKeeper(session, "a", told, lambda: now[0])
    keeper.start()
    told.wait_for("taken 1")

    reachable[0] = False
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'one'")
    keeper.look()
    told.wait_for("unreachable")
    assert keeper.believes(1), "nobody has said no"

    now[0] += TTL_SECONDS
    assert not keeper.believes(1)
    keeper.look()
    told.wait_for("lost: it could not be renewed in time")
    keeper.stop(5)


def test_a_node_whose_event_loop_does_not_turn_gives_its_lease_up_until_it_does(url: str) -> None:
    told, other = Told(), Told()
    now = [1000.0]
    keeper = LeaseKeeper(lambda: connect(url, "one", BRIEF), "a", told, lambda: now[0])

    def after(seconds: float) -> None:
        now[0] += seconds
        keeper._turn()

    after(0)
    assert told.events == ["taken 1"]
    told.turns = False
    for _ in range(int(LOOP_SECONDS)):
        after(RENEW_SECONDS)
    assert keeper.believes(1), "it may be slow"

    after(2 * RENEW_SECONDS)
    assert told.events == ["taken 1", "lost: the event loop did not turn"]
    after(RENEW_SECONDS)
    waiting = LeaseKeeper(lambda: connect(url, "two", BRIEF), "b", other)
    waiting._turn()
    assert other.events == ["taken 2"], "another can lead at once"

    told.turns = True
    keeper._loop_answered()
    after(RENEW_SECONDS)
    assert told.events[2:] == ["seen b 2"]
    for each in (waiting, keeper):
        each._stopping = True
        each._run()


def test_a_lease_is_given_up_whatever_is_given_up_beside_it(url: str) -> None:
    """One that nobody leads with, and that is renewed all the same, would stop the log for good."""
    told = Told()
    keeper = LeaseKeeper(lambda: connect(url, "one", BRIEF), "a", told)
    keeper.start()
    told.wait_for("taken 1")

    keeper.give_up(1)
    keeper.give_up(0)

    told.wait_for("taken 2")
    keeper.stop(5)


def test_a_node_that_knows_a_later_epoch_than_the_database_goes_on_above_it(url: str, session: Connection) -> None:
    """As after the promotion of a standby that lags. What the tree lacks then is for others to find."""
    told = Told()
    keeper = LeaseKeeper(lambda: connect(url, "one", BRIEF), "a", told)
    session.execute("UPDATE tip SET epoch = 6")
    keeper.start()
    told.wait_for("taken 7")

    session.execute("UPDATE tip SET epoch = 3")
    session.execute("UPDATE lease SET epoch = 3, holder = 'somebody', expires = '-infinity'")
    keeper.look()

    told.wait_for("taken 8")
    keeper.stop(5)


def test_a_keeper_survives_what_nobody_thought_of(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "transparency.cluster")  # its traceback is for who runs the node
    told = Told()
    failures = [ValueError("a fault of ours")]

    def session() -> Connection:
        if failures:
            raise failures.pop()
        return connect(url, "one", BRIEF)

    keeper = LeaseKeeper(session, "a", told)
    keeper.start()

    told.wait_for("unreachable: a fault of this program")
    told.wait_for("taken 1")
    keeper.stop(5)
