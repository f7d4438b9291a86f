from __future__ import annotations

import numpy as np
import pytest
import torch

from turnpoint.policy import ScoreRequest

from .conftest import MakePolicy


def test_divergences_are_those_of_the_whole_distributions(make_policy: MakePolicy) -> None:
    policy = make_policy()
    response = (5, 6, 7)
    pairs = [
        (ScoreRequest((1, 2, 3, 4), response), ScoreRequest((1, 2, 4), response)),
        (ScoreRequest((9, 8), response[:1]), ScoreRequest((9, 8), response[:1])),
    ]
    found = policy.divergences(pairs)
    assert [len(values) for values in found] == [3, 1]
    assert found[1] == pytest.approx([0.0], abs=1e-9)

    def logprobs(request: ScoreRequest) -> torch.Tensor:
        ids = torch.tensor([[*request.prompt_ids, *request.response_ids]])
        with torch.no_grad():
            logits = policy.network.model(ids).logits[0, len(request.prompt_ids) - 1 : -1]
        return torch.log_softmax(logits.double() / policy.temperature, -1)

    told, plain = (logprobs(request) for request in pairs[0])
    np.testing.assert_allclose(found[0], (told.exp() * (told - plain)).sum(-1).numpy(), atol=1e-5)
    backward = policy.divergences(pairs[:1], "reverse")[0]
    np.testing.assert_allclose(backward, (plain.exp() * (plain - told)).sum(-1).numpy(), atol=1e-5)


def test_pairs_of_different_responses_are_refused(make_policy: MakePolicy) -> None:
    policy = make_policy()
    with pytest.raises(ValueError, match="responses differ"):
        policy.divergences([(ScoreRequest((1,), (2,)), ScoreRequest((1,), (3,)))])
    assert policy.divergences([]) == []
