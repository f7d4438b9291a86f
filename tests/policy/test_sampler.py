"""The sampler: agrees with the scorer, does not depend on the batch, keeps caches right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from turnpoint.policy import ContextOverflow, SampleRequest, Sampling, ScoreRequest

from .conftest import MakePolicy, finish, random_ids

KINDS = ["qwen3", "llama", "neox", "gemma3", "mistral", "gpt2"]


def play(
    policy: Any, *, episodes: int, turns: int, seed: int = 0, sessions: bool = True
) -> list[tuple[Any, Any]]:
    """Ragged multi-turn episodes, submitted as they become ready; (request, sample) pairs in a fixed order."""
    rng = np.random.default_rng(seed)
    observations = [
        [random_ids(rng, int(rng.integers(1, 30))) for _ in range(turns)] for _ in range(episodes)
    ]
    limits = rng.integers(1, 9, (episodes, turns))
    owner: dict[int, tuple[int, int, SampleRequest]] = {}
    pairs: dict[tuple[int, int], tuple[Any, Any]] = {}

    def submit(episode: int, turn: int, history: tuple[int, ...]) -> None:
        request = SampleRequest(
            history + observations[episode][turn],
            seed=1000 * episode + turn,
            sampling=Sampling(max_tokens=int(limits[episode, turn])),
            session=f"e{episode}" if sessions else "",
        )
        owner[policy.submit(request)] = (episode, turn, request)

    for episode in range(episodes):
        submit(episode, 0, ())
    while done := policy.advance():
        for ticket, sample in done:
            episode, turn, request = owner.pop(ticket)
            pairs[episode, turn] = (request, sample)
            if turn + 1 < turns:
                submit(episode, turn + 1, request.prompt_ids + sample.token_ids)
    assert not owner
    return [pairs[key] for key in sorted(pairs)]


def check_scores(policy: Any, pairs: list[tuple[Any, Any]], tolerance: float = 1e-5) -> None:
    scored = policy.logprobs([ScoreRequest(r.prompt_ids, s.token_ids) for r, s in pairs])
    for (_, sample), expected in zip(pairs, scored, strict=True):
        np.testing.assert_allclose(sample.logprobs, expected, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_sampler_and_scorer_agree_over_ragged_sessions(make_policy: MakePolicy, kind: str) -> None:
    policy = make_policy(kind)
    pairs = play(policy, episodes=7, turns=4)
    check_scores(policy, pairs)
    assert policy.engine.counts["reused"] > 0


def test_sessions_change_nothing_but_the_work(make_policy: MakePolicy) -> None:
    with_sessions, without = make_policy(), make_policy(cache_rows=3)
    kept = play(with_sessions, episodes=9, turns=4)
    fresh = play(without, episodes=9, turns=4, sessions=False)
    assert [s.token_ids for _, s in kept] == [s.token_ids for _, s in fresh]
    assert with_sessions.engine.counts["prefilled"] < without.engine.counts["prefilled"]


def play_in_step(policy: Any, *, episodes: int, turns: int) -> list[tuple[Any, Any]]:
    """Every episode's turn is done before any goes on."""
    rng = np.random.default_rng(1)
    histories: list[tuple[int, ...]] = [()] * episodes
    pairs = []
    for turn in range(turns):
        requests = [
            SampleRequest(
                history + random_ids(rng, 7),
                seed=100 * turn + e,
                session=f"e{e}",
                sampling=Sampling(max_tokens=5),
            )
            for e, history in enumerate(histories)
        ]
        tickets = [policy.submit(request) for request in requests]
        samples = finish(policy)
        pairs += [(request, samples[ticket]) for request, ticket in zip(requests, tickets, strict=True)]
        histories = [request.prompt_ids + sample.token_ids for request, sample in pairs[-episodes:]]
    return pairs


def test_eviction_prefills_again_and_stays_right(make_policy: MakePolicy) -> None:
    roomy, tight = make_policy(), make_policy(cache_rows=4)
    first, second = play_in_step(roomy, episodes=10, turns=4), play_in_step(tight, episodes=10, turns=4)
    assert [s.token_ids for _, s in first] == [s.token_ids for _, s in second]
    assert tight.engine.counts["prefilled"] > roomy.engine.counts["prefilled"]
    assert tight.engine.table.slots.rows == 4
    check_scores(tight, second)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_more_episodes_than_rows_play_on_in_turn(make_policy: MakePolicy, rows: int) -> None:
    roomy, tight = make_policy(), make_policy(cache_rows=rows)
    first, second = play(roomy, episodes=12, turns=4), play(tight, episodes=12, turns=4)
    assert [s.token_ids for _, s in first] == [s.token_ids for _, s in second]
    if rows > 2:  # with so few, an idle moment is enough to let a newcomer in
        assert tight.engine.counts["prefilled"] <= 1.05 * roomy.engine.counts["prefilled"]


