"""Scoring of requests that begin alike as trees: right values, no token twice, bounds kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from turnpoint.policy import SampleRequest, Sampling, ScoreRequest  # noqa: E402
from turnpoint.policy.local import LocalPolicy, forest, passes, scorer  # noqa: E402
from turnpoint.policy.local.forest import Tree  # noqa: E402
from turnpoint.policy.local.scorer import score  # noqa: E402
from turnpoint.records import Row  # noqa: E402

from .conftest import MakePolicy, finish, random_ids  # noqa: E402

OPTIONS: dict[str, Any] = {"temperature": 1.0, "token_budget": 10_000, "context": 256}
LOOSE = 10**9
Ids = tuple[int, ...]


def alone(policy: LocalPolicy, requests: list[ScoreRequest], **changes: Any) -> list[np.ndarray]:
    return score(policy.network, requests, merge="off", **(OPTIONS | changes))


def close(got: list[np.ndarray], expected: list[np.ndarray], atol: float = 1e-5) -> None:
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def play(policy: LocalPolicy, rng: np.random.Generator, *, episodes: int, turns: int) -> list[ScoreRequest]:
    """Sampled turns of episodes that begin alike, with full history; their caches stay with the policy."""
    start = random_ids(rng, 12)
    histories: list[Ids] = [start] * episodes
    requests = []
    for turn in range(turns):
        owner = {}
        for i in range(episodes):
            prompt = histories[i] + random_ids(rng, int(rng.integers(6, 12)))
            sampling = Sampling(max_tokens=int(rng.integers(1, 6)))
            owner[policy.submit(SampleRequest(prompt, 100 * turn + i, sampling, f"e{i}"))] = (i, prompt)
        for ticket, sample in finish(policy).items():
            i, prompt = owner[ticket]
            histories[i] = prompt + sample.token_ids
            requests.append(ScoreRequest(prompt, sample.token_ids))
    for i in range(episodes):
        policy.end_session(f"e{i}")
    return requests


def with_hints(rng: np.random.Generator, requests: list[ScoreRequest]) -> list[ScoreRequest]:
    """A hint of ragged length inside the last observation of each prompt."""
    return [
        ScoreRequest(
            (*r.prompt_ids[:-3], *random_ids(rng, int(rng.integers(1, 9))), *r.prompt_ids[-3:]),
            r.response_ids,
        )
        for r in requests
    ]


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[list[Tree]]:
    """The batches of trees that scoring computes."""
    seen: list[list[Tree]] = []

    def spy(network: Any, batch: list[Tree], pool: Any) -> Any:
        seen.append(list(batch))
        return passes.tree_states(network, batch, pool)

    monkeypatch.setattr(scorer, "tree_states", spy)
    return seen


def tokens(batches: list[list[Tree]]) -> int:
    return sum(len(tree) for batch in batches for tree in batch)


@pytest.mark.parametrize("kind", ["qwen3", "llama", "neox", "gemma3", "mistral", "gpt2"])
def test_trees_score_like_single_passes(make_policy: MakePolicy, kind: str, passed: list[list[Tree]]) -> None:
    policy, rng = make_policy(kind), np.random.default_rng(0)
    plain = play(policy, rng, episodes=3, turns=5)
    requests = with_hints(rng, plain) + with_hints(rng, plain[-6:]) + plain
    requests += [ScoreRequest(r.prompt_ids, r.response_ids[:1]) for r in requests[:4]] + requests[:2]
    order = rng.permutation(len(requests))
    requests = [requests[i] for i in order]
    expected = alone(policy, requests)
    computed = tokens(passed)
    passed.clear()
    cached = policy.logprobs(requests)
    close(cached, expected)
    from_cache = tokens(passed)
    assert all(tree.row >= 0 for batch in passed for tree in batch)
    passed.clear()
    policy.forget_sessions()
    close(policy.logprobs(requests), expected)
    assert any(len(tree.runs) > 1 for batch in passed for tree in batch)
    assert 1.5 * from_cache < tokens(passed) < computed / 2


ids = st.lists(st.integers(2, 3), min_size=1, max_size=7).map(tuple)
items = st.lists(st.tuples(ids, ids), min_size=1, max_size=12)


@settings(deadline=None, max_examples=60)
@given(items, st.lists(ids, max_size=3), st.integers(3, 40), st.sampled_from([1, 8, 1024]))
def test_every_token_sees_its_own_past_only(
    items: list[tuple[Ids, Ids]], rows: list[Ids], budget: int, worth: int
) -> None:
    """Following what is visible from a predictor spells the prompt, whatever is shared, cached or split."""

    def lookup(prompt: np.ndarray) -> tuple[int, int]:
        found = [min(forest._common(np.array(row), prompt), len(prompt) - 1) for row in rows]
        best = int(np.argmax(found)) if found else 0
        return best, found[best] if found else 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest, "WORTH", worth)
        trees = forest.forest(items, lookup=lookup, token_budget=budget, mask_elements=20 * budget)
    assert sorted(spot.item for tree in trees for spot in tree.spots) == list(range(len(items)))
    for tree in trees:
        assert len(tree) <= budget or len(tree.runs) == 1
        reach = tree.cached + 1
        seen = tree.visible(reach)
        held = np.concatenate([np.asarray(rows[tree.row][: tree.cached] if tree.row >= 0 else (), int), [99]])
        held = np.concatenate([held, tree.ids])
        places = np.concatenate([np.arange(reach), tree.positions])
        for spot in tree.spots:
            prompt, response = items[spot.item]
            assert len(spot.before) == len(response)
            for k, token in enumerate(spot.before):
                assert places[seen[token]].tolist() == list(range(len(prompt) + k))
                assert held[seen[token]].tolist() == [*prompt, *response[:k]]


def test_what_is_shared_is_computed_once() -> None:
    trunk = list(range(2, 42))
    items = [([*trunk, 50 + i], [60, 61]) for i in range(4)] + [([*trunk[:30], 9], [8, 7])]
    (tree,) = forest.forest(items, lookup=None, token_budget=100, mask_elements=LOOSE)
    assert len(tree) == 40 + 4 * 2 + 2
    (cached,) = forest.forest(items, lookup=lambda p: (3, 25), token_budget=100, mask_elements=LOOSE)
    assert (cached.row, cached.cached, len(cached)) == (3, 25, len(tree) - 25)


def test_wanted_states_are_never_those_of_cached_tokens() -> None:
    """A short prompt whose response runs along a cached sequence has its own branch."""
    row = np.arange(2, 42)
    items = [([*row, 50], [60, 61]), (row[:20].tolist(), [*row[20:].tolist(), 50, 62, 60])]

    def lookup(prompt: np.ndarray) -> tuple[int, int]:
        return 0, min(40, len(prompt) - 1)

    (tree,) = forest.forest(items, token_budget=100, mask_elements=LOOSE, lookup=lookup)
    assert [(run.parent, len(range(run.start, run.stop))) for run in tree.runs] == [(-1, 2), (-1, 23)]
    assert all((spot.before >= 0).all() for spot in tree.spots)


def test_long_branches_of_a_short_trunk_stay_apart() -> None:
    """Attention over each other's masked tokens would cost more than the trunk."""
    items = [(list(range(10)) + [50 + i] * 800, [60, 61]) for i in range(3)]
    trees = forest.forest(items, lookup=None, token_budget=10_000, mask_elements=LOOSE)
    assert [len(tree) for tree in trees] == [811] * 3
    assert all(tree.causal for tree in trees)
    # Nor is a mask worth the few tokens that are cached.
    assert (
        forest.forest(items, lookup=lambda p: (0, 10), token_budget=10_000, mask_elements=LOOSE)[0].row == -1
    )


