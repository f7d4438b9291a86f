"""Ten thousand episodes: the first view, scrolling and filtering stay quick."""

from __future__ import annotations

import time

import pytest

from inspector.samples import write_many
from turnpoint.inspector import plan, write_page

COUNT = 10_000


@pytest.fixture(scope="module")
def many(browser, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("many")
    write_many(folder / "episodes.jsonl", COUNT)
    written = write_page(plan(folder / "episodes.jsonl"), folder / "inspect.html")
    assert written.episodes == COUNT
    assert written.data is not None
    return written.page.as_uri()


def test_first_view_under_two_seconds(open_page, many: str) -> None:
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        page = open_page(many)
        page.locator("#list .item canvas").first.wait_for()
        seconds.append(time.perf_counter() - began)
    print(f"first view of {COUNT:,} episodes: {', '.join(f'{s:.2f}' for s in seconds)} s")
    assert min(seconds) < 2.0


def test_scrolling_keeps_few_rows_and_short_frames(open_page, many: str) -> None:
    page = open_page(many)
    page.locator("#list .item canvas").first.wait_for()
    median, work, rows = page.evaluate(
        """async () => {
          const list = document.getElementById('list'), frames = [];
          let most = 0;
          for (let i = 0; i < 100; i++) {
            const began = performance.now();
            list.scrollTop += i < 50 ? 300 : 9000;
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            frames.push(performance.now() - began);
            most = Math.max(most, document.querySelectorAll('#list .item').length);
          }
          frames.sort((a, b) => a - b);
          return [frames[50], frames[90], most];
        }"""
    )
    print(f"frames while scrolling: median {median:.0f} ms, 90th percentile {work:.0f} ms, {rows} rows")
    assert rows < 60
    assert median < 50


def test_the_last_episode_can_be_opened(open_page, shot, many: str) -> None:
    page = open_page(many)
    page.locator("#list .item").first.wait_for()
    began = time.perf_counter()
    page.keyboard.press("End")
    page.locator("#detail .strip").wait_for()
    print(f"opening the last episode: {time.perf_counter() - began:.2f} s")
    assert page.locator("#list .item[aria-selected=true]").get_attribute("aria-posinset") == str(COUNT)
    shot(page, "inspect-many")


def test_filtering_is_quick(open_page, many: str) -> None:
    page = open_page(many)
    page.locator("#list .item").first.wait_for()
    milliseconds = page.evaluate(
        """() => {
          const began = performance.now();
          TP.set({ q: 'cellar', end: 'failed' });
          return performance.now() - began;
        }"""
    )
    assert not page.inner_text("#count").startswith("10,000")
    print(f"filtering: {milliseconds:.0f} ms")
    assert milliseconds < 1000
