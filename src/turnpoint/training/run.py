"""Putting a run together from its config: everything is built and checked before the first step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError
from turnpoint.envs import EnvSuite
from turnpoint.methods import Method, Teachers
from turnpoint.policy import Policy
from turnpoint.prompts import ChatRenderer, Prompter
from turnpoint.records import Message
from turnpoint.rollouts import Rollouts, Scorer, Streams
from turnpoint.rollouts.ray_workers import start_workers
from turnpoint.rollouts.remote import EnvWorkers
from turnpoint.teachers.scoring import Student
from turnpoint.training.settings import DEFAULT_DOMAIN, RunConfig


@dataclass(slots=True)
class Run:
    """A run, ready to step."""

    config: RunConfig
    folder: Path
    suite: EnvSuite
    prompter: Prompter
    renderer: ChatRenderer
    policy: Policy
    method: Method
    teachers: Teachers
    streams: Streams
    scorer: Scorer
    rollouts: Rollouts | None = None
    """Those of the step in progress; the self teacher samples through them."""
    env_workers: EnvWorkers | None = None
    """Processes in which environment copies live, where ``rollout.env_workers`` asks for them."""

    def open_rollouts(self, step: int) -> Rollouts:
        """Rollouts of a training step."""
        self.rollouts = Rollouts(
            self.suite,
            self.policy,
            self.prompter,
            self.renderer,
            self.config.rollout,
            self.streams,
            step=step,
            workers=self.env_workers,
        )
        return self.rollouts

    async def complete(self, messages: Sequence[Message], draw: int = 0, /) -> str:
        """The student's answer to free-standing messages, for teachers that are the student itself.

        ``draw`` names one of several answers to the same messages.
        """
        if self.rollouts is None:
            raise RuntimeError("the self teacher was asked outside a training step")
        key = f"self-teacher{f'#{draw}' if draw else ''}:" + "\n".join(
            message.content for message in messages
        )
        return self.renderer.reply_text((await self.rollouts.complete(messages, key=key)).token_ids)


def build_run(config: RunConfig, folder: Path, *, training: bool = True, learning: bool = True) -> Run:
    """Build every part and check that they fit; raises ``ConfigError`` or ``EnvDataError`` otherwise.

    Without ``training`` the scoring teachers are left out, and with them the check of what the method needs; without
    ``learning`` updates change no weight.
    """
    suite = config.env.build()
    _refuse_early(config, suite, training=training)
    prompter = Prompter(config.prompt, suite.instructions)
    settings = config.policy.prepare(suite, prompter, cache=config.cache, seed=config.seed)
    policy = (settings if learning else settings.without_learning()).build(seed=config.seed)
    renderer = ChatRenderer.from_settings(
        policy.tokenizer, config.prompt, eos_ids=policy.eos_ids, tools=getattr(suite, "tools", None)
    )
    method = config.method.build()
    run = Run(
        config, folder, suite, prompter, renderer, policy, method, Teachers(), Streams(config.seed),
        Scorer(policy, prompter, renderer),
    )  # fmt: skip
    if config.teacher is not None:
        run.teachers.naming = config.teacher.build(suite, run.complete)
    config.method.check_backend(config.policy, policy.capabilities, config.prompt)
    if config.rollout.env_workers == "ray":
        run.env_workers = start_workers(config.env, suite.capabilities, config.rollout)
    if training:
        add_scoring(run)
        config.method.check(suite.capabilities, run.teachers)
    return run


def _refuse_early(config: RunConfig, suite: EnvSuite, *, training: bool) -> None:
    """What cannot work whatever the policy is: said before minutes go into making one."""
    if training:
        if config.train.steps and not config.method.trains:
            raise ConfigError(
                f"method '{config.method.kind}' only prompts the policy, but train.steps is {config.train.steps}; set "
                "train.steps=0, or use turnpoint eval"
            )
        if config.scoring and not config.method.asks_scoring:
            raise ConfigError(
                f"scoring is set, but method '{config.method.kind}' with these settings asks no scoring teacher; "
                "remove scoring, or choose a method that distils from one (opd, sod, stride, fast_opd, tcod, turnopd)"
            )
        for domain, settings in config.scoring.items():
            settings.precheck(_section(config, domain))
    for split, needed in (
        ("train", config.train.tasks_per_step if config.train.steps else 0),
        (config.eval.split, 1),
    ):
        if len(suite.tasks(split)) < needed:
            raise ConfigError(
                f"environment '{suite.name}' has {len(suite.tasks(split))} tasks in split '{split}', "
                f"but at least {needed} are needed; add tasks or lower train.tasks_per_step"
            )


def _section(config: RunConfig, domain: str) -> str:
    """Name of a scoring teacher's settings in messages."""
    return "scoring" if list(config.scoring) == [DEFAULT_DOMAIN] else f"scoring.{domain}"


def add_scoring(run: Run) -> None:
    """Build the scoring teachers of the config; raises ``ConfigError`` if one is missing or unfit."""
    config = run.config
    student = Student(run.policy, run.prompter, run.renderer, run.suite)
    teachers = {}
    for domain, settings in config.scoring.items():
        teachers["" if domain == DEFAULT_DOMAIN else domain] = settings.build(
            student, _section(config, domain)
        )
    run.teachers.scoring = teachers
    if teachers and "" not in teachers:
        for task in run.suite.tasks("train"):
            run.teachers.scoring_for(task)


def kinds(config: RunConfig) -> dict[str, str]:
    """The parts whose kind a run keeps from its first step to its last."""
    return {"method": config.method.kind, "env": config.env.kind, "policy": config.policy.kind}


def new_run_folder(config: RunConfig) -> Path:
    """``out/name``, or ``out/name-2`` and so on: a run never writes into another one's folder."""
    base = config.out / config.name
    folder, number = base, 2
    while folder.exists() and any(folder.iterdir()):
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    return folder


def describe(config: RunConfig) -> dict[str, Any]:
    """The few settings a reader wants to see first."""
    return {
        "method": config.method.kind,
        "env": config.env.kind,
        "policy": config.policy.kind,
        "teacher": config.teacher.kind if config.teacher else None,
        "scoring": ", ".join(sorted({teacher.kind for teacher in config.scoring.values()})) or None,
        "steps": config.train.steps,
        "seed": config.seed,
    }
