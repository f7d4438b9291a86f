"""Named random streams: every random choice of a run derives from one seed and a name."""

from __future__ import annotations

import hashlib

import numpy as np


class Streams:
    """Derives independent seeds from (run seed, names), so that results do not depend on scheduling."""

    def __init__(self, seed: int) -> None:
        self.root = int(seed)

    def seed(self, *names: str | int) -> int:
        """A 63-bit seed for the stream called ``names``; equal in every process and on every machine."""
        text = "\x1f".join([str(self.root), *(f"{type(name).__name__}:{name}" for name in names)])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1

    def rng(self, *names: str | int) -> np.random.Generator:
        """A generator for the stream called ``names``."""
        return np.random.default_rng(self.seed(*names))
