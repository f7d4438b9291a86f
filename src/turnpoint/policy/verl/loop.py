"""An event loop in a thread of its own: verl's servers are asked asynchronously, a policy is called plainly."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines beside whatever loop the caller is in."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="verl-calls", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin ``work``; its result comes with the future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for ``work``."""
        return self.start(work).result()

    def close(self) -> None:
        """Stop the thread; work that is still running is dropped."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
