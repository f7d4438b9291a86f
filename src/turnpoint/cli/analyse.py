"""``turnpoint analyse``: the papers' other analyses of recorded episodes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnpoint.cli.common import print_json, user_faults
from turnpoint.cli.tables import mean, show_table
from turnpoint.cli.targets import EpisodeStream, environment, opened, refuse_empty, show_notes, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from turnpoint.envs import EnvSuite
    from turnpoint.records import Episode


def analyse(
    target: Annotated[Path, typer.Argument(help="A run folder, or a file or folder of trajectories.")],
    ask: Annotated[
        bool,
        typer.Option("--ask", help="Also what needs the run's model: KL after mistakes, information gain."),
    ] = False,
    env: Annotated[
        str | None,
        typer.Option(
            help="Environment (kind, recipe, or run folder) whose oracle measures distances that are not on record."
        ),
    ] = None,
    run: Annotated[Path | None, typer.Option(help="Run whose model --ask uses.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A checkpoint folder of that run.")] = None,
    part: Annotated[
        Literal["auto", "eval", "train", "all"], typer.Option(help="Which episodes of a run.")
    ] = "all",
    limit: Annotated[int, typer.Option(min=1, help="Most episodes that --ask looks at.")] = 200,
    threshold: Annotated[
        float, typer.Option(help="Information gain above which a turn counts, in nats.")
    ] = 0.0,
    skip_tokens: Annotated[
        int,
        typer.Option(
            min=0, help="Leading tokens of a turn left out of positions; turns no longer than that have none."
        ),
    ] = 150,
    form: Annotated[str | None, typer.Option("--format", help="Format of foreign trajectories.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Teacher log-probs by turn, position and around the first error; preference groups by turn; and with a model the
    KL to the self-teacher after a mistake and the information gain of remarks.

    Example: turnpoint analyse runs/stride --json
    """
    with user_faults(), opened(target, form) as (path, imported):
        from turnpoint.pivots.chains import PreferenceCounter
        from turnpoint.pivots.profile import TeacherProfile
        from turnpoint.records import EpisodeKind

        profile, groups = TeacherProfile(skip_tokens), PreferenceCounter()
        stream = EpisodeStream(sources_of(path, part))
        suite = None if env is None else environment(env)
        for episode in stream if suite is None else measured(stream, suite):
            if episode.kind == EpisodeKind.ROLLOUT:
                profile.add(episode)
                groups.add(episode)
        if not stream.read:
            refuse_empty(target, [*imported.notes(), *stream.problems])
        preferred, compared = groups.counts()
        result: dict[str, Any] = {
            "teacher": profile.as_dict(),
            "preference_groups": {
                "total": sum(preferred.values()),
                "by_turn": {str(t): n for t, n in preferred.items()},
                "compared_by_turn": {str(t): n for t, n in compared.items()},
            },
            "notes": [*imported.notes(), *stream.problems[:20]],
        }
        if ask:
            result |= _with_model(path, part, run or target, checkpoint, limit, threshold)
    if as_json:
        print_json(result)
        return
    _show(result)


def _with_model(
    path: Path, part: str, folder: Path, checkpoint: Path | None, limit: int, threshold: float
) -> dict[str, Any]:
    from itertools import islice

    from turnpoint.cli.runs import open_run
    from turnpoint.config import ConfigError
    from turnpoint.pivots.after_mistake import divergence_after_mistakes
    from turnpoint.pivots.information import gains_by_turn, information_gain

    if not (folder / "config.yaml").is_file():
        raise ConfigError(
            f"--ask needs a run whose model can be asked; {folder} is none, name one with --run"
        )
    run = open_run(folder, [], checkpoint)
    failed = (e for e in EpisodeStream(sources_of(path, part)) if _counted_failure(e))
    chosen = list(islice(_with_gold(failed, run.suite), limit))
    told = (e for e in EpisodeStream(sources_of(path, part)) if e.attempt.remarks and e.turns)
    remarked = list(islice(_with_gold(told, run.suite), limit))
    gains = asyncio.run(information_gain(remarked, run.scorer))
    return {
        "kl_after_mistake": divergence_after_mistakes(chosen, run.scorer).as_dict(),
        "information_gain": [
            {"turn": g.turn, "mean": g.mean, "above": g.above, "n": g.n}
            for g in gains_by_turn(gains, threshold)
        ],
    }


