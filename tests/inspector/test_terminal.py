"""The terminal view: drawing with Rich alone, the app with Textual where it is installed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from turnpoint.inspector import plan
from turnpoint.inspector.catalogue import Catalogue
from turnpoint.inspector.terminal import draw
from turnpoint.inspector.terminal.card import messages_of, turn_card
from turnpoint.inspector.terminal.groups import group_view, side_by_side


@pytest.fixture(scope="module")
def catalogue(run_folder: Path) -> Catalogue:
    return Catalogue(plan(run_folder))


@pytest.fixture
def parent(catalogue: Catalogue) -> dict[str, Any]:
    return next(e for e in catalogue.entries if len(catalogue.children(e)) > 1)


def shown(renderable: RenderableType, width: int = 140) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(renderable)
    return console.export_text()


def test_strip_has_marks_signs_and_the_ending(catalogue: Catalogue, parent: dict[str, Any]) -> None:
    text = shown(draw.strip(parent, "distance", catalogue.fork_turns(parent), 1))
    assert all(glyph in text for glyph in "◆▽⤷−")
    assert "[" in text
    assert text.count("\n") == 3


def test_mini_strip_fits_its_width(parent: dict[str, Any]) -> None:
    assert len(draw.mini_strip(parent, "distance", (), 80)) == parent["n"]
    assert draw.mini_strip(parent, "distance", (), 4).plain.endswith("…")
    assert len(draw.mini_strip(parent, "distance", (), 4)) == 4


def test_a_turn_card_says_everything(catalogue: Catalogue, parent: dict[str, Any]) -> None:
    detail = catalogue.detail(parent)
    turn = parent["pivots"][0]
    text = shown(turn_card(detail, turn, prompt=True))
    for words in (
        "Observation",
        "You see a",
        "open box",
        "named by teacher",
        "look inside first",
        "Response by advantage",
    ):
        assert words in text
    assert "Your task: " in text
    assert len(messages_of(detail, 2)) == 7


def test_text_is_not_read_as_markup(catalogue: Catalogue, parent: dict[str, Any]) -> None:
    detail = dict(catalogue.detail(parent))
    detail["turns"] = [dict(detail["turns"][0], obs=["[bold red]x[/] [link=file:///]y", 0], action="[/]")]
    text = shown(turn_card(detail, 0))
    assert "[bold red]x[/] [link=file:///]y" in text
    assert "[/]" in text


def test_group_and_pair(catalogue: Catalogue, parent: dict[str, Any]) -> None:
    entries = catalogue.group(parent)
    text = shown(group_view(entries, [catalogue.detail(e) for e in entries], parent, "distance"))
    assert all(e["id"] in text for e in entries)
    assert "╌╌╌" in text
    branch = catalogue.children(parent)[0]
    text = shown(side_by_side(catalogue.detail(parent), catalogue.detail(branch)))
    assert "hint: Hint: the best next action is: open box" in " ".join(text.split())
    assert "(shared)" in text


def texts_of(app: Any) -> str:
    from textual.widgets import Static

    return "\n".join(shown(app.query_one(name, Static).content, 200) for name in ("#count", "#content"))


def run_app(catalogue: Catalogue, *keys: str) -> tuple[Any, str]:
    pytest.importorskip("textual", reason="the terminal app needs textual: pip install 'turnpoint[inspect]'")
    from turnpoint.inspector.terminal.app import InspectorApp

    async def play() -> tuple[Any, str]:
        app = InspectorApp(catalogue)
        async with app.run_test(size=(140, 45)) as pilot:
            await pilot.press(*keys)
            await pilot.pause()
            return app, texts_of(app)

    return asyncio.run(play())


def test_the_app_walks_through_episodes_and_turns(catalogue: Catalogue) -> None:
    app, text = run_app(catalogue, "j", "j", "l")
    assert app.entry is catalogue.entries[2]
    assert app.turn == 1
    assert "Turn 1" in text


def test_the_app_filters_and_says_what_a_wrong_term_is(catalogue: Catalogue) -> None:
    app, _ = run_app(catalogue, "slash", *"is:failed", "enter", "j")
    assert app.entry["success"] is False
    _, text = run_app(catalogue, "slash", *"has:x")
    assert "there is no term has:x" in text
    _, text = run_app(catalogue, "slash", *"zzzz")
    assert "No episode passes" in text


def test_the_app_shows_groups_branches_and_prompts(catalogue: Catalogue) -> None:
    search = ["slash", *"s1/t0/e0", "enter"]
    app, text = run_app(catalogue, *search, "2")
    assert "s1/t0/e1" in text
    _, text = run_app(catalogue, *search, "3")
    assert "after turn" in text or "Nothing branches off" in text
    _, text = run_app(catalogue, *search, "m", "c", "v", "d", "n")
    assert "Prompt as the model saw it" in text
    assert app.mode in ("distance", "advantage")
