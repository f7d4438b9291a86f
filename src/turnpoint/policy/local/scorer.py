"""Log-probabilities of given tokens, without a vocabulary-sized row for every position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from turnpoint.policy.local.merge import TokenSequence, chains, micro_batches, sequences
from turnpoint.policy.local.network import Network
from turnpoint.policy.protocol import ContextOverflow, ScoreRequest

Floats = npt.NDArray[np.float64]

LOGIT_ELEMENTS = 2**22
"""Logits computed at a time (positions times vocabulary)."""


def score(
    network: Network,
    requests: Sequence[ScoreRequest],
    *,
    temperature: float,
    token_budget: int,
    context: int,
    merge: bool = True,
) -> list[Floats]:
    """Log-probabilities of each request's response tokens, float64 arrays of their lengths.

    Requests that extend each other are scored as one sequence and sliced. Raises ``ContextOverflow`` for a
    request longer than the context and ``ValueError`` for an empty prompt or response.
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
    merged = sequences(items, chains(items), merge=merge) if merge else _singles(items)
    with torch.inference_mode():
        for batch in micro_batches([len(sequence) for sequence in merged], token_budget):
            chosen = [merged[i] for i in batch]
            spans = [
                (line, segment.start, segment.start + segment.length)
                for line, sequence in enumerate(chosen)
                for segment in sequence.segments
            ]
            values = span_logprobs(network, chosen, spans, temperature).double().cpu().numpy()
            ends = np.cumsum([stop - start for _, start, stop in spans])
            names = [segment.item for sequence in chosen for segment in sequence.segments]
            for item, part in zip(names, np.split(values, ends[:-1]), strict=True):
                result[item] = part
    return result


def _singles(items: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[TokenSequence]:
    return sequences(items, [[i] for i in range(len(items))], merge=False)


def span_logprobs(
    network: Network,
    batch: Sequence[TokenSequence],
    spans: Sequence[tuple[int, int, int]],
    temperature: float,
) -> Tensor:
    """Log-probabilities of the tokens in spans (line of the batch, first, one past the last), concatenated."""
    lines = np.concatenate([np.full(stop - start, line) for line, start, stop in spans])
    places = np.concatenate([np.arange(start, stop) for _, start, stop in spans])
    return token_logprobs(network, [sequence.ids for sequence in batch], lines, places, temperature)


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