def _counted_failure(episode: Episode) -> bool:
    from turnpoint.pivots.counted import why_not_counted

    return why_not_counted(episode) is None and not episode.success and bool(episode.turns)


def measured(episodes: Iterable[Episode], suite: EnvSuite) -> Iterator[Episode]:
    """Episodes with the oracle's distances, by verified replay where they are not on record.

    One that cannot be replayed is yielded as it is, and counted in a note.
    """
    from turnpoint.envs import EnvError
    from turnpoint.pivots.oracle import measure_distances

    env = suite.make() if suite.capabilities.oracle else None
    if env is None:
        show_notes(["the environment has no oracle, so no distance was measured"])
    lost = 0
    for episode in episodes:
        if env is not None and not episode.distances_known:
            try:
                measure_distances(env, episode)
            except EnvError:
                lost += 1
                env.close()
                env = suite.make()
        yield episode
    if env is not None:
        env.close()
    if lost:
        show_notes([f"{lost} episodes could not be replayed, so their distances are unknown"])


def _with_gold(episodes: Iterable[Episode], suite: EnvSuite) -> Iterator[Episode]:
    """Episodes with distances and gold actions; those without are left out."""
    from turnpoint.envs import EnvError
    from turnpoint.pivots.information import name_best_actions

    if not suite.capabilities.oracle:
        return
    env = suite.make()
    lost = 0
    for episode in measured(episodes, suite):
        if not episode.distances_known:
            continue
        try:
            name_best_actions(env, episode)
        except EnvError:
            lost += 1
            env.close()
            env = suite.make()
            continue
        yield episode
    env.close()
    if lost:
        show_notes([f"{lost} episodes could not be replayed for their best actions and were left out"])


def _show(result: dict[str, Any]) -> None:
    teacher = result["teacher"]
    if teacher["episodes"]:
        for name, title in (("logprob", "Teacher log-prob"), ("gap", "Student minus teacher")):
            signal = teacher[name]
            d = signal["cohens_d"]
            turns = list(signal["by_turn"].items())[:20]
            show_table(
                f"{title}, nats per token; Cohen's d from the first error on: {'–' if d is None else f'{d:+.2f}'}",
                ["turn", *(turn for turn, _ in turns)],
                [("mean", *(f"{v['mean']:+.2f}" for _, v in turns))],
            )
            deciles = signal["by_decile"]
            if any(deciles):
                show_table(
                    f"{title} by position in the turn",
                    ["decile", *(str(i + 1) for i in range(len(deciles)))],
                    [("mean", *("–" if v is None else f"{v['mean']:+.2f}" for v in deciles))],
                )
        show_notes([f"{count} left out: {reason}" for reason, count in teacher["left_out"].items()])
    groups = result["preference_groups"]
    turns = list(groups["compared_by_turn"])[:20]
    if turns:
        show_table(
            f"Preference groups: {groups['total']}",
            ["turn", *turns],
            [
                ("different outcomes", *(str(groups["by_turn"].get(t, 0)) for t in turns)),
                ("states compared", *(str(groups["compared_by_turn"][t]) for t in turns)),
            ],
        )
    kl = result.get("kl_after_mistake")
    if kl and not kl["by_offset"]:
        show_notes(
            [
                f"no failure of {kl['episodes']} goes on after its mistake with an action to hint at: no KL to show"
            ]
        )
    elif kl:
        show_table(
            f"KL hinted self to plain self after the mistake ({kl['episodes']} episodes), nats per token",
            ["turns after it", "KL"],
            [(offset, mean(value, 3)) for offset, value in kl["by_offset"].items()],
        )
    if result.get("information_gain"):
        show_table(
            "Information gain of remarks",
            ["turn", "mean, nats", "share above the threshold", "n"],
            [
                (str(g["turn"]), f"{g['mean']:+.2f}", f"{100 * g['above']:.0f}%", str(g["n"]))
                for g in result["information_gain"]
            ],
        )
    if not teacher["episodes"] and not turns and not kl:
        show_notes(["nothing to analyse is on record: no teacher scores, no states reached twice"])
    show_notes(result["notes"])
