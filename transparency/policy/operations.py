"""Operations: what the service states about itself on its own log, signed by its operations key.

They come by a route of their own, never by ``POST /entries``: a statement that reads as one is refused there whatever
the policy says, so that nothing but the service's own act is ever taken for one.
"""

from __future__ import annotations

from transparency.errors import RefusedError, SignatureInvalidError, UnsupportedAlgorithmError
from transparency.policy import keyset
from transparency.policy.keyset import ServiceKeys
from transparency.statements.statement import Statement

MANIFEST = "manifest"
ERASURE = "erasure"
ACCESS_LOG = "access-log"
HOLD = "hold"
AUDIT = "audit"
SUBJECTS = (MANIFEST, ERASURE, ACCESS_LOG, HOLD, AUDIT)


def reads_as_operation(statement: Statement, keys: ServiceKeys) -> bool:
    """Whether *statement* claims to be an operation of the service: by its iss, its subject and its kid."""
    return (
        statement.iss == keys.iss
        and statement.sub in SUBJECTS
        and statement.kid is not None
        and keys.by_kid(keyset.OPERATIONS, statement.kid) is not None
    )


def read_operation(statement: Statement, keys: ServiceKeys, time: int | None = None) -> str:
    """The subject of an operation that the key set in force lets stand; otherwise the reason why not.

    At *time* its key has to be in use; where the time is not known, any operations key of the set will do.
    """
    if statement.iss != keys.iss or statement.sub not in SUBJECTS:
        raise RefusedError(f"an operation has the service's iss and one of the subjects {', '.join(SUBJECTS)}")
    candidates = keys.ever(keyset.OPERATIONS) if time is None else keys.at(keyset.OPERATIONS, time)
    key = next((key for key in candidates if key.kid == statement.kid), None)
    if key is None:
        raise RefusedError("not signed by the operations key that the key set in force names")
    try:
        statement.verify(key)
    except (SignatureInvalidError, UnsupportedAlgorithmError) as error:
        raise RefusedError("the signature of the operation is not the operations key's") from error
    return statement.sub
