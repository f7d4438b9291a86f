"""``turnpoint diagnose``: where failed episodes turn, and how well detectors find it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnpoint.cli.common import console, print_json, user_faults
from turnpoint.cli.tables import mean, percent, show_table
from turnpoint.cli.targets import (
    EpisodeStream,
    environment,
    opened,
    refuse_empty,
    refuse_taken,
    show_notes,
    sources_of,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from turnpoint.inspector.store import Source
    from turnpoint.pivots.detectors import Detector, Sources
    from turnpoint.pivots.diagnose import Answer, Keep
    from turnpoint.records import Episode

_BASELINE = 2_000
"""Most episodes that detectors look at beforehand."""


def diagnose(
    target: Annotated[Path, typer.Argument(help="A run folder, or a file or folder of trajectories.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings of detectors, as report.samples=5.")
    ] = None,
    detector: Annotated[
        list[str] | None,
        typer.Option(help="Detector to measure (may be repeated): a kind, or your own as module:attr."),
    ] = None,
    env: Annotated[
        str | None, typer.Option(help="Environment for replays: a kind, a recipe, or a run folder.")
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask models too: those of the run (or of --run) and its teachers.")
    ] = False,
    run: Annotated[Path | None, typer.Option(help="Run whose model and teachers --ask asks.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A checkpoint folder of that run.")] = None,
    part: Annotated[
        Literal["auto", "eval", "train", "all"], typer.Option(help="Which episodes of a run.")
    ] = "auto",
    form: Annotated[str | None, typer.Option("--format", help="Format of foreign trajectories.")] = None,
    window: Annotated[int, typer.Option(min=0, help="Turns between detection and pivot that agree.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many episodes.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the detections to this new JSONL file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Pivot rate, first pivot, remaining distance, wasted turns by task type; agreement of detectors with the oracle.

    Without --ask and --env only what is on record counts.

    Example: turnpoint diagnose runs/quickstart --detector report --detector oracle --json
    """
    with user_faults():
        refuse_taken(save, "--save")
    with user_faults(), opened(target, form) as (path, exchange):
        result = asyncio.run(
            _diagnose(
                path, overrides or [], detector or [], env, run or target if ask else None, checkpoint, part,
                window, limit, save,
            )
        )  # fmt: skip
        result["import"] = exchange.notes()
        if not result["episodes"]:
            refuse_empty(target, [*result["import"], *result["problems"]])
    if as_json:
        print_json(result)
        return
    _show(result, asked=ask)


async def _diagnose(
    path: Path,
    overrides: list[str],
    names: list[str],
    env: str | None,
    run_folder: Path | None,
    checkpoint: Path | None,
    part: str,
    window: int,
    limit: int | None,
    save: Path | None,
) -> dict[str, Any]:
    from itertools import islice

    from turnpoint.pivots.diagnose import Diagnosis
    from turnpoint.pivots.diagnose import diagnose as judge

    chosen = sources_of(path, part)
    sources, closing = _sources(env, run_folder, checkpoint)
    detectors = _detectors(names, overrides, sources, ask=run_folder is not None)
    diagnosis = Diagnosis(detectors, window=window)
    try:
        await _prepare(detectors, chosen, limit)
        err = console()
        with err.status("reading episodes") as status:
            show = (lambda done: status.update(f"{done:,} episodes")) if err.is_terminal else None
            stream = EpisodeStream(chosen, show)
            with _lines(save) as keep:
                await judge(
                    islice(stream, limit), detectors, diagnosis, ask=run_folder is not None, keep=keep
                )
    finally:
        for detector in detectors.values():
            detector.close()
        for close in closing:
            await close()
    if stream.unreadable:
        diagnosis.left_out["unreadable line"] += stream.unreadable
    return {**diagnosis.as_dict(), "problems": stream.problems[:20]}


@contextmanager
def _lines(path: Path | None) -> Iterator[Keep | None]:
    """What writes detections to a new file, one episode a line; no file is made where none comes."""
    if path is None:
        yield None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("x", encoding="utf-8")
    try:
        yield lambda episode, answers: file.write(_line(episode, answers))
    finally:
        file.close()
        if not path.stat().st_size:
            path.unlink()


def _line(episode: Episode, answers: Mapping[str, Answer]) -> str:
    import json

    from turnpoint.pivots.detectors import DetectorFailure

    found = {
        name: answer.reason
        if isinstance(answer, DetectorFailure)
        else [
            [
                {"turn": d.turn, "score": d.score if abs(d.score) != float("inf") else None, "gold": d.gold}
                for d in sample
            ]
            for sample in answer
        ]
        for name, answer in answers.items()
    }
    return json.dumps({"episode": episode.id, "step": episode.step, "detections": found}) + "\n"


async def _prepare(detectors: dict[str, Detector], chosen: list[Source], limit: int | None) -> None:
    """Show detectors some of the episodes that count, out of those that are judged."""
    from turnpoint.pivots.counted import why_not_counted

    if any(detector.learns for detector in detectors.values()):
        some = [e for e in spread(chosen, _BASELINE, limit) if why_not_counted(e) is None]
        for detector in detectors.values():
            await detector.prepare(some)