def test_a_sample_does_not_depend_on_the_batch(make_policy: MakePolicy) -> None:
    rng = np.random.default_rng(3)
    requests = [
        SampleRequest(random_ids(rng, int(rng.integers(1, 40))), seed=i, sampling=Sampling(max_tokens=12))
        for i in range(20)
    ]
    alone = []
    for request in requests:
        policy = make_policy()
        alone.append(_one(policy, request))
    for order in (range(20), reversed(range(20))):
        policy = make_policy()
        tickets = {policy.submit(requests[i]): i for i in order}
        for ticket, sample in finish(policy).items():
            assert sample.token_ids == alone[tickets[ticket]].token_ids


def _one(policy: Any, request: SampleRequest) -> Any:
    policy.submit(request)
    ((_, sample),) = policy.advance()
    return sample


def test_group_of_one_prompt_is_prefilled_once(make_policy: MakePolicy) -> None:
    policy = make_policy()
    prompt = random_ids(np.random.default_rng(0), 50)
    for i in range(8):
        policy.submit(SampleRequest(prompt, seed=i, session=f"s{i}", sampling=Sampling(max_tokens=5)))
    samples = finish(policy)
    assert policy.engine.counts["prefilled"] == 50 + 7
    assert policy.engine.counts["copied"] == 7 * 49
    assert len({s.token_ids for s in samples.values()}) > 1
    check_scores(policy, [(SampleRequest(prompt, seed=0), s) for s in samples.values()])


def test_fork_copies_its_parents_history_and_leaves_it_alone(make_policy: MakePolicy) -> None:
    policy = make_policy()
    rng = np.random.default_rng(1)
    prompt = random_ids(rng, 40)
    sampling = Sampling(max_tokens=6)
    parent = _one(policy, SampleRequest(prompt, seed=1, session="parent", sampling=sampling))
    before = policy.engine.counts["prefilled"]
    forked = SampleRequest(prompt[:30] + random_ids(rng, 3), seed=2, session="fork", sampling=sampling)
    child = _one(policy, forked)
    assert policy.engine.counts["prefilled"] - before == 3
    more = SampleRequest(
        prompt + parent.token_ids + random_ids(rng, 4), seed=3, session="parent", sampling=sampling
    )
    again = _one(policy, more)
    assert policy.engine.counts["prefilled"] - before == 3 + 4 + 1
    check_scores(policy, [(forked, child), (more, again)])


def test_rewritten_history_keeps_the_common_part(make_policy: MakePolicy) -> None:
    policy = make_policy()
    rng = np.random.default_rng(2)
    prompt = random_ids(rng, 30)
    _one(policy, SampleRequest(prompt, seed=1, session="s"))
    before = policy.engine.counts["prefilled"]
    request = SampleRequest((*prompt[:20], prompt[20] % 60 + 2, *random_ids(rng, 5)), seed=2, session="s")
    sample = _one(policy, request)
    assert policy.engine.counts["prefilled"] - before == 6
    check_scores(policy, [(request, sample)])


def test_two_calls_of_one_session_at_once(make_policy: MakePolicy) -> None:
    policy = make_policy()
    prompt = random_ids(np.random.default_rng(0), 10)
    requests = [SampleRequest(prompt, seed=i, session="s", sampling=Sampling(max_tokens=4)) for i in range(3)]
    tickets = [policy.submit(request) for request in requests]
    samples = finish(policy)
    check_scores(policy, [(requests[i], samples[ticket]) for i, ticket in enumerate(tickets)])


def test_greedy_takes_the_most_probable_token_at_temperature_one(make_policy: MakePolicy) -> None:
    policy = make_policy()
    prompt = random_ids(np.random.default_rng(0), 10)
    sample = _one(policy, SampleRequest(prompt, seed=0, sampling=Sampling(temperature=0, max_tokens=1)))
    every = policy.logprobs([ScoreRequest(prompt, (token,)) for token in range(64)])
    best = int(np.argmax([float(values[0]) for values in every]))
    assert sample.token_ids == (best,)
    assert sample.logprobs[0] == pytest.approx(every[best][0], abs=1e-5)


