"""A log as a mirror's client reads it: its entries as packages, each with the proof that a mirror asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import islice
from typing import Final

from transparency.client.tiles import TiledTree
from transparency.notes.subtree import subtree_path
from transparency.notes.upload import Package, Span, spans

AT_ONCE: Final = 4
"""Packages that are fetched at the same time: each may have sixteen megabytes."""


class SourceTree(TiledTree):
    """The tree under a checkpoint that the caller trusts; everything in a package has been checked against it."""

    async def packages(self, start: int, most: int | None = None) -> AsyncGenerator[Package, None]:
        """Those of an upload from *start* to the size of the tree, in order; all, or the first *most*."""
        await self.check_root()
        left = islice(spans(start, self.size), most)
        while group := list(islice(left, AT_ONCE)):
            for package in await asyncio.gather(*map(self._package, group)):
                yield package

    async def _package(self, span: Span) -> Package:
        entries = tuple([entry async for _, entry in self.entries(span.start, span.end)])
        path = await self.computed(lambda read: subtree_path(span.base, span.end, self.size, read), span.end)
        return Package(span, entries, tuple(path))
