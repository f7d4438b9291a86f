"""Divergences between the same model under two prompts, measured and not trained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from turnpoint.policy.local import scorer
from turnpoint.policy.local.divergence import divergence_values
from turnpoint.policy.local.forest import forest
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.passes import MASK_ELEMENTS, tree_batches, tree_states
from turnpoint.policy.protocol import Floats, ScoreRequest


def divergences(
    network: Network,
    pairs: Sequence[tuple[ScoreRequest, ScoreRequest]],
    *,
    direction: str,
    temperature: float,
    token_budget: int,
) -> list[Floats]:
    """Full-vocabulary divergence [len(response)] in nats of each (teacher, student) pair, over the same response.

    ``forward``: KL(teacher || student). Raises ``ValueError`` for a pair with different responses.
    """
    for teacher, student in pairs:
        if teacher.response_ids != student.response_ids:
            raise ValueError("a divergence compares two prompts of the same response; these responses differ")
    if not pairs:
        return []
    with torch.no_grad():
        told, plain = (_states(network, [pair[side] for pair in pairs], token_budget) for side in (0, 1))
        return [_values(network, a, b, direction, temperature) for a, b in zip(told, plain, strict=True)]


def _states(network: Network, requests: Sequence[ScoreRequest], token_budget: int) -> list[torch.Tensor]:
    """Hidden states ``[len(response), width]`` that predict the response tokens of each request."""
    items = [(request.prompt_ids, request.response_ids) for request in requests]
    parts = [torch.empty(0)] * len(items)
    for batch in tree_batches(
        forest(items, token_budget=token_budget, mask_elements=MASK_ELEMENTS), token_budget
    ):
        spots = [spot for tree in batch for spot in tree.spots]
        states = tree_states(network, batch)
        for spot, part in zip(spots, torch.split(states, [len(s.before) for s in spots]), strict=True):
            parts[spot.item] = part
    return parts


def _values(
    network: Network, teacher: torch.Tensor, student: torch.Tensor, direction: str, temperature: float
) -> Floats:
    size = max(1, scorer.LOGIT_ELEMENTS // (4 * network.vocabulary))
    values = [
        divergence_values(
            network.logits(b) / temperature, network.logits(a) / temperature, direction=direction
        )
        for a, b in zip(torch.split(teacher, size), torch.split(student, size), strict=True)
    ]
    return np.asarray(torch.cat(values).double().cpu().numpy(), dtype=np.float64)
