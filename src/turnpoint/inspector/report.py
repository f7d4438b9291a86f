"""``report.html``: one self-contained page about a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnpoint.inspector.assets import bundle, content_policy, templates, write_atomically
from turnpoint.inspector.facts import data_facts, facts
from turnpoint.inspector.figures import (
    charts,
    losses,
    outcome_rows,
    recovery_ends,
    share,
    step_table,
    stop_table,
)
from turnpoint.inspector.folder import RunFolder, read_run_folder
from turnpoint.inspector.sampling import Sample, sample_run
from turnpoint.inspector.text import clip_note, script_json
from turnpoint.inspector.tokens import TokenTexts, token_texts_of_run
from turnpoint.inspector.views import Limits, episode_view
from turnpoint.records import Episode

_STYLE = ("base.css", "episode.css", "report.css")
_SCRIPT = ("core.js", "strip.js", "card.js", "report.js")
_LIMITS = Limits(text=4_000, tokens=300, turns=200)
_MOST_CHARACTERS = 12_000_000
"""Size of all episodes in a page."""


def write_run_report(folder: Path) -> Path:
    """Write ``report.html`` into a run folder and return its path.

    Whatever a run lacks (evaluations, episodes, a header) is left out of the page; what cannot be read is
    said on it. Raises ``FileNotFoundError`` if ``folder`` is not a folder.
    """
    run = read_run_folder(Path(folder))
    return write_atomically(run.path / "report.html", render_report(run))


def render_report(run: RunFolder) -> str:
    """The page as text."""
    sample = sample_run(run)
    episodes = embed(sample, token_texts_of_run(run.path))
    script, style = bundle(_SCRIPT), bundle(_STYLE)
    headings, rows, every = step_table(run.train)
    return (
        templates()
        .get_template("report.html.j2")
        .render(
            title=clip_note(str(run.config.get("name") or run.path.name), 120),
            policy=content_policy(script, style),
            script=script,
            style=style,
            facts=facts(run),
            data_facts=data_facts(run.header),
            config=clip_note(run.config_text, 20_000),
            outcome=outcome_rows(run),
            eval_steps=[record["step"] for record in run.evals],
            behaviour=behaviour(run.evals[-1]) if run.evals else [],
            charts=charts(run),
            headings=headings,
            rows=rows,
            every=every,
            stops=stop_table(run),
            losses=losses(run.train),
            recovery_ends=recovery_ends(run.train),
            sample=sample,
            episodes=script_json(episodes),
            problems=[clip_note(problem, 500) for problem in run.problems[:50]],
            more_problems=max(0, len(run.problems) - 50),
            share=share,
        )
    )


def behaviour(record: dict[str, Any]) -> list[tuple[str, str]]:
    """How the agent behaves in an evaluation, beyond success."""
    rows = []
    turns = record.get("turns")
    if isinstance(turns, dict) and isinstance(turns.get("mean"), int | float):
        rows.append(("turns of an episode", f"{turns['mean']:.1f}"))
    names = {
        "invalid_rate": "turns without a parsable action",
        "ineffective_rate": "actions the environment did not accept",
        "repeated_rate": "actions repeated in the same state",
        "pivot_rate": "episodes with an oracle pivot",
        "recovered": "solved in spite of a pivot",
    }
    for key, name in names.items():
        value = record.get(key)
        value = value.get("mean") if isinstance(value, dict) else value
        if isinstance(value, int | float):
            rows.append((name, share(value)))
    return rows


def embed(sample: Sample, texts: TokenTexts | None) -> dict[str, Any]:
    """Episode views of a sample within the size of a page, and how many were left out for it."""
    room, left_out = _MOST_CHARACTERS, 0
    shown: dict[str, list[dict[str, Any]]] = {"eval": [], "train": []}

    def add(name: str, episodes: Sequence[Episode], share_of_room: int) -> int:
        nonlocal left_out
        for episode in episodes:
            view = episode_view(episode, _LIMITS, texts)
            size = len(script_json(view))
            if size > share_of_room:
                left_out += 1
                continue
            share_of_room -= size
            shown[name].append(view)
        return share_of_room

    unused = add("eval", sample.evals, room // 2)
    add("train", sample.trains, room // 2 + unused)
    return {**shown, "leftOut": left_out}
