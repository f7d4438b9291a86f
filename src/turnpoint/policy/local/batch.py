"""Which rows train, and the trained tokens of a micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turnpoint.policy.local.merge import TokenSequence
from turnpoint.records import Row


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """The trained tokens of a micro-batch, all arrays ``[n]``."""

    ids: list[npt.NDArray[np.int64]]
    """Token sequences of the forward pass."""
    lines: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    old: npt.NDArray[np.float64]
    advantages: npt.NDArray[np.float64]


def select_rows(
    rows: Sequence[Row], *, context: int, drop_zero_advantage: bool
) -> tuple[list[Row], dict[str, float]]:
    """Rows that can be trained, and metrics that count them and, by reason, the others and their tokens."""
    kept: list[Row] = []
    dropped: dict[str, list[Row]] = {"too_long": [], "fully_masked": [], "zero_advantage": []}
    for row in rows:
        if not len(row.prompt_ids):
            raise ValueError(
                f"row {row.name} has an empty prompt; its first token has no context to train under"
            )
        if len(row.prompt_ids) + len(row.response_ids) > context:
            dropped["too_long"].append(row)
        elif not row.trained_tokens:
            dropped["fully_masked"].append(row)
        elif drop_zero_advantage and row.divergence is None and not _advantages(row).any():
            dropped["zero_advantage"].append(row)
        else:
            kept.append(row)
    metrics = {"rows": float(len(kept))}
    for reason, group in dropped.items():
        metrics[f"rows_dropped/{reason}"] = float(len(group))
        metrics[f"tokens_dropped/{reason}"] = float(sum(len(row.response_ids) for row in group))
    metrics["tokens_masked"] = float(sum(len(row.response_ids) - row.trained_tokens for row in kept))
    return kept, metrics


def gather_tokens(rows: Sequence[Row], batch: Sequence[TokenSequence]) -> TokenBatch:
    """The trained tokens (mask true) of the rows in some sequences; nothing else enters the loss."""
    lines, places, numbers, old, advantages = [], [], [], [], []
    for line, sequence in enumerate(batch):
        for segment in sequence.segments:
            row = rows[segment.item]
            chosen = np.arange(segment.length) if row.mask is None else np.flatnonzero(row.mask)
            lines.append(np.full(len(chosen), line))
            places.append(segment.start + chosen)
            numbers.append(np.full(len(chosen), segment.item))
            old.append(row.old_logprobs[chosen])
            advantages.append(row.advantages[chosen])
    return TokenBatch(
        [sequence.ids for sequence in batch],
        np.concatenate(lines),
        np.concatenate(places),
        np.concatenate(numbers),
        np.concatenate(old),
        np.concatenate(advantages),
    )


def _advantages(row: Row) -> npt.NDArray[np.float64]:
    return row.advantages if row.mask is None else row.advantages[row.mask]


def row_names(rows: Sequence[Row], numbers: npt.NDArray[np.int64]) -> str:
    """Rows by name for a message, the first five."""
    names = [rows[i].name for i in dict.fromkeys(int(n) for n in numbers)]
    shown = ", ".join(names[:5])
    return f"row{'s' if len(names) > 1 else ''} {shown}" + (
        f" and {len(names) - 5} more" if len(names) > 5 else ""
    )
