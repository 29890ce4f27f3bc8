"""The access log: lines that follow from each other, by several writers, through crashes, and what a check finds."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from transparency.errors import LogUnusableError, MalformedError
from transparency.log.access_check import AccessReport, check_access
from transparency.log.access_digests import AccessDigests, RegisteredDigest, digests_in
from transparency.log.access_lines import Opening, Use, read_line
from transparency.log.access_log import AccessLog, Position, lines_of, segments
from transparency.log.folder import Folder
from transparency.policy.access_digest import AccessDigest
from transparency.testing import MadeLog, make_log, running

ORIGIN = "log.example/test"


def write(folder: Path, count: int, **options: int) -> Position:
    log = AccessLog(folder, ORIGIN, clock=lambda: 1_700_000_000.0, **options)
    for number in range(count):
        log.append("token:0123456789ab", "read-statement", f"entry-{number}", 200)
    end = log.position()
    log.close()
    assert end is not None
    return end


def registered(end: Position, index: int = 7) -> RegisteredDigest:
    return RegisteredDigest(index, f"id-{index}", AccessDigest(ORIGIN, end.segment, end.count, end.chain))


def check(folder: Path, *digests: RegisteredDigest) -> AccessReport:
    return check_access(folder, ORIGIN, digests)


def rewrite(folder: Path, change: Callable[[list[bytes]], list[bytes]], segment: int = 1) -> None:
    path = folder / f"{segment:08d}.jsonl"
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def test_each_line_says_who_did_what_and_follows_from_the_one_before(tmp_path: Path) -> None:
    end = write(tmp_path / "a", 3)
    first, *rest = [read_line(data[:-1])[0] for data in lines_of(tmp_path / "a", 1)]

    assert first == Opening(1, 1_700_000_000_000, ORIGIN, 1, bytes(32))
    assert rest[1] == Use(3, 1_700_000_000_000, "token:0123456789ab", "read-statement", "entry-1", 200)
    assert (end.segment, end.count) == (1, 4)
    report = check(tmp_path / "a", registered(end))
    assert (report.lines, report.covered, report.findings) == (4, 4, [])


def test_several_processes_write_one_chain(tmp_path: Path) -> None:
    """A command appends beside the server: lines never mix, and none is lost."""
    context = multiprocessing.get_context("fork")
    writers = [
        context.Process(target=write, args=(tmp_path / "a", 100), kwargs={"segment_bytes": 5_000}) for _ in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(PATIENCE)

    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    report = check(tmp_path / "a")
    assert report.findings == []
    assert report.lines == 300 + report.segments
    assert report.segments > 3


def test_a_line_that_power_loss_cut_off_goes_and_the_chain_goes_on(tmp_path: Path) -> None:
    write(tmp_path / "a", 2)
    with (tmp_path / "a" / "00000001.jsonl").open("ab") as file:
        file.write(b'{"n":4,"time":"2023' + bytes(10))
    before = check(tmp_path / "a")

    end = write(tmp_path / "a", 1)

    assert (before.unfinished, before.findings, before.lines) == (True, [], 3)
    assert end.count == 4
    assert check(tmp_path / "a").findings == []


def test_an_end_that_cannot_be_continued_is_refused_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path / "a", 2)
    rewrite(tmp_path / "a", lambda lines: [*lines, b"junk\n"])

    with pytest.raises(LogUnusableError, match="log access --verify"):
        write(tmp_path / "a", 1)


def test_what_a_client_wrote_freely_never_gets_in(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "a", ORIGIN)
    for word in ("a b", "ä", 'x"', "line\nfeed", "a" * 201):
        with pytest.raises(MalformedError):
            log.append("local", "search", word, 200)
    log.close()


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda lines: [*lines[:2], *lines[3:]], "line 3 is missing before line 4"),
        (lambda lines: [*lines[:2], *lines[4:]], "lines 3 to 4 are missing before line 5"),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "line 3 stands after line 4"),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], "line 3 stands after line 3"),
        (lambda lines: [*lines[:2], lines[2].replace(b"200", b"404"), *lines[3:]], "line 3 was changed"),
        (lambda lines: [*lines[:2], lines[2].replace(b"entry-1", b"entry-7"), *lines[3:]], "line 3 was changed"),
        (lambda lines: [*lines[:2], lines[2].replace(b":200", b": 200"), *lines[3:]], "line 3 (segment 1) cannot be"),
        (lambda lines: [*lines[:2], b"\n", *lines[3:]], "line 3 (segment 1) cannot be read"),
        (lambda lines: lines[1:], "line 1 (segment 1) cannot be read"),
        (lambda lines: lines[:-2], "lines 5 to 6 are missing at the end: entry id-7 (index 7) has registered 6"),
        (lambda lines: [], "lines 1 to 6 are missing at the end"),
    ],
)
def test_a_line_that_was_removed_changed_or_moved_is_named(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], finding: str
) -> None:
    end = write(tmp_path / "a", 5)
    rewrite(tmp_path / "a", change)

    findings = check(tmp_path / "a", registered(end)).findings

    assert any(finding in found for found in findings), findings


def test_a_log_that_was_written_anew_is_not_the_one_that_was_registered(tmp_path: Path) -> None:
    """No break in the chain: only the digests on the log tell, and between which two of them it happened."""
    first = write(tmp_path / "a", 2)
    second = write(tmp_path / "a", 2)
    (tmp_path / "a" / "00000001.jsonl").unlink()
    write(tmp_path / "a", 2)
    log = AccessLog(tmp_path / "a", ORIGIN, clock=lambda: 1_700_000_000.0)
    log.append("token:0123456789ab", "read-statement", "another", 200)
    log.append("token:0123456789ab", "read-statement", "entry-1", 200)
    log.close()

    report = check(tmp_path / "a", registered(first, 7), registered(second, 8))

    assert report.covered == 3
    assert report.findings == ["lines 4 to 5 are not those whose digest entry id-8 (index 8) has registered"]


def test_segments_can_be_checked_without_those_before_and_their_absence_is_told(tmp_path: Path) -> None:
    end = write(tmp_path / "a", 40, segment_bytes=2_000)
    numbers = segments(tmp_path / "a")
    whole = check(tmp_path / "a", registered(end))
    (tmp_path / "a" / f"{numbers[0]:08d}.jsonl").unlink()
    rest = check(tmp_path / "a", registered(end))
    (tmp_path / "a" / f"{numbers[2]:08d}.jsonl").unlink()
    gap = check(tmp_path / "a", registered(end))

    assert len(numbers) > 4
    assert whole.findings == []
    assert (rest.covered, len(rest.findings)) == (end.count, 1)
    assert "the segments before 2 are gone" in rest.findings[0]
    assert (gap.covered, len(gap.findings)) == (end.count, 2)


async def test_digests_are_registered_when_there_is_something_new(tmp_path: Path) -> None:
    """By the operations key, with the end of each closed segment; after a restart it goes on where it was."""
    made = make_log(tmp_path / "log")
    folder = Folder(made.data).access_log
    counts = []
    for _ in range(2):
        async with running(made) as log:
            digests = AccessDigests(made.data, log.origin, log.operate)
            await digests.start()
            nothing = await digests.register()
            write_for(made, folder, 20)
            counts.append(len(await digests.register()))
            again = await digests.register()
            write_for(made, folder, 1)
            await digests.stop()
        assert nothing == again == []
    report = check_access(folder, made.origin, digests_in(Folder(made.data)))

    assert report.findings == []
    assert report.covered == report.lines
    # The end of each segment is there, so that the next can stand alone.
    ends = {each.digest.segment for each in digests_in(Folder(made.data))}
    assert ends == set(segments(folder))
    assert counts[0] == 2


def write_for(made: MadeLog, folder: Path, count: int) -> None:
    log = AccessLog(folder, made.origin, segment_bytes=3_000)
    for _ in range(count):
        log.append("192.0.2.1", "search", "tool,issuer", 200)
    log.close()


def test_nothing_is_made_before_somebody_uses_the_log(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "a", ORIGIN)

    assert log.position() is None
    log.close()
    assert not (tmp_path / "a").exists()
    assert check(tmp_path / "a").findings == []


def test_the_files_are_the_owners_alone(tmp_path: Path) -> None:
    write(tmp_path / "a", 1)

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()} == {0o600}
