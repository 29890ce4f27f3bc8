"""What an Ed25519 public key must be besides 32 bytes: a point of the curve that is not of small order.

OpenSSL looks at the point only when it checks a signature, and accepts the eight points of small order, whose
signatures hold for many messages at once. A key like that in a log's policy would be nobody's in particular.
RFC 8032 §5.1 gives the curve and §5.1.3 the decoding.
"""

from __future__ import annotations

from typing import Final

from transparency.errors import MalformedError

_P: Final = 2**255 - 19
_D: Final = (-121665 * pow(121666, -1, _P)) % _P
_SIZE: Final = 32


def check_ed25519_point(encoded: bytes) -> None:
    """Refuse 32 bytes that are not the canonical encoding of a curve point, or one whose order divides 8."""
    if len(encoded) != _SIZE:
        msg = f"an Ed25519 key has {_SIZE} bytes, this one {len(encoded)}"
        raise MalformedError(msg)
    bits = int.from_bytes(encoded, "little")
    sign, y = bits >> 255, bits & ((1 << 255) - 1)
    # x² = (y² - 1) / (d y² + 1); the denominator is never 0 since -1/d is no square.
    x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    if y >= _P or (x_squared == 0 and sign) or pow(x_squared, (_P - 1) // 2, _P) not in (0, 1):
        msg = "the Ed25519 key is not a point of the curve"
        raise MalformedError(msg)
    # Doubling needs only squares when just y is followed: y(2P) = (y² + x²) / (1 - d x² y²)  (a = -1).
    # Three doublings take every point of order 1, 2, 4 or 8 to the identity, whose y is 1.
    for _ in range(3):
        y_squared = y * y % _P
        y = (y_squared + x_squared) * pow(1 - _D * x_squared * y_squared, -1, _P) % _P
        x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    if y == 1:
        msg = "the Ed25519 key is a point of small order, which no honest key is"
        raise MalformedError(msg)
