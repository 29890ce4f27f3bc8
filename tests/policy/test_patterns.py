"""Which rule is for which issuer."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.errors import MalformedError
from transparency.policy.patterns import Index, Pattern


@pytest.mark.parametrize(
    ("pattern", "matched", "not_matched"),
    [
        ("https://*.acme.example", ["https://a.acme.example"], ["https://a.b.acme.example", "https://.acme.example"]),
        ("https://*.acme.example", [], ["https://evil.example/.acme.example", "https://x@b.acme.example"]),
        (
            "https://acme.example/*",
            ["https://acme.example/v1.2"],
            ["https://acme.example/", "https://acme.example/a/b"],
        ),
        ("https://acme.example/**", ["https://acme.example/", "https://acme.example/a/b?c"], ["https://acme.example"]),
        ("did:web:*", ["did:web:acme"], ["did:web:acme:x", "did:web:acme.example"]),
        ("did:web:**", ["did:web:acme:x", "did:web:"], ["did:key:x"]),
        ("agent-*-prod", ["agent-7-prod"], ["agent--prod", "agent-7-prod-2"]),
        ("**", ["", "anything/at.all"], []),
        ("a**b*c", ["ab1c", "a/xb.b1c"], ["abc"]),
        ("exact", ["exact"], ["exactly", "inexact"]),
    ],
)
def test_a_star_is_one_label_or_segment_and_two_are_anything(
    pattern: str, matched: list[str], not_matched: list[str]
) -> None:
    compiled = Pattern(pattern)

    assert [text for text in matched if not compiled.matches(text)] == []
    assert [text for text in not_matched if compiled.matches(text)] == []


@given(st.text("ab./*", min_size=1, max_size=8).filter(lambda text: "***" not in text), st.text("ab./", max_size=10))
def test_a_pattern_matches_what_its_regular_expression_does(pattern: str, text: str) -> None:
    expression, before = "", ""
    for part in re.findall(r"\*\*|\*|.", pattern):
        in_path = "/" in (before.partition("//")[2] if "//" in before else before)
        classes = {"**": ".*", "*": "[^/]+" if in_path else "[^./]+"}
        expression += classes.get(part, re.escape(part))
        before += part

    assert Pattern(pattern).matches(text) == bool(re.fullmatch(expression, text, re.DOTALL))


def test_no_name_makes_a_pattern_slow() -> None:
    """A backtracking matcher would not come back from this one."""
    assert not Pattern("**a*a*a*a*a*a*a*a*b").matches("a" * 1024)
    assert not Pattern("**").matches("a" * 1025)


@pytest.mark.parametrize("text", ["", "a***b", "x" * 513])
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(MalformedError):
        Pattern(text)


@dataclass(frozen=True)
class Item:
    iss: str = ""
    pattern: str = ""


def test_exact_wins_then_the_longest_then_the_first() -> None:
    items = [Item(pattern="a*"), Item(pattern="*b"), Item(pattern="ab*"), Item("abc"), Item(pattern="**")]
    index = Index(items)

    assert index.find("abc") == items[3]
    assert index.find("abd") == items[2]
    assert index.find("axb") == items[0]
    assert index.find("xb") == items[1]
    assert index.find("x") == items[4]
    assert index.find("x") == items[4]  # from memory, too
    assert Index([Item("abc")]).find("x") is None
