"""Who reads a large record keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from transparency.log.judging import LARGE_RECORD, judge_statement
from transparency.policy.document import Policy
from transparency.policy.issuer import Records
from transparency.policy.judge import Judge, Judgement
from transparency.statements.statement import Statement
from transparency.testing import MadeLog, make_log, running


class Waiting(Judge):
    """Waits, as reading a large record does, until the event loop says so; false if it never could."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.go_on = threading.Event()
        self.told = False

    def judge(self, statement: Statement, now: int) -> Judgement:
        # In the event loop's own thread nobody could say so: there is nothing to wait for.
        self.told = threading.current_thread() is not threading.main_thread() and self.go_on.wait(PATIENCE)
        return Judgement(self.policy.generation, 0, now, unique=bool(statement.payload))


async def judged(made: MadeLog, records: Records, size: int) -> bool:
    """Whether the event loop could do something else while a statement of *size* was judged."""
    async with running(made) as log:
        issuers = tuple(replace(issuer, records=records) for issuer in log.policy.issuers)
        judge = Waiting(replace(log.policy, issuers=issuers))
        statement = Statement.from_bytes(made.issuer.sign(b"x" * size))
        asyncio.get_running_loop().call_soon(judge.go_on.set)
        await judge_statement(judge, statement, log.service_keys, 1)
    return judge.told


async def test_a_large_record_that_the_policy_has_read_is_judged_beside_the_event_loop(tmp_path: Path) -> None:
    assert await judged(make_log(tmp_path / "log"), Records(check="warn"), LARGE_RECORD + 1)


@pytest.mark.parametrize(("records", "size"), [(Records(), LARGE_RECORD + 1), (Records(check="warn"), LARGE_RECORD)])
async def test_what_is_quick_to_judge_does_not_wait_for_a_thread(tmp_path: Path, records: Records, size: int) -> None:
    assert not await judged(make_log(tmp_path / "log"), records, size)
