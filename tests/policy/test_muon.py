"""Muon against torch's, which works in bfloat16."""

from __future__ import annotations

import pytest
import torch

from turnpoint.policy.local.muon import Muon, orthogonalise

SHAPES = ((16, 16), (8, 24), (24, 8), (1, 8))


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_come_near_one_and_vectors_stay(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    rotated = left.mT @ orthogonalise(matrix) @ right.mT
    assert ((rotated.diagonal() > 0.5) & (rotated.diagonal() < 1.3)).all()
    assert (rotated - torch.diag(rotated.diagonal())).abs().max() < 1e-3


def test_a_zero_gradient_gives_a_zero_update() -> None:
    assert not orthogonalise(torch.zeros(4, 8)).any()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_equal_torchs_up_to_its_precision(weight_decay: float) -> None:
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in ours]
    start = [weight.detach().clone() for weight in ours]
    optimizers = (
        Muon(ours, lr=0.1, weight_decay=weight_decay),
        torch.optim.Muon(theirs, lr=0.1, weight_decay=weight_decay),
    )
    for _ in range(4):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape)
            other.grad = mine.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for before, mine, other in zip(start, ours, theirs, strict=True):
        moved = (mine - before).norm()
        assert moved > 0.1
        assert (mine - other).norm() < 0.03 * moved


def test_a_matrix_without_gradient_stays() -> None:
    weight = torch.nn.Parameter(torch.ones(4, 4))
    Muon([weight], lr=1.0, weight_decay=0.5).step()
    assert (weight == 1).all()


def test_a_closure_is_refused() -> None:
    with pytest.raises(ValueError, match="closure"):
        Muon([torch.nn.Parameter(torch.ones(2, 2))], lr=1.0).step(lambda: 0.0)
