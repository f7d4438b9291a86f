"""Work on what becomes ready together: many episodes await their scores, the teacher sees batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_QUIET_ROUNDS = 4
"""Turns of the event loop without a new item after which what waits is worked on."""


class Batcher(Generic[Item, Result]):
    """Collects items until no more come or ``most`` wait, then has them worked on at once, in order of their keys."""

    def __init__(self, work: Callable[[list[Item]], Sequence[Result]], most: int) -> None:
        """``work`` gives one result for each item, in order."""
        self._work, self._most = work, most
        self._waiting: list[tuple[str, Item, asyncio.Future[Result]]] = []
        self._pump: asyncio.Task[None] | None = None
        self.batches = 0
        """Calls of ``work``."""

    async def do(self, key: str, item: Item) -> Result:
        """The result of one item; ``key`` orders it among those worked on together."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, item, future))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            await self._settle()
            batch, self._waiting = self._waiting, []
            batch = sorted((entry for entry in batch if not entry[2].done()), key=lambda entry: entry[0])
            for start in range(0, len(batch), self._most):
                self._finish(batch[start : start + self._most])

    async def _settle(self) -> None:
        quiet, known = 0, len(self._waiting)
        while quiet < _QUIET_ROUNDS and known < self._most:
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self._waiting) == known else 0
            known = len(self._waiting)

    def _finish(self, batch: Sequence[tuple[str, Item, asyncio.Future[Result]]]) -> None:
        self.batches += 1
        try:
            results = self._work([item for _, item, _ in batch])
        except Exception as error:
            for _, _, future in batch:
                future.set_exception(error)
            return
        for (_, _, future), result in zip(batch, results, strict=True):
            future.set_result(result)
