"""Which rows train, and the trained tokens of a micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from turnpoint.policy.local.forest import Spot, Tree, sequence_trees
from turnpoint.records import Row


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """The trained tokens of a micro-batch, all arrays ``[n]``."""

    trees: list[Tree]
    """What the forward pass computes; their spots are the trained tokens."""
    targets: npt.NDArray[np.int64]
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


def gather_tokens(rows: Sequence[Row], batch: Sequence[Tree]) -> TokenBatch:
    """The trained tokens (mask true) of the rows in some trees; nothing else enters the loss."""
    items = [spot.item for tree in batch for spot in tree.spots]
    trained = [trained_places(rows[item]) for item in items]

    def values(name: str) -> list[npt.NDArray[Any]]:
        return [np.asarray(getattr(rows[i], name))[k] for i, k in zip(items, trained, strict=True)]

    return TokenBatch(
        [narrowed(tree, rows) for tree in batch],
        np.concatenate(values("response_ids")),
        np.repeat(items, [len(k) for k in trained]),
        np.concatenate(values("old_logprobs")),
        np.concatenate(values("advantages")),
    )


def row_alone(rows: Sequence[Row], number: int) -> TokenBatch:
    """The trained tokens of one row as a sequence of its own."""
    items = [(row.prompt_ids, row.response_ids) for row in rows]
    return gather_tokens(rows, sequence_trees(items, [[number]]))


def narrowed(tree: Tree, rows: Sequence[Row]) -> Tree:
    """A tree of rows with the trained tokens as its spots."""
    spots = (Spot(spot.item, spot.before[trained_places(rows[spot.item])]) for spot in tree.spots)
    return replace(tree, spots=tuple(spots))


def trained_places(row: Row) -> npt.NDArray[np.int64]:
    """Positions of the trained tokens in a row's response."""
    return np.arange(len(row.response_ids)) if row.mask is None else np.flatnonzero(row.mask)


def _advantages(row: Row) -> npt.NDArray[np.float64]:
    return row.advantages if row.mask is None else row.advantages[row.mask]


def row_names(rows: Sequence[Row], numbers: npt.NDArray[np.int64]) -> str:
    """Rows by name for a message, the first five."""
    names = [rows[i].name for i in dict.fromkeys(int(n) for n in numbers)]
    shown = ", ".join(names[:5])
    return f"row{'s' if len(names) > 1 else ''} {shown}" + (
        f" and {len(names) - 5} more" if len(names) > 5 else ""
    )
