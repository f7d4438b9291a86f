"""Rows as verl's batch: sequences with masks and per-token advantages, filled up with rows that train nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from turnpoint.records import Row


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """One sequence of verl's batch; arrays have the length of ``response_ids``."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    mask: npt.NDArray[np.bool_]
    """Trained tokens; false on observations and wherever else no row trains."""
    advantages: npt.NDArray[np.float64]
    old_logprobs: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


def sequence_of(rows: Sequence[Row]) -> TokenSequence:
    """Rows whose prompts extend each other as one sequence: the first row's prompt, then all that followed."""
    first, last = rows[0], rows[-1]
    start = len(first.prompt_ids)
    tokens = (*last.prompt_ids, *last.response_ids)
    n = len(tokens) - start
    mask, advantages, old = np.zeros(n, dtype=np.bool_), np.zeros(n), np.zeros(n)
    for row in rows:
        place = slice(len(row.prompt_ids) - start, len(row.prompt_ids) - start + len(row.response_ids))
        trained = np.ones(len(row.response_ids), dtype=np.bool_) if row.mask is None else row.mask
        mask[place] = trained
        advantages[place] = np.where(trained, row.advantages, 0.0)
        old[place] = np.where(trained, row.old_logprobs, 0.0)
    return TokenSequence(first.prompt_ids, tuple(tokens[start:]), mask, advantages, old)


def padding_like(sequence: TokenSequence) -> TokenSequence:
    """A sequence of the same tokens in which nothing trains."""
    n = len(sequence.response_ids)
    return TokenSequence(
        sequence.prompt_ids, sequence.response_ids, np.zeros(n, dtype=np.bool_), np.zeros(n), np.zeros(n)
    )


def fill_up(sequences: Sequence[TokenSequence], ranks: int) -> list[TokenSequence]:
    """The sequences and, so that every rank gets as many, copies of the shortest one that train nothing."""
    missing = -len(sequences) % ranks
    if not missing:
        return list(sequences)
    return [*sequences, *[padding_like(min(sequences, key=len))] * missing]


def tensor_batch(
    sequences: Sequence[TokenSequence], *, temperature: float, real: int, extra: dict[str, Any] | None = None
) -> TensorDict:
    """verl's batch of nested tensors; ``real`` of the sequences train and count as the size of the mini-batch.

    Both masks are false on whatever does not train: verl's mean over tokens counts ``loss_mask``.
    """

    def nested(arrays: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
        tensors = [torch.as_tensor(np.asarray(array)).to(dtype) for array in arrays]
        return torch.nested.as_nested_tensor(tensors, layout=torch.jagged)

    mask = nested([s.mask for s in sequences], torch.int64)
    fields: dict[str, Any] = {
        "prompts": nested([s.prompt_ids for s in sequences], torch.int64),
        "responses": nested([s.response_ids for s in sequences], torch.int64),
        "input_ids": nested([(*s.prompt_ids, *s.response_ids) for s in sequences], torch.int64),
        "position_ids": nested([np.arange(len(s)) for s in sequences], torch.int64),
        "response_mask": mask,
        "loss_mask": mask.clone(),
        "advantages": nested([s.advantages for s in sequences], torch.float32),
        "old_log_probs": nested([s.old_logprobs for s in sequences], torch.float32),
    }
    settings = {
        "temperature": temperature,
        "global_batch_size": real,
        "calculate_entropy": False,
        "distillation_use_topk": False,
        "distillation_only": False,
        **(extra or {}),
    }
    return tu.get_tensordict(tensor_dict=fields, non_tensor_dict=settings)
