"""The tally: what one process counted adds up in another."""

from __future__ import annotations

from typing import Any

import cbor2
from hypothesis import given
from hypothesis import strategies as st

from transparency.server.tally import BUCKETS, Tally

ANSWERED = st.tuples(
    st.sampled_from(["/entries", "/entries/batch", "unmatched"]),
    st.sampled_from(["POST", "other"]),
    st.sampled_from([200, 201, 400, 503]),
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 99.0]),
)
EVENTS = st.lists(ANSWERED | st.sampled_from(["Rejected", "Payload Missing"]), max_size=30)


def counted(tally: Tally, events: list[Any]) -> None:
    for event in events:
        if isinstance(event, str):
            tally.refused(event)
        else:
            tally.answered(*event)


def seen(tally: Tally) -> tuple[Any, ...]:
    return tally.answers, tally.durations, tally.seconds, tally.refusals


@given(st.lists(EVENTS, max_size=4))
def test_taking_and_adding_over_the_wire_counts_as_if_it_were_one(parts: list[list[Any]]) -> None:
    alone, owner, worker = Tally(), Tally(), Tally()
    for part in parts:
        counted(alone, part)
        counted(worker, part)
        owner.add(cbor2.loads(cbor2.dumps(worker.take())))

    assert seen(owner) == seen(alone)
    assert seen(worker) == seen(Tally())


def test_a_duration_counts_in_the_first_bucket_that_holds_it() -> None:
    tally = Tally()
    for seconds in (0.0, BUCKETS[0], BUCKETS[0] + 1e-9, BUCKETS[-1], BUCKETS[-1] + 1):
        tally.answered("/entries", "POST", 201, seconds)

    counts = tally.durations["/entries"]
    assert (counts[0], counts[1], counts[-2], counts[-1]) == (2, 1, 1, 1)
    assert len(counts) == len(BUCKETS) + 1
    assert sum(counts) == tally.answers["/entries", "POST", 201] == 5


def test_what_was_taken_is_not_counted_again() -> None:
    tally = Tally()
    tally.refused("Rejected")

    assert tally.take()[2] == {"Rejected": 1}
    assert not any(tally.take())
