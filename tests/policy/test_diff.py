"""What one policy allows that another does not."""

from __future__ import annotations

import pytest

from tests.policy.samples import ISS, KEY, OTHER, ROOT, key_table, policy, root_table
from transparency.policy.diff import compare
from transparency.testing.pki import Authority

ONE = f"issuer {ISS}"
KEY_OF_ONE = f"{ONE} key {KEY.public.kid.hex()}"
BASE = key_table(KEY)


def records(text: str) -> dict[str, str]:
    return {"tables": f"[issuer.records]\n{text}\n{BASE}"}


@pytest.mark.parametrize(
    ("old", "new", "kind", "where"),
    [
        ({}, {"accept": "clock-skew = 10"}, "narrowed", "accept.clock-skew"),
        ({}, {"accept": "max-artifact-size = 1"}, "narrowed", "accept.max-artifact-size"),
        ({}, {"accept": 'duplicates = "refuse"'}, "narrowed", "accept.duplicates"),
        ({}, {"algorithms": '["ES256", "ES384", "EdDSA"]'}, "widened", "accept.algorithms"),
        ({}, {"algorithms": '["ES256"]'}, "narrowed", "accept.algorithms"),
        ({}, {"algorithms": '["ES256", "EdDSA"]'}, "changed", "accept.algorithms"),
        ({}, {"content_types": '["text/*"]'}, "narrowed", "accept.content-types"),
        ({}, {"issuer": 'algorithms = ["ES256"]'}, "narrowed", f"{ONE} algorithms"),
        ({}, {"issuer": 'content-types = ["text/*"]'}, "narrowed", f"{ONE} content-types"),
        ({}, {"issuer": "max-statement-size = 9"}, "narrowed", f"{ONE} max-statement-size"),
        ({"issuer": "max-age = 9"}, {"issuer": "max-age = 99"}, "widened", f"{ONE} max-age"),
        ({}, {"issuer": 'required-labels = ["x"]'}, "narrowed", f"{ONE} required-labels"),
        (
            {"issuer": 'required-claims = ["iat", "exp"]'},
            {"issuer": 'required-claims = ["iat"]'},
            "widened",
            f"{ONE} required-claims",
        ),
        ({}, {"issuer": 'envelope = "required"'}, "narrowed", f"{ONE} envelope"),
        ({"issuer": 'envelope = "refused"'}, {"issuer": 'envelope = "required"'}, "changed", f"{ONE} envelope"),
        ({}, {"issuer": 'duplicates = "refuse"'}, "narrowed", f"{ONE} duplicates"),
        ({}, {"issuer": 'retention = "fedramp"'}, "changed", f"{ONE} retention"),
        ({}, records('check = "warn"'), "narrowed", f"{ONE} records.check"),
        (records('check = "clean"'), records('check = "warn"'), "widened", f"{ONE} records.check"),
        ({}, records('formats = ["vac-json"]'), "narrowed", f"{ONE} records.formats"),
        (records('formats = ["vac-json"]'), {}, "widened", f"{ONE} records.formats"),
        ({}, {"tables": BASE + key_table(OTHER)}, "added", f"{ONE} key {OTHER.public.kid.hex()}"),
        ({"tables": BASE + key_table(OTHER)}, {}, "removed", f"{ONE} key {OTHER.public.kid.hex()}"),
        ({}, {"tables": key_table(KEY, "not-before = 2026-01-01T00:00:00Z")}, "narrowed", f"{KEY_OF_ONE} not-before"),
        ({}, {"tables": key_table(KEY, "not-after = 2026-01-01T00:00:00Z")}, "narrowed", f"{KEY_OF_ONE} not-after"),
        (
            {"tables": key_table(KEY, "not-after = 2026-01-01T00:00:00Z")},
            {"tables": key_table(KEY, "not-after = 2027-01-01T00:00:00Z")},
            "widened",
            f"{KEY_OF_ONE} not-after",
        ),
        (
            {},
            {"tables": key_table(KEY, "compromised-since = 2026-01-01T00:00:00Z")},
            "narrowed",
            f"{KEY_OF_ONE} compromised-since",
        ),
        ({}, {"tables": key_table(KEY, 'alg = "ES256"')}, "changed", f"{KEY_OF_ONE} alg"),
        ({}, {"extra": '[[retention]]\nname = "x"\ndays = 1'}, "added", "retention x"),
        ({}, {"extra": f'[[issuer]]\npattern = "a*"\n{key_table(OTHER)}'}, "added", "issuer a*"),
        ({}, {"name": 'iss = "b"'}, "added", "issuer b"),
    ],
)  # fmt: skip
def test_each_difference_is_named_with_its_direction(
    old: dict[str, str], new: dict[str, str], kind: str, where: str
) -> None:
    found = compare(policy(**{"tables": BASE, **old}), policy(**{"tables": BASE, **new}))

    assert (kind, where) in {(each.kind, each.where) for each in found}
    assert len(found) == (2 if where == "issuer b" else 1)


def test_what_a_root_requires_narrows_it() -> None:
    old = policy(tables=root_table(ROOT, 'san = ["dns:a.example"]'))
    new = policy(tables=root_table(ROOT, 'san = ["dns:a.example", "dns:b.example"]', 'subject = { CN = "x" }'))
    other = policy(tables=root_table(Authority.create("Other")))

    assert [(each.kind, each.where.rpartition(" ")[2]) for each in compare(old, new)] == [
        ("narrowed", "subject"), ("widened", "san"),
    ]  # fmt: skip
    assert [each.kind for each in compare(old, other)] == ["removed", "added"]


def test_the_place_on_the_log_is_no_difference() -> None:
    first = policy(tables=BASE)

    assert compare(first, first.following("entry-of-the-first")) == []
