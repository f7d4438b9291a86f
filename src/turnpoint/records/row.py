"""A row: one model call that is trained."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class RowKind(StrEnum):
    """What kind of model call a row is."""

    ACT = "act"
    REFLECT = "reflect"
    RECOVERY = "recovery"


@dataclass(slots=True, eq=False)
class Row:
    """One model call: context tokens, sampled tokens and a per-token advantage.

    ``response_ids``, ``old_logprobs``, ``advantages`` and ``mask`` have the same length, at least 1.
    """

    prompt_ids: tuple[int, ...]
    """Context under which the row is trained (never contains a hint)."""
    response_ids: tuple[int, ...]
    """Sampled tokens, kept as sampled."""
    old_logprobs: Floats
    """log pi_old of each response token under ``prompt_ids``."""
    advantages: Floats
    mask: npt.NDArray[np.bool_] | None = None
    """Which response tokens train; None = all."""
    kind: RowKind = RowKind.ACT
    task: str = ""
    episode: str = ""
    attempt: int = 0
    turn: int = 0
    anchor: str | None = None
    valid: bool = True

    def __post_init__(self) -> None:
        n = len(self.response_ids)
        if n == 0:
            raise ValueError(f"row {self.name} has no response token; drop the turn and count it instead")
        self.old_logprobs = np.asarray(self.old_logprobs, dtype=np.float64)
        self.advantages = np.asarray(self.advantages, dtype=np.float64)
        lengths = {"old_logprobs": self.old_logprobs.shape, "advantages": self.advantages.shape}
        if self.mask is not None:
            self.mask = np.asarray(self.mask, dtype=np.bool_)
            lengths["mask"] = self.mask.shape
        for name, shape in lengths.items():
            if shape != (n,):
                raise ValueError(f"row {self.name}: {name} has shape {shape}, its response has {n} tokens")
        for name, values in (("old_logprobs", self.old_logprobs), ("advantages", self.advantages)):
            if not np.isfinite(values).all():
                bad = int(np.flatnonzero(~np.isfinite(values))[0])
                raise ValueError(f"row {self.name}: {name}[{bad}] is {values[bad]}")

    @property
    def name(self) -> str:
        """Episode, turn and kind, for messages."""
        return f"{self.episode or '?'}#{self.turn}:{self.kind}"

    @property
    def trained_tokens(self) -> int:
        """Number of tokens that count in the loss denominator."""
        return len(self.response_ids) if self.mask is None else int(self.mask.sum())
