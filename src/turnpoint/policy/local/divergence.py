"""Divergences between the next-token distributions of teacher and student, as a differentiable loss.

The teacher is the policy itself, with the weights from the start of the update, reading a privileged prompt.
Its final hidden states are kept, never its distributions: logits exist for one chunk of positions at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from turnpoint.policy.local import scorer
from turnpoint.policy.local.batch import narrowed
from turnpoint.policy.local.forest import forest
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.passes import MASK_ELEMENTS, tree_batches, tree_states
from turnpoint.records import Row
from turnpoint.records.row import DivergenceSpec

LOG_FLOOR = -1e4
"""Log-probs of impossible tokens: their probability is 0, and differences of two of them are 0, not NaN."""


def divergence_values(
    student: Tensor, teacher: Tensor, *, direction: str, beta: float = 0.5, top_k: int | None = None
) -> Tensor:
    """Divergence ``[n]`` in nats of logits ``[n, vocabulary]``; its gradient reaches ``student`` only.

    ``forward``: KL(T || S); ``reverse``: KL(S || T); ``jsd``: ``beta KL(T || M) + (1 - beta) KL(S || M)`` with
    ``M = beta T + (1 - beta) S`` (GKD, arXiv 2306.13649, Eq. 1). ``top_k`` compares the teacher's k likeliest
    tokens and the sum of all others as one outcome, which is never more than the whole. Values are clipped
    at 0 after the sum over outcomes. Where the distributions are equal, value and gradient are exactly 0.
    """
    values: Tensor = _Divergence.apply(student, teacher, direction, beta, top_k)  # type: ignore[no-untyped-call]
    return values


class _Divergence(torch.autograd.Function):
    """The closed-form gradient: automatic differentiation leaves rounding where it should be zero."""

    @staticmethod
    def forward(
        ctx: Any, student: Tensor, teacher: Tensor, direction: str, beta: float, top_k: int | None
    ) -> Tensor:
        q = torch.log_softmax(student, dim=-1).clamp(min=LOG_FLOOR)
        p = torch.log_softmax(teacher, dim=-1).clamp(min=LOG_FLOOR)
        picks = None
        if top_k is not None and top_k < q.shape[-1]:
            picks = p.topk(top_k, dim=-1).indices
        values, gradient = _value_and_gradient(p, q, picks, direction, beta)
        ctx.save_for_backward(gradient)
        return values.clamp(min=0.0)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream[0][:, None], None, None, None, None


def _value_and_gradient(
    p_all: Tensor, q_all: Tensor, picks: Tensor | None, direction: str, beta: float
) -> tuple[Tensor, Tensor]:
    """Sum over outcomes ``[n]`` and gradient with respect to the student's logits ``[n, vocabulary]``.

    With c the outcome of token j, dD/dz_j = s_j (g_c - sum_i s_i g_i), g = dD/ds.
    """
    p, q = _outcomes(p_all, picks), _outcomes(q_all, picks)
    gap, s = p - q, q.exp()
    if (
        direction == "forward"
    ):  # g = -t / s; s_j t_c / s_c is written so that it can neither overflow nor be 0/0
        values = (p.exp() * gap).sum(-1)
        return values, q_all.exp() - (q_all + _spread(gap, picks, q_all)).exp()
    if direction == "reverse":  # g = log s - log t + 1
        values = -(s * gap).sum(-1)
        return values, q_all.exp() * _spread(-gap - values[:, None], picks, q_all)
    # log m - log s and log m - log t, from the larger of the two so that expm1 cannot overflow.
    share = torch.where(gap > 0, gap.new_tensor(1.0 - beta), gap.new_tensor(beta))
    base = torch.log1p(share * torch.expm1(-gap.abs()))
    student = -(base + gap.clamp(min=0.0))
    teacher = -(base - gap.clamp(max=0.0))
    centre = (s * student).sum(-1, keepdim=True)
    values = beta * (p.exp() * teacher).sum(-1) + (1.0 - beta) * centre[:, 0]
    return values, (1.0 - beta) * q_all.exp() * _spread(student - centre, picks, q_all)


def _outcomes(logprobs: Tensor, picks: Tensor | None) -> Tensor:
    """Log-probs ``[n, k + 1]`` of the picked tokens and of all others together; everything without picks."""
    if picks is None:
        return logprobs
    rest = logprobs.scatter(-1, picks, -torch.inf).logsumexp(-1, keepdim=True)
    return torch.cat([logprobs.gather(-1, picks), rest.clamp(min=LOG_FLOOR)], dim=-1)


def _spread(outcomes: Tensor, picks: Tensor | None, like: Tensor) -> Tensor:
    """The number of each token's outcome ``[n, vocabulary]``."""
    if picks is None:
        return outcomes
    return outcomes[:, -1:].expand_as(like).scatter(-1, picks, outcomes[:, :-1])


