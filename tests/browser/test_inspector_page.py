from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspector.samples import make_branch, make_episode, make_retry, write_episodes
from turnpoint.inspector import InspectorServer, LiveRun, plan, write_page
from turnpoint.records import Episode, Observation, StopReason, Task

expect = pytest.importorskip("playwright.sync_api", reason="scripts/test-browser.sh runs these").expect


@pytest.fixture(scope="module")
def page_url(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    written = write_page(plan(run_folder), tmp_path_factory.mktemp("page") / "inspect.html")
    assert written.data is not None
    return written.page.as_uri()


PARENT = "#e=train1~s1/t0/e0"


def ready(page) -> None:
    """Wait until the list is drawn."""
    page.locator("#list .item canvas").first.wait_for()


def settled(page) -> None:
    """Wait until the open episode is shown with everything that its tab loads."""
    page.locator("#detail .strip").wait_for()
    expect(page.locator("#detail[aria-busy]")).to_have_count(0)


def line_of(page, turn: int):
    """The transcript's line of a turn of the open episode itself, not of a branch below it."""
    return page.locator(f"#detail .tabbody > div > .transcript > details.line[data-turn='{turn}']")


def test_first_view_has_a_list_and_an_overview(open_page, shot, page_url: str) -> None:
    page = open_page(page_url)
    ready(page)
    expect(page.locator("#count")).to_have_text(re.compile("^280 episodes"))
    expect(page.locator(".overview tbody tr")).to_have_count(4)
    page.wait_for_function("(n => n > 0 && n < 40)(document.querySelectorAll('#list .item').length)")
    shot(page, "inspect-first")


def test_an_episode_is_loaded_from_a_data_file_and_kept_in_the_address(
    open_page, shot, page_url: str
) -> None:
    page = open_page(page_url)
    page.locator("#list .item").nth(2).click()
    page.locator("#detail .strip .turn").nth(3).click()
    card = page.locator("#detail .card")
    expect(card).to_contain_text("Observation", ignore_case=True, use_inner_text=True)
    expect(page).to_have_url(re.compile(r"#e=eval0.*&t=3$"))
    again = open_page(page.url)
    expect(again.locator("#detail .card")).to_have_text(card.inner_text(), use_inner_text=True)
    expect(again.locator(".turn[aria-current]")).to_have_attribute("data-turn", "3")
    shot(again, "inspect-turn")


def test_filters_live_in_the_address_and_in_the_history(open_page, page_url: str) -> None:
    page = open_page(page_url)
    page.select_option("select[data-key=end]", "failed")
    page.select_option("select[data-key=mark]", "pivot")
    count = page.locator("#count")
    expect(count).to_have_text(re.compile(r", 0 % of"))
    expect(page).to_have_url(re.compile("end=failed&mark=pivot$"))
    failed = count.inner_text()
    assert not failed.startswith("280 episodes")
    again = open_page(page.url)
    expect(again.locator("#count")).to_have_text(failed)
    page.go_back()
    expect(page.locator("select[data-key=mark]")).to_have_value("")
    page.locator("#clear").click()
    expect(count).to_have_text(re.compile("^280 episodes"))
    page.fill("#q", "mug cellar")
    page.wait_for_function(
        """() => {
          const names = [...document.querySelectorAll('#list .name')].map((name) => name.textContent);
          return names.length > 0 && names.every((name) => name.includes('mug') && name.includes('cellar'));
        }"""
    )


def test_everything_by_keyboard(open_page, page_url: str) -> None:
    page = open_page(page_url)
    ready(page)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("#list .item[aria-selected=true]")).to_have_attribute("aria-posinset", "2")
    settled(page)
    page.keyboard.press("l")
    page.keyboard.press("ArrowRight")
    page.locator(".turn[aria-current][data-turn='1']").wait_for()
    line = line_of(page, 1)
    expect(line).to_have_attribute("open", "")
    expect(line.locator("> summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(line).not_to_have_attribute("open", "")
    page.keyboard.press("c")
    expect(page).to_have_url(re.compile("colour="))
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("lamp?")
    expect(page.locator("#q")).to_have_value("lamp?")
    page.keyboard.press("Escape")
    expect(page.locator("#q")).not_to_be_focused()
    page.keyboard.press("Escape")
    page.locator(".overview").wait_for()
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("episode", use_inner_text=True)
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)


def test_marked_turns_are_a_key_away(open_page, page_url: str) -> None:
    page = open_page(page_url + PARENT)
    settled(page)
    marked = [int(t) for t in page.eval_on_selector_all(".turn:has(.m)", "e => e.map(x => x.dataset.turn)")]
    for turn in marked[:2]:
        page.keyboard.press("n")
        page.locator(f".turn[aria-current][data-turn='{turn}']").wait_for()
    page.keyboard.press("p")
    page.locator(f".turn[aria-current][data-turn='{marked[0]}']").wait_for()


def test_a_click_on_a_turn_opens_and_closes_it(open_page, page_url: str) -> None:
    page = open_page(page_url + PARENT)
    settled(page)
    line = line_of(page, 2)
    line.locator("> summary").click()
    line.locator(".card").wait_for()
    expect(line).to_have_attribute("open", "")
    line.locator("> summary").click()
    expect(line).not_to_have_attribute("open", "")
    expect(line.locator(".card")).to_be_hidden()


def test_a_group_is_aligned_and_leads_to_its_members(open_page, shot, page_url: str) -> None:
    page = open_page(page_url + PARENT + "&tab=group")
    rows = page.locator(".group .grow:not(.head)")
    rows.first.wait_for()
    settled(page)
    labels = page.locator(".group .glabel").all_inner_texts()
    assert sum("s1/t0/e" in label for label in labels) == rows.count()
    branch = page.locator(".grow", has_text="recovery").first
    before = branch.locator(".before").count()
    assert before > 0
    cells = branch.locator(".gcell:not(.before)")
    expect(cells).to_have_count(2)
    expect(cells.first).to_contain_class("parting")
    shot(page, "inspect-group")
    cells.first.click()
    page.locator("#detail .card").wait_for()
    expect(page.locator("#detail .head")).to_contain_text("recovery", use_inner_text=True)
    settled(page)
    page.get_by_role("button", name="branched off after turn").click()
    page.wait_for_function("location.hash.includes('e0') && !location.hash.includes('recovery')")


def test_original_and_branch_stand_side_by_side(open_page, shot, page_url: str) -> None:
    page = open_page(page_url + PARENT + "&tab=sides")
    page.locator(".pair").first.wait_for()
    settled(page)
    common = page.locator(".pair").first.locator(".versus").first
    expect(common).to_contain_text("both share it", use_inner_text=True)
    versus = page.locator(".pair").first.locator(".versus").nth(1)
    expect(versus).to_contain_text("hint:", use_inner_text=True)
    left, right = versus.locator(".side").evaluate_all("sides => sides.map((s) => s.getBoundingClientRect())")
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    shot(page, "inspect-sides")


def test_the_prompt_is_shown_as_the_model_saw_it(open_page, page_url: str) -> None:
    page = open_page(page_url + PARENT + "&t=2")
    page.get_by_text("Prompt as the model saw it").click()
    page.locator(".prompt details details summary").first.click()
    prompt = page.locator(".prompt").first
    expect(prompt).to_contain_text("You are in a household", use_inner_text=True)
    expect(prompt).to_contain_text("tokens", use_inner_text=True)
    expect(page.locator(".prompt .message")).to_have_count(7)


@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_screen_shows_one_thing_at_a_time(open_page, shot, page_url: str, dark: bool) -> None:
    page = open_page(page_url, width=400, height=800, dark=dark)
    shot(page, f"inspect-narrow-list-{'dark' if dark else 'light'}")
    page.locator("#list .item").nth(1).click()
    settled(page)
    expect(page.locator("#list")).to_be_hidden()
    for name in page.get_by_role("tab").all_inner_texts():
        tab = page.get_by_role("tab", name=name)
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        settled(page)
    page.locator("#detail .strip .turn").nth(1).click()
    page.locator("#detail .card").wait_for()
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.evaluate("document.getElementById('detail').scrollWidth") <= 400
    shot(page, f"inspect-narrow-turn-{'dark' if dark else 'light'}")
    page.locator("#after").click()
    page.locator("#back").click()
    expect(page.locator("#list")).to_be_visible()


def test_the_theme_can_be_chosen_and_is_remembered(open_page, page_url: str) -> None:
    page = open_page(page_url)
    body = page.locator("body")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    expect(body).not_to_have_css("background-color", light)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    expect(body).to_have_css("background-color", dark)


def test_every_control_has_a_name(open_page, page_url: str) -> None:
    page = open_page(page_url + PARENT)
    settled(page)
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, select, input')].filter(e => e.offsetParent && "
        "!(e.textContent.trim() || e.getAttribute('aria-label'))).map(e => e.outerHTML)"
    )
    assert nameless == []


