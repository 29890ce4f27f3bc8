"""A sentence about one thing is in the singular."""

from __future__ import annotations

import pytest

from transparency.compliance.wording import inflected


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("1 entries, recorded by x", "1 entry, recorded by x"),
        ("1 entries are empty", "1 entry is empty"),
        ("1 keys of 1 issuers, none compromised", "1 key of 1 issuer, none compromised"),
        ("1 records were redacted", "1 record was redacted"),
        ("2 results do not say, 1 calls have no call-id", "2 results do not say, 1 call has no call-id"),
        ("1 accesses are covered by 1 digests", "1 access is covered by 1 digest"),
        ("1 hashes are of an unknown kind", "1 hash is of an unknown kind"),
        ("1 further turns, 1 asking policies", "1 further turn, 1 asking policy"),
        ("1 exit codes", "1 exit code"),
        ("kept 1 months: less than 6", "kept 1 month: less than 6"),
        ("cosigned by 1 of 1 witnesses", "cosigned by 1 of 1 witnesses"),
        ("0 of 1 calls failed", "0 of 1 calls failed"),
        ("11 entries, 21 records, 0.1 tokens", "11 entries, 21 records, 0.1 tokens"),
        ("1 timesheets", "1 timesheets"),
    ],
)
def test_what_is_one_is_said_in_the_singular(written: str, said: str) -> None:
    assert inflected(written) == said
