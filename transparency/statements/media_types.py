"""The media types and problem details that a service and its clients both speak (SCRAPI-11, RFC 9290)."""

from __future__ import annotations

from typing import Final

COSE: Final = "application/cose"
STATEMENT: Final = "application/scitt-statement+cose"
RECEIPT: Final = "application/scitt-receipt+cose"
CBOR: Final = "application/cbor"
CBOR_SEQUENCE: Final = "application/cbor-seq"
TOML: Final = "application/toml"
OCTETS: Final = "application/octet-stream"

PROBLEM: Final = "application/concise-problem-details+cbor"
# Keys of the map that it is (RFC 9290 §2).
PROBLEM_TITLE: Final = -1
PROBLEM_DETAIL: Final = -2
# Only where there is no status line to say it: in the results of a batch.
PROBLEM_STATUS: Final = -4
