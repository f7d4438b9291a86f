"""A whole run on the corridor game with a scripted policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from turnpoint.methods import Teachers
from turnpoint.prompts import ChatRenderer, Prompter
from turnpoint.rollouts import Scorer, Streams
from turnpoint.testing.harness import random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy
from turnpoint.testing.toy_env import KIND as TOY
from turnpoint.training.run import Run
from turnpoint.training.settings import load_run_config

CONFIG = {
    "env": {"kind": TOY},
    "policy": {"kind": "local", "model": "unused"},
    "teacher": {"kind": "oracle"},
    "method": {"kind": "pivotopd", "group": 4, "recovery_turns": 2},
    "rollout": {"max_response_tokens": 120},
    "train": {"steps": 4, "tasks_per_step": 3, "checkpoint_every": 2},
    "eval": {"every": 2, "tasks": 4},
    "loggers": [],
}


@pytest.fixture
def make_run() -> Callable[..., Run]:
    def make(folder: Path, overrides: list[str] | None = None) -> Run:
        config = load_run_config(CONFIG, overrides)
        suite = config.env.build()
        policy = ScriptedPolicy(random_agent(invalid=0.05))
        prompter, renderer = Prompter(config.prompt, suite.instructions), ChatRenderer(policy.tokenizer)
        run = Run(
            config, folder, suite, prompter, renderer, policy, config.method.build(), Teachers(),
            Streams(config.seed), Scorer(policy, prompter, renderer),
        )  # fmt: skip
        if config.teacher is not None:
            run.teachers.naming = config.teacher.build(suite, run.complete)
        return run

    return make
