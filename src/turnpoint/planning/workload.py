"""What one training step does, in episodes, turns and tokens: from a recipe, from a finished run, or set by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from turnpoint.config import ConfigError, Settings
from turnpoint.training.settings import RunConfig


class Workload(Settings):
    """A step. Lengths and turns are means."""

    tasks: PositiveInt = 16
    """Tasks of a step."""
    group: PositiveInt = 8
    """Episodes for each, or chains."""
    attempts: PositiveFloat = 1.0
    """Attempts of a chain, weighted by the turns that are played anew."""
    turns: PositiveFloat = 15.0
    """Turns of an episode."""
    max_turns: PositiveInt = 30
    """Turn budget: the last episodes of a step use it up."""
    opening_tokens: PositiveFloat = 400.0
    """Instructions, task and first observation."""
    observation_tokens: PositiveFloat = 100.0
    """What a turn adds to the prompt beside the response."""
    response_tokens: PositiveFloat = 100.0
    """Tokens sampled in a turn."""
    longest_response: PositiveFloat | None = None
    """The longest response of a step; the others have to wait for it once. None = all are alike."""
    restart_turns: NonNegativeFloat = 0.0
    """Turns that an episode takes over from an earlier one: context of its own turns, repeated in the environment."""
    history: PositiveInt | None = None
    """Turns that a prompt shows; None = one growing conversation, whose prefix is cached and trained once."""
    max_prompt_tokens: PositiveInt | None = None
    """Longest prompt."""
    forward_passes: NonNegativeFloat = 0.0
    """Passes without a gradient over everything that is trained: old log-probs, reference, self-teacher."""
    recoveries: NonNegativeFloat = 0.0
    """Recovery branches of a step."""
    recovery_turns: NonNegativeFloat = 0.0
    """Turns of each, K."""
    replay_turns: NonNegativeFloat = 0.0
    """Environment turns repeated to bring a branch's state back; 0 with snapshots."""
    teacher_calls: NonNegativeFloat = 0.0
    """Calls of a naming teacher."""
    teacher_seconds: NonNegativeFloat = 10.0
    """Seconds of one."""
    teacher_concurrency: PositiveInt = 16
    """Calls at a time."""
    self_teacher: bool = False
    """The naming teacher is the student: its calls are sampled here."""
    teacher_reply_tokens: NonNegativeFloat = 300.0
    """Tokens of its reply."""
    scoring: bool = False
    """A scoring teacher reads everything that is sampled."""
    scoring_per_turn: bool = False
    """It is asked after every turn and reads the whole prompt anew (early stop; servers without a prefix cache)."""
    env_seconds: NonNegativeFloat = 0.05
    """One environment call."""
    reset_seconds: NonNegativeFloat = 0.2
    """One reset of the environment."""
    concurrent: PositiveInt = 256
    """Episodes open at a time."""

    @property
    def episodes(self) -> float:
        """Episodes of a step."""
        return self.tasks * self.group * self.attempts

    def alive(self, turn: int) -> float:
        """Share of episodes that play turn ``turn`` (0-based): 1 - ((turn + 1/2) / budget)^k, of mean ``turns``."""
        if self.turns >= self.max_turns:
            return 1.0 if turn < self.max_turns else 0.0
        k = self.turns / (self.max_turns - self.turns)
        return float(max(0.0, 1.0 - ((turn + 0.5) / self.max_turns) ** k))

    def prompt(self, turn: float) -> float:
        """Tokens of the prompt of turn ``turn`` of those that are played anew."""
        turn += self.restart_turns
        shown = turn if self.history is None else min(turn, float(self.history))
        length = self.opening_tokens + shown * (self.observation_tokens + self.response_tokens)
        return length if self.max_prompt_tokens is None else min(length, float(self.max_prompt_tokens))

    def fresh(self, turn: int) -> float:
        """Prompt tokens of a turn that no cache holds: the new observation, or all behind the instructions."""
        if turn == 0:
            return self.prompt(0)
        if self.history is None:
            return self.observation_tokens
        return max(self.prompt(turn) - self.opening_tokens + self.observation_tokens, self.observation_tokens)

    @property
    def sampled_tokens(self) -> float:
        """Tokens sampled in a step, recoveries included."""
        return (self.episodes * self.turns + self.recoveries * self.recovery_turns) * self.response_tokens

    @property
    def episode_tokens(self) -> float:
        """Tokens that an update computes for one episode."""
        if self.history is None:
            return self.prompt(0) + self.turns * (self.observation_tokens + self.response_tokens)
        whole = range(math.ceil(self.turns))
        mean = sum(self.prompt(turn) for turn in whole) / len(whole) + self.response_tokens
        return self.turns * mean

    @property
    def trained_tokens(self) -> float:
        """Tokens that an update computes, prompts included."""
        branch = self.recovery_turns * (self.prompt(self.turns / 2) + self.response_tokens)
        return self.episodes * self.episode_tokens + self.recoveries * branch

    @property
    def context(self) -> float:
        """Tokens that a token attends to, on average."""
        return self.episode_tokens / 2 if self.history is None else self.prompt(self.turns / 2) / 2


