"""Every word that generated games of one configuration can show or accept."""

from __future__ import annotations

from collections.abc import Iterable

from turnpoint.envs.household import text
from turnpoint.envs.household.generator import PHRASES, Generator
from turnpoint.envs.household.goals import LOOK
from turnpoint.envs.household.layout import APPLIANCES, LAMP, lamp_stands
from turnpoint.envs.household.problem import HELP

COMMANDS = (
    "go to {place}",
    "open {place}",
    "close {place}",
    "take {thing} from {place}",
    "move {thing} to {place}",
    "examine {place}",
    "use {thing}",
    "heat {thing} with {place}",
    "clean {thing} with {place}",
    "cool {thing} with {place}",
    "slice {thing} with {place}",
    "inventory",
    "look",
    "help",
)
"""Forms of all commands."""


def sentence_texts() -> Iterable[str]:
    """Every fixed sentence of the engine, with names left out."""
    for pattern in (*text.ANSWERS.values(), *COMMANDS):
        yield pattern.format(thing="", place="", inside="")
    fixed = (text.WELCOME, text.UNKNOWN, text.EMPTY_HANDED, text.NOTHING, text.CLOSED, "Your task is to: ")
    patterns = (text.ROOM, text.FACING, text.ON, text.OPEN, text.REMINDER, text.SLICED, text.HOLDER, HELP)
    for pattern in (*fixed, *patterns, *(pattern for _, pattern in text.CONDITIONS)):
        yield pattern.format("", "")
    yield text.listing(["a", "a", "a"])


def generated_texts(generator: Generator) -> Iterable[str]:
    """Strings that together hold every word of the generator's games."""
    yield from sentence_texts()
    for kind in generator.settings.task_types:
        for phrase in PHRASES[kind]:
            yield phrase.format(thing="", place="")
    for name, most in (receptacle_limits(generator) | object_limits(generator)).items():
        yield name
        yield from (f"{name} {number}" for number in range(1, most + 1))


def receptacle_limits(generator: Generator) -> dict[str, int]:
    """Receptacle types that may appear and the highest number each can have."""
    settings, statistics = generator.settings, generator.statistics
    if generator.fixed is not None:
        kinds = [spot.kind for spot in generator.fixed]
        return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    kinds = [kind for room in settings.rooms for kind in statistics.receptacles[room]]
    kinds += [APPLIANCES[kind] for kind in settings.task_types if kind in APPLIANCES]
    kinds += lamp_stands(statistics) if LOOK in settings.task_types else ()
    return {kind: min(statistics.most[kind], settings.receptacles[1]) for kind in dict.fromkeys(kinds)}


def object_limits(generator: Generator) -> dict[str, int]:
    """Object types that may appear and the highest number each can have."""
    most = generator.settings.objects[1] + generator.settings.traps
    limits = dict.fromkeys(generator.types, most)
    return limits | ({LAMP: 1} if LOOK in generator.settings.task_types else {})
