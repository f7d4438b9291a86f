from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspector.samples import make_episode, make_retry, write_episodes
from turnpoint.inspector import InspectorServer, LiveRun, plan, write_page


@pytest.fixture(scope="module")
def page_url(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    written = write_page(plan(run_folder), tmp_path_factory.mktemp("page") / "inspect.html")
    assert written.data is not None
    return written.page.as_uri()


PARENT = "#e=train1~s1/t0/e0"


def ready(page) -> None:
    page.locator("#list .item canvas").first.wait_for()


def test_first_view_has_a_list_and_an_overview(open_page, shot, page_url: str) -> None:
    page = open_page(page_url)
    ready(page)
    assert page.inner_text("#count").startswith("280 episodes")
    assert page.locator(".overview tbody tr").count() == 4
    assert page.locator("#list .item").count() < 40
    shot(page, "inspect-first")


def test_an_episode_is_loaded_from_a_data_file_and_kept_in_the_address(
    open_page, shot, page_url: str
) -> None:
    page = open_page(page_url)
    page.locator("#list .item").nth(2).click()
    page.locator("#detail .strip .turn").nth(3).click()
    card = page.locator("#detail .card")
    assert "Observation" in card.inner_text()
    assert re.search(
        r"#e=eval0.*&t=3$", page.evaluate("new Promise(r => setTimeout(() => r(location.href), 400))")
    )
    again = open_page(page.url)
    again.locator("#detail .card").wait_for()
    assert again.locator("#detail .card").inner_text() == card.inner_text()
    assert again.locator(".turn[aria-current]").get_attribute("data-turn") == "3"
    shot(again, "inspect-turn")


def test_filters_live_in_the_address_and_in_the_history(open_page, page_url: str) -> None:
    page = open_page(page_url)
    page.select_option("select[data-key=end]", "failed")
    page.select_option("select[data-key=mark]", "pivot")
    failed = page.inner_text("#count")
    assert failed != "280 episodes"
    assert "0 % of" in failed
    again = open_page(page.url)
    assert again.inner_text("#count") == failed
    page.go_back()
    page.wait_for_function("document.querySelector('select[data-key=mark]').value === ''")
    page.locator("#clear").click()
    assert page.inner_text("#count").startswith("280 episodes")
    page.fill("#q", "mug cellar")
    page.wait_for_function("!document.getElementById('count').textContent.startsWith('280')")
    names = page.locator("#list .name").all_inner_texts()
    assert names
    assert all("mug" in name and "cellar" in name for name in names)


def test_everything_by_keyboard(open_page, page_url: str) -> None:
    page = open_page(page_url)
    ready(page)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.locator("#detail .strip").wait_for()
    second = page.locator("#list .item[aria-selected=true] .name").inner_text()
    assert second == page.locator("#list .item .name").nth(1).inner_text()
    page.keyboard.press("l")
    page.keyboard.press("ArrowRight")
    page.locator(".turn[aria-current][data-turn='1']").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_function("!document.querySelector('#detail details.line[data-turn=\"1\"]').open")
    page.keyboard.press("c")
    assert "colour=" in page.url
    page.keyboard.press("/")
    page.keyboard.type("lamp?")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") != "q"
    page.keyboard.press("Escape")
    page.locator(".overview").wait_for()
    page.keyboard.press("?")
    assert page.locator("dialog[open]").inner_text().count("episode") >= 1
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


def test_marked_turns_are_a_key_away(open_page, page_url: str) -> None:
    page = open_page(page_url + PARENT)
    page.locator("#detail .strip").wait_for()
    marked = [int(t) for t in page.eval_on_selector_all(".turn:has(.m)", "e => e.map(x => x.dataset.turn)")]
    for turn in marked[:2]:
        page.keyboard.press("n")
        page.locator(f".turn[aria-current][data-turn='{turn}']").wait_for()
    page.keyboard.press("p")
    page.locator(f".turn[aria-current][data-turn='{marked[0]}']").wait_for()


def test_a_click_on_a_turn_opens_and_closes_it(open_page, page_url: str) -> None:
    page = open_page(page_url + PARENT)
    line = page.locator("#detail details.line[data-turn='2']").first
    line.locator("> summary").click()
    line.locator(".card").wait_for()
    assert line.get_attribute("open") is not None
    line.locator("> summary").click()
    page.wait_for_function("!document.querySelector('#detail details.line[data-turn=\"2\"]').open")


def test_a_group_is_aligned_and_leads_to_its_members(open_page, shot, page_url: str) -> None:
    page = open_page(page_url + PARENT + "&tab=group")
    rows = page.locator(".group .grow:not(.head)")
    rows.first.wait_for()
    labels = page.locator(".group .glabel").all_inner_texts()
    assert sum("s1/t0/e" in label for label in labels) == rows.count()
    branch = page.locator(".grow", has_text="recovery").first
    before = branch.locator(".before").count()
    assert before > 0
    cells = branch.locator(".gcell:not(.before)")
    assert cells.count() == 2
    assert "parting" in (cells.first.get_attribute("class") or "")
    shot(page, "inspect-group")
    cells.first.click()
    page.locator("#detail .card").wait_for()
    assert "recovery" in page.inner_text("#detail .head")
    page.get_by_role("button", name="branched off after turn").click()
    page.wait_for_function("location.hash.includes('e0') && !location.hash.includes('recovery')")


def test_original_and_branch_stand_side_by_side(open_page, shot, page_url: str) -> None:
    page = open_page(page_url + PARENT + "&tab=sides")
    page.locator(".pair").first.wait_for()
    common = page.locator(".pair").first.locator(".versus").first
    assert "both share it" in common.inner_text()
    versus = page.locator(".pair").first.locator(".versus").nth(1)
    left, right = (versus.locator(".side").nth(i).bounding_box() for i in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    assert "hint:" in versus.inner_text()
    shot(page, "inspect-sides")


def test_the_prompt_is_shown_as_the_model_saw_it(open_page, page_url: str) -> None:
    page = open_page(page_url + PARENT + "&t=2")
    page.get_by_text("Prompt as the model saw it").click()
    page.locator(".prompt details details summary").first.click()
    text = page.locator(".prompt").first.inner_text()
    assert "You are in a household" in text
    assert "tokens" in text
    assert page.locator(".prompt .message").count() == 7


@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_screen_shows_one_thing_at_a_time(open_page, shot, page_url: str, dark: bool) -> None:
    page = open_page(page_url, width=400, height=800, dark=dark)
    shot(page, f"inspect-narrow-list-{'dark' if dark else 'light'}")
    page.locator("#list .item").nth(1).click()
    page.locator("#detail .strip").wait_for()
    assert not page.locator("#list").is_visible()
    for tab in ("Group", "Turns"):
        if page.get_by_role("tab", name=tab).count():
            page.get_by_role("tab", name=tab).first.click()
    page.locator("#detail .strip .turn").nth(1).click()
    page.locator("#detail .card").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.evaluate("document.getElementById('detail').scrollWidth") <= 400
    shot(page, f"inspect-narrow-turn-{'dark' if dark else 'light'}")
    page.locator("#after").click()
    page.locator("#back").click()
    assert page.locator("#list").is_visible()


def test_the_theme_can_be_chosen_and_is_remembered(open_page, page_url: str) -> None:
    page = open_page(page_url)
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.locator("#theme").click()
    dark = page.evaluate(background)
    assert light != dark
    page.reload()
    assert page.evaluate(background) == dark


def test_every_control_has_a_name(open_page, page_url: str) -> None:
    page = open_page(page_url + PARENT)
    page.locator("#detail .strip").wait_for()
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
    page.locator("#detail .warn").wait_for()
    assert "the folder of data files belongs beside this page" in page.inner_text("#detail .warn")
    page.close()


def test_the_same_id_twice_is_two_episodes(open_page, rng, tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    write_episodes(source, [make_episode(rng, "same", task=t, turns=4) for t in (0, 1)])
    page = open_page(write_page(plan(source), tmp_path / "p.html").page.as_uri())
    titles = []
    for at in (0, 1):
        page.locator("#list .item").nth(at).click()
        page.wait_for_function(
            f"document.querySelectorAll('.item')[{at}].getAttribute('aria-selected') === 'true'"
        )
        page.locator("#detail .task").wait_for()
        page.wait_for_function("!document.getElementById('detail').hasAttribute('aria-busy')")
        titles.append(page.inner_text("#detail .task"))
    assert titles[0] != titles[1]


def test_attempts_of_a_chain_lead_to_one_another(open_page, shot, rng, tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    first = make_episode(rng, "e", turns=8, skill=0.1, train=True)
    write_episodes(source, [first, make_retry(rng, first, 3)][::-1])
    page = open_page(write_page(plan(source), tmp_path / "p.html").page.as_uri())
    page.locator("#list .item").first.click()
    page.locator(".strip .turn.reused").nth(2).wait_for()
    assert page.locator(".strip .m.retry").count() == 1
    assert "Look into the box." in page.inner_text("#detail")
    shot(page, "inspect-retry")
    page.get_by_role("button", name="attempt 0").click()
    page.get_by_text("turn 3 named as the first wrong one").click()
    assert "Turn 3 was wrong." in page.locator(".reflection").inner_text()
    page.get_by_role("tab", name="Branches side by side").click()
    assert "attempt 1" in page.locator(".versus").nth(1).inner_text()


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
    page.wait_for_timeout(200)
    assert (
        page.locator("#detail .card").inner_text().count("<img src=x onerror=alert(1)>⟨U+202E⟩<style>") >= 4
    )
    assert page.locator("img, #detail style").count() == 0


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
    page.locator("#detail .strip").wait_for()
    asked = page.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
    assert 1 <= len(asked) <= 3
    assert all(name.startswith(server.url + "data/") for name in asked)
