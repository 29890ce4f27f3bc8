"""The rules: what each finds, what it leaves alone, and that no text makes one slow."""

from __future__ import annotations

import time

import pytest

from transparency.errors import MalformedError
from transparency.records.redaction_rules import BUILTIN, load_rules, luhn

EC_PEM = "-----BEGIN EC PRIVATE " + "KEY-----\nMHc"


def found(text: str, rules: object = None) -> list[tuple[str, str]]:
    chosen = BUILTIN if rules is None else load_rules(str(rules).encode())
    return [(rule.name, text[start:end]) for rule in chosen if rule.may_be_in(text) for start, end in rule.find(text)]


@pytest.mark.parametrize(
    ("text", "secret", "rule"),
    [
        ("key AKIAIOSFODNN7EXAMPLE.", "AKIAIOSFODNN7EXAMPLE", "api-key"),
        ("ghp_0123456789abcdefghijklmnopqrstuvwxyz", "ghp_0123456789abcdefghijklmnopqrstuvwxyz", "api-key"),
        ("github_pat_11ABCDEFG0123456789_abcdefg", "github_pat_11ABCDEFG0123456789_abcdefg", "api-key"),
        ("OPENAI_API_KEY=sk-proj-abcdefghij0123456789", "sk-proj-abcdefghij0123456789", "api-key"),
        ("AIzaSyA-0123456789abcdefghijklmnopqrstuv", "AIzaSyA-0123456789abcdefghijklmnopqrstuv", "api-key"),
        ("xoxb-123456789012-abcdefghij", "xoxb-123456789012-abcdefghij", "api-key"),
        ("sk_live_0123456789abcdefgh", "sk_live_0123456789abcdefgh", "api-key"),
        ("hf_abcdefghijklmnopqrstuvwxyz01234567", "hf_abcdefghijklmnopqrstuvwxyz01234567", "api-key"),
        ('aws_secret_access_key = "' + "a1B/" * 10 + '"', "a1B/" * 10, "api-key"),
        ("Authorization: Bearer abc.DEF-123_456~789", "abc.DEF-123_456~789", "bearer-token"),
        ("authorization: basic dXNlcjpwYXNzd29yZDE=", "dXNlcjpwYXNzd29yZDE=", "bearer-token"),
        ("eyJhbGciOiJub25lIn0.eyJhIjoxfQ.", "eyJhbGciOiJub25lIn0.eyJhIjoxfQ.", "jwt"),
        (EC_PEM, EC_PEM, "pem"),
        ("postgres://app:p%40ss@db:5432/x", "p%40ss", "url-password"),
        ("https://u:p@ss:w@rd@host/", "p@ss:w@rd", "url-password"),
        ("<jane.o'neil+x@mail.example.co.uk>", "jane.o'neil+x@mail.example.co.uk", "email"),
        ("mail jürgen@exämple.com.", "jürgen@exämple.com", "email"),
        ("4111-1111-1111-1111", "4111-1111-1111-1111", "card-number"),
        ("amex 3782 822463 10005", "3782 822463 10005", "card-number"),
        ("2024 5555555555554444 12", "5555555555554444", "card-number"),
    ],
)
def test_a_secret_is_found_whole(text: str, secret: str, rule: str) -> None:
    assert (rule, secret) in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "bearer authentication-mechanisms are described below",
        "sk-learn and task-runner-of-the-whole-team",
        "https://example.com:8080/path?x=a@b",
        "at 1770847186989 ms, id 2026010203040506",
        "4111111111111112",
        "1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6",
        "user@localhost @decorator a@b",
        "eyJust a word.with dots.in it",
    ],
)
def test_what_is_none_is_left_alone(text: str) -> None:
    assert found(text) == []


def test_luhn_knows_the_check_digit() -> None:
    assert [digit for digit in "0123456789" if luhn("7992739871" + digit)] == ["3"]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 400_000,
        "4" * 400_000,
        "444 " * 100_000,
        "4444 " * 80_000,
        "eyJ" * 130_000,
        "eyJaaaaa." * 45_000,
        "://a:" * 80_000,
        "a@" * 200_000,
        "a@" + "a." * 200_000,
        "-----BEGIN " * 36_000,
        "sk-" * 130_000,
        "bearer " * 57_000,
        "bearer " + "a" * 400_000,
        "Authorization: " * 26_000,
        "aws_secret_access_key=" * 18_000,
        "AKIA" * 100_000,
    ],
    ids=lambda text: text[:16],
)
def test_no_text_makes_a_rule_slow(text: str) -> None:
    began = time.process_time()

    for rule in BUILTIN:
        for _ in rule.find(text):
            pass

    assert time.process_time() - began < 5  # 0.4 MB; linear rules need well under a second


def test_a_users_rules_are_a_prefix_with_an_alphabet_or_words() -> None:
    rules = """
        builtin = ["email"]
        [[rule]]
        name = "acme-key"
        prefix = "acme_"
        alphabet = "A-F0-9"
        length = [4, 8]
        [[rule]]
        name = "customer"
        words = ["Jane Doe", "Jane"]
        ignore-case = true
    """

    assert found("acme_12 acme_12AB9 JANE DOE jane a@example.com 4111111111111111", rules) == [
        ("acme-key", "acme_12AB9"),
        ("customer", "JANE DOE"),
        ("customer", "jane"),
        ("email", "a@example.com"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "builtin = 1",
        'builtin = ["e-mail"]',
        "rules = 1",
        "rule = 1",
        "[[rule]]\nname = 'x'",
        "[[rule]]\nname = 'X'\nprefix = 'ab'",
        "[[rule]]\nname = 'email'\nprefix = 'ab'",
        "[[rule]]\nname = 'omit-x'\nprefix = 'ab'",
        "[[rule]]\nname = 'x'\nprefix = 'ab'\npattern = '(a+)+'",
        "[[rule]]\nname = 'x'\nprefix = 'ab'\nalphabet = ']'",
        "[[rule]]\nname = 'x'\nprefix = 'ab'\nalphabet = 'z-a'",
        "[[rule]]\nname = 'x'\nprefix = 'ab'\nlength = [1000, 2000]",
        "[[rule]]\nname = 'x'\nprefix = 'ab'\nlength = [true, 5]",
        "[[rule]]\nname = 'x'\nwords = []",
        "[[rule]]\nname = 'x'\nwords = ['ab']\nignore-case = 1",
        "not toml",
    ],
)
def test_a_rule_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(MalformedError, match="redaction rules"):
        load_rules(text.encode())
