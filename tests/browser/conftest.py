"""Pages in a real browser. Every page is checked for errors, requests and blocked content when it closes."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the samples of tests/inspector are used here too

from inspector.samples import write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
Open = Callable[..., "Page"]
# Milliseconds that a wait may take before it fails: a busy machine needs more than the usual 5 s of `expect`.
PATIENCE = 60_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="browser tests run by scripts/test-browser.sh")
    path = os.environ.get("TURNPOINT_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium was not found; set TURNPOINT_CHROMIUM")
    api.expect.set_options(timeout=PATIENCE)
    with api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, timeout=3 * PATIENCE)
        yield made
        made.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open an address; afterwards nothing may have failed, been blocked or been asked of a network."""
    contexts, faults = [], []

    def open_(url: str, *, width: int = 1280, height: int = 850, dark: bool = False, **options: Any) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", **options
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: m.type in ("error", "warning") and faults.append(f"console: {m.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on(
            "request",
            lambda r: r.url.startswith(("file:", "about:", "http://127.0.0.1:")) or faults.append(r.url),
        )
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture
def shot(tmp_path: Path) -> Callable[[Page, str], Path]:
    """Take a screenshot and return its path; kept where TURNPOINT_SCREENSHOTS says."""
    folder = Path(os.environ.get("TURNPOINT_SCREENSHOTS", tmp_path))

    def take(page: Page, name: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}.png")
        return folder / f"{name}.png"

    return take


@pytest.fixture(scope="session")
def run_folder(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "sample")


@pytest.fixture
def rng() -> random.Random:
    return random.Random(11)
