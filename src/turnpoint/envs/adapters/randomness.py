"""Global random streams, one for each game: many libraries draw from ``random`` or ``numpy.random`` themselves.

Without this, what one episode draws would depend on which others play at the same time, and no replay would hold.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from turnpoint.envs.protocol import EnvError

_LOCK = threading.RLock()
State = tuple[Any, Any]
"""Of ``random`` and of ``numpy.random``; None for what is not imported."""


class OwnStreams:
    """The state of both global generators as one game sees it."""

    _owner: ClassVar[OwnStreams | None] = None
    """Whose streams are in place, in a process that only plays."""

    def __init__(self, patience: float, *, alone: bool = False) -> None:
        """``patience``: seconds to wait for another game of this process that is in a call.

        ``alone``: this process does nothing but play, so streams may stay in place until another game's turn.
        """
        self._patience, self._alone = patience, alone
        self._seed = 0
        self._saved: State | None = None

    def seed(self, seed: int) -> None:
        """Start both streams anew with the next use."""
        self._seed, self._saved = seed, None
        if OwnStreams._owner is self:
            OwnStreams._owner = None

    @contextmanager
    def used(self) -> Iterator[None]:
        """Run the block with this game's streams, and leave the program's own as they were.

        Raises ``EnvError`` if another game holds the streams for too long: it hangs in a call.
        """
        if self._alone:
            self._take()
            yield
            return
        if not _LOCK.acquire(timeout=self._patience):
            raise EnvError(
                f"another environment of this process has been in a call for {self._patience:g} s; "
                "set env.processes to 1 or more, so that one that hangs can be ended"
            )
        kept = _get()
        try:
            self._put()
            yield
        finally:
            self._saved = _get()
            _set(kept)
            _LOCK.release()

    def _take(self) -> None:
        owner = OwnStreams._owner
        if owner is self:
            return
        if owner is not None:
            owner._saved = _get()
        self._put()
        OwnStreams._owner = self

    def _put(self) -> None:
        if self._saved is None:
            random.seed(self._seed)
        numpy_random = _numpy_random()
        if numpy_random is not None and (self._saved is None or self._saved[1] is None):
            numpy_random.seed(self._seed & 0xFFFF_FFFF)
        if self._saved is not None:
            _set(self._saved)


def _numpy_random() -> Any:
    return getattr(sys.modules.get("numpy"), "random", None)


def _get() -> State:
    numpy_random = _numpy_random()
    return random.getstate(), None if numpy_random is None else numpy_random.get_state()


def _set(state: State) -> None:
    random.setstate(state[0])
    if state[1] is not None:
        _numpy_random().set_state(state[1])
