"""Book-keeping of the pool's rows: whose they are, which tokens they hold, which to give away."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


class Slots:
    """One entry per pool row. ``tokens[s, :length[s]]`` are the tokens whose keys and values row s holds.

    A free slot (no session) keeps its contents until it is given away, so that a new session which starts with
    the same tokens can copy them.
    """

    def __init__(self, rows: int, width: int) -> None:
        self.tokens: IntArray = np.zeros((rows, width), dtype=np.int64)
        self.logprobs: npt.NDArray[np.float64] = np.zeros((rows, width))
        """Log-probability at which a token was sampled, at the token's place."""
        self.length: IntArray = np.zeros(rows, dtype=np.int64)
        self.used: IntArray = np.zeros(rows, dtype=np.int64)
        self.busy: npt.NDArray[np.bool_] = np.zeros(rows, dtype=np.bool_)
        self.owned: npt.NDArray[np.bool_] = np.zeros(rows, dtype=np.bool_)
        """Whether a session has the slot."""
        self.sessions: list[str] = [""] * rows
        self.place: dict[str, int] = {}
        """Slot of each session."""
        self._clock = 0

    @property
    def rows(self) -> int:
        """Number of slots."""
        return len(self.length)

    def grow(self, rows: int, width: int) -> None:
        """Make room for at least this many slots and tokens."""
        more, wider = max(rows - self.rows, 0), max(width - self.tokens.shape[1], 0)
        self.tokens = np.pad(self.tokens, ((0, more), (0, wider)))
        self.logprobs = np.pad(self.logprobs, ((0, more), (0, wider)))
        for name in ("length", "used", "busy", "owned"):
            setattr(self, name, np.pad(getattr(self, name), (0, more)))
        self.sessions += [""] * more

    def swap(self, a: int, b: int) -> None:
        """Exchange two slots."""
        for values in (self.tokens, self.logprobs, self.length, self.used, self.busy, self.owned):
            values[[a, b]] = values[[b, a]]
        self.sessions[a], self.sessions[b] = self.sessions[b], self.sessions[a]
        for slot in (a, b):
            if self.sessions[slot]:
                self.place[self.sessions[slot]] = slot

    def donor(self, prompt: IntArray, own: int | None) -> tuple[int, int]:
        """The slot that shares most tokens with the start of ``prompt``, and how many.

        At least the last prompt token is left to be fed, since its output is needed. The session's ``own``
        slot wins ties: nothing needs copying then.
        """
        width = min(len(prompt) - 1, int(self.length.max(initial=0)))
        if width == 0:
            return (0 if own is None else own), 0
        same = self.tokens[:, :width] == prompt[:width]
        shared = np.where(same.all(1), width, same.argmin(1))
        shared = np.minimum(shared, self.length)
        best = int(shared.argmax())
        if own is not None and shared[own] == shared[best]:
            best = own
        return best, int(shared[best])

    def longest(self, prompt: IntArray) -> tuple[int, int]:
        """``donor`` for who has no slot."""
        return self.donor(prompt, None)

    def vacant(self) -> int | None:
        """The slot a new session gets: an unused one, else the free one used longest ago, else the resting
        session's used longest ago (which loses its cache); None if all are busy."""
        idle = ~self.busy
        if not idle.any():
            return None
        free = idle & ~self.owned
        unused = np.flatnonzero(free & (self.length == 0))
        if len(unused):
            return int(unused[0])
        candidates = np.flatnonzero(free if free.any() else idle)
        return int(candidates[self.used[candidates].argmin()])

    def claim(self, slot: int, session: str) -> None:
        """Give a slot to a session's call."""
        self.release(self.sessions[slot])
        if session:
            self.sessions[slot] = session
            self.owned[slot] = True
            self.place[session] = slot
        self.busy[slot] = True
        self._clock += 1
        self.used[slot] = self._clock

    def release(self, session: str) -> None:
        """Make a session's slot free; its contents stay until it is given away."""
        slot = self.place.pop(session, None)
        if slot is not None:
            self.sessions[slot] = ""
            self.owned[slot] = False

    def forget(self) -> None:
        """Nothing cached is valid any more."""
        self.length[:] = 0
        self.sessions = [""] * self.rows
        self.owned[:] = False
        self.place.clear()


def shares(a: IntArray, b: IntArray, length: int) -> bool:
    """Whether the first ``length`` tokens are equal and ``b`` goes on after them."""
    if len(a) < length or len(b) <= length or a[length - 1] != b[length - 1]:
        return False
    return bool((a[:length] == b[:length]).all())
