"""Many statements at once: the reports of one at a time, in order, whatever the number of processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from typing import NoReturn

import pytest

import transparency
from tests.verifier.test_express import FILES, STATEMENTS
from tests.verifier.world import trust
from transparency.client.many import BATCH_ITEMS, Item, in_processes, verify_many
from transparency.cose.sign1 import Sign1
from transparency.errors import TransparencyError
from transparency.verifier import Options, TrustStore, Verifier

DETACHED = Sign1.from_bytes(FILES[3]).with_payload(None).to_bytes()
PAYLOAD = Sign1.from_bytes(FILES[3]).payload
SPOILED = Sign1.from_bytes(FILES[4]).with_payload(b"x").to_bytes()
ITEMS: list[Item] = [
    *FILES,
    DETACHED,
    (DETACHED, PAYLOAD),
    (DETACHED, b"x"),
    SPOILED,
    STATEMENTS[0],
    b"junk",
    b"",
    *FILES[:9],
]


@pytest.mark.parametrize("processes", [None, 1, 2, 3])
@pytest.mark.parametrize("options", [Options(), Options(receipt_only=True), Options(statement_only=True)])
def test_reports_are_those_of_one_at_a_time_in_order(processes: int | None, options: Options) -> None:
    pairs = [item if isinstance(item, tuple) else (item, None) for item in ITEMS]
    expected = [Verifier(trust(), options).verify(data, payload).to_json() for data, payload in pairs]

    found = [report.to_json() for report in verify_many(ITEMS, trust(), processes, options=options)]

    assert found == expected


def test_nothing_to_verify_gives_nothing_and_the_package_has_the_name() -> None:
    assert list(verify_many([], TrustStore(), 2)) == []
    assert transparency.verify_many is verify_many


@pytest.mark.parametrize("processes", [1, 2])
def test_items_are_taken_as_reports_are_so_that_memory_is_bounded(processes: int) -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield FILES[taken % len(FILES)]

    reports = verify_many(endless(), trust(), processes)
    for _ in range(1000):
        assert next(reports).verdict == "verified"

    assert taken <= 1000 + 12 * BATCH_ITEMS
    assert isinstance(reports, Generator)
    reports.close()


def _end_this_process(_: list[int]) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_process_that_is_killed_is_an_error_and_no_report() -> None:
    with pytest.raises(TransparencyError, match="has ended"):
        list(in_processes(_end_this_process, [[1], [2]], 2))


@pytest.mark.parametrize(
    "item",
    [None, "text", 5, (FILES[0],), (FILES[0], "text"), (None, None)],
    ids=["nothing", "text", "a number", "one of two", "a payload of text", "two of nothing"],
)
def test_what_is_no_item_is_named_by_its_number(item: object) -> None:
    with pytest.raises(TypeError, match=r"item 1 is neither bytes nor bytes with their payload: "):
        list(verify_many([FILES[0], item], trust()))  # type: ignore[list-item]
