"""The endpoint: one row of the HTTP surface. Routes, access, rate limit and the OpenAPI document all come from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from transparency.server.tokens import Scope

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# What any request may meet: the HTTP parser, the rate limit, a fault of ours, an overload or a stopping service.
COMMON_ERRORS = frozenset({400, 500, 503})
LIMIT_ERRORS = frozenset({429})
SCOPE_ERRORS = frozenset({401, 403})
BODY_ERRORS = frozenset({408, 411, 413, 415, 417})


@dataclass(frozen=True, slots=True)
class Answer:
    """A success: what it means, the media types its body can have, the headers it carries."""

    meaning: str
    media: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    place: str
    meaning: str
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, Answer]
    scope: Scope | None = None
    limited: bool = True
    accepts: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    errors: frozenset[int] = frozenset()
    # A witness's token opens it too.
    witness: bool = False
    # What the access log calls a use of it; what has no name there is not recorded.
    action: str = ""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Any of these opens it; none at all: it is public."""
        if self.scope is None:
            return ()
        return (self.scope, Scope.WITNESS) if self.witness else (self.scope,)

    @property
    def all_errors(self) -> frozenset[int]:
        return (
            self.errors
            | COMMON_ERRORS
            | (LIMIT_ERRORS if self.limited else frozenset())
            | (SCOPE_ERRORS if self.scope else frozenset())
            | (BODY_ERRORS if self.accepts else frozenset())
        )