def test_a_missing_data_file_is_said(browser, page_url: str, tmp_path: Path) -> None:
    source = Path(page_url.removeprefix("file://"))
    alone = Path(shutil.copy(source, tmp_path / "alone.html"))
    page = browser.new_page()
    page.goto(alone.as_uri())
    page.locator("#list .item").first.click()
    warning = "the folder of data files belongs beside this page"
    expect(page.locator("#detail .warn")).to_contain_text(warning, use_inner_text=True)
    expect(page.locator("#detail[aria-busy]")).to_have_count(0)
    page.close()


def test_the_same_id_twice_is_two_episodes(open_page, rng, tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    write_episodes(source, [make_episode(rng, "same", task=t, turns=4) for t in (0, 1)])
    page = open_page(write_page(plan(source), tmp_path / "p.html").page.as_uri())
    task = page.locator("#detail .task")
    page.locator("#list .item").nth(0).click()
    expect(page.locator(".item[aria-selected=true]")).to_have_attribute("aria-posinset", "1")
    settled(page)
    first = task.inner_text()
    page.locator("#list .item").nth(1).click()
    expect(page.locator(".item[aria-selected=true]")).to_have_attribute("aria-posinset", "2")
    expect(task).not_to_have_text(first)


def test_a_turn_is_opened_in_the_episode_and_not_in_its_branch(open_page, rng, tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    parent = make_episode(rng, "e", turns=5, skill=0.1, train=True)
    write_episodes(source, [parent, make_branch(rng, parent, 0)])
    page = open_page(write_page(plan(source), tmp_path / "p.html").page.as_uri() + "#e=file0~e&t=1")
    settled(page)
    page.locator("#detail .branchbox").wait_for(state="attached")
    line_of(page, 1).locator("> .card").wait_for()
    expect(page.locator("#detail .branchbox details.line[open]")).to_have_count(0)
    page.locator("#detail .strip .turn").nth(0).click()
    line_of(page, 0).locator("> .card").wait_for()


def test_an_episode_that_never_began_is_shown_with_its_reason(open_page, rng, tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    lost = Episode("lost", Task("task-0", "household"), [], StopReason.ENV_ERROR, error="the engine is gone")
    write_episodes(source, [make_episode(rng, "e", turns=4, train=True), lost])
    page = open_page(write_page(plan(source), tmp_path / "p.html").page.as_uri() + "#e=file0~lost")
    detail = page.locator("#detail")
    expect(detail).to_contain_text("the engine is gone", use_inner_text=True)
    for tab in page.get_by_role("tab").all():
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(page.locator("#detail[aria-busy]")).to_have_count(0)


def test_an_observation_of_a_megabyte_is_cut_and_said(open_page, rng, tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    episode = make_episode(rng, "e", turns=3, train=True)
    episode.turns[1].observation = Observation("<b>w</b> " * 120_000)
    write_episodes(source, [episode])
    page = open_page(write_page(plan(source), tmp_path / "p.html").page.as_uri() + "#e=file0~e&t=1")
    card = line_of(page, 1).locator("> .card")
    expect(card).to_contain_text("<b>w</b> <b>w</b>", use_inner_text=True)
    expect(card).to_contain_text(re.compile(r"1,0\d\d,\d{3}"), use_inner_text=True)
    assert len(card.inner_text()) < 40_000


def test_attempts_of_a_chain_lead_to_one_another(open_page, shot, rng, tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    first = make_episode(rng, "e", turns=8, skill=0.1, train=True)
    write_episodes(source, [first, make_retry(rng, first, 3)][::-1])
    page = open_page(write_page(plan(source), tmp_path / "p.html").page.as_uri())
    page.locator("#list .item").first.click()
    page.locator(".strip .turn.reused").nth(2).wait_for()
    expect(page.locator(".strip .m.retry")).to_have_count(1)
    expect(page.locator("#detail")).to_contain_text("Look into the box.", use_inner_text=True)
    settled(page)
    shot(page, "inspect-retry")
    page.get_by_role("button", name="attempt 0").click()
    page.get_by_text("turn 3 named as the first wrong one").click()
    expect(page.locator(".reflection")).to_contain_text("Turn 3 was wrong.", use_inner_text=True)
    page.get_by_role("tab", name="Branches side by side").click()
    expect(page.locator(".versus").nth(1)).to_contain_text("attempt 1", use_inner_text=True)


def test_hostile_text_is_only_text(open_page, rng, tmp_path: Path) -> None:
    attack = "</script><img src=x onerror=alert(1)>\u202e<style>*{display:none}</style>"
    episode = make_episode(rng, attack, turns=3, train=True, text=attack)
    turn = episode.turns[0]
    turn.response = turn.action = turn.hint = attack
    turn.messages = tuple(type(m)(m.role, attack) for m in turn.messages)
    episode.lesson = attack
    source = tmp_path / "e.jsonl"
    write_episodes(source, [episode])
    page = open_page(write_page(plan(source), tmp_path / "p.html").page.as_uri())
    page.locator("#list .item").first.click()
    page.locator("#detail .strip .turn").first.click()
    page.get_by_text("Prompt as the model saw it").click()
    page.wait_for_function(
        "text => document.querySelector('#detail .card').innerText.split(text).length > 4",
        arg="<img src=x onerror=alert(1)>⟨U+202E⟩<style>",
    )
    page.wait_for_timeout(200)  # time for an injected handler to fire; the fixture fails on any dialog
    expect(page.locator("img, #detail style")).to_have_count(0)


@pytest.fixture
def server(run_folder: Path) -> Iterator[InspectorServer]:
    made = InspectorServer(LiveRun(run_folder))
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.close()
    thread.join(10)


def test_the_served_page_loads_episodes_on_demand(open_page, server: InspectorServer) -> None:
    page = open_page(server.url + PARENT)
    settled(page)
    asked = page.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
    assert 1 <= len(asked) <= 3
    assert all(name.startswith(server.url + "data/") for name in asked)
