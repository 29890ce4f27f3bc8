"""Access: who a client is, and whether it may do what it asks (design §5). Signatures and policy always apply.

A token opens the door and does no more: nothing of it, nor any other part of a request outside the signed bytes, has a
say in whether a statement is registered (REG-15).
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from transparency.server.limits import client_of_address
from transparency.server.problems import ProblemError
from transparency.server.settings import ServerSettings
from transparency.server.tokens import Scope, Token, TokenStore

_REALM = 'Bearer realm="transparency"'
_SCHEME = "bearer"


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: a name for rate limit and access log, and the token if a valid one was shown."""

    name: str
    token: Token | None
    refused: bool = False


def identify(request: web.Request, tokens: TokenStore) -> Client:
    """Known by its token, else by its address. A token that is not valid makes nobody known."""
    shown = request.headers.getall("Authorization", ())
    if not shown:
        return Client(client_of_address(request.remote), None)
    scheme, _, secret = shown[0].partition(" ")
    if len(shown) == 1 and scheme.lower() == _SCHEME:
        token = tokens.check(secret.strip(" "))
        if token is not None:
            return Client(f"token:{token.id}", token)
    return Client(client_of_address(request.remote), None, refused=True)


def authorise(client: Client, scope: Scope | None, settings: ServerSettings) -> None:
    """Raise 401 or 403 (RFC 6750 §3) unless the client may use a resource that asks for *scope*."""
    if scope is None or _lifted(scope, settings):
        return
    if client.token is None:
        challenge = f'{_REALM}, error="invalid_token"' if client.refused else _REALM
        detail = (
            "The token is not valid or no longer in force" if client.refused else f"A token for '{scope}' is needed"
        )
        raise ProblemError(401, "Unauthorized", detail, headers={"WWW-Authenticate": challenge})
    if scope not in client.token.scopes:
        challenge = f'{_REALM}, error="insufficient_scope", scope="{scope}"'
        raise ProblemError(
            403, "Forbidden", f"The token does not allow '{scope}'", headers={"WWW-Authenticate": challenge}
        )


def _lifted(scope: Scope, settings: ServerSettings) -> bool:
    if scope is Scope.ADMIN:
        return False
    return settings.open or (scope is Scope.READ and settings.public)
