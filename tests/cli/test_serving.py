"""A running log seen from other commands: TLS, changes at the same time, and a log that says "later"."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cli.conftest import ISS, Run, Served, environment, running, serving, shell
from tests.cli.submitting import large
from tests.client.scripted import STATEMENT
from tests.patience import PATIENCE
from transparency.cose.cbor import encode


def write_certificate(folder: Path) -> None:
    """A certificate for 127.0.0.1 that only this test trusts."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=90))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    (folder / "tls.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    (folder / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


def test_a_log_with_tls_is_reached_by_who_trusts_its_certificate(tmp_path: Path) -> None:
    """API-11: TLS by flags."""
    write_certificate(tmp_path)
    words = ("serve", "--data", "log", "--port", "0", "--open", "--tls-cert", "tls.pem", "--tls-key", "tls.key")

    with running(tmp_path, *words) as (url, _):
        trusted = shell("keys", "--log", url, "--cacert", "tls.pem", "--out", "log.keys", cwd=tmp_path)
        stranger = shell("keys", "--log", url, "--out", "other.keys", cwd=tmp_path)
        doctor = shell("doctor", "--log", url, "--cacert", "tls.pem", cwd=tmp_path)

    assert url.startswith("https://127.0.0.1:")
    assert trusted.returncode == 0, trusted.stderr
    assert stranger.returncode == 69
    assert b"certificate" in stranger.stderr
    assert b"TLS certificate" in doctor.stdout


@pytest.mark.parametrize(
    ("flags", "code"),
    [(("--tls-cert", "tls.pem"), 64), (("--tls-cert", "tls.key", "--tls-key", "tls.key"), 65),
     (("--tls-cert", "no.pem", "--tls-key", "tls.key"), 66)],
)  # fmt: skip
def test_a_certificate_that_cannot_be_used_stops_it_before_a_log_is_made(
    run: Run, folder: Path, flags: tuple[str, ...], code: int
) -> None:
    write_certificate(folder)

    assert run("serve", "--data", "log", *flags).exit_code == code
    assert not (folder / "log").exists()


def test_issuers_added_at_the_same_moment_all_get_in(served: Served, tmp_path: Path) -> None:
    names = [f"https://issuer-{number}.example" for number in range(4)]
    adding = [
        subprocess.Popen(
            [sys.executable, "-m", "transparency", "issuer", "add", "--data", str(served.data), "--iss", name,
             "--key", str(served.public)],
            env=environment(tmp_path), stderr=subprocess.PIPE,
        )
        for name in names
    ]  # fmt: skip
    for process in adding:
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said

    listed = shell("issuer", "list", "--data", served.data, cwd=tmp_path).stdout.decode()
    assert [name for name in names if name not in listed] == []


def test_the_largest_record_is_the_operators_to_set(tmp_path: Path) -> None:
    (tmp_path / "big.jsonl").write_bytes(large())
    words = ("submit", "big.jsonl", "--key", "issuer.pem", "--iss", ISS)

    with serving(tmp_path, "--open", "--max-artifact-bytes", "90000", "--max-uploads", "1") as served:
        refused = shell(*words, "--log", served.url, cwd=tmp_path)

    assert refused.returncode == 65
    assert b"413" in refused.stderr


def test_a_policy_that_does_not_end_in_a_line_end_is_shown_whole(good: Run, folder: Path) -> None:
    good("init", "--data", "log")
    policy = good("policy", "show", "--data", "log").stdout
    headers = {"Content-Type": "application/toml"}

    with answering(200, policy.removesuffix("\n").encode(), headers) as url:
        shown = good("policy", "show", "--log", url).stdout

    assert shown == policy


@contextmanager
def answering(status: int, body: bytes, headers: dict[str, str]) -> Iterator[str]:
    """Something that gives every request the same answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "title", "code"),
    [(429, "Too Many Requests", 75), (503, "Overloaded", 75), (401, "Unauthorized", 77), (400, "Rejected", 77),
     (413, "Too Large", 65), (418, "Teapot", 65), (500, "Internal", 69)],
)  # fmt: skip
def test_what_a_log_says_becomes_an_exit_code(run: Run, folder: Path, status: int, title: str, code: int) -> None:
    (folder / "s.cose").write_bytes(STATEMENT)

    headers = {"Content-Type": "application/concise-problem-details+cbor", "Retry-After": "3600"}
    with answering(status, encode({-1: title, -2: "no"}), headers) as url:
        result = run("submit", "s.cose", "--log", url)

    assert result.exit_code == code
    assert f"{status}, {title}: no" in result.stderr
    assert result.stderr.count("\n") == 1
    assert (code == 75) == ("3600 s" in result.stderr)


def test_a_token_over_plain_http_to_another_machine_is_warned_about(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transparency.client import retry

    monkeypatch.setattr(retry.Backoff, "delay", lambda *_: 0.0)
    (folder / "s.cose").write_bytes(STATEMENT)

    result = run("submit", "s.cose", "--log", "http://log.invalid", "--token", "tl_secret_value")

    assert result.exit_code == 69
    assert "plain HTTP" in result.stderr
    assert "tl_secret_value" not in result.output
