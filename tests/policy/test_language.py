"""The policy language: every member reads, writes and is refused where it cannot be meant, by its line."""

from __future__ import annotations

import pytest

from tests.policy.samples import ISS, KEY, OTHER, ROOT, document, key_table, policy, root_table
from transparency.cose.x509_path import Root
from transparency.errors import MalformedError
from transparency.policy.document import Policy
from transparency.policy.issuer import Issuer, Records, Validity
from transparency.policy.retention import RetentionClass, Term, Tier, tiered
from transparency.testing.pki import Authority

WHOLE = document(
    accept='max-artifact-size = 1000000\nduplicates = "refuse"',
    issuer="""\
algorithms = ["ES256"]
content-types = ["application/json", "text/*"]
max-statement-size = 5000
max-artifact-size = 6000
duplicates = "refuse"
envelope = "refused"
required-labels = [-70100, "team"]
required-claims = ["iat", 7]
max-age = 3600
retention = "house"
[issuer.records]
formats = ["claude-jsonl", "vac-json"]
profiles = ["-00"]
check = "warn"
""",
    tables=key_table(KEY, "not-before = 2026-01-01T01:00:00+01:00", "compromised-since = 2026-02-03T04:05:06Z")
    + key_table(OTHER, "not-after = 2027-01-01 00:00:00Z")
    + root_table(
        ROOT, 'subject = { CN = "agent-7", O = "Acme" }', 'san = ["dns:*.acme.example"]', 'eku = ["1.3.6.1.5.5.7.3.3"]'
    ),
    extra="""
[[retention]]
name = "house"
days = 10
[[retention]]
name = "tiered"
tiers = [{ name = "hot", months = 1 }, { name = "cold", days = 5 }]
""",
)


def test_every_member_is_read() -> None:
    read = Policy.from_toml(WHOLE)

    assert (read.max_artifact_size, read.duplicates) == (1_000_000, "refuse")
    assert read.retention == (
        RetentionClass("house", Term(days=10)),
        tiered("tiered", Tier("hot", Term(months=1)), Tier("cold", Term(days=5))),
    )
    assert read.issuers == (
        Issuer(
            iss=ISS,
            keys=(KEY.public, OTHER.public),
            validity=(
                Validity(KEY.public.kid, not_before=1_767_225_600, compromised_since=1_770_091_506),
                Validity(OTHER.public.kid, not_after=1_798_761_600),
            ),
            roots=(Root(ROOT.der, {"CN": "agent-7", "O": "Acme"}, ("dns:*.acme.example",), ("1.3.6.1.5.5.7.3.3",)),),
            algorithms=("ES256",),
            content_types=("application/json", "text/*"),
            max_statement_size=5000,
            max_artifact_size=6000,
            duplicates="refuse",
            envelope="refused",
            required_labels=(-70_100, "team"),
            required_claims=("iat", 7),
            max_age=3600,
            retention="house",
            records=Records(("claude-jsonl", "vac-json"), ("-00",), "warn"),
        ),
    )


def test_whatever_the_layout_it_is_written_in_one() -> None:
    read = Policy.from_toml(WHOLE)
    written = read.to_toml()

    assert Policy.from_toml(written) == read
    assert Policy.from_toml(written).to_toml() == written
    assert Policy.heading(written) == Policy.heading(WHOLE)
    assert Policy.heading(written).issuers == ()


def test_what_is_default_is_not_written() -> None:
    """A document that uses nothing new keeps the bytes it had."""
    text = policy(tables=key_table(KEY)).to_toml().decode()
    members = {line.partition(" = ")[0] for line in text.split("\n") if " = " in line}

    assert members == {
        "version", "log", "generation", "previous", "kid", "pem", "algorithms", "content-types", "max-statement-size",
        "clock-skew", "iss",
    }  # fmt: skip


