"""Offline verification: what a transparent statement proves, given keys with identities and no network.

    report = verify(data, TrustStore.from_keys(log_keys, issuer_keys))

One function, one report; ``Verifier`` is the same for many files and checks each tree head once; on all cores:
``transparency.verify_many`` (client/many.py, since nothing here starts processes).
"""

from __future__ import annotations

from transparency.display import safe_text
from transparency.verifier.heads import HeadCache, TreeHead, verify_consistency
from transparency.verifier.render import render_text
from transparency.verifier.report import Check, Claim, Outcome, Report, Verdict
from transparency.verifier.trust import IssuerTrust, Leaf, LogTrust, TrustedKey, TrustStore
from transparency.verifier.verify import Options, Verifier, verify

__all__ = [
    "Check",
    "Claim",
    "HeadCache",
    "IssuerTrust",
    "Leaf",
    "LogTrust",
    "Options",
    "Outcome",
    "Report",
    "TreeHead",
    "TrustStore",
    "TrustedKey",
    "Verdict",
    "Verifier",
    "render_text",
    "safe_text",
    "verify",
    "verify_consistency",
]
