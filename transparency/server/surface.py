"""The surface: every endpoint of the service, in one table (design §5). Router and /openapi.json come from it."""

from __future__ import annotations

from transparency.server import (
    artifacts,
    consistency,
    entries,
    export,
    keys,
    media,
    metrics,
    operations,
    policy,
    search,
    search_parameters,
)
from transparency.server.endpoints import Answer, Endpoint, Parameter
from transparency.server.tokens import Scope

_ID = Parameter("id", "path", "Entry id: base64url of the entry's SHA-256, 43 characters", {
    "type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"})  # fmt: skip
_DIGEST = Parameter("digest", "path", "SHA-256 of the record: 64 lower-case hexadecimal digits", {
    "type": "string", "pattern": "^[0-9a-f]{64}$"})  # fmt: skip
_SIZE = {"type": "integer", "minimum": 0}
_RECEIPT = (media.COSE, media.RECEIPT)
_STATEMENT = (media.COSE, media.STATEMENT)
_CREATED = Answer("Registered; the body is the receipt", _RECEIPT, ("Location",))
_PREFER = Parameter("Prefer", "header", "respond-async: answer 202 as soon as the statement is durable (RFC 7240)")

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/entries",
        entries.register,
        "Register a signed statement (SCRAPI §2.3)",
        {
            201: _CREATED,
            202: Answer("Durable and waiting for its place; ask at Location", (), ("Location", "Retry-After")),
        },
        scope=Scope.SUBMIT,
        accepts=entries.STATEMENT_TYPES,
        parameters=(_PREFER,),
    ),
    Endpoint(
        "GET",
        "/entries/{id}",
        entries.receipt,
        "The receipt of an entry (SCRAPI §2.4)",
        {
            200: Answer("The receipt", _RECEIPT, ("Location", "ETag", "Cache-Control")),
            204: Answer("Registration is in progress", (), ("Retry-After",)),
            304: Answer("The receipt the client has is current", (), ("ETag",)),
        },
        parameters=(_ID, Parameter("size", "query", "Size of a stored tree head to prove the entry under", _SIZE)),
        errors=frozenset({404, 406}),
    ),
    Endpoint(
        "GET",
        "/entries/{id}/statement",
        entries.statement,
        "The transparent statement of an entry",
        {200: Answer("The statement with its receipt at label 394", _STATEMENT)},
        scope=Scope.READ,
        parameters=(_ID,),
        errors=frozenset({404, 406}),
    ),
    Endpoint(
        "GET",
        "/entries/{id}/siblings",
        entries.siblings,
        "Other entries over the same signed bytes",
        {200: Answer("Array of entry ids", (media.CBOR,))},
        scope=Scope.READ,
        parameters=(_ID,),
        errors=frozenset({404, 406}),
    ),
    Endpoint(
        "PUT",
        "/artifacts/{digest}",
        artifacts.keep,
        "Keep a record beside the log, under its SHA-256, before a hash envelope over it is registered",
        {
            200: Answer("These bytes were kept before", (), ("Location",)),
            201: Answer("Kept, durably", (), ("Location",)),
        },
        scope=Scope.SUBMIT,
        accepts=(media.OCTETS,),
        parameters=(_DIGEST,),
    ),
    Endpoint(
        "GET",
        "/artifacts/{digest}",
        artifacts.fetch,
        "A record kept beside the log",
        {
            200: Answer("The exact bytes; their name is their proof", (media.OCTETS,), ("ETag", "Cache-Control")),
            304: Answer("The client has it", (), ("ETag",)),
        },
        scope=Scope.READ,
        parameters=(_DIGEST,),
        errors=frozenset({404, 406}),
    ),
    Endpoint(
        "GET",
        "/.well-known/scitt-keys",
        keys.key_set,
        "The keys that verify this log's receipts (SCRAPI §2.1)",
        {200: Answer("COSE_KeySet", (media.CBOR,), ("Cache-Control",))},
        errors=frozenset({406}),
    ),
    Endpoint(
        "GET",
        "/.well-known/scitt-keys/{kid}",
        keys.key,
        "One key by its kid (SCRAPI §2.2)",
        {200: Answer("COSE_Key", (media.CBOR,), ("Cache-Control",))},
        parameters=(Parameter("kid", "path", "base64url of the kid, or the kid where it is a safe path segment"),),
        errors=frozenset({404, 406}),
    ),
    Endpoint(
        "GET",
        "/consistency",
        consistency.consistency,
        "A receipt that one tree head is a prefix of another",
        {200: Answer("Consistency receipt over the newer root", _RECEIPT, ("Cache-Control",))},
        parameters=(
            Parameter("from", "query", "Size of the older stored tree head", _SIZE, required=True),
            Parameter("to", "query", "Size of the newer one; the newest of all if absent", _SIZE),
        ),
        errors=frozenset({404, 406}),
    ),
    Endpoint(
        "GET",
        "/policy",
        policy.policy,
        "The registration policy in force",
        {
            200: Answer("The policy", (media.TOML, "text/plain"), ("ETag",)),
            304: Answer("The policy the client has is in force", (), ("ETag",)),
        },
        errors=frozenset({406}),
    ),
    Endpoint(
        "POST",
        "/policy",
        policy.update_policy,
        "Put the next generation of the policy in force",
        {201: _CREATED},
        scope=Scope.ADMIN,
        accepts=_STATEMENT,
    ),
    Endpoint(
        "GET",
        "/policy/history",
        policy.history,
        "Every generation of the policy, the oldest first",
        {200: Answer("Array of maps: generation, index, entry, policy", (media.CBOR,))},
        errors=frozenset({406}),
    ),
    Endpoint(
        "GET",
        "/policy/{generation}/statement",
        policy.policy_statement,
        "The transparent statement of a generation",
        {200: Answer("The statement with its receipt at label 394", _STATEMENT)},
        parameters=(Parameter("generation", "path", "Number of the generation, from 1", {"type": "integer"}),),
        errors=frozenset({404, 406}),
    ),
    Endpoint(
        "GET",
        "/keys",
        keys.document,
        "The key set in force: every key of the service with its purpose and its times",
        {
            200: Answer("The key set", (media.TOML, "text/plain"), ("ETag",)),
            304: Answer("The key set the client has is in force", (), ("ETag",)),
        },
        errors=frozenset({406}),
    ),
    Endpoint(
        "POST",
        "/keys",
        keys.update_keys,
        "Register the next generation of the service's keys",
        {201: _CREATED},
        scope=Scope.ADMIN,
        accepts=_STATEMENT,
    ),
    Endpoint(
        "GET",
        "/export/entries",
        export.entries,
        "Entries with all that they were admitted by, for an audit",
        {200: Answer("Sequence of [index, entry, kind, generation, statement, collateral]", (media.CBOR_SEQUENCE,))},
        scope=Scope.READ,
        parameters=(Parameter("from", "query", "The first index; 0 if absent", _SIZE),),
        errors=frozenset({406}),
    ),
    Endpoint(
        "GET",
        "/export/heads",
        export.heads,
        "Signed tree heads, for an audit",
        {200: Answer("Sequence of [size, root, time, kid, protected, signature]", (media.CBOR_SEQUENCE,))},
        scope=Scope.READ,
        parameters=(Parameter("from", "query", "Heads larger than this size; all if absent", _SIZE),),
        errors=frozenset({406}),
    ),
    Endpoint(
        "GET",
        "/search",
        search.search,
        "Entries by what their statements and records say",
        {200: Answer("One page: size, indexed, lag, entries, and after if there are more", (media.JSON, media.CBOR))},
        scope=Scope.READ,
        parameters=search_parameters.PARAMETERS,
        errors=frozenset({404, 406}),
    ),
    Endpoint(
        "GET",
        "/openapi.json",
        operations.openapi_document,
        "This description",
        {200: Answer("OpenAPI 3.1", (media.JSON,))},
    ),
    Endpoint(
        "GET",
        "/healthz",
        operations.healthz,
        "The process answers",
        {200: Answer("Alive", (media.JSON,))},
        limited=False,
    ),
    Endpoint(
        "GET",
        "/readyz",
        operations.readyz,
        "The log can register: its newest head verifies and its sequencer lives",
        {200: Answer("Ready", (media.JSON,))},
        limited=False,
    ),
    Endpoint(
        "GET",
        "/metrics",
        operations.exposition,
        "Counters and gauges for Prometheus",
        {200: Answer("Exposition", (metrics.CONTENT_TYPE.partition(";")[0],))},
        limited=False,
    ),
)
