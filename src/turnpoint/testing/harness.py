"""Whole rollouts without a model: a scripted agent on a toy environment."""

from __future__ import annotations

import random
import re

from turnpoint.envs import EnvSuite
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.rollouts import Rollouts, RolloutSettings, Scorer, Streams
from turnpoint.rollouts.remote import EnvWorkers
from turnpoint.testing.scripted_policy import Script, ScriptedPolicy

_HINTED = re.compile(r"(?:is the action|Hint): ([^\n]+)")


def random_agent(*, obedient: bool = True, invalid: float = 0.0) -> Script:
    """A script that picks an admissible action from the call's seed; ``obedient``: does what a hint names."""

    def script(prompt: str, seed: int) -> str:
        rng = random.Random(seed)
        last = prompt.rsplit("[user]", 1)[-1]
        hinted = _HINTED.search(last)
        if obedient and hinted:
            return f"<action>{hinted.group(1).strip()}</action>"
        if rng.random() < invalid:
            return "I do not know."
        listed = last.split("Admissible actions:\n", 1)[-1].split("\n")
        return f"<action>{rng.choice([line for line in listed if line[:1].islower()])}</action>"

    return script


def make_rollouts(
    suite: EnvSuite,
    policy: ScriptedPolicy,
    *,
    prompt: PromptSettings | None = None,
    rollout: RolloutSettings | None = None,
    seed: int = 0,
    measure: bool = False,
    workers: EnvWorkers | None = None,
) -> tuple[Rollouts, Scorer]:
    """Rollouts and scorer over a scripted policy."""
    prompter = Prompter(prompt or PromptSettings(), suite.instructions)
    renderer = ChatRenderer(policy.tokenizer)
    settings = rollout or RolloutSettings(max_response_tokens=200)
    rollouts = Rollouts(
        suite, policy, prompter, renderer, settings, Streams(seed), measure=measure, workers=workers
    )
    return rollouts, Scorer(policy, prompter, renderer)
