"""Log-probabilities of given tokens, without a vocabulary-sized row for every position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from turnpoint.policy.local.cache import KVPool
from turnpoint.policy.local.forest import Tree, forest, sequence_trees
from turnpoint.policy.local.merge import Item, chains
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.passes import MASK_ELEMENTS, tree_batches, tree_states
from turnpoint.policy.local.prefill import on_device
from turnpoint.policy.local.slots import Slots
from turnpoint.policy.protocol import ContextOverflow, ScoreRequest
from turnpoint.policy.settings import Merge

Floats = npt.NDArray[np.float64]

LOGIT_ELEMENTS = 2**22
"""Logits computed at a time (positions times vocabulary)."""


class Prefixes(Protocol):
    """Sequences whose keys and values are cached for the weights to score with; they are only read."""

    pool: KVPool
    slots: Slots


def score(
    network: Network,
    requests: Sequence[ScoreRequest],
    *,
    temperature: float,
    token_budget: int,
    context: int,
    merge: Merge = "trees",
    prefixes: Prefixes | None = None,
) -> list[Floats]:
    """Log-probabilities of each request's response tokens, float64 arrays of their lengths.

    Tokens that requests begin alike with are computed once, or not at all if they are among the cached prefixes
    (which only trees use). Raises ``ContextOverflow`` for a request longer than the context and ``ValueError``
    for an empty prompt or response.
    """
    items = [(request.prompt_ids, request.response_ids) for request in requests]
    for i, (prompt, response) in enumerate(items):
        if not len(prompt) or not len(response):
            raise ValueError(f"score request {i} needs a non-empty prompt and a non-empty response")
        if len(prompt) + len(response) > context:
            raise ContextOverflow(
                f"score request {i} has {len(prompt)} prompt and {len(response)} response tokens; "
                f"the context length is {context}"
            )
    result: list[Floats] = [np.empty(0)] * len(items)
    pool = None if prefixes is None else prefixes.pool
    with torch.inference_mode():
        for batch in tree_batches(_trees(items, merge, prefixes, token_budget), token_budget):
            spots = [spot for tree in batch for spot in tree.spots]
            targets = np.concatenate([np.asarray(items[spot.item][1], dtype=np.int64) for spot in spots])
            states = tree_states(network, batch, pool)
            values = head_logprobs(network, states, on_device(network, targets), temperature)
            ends = np.cumsum([len(spot.before) for spot in spots])
            for spot, part in zip(spots, np.split(values.double().cpu().numpy(), ends[:-1]), strict=True):
                result[spot.item] = part
    return result


def longest(requests: Iterable[ScoreRequest]) -> int:
    """Tokens of the longest request; 0 without any."""
    return max((len(r.prompt_ids) + len(r.response_ids) for r in requests), default=0)


def _trees(items: Sequence[Item], merge: Merge, prefixes: Prefixes | None, token_budget: int) -> list[Tree]:
    if merge == "off":
        return sequence_trees(items, [[i] for i in range(len(items))])
    if merge == "chains":
        return sequence_trees(items, chains(items))
    lookup = None if prefixes is None else prefixes.slots.longest
    return forest(items, lookup=lookup, token_budget=token_budget, mask_elements=MASK_ELEMENTS)


def token_logprobs(
    network: Network,
    batch: Sequence[npt.NDArray[np.int64]],
    lines: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    temperature: float,
) -> Tensor:
    """Float32 log-probabilities ``[n]`` of the tokens ``batch[lines[i]][places[i]]``, each given what precedes.

    ``places`` are at least 1. Differentiable in the weights unless gradients are off.
    """
    states, targets = token_states(network, batch, lines, places)
    return head_logprobs(network, states, targets, temperature)


def token_states(
    network: Network,
    batch: Sequence[npt.NDArray[np.int64]],
    lines: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
) -> tuple[Tensor, Tensor]:
    """Final hidden states ``[n, width]`` that predict the tokens ``batch[lines[i]][places[i]]``, and these ``[n]``."""
    padded = np.zeros((len(batch), max(len(ids) for ids in batch)), dtype=np.int64)
    for line, ids in enumerate(batch):
        padded[line, : len(ids)] = ids
    device = network.device
    hidden = network.hidden(torch.from_numpy(padded).to(device))
    before = torch.from_numpy(lines * padded.shape[1] + places - 1).to(device)
    targets = torch.from_numpy(padded[lines, places]).to(device)
    return hidden.flatten(0, 1).index_select(0, before), targets


def head_logprobs(network: Network, hidden: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Log-probabilities ``[n]`` of targets under hidden states ``[n, width]``: gather minus logsumexp in chunks.

    With gradients the logits of a chunk are computed again in the backward pass instead of being kept.
    """

    def chunk_logprobs(states: Tensor, tokens: Tensor) -> Tensor:
        logits = network.logits(states)
        if temperature != 1.0:
            logits = logits / temperature
        return logits.gather(-1, tokens[:, None])[:, 0] - torch.logsumexp(logits, dim=-1)

    size = max(1, LOGIT_ELEMENTS // network.vocabulary)
    if len(targets) <= size:
        return chunk_logprobs(hidden, targets)
    parts = []
    for states, tokens in zip(torch.split(hidden, size), torch.split(targets, size), strict=True):
        if torch.is_grad_enabled():
            parts.append(checkpoint(chunk_logprobs, states, tokens, use_reentrant=False))
        else:
            parts.append(chunk_logprobs(states, tokens))
    return torch.cat(parts)
