from __future__ import annotations

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.credit import divergence
from turnpoint.methods.grpo import GRPOSettings
from turnpoint.methods.opsd import DivergenceSettings, OPSDSettings
from turnpoint.policy import PolicyCapabilities
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.prompts import PromptSettings
from turnpoint.records import DivergenceSpec


@pytest.mark.parametrize("outcome", [0.0, 0.7])
def test_sampled_signal_is_the_log_ratio_of_the_privileged_student(easy, outcome) -> None:
    settings = OPSDSettings(group=8, coef=0.4, outcome=outcome)
    played, plain = easy(settings), easy(GRPOSettings(group=8))
    taught = 0
    for row, base in zip(played.rows, plain.rows, strict=True):
        group = next(g for g in played.groups if any(e.id == row.episode for e in g.episodes))
        episode = next(e for e in group.episodes if e.id == row.episode)
        turn = episode.turns[row.turn]
        expected = outcome * base.advantages
        solved = [e for e in group.episodes if e.success and e is not episode]
        if solved:
            taught += 1
            best = min(solved, key=lambda e: len(e.turns))
            actions = ", ".join(t.executed for t in best.turns if t.valid and t.effective)
            request = played.scorer.with_lesson(turn, f"these actions solved it: {actions}.")
            expected = expected + 0.4 * (played.policy.logprobs([request])[0] - row.old_logprobs)
        np.testing.assert_allclose(row.advantages, expected, atol=1e-12)
        assert row.divergence is None
    assert taught > 0
    assert sum(len(row.response_ids) for row in played.rows) == played.sampled


def test_divergence_rows_say_where_the_teacher_reads(easy, scripted_teacher) -> None:
    settings = OPSDSettings(
        group=4,
        privileged="gold",
        coef=0.3,
        divergence=DivergenceSettings(direction="forward", top_k=20),
        outcome=1.0,
    )
    played = easy(settings, teacher=scripted_teacher())
    plain = easy(GRPOSettings(group=4))
    turns = {(e.id, t.index): t for g in played.groups for e in g.episodes for t in e.turns}
    taught = 0
    for row, base in zip(played.rows, plain.rows, strict=True):
        turn = turns[row.episode, row.turn]
        assert row.advantages.tobytes() == base.advantages.tobytes()
        assert row.prompt_ids == turn.prompt_ids
        done = turn.valid and turn.executed == turn.observation.admissible[-1]
        if row.turn not in (1, 3) or done:
            assert row.divergence is None
            continue
        taught += 1
        hint = played.scorer.prompter.hint_text(turn.observation.admissible[-1])
        assert row.divergence == DivergenceSpec("forward", 0.5, 20, 0.3)
        assert row.teacher_prompt_ids == played.scorer.hinted(turn, hint).prompt_ids
        assert hint in played.policy.tokenizer.decode(row.teacher_prompt_ids)
        assert hint not in played.policy.tokenizer.decode(row.prompt_ids)
    assert taught
    counted = sum(len(r.response_ids) for r in played.rows if r.divergence is not None)
    assert played.tally["teacher_tokens"] == counted


def test_no_privileged_text_is_said_aloud(easy, scripted_teacher) -> None:
    nobody = scripted_teacher(turns=lambda episode: [])
    for shape in (None, DivergenceSettings()):
        played = easy(OPSDSettings(group=2, privileged="gold", divergence=shape), teacher=nobody)
        assert played.tally["signal_empty/teacher"] == 1
        assert not any(row.advantages.any() or row.divergence for row in played.rows)


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        (DivergenceSettings(), 0.046201),
        (DivergenceSettings(direction="forward"), 0.183787),
        (DivergenceSettings(direction="reverse"), 0.192042),
    ],
)
def test_worked_numbers_of_the_named_directions(settings, value) -> None:
    got = divergence(np.log([0.7, 0.3]), np.log([0.4, 0.6]), direction=settings.direction, beta=settings.beta)
    assert float(got) == pytest.approx(value, abs=1e-6)


def test_backends_without_distributions_are_refused() -> None:
    policy = LocalPolicySettings(model="x")
    unable = PolicyCapabilities(reference=False, sessions=False, full_distribution=False)
    able = PolicyCapabilities(reference=False, sessions=False, full_distribution=True)
    whole = OPSDSettings(divergence=DivergenceSettings())
    with pytest.raises(ConfigError, match=r"method\.divergence to null"):
        whole.check_backend(policy, unable, PromptSettings())
    whole.check_backend(policy, able, PromptSettings())
    OPSDSettings().check_backend(policy, unable, PromptSettings())


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="set outcome above 0"):
        OPSDSettings(invalid_penalty=0.1)
    with pytest.raises(ValueError, match="direction: jsd"):
        DivergenceSettings(direction="reverse", beta=0.2)
    with pytest.raises(ValueError, match="privileged is scoring"):
        OPSDSettings(privileged="scoring", divergence=DivergenceSettings())


def test_a_whole_update_with_a_real_model_moves_towards_the_teacher(tmp_path) -> None:
    """From episodes to weights: rows of this method, trained by the local policy, shrink the divergence."""
    pytest.importorskip("torch")
    import asyncio

    from turnpoint.methods import Teachers
    from turnpoint.policy.local import LocalPolicy
    from turnpoint.policy.small.build import build_small_agent
    from turnpoint.prompts import Prompter
    from turnpoint.rollouts import RolloutSettings
    from turnpoint.testing import toy_suite
    from turnpoint.testing.harness import make_rollouts

    suite, prompt = toy_suite(rooms=2, max_turns=4), PromptSettings(compact=True, history=1)
    texts = [*suite.vocabulary_texts(), *Prompter(prompt).vocabulary_texts()]
    folder = build_small_agent(texts, width=32, ffn=48, seed=1, context_length=512, folder=tmp_path / "agent")
    policy = LocalPolicy(LocalPolicySettings(model=str(folder), device="cpu", optimizer={"lr": 3e-3}), seed=0)
    rollouts, scorer = make_rollouts(
        suite, policy, prompt=prompt, rollout=RolloutSettings(max_response_tokens=6)
    )
    settings = OPSDSettings(group=2, privileged="feedback", divergence=DivergenceSettings(top_k=10))
    method = settings.build()

    async def collect():
        groups = await method.collect(suite.tasks("train")[:2], rollouts, Teachers())
        return await method.credit(groups, scorer, Teachers())

    rows = asyncio.run(collect())
    assert all(row.divergence is not None for row in rows)
    values = [policy.update(rows)["divergence"] for _ in range(8)]
    assert values[-1] < 0.7 * values[0]
