"""The OpenAPI 3.1 document: the table of endpoints, said in another language. Nothing is written twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from transparency.server.endpoints import Answer, Endpoint, Parameter
from transparency.server.tokens import Scope
from transparency.statements.media_types import PROBLEM

# `{path:.+}` is the router's way to let a parameter have slashes; a document has no word for it.
_PATTERN = re.compile(r":[^{}]+\}")
_BINARY = {"type": "string", "format": "binary"}
_TEXT = ("text/", "application/toml", "application/json")
_PROBLEM = {
    "description": "RFC 9290 concise problem details: a CBOR map with -1 (title) and -2 (detail)",
    "content": {PROBLEM: {"schema": _BINARY}},
}
_FORM = {
    "type": "object",
    "required": ["statement", "payload"],
    "properties": {"statement": _BINARY, "payload": _BINARY},
    "additionalProperties": False,
}


def openapi(endpoints: Iterable[Endpoint], *, version: str, open_scopes: frozenset[Scope]) -> bytes:
    """*open_scopes* are those that need no token on this server."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        item = paths.setdefault(_PATTERN.sub("}", endpoint.path), {})
        item[endpoint.method.lower()] = _operation(endpoint, open_scopes, body=True)
        if endpoint.method == "GET":
            item["head"] = _operation(endpoint, open_scopes, body=False)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Transparency Service",
            "version": version,
            "description": "SCITT reference APIs (draft-ietf-scitt-scrapi-11) and what this log offers beyond them. "
            "Every error is a problem in CBOR.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Problem": _PROBLEM},
        },
    }
    return json.dumps(document, indent=1, sort_keys=False).encode()


def _operation(endpoint: Endpoint, open_scopes: frozenset[Scope], *, body: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.handler.__name__ if body else 'head_' + endpoint.handler.__name__}",
        "parameters": [_parameter(parameter) for parameter in endpoint.parameters],
        "responses": {
            **{str(status): _answer(status, answer, body=body) for status, answer in endpoint.answers.items()},
            **{str(status): _problem(status, body=body) for status in sorted(endpoint.all_errors)},
        },
    }
    if endpoint.scopes and open_scopes.isdisjoint(endpoint.scopes):
        operation["security"] = [{"token": [str(scope)]} for scope in endpoint.scopes]
    if endpoint.accepts:
        content = {kind: {"schema": _FORM if kind.startswith("multipart/") else _BINARY} for kind in endpoint.accepts}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _answer(status: int, answer: Answer, *, body: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.meaning or HTTPStatus(status).phrase}
    if answer.headers:
        described["headers"] = {name: {"schema": {"type": "string"}} for name in answer.headers}
    if answer.media and body:
        described["content"] = {kind: {"schema": _schema(kind)} for kind in answer.media}
    return described


def _problem(status: int, *, body: bool) -> dict[str, Any]:
    return {"$ref": "#/components/responses/Problem"} if body else {"description": HTTPStatus(status).phrase}


def _schema(kind: str) -> dict[str, str]:
    return (
        {"type": "object"} if kind == "application/json" else {"type": "string"} if kind.startswith(_TEXT) else _BINARY
    )


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required or parameter.place == "path",
        "description": parameter.meaning,
        "schema": dict(parameter.schema),
    }
