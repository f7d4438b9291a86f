"""A row: one model call that is trained."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class RowKind(StrEnum):
    """What kind of model call a row is."""

    ACT = "act"
    REFLECT = "reflect"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True)
class DivergenceSpec:
    """A divergence between teacher and student distributions that a row adds to the loss.

    A divergence does not depend on the sampled token, so it is a loss and never an advantage. The teacher is
    the policy itself with the weights from the start of the update, reading ``Row.teacher_prompt_ids``.
    """

    direction: Literal["forward", "reverse", "jsd"]
    """``forward``: KL(teacher || student); ``reverse``: KL(student || teacher); ``jsd``: between them."""
    beta: float = 0.5
    """Weight of the teacher in the mixture of ``jsd``, strictly between 0 and 1."""
    top_k: int | None = None
    """Compare the teacher's k likeliest tokens and, as one more outcome, all others; None = every token."""
    weight: float = 1.0
    """Factor of the row's divergence in the loss."""

    def __post_init__(self) -> None:
        if self.direction not in ("forward", "reverse", "jsd"):
            raise ValueError(f"direction is '{self.direction}'; set forward, reverse or jsd")
        if self.direction == "jsd" and not 0.0 < self.beta < 1.0:
            raise ValueError(
                f"beta is {self.beta}; a jsd needs a number strictly between 0 and 1, or set direction to "
                "forward or reverse"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}; set at least 1, or None for the whole vocabulary")
        if not np.isfinite(self.weight):
            raise ValueError(f"weight is {self.weight}; set a finite number")


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
    teacher_prompt_ids: tuple[int, ...] | None = None
    """Privileged context of ``divergence``; set with it or not at all."""
    divergence: DivergenceSpec | None = None
    """Added to the loss on the trained tokens, beside the advantages; needs a backend that can."""

    def __post_init__(self) -> None:
        n = len(self.response_ids)
        if n == 0:
            raise ValueError(f"row {self.name} has no response token; drop the turn and count it instead")
        if (self.divergence is None) != (not self.teacher_prompt_ids):
            raise ValueError(
                f"row {self.name}: divergence and a non-empty teacher_prompt_ids come together; set both or none"
            )
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
