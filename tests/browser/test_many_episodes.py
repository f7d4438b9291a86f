"""Ten thousand episodes: the first view, scrolling and filtering stay quick."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from inspector.samples import write_many
from turnpoint.inspector import plan, write_page

expect = pytest.importorskip("playwright.sync_api", reason="scripts/test-browser.sh runs these").expect
COUNT = 10_000
TRIES = 6


@pytest.fixture(scope="module")
def many(browser, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("many")
    write_many(folder / "episodes.jsonl", COUNT)
    written = write_page(plan(folder / "episodes.jsonl"), folder / "inspect.html")
    assert written.episodes == COUNT
    assert written.data is not None
    return written.page.as_uri()


@contextmanager
def thread_seconds(page) -> Iterator[Callable[[], float]]:
    """Seconds of processor time that the page's main thread has used: the clock of a busy machine says little."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read() -> float:
        metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"]

    yield read
    session.detach()


def best(measure: Callable[[], float], target: float) -> float:
    """The least of several measurements: other work on the machine only ever adds. Ends once the target is met."""
    figures: list[float] = []
    while len(figures) < TRIES and min(figures, default=target) >= target:
        figures.append(measure())
    return min(figures)


def test_first_view_under_two_seconds(open_page, many: str) -> None:
    page = open_page(
        many
    )  # the page's process stays the same from here on, so that its clock can be read twice
    ready = page.locator("#list .item canvas").first
    ready.wait_for()

    def view() -> float:
        with thread_seconds(page) as read:
            before = read()
            page.reload()
            ready.wait_for()
            return read() - before

    used = best(view, target=2.0)
    assert 0 < used < 2.0, f"the first view of {COUNT:,} episodes takes {used:.2f} s of processor time"


@pytest.mark.parametrize(("pixels", "target"), [(250, 0.016), (9000, 0.033)])
def test_scrolling_keeps_few_rows_and_short_frames(open_page, many: str, pixels: int, target: float) -> None:
    page = open_page(many)
    page.locator("#list .item canvas").first.wait_for()
    frames, most_rows = 50, []

    def scroll() -> float:
        with thread_seconds(page) as read:
            before = read()
            rows = page.evaluate(
                """async ([frames, pixels]) => {
                  const list = document.getElementById('list');
                  list.scrollTop = 0;
                  let most = 0;
                  for (let i = 0; i < frames; i++) {
                    list.scrollTop += pixels;
                    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
                    most = Math.max(most, document.querySelectorAll('#list .item').length);
                  }
                  return most;
                }""",
                [frames, pixels],
            )
            most_rows.append(rows)
            return (read() - before) / frames

    each = best(scroll, target)
    assert 0 < max(most_rows) < 60
    assert each < target, (
        f"a frame that scrolls by {pixels} pixels takes {1000 * each:.1f} ms of processor time"
    )


def test_the_last_episode_can_be_opened(open_page, shot, many: str) -> None:
    page = open_page(many)
    page.locator("#list .item").first.wait_for()
    page.keyboard.press("End")
    page.locator("#detail .strip").wait_for()
    selected = page.locator("#list .item[aria-selected=true]")
    expect(selected).to_have_attribute("aria-posinset", str(COUNT))
    shot(page, "inspect-many")


def test_filtering_is_quick(open_page, many: str) -> None:
    page = open_page(many)
    page.locator("#list .item").first.wait_for()

    def filter_() -> float:
        page.evaluate("TP.set({ q: '', end: '' })")
        expect(page.locator("#count")).to_have_text(re.compile("^10,000"))
        with thread_seconds(page) as read:
            before = read()
            page.evaluate("TP.set({ q: 'cellar', end: 'failed' })")
            used = read() - before
        expect(page.locator("#count")).not_to_have_text(re.compile("^10,000"))
        return used

    used = best(filter_, target=1.0)
    assert 0 < used < 1.0, f"filtering takes {used:.2f} s of processor time"
