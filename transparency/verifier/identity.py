"""Whether a receipt is of the log and the time that its key is trusted for. One sentence says why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transparency.display import iso_utc

if TYPE_CHECKING:
    from transparency.statements.receipt import Receipt
    from transparency.verifier.trust import LogTrust, TrustedKey


def identity_problem(receipt: Receipt, log: LogTrust) -> str:
    """Iss and sub of the receipt must be those of the trust entry, where it has them."""
    for name, trusted, stated in (("iss", log.iss, receipt.iss), ("sub", log.origin, receipt.sub)):
        if trusted is not None and stated != trusted:
            return f"the receipt's {name} is not the one its key is trusted for"
    return ""


def validity_problem(receipt: Receipt, trusted: TrustedKey) -> str:
    """A retired key is good for what it signed before."""
    time, until = receipt.iat, trusted.not_after
    if until is None:
        return ""
    if time is None:
        return f"the log's key is good until {iso_utc(until)}, and the receipt does not say when it was made"
    if time > until:
        return f"the log's key was good until {iso_utc(until)}, the receipt is of {iso_utc(time)}"
    return ""
