"""Why the policy refuses, as the client hears it: rule and reason in problem details."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.server.served import ISS, Served
from transparency.cose.cbor import decode
from transparency.policy.issuer import Records


async def change(site: Served, **rules: Any) -> None:
    """Put these rules for the issuer in force."""
    policy = site.log.policy
    issuers = tuple(replace(each, **rules) if each.iss == ISS else each for each in policy.issuers)
    await site.log.update_policy(site.document(policy.following(site.log.policy_entry_id, issuers)))


@pytest.mark.parametrize(
    ("rules", "detail"),
    [
        ({"envelope": "required"}, "envelope: the policy takes hash envelopes only from this issuer"),
        ({"required_labels": (-70_100,)}, "required-labels: the protected header has no -70100"),
        ({"required_claims": ("exp",)}, "required-claims: the CWT claims have no exp"),
        ({"max_age": 60}, "max-age: the statement does not say when it was issued (iat)"),
        ({"max_statement_size": 10}, "max-statement-size: the statement has"),
        ({"content_types": ("text/*",)}, "content-types: the content type is not accepted by the policy"),
        ({"records": Records(check="clean")}, "records: the payload is in no record format that is known here"),
    ],
)
async def test_rule_and_reason_are_told(site: Served, rules: dict[str, Any], detail: str) -> None:
    """API-8, REG-2: 400 "Rejected" and why; with a new policy from the next statement on."""
    await change(site, **rules)

    reply = await site.post(site.statement())

    assert (reply.status, reply.title) == (400, "Rejected")
    assert f": {detail}" in decode(reply.body)[-2]
    assert (await site.post(site.statement(), Prefer="respond-async")).title == "Rejected"
