"""``inspect`` reads everything that travels, believes nothing, and shows it safely."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Run
from tests.client.scripted import ISSUER_KEY, LOG_KEY, OTHER_KEY, STATEMENT, receipt_for
from tests.compliance.test_period import WHOLE
from transparency.cli.views import view
from transparency.compliance.attestation import Attestation
from transparency.compliance.period import Period
from transparency.compliance.review import Review
from transparency.compliance.stated import ATTESTATION, PERIOD, REVIEW
from transparency.cose import labels
from transparency.cose.keys import encode_key_set
from transparency.cose.sign1 import Sign1, sign1
from transparency.errors import TransparencyError
from transparency.statements.statement import sign_envelope, sign_statement
from transparency.statements.transparent import attach_receipts

SAMPLE = Path(__file__).resolve().parents[2] / "transparency" / "cli" / "sample_session.json"
RECEIPT = receipt_for(STATEMENT)
ENVELOPE = sign_envelope(bytes(32), ISSUER_KEY, iss="https://i.example", sub="s", location="https://x.example/r")
DETACHED = sign_statement(b"x", ISSUER_KEY, iss="https://i.example", sub="s", content_type=None, detached=True)
SPOILED = attach_receipts(STATEMENT, [RECEIPT])
FOREIGN = sign1({1: -7}, b"payload", ISSUER_KEY).to_bytes()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (STATEMENT, "signed statement"),
        (ENVELOPE, "signed statement"),
        (DETACHED, "signed statement"),
        (FOREIGN, "signed statement"),
        (RECEIPT, "receipt"),
        (attach_receipts(STATEMENT, [RECEIPT, RECEIPT]), "transparent statement"),
        (attach_receipts(STATEMENT, [b"garbage"]), "transparent statement"),
        (LOG_KEY.public.to_cose_key_bytes(), "public key"),
        (encode_key_set([LOG_KEY.public, OTHER_KEY.public]), "key set"),
        (LOG_KEY.public.to_pem(), "public key"),
        (LOG_KEY.public.to_der(), "public key"),
        (json.dumps(LOG_KEY.public.to_jwk()).encode(), "public key"),
        (LOG_KEY.to_pem(), "private key"),
        (LOG_KEY.to_pem(b"phrase"), "private key"),
        (SAMPLE.read_bytes(), "VAC record"),
    ],
)
def test_everything_that_travels_has_a_readable_view(good: Run, folder: Path, data: bytes, kind: str) -> None:
    (folder / "x").write_bytes(data)

    assert f"x: {kind}" in good("inspect", "x").stdout
    assert json.loads(good("inspect", "--json", "x").stdout)["kind"] == kind
    assert kind in good("inspect", "-", stdin=data).stdout


REVIEWED = Review("A" * 43, "concern", "It pushed without asking.", "Ada", 1_790_000_000)
ATTESTED = Attestation("clock-sync", ("R2.2",), "NTP, watched.", "Ops", 1_790_000_000)


@pytest.mark.parametrize(
    ("stated", "content_type", "said"),
    [
        (REVIEWED, REVIEW, ("review by a person", "It pushed without asking.", "2026-09-21")),
        (ATTESTED, ATTESTATION, ("attestation of an operator", "NTP, watched.", "R2.2")),
        (WHOLE, PERIOD, ("attestation of a witness", "control.example/c1", "R9.3", "it is gone")),
    ],
)
@pytest.mark.parametrize("command", ["inspect", "show"])
def test_what_people_and_witnesses_state_can_be_read(
    good: Run,
    folder: Path,
    stated: Review | Attestation | Period,
    content_type: str,
    said: tuple[str, ...],
    command: str,
) -> None:
    signed = sign_statement(stated.to_bytes(), ISSUER_KEY, iss="https://i.example", sub="s", content_type=content_type)
    (folder / "x.cose").write_bytes(signed)
    shown = good(command, "x.cose").stdout
    as_json = json.loads(good(command, "x.cose", "--json").stdout)

    assert all(words in shown for words in said)
    assert (as_json if command == "show" else as_json["states"])["form"] == said[0]


def test_a_transparent_statement_shows_its_claims_and_its_receipt(good: Run, folder: Path) -> None:
    (folder / "t.cose").write_bytes(attach_receipts(STATEMENT, [RECEIPT]))

    shown = json.loads(good("inspect", "--json", "t.cose").stdout)

    assert (shown["issuer"], shown["subject"]) == ("https://issuer.example", "greeting")
    (receipt,) = shown["receipt"]
    assert receipt["log"] == "log.example/test"
    assert receipt["inclusion-proof"][0]["leaf-index"] == 1
    assert receipt["signed-tree-size"] == receipt["inclusion-proof"][0]["tree-size"] == 2


@pytest.mark.parametrize(
    "data", [b"\x00", b"hello", b"{}", b"\xd2", b"\xd2\x84\x40\xa0\xf6", b"\xff" * 100, b"-----BEGIN X-----"]
)
def test_what_is_none_of_these_is_65(run: Run, folder: Path, data: bytes) -> None:
    (folder / "x").write_bytes(data)

    result = run("inspect", "x")

    assert result.exit_code == 65
    assert result.stderr.startswith("error: x: ")


def test_a_claim_cannot_write_on_the_terminal(good: Run, folder: Path) -> None:
    evil = sign1(
        {1: -7, 15: {1: "\x1b[2J\x1b]0;title\x07", 2: "a\r\nverified \u202e"}, "evil\x1b": ["\x1b[31m"]},
        b"",
        ISSUER_KEY,
    ).to_bytes()
    (folder / "x").write_bytes(evil)

    text = good("inspect", "x").stdout

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\r" not in text
    assert "[bold]" not in text


def test_markup_in_a_claim_is_shown_as_it_is(good: Run, folder: Path) -> None:
    data = sign1({1: -7, 15: {1: "[bold red]x[/]", 2: "[link=https://evil]y"}}, b"", ISSUER_KEY).to_bytes()
    (folder / "x").write_bytes(data)

    assert "[bold red]x[/]" in good("inspect", "x").stdout


def test_a_large_header_value_is_cut(good: Run, folder: Path) -> None:
    message = Sign1.from_bytes(STATEMENT).with_unprotected({labels.X5CHAIN: bytes(100_000)})
    (folder / "x").write_bytes(message.to_bytes())

    assert len(good("inspect", "--json", "x").stdout) < 5000


@given(st.binary(max_size=300))
def test_no_bytes_break_the_view(data: bytes) -> None:
    with contextlib.suppress(TransparencyError):
        json.dumps(view(data))


@given(st.integers(0, len(SPOILED) - 1), st.integers(0, 255))
def test_no_spoiled_statement_breaks_the_view(place: int, value: int) -> None:
    data = bytearray(SPOILED)
    data[place] = value

    with contextlib.suppress(TransparencyError):
        json.dumps(view(bytes(data)))
