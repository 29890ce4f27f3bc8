"""``SyncLogClient``: ``LogClient`` for code without an event loop. Same methods, same errors."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from transparency.client.client import MAX_ARTIFACT, LogClient, Submission
from transparency.client.search import SearchPage
from transparency.cose.keys import PublicKey
from transparency.errors import ServiceRefusedError
from transparency.policy.keyset import ServiceKeys

_T = TypeVar("_T")


class SyncLogClient:
    """One log. Use as ``with SyncLogClient(url) as log``; inside a running event loop use ``LogClient`` itself."""

    def __init__(self, url: str, **options: Any) -> None:  # noqa: ANN401 - LogClient's own keywords
        self._client = LogClient(url, **options)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._run(self._client.close())
        self._runner.close()

    def keys(self) -> tuple[PublicKey, ...]:
        return self._run(self._client.keys())

    def key(self, kid: bytes) -> PublicKey:
        return self._run(self._client.key(kid))

    def submit(self, statement: bytes, payload: bytes | None = None, *, wait: bool = True) -> Submission:
        return self._run(self._client.submit(statement, payload, wait=wait))

    def submit_batch(self, statements: Iterable[bytes]) -> Generator[Submission | ServiceRefusedError, None, None]:
        """As :meth:`LogClient.submit_batch`; what it is given must not use this client. Read it to its end."""
        results = self._client.submit_batch(statements)

        async def following() -> Submission | ServiceRefusedError | None:
            return await anext(results, None)

        try:
            while (result := self._run(following())) is not None:
                yield result
        finally:
            self._run(results.aclose())

    def receipt(self, entry_id: str, *, size: int | None = None, wait: bool = True, witnessed: bool = False) -> bytes:
        return self._run(self._client.receipt(entry_id, size=size, wait=wait, witnessed=witnessed))

    def proof(self, entry_id: str, *, wait: bool = True) -> bytes:
        return self._run(self._client.proof(entry_id, wait=wait))

    def statement(self, entry_id: str) -> bytes:
        return self._run(self._client.statement(entry_id))

    def consistency(self, old: int, new: int | None = None) -> bytes:
        return self._run(self._client.consistency(old, new))

    def service_keys(self) -> ServiceKeys:
        return self._run(self._client.service_keys())

    def policy(self) -> bytes:
        return self._run(self._client.policy())

    def export(self, what: str, start: int) -> bytes:
        return self._run(self._client.export(what, start))

    def search(self, parameters: Sequence[tuple[str, str]]) -> SearchPage:
        return self._run(self._client.search(parameters))

    def put_artifact(self, record: bytes) -> bool:
        return self._run(self._client.put_artifact(record))

    def artifact(self, digest: str, *, most: int = MAX_ARTIFACT) -> bytes:
        return self._run(self._client.artifact(digest, most=most))

    def entry_url(self, entry_id: str) -> str:
        return self._client.entry_url(entry_id)

    def clock_skew(self) -> float | None:
        return self._run(self._client.clock_skew())

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            return self._runner.run(work)
        except RuntimeError:
            work.close()  # inside a running loop: say so once, without a "never awaited" beside it
            raise