def _detectors(names: list[str], overrides: list[str], sources: Sources, *, ask: bool) -> dict[str, Detector]:
    """Detectors by name, the oracle always first: the others are measured against it."""
    from pydantic import ValidationError

    from turnpoint.config import ConfigError, apply_overrides, explain
    from turnpoint.pivots.detectors import detector_registry

    wanted = names or ["report", "reflection", "logprob_drop", "hinted"]
    settings = apply_overrides({name: {} for name in wanted}, overrides)
    unknown = settings.keys() - {*wanted, "oracle"}
    if unknown:
        raise ConfigError(
            f"setting of '{sorted(unknown)[0]}', which is not measured; add --detector {sorted(unknown)[0]}"
        )
    try:
        built = {
            name: detector_registry.parse({"kind": name, **(settings.get(name) or {})}).build(sources)
            for name in dict.fromkeys(["oracle", *wanted])
        }
    except ValidationError as error:
        raise ConfigError(explain(error)) from error
    return built


def _sources(env: str | None, run_folder: Path | None, checkpoint: Path | None) -> tuple[Sources, list[Any]]:
    """What may be asked, and how it is closed."""
    from turnpoint.pivots.detectors import Sources

    sources, closing = Sources(), list[Any]()
    if env is not None:
        sources.suite = environment(env)
    if run_folder is not None:
        from turnpoint.cli.runs import open_run
        from turnpoint.config import ConfigError
        from turnpoint.rollouts import Rollouts
        from turnpoint.training.run import add_scoring

        if not (run_folder / "config.yaml").is_file():
            raise ConfigError(
                f"--ask needs a run whose model can be asked; {run_folder} is none, name one with --run"
            )
        run = open_run(run_folder, [], checkpoint)
        if run.config.scoring:
            add_scoring(run)
        # reports and reflections are sampled as in training, not as in its evaluations
        rollouts = run.rollouts = Rollouts(
            run.suite, run.policy, run.prompter, run.renderer, run.config.rollout, run.streams,
            prefix="diagnose", workers=run.env_workers,
        )  # fmt: skip
        closing.append(rollouts.close)
        sources.suite = sources.suite or run.suite
        sources.naming, sources.rollouts, sources.scorer = run.teachers.naming, rollouts, run.scorer
        sources.scoring = run.teachers.scoring_for if run.teachers.scoring else None
    return sources, closing


def _show(result: dict[str, Any], *, asked: bool) -> None:
    left = ", ".join(f"{reason}: {count}" for reason, count in result["left_out"].items())
    typer.echo(
        f"{result['counted']} of {result['episodes']} episodes counted"
        + (f"; left out: {left}" if left else "")
    )
    rows = [("all tasks", str(result["counted"]), result["overall"])]
    rows += [(k or "(no type)", str(v["episodes"]), v) for k, v in result["by_type"].items()]
    if len(rows) == 2:
        rows = rows[:1]
    show_table(
        "Failures and their first oracle pivot (95 % intervals over tasks)",
        ["task type", "episodes", "success", "failures with a pivot", "first pivot (turn from 0)", "turns left then",
         "could not be undone", "turns wasted"],
        [
            (
                name, count, percent(f.get("success")), percent(f.get("pivot_rate")), mean(f.get("first_pivot")),
                mean(f.get("remaining")), percent(f.get("impossible")), mean(f.get("wasted")),
            )
            for name, count, f in rows
        ],
    )  # fmt: skip
    if len(result["by_step"]) > 1:
        show_table(
            "Over training: shares of all episodes",
            ["step", "episodes", "success", "failed with a pivot", "failed without one"],
            [
                (
                    step,
                    str(f["episodes"]),
                    percent(f.get("success")),
                    percent(f.get("failed_with_pivot")),
                    percent(f.get("failed_without_pivot")),
                )
                for step, f in result["by_step"].items()
            ],
        )
    answered = {n: d for n, d in result["detectors"].items() if n != "oracle" and "named_rate" in d}
    if answered:
        show_table(
            "Detectors against the first oracle pivot of failed episodes",
            ["detector", "failures named", "agreement", "random turns", "precision", "recall", "calibration error"],
            [
                (
                    name, percent(d.get("named_rate")), percent(d.get("agreement")), percent(d.get("chance")),
                    percent(d.get("precision")), percent(d.get("recall")),
                    "–" if d["calibration"]["error"] is None else f"{d['calibration']['error']:.3f}",
                )
                for name, d in answered.items()
            ],
        )  # fmt: skip
    silent = [name for name, d in result["detectors"].items() if d["left_out"].keys() == {"not on record"}]
    for name, d in result["detectors"].items():
        if d["left_out"] and name not in silent:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in d["left_out"].items())
            said = [
                f"{name}, the first {reason}: {why}" for reason, why in d["reasons"].items() if why != reason
            ]
            show_notes([f"{name}: {reasons}", *said])
    if silent:
        advice = "" if asked else "; --ask asks the run's model and teachers, --env measures distances"
        show_notes([f"nothing on record for {', '.join(silent)}{advice}"])
    show_notes([*result["import"], *result["problems"]])
