"""The settings of a running server: what an operator may turn, with defaults that are safe on the open internet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# A body may be this much larger than the largest statement: multipart framing, and an unprotected header (receipts of
# other logs, certificates) that registration drops before the size is judged.
BODY_MARGIN = 256 * 1024
# Who is still sending when the server stops has this long.
BODY_GRACE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Nothing here decides whether a statement is registered (REG-15): that is for signed bytes and the policy."""

    host: str = "127.0.0.1"
    port: int = 8080
    tls_cert: Path | None = None
    tls_key: Path | None = None
    # Where clients reach the service when it stands behind a proxy, e.g. "https://log.example/scitt" (API-14).
    base_url: str | None = None
    # Processes that accept connections and judge statements; none: this one does all. Not with TLS (server/workers.py).
    workers: int = 0
    # Lifts the tokens for submitting and reading, nothing else (design §5).
    open: bool = False
    # Lifts the token for reading only.
    public: bool = False
    # A registration slower than this is answered 202, after the statement was made durable.
    slow_after: float = 2.0
    retry_after: float = 1.0
    # Each client may send this many requests per period, at once or spread; None lifts the limit.
    rate_limit: int | None = 60_000
    rate_period: float = 60.0
    max_clients: int = 100_000
    # Connections in all and from one address (None lifts that, for a server behind a proxy); see connections.py.
    max_connections: int = 2_000
    max_connections_per_address: int | None = 256
    # One that has waited this long for its client makes room also for others of a crowd.
    connection_grace: float = 5.0
    # One request's body has this long to arrive; all large bodies being held together have this many bytes.
    body_timeout: float = 30.0
    max_body_bytes: int = 128 * 1024 * 1024
    # Records beside the log (PUT /artifacts): the size of one, and how many may be on their way at once.
    max_artifact_bytes: int = 256 * 1024 * 1024
    max_uploads: int = 8
    # Between requests, for the head of one, for a TLS handshake, and for an answer to be read (beside its size).
    idle_timeout: float = 60.0
    header_timeout: float = 10.0
    handshake_timeout: float = 10.0
    send_timeout: float = 30.0
    # All answers that wait for their readers together.
    max_unsent_bytes: int = 128 * 1024 * 1024
    max_header_line: int = 8_190
    max_headers: int = 64
    max_header_bytes: int = 32 * 1024
    # How long requests in flight have to end when the server is told to stop.
    drain_timeout: float = 30.0
    # Whether a process beside the server keeps the search index; without it /search answers from what is there.
    search: bool = True
    # "-" is standard error, None no access log.
    access_log: str | None = None

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("TLS needs both a certificate file and a key file")
        if self.workers and self.tls_cert is not None:
            raise ValueError("worker processes take no TLS connections")
        if self.rate_limit is not None and self.rate_limit < 1:
            raise ValueError("a rate limit below one request per period would refuse everyone")

    @property
    def scheme(self) -> str:
        return "https" if self.tls_cert else "http"
