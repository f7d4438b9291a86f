"""Threads for calls that may never return."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Calls = SimpleQueue[Callable[[], None] | None]


class Worker:
    """A thread that runs calls one after another, in the order in which they were started.

    It is a daemon and belongs to no executor: a call that hangs holds up what is queued behind it and nothing
    else, neither other workers nor the end of the event loop or of the process.
    """

    def __init__(self, name: str) -> None:
        self._calls: Calls = SimpleQueue()
        threading.Thread(target=_serve, args=(self._calls,), name=name, daemon=True).start()
        self.stop = weakref.finalize(self, self._calls.put, None)
        """End the thread after the calls that are queued; a forgotten worker ends likewise."""

    def start(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Queue a call; the future belongs to the running loop. Cancelling it does not stop the call."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            result: T | None = None
            fault: Exception | None = None
            try:
                result = function(*arguments)
            except Exception as error:
                fault = error
            except BaseException as error:  # an exit that was asked for in here must not end the event loop
                fault = RuntimeError(f"{type(error).__name__}: {error}")
            try:
                loop.call_soon_threadsafe(_settle, future, result, fault)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

        self._calls.put(work)
        return future


def _serve(calls: Calls) -> None:
    while (work := calls.get()) is not None:
        work()
        del work  # its arguments must not live until the next call


def _settle(future: asyncio.Future[Any], result: Any, fault: Exception | None) -> None:
    if future.done():
        return  # given up meanwhile
    if fault is None:
        future.set_result(result)
    else:
        future.set_exception(fault)
