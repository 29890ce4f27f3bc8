"""L7 and L11: one session, one content; links between records, and to commits."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.compliance.log_world import findings, session, sign, world
from transparency.compliance.finding import Verdict
from transparency.cose import labels
from transparency.policy.document import Policy
from transparency.records import canonical_json
from transparency.records.convert import convert
from transparency.statements.statement import parse_entry_id
from transparency.testing import SampleIssuer, running


def canonical(record: bytes, **members: Any) -> bytes:
    """The canonical record of a session, as its converter would sign it."""
    (made,) = convert(record, created="2026-09-21T14:00:00Z")
    return canonical_json.dumps({**made, **members})


async def test_sessions_amended_with_a_link_and_registered_twice_alike_pass(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        first = await log.register(sign(made.issuer, session("s")))
        headers: dict[int | str, Any] = {
            labels.SUPERSEDES: parse_entry_id(first.entry_id),
            labels.SESSION_CHECKPOINT: 2,
        }
        await log.register(sign(made.issuer, session("s") + session("s"), headers=headers))
        await log.register(sign(made.issuer, session("s"), sub="again"))

    found = findings(made)["L7"]

    assert found.verdict is Verdict.PASS
    assert (found.counts["sessions"], found.counts["linked"], found.counts["same-content-again"]) == (3, 1, 1)


async def test_a_record_that_names_a_session_twice_is_not_registered_again(tmp_path: Path) -> None:
    made = world(tmp_path)
    outcome = b'{"version": "0.1.0", "id": "t", "timestamp": "2026-09-21T14:00:00Z", "files": []}\n'
    async with running(made) as log:
        await log.register(sign(made.issuer, outcome * 2))

    found = findings(made)["L7"]

    assert (found.verdict, found.counts["sessions"], found.counts["same-content-again"]) == (Verdict.PASS, 2, 0)


async def test_another_content_for_a_session_without_a_link_fails(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        await log.register(sign(made.issuer, session("s")))
        other = await log.register(sign(made.issuer, session("s", said="Something else.")))

    found = findings(made)["L7"]

    assert found.verdict is Verdict.FAIL
    assert found.pointers == (other.entry_id,)
    assert found.counts["different-content"] == 1


async def test_another_content_by_another_issuer_is_a_warning(tmp_path: Path) -> None:
    made = world(tmp_path)
    stranger = SampleIssuer("https://other.example")

    def both(old: Policy, previous: str) -> Policy:
        return old.following(previous, (*old.issuers, stranger.as_policy_issuer()))

    async with running(made) as log:
        await log.update_policy(made.next_policy(log, both))
        await log.register(sign(made.issuer, session("s")))
        other = await log.register(sign(stranger, session("s", said="Something else.")))

    found = findings(made)["L7"]

    assert found.verdict is Verdict.WARN
    assert found.pointers == (other.entry_id,)


async def test_statements_that_are_no_records_have_no_sessions_and_no_links(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        await log.register(made.issuer.sign(b"hello"))

    found = findings(made)

    assert found["L7"].verdict is Verdict.NOT_APPLICABLE
    assert found["L11"].verdict is Verdict.NOT_APPLICABLE
    assert found["L11"].counts["records"] == 1


async def test_a_conversion_leads_to_its_source_whichever_came_first(tmp_path: Path) -> None:
    made = world(tmp_path)
    native = session("s")
    async with running(made) as log:
        await log.register(sign(made.issuer, canonical(native), content_type="application/json"))
        await log.register(sign(made.issuer, native))

    found = findings(made)

    assert found["L11"].verdict is Verdict.PASS
    assert (found["L11"].counts["links"], found["L11"].counts["unresolved"]) == (1, 0)
    assert found["L7"].counts["linked"] == 1


async def test_a_conversion_of_what_is_not_on_the_log_is_a_warning(tmp_path: Path) -> None:
    made = world(tmp_path)
    async with running(made) as log:
        alone = await log.register(sign(made.issuer, canonical(session("s")), content_type="application/json"))

    found = findings(made)["L11"]

    assert found.verdict is Verdict.WARN
    assert found.pointers == (alone.entry_id,)


def repository(folder: Path) -> str:
    """A repository with one commit, and its id."""
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    found = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


async def test_commits_are_looked_up_in_the_repository_that_is_given(tmp_path: Path) -> None:
    made = world(tmp_path)
    (tmp_path / "git").mkdir()
    there = repository(tmp_path / "git")
    native = session("s")
    record = json.loads(canonical(native))
    async with running(made) as log:
        await log.register(sign(made.issuer, native))
        known = {**record, "vcs": {"type": "git", "revision": there}}
        await log.register(sign(made.issuer, canonical_json.dumps(known), content_type="application/json"))

    without = findings(made)["L11"]
    assert without.verdict is Verdict.ATTEST
    assert (without.counts["revisions"], without.counts["revisions-checked"]) == (1, 0)
    found = findings(made, repository=tmp_path / "git")["L11"]
    assert found.verdict is Verdict.PASS
    assert found.counts["revisions-checked"] == 1

    async with running(made) as log:
        wrong = {**record, "vcs": {"type": "git", "revision": "0" * 39 + "1"}}
        entry = await log.register(sign(made.issuer, canonical_json.dumps(wrong), content_type="application/json"))

    found = findings(made, repository=tmp_path / "git")["L11"]
    assert found.verdict is Verdict.FAIL
    assert found.pointers == (entry.entry_id,)


async def test_no_text_of_a_stranger_breaks_the_checks(tmp_path: Path) -> None:
    """Separators, half surrogates, directions of writing and wrong types in everything that log checks look up."""
    made = world(tmp_path)
    odd = "\x1f\x1fa\u202eb\x00"
    record = json.loads(canonical(session("s")))
    record["session"]["session-id"] = odd
    record["session"]["parent-session-id"] = odd + "parent"
    record["session"]["agent-meta"]["cli-name"] = odd
    record["vcs"] = {"type": "git", "revision": "--upload-pack=x\x1f"}
    record["source"]["raw-hash"] = odd
    wrong = json.loads(canonical(session("wrong")))
    wrong["session"]["entries"] += [{"type": "tool-call", "name": [1], "token-usage": [2]}, 7, {"type": {}}]
    half = session("half").replace(b"half", b"\\ud800")
    async with running(made) as log:
        for number in range(2):
            data = json.dumps({**record, "id": str(number)}).encode()
            await log.register(sign(made.issuer, data, content_type="application/json"))
        await log.register(sign(made.issuer, json.dumps(wrong).encode(), content_type="application/json"))
        await log.register(sign(made.issuer, half))
    (tmp_path / "git").mkdir()
    repository(tmp_path / "git")

    found = findings(made, repository=tmp_path / "git", inventory=b'[[expect]]\niss = "https://issuer.example"\n')

    assert len(found) == 13
    assert found["L11"].counts["revisions-missing"] == 1
    assert found["L7"].counts["different-content"] == 1
    assert all(
        text.isprintable() for each in found.values() for text in (each.summary, *map(str, each.counts.values()))
    )
