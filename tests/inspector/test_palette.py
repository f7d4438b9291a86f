"""Colours of the pages: readable in both themes, and told apart by colour-blind readers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from turnpoint.inspector.assets import asset

_LINEAR = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
_DEFECTS = {
    "protanopia": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
    "deuteranopia": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
}


def themes() -> dict[str, dict[str, np.ndarray]]:
    css = asset("base.css")
    light = css[css.index(":root {") : css.index("@media")]
    dark = css[css.index(':root[data-theme="dark"]') :]
    system = css[css.index("@media") : css.index(':root[data-theme="dark"]')]
    read = {name: _colours(part) for name, part in (("light", light), ("dark", dark), ("system", system))}
    assert all(np.array_equal(read["dark"][name], read["system"][name]) for name in read["dark"])
    return {"light": read["light"], "dark": read["dark"]}


def _colours(css: str) -> dict[str, np.ndarray]:
    found = re.findall(r"--([a-z0-9]+): #([0-9a-f]{6});", css)
    return {name: np.array([int(hexa[i : i + 2], 16) for i in (0, 2, 4)]) / 255 for name, hexa in found}


def _linear(colour: np.ndarray) -> np.ndarray:
    return np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)


def _contrast(a: np.ndarray, b: np.ndarray) -> float:
    high, low = sorted((float(_linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_marks_stand_out(theme: str) -> None:
    colours = themes()[theme]
    for ground in ("panel", "bg"):
        for name in ("ink", "muted", "accent"):
            assert _contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        for name in ("pos", "neg", "pivot", "oracle", "branch", "s0", "s1", "s2", "s3"):
            assert _contrast(colours[name], colours[ground]) >= 3.0, (name, ground)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("defect", sorted(_DEFECTS))
def test_good_and_bad_differ_for_colour_blind_readers(theme: str, defect: str) -> None:
    colours = themes()[theme]
    seen = np.linalg.inv(_LINEAR) @ _DEFECTS[defect] @ _LINEAR
    good, bad = (seen @ _linear(colours[name]) for name in ("pos", "neg"))
    assert np.linalg.norm(good - bad) > 0.25