@dataclass(frozen=True, slots=True)
class DivergenceShare:
    """What the divergence adds for a micro-batch."""

    loss: Tensor
    total: float
    """Unweighted sum over its tokens, in nats."""
    tokens: int


class Teacher:
    """Hidden states of the privileged teacher at the trained tokens of some rows."""

    def __init__(
        self, network: Network, states: Tensor, starts: dict[int, int], head: Any, temperature: float
    ) -> None:
        self.network, self.states, self.starts = network, states, starts
        self.head, self.temperature = head, temperature

    def share(
        self, student: Tensor, rows: Sequence[Row], numbers: npt.NDArray[np.int64], weights: Tensor
    ) -> DivergenceShare:
        """Divergence of a micro-batch.

        Args:
            student: hidden states ``[n, width]`` that predict the trained tokens.
            numbers: row of each token ``[n]``; a row's tokens lie together, in order.
            weights: factor of each token in the loss ``[n]``, without the row's own weight.
        """
        loss, total, tokens = student.new_zeros((), dtype=torch.float32), 0.0, 0
        for spec, place, source in self._by_spec(rows, numbers):
            where = torch.from_numpy(place).to(student.device)
            read = torch.from_numpy(source).to(student.device)
            states, factors = student.index_select(0, where), weights.index_select(0, where)
            size = self._chunk()
            for chunk in torch.split(torch.arange(len(place), device=student.device), size):
                part = (states[chunk], self.states.index_select(0, read[chunk]), spec)
                # With several chunks their logits are computed again in the backward pass, not kept.
                values = (
                    self._values(*part)
                    if len(place) <= size
                    else checkpoint(self._values, *part, use_reentrant=False)
                )
                loss = loss + spec.weight * (values * factors[chunk]).sum()
                total += float(values.detach().sum())
            tokens += len(place)
        return DivergenceShare(loss, total, tokens)

    def _values(self, student: Tensor, teacher: Tensor, spec: DivergenceSpec) -> Tensor:
        with torch.no_grad():
            target = self.network.logits(teacher, self.head) / self.temperature
        return divergence_values(
            self.network.logits(student) / self.temperature,
            target,
            direction=spec.direction,
            beta=spec.beta,
            top_k=spec.top_k,
        )

    def _chunk(self) -> int:
        # Both distributions, their logs and the gradient live at once: a quarter of what plain scoring takes.
        return max(1, scorer.LOGIT_ELEMENTS // (4 * self.network.vocabulary))

    def _by_spec(
        self, rows: Sequence[Row], numbers: npt.NDArray[np.int64]
    ) -> list[tuple[DivergenceSpec, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """(spec, places in the micro-batch, places in the teacher's states) of the tokens with a divergence."""
        found: dict[DivergenceSpec, tuple[list[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]]] = {}
        for number in dict.fromkeys(numbers.tolist()):
            spec = rows[number].divergence
            if spec is None or number not in self.starts:
                continue
            here = np.flatnonzero(numbers == number)
            places, sources = found.setdefault(spec, ([], []))
            places.append(here)
            sources.append(self.starts[number] + np.arange(len(here)))
        return [(spec, np.concatenate(a), np.concatenate(b)) for spec, (a, b) in found.items()]


def read_teacher(
    network: Network,
    rows: Sequence[Row],
    *,
    token_budget: int,
    context: int,
    temperature: float,
    freeze_head: bool,
) -> Teacher | None:
    """Read all privileged prompts with the present weights; None if no row has a divergence.

    ``freeze_head`` keeps a copy of the output layer, for updates of more than one step. Raises ``ValueError``
    naming a row whose privileged prompt does not fit the context.
    """
    chosen = [i for i, row in enumerate(rows) if row.divergence is not None and row.divergence.weight]
    if not chosen:
        return None
    items = [(rows[i].teacher_prompt_ids or (), rows[i].response_ids) for i in chosen]
    for i, (prompt, response) in zip(chosen, items, strict=True):
        if len(prompt) + len(response) > context:
            raise ValueError(
                f"row {rows[i].name}: its privileged prompt has {len(prompt)} and its response {len(response)} "
                f"tokens, and the context length is {context}; leave the divergence of such rows out"
            )
    parts = [torch.empty(0)] * len(items)
    teachers = [rows[i] for i in chosen]
    trees = forest(items, token_budget=token_budget, mask_elements=MASK_ELEMENTS)
    with torch.no_grad():
        for batch in tree_batches([narrowed(tree, teachers) for tree in trees], token_budget):
            spots = [spot for tree in batch for spot in tree.spots]
            states = tree_states(network, batch)
            for spot, part in zip(spots, torch.split(states, [len(s.before) for s in spots]), strict=True):
                parts[spot.item] = part
    starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
    head = copy.deepcopy(network.head).requires_grad_(False) if freeze_head else None
    return Teacher(network, torch.cat(parts), dict(zip(chosen, starts, strict=False)), head, temperature)
