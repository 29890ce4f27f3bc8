"""``from transparency import …``: what a program gets, and what it does not have to install."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import transparency
from tests.client.scripted import ISSUER_KEY, LOG_KEY, OTHER_KEY, entry_id, receipt_for
from tests.patience import PATIENCE
from transparency import PrivateKey, Statement, TrustStore, sign, submit, verify
from transparency.errors import SignatureInvalidError


def test_every_name_that_is_promised_is_there_and_documented() -> None:
    for name in transparency.__all__:
        assert getattr(transparency, name).__doc__, name
    assert set(transparency.__all__) <= set(dir(transparency))


def test_a_name_that_is_not_there_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sing'"):
        transparency.sing  # noqa: B018
    with pytest.raises(ImportError):
        from transparency import sing  # noqa: F401


def test_the_pure_parts_work_without_aiohttp() -> None:
    program = """
import sys
sys.modules["aiohttp"] = None
sys.modules["yarl"] = None
from transparency import PrivateKey, Receipt, Statement, TrustStore, sign, verify
key = PrivateKey.generate(-7)
data = sign(b"hello", key, iss="https://a.example", sub="s")
report = verify(data, TrustStore.from_keys([], [key.public]))
assert report.verdict == "cannot-tell", report.verdict
assert Statement.from_bytes(data).payload == b"hello"
"""

    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)


def test_sign_and_verify_in_three_lines() -> None:
    key = PrivateKey.generate(-8)

    statement = sign(b"hello", key, iss="https://acme.example", sub="greeting")

    Statement.from_bytes(statement).verify(key.public)


def test_submit_gives_back_a_statement_that_verifies() -> None:
    statement = sign(b"hello", ISSUER_KEY, iss="https://issuer.example", sub="greeting")
    receipt = receipt_for(statement)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(201)
            self.send_header("Location", f"/entries/{entry_id(statement)}")
            self.send_header("Content-Type", "application/cose")
            self.send_header("Content-Length", str(len(receipt)))
            self.end_headers()
            self.wfile.write(receipt)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        transparent = submit(statement, url, log_keys=[LOG_KEY.public])
        with pytest.raises(SignatureInvalidError):
            submit(statement, url, log_keys=[OTHER_KEY.public])
        server.shutdown()

    assert verify(transparent, TrustStore.from_keys([LOG_KEY.public], [ISSUER_KEY.public])).verdict == "verified"
