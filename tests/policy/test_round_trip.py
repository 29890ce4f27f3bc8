"""Any policy that can be meant reads back as it was written, and is written in one way only."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transparency.cose.keys import PrivateKey
from transparency.cose.x509_path import Root
from transparency.policy import names
from transparency.policy.diff import compare
from transparency.policy.document import Policy
from transparency.policy.issuer import CHECK, DUPLICATES, ENVELOPE, Issuer, Records, Validity
from transparency.policy.retention import BUILT_IN, RetentionClass, Term, Tier, tiered
from transparency.testing.pki import Authority

POLICY_KEY = PrivateKey.generate(-8).public
KEYS = tuple(PrivateKey.generate(alg).public for alg in (-7, -35, -8, -38))
ROOTS = tuple(Authority.create(name).der for name in ("One", "Two"))

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
times = st.none() | st.integers(0, 253_402_300_799)
sizes = st.none() | st.integers(1, 1000)
labels = st.lists(
    st.integers(-(2**63), 2**63 - 1).filter(lambda n: n not in (3, 258, 259, 260, 395)) | texts, max_size=3
)
claims = st.lists(st.integers(-(2**63), 2**63 - 1) | st.sampled_from(sorted(names.CLAIMS)), max_size=3)
terms = st.builds(Term, months=st.integers(1, 1200)) | st.builds(Term, days=st.integers(1, 36_600))
roots = st.builds(
    Root,
    st.sampled_from(ROOTS),
    st.dictionaries(st.sampled_from(["CN", "O", "OU", "C"]), texts, max_size=2),
    st.lists(st.sampled_from(["dns:*.acme.example", "uri:https://a.example/**", "email:*@b.example"]), max_size=2).map(
        tuple
    ),
    st.lists(st.sampled_from(["1.3.6.1.5.5.7.3.3", "1.2.3"]), max_size=2).map(tuple),
)


@st.composite
def issuers(draw: st.DrawFn, name: str) -> Issuer:
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=3))
    keys = [key.with_kid(draw(st.binary(min_size=1, max_size=9))) if draw(st.booleans()) else key for key in keys]
    keys = list({key.kid: key for key in keys}.values())
    validity = [Validity(key.kid, draw(times), draw(times), draw(times)) for key in keys]
    for number, each in enumerate(validity):
        if each.not_before is not None and each.not_after is not None and each.not_before > each.not_after:
            validity[number] = Validity(each.kid, each.not_after, each.not_before, each.compromised_since)
    envelope = draw(st.sampled_from(ENVELOPE))
    carried = envelope != "required"
    exact = draw(st.booleans())
    return Issuer(
        iss=name if exact else "",
        pattern="" if exact else name,
        keys=tuple(keys),
        validity=tuple(each for each in validity if not each.bounds_nothing),
        roots=tuple(draw(st.lists(roots, min_size=0 if keys else 1, max_size=2))),
        content_types=tuple(draw(st.lists(texts, max_size=2))),
        max_statement_size=draw(sizes),
        max_artifact_size=draw(sizes),
        duplicates=draw(st.none() | st.sampled_from(DUPLICATES)),
        envelope=envelope,
        required_labels=tuple(draw(labels)),
        required_claims=tuple(draw(claims)),
        max_age=draw(st.none() | st.integers(1, 2**53)),
        retention=draw(st.sampled_from(sorted(BUILT_IN))),
        records=Records(
            ("vac-json", *draw(st.lists(st.sampled_from(sorted(names.FORMATS)), max_size=2))),
            tuple(draw(st.lists(st.sampled_from(names.PROFILES), max_size=2))) if carried else (),
            draw(st.sampled_from(CHECK)) if carried else "any",
        )
        if draw(st.booleans())
        else Records(),
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    used = draw(st.lists(texts.filter(lambda text: "***" not in text), unique=True, max_size=3))
    made = [
        draw(st.builds(RetentionClass, st.just(f"own {n}"), terms))
        if draw(st.booleans())
        else tiered(f"own {n}", *(Tier(draw(texts), draw(terms)) for _ in range(draw(st.integers(1, 2)))))
        for n in range(draw(st.integers(0, 2)))
    ]
    found = tuple(draw(issuers(name)) for name in used)
    strict = all(issuer.duplicates != "allow" for issuer in found) and draw(st.booleans())
    return Policy(
        log=draw(texts),
        generation=1,
        previous="",
        policy_key=POLICY_KEY,
        clock_skew=draw(st.integers(0, 86_400)),
        max_artifact_size=draw(st.integers(1000, 2**40)),
        duplicates="refuse" if strict else "allow",
        retention=tuple(made),
        issuers=found,
    )


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(policies())
def test_a_policy_reads_back_as_itself_and_is_written_in_one_way(policy: Policy) -> None:
    policy.check()

    written = policy.to_toml()
    read = Policy.from_toml(written)

    assert read == policy
    assert read.to_toml() == written
    assert compare(read, policy) == []
    assert [key.alg for issuer in read.issuers for key in issuer.keys] == [
        key.alg for issuer in policy.issuers for key in issuer.keys
    ]
    assert Policy.heading(written).to_toml() == Policy.heading(policy.to_toml()).to_toml()
