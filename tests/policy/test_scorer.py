"""Scoring: right values, little memory, merged requests, the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from turnpoint.config import ConfigError  # noqa: E402
from turnpoint.policy import ContextOverflow, ScoreRequest  # noqa: E402
from turnpoint.policy.local.scorer import score  # noqa: E402
from turnpoint.records import Row  # noqa: E402

from .conftest import MakePolicy, random_ids  # noqa: E402


def conversation(rng: np.random.Generator, turns: int) -> list[ScoreRequest]:
    history: tuple[int, ...] = ()
    requests = []
    for _ in range(turns):
        history += random_ids(rng, int(rng.integers(1, 9)))
        response = random_ids(rng, int(rng.integers(1, 5)))
        requests.append(ScoreRequest(history, response))
        history += response
    return requests


@pytest.mark.parametrize("kind", ["qwen3", "llama", "neox", "gemma3", "mistral", "gpt2"])
def test_scores_are_the_models_own(make_policy: MakePolicy, kind: str) -> None:
    policy = make_policy(kind, temperature=0.8, token_budget=60)
    rng = np.random.default_rng(0)
    requests = [r for turns in (4, 1, 3) for r in conversation(rng, turns)]
    order = rng.permutation(len(requests))
    requests = [requests[i] for i in order]
    for request, got in zip(requests, policy.logprobs(requests), strict=True):
        ids = torch.tensor([request.prompt_ids + request.response_ids])
        with torch.no_grad():
            logits = policy.network.model(input_ids=ids).logits[0].double() / 0.8
        start = len(request.prompt_ids)
        expected = [logits.log_softmax(-1)[i - 1, ids[0, i]].item() for i in range(start, ids.shape[1])]
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_merging_saves_work_and_changes_nothing(make_policy: MakePolicy) -> None:
    policy = make_policy()
    requests = conversation(np.random.default_rng(0), 8)
    seen: list[int] = []
    policy.network.body.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    options: dict[str, Any] = {"temperature": 1.0, "token_budget": 10_000, "context": 256}
    merged = score(policy.network, requests, **options)
    single = score(policy.network, requests, merge="off", **options)
    for a, b in zip(merged, single, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    # The last token of a sequence predicts nothing that is asked for.
    assert seen[0] == len(requests[-1].prompt_ids) + len(requests[-1].response_ids) - 1
    assert seen[1] == 8 * seen[0]


class Peak(TorchDispatchMode):
    """Largest tensor that any operation returns, in elements."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, torch.Tensor):
                self.elements = max(self.elements, value.numel())
        return result


def test_no_vocabulary_sized_row_for_every_position(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnpoint.policy.local import scorer

    vocab, tokens = 5000, 200
    monkeypatch.setattr(scorer, "LOGIT_ELEMENTS", 10 * vocab)
    policy = make_policy(model={"vocab": vocab})
    rng = np.random.default_rng(0)
    requests = [ScoreRequest(random_ids(rng, tokens - 25), random_ids(rng, 25)) for _ in range(4)]
    weight = vocab * 32
    with Peak() as peak:
        policy.logprobs(requests)
    assert 10 * vocab <= peak.elements <= max(10 * vocab, weight)
    rows = [Row(r.prompt_ids, r.response_ids, np.full(25, -8.0), np.ones(25)) for r in requests]
    with Peak() as peak:
        policy.update(rows)
    assert peak.elements <= max(10 * vocab, weight) < 100 * vocab


def test_reference_keeps_the_initial_weights(make_policy: MakePolicy) -> None:
    policy = make_policy(keep_reference=True, optimizer={"lr": 1e-2})
    assert policy.capabilities.reference
    request = [ScoreRequest((3, 4), (5, 6))]
    (before,) = policy.logprobs(request)
    policy.update([Row((3, 4), (5, 6), before, np.ones(2))])
    np.testing.assert_array_equal(policy.logprobs(request, "reference")[0], before)
    assert (policy.logprobs(request)[0] > before).all()
    plain = make_policy()
    assert not plain.capabilities.reference
    with pytest.raises(ConfigError, match="keep_reference"):
        plain.logprobs(request, "reference")


def test_bad_requests(make_policy: MakePolicy) -> None:
    policy = make_policy(context_length=16)
    assert policy.logprobs([]) == []
    with pytest.raises(ValueError, match="request 1"):
        policy.logprobs([ScoreRequest((3,), (4,)), ScoreRequest((3,), ())])
    with pytest.raises(ContextOverflow, match="10 prompt and 7 response"):
        policy.logprobs([ScoreRequest((3,) * 10, (4,) * 7)])
