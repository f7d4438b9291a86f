"""``turnpoint export``: trajectories from any known format into another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnpoint.cli.common import fail, print_json, user_faults
from turnpoint.cli.targets import (
    EpisodeStream,
    branches_by_hand,
    opened,
    refuse_empty,
    refuse_taken,
    show_notes,
    sources_of,
)

if TYPE_CHECKING:
    from turnpoint.records import Episode


def export(
    target: Annotated[Path, typer.Argument(help="A run folder, or a file or folder of trajectories.")],
    out: Annotated[Path, typer.Argument(help="File to write; must not exist yet.")],
    to: Annotated[
        str | None, typer.Option(help="Format: turnpoint, chat, verifiers, atif, inspect, parquet.")
    ] = None,
    form: Annotated[str | None, typer.Option("--format", help="Format that is read.")] = None,
    part: Annotated[
        Literal["auto", "eval", "train", "all"], typer.Option(help="Which episodes of a run.")
    ] = "all",
    solved_only: Annotated[bool, typer.Option(help="Successful episodes only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Write episodes for other tools, or other tools' trajectories as episodes; whatever is lost is counted.

    Example: turnpoint export runs/quickstart episodes.parquet --to parquet
    """
    with user_faults():
        refuse_taken(out, "OUT")
    with user_faults(), opened(target, form) as (path, imported):
        from turnpoint.exchange import ExchangeReport, write_foreign

        name = to or {".parquet": "parquet", ".eval": "inspect", ".json": "atif", ".jsonl": "turnpoint"}.get(
            out.suffix
        )
        if name is None:
            fail(f"the ending of {out.name} names no format; say it with --to")
        report = ExchangeReport()
        stream = EpisodeStream(sources_of(path, part))
        parts: Counter[str] = Counter()

        def chosen() -> Iterator[Episode]:
            for episode in stream:
                if episode.success or not solved_only:
                    assert stream.source is not None
                    parts[stream.source.origin] += 1
                    yield episode
                else:
                    report.dropped["not solved"] += 1

        going = chosen()
        first = next(going, None)
        report.dropped["branch forked by hand (name its .forks.jsonl file)"] += branches_by_hand(path)
        report.dropped = +report.dropped
        if first is None:
            refuse_empty(target, [*imported.notes(), *report.notes(), *stream.problems])
        write_foreign(chain([first], going), out, report, name=name)
        if stream.unreadable:
            imported.dropped["unreadable line"] += stream.unreadable
    notes = [*imported.notes(), *report.notes(), *stream.problems[:5]]
    if parts["eval"] and parts["train"]:
        notes.append(
            f"{parts['eval']} episodes are of evaluations, which play held-out tasks, and {parts['train']} of "
            "training; --part train or --part eval writes one of them"
        )
    if as_json:
        dropped = dict(imported.dropped + report.dropped)
        print_json(
            {
                "file": str(out),
                "episodes": report.episodes,
                "parts": dict(parts),
                "dropped": dropped,
                "notes": notes,
            }
        )
        return
    show_notes(notes)
    typer.echo(f"{report.episodes} episodes: {out}")
