"""The registrar by itself: what a worker says to the owner of the log, and who is told of the answer."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import cbor2
import pytest

from tests.policy.samples import ISS, KEY, OTHER, document, forged
from transparency.cose.keys import PrivateKey
from transparency.errors import MalformedError, OverloadedError, RefusedError, StoreError, TransparencyError
from transparency.log.answers import Accepted
from transparency.log.store import NewEntry
from transparency.policy.keyset import CHECKPOINTS, OPERATIONS, POLICY, RECEIPTS, ServiceKey, ServiceKeys
from transparency.server import registrar as module
from transparency.server.access import Client
from transparency.server.handing import Kind, Receipts, Said, Sheaf
from transparency.server.outcome import Outcome, Receipted
from transparency.server.problems import ProblemError
from transparency.server.registrar import MAX_JUDGEMENTS, RemoteRegistrar
from transparency.statements.statement import Statement, sign_statement

CLIENT = Client("10.0.0.1", None)
NAMES = (RECEIPTS, CHECKPOINTS, POLICY, OPERATIONS)
KEYS = ServiceKeys(
    "log.example", "https://log", 1, "", tuple(ServiceKey(name, PrivateKey.generate(-8).public, 5) for name in NAMES)
).to_toml()


class Owner:
    """The other end: hears what a real owner would, and answers when the test says so."""

    def __init__(self) -> None:
        self.heard: list[tuple[Kind, Any]] = []
        self.registrar = RemoteRegistrar(self._hear, lambda _: False, 1000)
        self.registrar.put_in_force(document(), KEYS, 0)

    def _hear(self, kind: Kind, value: object) -> None:
        self.heard.append((kind, cbor2.loads(cbor2.dumps(value))))

    @property
    def sheaves(self) -> list[Sheaf]:
        return [Sheaf._make(one) for kind, value in self.heard if kind == Kind.HANDED for one in value]

    @property
    def handed(self) -> list[tuple[int, NewEntry]]:
        """Each with the number that answers name it by."""
        return [row for sheaf in self.sheaves for row in zip(*sheaf.numbered(), strict=True)]

    @property
    def asked(self) -> list[list[Any]]:
        return [one for kind, value in self.heard if kind == Kind.ASKED for one in value]

    def submit(self, *statements: bytes) -> list[list[Outcome]]:
        """For each statement all that it was told."""
        told: list[list[Outcome]] = [[] for _ in statements]
        for data, own in zip(statements, told, strict=True):
            self.registrar.submit(data, CLIENT, own.append, patient=True)
        return told


def signed(number: int, key: PrivateKey = KEY, iss: str = ISS) -> bytes:
    return sign_statement(b"%d" % number, key, iss=iss, sub=f"s{number}", content_type="application/json")


def registered(number: int, receipt: bytes, *, erased: bool = False) -> list[object]:
    return [number, int(Said.REGISTERED), receipt, erased]


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_comes_in_one_turn_goes_out_in_one_frame_and_each_gets_its_own_receipt() -> None:
    owner = Owner()
    statements = [signed(number) for number in range(5)]

    told = owner.submit(*statements)
    await turn()

    (kind, _), handed = owner.heard[0], owner.handed
    read = [Statement.from_bytes(data) for data in statements]
    assert (kind, len(owner.heard)) == (Kind.HANDED, 1)
    assert [(one.entry, one.tbs_digest, one.statement) for _, one in handed] == [
        (one.entry, one.tbs_digest, one.normalised) for one in read
    ]
    owner.registrar.heard([registered(number, one.entry, erased=True) for number, one in reversed(handed)])
    assert told == [[Receipted(one.entry, one.entry, erased=True)] for one in read]
    assert owner.registrar.idle
    assert owner.registrar.bytes_under_way == 0


async def test_receipts_that_come_together_reach_each_its_own_and_nobody_twice() -> None:
    owner = Owner()
    told = owner.submit(*(signed(number) for number in range(4)))
    await turn()

    numbers = [number for number, _ in owner.handed]
    receipts = Receipts.of([*numbers, 10_000], [b"%d" % number for number in numbers] + [b"nobody"])
    owner.registrar.heard_receipts(Receipts._make(cbor2.loads(cbor2.dumps(receipts))))
    owner.registrar.heard_receipts(receipts)

    entries = [row.entry for _, row in owner.handed]
    assert told == [
        [Receipted(entry, b"%d" % number, erased=False)] for number, entry in zip(numbers, entries, strict=True)
    ]
    assert owner.registrar.idle
    assert owner.registrar.bytes_under_way == 0


async def test_those_that_wait_and_those_that_do_not_are_handed_over_apart() -> None:
    owner = Owner()
    told: list[Outcome] = []
    for number, patient in enumerate((True, False, True)):
        owner.registrar.submit(signed(number), CLIENT, told.append, patient=patient)
    await turn()

    assert [(sheaf.patient, len(sheaf.numbered()[1])) for sheaf in owner.sheaves] == [(True, 2), (False, 1)]


async def test_one_whose_time_is_nearly_over_does_not_take_others_along() -> None:
    """They would be judged again with it: who always sends such ones could keep others from their receipts."""
    owner = Owner()
    exp = int(time.time()) + 30
    headers: dict[int | str, Any] = {15: {1: ISS, 2: "s", 4: exp}}
    brief = sign_statement(b"1", KEY, iss=ISS, sub="s", content_type="application/json", headers=headers)
    owner.submit(signed(1), brief, signed(2))
    await turn()

    assert [(sheaf.not_after == exp - 1, len(sheaf.numbered()[1])) for sheaf in owner.sheaves] == [
        (False, 2),
        (True, 1),
    ]


async def test_good_bad_and_refused_ones_of_one_turn_are_told_apart() -> None:
    owner = Owner()
    good, bad, strange, wrong = owner.submit(
        signed(1), b"\xd2\x84\x40", signed(2, iss="https://stranger.example"), forged().normalised
    )
    await turn()

    assert isinstance(bad[0], MalformedError)
    assert [good, strange, wrong] == [[], [], []]
    owner.registrar.heard([[number, int(Said.UNKNOWN)] for number, _ in owner.asked])
    owner.registrar.heard([registered(owner.handed[0][0], b"r")])
    assert isinstance(good[0], Receipted)
    assert str(strange[0]) == "issuer: the issuer (iss) is not registered with this log"
    assert isinstance(wrong[0], RefusedError)
    assert str(wrong[0]).startswith("signature: ")


async def test_one_that_is_refused_but_registered_gets_its_receipt() -> None:
    """LEAF-7: whatever the policy says by now."""
    owner = Owner()
    data = signed(1, iss="https://stranger.example")
    (told,) = owner.submit(data)
    await turn()

    ((number, entry),) = owner.asked
    owner.registrar.heard([registered(number, b"r")])

    assert told == [Receipted(entry, b"r", erased=False)]
    assert entry == Statement.from_bytes(data).entry


async def test_an_answer_that_cannot_be_given_does_not_keep_others_from_theirs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner = Owner()
    told: list[Outcome] = []

    def fails(_: Outcome) -> None:
        raise ZeroDivisionError

    owner.registrar.submit(signed(1), CLIENT, fails, patient=True)
    owner.registrar.submit(signed(2), CLIENT, told.append, patient=True)
    await turn()
    owner.registrar.heard([registered(number, b"r") for number, _ in owner.handed])

    assert [type(outcome) for outcome in told] == [Receipted]
    assert "ZeroDivisionError" in caplog.text


async def test_each_of_the_owners_answers_means_what_it_says() -> None:
    owner = Owner()
    accepted, problem = owner.submit(signed(1), signed(2))
    await turn()
    (first, row), (second, _) = owner.handed

    owner.registrar.heard([
        [first, int(Said.ACCEPTED)],
        [second, int(Said.PROBLEM), 429, "Too Many Requests", "slower", {"Retry-After": "1"}, False],
        registered(first, b"later"),
        registered(10_000, b"nobody"),
    ])  # fmt: skip

    assert accepted == [Accepted(row.entry)]
    assert isinstance(problem[0], ProblemError)
    assert (problem[0].status, problem[0].headers) == (429, {"Retry-After": "1"})


async def test_a_stale_judgement_is_made_again_at_the_time_that_the_owner_says_and_not_for_ever() -> None:
    """REG-21."""
    owner = Owner()
    exp = 4_000_000_000
    headers: dict[int | str, Any] = {15: {1: ISS, 2: "s", 4: exp}}
    data = sign_statement(b"x", KEY, iss=ISS, sub="s", content_type="application/json", headers=headers)
    late, again = owner.submit(data, signed(2, OTHER))
    await turn()

    (first, _), (_, second) = owner.handed
    assert owner.sheaves[0].not_after == exp - 1
    owner.registrar.heard([[first, int(Said.STALE), exp]])
    await turn()
    ((number, _),) = owner.asked
    owner.registrar.heard([[number, int(Said.UNKNOWN)]])
    assert str(late[0]) == "clock-skew: the statement has expired (exp)"
    for _ in range(MAX_JUDGEMENTS):
        owner.registrar.heard([[owner.handed[-1][0], int(Said.STALE), 0]])
        await turn()
    assert "changing too fast" in str(again[0])
    assert second.entry == owner.handed[-1][1].entry


async def test_in_a_long_turn_there_are_pauses_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd at the door would wait for as many turns as it takes to turn it away."""
    monkeypatch.setattr(module, "AT_ONCE", 2)
    monkeypatch.setattr(module, "PAUSE_EVERY", 4)
    owner, judged = Owner(), []
    owner.registrar.in_pause = lambda: judged.append(len(owner.registrar._under_way))
    owner.submit(*(signed(number) for number in range(9)))
    await turn()

    assert judged == [4, 8]
    assert len(owner.handed) == 9