def test_trees_are_split_within_token_budget_and_mask(
    make_policy: MakePolicy, passed: list[list[Tree]], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, rng = make_policy(), np.random.default_rng(1)
    plain = play(policy, rng, episodes=2, turns=4)
    requests = [h for _ in range(4) for h in with_hints(rng, plain)]
    expected = alone(policy, requests)
    for elements in (LOOSE, 3000):
        monkeypatch.setattr(scorer, "MASK_ELEMENTS", elements)
        monkeypatch.setattr(passes, "MASK_ELEMENTS", elements)
        for prefixes in (None, policy.engine.table):
            passed.clear()
            close(
                score(policy.network, requests, **OPTIONS | {"token_budget": 70}, prefixes=prefixes), expected
            )
            assert len(passed) > 1
            for batch in passed:
                size = len(batch) * max(map(len, batch))
                assert size <= 70 or len(batch) == 1
                if not all(tree.causal for tree in batch):
                    assert size <= 70
                    keys = max(map(len, batch)) + max(tree.cached for tree in batch)
                    assert size * keys <= elements


def test_caches_are_only_read(make_policy: MakePolicy) -> None:
    """Sampling goes on with the same bits after scoring from its cache."""

    def last_turn(between: bool) -> list[Any]:
        policy, rng = make_policy(), np.random.default_rng(2)
        plain = play(policy, rng, episodes=3, turns=3)
        if between:
            policy.logprobs(with_hints(rng, plain))
        longest = [max((r for r in plain), key=lambda r: len(r.prompt_ids))]
        prompt = (*longest[0].prompt_ids, *longest[0].response_ids, 5, 6)
        policy.submit(SampleRequest(prompt, 1, Sampling(max_tokens=12), "again"))
        return list(finish(policy).values())

    assert last_turn(between=True) == last_turn(between=False)


def test_scores_use_the_weights_of_the_moment(make_policy: MakePolicy) -> None:
    policy, rng = make_policy(keep_reference=True, optimizer={"lr": 1e-2}), np.random.default_rng(3)
    plain = play(policy, rng, episodes=2, turns=4)
    requests = with_hints(rng, plain)
    before = policy.logprobs(requests)
    close(policy.logprobs(requests, "reference"), before)
    policy.update(
        [Row(r.prompt_ids, r.response_ids, np.full(len(r.response_ids), -4.0), np.ones(len(r.response_ids)))
         for r in plain]
    )  # fmt: skip
    after = policy.logprobs(requests)
    close(after, alone(policy, requests))
    play(policy, np.random.default_rng(3), episodes=2, turns=4)  # caches of the new weights
    close(policy.logprobs(requests, "reference"), before)
    assert max(np.abs(a - b).max() for a, b in zip(after, before, strict=True)) > 1e-2


@pytest.mark.parametrize("rows", [4, 128])
def test_a_resumed_run_scores_with_the_same_bits(make_policy: MakePolicy, rows: int) -> None:
    """What was played before the caches were forgotten, and how far the pool has grown, leaves no trace."""
    scores = []
    for before in (0, 20):
        policy, rng = make_policy(cache_rows=rows), np.random.default_rng(6)
        if before:
            play(policy, np.random.default_rng(7), episodes=before, turns=12)
            policy.forget_sessions()
        scores.append(policy.logprobs(with_hints(rng, play(policy, rng, episodes=18, turns=4))))
    np.testing.assert_array_equal(np.concatenate(scores[0]), np.concatenate(scores[1]))


def test_scoring_while_calls_are_in_flight(make_policy: MakePolicy) -> None:
    policy, rng = make_policy(), np.random.default_rng(4)
    start = random_ids(rng, 40)
    policy.submit(SampleRequest(start, 1, Sampling(max_tokens=3), "short"))
    policy.submit(SampleRequest((*start, 5), 2, Sampling(max_tokens=60), "long"))
    policy.advance()
    assert policy.engine.active
    requests = [ScoreRequest((*start, *random_ids(rng, 4)), random_ids(rng, 3)) for _ in range(3)]
    close(policy.logprobs(requests), alone(policy, requests))


def test_bfloat16_trees_are_as_close_as_bfloat16_is(make_policy: MakePolicy) -> None:
    policy, rng = make_policy(dtype="bfloat16"), np.random.default_rng(5)
    requests = with_hints(rng, play(policy, rng, episodes=3, turns=4))
    exact = make_policy()
    weights = {name: weight.float() for name, weight in policy.network.model.state_dict().items()}
    exact.network.model.load_state_dict(weights)
    truth = alone(exact, requests)

    def error(values: list[np.ndarray]) -> float:
        return float(np.mean(np.abs(np.concatenate(values) - np.concatenate(truth))))

    plain, cached = error(alone(policy, requests)), error(policy.logprobs(requests))
    policy.forget_sessions()
    assert 0 < cached < 1.5 * plain
    assert 0 < error(policy.logprobs(requests)) < 1.5 * plain
