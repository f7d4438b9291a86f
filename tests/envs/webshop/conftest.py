"""Catalogues: a generated one, and WebShop's own where it is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnpoint.envs.webshop.settings import WebShopSettings
from turnpoint.envs.webshop.suite import WebShopSuite


@pytest.fixture(scope="session")
def generated() -> WebShopSuite:
    return WebShopSettings().build()


@pytest.fixture(scope="session")
def real_catalogue(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("webshop")
    facts = WebShopSettings.prepare(shared_data / "webshop" / "webshop_small.json.xz", folder)
    return Path(facts["catalogue"])


@pytest.fixture(scope="session")
def real(real_catalogue: Path) -> WebShopSuite:
    return WebShopSettings(catalogue=str(real_catalogue)).build()
