"""Drawing tokens, one random stream per request."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BLOCK = 64
"""Uniforms drawn from a stream at a time."""


class Streams:
    """A stream of uniforms for each slot; a stream depends on its seed alone."""

    def __init__(self, slots: int) -> None:
        self.block: npt.NDArray[np.float64] = np.zeros((slots, BLOCK))
        self.generators: list[np.random.Generator | None] = [None] * slots

    def grow(self, slots: int) -> None:
        """Make room for more slots."""
        more = slots - len(self.generators)
        self.block = np.concatenate([self.block, np.zeros((more, BLOCK))])
        self.generators += [None] * more

    def start(self, slot: int, seed: int) -> None:
        """Begin the stream of a new request."""
        self.generators[slot] = np.random.Generator(np.random.Philox(key=seed % 2**64))

    def swap(self, a: int, b: int) -> None:
        """Exchange two slots."""
        self.block[[a, b]] = self.block[[b, a]]
        self.generators[a], self.generators[b] = self.generators[b], self.generators[a]

    def take(self, slots: npt.NDArray[np.int64], steps: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The uniform in [0, 1) of each slot's step; steps go up by one from 0."""
        inside = steps % BLOCK
        for slot in slots[inside == 0]:
            generator = self.generators[slot]
            assert generator is not None
            generator.random(out=self.block[slot])
        values: npt.NDArray[np.float64] = self.block[slots, inside]
        return values


def draw(
    logits: Tensor,
    uniforms: npt.NDArray[np.float64],
    temperature: npt.NDArray[np.float64],
    top_p: npt.NDArray[np.float64],
    top_k: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Tokens and their log-probabilities for float32 logits ``[rows, vocabulary]``.

    Inversion of the cumulative distribution, so a token depends on its own row and uniform only. Temperature
    0 takes the most probable token. Log-probabilities are those of the full distribution at the temperature
    (1 when greedy), also where top-p or top-k narrowed the choice: they equal what scoring the token gives.
    """
    greedy = temperature == 0
    scale = np.where(greedy, 1.0, temperature)
    if (scale != 1.0).any():
        logits = logits / torch.as_tensor(scale, dtype=logits.dtype, device=logits.device)[:, None]
    logprobs = torch.log_softmax(logits, dim=-1)
    if greedy.all():
        tokens = logprobs.argmax(-1, keepdim=True)
    else:
        narrow = (top_p < 1.0) | (top_k > 0)
        allowed = _narrow(logprobs, top_p, top_k) if (narrow & ~greedy).any() else logprobs
        cumulative = allowed.exp().cumsum(-1, dtype=torch.float64)
        target = torch.as_tensor(uniforms, device=logits.device)[:, None] * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, target, right=True)
        if greedy.any():
            best = logprobs.argmax(-1, keepdim=True)
            tokens = torch.where(torch.as_tensor(greedy, device=logits.device)[:, None], best, tokens)
    # Past the end only if the probabilities are not numbers.
    tokens = tokens.clamp(max=logits.shape[-1] - 1)
    chosen = logprobs.gather(-1, tokens)[:, 0].double().cpu().numpy()
    if not np.isfinite(chosen).all():
        raise ArithmeticError(
            "the model's output is not finite, so nothing can be sampled; its weights are broken"
        )
    return tokens[:, 0].cpu().numpy(), chosen


def _narrow(logprobs: Tensor, top_p: npt.NDArray[np.float64], top_k: npt.NDArray[np.int64]) -> Tensor:
    """Log-probabilities with tokens outside top-k and the top-p nucleus at minus infinity.

    The nucleus is the smallest set of most probable tokens whose mass reaches ``top_p``.
    """
    ordered, order = logprobs.sort(dim=-1, descending=True, stable=True)
    mass = ordered.exp().cumsum(-1, dtype=torch.float64)
    before = mass - ordered.exp().double()
    nucleus = torch.as_tensor(top_p, device=logprobs.device)[:, None]
    count = torch.as_tensor(np.where(top_k > 0, top_k, logprobs.shape[-1]), device=logprobs.device)[:, None]
    rank = torch.arange(logprobs.shape[-1], device=logprobs.device)
    keep = ((before < nucleus) | (nucleus >= 1.0)) & (rank < count)
    keep[:, 0] = True
    kept = torch.zeros_like(keep).scatter(-1, order, keep)
    return logprobs.masked_fill(~kept, float("-inf"))
