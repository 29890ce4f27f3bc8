"""Access: who a client is, and whether it may do what it asks (design §5). Signatures and policy always apply.

A token opens the door and does no more: nothing of it, nor any other part of a request outside the signed bytes, has a
say in whether a statement is registered (REG-15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from transparency.display import safe_text
from transparency.policy.document import Policy
from transparency.server.limits import client_of_address
from transparency.server.problems import ProblemError
from transparency.server.settings import ServerSettings
from transparency.server.tokens import Scope, Token, TokenEndedError, TokenStore, names
from transparency.statements.statement import Statement

if TYPE_CHECKING:
    from aiohttp import web

_REALM = 'Bearer realm="transparency"'
_SCHEME = "bearer"


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: a name for rate limit and access log, and its token if that is valid; else why it was *refused*."""

    name: str
    token: Token | None
    refused: str = ""


def identify(request: web.Request, tokens: TokenStore) -> Client:
    return identify_by(request.headers.getall("Authorization", ()), client_of_address(request.remote), tokens)


def identify_by(shown: Sequence[str], address: str, tokens: TokenStore) -> Client:
    """Known by its token (*shown*: each Authorization), else by its address. An invalid token makes nobody known."""
    if not shown:
        return Client(address, None)
    scheme, _, secret = shown[0].partition(" ")
    refused = "The token is not valid"
    if len(shown) == 1 and scheme.lower() == _SCHEME:
        try:
            token = tokens.check(secret.strip(" "))
        except TokenEndedError as ended:
            token, refused = None, f"The token {ended}"
        if token is not None:
            return Client(f"token:{token.id}", token)
    return Client(address, None, refused)


def authorise(client: Client, scopes: tuple[Scope, ...], settings: ServerSettings) -> None:
    """Raise 401 or 403 (RFC 6750 §3) unless the client may use a resource that any of *scopes* opens."""
    if not scopes or any(_lifted(scope, settings) for scope in scopes):
        return
    wanted = " or ".join(f"'{scope}'" for scope in scopes)
    if client.token is None:
        challenge = f'{_REALM}, error="invalid_token"' if client.refused else _REALM
        detail = client.refused or f"A token for {wanted} is needed"
        raise ProblemError(401, "Unauthorized", detail, headers={"WWW-Authenticate": challenge})
    if client.token.scopes.isdisjoint(scopes):
        challenge = f'{_REALM}, error="insufficient_scope", scope="{scopes[0]}"'
        raise ProblemError(
            403, "Forbidden", f"The token does not allow {wanted}", headers={"WWW-Authenticate": challenge}
        )


def check_issuer(token: Token | None, statement: Statement) -> None:
    """Raise 403 if the token may not submit for the issuer that *statement* is signed as, before anything is judged.

    It narrows and never widens: what passes here is accepted or refused by its signature and the policy alone (REG-15).
    """
    if token is not None and not token.may_submit_for(statement.iss):
        raise ProblemError(403, "Forbidden", f"The token may not submit for the issuer {safe_text(statement.iss)!r}")


def artifact_limit(token: Token | None, policy: Policy, most: int) -> int:
    """Bytes of the largest artifact that this token may keep here, or 403 if it is for no issuer of the policy."""
    if token is None or not token.issuers:
        return min(most, policy.artifact_limit(None))
    # A pattern of a token may be wider than the names in the policy, and the other way round.
    meant = {
        name for limit in token.issuers for name in (issuer.name for issuer in policy.issuers) if names(limit, name)
    }
    meant.update(token.issuers)
    limit = min(most, policy.artifact_limit(meant))
    if limit == 0:
        raise ProblemError(403, "Forbidden", "The token is for issuers of which the policy accepts nothing")
    return limit


def _lifted(scope: Scope, settings: ServerSettings) -> bool:
    if scope is Scope.ADMIN:
        return False
    return settings.open or (scope is Scope.READ and settings.public)
