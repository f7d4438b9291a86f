from __future__ import annotations

import random
from pathlib import Path

import pytest

from inspector.samples import make_episode, write_episodes, write_run
from turnpoint.inspector import write_run_report

expect = pytest.importorskip("playwright.sync_api", reason="scripts/test-browser.sh runs these").expect


@pytest.fixture(scope="module")
def report(run_folder: Path) -> str:
    return write_run_report(run_folder).as_uri()


def test_it_opens_and_an_episode_can_be_read(open_page, shot, report: str) -> None:
    page = open_page(report)
    expect(page.locator("details.row")).to_have_count(100)
    expect(page.locator("figure.chart")).to_have_count(8)
    shot(page, "report-top")
    chip = page.get_by_role("button", name="⤷ with a recovery")
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    row = page.locator("details.row").first
    row.locator("> summary").click()
    row.locator(".strip .turn").nth(1).click()
    card = row.locator(".card").first
    expect(card).to_contain_text("You see a", use_inner_text=True)
    expect(row.locator(".branchbox").first).to_be_visible()
    signal = card.get_by_role("button", name="preventive")
    signal.click()
    expect(signal).to_have_attribute("aria-pressed", "true")
    expect(card.locator(".token.up, .token.down").nth(5)).to_be_visible()
    shot(page, "report-episode")


def test_the_keyboard_reaches_a_turn(open_page, report: str) -> None:
    page = open_page(report)
    page.locator("details.row > summary").first.focus()
    page.keyboard.press("Enter")
    page.locator("details.row .strip .turn").first.wait_for()
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.locator("details.row .strip .turn:focus")).to_have_count(1)
    page.keyboard.press("Enter")
    page.locator("details.row .card").first.wait_for()


@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_screen_needs_no_sideways_scrolling(open_page, shot, report: str, dark: bool) -> None:
    page = open_page(report, width=400, height=800, dark=dark)
    page.locator("details.row > summary").nth(45).click()
    page.locator("details.row[open] .strip .turn").first.click()
    page.locator("details.row[open] .card").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    shot(page, f"report-narrow-{'dark' if dark else 'light'}")


def test_dark_and_light_differ(open_page, report: str) -> None:
    colours = {
        open_page(report, dark=d).evaluate("getComputedStyle(document.body).backgroundColor") for d in (0, 1)
    }
    assert len(colours) == 2


def test_figures_are_there_without_scripts(open_page, report: str) -> None:
    page = open_page(report, java_script_enabled=False)
    expect(page.locator("figure.chart")).to_have_count(8)
    expect(page.locator("#outcome")).to_contain_text("95 % interval", use_inner_text=True)


def test_hostile_text_is_only_text(open_page, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=1, eval_tasks=2)
    attack = (
        "</script><script>alert(1)</script><img src=x onerror=alert(2)><a href='javascript:alert(3)'>x</a>"
    )
    episode = make_episode(random.Random(1), attack, turns=3, train=True, text=attack)
    turn = episode.turns[0]
    turn.response = turn.action = turn.hint = turn.executed = attack
    turn.gold_actions = (attack,)
    turn.scores[attack] = tuple(0.1 for _ in turn.response_ids)
    episode.lesson = episode.summary = episode.error = attack
    write_episodes(folder / "eval" / "step_000009.jsonl", [episode])
    page = open_page(write_run_report(folder).as_uri())
    page.locator("details.row > summary").first.click()
    page.locator(".strip .turn").first.click()
    page.wait_for_function(
        "text => (document.querySelector('details.row .card')?.innerText ?? '').split(text).length > 4",
        arg="<img src=x onerror=alert(2)>",
    )
    page.wait_for_timeout(200)  # time for an injected handler to fire; the fixture fails on any dialog
    expect(page.locator("img, a, script[src]")).to_have_count(0)
