"""Scoring growing conversations with a cache gives what scoring them whole gives, and reads new tokens only."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from turnpoint.policy import ScoreRequest  # noqa: E402
from turnpoint.policy.local import prefill as module  # noqa: E402
from turnpoint.policy.local.memory import Budget  # noqa: E402
from turnpoint.policy.local.scorer import score  # noqa: E402
from turnpoint.policy.local.sessions import SessionScorer  # noqa: E402
from turnpoint.policy.passages import Passage, merge_requests  # noqa: E402

from .conftest import random_ids  # noqa: E402

CLOSE = {"rtol": 0, "atol": 2e-5}


def whole(policy, passages):
    requests = [ScoreRequest(p.ids[:a], p.ids[a:b]) for p in passages for a, b in p.spans]
    return score(policy.network, requests, temperature=1.0, token_budget=10_000, context=256, merge="off")


def scorer(policy, **changes) -> SessionScorer:
    budget = Budget(changes.pop("token_budget", 4096), "scoring")
    return SessionScorer(policy.network, budget=budget, **{"context": 256, "max_rows": 8} | changes)


def grow(rng, history=()):
    """(prompt, response) of the next turn after ``history``."""
    prompt = (*history, *random_ids(rng, int(rng.integers(1, 8))))
    return prompt, random_ids(rng, int(rng.integers(1, 6)))


@pytest.mark.parametrize("kind", ["qwen3", "gemma3", "gpt2"])
@pytest.mark.parametrize("rows", [2, 8])
def test_turn_by_turn_equals_whole(make_policy, kind, rows) -> None:
    policy, rng = make_policy(kind), np.random.default_rng(0)
    cached = scorer(policy, max_rows=rows)
    start = random_ids(rng, 20)
    histories = [start] * 5
    for _ in range(4):
        passages = []
        for i, history in enumerate(histories):
            prompt, response = grow(rng, history)
            passages.append(Passage((*prompt, *response), ((len(prompt), len(prompt) + len(response)),)))
            histories[i] = (*prompt, *response)
        got = cached.score([f"e{i}" for i in range(5)], passages)
        for (value,), expected in zip(got, whole(policy, passages), strict=True):
            np.testing.assert_allclose(value, expected, **CLOSE)


def test_only_new_tokens_are_read(make_policy) -> None:
    policy, rng = make_policy(), np.random.default_rng(1)
    cached, history = scorer(policy), ()
    for turn in range(6):
        prompt, response = grow(rng, history)
        before = cached.counts["read"]
        cached.score(["e"], [Passage((*prompt, *response), ((len(prompt), len(prompt) + len(response)),))])
        assert cached.counts["read"] - before == len(prompt) + len(response) - len(history), turn
        history = (*prompt, *response)


def test_a_common_start_is_read_once(make_policy) -> None:
    policy, rng = make_policy(), np.random.default_rng(2)
    cached, start = scorer(policy), random_ids(rng, 60)
    passages = [Passage((*start, *random_ids(rng, 3)), ((60, 63),)) for _ in range(6)]
    values = cached.score([f"e{i}" for i in range(6)], passages)
    for (value,), expected in zip(values, whole(policy, passages), strict=True):
        np.testing.assert_allclose(value, expected, **CLOSE)
    # The state before the first scored token is always computed; everything earlier is shared.
    assert cached.counts["read"] == 63 + 5 * 4


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), rows=st.integers(1, 4), pieces=st.booleans())
def test_any_history_of_calls(make_policy_once, seed, rows, pieces) -> None:
    """Sessions that grow, rewrite their past, share starts and lose their rows."""
    policy, rng = make_policy_once, np.random.default_rng(seed)
    cached = scorer(policy, max_rows=rows, token_budget=int(rng.integers(8, 200)))
    seen: dict[str, tuple[int, ...]] = {}
    limit = module.MASK_ELEMENTS
    module.MASK_ELEMENTS = 200 if pieces else limit
    try:
        for _ in range(4):
            names = [f"e{rng.integers(4)}" for _ in range(int(rng.integers(1, 5)))]
            passages = []
            for name in names:
                past = seen.get(name, ())[: None if rng.random() < 0.7 else 5]
                requests = []
                for _ in range(int(rng.integers(1, 3))):
                    requests.append(ScoreRequest(*grow(rng, past)))
                    past = (*requests[-1].prompt_ids, *requests[-1].response_ids)
                passages += merge_requests(requests)
                seen[name] = past
            owners = names[: len(passages)]
            values = [v for parts in cached.score(owners, passages) for v in parts]
            for value, expected in zip(values, whole(policy, passages), strict=True):
                np.testing.assert_allclose(value, expected, **CLOSE)
    finally:
        module.MASK_ELEMENTS = limit


@pytest.fixture(scope="module")
def make_policy_once(model_folder):
    from turnpoint.policy.local import LocalPolicy
    from turnpoint.policy.settings import LocalPolicySettings

    return LocalPolicy(LocalPolicySettings(model=str(model_folder("qwen3")), device="cpu"), seed=0)


def test_requests_that_extend_each_other_share_a_passage() -> None:
    chain = [ScoreRequest((1, 2), (3,)), ScoreRequest((1, 2, 3, 4), (5, 6))]
    assert merge_requests(chain) == [Passage((1, 2, 3, 4, 5, 6), ((2, 3), (4, 6)))]
    apart = [ScoreRequest((1, 2), (3,)), ScoreRequest((1, 9, 3, 4), (5, 6))]
    assert merge_requests(apart) == [Passage((1, 2, 3), ((2, 3),)), Passage((1, 9, 3, 4, 5, 6), ((4, 6),))]