async def test_whatever_goes_wrong_in_a_pause_all_are_handed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    monkeypatch.setattr(module, "PAUSE_EVERY", 4)

    def fails() -> None:
        raise OSError("no")

    owner = Owner()
    owner.registrar.in_pause = fails
    owner.submit(*(signed(number) for number in range(9)))
    await turn()

    assert len(owner.handed) == 9
    assert "a pause in a long turn" in caplog.text


async def test_beyond_what_may_be_under_way_one_is_told_to_come_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner()
    monkeypatch.setattr(module, "MAX_UNDER_WAY", 2 * len(signed(1)) + 10)

    *taken, beyond = owner.submit(signed(1), signed(2), signed(3))

    assert isinstance(beyond[0], OverloadedError)
    assert taken == [[], []]


async def test_when_the_owner_is_gone_all_that_wait_are_told_so_once() -> None:
    owner = Owner()
    told = owner.submit(signed(1), signed(2))
    await turn()

    owner.registrar.lost()
    owner.registrar.lost()

    assert [[type(outcome) for outcome in own] for own in told] == [[StoreError], [StoreError]]


async def test_what_is_refused_is_freed_without_a_search_for_garbage() -> None:
    """Which is seldom: large statements that nobody wants must not pile up until then (server/garbage.py)."""
    owner = Owner()
    gc.collect()
    gc.disable()
    try:
        strangers = [signed(number, iss="urn:nobody") for number in range(4)]
        told = owner.submit(*strangers, forged().normalised, b"not a statement")
        await turn()
        owner.registrar.heard([[number, int(Said.UNKNOWN)] for number, _ in owner.asked])
        assert all(isinstance(outcome, TransparencyError) for (outcome,) in told)
        del told

        assert gc.collect() == 0
    finally:
        gc.enable()


async def test_a_fault_of_ours_in_a_second_judgement_is_answered_and_no_other_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = Owner()
    first, second = owner.submit(signed(1), signed(2))
    await turn()
    (number, _), (other, _) = owner.handed
    monkeypatch.setattr(module, "conclude", lambda _: 1 // 0)

    owner.registrar.heard([[number, int(Said.STALE), 0], registered(other, b"r")])

    assert isinstance(first[0], ZeroDivisionError)
    assert isinstance(second[0], Receipted)
