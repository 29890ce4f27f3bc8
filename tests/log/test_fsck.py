"""fsck finds every kind of damage by name, and nothing in a log that is whole."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from transparency.cose.keys import PrivateKey
from transparency.errors import LogUnusableError
from transparency.log.fsck import fsck
from transparency.log.schema import PAGE_SIZE
from transparency.testing import MadeLog, make_log, running

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
async def made(tmp_path: Path) -> MadeLog:
    """A log with 300 entries (a full tile and a partial one) in several batches."""
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        for first in range(0, 298, 50):
            await asyncio.gather(*(log.register(made.issuer.sign(str(n).encode())) for n in range(first, first + 50)))
    return made


def damage(made: MadeLog, sql: str, *parameters: object) -> str:
    """Run *sql* behind the log's back and give what fsck says then."""
    connection = sqlite3.connect(made.data / "log.sqlite")
    with connection:
        connection.execute(sql, parameters)
    connection.close()
    report = made.fsck()
    assert not report.clean
    return "\n".join(f"{finding.where}: {finding.what}" for finding in report.findings)


async def test_a_whole_log_is_clean_and_counted(made: MadeLog) -> None:
    seen: list[tuple[int, int]] = []

    report = fsck(made.data, watermark=made.watermark, progress=lambda done, total: seen.append((done, total)))

    assert report.clean
    assert report.size == 302
    assert report.heads >= 7
    assert seen[-1] == (302, 302)


async def test_it_reads_beside_a_running_log(made: MadeLog) -> None:
    async with running(made) as log:
        await log.register(made.issuer.sign(b"one more"))

        assert (await asyncio.to_thread(made.fsck)).clean


async def test_one_flipped_byte_in_a_statement_is_found(made: MadeLog) -> None:
    with sqlite3.connect(made.data / "log.sqlite") as connection:
        (statement,) = connection.execute("SELECT statement FROM entries WHERE idx = 7").fetchone()
    connection.close()
    flipped = bytearray(statement)
    flipped[100] ^= 1

    said = damage(made, "UPDATE entries SET statement = ? WHERE idx = 7", bytes(flipped))

    assert said == "entry 7: the stored statement does not hash to the entry"


async def test_a_damaged_page_is_a_finding_not_a_crash(made: MadeLog) -> None:
    database = made.data / "log.sqlite"
    content = bytearray(database.read_bytes())
    for page in range(3, len(content) // PAGE_SIZE):
        content[page * PAGE_SIZE : page * PAGE_SIZE + 100] = bytes(100)
    database.write_bytes(content)

    report = made.fsck()

    assert report.findings[0].where == "store"
    assert "could not be read" in report.findings[0].what


async def test_an_exchanged_entry_is_found_in_the_tree(made: MadeLog) -> None:
    said = damage(
        made,
        "UPDATE entries SET (entry, statement, tbs) = (SELECT entry, statement, tbs FROM entries WHERE idx = 8)"
        " WHERE idx = 7",
    )

    assert "tile 0/0: does not follow from the entries" in said
    assert "its root does not follow" in said
    assert "entry 7: the digest index names another place" in said


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DELETE FROM entries WHERE idx = 9", "entry 9: is missing"),
        ("UPDATE entries SET generation = 5 WHERE idx = 9", "entry 9: says generation 5, in force was 1"),
        ("UPDATE tiles SET hashes = zeroblob(1024) WHERE key = 1", "tile 0/0"),
        ("DELETE FROM tiles WHERE key >= 8 AND key < 16", "tile 0/1"),
        ("UPDATE heads SET root = zeroblob(32) WHERE size = 302", "head 302"),
        ("UPDATE heads SET signature = zeroblob(64) WHERE size = 2", "head 2: its signature does not verify"),
        ("UPDATE heads SET time = time + 5 WHERE size = 2", "head 2"),
        (
            "UPDATE heads SET kid = x'00' WHERE size = 2",
            "head 2: is signed by a key that was not the receipts key in use",
        ),
        ("DELETE FROM heads WHERE size = 302", "no signed head is stored"),
        ("DELETE FROM heads WHERE size = 52", "heads: "),
        ("DELETE FROM digest_young WHERE idx = 5", "entry 5: the digest index"),
        ("DELETE FROM sibling_young WHERE idx = 5", "entry 5: the sibling index"),
        ("UPDATE indexed SET size = 999", "index: says it covers 999"),
        ("UPDATE tip SET root = zeroblob(32)", "tip: its root does not follow"),
        ("UPDATE entries SET kind = 1 WHERE idx = 5", "entry 5: this is not a policy document"),
    ],
)
async def test_every_kind_of_damage_is_named(made: MadeLog, sql: str, says: str) -> None:
    assert says in damage(made, sql)


async def test_a_mark_ahead_of_the_store_is_found(made: MadeLog, tmp_path: Path) -> None:
    said = damage(made, "UPDATE tip SET size = 252, root = (SELECT root FROM heads WHERE size = 252)")

    assert "mark: the log" in said
    assert "302" in said


async def test_another_policy_key_than_the_pinned_one_is_found(made: MadeLog) -> None:
    config = made.data / "config.toml"
    pinned = PrivateKey.generate(-8).public.thumbprint.hex()
    lines = [
        f'policy-key-thumbprint = "{pinned}"' if line.startswith("policy-key") else line
        for line in config.read_text().splitlines()
    ]
    config.write_text("\n".join(lines))

    report = made.fsck()

    assert "another policy key" in report.findings[0].what


def test_there_must_be_a_log(tmp_path: Path) -> None:
    with pytest.raises(LogUnusableError, match="no log"):
        fsck(tmp_path)