def workload_of(config: RunConfig, max_turns: int | None = None) -> Workload:
    """What a recipe's step does, as far as its settings say; lengths of prompts and episodes are assumptions.

    ``max_turns``: the environment's own budget.
    """
    method: Any = config.method
    budget = config.rollout.max_turns or max_turns or int(getattr(config.env, "max_turns", 30) or 30)
    group, attempts = int(getattr(method, "group", 1)), int(getattr(method, "attempts", 1))
    tasks, history = config.train.tasks_per_step, config.prompt.history
    turns = 0.7 * budget
    early = _early_stop(method)
    if early is not None:
        turns = min(turns, early)
        budget = min(budget, math.ceil(2 * turns))  # few go on for long after the stop of most
    recovery_turns = float(getattr(method, "recovery_turns", 0))
    self_terms = sum("self" in term or "preventive" in term or "lesson" in term for term in method.terms)
    passes = float(config.train.recompute_old_logprobs) + float(_kl(config) > 0) + min(self_terms, 2)
    cap = float(getattr(method, "max_recoveries", 0))
    pivotal = 0.5 * tasks * group  # half of the episodes have a turn to recover from
    recoveries = min(cap, pivotal) if recovery_turns else 0.0
    return Workload(
        tasks=tasks,
        group=group,
        attempts=1.0 + 0.5 * (attempts - 1),
        turns=turns,
        max_turns=budget,
        response_tokens=min(config.rollout.max_response_tokens, 150.0),
        history=None if history == "chat" else max(1, int(history)),
        max_prompt_tokens=config.prompt.max_prompt_tokens,
        forward_passes=passes,
        recoveries=recoveries,
        recovery_turns=recovery_turns,
        replay_turns=0.0 if config.env.capabilities.snapshots else turns / 2,
        teacher_calls=_naming(config, tasks * group, recoveries * recovery_turns),
        teacher_concurrency=int(getattr(config.teacher, "concurrency", 16)),
        self_teacher=config.teacher is not None and config.teacher.kind == "self",
        scoring=bool(config.scoring) or bool(method.asks_scoring),
        scoring_per_turn=early is not None,
        concurrent=config.rollout.concurrent,
    )


def _naming(config: RunConfig, reports: float, recovery_turns: float) -> float:
    """Calls of a naming teacher that is a model: one for each episode, solved or not, and for each recovery turn."""
    method: Any = config.method
    if config.teacher is None or config.teacher.kind == "oracle" or not method.asks_naming:
        return 0.0
    votes = int(getattr(getattr(method, "consistency", None), "samples", 1))
    return votes * (reports + recovery_turns)


def _kl(config: RunConfig) -> float:
    return float(getattr(getattr(config.policy, "loss", None), "kl", 0.0))


def _early_stop(method: Any) -> float | None:
    """Turns after which a teacher's threshold stops an episode, at the 0.7 nats that a turn costs."""
    stop = getattr(method, "stop", None)
    threshold = getattr(stop, "lambda_", getattr(stop, "threshold", None)) if stop is not None else None
    if not isinstance(threshold, int | float) or not math.isfinite(threshold):
        return None
    return max(1.0, math.ceil(abs(threshold) / 0.7))


def measured(folder: Path) -> dict[str, float]:
    """Statistics of a finished run's steps, for ``Workload``: turns, response lengths, recoveries, teacher calls.

    Raises ``ConfigError`` where the folder has no training steps.
    """
    path = folder / "metrics.jsonl"
    if not path.is_file():
        raise ConfigError(
            f"'{folder}' has no metrics.jsonl, so it is no run folder; give the folder that train printed"
        )
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [line for line in lines if line.get("kind") == "train"]
    if not steps:
        raise ConfigError(
            f"'{folder}' has no training step yet; run at least one, or set the statistics with --set"
        )

    def mean(name: str) -> float:
        return sum(float(step.get(name) or 0.0) for step in steps) / len(steps)

    found = {
        "turns": mean("turns"),
        "response_tokens": mean("sampled_tokens") / max(1.0, mean("interactions")),
    }
    # Those that a cache answered there must be bought elsewhere.
    calls = sum(mean(f"teacher/{name}") for name in ("requests", "cached_requests"))
    return found | ({"teacher_calls": calls} if calls else {})
