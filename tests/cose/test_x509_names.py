"""What a leaf certificate must be called: patterns of names, and the names they are for."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from transparency.cose.x509_names import any_name_matches, compiled
from transparency.errors import MalformedError

KINDS: dict[str, Any] = {"dns": x509.DNSName, "uri": x509.UniformResourceIdentifier, "email": x509.RFC822Name}


def matches(requirement: str, name: str) -> bool:
    kind, _, value = name.partition(":")
    return any_name_matches(x509.SubjectAlternativeName([KINDS[kind](value)]), [requirement])


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("dns:a.acme.example", "dns:a.acme.example"),
        ("dns:*.acme.example", "dns:A.ACME.example"),
        ("uri:https://acme.example/agents/7", "uri:https://acme.example/agents/7"),
        ("uri:https://*.acme.example/agents/*", "uri:https://a.acme.example/agents/7.1"),
        ("uri:https://acme.example/**", "uri:https://acme.example/a/b/c"),
        ("uri:spiffe://acme.example/agent/*", "uri:spiffe://ACME.example/agent/x"),
        ("uri:urn:acme:*", "uri:urn:acme:7"),
        ("email:me@acme.example", "email:me@acme.example"),
        ("email:*@acme.example", "email:anybody@Acme.example"),
    ],
)
def test_a_name_that_is_as_required_matches(requirement: str, name: str) -> None:
    assert matches(requirement, name)


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("dns:a.acme.example", "dns:b.acme.example"),
        ("dns:*.acme.example", "dns:acme.example"),
        ("dns:*.acme.example", "dns:a.b.acme.example"),
        ("dns:*.acme.example", "dns:a.acmeXexample"),
        ("dns:a.example", "dns:a.example.evil"),
        ("dns:a.example", "uri:a.example"),
        ("uri:https://acme.example/*", "uri:https://acme.example/a/b"),
        ("uri:https://acme.example/*", "uri:https://acme.example.evil/a"),
        ("uri:https://*.acme.example/x", "uri:https://evil/.acme.example/x"),
        ("uri:https://*.acme.example/x", "uri:https://evil@a.acme.example/x"),
        ("uri:https://acme.example/a", "uri:http://acme.example/a"),
        ("email:me@acme.example", "email:ME@acme.example"),
        ("email:*@acme.example", "email:a@acme.example.evil"),
    ],
)
def test_a_name_that_is_not_does_not(requirement: str, name: str) -> None:
    assert not matches(requirement, name)


def test_a_certificate_without_names_has_none_that_is_required() -> None:
    assert not any_name_matches(None, ["dns:a.example"])
    assert any_name_matches(None, [])


@pytest.mark.parametrize(
    "wrong", ["", "a.example", "dns:", "ip:127.0.0.1", "dns:ä.example", "email:a", "email:@a", "dns:a\n"]
)
def test_what_is_no_requirement_is_refused(wrong: str) -> None:
    with pytest.raises(MalformedError):
        compiled(wrong)


@given(st.text())
def test_any_text_is_a_requirement_or_refused(text: str) -> None:
    for kind in ("", "dns:", "uri:", "email:"):
        try:
            compiled(kind + text)
        except MalformedError:
            continue