def test_frequencies_follow_the_distribution_at_the_temperature(make_policy: MakePolicy) -> None:
    policy = make_policy(temperature=0.7)
    prompt = random_ids(np.random.default_rng(0), 5)
    n = 4000
    for i in range(n):
        policy.submit(SampleRequest(prompt, seed=i, sampling=Sampling(temperature=0.7, max_tokens=1)))
    samples = finish(policy)
    counts = np.bincount([s.token_ids[0] for s in samples.values()], minlength=64)
    expected = np.exp([float(v[0]) for v in policy.logprobs([ScoreRequest(prompt, (t,)) for t in range(64)])])
    assert expected.sum() == pytest.approx(1, abs=1e-5)
    likely = expected * n >= 5
    chi2 = ((counts - n * expected)[likely] ** 2 / (n * expected[likely])).sum()
    assert chi2 < likely.sum() + 5 * np.sqrt(2 * likely.sum())


def test_top_k_and_top_p_narrow_the_choice_but_not_the_logprob(make_policy: MakePolicy) -> None:
    policy = make_policy()
    prompt = random_ids(np.random.default_rng(0), 5)
    every = np.array([float(v[0]) for v in policy.logprobs([ScoreRequest(prompt, (t,)) for t in range(64)])])
    order = np.argsort(-every)
    nucleus = order[: int(np.searchsorted(np.exp(every[order]).cumsum(), 0.5)) + 1]
    for sampling, allowed in (
        (Sampling(top_k=3, max_tokens=1), set(order[:3].tolist())),
        (Sampling(top_p=0.5, max_tokens=1), set(nucleus.tolist())),
    ):
        for i in range(300):
            policy.submit(SampleRequest(prompt, seed=i, sampling=sampling))
        samples = finish(policy).values()
        assert {s.token_ids[0] for s in samples} == allowed
        for sample in samples:
            assert sample.logprobs[0] == pytest.approx(every[sample.token_ids[0]], abs=1e-5)


def test_ends_at_eos_max_tokens_or_context(make_policy: MakePolicy) -> None:
    policy = make_policy(context_length=40)
    rng = np.random.default_rng(0)
    for i in range(60):
        policy.submit(SampleRequest(random_ids(rng, 10), seed=i, sampling=Sampling(max_tokens=100)))
    for sample in finish(policy).values():
        assert 1 not in sample.token_ids[:-1]
        assert sample.truncated == (sample.token_ids[-1] != 1)
        assert len(sample.token_ids) == 30 or not sample.truncated
    with pytest.raises(ContextOverflow, match=r"40 tokens .* 40"):
        policy.submit(SampleRequest(random_ids(rng, 40), seed=0))
    with pytest.raises(ValueError, match="non-empty"):
        policy.submit(SampleRequest((), seed=0))
    with pytest.raises(ValueError, match="vocabulary"):
        policy.submit(SampleRequest((64,), seed=0))
    assert policy.advance() == []


def test_ended_sessions_are_forgotten_and_unknown_ones_ignored(make_policy: MakePolicy) -> None:
    policy = make_policy()
    policy.end_session("never")
    _one(policy, SampleRequest((5, 6, 7), seed=0, session="s"))
    assert "s" in policy.engine.table.slots.place
    policy.end_session("s")
    assert "s" not in policy.engine.table.slots.place


def test_schedule_is_a_function_of_the_calls(make_policy: MakePolicy) -> None:
    first, second = make_policy(cache_rows=5), make_policy(cache_rows=5)
    assert play(first, episodes=8, turns=3) == play(second, episodes=8, turns=3)
    assert first.engine.counts == second.engine.counts


def test_long_prompts_are_fed_in_pieces(make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnpoint.policy.local import prefill

    monkeypatch.setattr(prefill, "MASK_ELEMENTS", 500)
    policy = make_policy()
    pairs = play(policy, episodes=5, turns=3)
    check_scores(policy, pairs)


def test_broken_weights_are_an_error_not_a_token(make_policy: MakePolicy) -> None:
    import torch

    for temperature in (0.0, 1.0):
        policy = make_policy(model={"tie_word_embeddings": False})
        with torch.no_grad():
            policy.network.head.weight[5] = float("nan")
        policy.submit(SampleRequest((3, 4), seed=0, sampling=Sampling(temperature=temperature)))
        with pytest.raises(ArithmeticError, match="not finite"):
            policy.advance()


def test_bfloat16_samples_and_scores_alike(make_policy: MakePolicy) -> None:
    policy = make_policy(dtype="bfloat16")
    check_scores(policy, play(policy, episodes=5, turns=3), tolerance=0.1)
