"""When an issuer's key stopped being good, and whether the statement stood on the log before that.

The log's time decides, never the issuer's (iat): whoever holds a stolen key writes any iat, but has no receipt from
before the theft (design §7, §8). A renewed receipt shows a later time than the first one did, so the first is worth
keeping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transparency.display import iso_utc
from transparency.verifier.report import Check

if TYPE_CHECKING:
    from transparency.verifier.receipt_checks import Registration
    from transparency.verifier.trust import TrustedKey

_ID: Final = "issuer-key-time"


def check_key_time(end: TrustedKey, registration: Registration | None) -> Check:
    """Passed if a receipt that counts is from before the key's end."""
    time = None if registration is None else registration.earliest
    compromised, retired = end.compromised_since, end.not_after
    if time is None:
        which = "compromised" if compromised is not None else "retired"
        detail = f"the issuer's key is {which}, and no receipt shows when this was registered"
        return Check(_ID, "not_checked", detail, essential=True)
    registered = f"the receipt is of {iso_utc(time)}"
    if compromised is not None and time >= compromised:
        return Check(_ID, "failed", f"the issuer's key is compromised since {iso_utc(compromised)}, {registered}")
    if retired is not None and time > retired:
        return Check(_ID, "failed", f"the issuer's key is retired since {iso_utc(retired)}, {registered}")
    return Check(_ID, "passed", f"registered before the issuer's key ended: {registered}")