# What is put in place of a line, the line that is blamed (by its beginning), and the words.
FAULTS = [
    ("max-age = 3600", "max-age = 3600 s", "max-age", "not TOML"),
    ("max-age = 3600", "max-age = true", "max-age", "not a whole number"),
    ("max-age = 3600", "max-age = 0", "max-age", "max-age of 0"),
    ("max-age = 3600", "max-aeg = 3600", "max-aeg", "members this version does not know: max-aeg"),
    ('envelope = "refused"', 'envelope = "maybe"', "envelope", "none of allowed, required, refused"),
    ('envelope = "refused"', "envelope = 1", "envelope", "not a string"),
    ('duplicates = "refuse"\nenvelope', 'duplicates = "allow"\nenvelope', "duplicates", "[accept] refuses to all"),
    ('algorithms = ["ES256"]\n', "algorithms = []\n", "algorithms", "is empty"),
    ('algorithms = ["ES256"]\n', 'algorithms = ["PS256"]\n', "algorithms", "[accept] does not allow: PS256"),
    ("max-statement-size = 5000", "max-statement-size = 100001", "max-statement-size", "allows 1 to 100000"),
    ("max-artifact-size = 6000", "max-artifact-size = 2000000", "max-artifact-size", "allows 1 to 1000000"),
    ("required-labels = [-70100", "required-labels = [1.5", "required-labels", "whole numbers and strings"),
    ("required-labels = [-70100", "required-labels = [258", "required-labels", "hash envelope"),
    ("required-labels = [-70100", "required-labels = [395", "required-labels", "receipt"),
    ('required-claims = ["iat"', 'required-claims = ["eat"', "required-claims", "iss, sub, aud"),
    ('retention = "house"', 'retention = "hous"', "retention", "unknown retention class"),
    ('formats = ["claude-jsonl"', 'formats = ["claude"', "formats", "unknown record formats: claude"),
    ('formats = ["claude-jsonl", "vac-json"]', 'formats = ["claude-jsonl"]', "profiles", "no format that is VAC"),
    ('profiles = ["-00"]', 'profiles = ["-01"]', "profiles", "none of -00, 19 Feb"),
    ('check = "warn"', 'check = "none"', "check", "none of any, warn, clean"),
    ('envelope = "refused"', 'envelope = "required"', "check", "which it does not carry"),
    ("not-before = 2026-01-01T01:00:00+01:00", "not-before = 2026-01-01T01:00:00", "not-before", "with its offset"),
    ("not-before = 2026-01-01T01:00:00+01:00", "not-before = 2026-01-01", "not-before", "with its offset"),
    ("not-before = 2026-01-01T01:00:00+01:00", "not-before = 2026-01-01T01:00:00.5Z", "not-before", "whole seconds"),
    ("not-before = 2026-01-01T01:00:00+01:00", "not-before = 1969-12-31T23:59:59Z", "not-before", "before 1970"),
    (
        "not-after = 2027-01-01 00:00:00Z",
        "not-after = 2027-01-01T00:00:00Z\nnot-before = 2028-01-01T00:00:00Z",
        "not-after",
        "before its not-before",
    ),
    ("subject = { CN", "subject = { commonName", "subject", "subject attributes"),
    ('subject = { CN = "agent-7"', "subject = { CN = 7", "subject", "table of strings"),
    ('san = ["dns:', 'san = ["ip:', "san", "alternative name"),
    ('eku = ["1.3', 'eku = ["codeSigning", "1.3', "eku", "dotted number"),
    ("days = 10", "days = 10\nmonths = 1", "[[retention]]", "exactly one"),
    ("days = 10", "days = 0", "days", "is 1 to"),
    ('name = "tiered"', 'name = "house"', "name", "twice"),
    ('name = "tiered"', 'name = "fedramp"', "name", "built in"),
    (f'iss = "{ISS}"', f'iss = "{ISS}"\npattern = "x"', "[[issuer]]", "exactly one"),
    (f'iss = "{ISS}"', "", "[[issuer]]", "exactly one"),
    (f'iss = "{ISS}"', 'pattern = "a***"', "pattern", "asterisks"),
    (f'iss = "{ISS}"', 'pattern = ""', "pattern", "is empty"),
    (
        'duplicates = "refuse"\n\n[[issuer]]',
        'duplicates = "never"\n\n[[issuer]]',
        "duplicates",
        "none of allow, refuse",
    ),
]


