"""``submit`` and ``keys`` against a real log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import ISS, Run, Served
from tests.client.scripted import OTHER_KEY, STATEMENT, receipt_for
from transparency.cli.registration import with_receipt
from transparency.cose import labels
from transparency.cose.keys import PrivateKey, decode_key_set
from transparency.cose.sign1 import Sign1
from transparency.statements.receipt import Receipt, inclusion_receipt, sign_head
from transparency.statements.statement import Statement, sign_statement
from transparency.statements.transparent import attach_receipts, receipts_of

SAMPLE = Path(__file__).resolve().parents[2] / "transparency" / "cli" / "sample_session.json"


@pytest.fixture
def signed(good: Run, folder: Path, served: Served) -> Path:
    """A VAC session, signed by the issuer that the log accepts."""
    (folder / "session.json").write_bytes(SAMPLE.read_bytes())
    good("sign", "session.json", "--key", served.key, "--iss", ISS)
    return folder / "session.cose"


def test_the_statement_comes_back_with_its_receipt_and_its_label_100(good: Run, signed: Path, served: Served) -> None:
    good("submit", signed, "--log", served.url)

    before, after = Sign1.from_bytes(signed.read_bytes()), Sign1.from_bytes(signed.with_suffix(".t.cose").read_bytes())
    assert (after.protected, after.payload, after.signature) == (before.protected, before.payload, before.signature)
    assert after.unprotected[labels.TRACE_METADATA] == before.unprotected[labels.TRACE_METADATA]
    assert len(receipts_of(after)) == 1


def test_submitting_again_gives_the_same_receipt(good: Run, signed: Path, served: Served) -> None:
    """REG-18: idempotent."""
    good("submit", signed, "--log", served.url, "--out", "a.cose")
    good("submit", signed, "--log", served.url, "--out", "b.cose")

    assert Path("a.cose").read_bytes() == Path("b.cose").read_bytes()


def test_json_says_where_it_is(good: Run, signed: Path, served: Served) -> None:
    answer = json.loads(good("submit", signed, "--log", served.url, "--json").stdout)

    assert answer["entry-id"] == Statement.from_bytes(signed.read_bytes()).entry_id
    assert answer["location"] == f"{served.url}/entries/{answer['entry-id']}"
    assert answer["status"] == "registered"
    assert answer["log"] == "log.example/cli"


def test_a_record_is_signed_first_when_key_and_issuer_are_given(good: Run, folder: Path, served: Served) -> None:
    (folder / "session.json").write_bytes(SAMPLE.read_bytes())

    good("submit", "session.json", "--key", served.key, "--iss", ISS, "--log", served.url)

    statement = Statement.from_bytes((folder / "session.json.cose").read_bytes())
    assert statement.payload == SAMPLE.read_bytes()


def test_a_record_without_a_key_is_65_and_says_what_to_do(run: Run, folder: Path, served: Served) -> None:
    (folder / "session.json").write_bytes(SAMPLE.read_bytes())

    result = run("submit", "session.json", "--log", served.url)

    assert result.exit_code == 65
    assert "transparency sign" in result.stderr


def test_a_detached_statement_needs_its_payload(run: Run, good: Run, folder: Path, served: Served) -> None:
    (folder / "note.txt").write_bytes(b"a note, kept apart")
    good("sign", "note.txt", "--key", served.key, "--iss", ISS, "--sub", "n", "--detached")

    assert run("submit", "note.cose", "--log", served.url).exit_code == 65
    good("submit", "note.cose", "--log", served.url, "--payload", "note.txt", "--out", "whole.cose")
    good("submit", "note.cose", "--log", served.url, "--payload", "note.txt", "--detached", "--out", "apart.cose")

    whole, apart = Path("whole.cose").read_bytes(), Path("apart.cose").read_bytes()
    assert Sign1.from_bytes(whole).payload == b"a note, kept apart"
    assert Sign1.from_bytes(apart).payload is None
    assert receipts_of(Sign1.from_bytes(whole)) == receipts_of(Sign1.from_bytes(apart))


def test_detached_leaves_the_record_out_of_the_output_also_when_it_came_in_the_statement(
    good: Run, run: Run, signed: Path, served: Served
) -> None:
    good("submit", signed, "--log", served.url, "--detached", "--out", "apart.cose")

    apart = Path("apart.cose").read_bytes()
    assert Sign1.from_bytes(apart).payload is None
    assert SAMPLE.read_bytes()[:40] not in apart
    good("keys", "--log", served.url, "--out", "log.keys")
    beside = ("--log-key", "log.keys", "--issuer-key", served.public, "--payload", "session.json")
    assert run("verify", "apart.cose", *beside).exit_code == 0


@pytest.mark.parametrize("flag", [("--private",), ("--sub", "other"), ("--content-type", "text/plain")], ids=str)
def test_how_to_sign_cannot_be_said_of_what_is_signed_already(
    run: Run, signed: Path, served: Served, flag: tuple[str, ...]
) -> None:
    """--private on a signed file used to send the record in the clear."""
    result = run("submit", signed, "--log", served.url, *flag)

    assert result.exit_code == 64
    assert "signed already" in result.stderr
    assert not signed.with_suffix(".t.cose").exists()


def test_pinned_keys_decide_whether_the_receipt_is_taken(good: Run, run: Run, signed: Path, served: Served) -> None:
    good("keys", "--log", served.url, "--out", "log.keys")
    Path("other.pem").write_bytes(OTHER_KEY.public.to_pem())

    good("submit", signed, "--log", served.url, "--log-key", "log.keys", "--out", "good.cose")
    refused = run("submit", signed, "--log", served.url, "--log-key", "other.pem", "--out", "bad.cose")

    assert refused.exit_code == 1
    assert "not pinned" in refused.stderr
    assert not Path("bad.cose").exists()


def test_receipts_of_other_logs_are_kept(good: Run, signed: Path, served: Served) -> None:
    elsewhere = receipt_for(signed.read_bytes())
    signed.write_bytes(attach_receipts(signed.read_bytes(), [elsewhere]))

    good("submit", signed, "--log", served.url)
    good("submit", "session.t.cose", "--log", served.url, "--out", "again.cose")

    for name in ("session.t.cose", "again.cose"):
        receipts = receipts_of(Sign1.from_bytes(Path(name).read_bytes()))
        assert [Receipt.from_bytes(receipt).sub for receipt in receipts] == ["log.example/cli", "log.example/test"]


def test_an_unknown_issuer_is_77(run: Run, folder: Path, served: Served) -> None:
    (folder / "s.cose").write_bytes(STATEMENT)

    result = run("submit", "s.cose", "--log", served.url)

    assert result.exit_code == 77
    assert "Rejected" in result.stderr
    assert not (folder / "s.t.cose").exists()


def test_not_waiting_prints_where_the_receipt_will_be(good: Run, folder: Path, served: Served) -> None:
    (folder / "later.txt").write_bytes(b"no hurry")
    good("sign", "later.txt", "--key", served.key, "--iss", ISS, "--sub", "n")

    answer = json.loads(good("submit", "later.cose", "--log", served.url, "--no-wait", "--json").stdout)

    assert answer["location"].startswith(served.url)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("missing.cose",), 66),
        (("session.cose", "--payload", "missing"), 66),
        (("session.cose", "--payload", "session.cose"), 65),
        (("session.cose", "--out", "session.json"), 73),
        (("session.cose", "--log-key", "missing"), 66),
        (("session.cose", "--log", "http://127.0.0.1:1/"), 69),
        (("session.cose", "--log", "ftp://x"), 64),
        (("session.cose", "--token", "two words"), 64),
        (("session.cose", "--cacert", "session.json"), 66),
        (("broken.cose",), 65),
    ],
    ids=str,
)
def test_what_goes_wrong_has_its_code(
    run: Run, signed: Path, served: Served, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int
) -> None:
    from transparency.client import retry

    monkeypatch.setattr(retry.Backoff, "delay", lambda *_: 0.0)
    Path("broken.cose").write_bytes(signed.read_bytes()[:-1])

    result = run("submit", *((words[0], "--log", served.url, *words[1:])))

    assert result.exit_code == code
    assert result.stderr.count("\n") == 1


def test_keys_are_kept_as_a_cose_key_set(good: Run, run: Run, folder: Path, served: Served) -> None:
    result = good("keys", "--log", served.url, "--out", "log.keys")
    (key,) = decode_key_set((folder / "log.keys").read_bytes())

    assert key.thumbprint.hex() in result.stdout
    assert run("keys", "--log", served.url, "--out", "log.keys").exit_code == 73
    assert decode_key_set(good("keys", "--log", served.url, "--out", "-").stdout_bytes) == (key,)
    shown = json.loads(good("keys", "--log", served.url, "--json").stdout)
    assert shown["keys"][0]["thumbprint"] == key.thumbprint.hex()


def test_a_renewed_receipt_stands_first_and_the_logs_first_one_stays() -> None:
    """API-4: what has ended since, a certificate or a key, was good when the first head was signed."""
    key = PrivateKey.generate(-7)
    data = sign_statement(b"{}", key, iss="https://a.example", sub="s", content_type="application/json")

    def receipt(time: int, log: str = "log.example") -> bytes:
        head = sign_head(key, iss=f"https://{log}", origin=log, size=2, root=bytes(32), time=time)
        return inclusion_receipt(head, 1, [bytes(32)])

    held = Sign1.from_bytes(attach_receipts(data, [receipt(20), receipt(10), receipt(5, "other.example")]))

    assert with_receipt(held, receipt(30)) == [receipt(30), receipt(10), receipt(5, "other.example")]
    assert with_receipt(held, receipt(10)) == [receipt(10), receipt(5, "other.example")]
