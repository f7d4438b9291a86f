"""``turnpoint sft``: supervised training of any model on any episode file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnpoint.cli.common import console, user_faults
from turnpoint.cli.targets import show_notes
from turnpoint.records import Episode

if TYPE_CHECKING:
    from turnpoint.exchange import ExchangeReport


def sft(
    model: Annotated[
        str,
        typer.Argument(help="Folder of a Hugging Face model, a .gguf file, or package:NAME that ships one."),
    ],
    episodes: Annotated[
        list[Path], typer.Argument(help="Files of episodes, or of other tools' trajectories.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the trained model; must not exist yet.")],
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Settings of sft, policy or prompt, as sft.epochs=2, policy.optimizer.lr=1e-5, policy.lora.rank=16 or "
            "prompt.template_arguments.enable_thinking=false.",
        ),
    ] = None,
    solved_only: Annotated[bool, typer.Option(help="Train on successful episodes only.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of batches and of the held-out choice.")] = 0,
) -> None:
    """Train a model on the turns of recorded episodes, rendered by its own chat template.

    Example: turnpoint sft models/agent runs/a/episodes/step_000001.jsonl --out models/agent-sft --set sft.epochs=2
    """
    from pydantic import ValidationError

    from turnpoint.config import ConfigError, apply_overrides, explain

    with user_faults():
        if out.exists():
            raise ConfigError(f"{out} exists already; name a new folder with --out")
        from turnpoint.exchange import ExchangeReport
        from turnpoint.policy.settings import LocalPolicySettings
        from turnpoint.prompts import ChatRenderer, PromptSettings
        from turnpoint.training.sft import SftProgress, SftSettings, run_sft

        # A model that can talk needs no lesson in prompts and tool results: only what the agent said is trained.
        start = {"sft": {"observation_weight": 0.0}, "policy": {"optimizer": {"lr": 1e-5}}, "prompt": {}}
        data = apply_overrides(start, overrides or [])
        try:
            settings = SftSettings.model_validate(data.pop("sft"))
            prompt = PromptSettings.model_validate(data.pop("prompt"))
            policy = LocalPolicySettings.model_validate({**data.pop("policy"), "model": model}).build(
                seed=seed
            )
        except ValidationError as error:
            raise ConfigError(explain(error)) from error
        if data:
            raise ConfigError(f"unknown section '{next(iter(data))}'; use sft, policy or prompt")
        screen = console()

        def show(progress: SftProgress) -> None:
            if progress.step == progress.steps or progress.step % max(1, progress.steps // 20) == 0:
                screen.print(f"step {progress.step}/{progress.steps}  loss {progress.loss:.4f}", markup=False)

        imported = ExchangeReport()
        report = run_sft(
            policy,
            _read(episodes, solved_only, imported),
            ChatRenderer.from_settings(policy.tokenizer, prompt, eos_ids=policy.eos_ids),
            settings,
            seed=seed,
            progress=show,
        )
        policy.save(out)
    for name, value in {"episodes": report.episodes, "steps": report.steps, "tokens": report.tokens}.items():
        typer.echo(f"{name}: {value}")
    for name, count in report.counts.items():
        typer.echo(f"turns {name}: {count}")
    if report.held_out_before is not None and report.held_out_after is not None:
        typer.echo(f"held-out loss: {report.held_out_before:.4f} before, {report.held_out_after:.4f} after")
    show_notes(imported.notes())
    typer.echo(str(out))


def _read(paths: list[Path], solved_only: bool, imported: ExchangeReport) -> Iterator[Episode]:
    """Episodes of files of any known format; native ones are read strictly."""
    from turnpoint.config import ConfigError
    from turnpoint.exchange import detect_format, read_foreign
    from turnpoint.records import EpisodeReader

    for path in paths:
        if not path.is_file():
            raise ConfigError(f"there is no episode file {path}")
        foreign = detect_format(path).name != "turnpoint"
        for episode in read_foreign(path, imported) if foreign else EpisodeReader(path):
            if episode.success or not solved_only:
                yield episode