@pytest.mark.parametrize(("old", "new", "blamed", "says"), FAULTS, ids=[f"{fault[2]}: {fault[3]}" for fault in FAULTS])
def test_a_fault_is_named_with_its_line(old: str, new: str, blamed: str, says: str) -> None:
    text = WHOLE.decode()
    assert old in text
    text = text.replace(old, new, 1)

    with pytest.raises(MalformedError) as caught:
        Policy.from_toml(text.encode())

    place, line, message = str(caught.value).split(":", 2)
    assert place == "policy.toml"
    assert text.split("\n")[int(line) - 1].startswith(blamed), str(caught.value)
    assert says in message


def test_the_line_is_of_the_file_the_operator_has() -> None:
    with pytest.raises(MalformedError, match=r"^mine\.toml:2: policy\.log is not a string"):
        Policy.from_toml(document().replace(b'"log.example"', b"7"), "mine.toml")


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ("", "no key and no root"),
        (root_table(ROOT.leaf("x")), "not a CA certificate"),
        (root_table(Authority.create("Edward", kind="Ed25519")), "EC and RSA"),
        (root_table(ROOT).replace("BEGIN CERT", "BEGIN NONSENSE"), "is not a certificate this log can use"),
        (root_table(ROOT).replace('"""\n', f'"""\n{ROOT.pem.decode()}', 1), "holds 2 certificates"),
        (key_table(KEY) + key_table(KEY), "two keys with one kid"),
    ],
)
def test_an_issuer_needs_a_key_or_a_root_that_can_be_one(tables: str, says: str) -> None:
    with pytest.raises(MalformedError, match=says):
        policy(tables=tables)


def test_an_issuer_that_could_sign_nothing_is_refused() -> None:
    with pytest.raises(MalformedError, match="none of its keys can sign with"):
        policy(issuer='algorithms = ["ES256"]', tables=key_table(OTHER))


def test_content_types_narrow_what_all_may_send() -> None:
    narrowed = policy(content_types='["application/*"]', issuer='content-types = ["application/json"]')

    assert narrowed.issuers[0].content_types == ("application/json",)
    with pytest.raises(MalformedError, match=r"\[accept\] does not allow: text/plain"):
        policy(content_types='["application/*"]', issuer='content-types = ["application/json", "text/plain"]')


def test_the_artifact_limit_is_the_largest_of_the_issuers_one_may_keep_for() -> None:
    read = policy(
        issuer="max-artifact-size = 10", extra=f'[[issuer]]\npattern = "https://big.example/*"\n{key_table(OTHER)}'
    )

    assert read.artifact_limit() == 64 * 1024 * 1024
    assert read.artifact_limit([ISS]) == 10
    assert read.artifact_limit([ISS, "https://big.example/x"]) == 64 * 1024 * 1024
    assert read.artifact_limit(["https://nobody.example"]) == 0
    assert read.artifact_limit([]) == 0


def test_retention_classes_are_never_shorter_than_the_calendar() -> None:
    read = Policy.from_toml(WHOLE)
    day = 86_400

    assert [read.retention_class(name).keep // day for name in ("default", "eu-ai-act", "pci-dss", "fedramp")] == [
        366, 184, 366, 366 * 2 + 184,
    ]  # fmt: skip
    assert read.retention_class("house").keep == 10 * day
    pci = read.retention_class("pci-dss")
    assert [pci.tier_at(days * day) for days in (0, 91, 92, 365, 366)] == [
        "immediate", "immediate", "archive", "archive", "",
    ]  # fmt: skip
    assert read.retention_class("nobody's") == read.retention_class("default")


def test_the_default_class_may_be_set_by_policy() -> None:
    read = policy(extra='[[retention]]\nname = "default"\nmonths = 24')

    assert read.retention_class("default").keep == 2 * 366 * 86_400
