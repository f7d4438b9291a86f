"""``turnpoint eval``: play held-out tasks with a recipe's model or a run's checkpoint."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from turnpoint.cli.common import config_path, console, fail, print_json, user_faults
from turnpoint.cli.targets import refuse_taken

if TYPE_CHECKING:
    from turnpoint.training.evaluate import Evaluation
    from turnpoint.training.scripted import ScriptedAgent


class Agent(StrEnum):
    """Who can play."""

    MODEL = "model"
    RANDOM = "random"
    ORACLE = "oracle"
    OBSERVER = "observer"

    @property
    def scripted(self) -> ScriptedAgent:
        """The same as a scripted agent."""
        names: dict[Agent, ScriptedAgent] = {
            Agent.RANDOM: "random",
            Agent.ORACLE: "oracle",
            Agent.OBSERVER: "observer",
        }
        return names[self]


def evaluate(
    target: Annotated[
        str,
        typer.Argument(
            help="A run folder (its newest checkpoint), a recipe or, with --agent, an environment."
        ),
    ],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as section.setting=value.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A checkpoint folder of the run.")] = None,
    agent: Annotated[
        Agent, typer.Option(help="Who plays: the model, or a scripted agent that needs none.")
    ] = Agent.MODEL,
    episodes: Annotated[Path | None, typer.Option(help="Write the episodes to this new JSONL file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Success on held-out tasks with 95 % intervals, overall and by task type.

    Example: turnpoint eval runs/quickstart eval.tasks=200 --json
    Example: turnpoint eval webshop env.catalogue=data/webshop/webshop.sqlite --agent random
    """
    from turnpoint.records import EpisodeWriter
    from turnpoint.training.view import success_text

    with user_faults():
        refuse_taken(episodes, "--episodes")
        if agent is Agent.MODEL:
            result = _with_model(target, overrides or [], checkpoint)
        else:
            if checkpoint is not None:
                fail("--checkpoint names weights, and a scripted agent has none; leave one of them out")
            result = _scripted(target, overrides or [], agent)
        if episodes is not None:
            with EpisodeWriter(episodes) as writer:
                for episode in result.episodes:
                    writer.write(episode)
        if result.summary is None:
            fail(result.without_outcome())
    if as_json:
        print_json(result.summary.as_dict())
        return
    from turnpoint.training.outcome import summary_lines

    typer.echo(success_text(result.summary))
    for line in summary_lines(result.summary.as_dict()):
        typer.echo(line)


def _with_model(target: str, overrides: list[str], checkpoint: Path | None) -> Evaluation:
    from turnpoint.training.evaluate import evaluate as play
    from turnpoint.training.loop import Trainer
    from turnpoint.training.run import build_run
    from turnpoint.training.settings import load_run_config
    from turnpoint.training.view import View

    folder = Path(target)
    is_run = (folder / "config.yaml").is_file()
    config = load_run_config(folder / "config.yaml" if is_run else config_path(target), overrides)
    run = build_run(config, folder, training=False)
    if is_run or checkpoint is not None:
        step = Trainer(run, View()).resume(checkpoint)
        console().print(f"checkpoint of step {step}", markup=False)
    return asyncio.run(play(run, config.eval))


def _scripted(target: str, overrides: list[str], agent: Agent) -> Evaluation:
    from turnpoint.config import ConfigError, explain
    from turnpoint.envs import env_registry
    from turnpoint.training.scripted import evaluate_scripted
    from turnpoint.training.settings import ScriptedConfig

    data = _sections(target, overrides, env_registry.names())
    try:
        config = ScriptedConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(explain(error)) from error
    return evaluate_scripted(config.env.build(), agent.scripted, config.eval, seed=config.seed)


def _sections(target: str, overrides: list[str], environments: list[str]) -> dict[str, Any]:
    """The sections of a recipe, a run or an environment that a scripted agent needs."""
    from turnpoint.config import apply_overrides, load_yaml

    if target in environments or ":" in target:
        return apply_overrides({"env": {"kind": target}}, overrides)
    saved = Path(target) / "config.yaml"
    data = load_yaml(saved if saved.is_file() else config_path(target))
    return {k: v for k, v in apply_overrides(data, overrides).items() if k in ("env", "eval", "seed")}
