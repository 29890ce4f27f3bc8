"""Policies by statements: what each policy refuses of twenty statements, by which rule and with which words.

Every cell is judged. What a row does not name is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from tests.policy.samples import (
    CLAUDE,
    KEY,
    LEAF,
    NOW,
    OTHER,
    ROOT,
    VAC,
    certified,
    dump,
    envelope,
    forged,
    key_table,
    policy,
    root_table,
    statement,
)
from transparency.cose.keys import PrivateKey
from transparency.errors import RefusedError
from transparency.policy.explain import explain, refusal
from transparency.policy.judge import Judge
from transparency.statements.statement import Statement
from transparency.testing.pki import Authority

METADATA = {
    "session-id": "s", "agent-vendor": "anthropic", "trace-format": "claude-jsonl",
    "timestamp-start": "2026-01-01T00:00:00Z",
}  # fmt: skip


def vac(**changes: Any) -> bytes:
    record = deepcopy(VAC)
    record["session"]["entries"][0].update(changes)  # type: ignore[index]
    return dump(record)


STATEMENTS: Mapping[str, Statement] = {
    "plain": statement(),
    "by the other key": statement(key=OTHER),
    "by a stranger's key": statement(key=PrivateKey.generate(-7)),
    "by a stranger": statement(iss="https://stranger.example"),
    "forged": forged(),
    "fresh": statement(iat=NOW - 10),
    "old": statement(iat=NOW - 7200),
    "of tomorrow": statement(iat=NOW + 86_400),
    "text": statement(content_type="text/plain"),
    "large": statement(bytes(5000)),
    "labelled": statement(headers={-70_200: 1, "team": "red"}),
    "claude": statement(dump(CLAUDE) + b"\n", content_type="application/jsonl"),
    "vac": statement(vac()),
    "vac with a warning": statement(vac(timestamp=1_767_225_600)),
    "vac of 19 Feb": statement(dump({**VAC, "recording-agent": {}})),
    "broken vac": statement(dump({**VAC, "session": {**VAC["session"], "session-id": 7}})),  # type: ignore[dict-item]
    "envelope": envelope(),
    "described envelope": envelope(headers={-70_100: METADATA}),
    "certified": certified(),
    "certified beside": certified(protected=False),
}

ALWAYS = {
    "by a stranger's key": "key: the kid names no key",
    "by a stranger": "issuer: the issuer (iss) is not registered",
    "forged": "signature: the signature is not by the key",
    "of tomorrow": "clock-skew: the statement says it was issued (iat) more than 300 seconds",
}
NO_ROOT = dict.fromkeys(("certified", "certified beside"), "key: the policy registers no X.509 root")


def every(reason: str, *spared: str) -> dict[str, str]:
    """All but the *spared*, for this reason; those that are refused before keep theirs."""
    return {name: reason for name in STATEMENTS if name not in spared}


NOT_A_RECORD = "records: the payload is in no record format"
ENVELOPE_ONLY = "records: the policy checks the record, which a hash envelope does not carry"
NO_VAC = ("claude", "vac", "vac with a warning", "vac of 19 Feb", "broken vac", "envelope", "described envelope")

# name: (the policy, what it refuses beside ALWAYS)
POLICIES: Mapping[str, tuple[dict[str, str], Mapping[str, str]]] = {
    "everything that is signed": ({}, {}),
    "one key": ({"tables": key_table(KEY)}, {"by the other key": "key: the kid names no key", **NO_ROOT}),
    "a root alone": (
        {"tables": root_table()},
        {**every("key: the kid names no key", "certified", "certified beside", "by a stranger")},
    ),
    "another root": (
        {"tables": key_table(KEY) + key_table(OTHER) + root_table(Authority.create("Other Root"))},
        dict.fromkeys(NO_ROOT, "key: incomplete chain or wrong root"),
    ),
    "a root for another subject": (
        {"tables": key_table(KEY) + key_table(OTHER) + root_table(ROOT, 'subject = { CN = "agent-8" }')},
        dict.fromkeys(NO_ROOT, "key: "),
    ),
    "a pattern": (
        {"name": 'pattern = "https://acme.example/agents/*"'},
        {},
    ),
    "a pattern of another place": (
        {"name": 'pattern = "https://acme.example/*"'},
        every("issuer: the issuer (iss) is not registered"),
    ),
    "one algorithm": (
        {"issuer": 'algorithms = ["ESP384"]', "tables": key_table(OTHER) + key_table(KEY) + root_table()},
        every("algorithms: algorithm ES256 is not accepted", "by the other key", "by a stranger"),
    ),
    "JSON": (
        {"issuer": 'content-types = ["application/json"]'},
        dict.fromkeys(("text", "claude", "envelope", "described envelope"), "content-types: the content type is not"),
    ),
    "small": (
        {"issuer": "max-statement-size = 4000"},
        {"large": "max-statement-size: the statement has 5"},
    ),
    "envelopes only": (
        {"issuer": 'envelope = "required"'},
        every("envelope: the policy takes hash envelopes only", "envelope", "described envelope", "by a stranger"),
    ),
    "no envelopes": (
        {"issuer": 'envelope = "refused"'},
        dict.fromkeys(("envelope", "described envelope"), "envelope: the policy takes no hash envelopes"),
    ),
    "labels": (
        {"issuer": 'required-labels = [-70200, "team"]'},
        every("required-labels: the protected header has no -70200, team", "labelled", "by a stranger"),
    ),
    "claims": (
        {"issuer": 'required-claims = ["iat", 1]'},
        every("required-claims: the CWT claims have no iat", "fresh", "old", "of tomorrow", "by a stranger"),
    ),
    "fresh ones": (
        {"issuer": "max-age = 3600"},
        {
            **every("max-age: the statement does not say when it was issued", "fresh", *ALWAYS, *NO_ROOT),
            **dict.fromkeys(NO_ROOT, "max-age: the statement does not say"),
            "forged": "max-age: the statement does not say",
            "old": "max-age: the statement was issued (iat) 7200 seconds ago, the policy allows 3600",
        },
    ),
    "a key from tomorrow on": (
        {"tables": key_table(KEY, "not-before = 2026-05-29T20:26:40Z") + key_table(OTHER) + root_table()},
        every("key: the key signs from 2026-05-29T20:26:40Z on", "by the other key", *ALWAYS, *NO_ROOT)
        | dict.fromkeys(("forged", "of tomorrow"), "key: the key signs from"),
    ),
    "a key until yesterday": (
        {"tables": key_table(KEY, "not-after = 2026-05-27T20:26:40+00:00") + key_table(OTHER) + root_table()},
        every("key: the key signed until 2026-05-27T20:26:40Z", "by the other key", *ALWAYS, *NO_ROOT)
        | dict.fromkeys(("forged", "of tomorrow"), "key: the key signed until"),
    ),
    "a compromised key": (
        {"tables": key_table(KEY, "compromised-since = 2031-01-01T00:00:00Z") + key_table(OTHER) + root_table()},
        every("key: the key is compromised since 2031-01-01T00:00:00Z", "by the other key", *ALWAYS, *NO_ROOT)
        | dict.fromkeys(("forged", "of tomorrow"), "key: the key is compromised since"),
    ),
    "a compromised certified key": (
        {
            "tables": key_table(LEAF.signer, "compromised-since = 2020-01-01T00:00:00Z")
            + key_table(KEY) + key_table(OTHER) + root_table()
        },
        dict.fromkeys(NO_ROOT, "key: the key is compromised since"),
    ),
    "sessions of Claude": (
        {"tables": '[issuer.records]\nformats = ["claude-jsonl"]\n' + key_table(KEY) + key_table(OTHER) + root_table()},
        every(NOT_A_RECORD, *ALWAYS, *NO_VAC)
        | dict.fromkeys(
            ("vac", "vac with a warning", "vac of 19 Feb", "broken vac"),
            "records: a VAC record (JSON) is not a record format that the policy accepts",
        )
        | {"envelope": "records: the hash envelope has no signed trace-metadata (-70100)"},
    ),
    "records of VAC -00": (
        {"tables": '[issuer.records]\nprofiles = ["-00"]\n' + key_table(KEY) + key_table(OTHER) + root_table()},
        every(NOT_A_RECORD, *ALWAYS, *NO_VAC)
        | {"vac of 19 Feb": "records: profile 19 Feb is not accepted"}
        | dict.fromkeys(("envelope", "described envelope"), ENVELOPE_ONLY),
    ),
    "records that may warn": (
        {"tables": '[issuer.records]\ncheck = "warn"\n' + key_table(KEY) + key_table(OTHER) + root_table()},
        every(NOT_A_RECORD, *ALWAYS, *NO_VAC)
        | {"broken vac": "records: the record breaks the rules of its format in 1 places"}
        | dict.fromkeys(("envelope", "described envelope"), ENVELOPE_ONLY),
    ),
    "clean records": (
        {"tables": '[issuer.records]\ncheck = "clean"\n' + key_table(KEY) + key_table(OTHER) + root_table()},
        every(NOT_A_RECORD, *ALWAYS, *NO_VAC)
        | {"broken vac": "records: the record breaks the rules of its format in 1 places"}
        | {"vac with a warning": "records: the record has 1 warnings, the policy wants none"}
        | dict.fromkeys(("envelope", "described envelope"), ENVELOPE_ONLY),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", POLICIES)
def test_each_policy_accepts_and_refuses_what_it_says(row: str) -> None:
    """REG-2, REG-4, REG-15: by which rule, and why."""
    parts, refused = POLICIES[row]
    judge = Judge(policy(**parts))
    expected = {name: ({**ALWAYS, **refused}).get(name, "accepted") for name in STATEMENTS}

    found = {name: verdict(judge, made) for name, made in STATEMENTS.items()}

    assert {name: said for name, said in found.items() if not said.startswith(expected[name])} == {}


@pytest.mark.parametrize("row", POLICIES)
def test_what_is_explained_is_what_is_decided(row: str) -> None:
    """One implementation: the first step that does not pass is the refusal, word for word."""
    judge = Judge(policy(**POLICIES[row][0]))

    for made in STATEMENTS.values():
        refusing = refusal(explain(judge, made, NOW))
        told = "accepted" if refusing is None else f"{refusing.rule}: {refusing.reason}"
        assert told == verdict(judge, made)


def verdict(judge: Judge, made: Statement) -> str:
    try:
        judge.judge(made, NOW)
    except RefusedError as error:
        return str(error)
    return "accepted"


def test_the_matrix_is_not_empty_anywhere() -> None:
    assert len(STATEMENTS) * len(POLICIES) == 460
