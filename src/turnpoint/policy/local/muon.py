"""Muon in the precision of the weights.

``torch.optim.Muon`` orthogonalises in bfloat16, which is slow on CPUs without bfloat16 units: thirteen times the
cost for matrices of a tiny model, more than the rest of its training step. The algorithm and its constants are the
same (Jordan et al., 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic Newton-Schulz iteration."""
ITERATIONS = 5


def orthogonalise(matrix: Tensor) -> Tensor:
    """A matrix ``[m, n]`` with the singular vectors of ``matrix`` and singular values near 1 (0.7 to 1.2)."""
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT if tall else matrix
    x = x / torch.linalg.vector_norm(x).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised; for weight matrices ``[out, in]`` only."""

    def __init__(
        self, params: Iterable[Tensor], lr: float, *, weight_decay: float = 0.0, momentum: float = 0.95
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step with Nesterov momentum and decoupled weight decay; matrices without gradient stay."""
        if closure is not None:
            raise ValueError("this optimizer takes no closure")
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(weight)
                buffer = state["momentum_buffer"]
                buffer.lerp_(weight.grad, 1 - group["momentum"])
                update = orthogonalise(weight.grad.lerp(buffer, group["momentum"]))
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                scale = max(1.0, weight.shape[0] / weight.shape[1]) ** 0.5
                weight.add_(update, alpha=-group["lr"] * scale)
