"""Faults planted on purpose, each found by its check, in words that say what to change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.methods import Teachers
from turnpoint.methods.opd import OPD, OPDSettings
from turnpoint.methods.parts import act_row
from turnpoint.preflight import Doubt, Fault, environment, logprobs, prompts, scoring, signals, tokens, update
from turnpoint.preflight.bench import Bench
from turnpoint.preflight.stand_ins import Remembering
from turnpoint.prompts import ChatRenderer
from turnpoint.records import Episode, Group, Row, Step, Turn
from turnpoint.teachers.protocol import TurnScore
from turnpoint.testing import FakeEndpoint, Request, Scripted, ToySettings, ToySuite
from turnpoint.testing.toy_env import KIND as TOY
from turnpoint.testing.toy_env import ToyEnv

from .conftest import write_model

MakeBench = Callable[..., Bench]


def run(proof: Callable[[Bench], Awaitable[str]], bench: Bench) -> str:
    return asyncio.run(proof(bench))  # type: ignore[arg-type]


@pytest.fixture
def bench(bench_of: MakeBench) -> Bench:
    return bench_of()


# ---- teachers ---------------------------------------------------------------------------------


class Shifted(Remembering):
    """Scores one position off, in either direction."""

    by: ClassVar[int] = 1

    async def score(self, episode: Episode, turns: Sequence[Turn], first: int = 0) -> list[TurnScore]:
        answers = await self.teacher.score(episode, turns, first)
        return [replace(a, logprobs=np.roll(a.logprobs, self.by)) for a in answers]


class ShiftedBack(Shifted):
    by = -1


@pytest.mark.parametrize("wrong", [Shifted, ShiftedBack])
def test_shifted_teacher_scores(bench: Bench, wrong: type[Shifted]) -> None:
    assert "own score moved by" in run(scoring.positions, bench)
    scoring_ = bench.run.teachers.scoring
    bench.run.teachers.scoring = {"": Remembering(wrong(scoring_[""].teacher))}
    with pytest.raises(Fault, match="do not lie where their tokens lie"):
        run(scoring.positions, bench)


def test_a_teacher_with_another_tokenizer(bench_of: MakeBench, tmp_path: Path) -> None:
    folder = write_model(tmp_path, 2, reverse=True)
    bench = bench_of(step=False, scoring={"kind": "local", "model": str(folder), "device": "cpu"})
    with pytest.raises(ConfigError, match=r"another tokenizer.*use a teacher of the same model family"):
        run(scoring.fit, bench)


def test_an_endpoint_without_prompt_logprobs(bench_of: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def chat_only(request: Request) -> Scripted:
        return Scripted(body={"choices": [{"index": 0, "text": "yes", "finish_reason": "length"}]})

    with FakeEndpoint(chat_only) as endpoint:
        settings = {"kind": "http", "base_url": endpoint.url, "model": "fake-model", "backoff": 0.01}
        bench = bench_of(step=False, scoring=settings)
        run(scoring.fit, bench)
        with pytest.raises(ConfigError, match=r"no log-probs of prompt tokens.*prompt_logprobs"):
            run(scoring.answers, bench)


def test_an_endpoint_with_other_weights_than_those_of_its_folder(
    bench_of: MakeBench, student: Path, teacher: Path
) -> None:
    bench = bench_of()
    assert "a fresh scorer over" in run(scoring.fresh_scorer, bench)
    changed = bench.run.config.scoring["default"].model_copy(update={"model": student})
    bench.run.config = bench.run.config.model_copy(update={"scoring": {"default": changed}})
    with pytest.raises(Fault, match="serve the very model"):
        run(scoring.fresh_scorer, bench)


def test_a_scoring_teacher_that_nobody_asks(bench_of: MakeBench) -> None:
    bench = bench_of(step=False, method={"kind": "grpo", "group": 2})
    with pytest.raises(Fault, match="remove scoring"):
        run(scoring.fit, bench)


class Deaf(OPD):
    """Asks the teacher and trains something else."""

    async def credit(self, groups: Sequence[Group], scorer: Any, teachers: Teachers) -> list[Row]:
        await super().credit(groups, scorer, teachers)
        pairs = [(e, turn) for group in groups for e in group.episodes for turn in e.new_turns]
        return [act_row(e, turn, np.ones(len(turn.response_ids))) for e, turn in pairs]


class DeafSettings(OPDSettings):
    def build(self) -> Deaf:
        return Deaf(self)


def test_a_signal_that_reaches_nothing(bench_of: MakeBench) -> None:
    bench = bench_of()
    assert "moved the advantages of" in run(signals.scoring, bench)
    assert "largest advantage is" in run(scoring.zero, bench)
    bench.run.config = bench.run.config.model_copy(update={"method": DeafSettings(group=2)})
    bench.run.method = bench.run.config.method.build()
    run(tokens.tiny_step, bench)
    with pytest.raises(Fault, match=r"reach no token.*mend credit\(\)"):
        run(signals.scoring, bench)
    with pytest.raises(Fault, match="largest advantage is 1, not 0"):
        run(scoring.zero, bench)


# ---- masks and tokens -------------------------------------------------------------------------


def test_a_masked_end_of_turn(bench: Bench) -> None:
    assert "it is trained" in run(tokens.ends_trained, bench)
    rows = bench.need_step().rows
    ended = next(row for row in rows if row.response_ids[-1] == 1)
    bench.run.policy.tokenizer.pad_token = "<unk>"
    ended.mask = np.arange(len(ended.response_ids)) < len(ended.response_ids) - 1
    with pytest.raises(Fault, match=r"left out of the loss by its mask.*leave row.mask None"):
        run(tokens.ends_trained, bench)


def test_a_mask_from_pad_ids_where_pad_is_eos(bench: Bench) -> None:
    assert "pad is EOS, and masks come from lengths" in run(prompts.end_of_turn, bench)
    pad = bench.run.policy.tokenizer.pad_token_id
    for row in bench.need_step().rows:
        row.mask = np.array([token != pad for token in row.response_ids])
    with pytest.raises(Fault, match="pad = EOS: a mask made from token ids"):
        run(tokens.ends_trained, bench)


def test_an_update_that_masks_pad_ids(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "gives a gradient" in run(update.end_learnt, bench)
    policy = bench.run.policy
    pad, real = policy.tokenizer.pad_token_id, policy.update

    def masking(rows: Sequence[Row]) -> dict[str, float]:
        return real([replace(r, mask=np.array([t != pad for t in r.response_ids])) for r in rows])

    monkeypatch.setattr(policy, "update", masking)
    with pytest.raises(Fault, match="pad is EOS, and the update masks by token ids"):
        run(update.end_learnt, bench)


def test_rows_of_tokens_that_were_not_sampled(bench: Bench) -> None:
    assert "all sampled where they are trained" in run(tokens.only_sampled, bench)
    row = bench.need_step().rows[0]
    row.response_ids = (*row.response_ids[:-1], row.response_ids[-1] + 1)
    with pytest.raises(Fault, match="were not sampled in that turn"):
        run(tokens.only_sampled, bench)


def test_a_lost_turn(bench: Bench) -> None:
    assert "all in rows" in run(tokens.conserved, bench)
    bench.need_step().rows.pop()
    with pytest.raises(Fault, match="lost or repeated turns"):
        run(tokens.conserved, bench)


class Stripping(ChatRenderer):
    """Drops the reasoning of sampled replies from later prompts, whatever was sampled."""

    def prompt_ids(self, messages: Any, tools: Any = None) -> tuple[int, ...]:
        end = self.tokenizer.convert_tokens_to_ids("</think>")
        kept = []
        for message in messages:
            ids = message.token_ids
            if ids is not None:
                ids = ids[ids.index(end) + 1 :] if end in ids else ids[1:] or ids
            kept.append(replace(message, token_ids=ids))
        return super().prompt_ids(kept, tools)


def test_stripped_thinking_with_stale_ids(bench: Bench) -> None:
    assert "an episode is one sequence" in run(prompts.rows, bench)
    assert "0 % of later turns" in run(tokens.same_history, bench)
    bench.run.renderer = Stripping(bench.run.policy.tokenizer)
    with pytest.raises(Fault, match=r"stale or rewritten tokens.*prompt\.earlier_replies=template"):
        run(prompts.rows, bench)
    run(tokens.tiny_step, bench)
    with pytest.raises(Fault, match=r"its ids are stale.*prompt\.earlier_replies=template"):
        run(tokens.same_history, bench)


def test_replies_told_by_the_template_are_no_fault(bench_of: MakeBench, config_of: Any) -> None:
    prompt = config_of()["prompt"] | {"earlier_replies": "template"}
    bench = bench_of(prompt=prompt)
    run(prompts.growing, bench)
    run(prompts.rows, bench)
    assert "of later turns begin a row" in run(tokens.same_history, bench)


def test_an_end_of_turn_at_which_the_sampler_does_not_stop(bench: Bench) -> None:
    bench.run.policy._eos_ids = frozenset({0})
    with pytest.raises(Fault, match=r"add 1 to eos_token_id in the model's generation_config\.json"):
        run(prompts.end_of_turn, bench)


# ---- log-probs --------------------------------------------------------------------------------


def test_sampling_from_a_cut_distribution(bench: Bench) -> None:
    assert "largest difference" in run(logprobs.sampler, bench)
    assert "gives 0" in run(logprobs.student_teacher, bench)
    rollout = bench.run.config.rollout.model_copy(update={"top_p": 0.9})
    bench.run.config = bench.run.config.model_copy(update={"rollout": rollout})
    with pytest.raises(Fault, match=r"rollout\.top_p=0\.9.*set top_p=1"):
        run(logprobs.cutting, bench)


def test_a_sampler_that_reports_other_log_probs(bench: Bench) -> None:
    bench.sampler_gaps = [gap + 0.01 for gap in bench.sampler_gaps]
    with pytest.raises(Fault, match=r"train\.recompute_old_logprobs=true"):
        run(logprobs.sampler, bench)


# ---- environment ------------------------------------------------------------------------------


class Slippery(ToyEnv):
    """Claims to be deterministic, and slips."""

    def __init__(self, settings: ToySettings, copy: int = 0) -> None:
        super().__init__(settings, copy)
        self._slips = random.Random(copy)

    def step(self, action: str) -> Step:
        return super().step("dance" if self._slips.random() < 0.5 else action)


def test_an_environment_that_is_not_deterministic(bench: Bench) -> None:
    assert "proofs hold" in run(environment.contract, bench)
    bench.run.suite = ToySuite(ToySettings(rooms=3), Slippery)
    with pytest.raises(Fault, match=r"breaks its contract: .*turnpoint envs check"):
        run(environment.contract, bench)


class Flat(ToyEnv):
    """Rewards nothing."""

    def step(self, action: str) -> Step:
        return replace(super().step(action), reward=0.0)


def test_a_constant_reward(bench_of: MakeBench) -> None:
    bench = bench_of(method={"kind": "grpo", "group": 2}, scoring={})
    with pytest.raises(Doubt, match=r"have reward 0: the outcome parts of advantages are 0.*easier tasks"):
        run(signals.reward, bench)
    with pytest.raises(Doubt, match="would train nothing"):
        run(signals.advantages, bench)
    bench.run.suite = ToySuite(ToySettings(rooms=3), Flat)
    with pytest.raises(Fault, match=r"oracle earns no other.*'grpo' trains nothing; mend the reward of"):
        run(signals.reward, bench)
    bench.need_step().episodes[0].turns[0].reward = 1.0
    assert "rewards 0 to 1" in run(signals.reward, bench)


def test_a_constant_reward_where_no_oracle_can_tell(bench_of: MakeBench) -> None:
    env = {"kind": TOY, "rooms": 3, "max_turns": 4, "oracle": False}
    with pytest.raises(Fault, match=r"no oracle can tell.*trains nothing"):
        run(signals.reward, bench_of(method={"kind": "grpo", "group": 2}, scoring={}, env=env))
    with pytest.raises(Doubt, match="trains on its teacher's scores all the same"):
        run(signals.reward, bench_of(env=env))
