"""Signers that live elsewhere (an HSM, a cloud's key service, an agent), found by entry point.

A package offers one in the group ``transparency.signers``: a callable that takes one text, says what to open with it,
and gives a :class:`Signer`. ``hsm:slot-1/receipts`` calls the entry point ``hsm`` with ``slot-1/receipts``.
"""

from __future__ import annotations

import re
from typing import Final

from transparency.cose.algorithms import algorithm
from transparency.cose.private_key import Signer
from transparency.cose.public_key import PublicKey
from transparency.errors import SignerError, TransparencyError

GROUP: Final = "transparency.signers"
MAX_NAME: Final = 4096
_NAME: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*):(.*)")


def names_signer(text: str) -> bool:
    """Whether *text* has the form of a signer's name, not whether there is one."""
    return len(text) <= MAX_NAME and text.isprintable() and _NAME.fullmatch(text) is not None


def load_signer(text: str) -> Signer:
    """The signer that ``NAME:ARGUMENT`` names. What it signs is checked by nobody here: its public key says whose."""
    match = _NAME.fullmatch(text) if names_signer(text) else None
    if match is None:
        raise SignerError("a signer is named NAME:ARGUMENT")
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, and most commands need no such signer

    name, argument = match.groups()
    points = entry_points(group=GROUP, name=name)
    if len(points) != 1:
        installed = sorted({point.name for point in entry_points(group=GROUP)})
        count = "more than one package offers" if points else "no installed package offers"
        raise SignerError(f"{count} the signer {name!r}; there are: {', '.join(installed) or 'none'}")
    (point,) = points
    try:
        signer = point.load()(argument)
        public, alg, sign = signer.public, signer.alg, signer.sign
    except TransparencyError:
        raise
    except Exception as error:
        # Its words may hold what it was given to open the key with.
        raise SignerError(f"the signer {name!r} failed to open its key ({type(error).__name__})") from error
    if not isinstance(public, PublicKey) or not callable(sign):
        raise SignerError(f"what the entry point {name!r} gives is not a signer: it needs public, alg and sign")
    public.with_alg(algorithm(alg).id)  # raises where the key cannot have this algorithm
    return signer  # type: ignore[no-any-return] # its members were looked at
